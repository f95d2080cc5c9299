//! Which steps of a protocol are needed so that no CPU stays idle while a task is queued.
//!
//! Each line that a test prints has the states that were visited, the time, and the length of the
//! shortest counterexample of each property that is broken; with `SHOW=1` its steps follow.

use idle_model::machine::{Budget, Machine, NO_SPINNING, NO_TASK_LATE, NO_TASK_LOST, UpdateIdle};
use idle_model::memory::Ordering::{self, SequentiallyConsistent as Sc, Tso, Weak};
use idle_model::protocol::{Arms, Protocol, Publish, SecondLook};
use idle_model::{Report, check, search};

const TIMED: Protocol = Protocol::TIMED;
const UNTIMED: Protocol = Protocol::UNTIMED;

type World = fn(Protocol, Ordering) -> Machine;

/// Return `base` with a change.
fn but<T>(mut base: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut base);
    base
}

/// Two CPUs, three tasks that may use both, one slice that ends.
fn two_cpus(protocol: Protocol, ordering: Ordering) -> Machine {
    Machine {
        ordering,
        update_idle: UpdateIdle::MaskFirst,
        protocol,
        nr_cpus: 2,
        allowed: vec![0b11; 3],
        nr_wakeups: 1,
        budget: Budget {
            slice_ends: 1,
            ..Budget::default()
        },
    }
}

/// Two tasks that wake twice each: a CPU that was claimed may come too late.
fn two_wakeups(protocol: Protocol, ordering: Ordering) -> Machine {
    but(two_cpus(protocol, ordering), |m| {
        (m.nr_wakeups, m.allowed) = (2, vec![0b11; 2])
    })
}

/// A queued task is queued again, perhaps while a CPU takes it.
fn requeue(protocol: Protocol, ordering: Ordering) -> Machine {
    but(two_cpus(protocol, ordering), |m| {
        (m.budget.slice_ends, m.budget.requeues) = (0, 1)
    })
}

/// Two CPUs, two tasks, and an intruder.
fn intruder(protocol: Protocol, ordering: Ordering) -> Machine {
    but(two_cpus(protocol, ordering), |m| {
        (m.budget.intruders, m.allowed) = (1, vec![0b11; 2])
    })
}

/// An intruder, and a third task, which is pinned.
fn pinned(protocol: Protocol, ordering: Ordering) -> Machine {
    but(requeue(protocol, ordering), |m| {
        (m.budget.requeues, m.budget.intruders, m.allowed) = (0, 1, vec![0b11, 0b11, 0b01]);
    })
}

/// Three CPUs, three tasks, two of which may use only some of them.
fn three_cpus(protocol: Protocol, ordering: Ordering) -> Machine {
    but(two_cpus(protocol, ordering), |m| {
        (m.nr_cpus, m.budget.slice_ends, m.allowed) = (3, 0, vec![0b111, 0b011, 0b011]);
    })
}

/// Three CPUs, one task, and two intruders: the first preempts it, the second takes the CPU that
/// it is to go to.
fn two_intruders(protocol: Protocol, ordering: Ordering) -> Machine {
    but(three_cpus(protocol, ordering), |m| {
        (m.budget.intruders, m.allowed) = (2, vec![0b111]);
    })
}

const WORLDS: [World; 6] = [
    two_cpus,
    two_wakeups,
    requeue,
    intruder,
    three_cpus,
    two_intruders,
];

fn print(name: &str, machine: &Machine, report: &Report) {
    let (cpus, tasks) = (machine.nr_cpus, machine.allowed.len());
    let world = format!("{:?}, {:?}", machine.ordering, machine.update_idle);
    let broken: Vec<_> = report
        .broken
        .iter()
        .map(|(p, s)| format!("{p}: {}", s.len()))
        .collect();
    let (states, took) = (report.nr_states, report.took.as_secs_f32());
    println!(
        "{name:28} {world:37} {cpus} x {tasks} {states:9} {took:5.1} s  {}",
        broken.join(", ")
    );
    if std::env::var_os("SHOW").is_some() {
        println!("{:#?}", report.broken);
    }
}

/// No task is lost in any state.
fn holds(name: &str, machine: Machine) -> Report {
    let report = check(machine.clone());
    print(name, &machine, &report);
    assert_eq!(report.counterexample(NO_TASK_LOST), None, "{name}");
    report
}

/// There is a way to break `property`.
fn breaks(name: &str, machine: Machine, property: &'static str) {
    let report = search(machine.clone(), property);
    print(name, &machine, &report);
    assert!(
        report.counterexample(property).is_some(),
        "{name}: no counterexample"
    );
}

/// A task is lost once `change` has left out a step of `protocol`.
fn needs(
    protocol: Protocol,
    name: &str,
    world: World,
    ordering: Ordering,
    change: fn(&mut Protocol),
) {
    breaks(name, world(but(protocol, change), ordering), NO_TASK_LOST);
}

/// `protocol` needs the steps that both protocols have.
fn needs_each_step_of_both(protocol: Protocol) {
    let without = |name, ordering, change| needs(protocol, name, two_cpus, ordering, change);
    without("barrier after counting", Weak, |p| p.publish = Publish::Add);
    without("atomic count", Tso, |p| p.publish = Publish::Store);
    without("count before the look", Sc, |p| p.counts_first = false);
    without("barrier in update_idle", Weak, |p| p.idle_barrier = false);
}

#[test]
fn the_timed_protocol_loses_no_task_and_does_not_spin() {
    for ordering in [Tso, Weak] {
        for update_idle in [UpdateIdle::MaskFirst, UpdateIdle::CallbackFirst] {
            for world in WORLDS {
                let machine = but(world(TIMED, ordering), |m| m.update_idle = update_idle);
                let report = holds("timed", machine);
                assert_eq!(report.counterexample(NO_SPINNING), None);
            }
        }
    }
    holds("timed, pinned", pinned(TIMED, Tso));
}

#[test]
fn the_timed_protocol_needs_each_step() {
    let without = |name, world, ordering, change| needs(TIMED, name, world, ordering, change);
    needs_each_step_of_both(TIMED);
    without("enqueue arms", two_cpus, Sc, |p| {
        p.enqueue_arms = Arms::Never
    });
    // A CPU that was claimed is in no mask but the scheduler's own.
    without("own mask", two_wakeups, Sc, |p| {
        p.enqueue_arms = Arms::IfClaimed
    });
    without("update_idle arms", two_cpus, Sc, |p| p.idle_arms = false);
    without("barrier in the timer", two_wakeups, Tso, |p| {
        p.timer_barrier = false;
    });
    without("timer arms again", two_wakeups, Sc, |p| {
        p.timer_rearms = false
    });
}

/// The timer finds what they miss.
#[test]
fn claim_and_second_look_are_for_speed() {
    for world in WORLDS {
        holds("no claim", world(but(TIMED, |p| p.claims = false), Sc));
        holds(
            "no second look",
            world(but(TIMED, |p| p.second_look = SecondLook::Off), Sc),
        );
    }
}

/// One that is armed while a task is counted, whether a CPU is idle or not, needs nothing else.
#[test]
fn a_timer_that_runs_under_load_suffices() {
    let simple = but(TIMED, |p| {
        p.enqueue_arms = Arms::Always;
        (p.idle_arms, p.idle_barrier) = (false, false);
        (p.claims, p.second_look) = (false, SecondLook::Off);
    });
    for world in WORLDS {
        holds("always armed", world(simple, Weak));
    }
    let relaxed = but(simple, |p| p.publish = Publish::Add);
    breaks(
        "always armed, no barrier",
        two_wakeups(relaxed, Weak),
        NO_TASK_LOST,
    );
}

/// Each atomic operation is a full barrier there, and the kernel sets its mask by one. The timer
/// has its barrier in either case.
#[test]
fn x86_needs_no_barrier_of_its_own() {
    let relaxed = but(TIMED, |p| {
        (p.publish, p.idle_barrier) = (Publish::Add, false)
    });
    for world in WORLDS {
        holds("no barriers", world(relaxed, Tso));
    }
}

/// Windows that only the timer covers.
#[test]
fn the_timed_protocol_may_be_late() {
    breaks("not inserted yet", two_cpus(TIMED, Sc), NO_TASK_LATE);
    let awaited = but(TIMED, |p| p.awaited_look = true);
    breaks("claimed in vain", two_wakeups(awaited, Sc), NO_TASK_LATE);
    let claimed = but(awaited, |p| p.claimed_look = true);
    breaks(
        "claimed, runs something else",
        two_intruders(claimed, Sc),
        NO_TASK_LATE,
    );
    let old = |m: &mut Machine| m.update_idle = UpdateIdle::CallbackFirst;
    breaks(
        "mask after callback",
        but(two_cpus(claimed, Sc), old),
        NO_TASK_LATE,
    );
}

#[test]
fn the_untimed_protocol_loses_no_task_to_itself() {
    for ordering in [Tso, Weak] {
        for world in [two_cpus, two_wakeups, requeue, intruder, three_cpus] {
            holds("untimed", world(UNTIMED, ordering));
        }
    }
}

#[test]
fn the_untimed_protocol_needs_each_step() {
    let without = |name, world, ordering, change| needs(UNTIMED, name, world, ordering, change);
    needs_each_step_of_both(UNTIMED);
    without("claim", two_cpus, Sc, |p| p.claims = false);
    without("second look", two_cpus, Sc, |p| {
        p.second_look = SecondLook::Off
    });
    without("second look at the count", two_cpus, Sc, |p| {
        p.second_look = SecondLook::Queue
    });
    without("look for what is awaited", two_cpus, Sc, |p| {
        p.awaited_look = false
    });
    without("look when claimed", two_wakeups, Sc, |p| {
        p.claimed_look = false
    });
}

/// What the timer is for.
#[test]
fn the_untimed_protocol_fails() {
    // The CPU that was claimed runs something else, and nobody kicks another one.
    breaks("intruder", two_intruders(UNTIMED, Sc), NO_TASK_LOST);
    // A task that was taken waits in a local DSQ: all the while idle CPUs look for it.
    breaks("awaited for long", two_wakeups(UNTIMED, Sc), NO_SPINNING);
    // A CPU that has looked is not in the mask yet.
    let old = |m: &mut Machine| m.update_idle = UpdateIdle::CallbackFirst;
    breaks("old kernel", but(two_cpus(UNTIMED, Sc), old), NO_TASK_LOST);
    let kicks_own = but(UNTIMED, |p| p.kicks_own = true);
    holds("old kernel, own mask", but(two_cpus(kicks_own, Sc), old));
}
