//! A model of the protocol "no CPU stays idle while a task is queued", for a model checker.
//!
//! [`machine`] has the states, `kernel` the steps of the kernel, `callbacks` those of ours,
//! [`memory`] the delay of stores, and [`protocol`] the parts that a protocol may have or not.
//! `tests/protocols.rs` leaves out each part and expects a counterexample. To see them:
//! `SHOW=1 cargo test -p idle_model -- --nocapture`.
//!
//! # The property
//!
//! A state is *quiet* if no CPU has a step to take: something has to come from outside (a wakeup,
//! a sleep, the end of a slice, a task of another class) or the timer has to fire.
//!
//! - `no task is lost`: in a quiet state no CPU is idle while a task is in the queue that it may
//!   run, unless the timer is armed and has not fired twice since anything happened.
//! - `no task is late`: not even until the timer fires.
//! - `no CPU spins`: no CPU schedules again and again in vain while the others rest.
//!
//! All three are invariants of states, so the checker needs no fairness and misses no cycle.
//!
//! # What the kernel does
//!
//! Read in `kernel/sched/ext.c`, `ext_idle.c`, `idle.c` and `core.c`, Linux 6.12 to 7.x.
//!
//! - **Wakeup.** `ops.select_cpu()` runs on the waker's CPU without a runqueue lock. A claim is
//!   `test_and_clear_bit()` on the idle mask; the task goes into the local DSQ of the claimed CPU,
//!   which is rescheduled if it is idle. Else `ops.enqueue()` runs on the waker's CPU, with
//!   interrupts off and the lock of the wakee's runqueue held. `scx_bpf_dsq_insert()` only takes
//!   a note there: `do_enqueue_task()` inserts after `ops.enqueue()` has returned, and no callback
//!   follows.
//! - **Kick.** `scx_bpf_kick_cpu(SCX_KICK_IDLE)` drops the kick if the target's lock is free and
//!   `can_skip_idle_kick()`: the target runs a task and is not in `balance_one()`. Else an
//!   `irq_work` of the caller's CPU checks that again under the lock. So a kick takes effect after
//!   the insertion, and not at all if the target runs something by then.
//! - **Schedule.** `__schedule()` takes the lock and has a full barrier. `balance_one()` keeps a
//!   task that has slice left, else takes from the local DSQ, else calls `ops.dispatch()`. To take
//!   a task of another runqueue it drops its lock. A kick that comes then is forgotten when the
//!   next task is picked; the task may be lost to a dequeue. The previous task is queued again
//!   after `ops.dispatch()`.
//! - **Idle.** `set_next_task_idle()` sets the bit in the idle mask (`set_bit()`, no barrier on
//!   arm64) and calls `ops.update_idle(cpu, true)`; before Linux 6.16 in the other order. From
//!   idle to idle `pick_task_idle()` sets the bit again and calls nobody. So the bit of a CPU that
//!   was claimed in vain comes back, and no callback says so.
//!
//! # What our scheduler does
//!
//! [`Protocol::TIMED`](protocol::Protocol::TIMED), in the room `newidle`: a count, a mask of idle
//! CPUs and a timer of our own for each domain.
//!
//! 1. `ops.enqueue()`: add 1 to the count by an atomic operation whose result is used, which is a
//!    full barrier. Claim an idle CPU and kick it. If the own mask has a CPU that the task may use,
//!    arm the timer, unless it is armed.
//! 2. `ops.update_idle(cpu, true)`: set the bit in the own mask; full barrier. If the count is not
//!    0, kick the own CPU and arm the timer. `ops.update_idle(cpu, false)`: clear the bit.
//! 3. The timer: note that it is not armed; full barrier. Claim and kick an idle CPU for each
//!    queued task. If the count is not 0 and the own mask not empty, arm it again.
//! 4. `ops.running()`: subtract 1 from the count; no barrier.
//!
//! Each barrier stands between "store mine" and "load yours", so at least one side sees the other
//! and arms. Whether the timer is armed has to be read after the barrier, too. Each of these steps
//! is needed but two: the claim and the kick of the own CPU only make it fast. On x86 every atomic
//! operation is a full barrier, and the kernel sets its mask by one: there the note of the timer
//! alone needs care, `__sync_lock_test_and_set()`. `ops.dispatch()` has no part in it.
//!
//! Four windows are left to the timer: a task that is counted and not inserted yet; a CPU that was
//! claimed for another task and looks in vain; before Linux 6.16, one that has looked and is not in
//! the kernel's mask yet; and a CPU that was claimed and runs something else.
//!
//! # What else was tried
//!
//! [`Protocol::UNTIMED`](protocol::Protocol::UNTIMED), which the scheduler had before, in five
//! rooms: an idle CPU looks again if more tasks are counted than queued, and if it was claimed, each
//! 0.1 ms. That closes the first two windows without a timer of the domain, but none of it covers a
//! claimed CPU that runs something else while a third one is idle, and a CPU spins while a task
//! waits in the local DSQ of another.
//!
//! Simpler than both: `ops.enqueue()` always arms the timer, and the timer itself while the count is
//! not 0. Then neither the own mask nor `ops.update_idle()` is needed, but the timer fires all the
//! time under load.
//!
//! # Not in the model
//!
//! Bypass, hotplug, SMT masks, more than one queue, and loads that are reordered among themselves:
//! all that matter are behind a barrier. A task in a local DSQ is not *queued*:
//! if it waits there behind another one, or behind another class, that is up to the grant of a
//! CPU, `SCX_ENQ_IMMED` and `ops.cpu_release()`.

mod callbacks;
mod kernel;
pub mod machine;
pub mod memory;
pub mod protocol;

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use machine::Machine;

/// What the checker says of one machine.
#[derive(Debug)]
pub struct Report {
    /// States that were visited.
    pub nr_states: usize,
    /// How long that took.
    pub took: Duration,
    /// The shortest counterexample of each property that does not hold.
    pub broken: Vec<(&'static str, Vec<String>)>,
}

/// Visit all states of `machine`.
pub fn check(machine: Machine) -> Report {
    visit(machine, HasDiscoveries::All)
}

/// Visit states of `machine` until `property` is broken, or all.
pub fn search(machine: Machine, property: &'static str) -> Report {
    visit(machine, HasDiscoveries::AnyOf([property].into()))
}

/// The shallowest states first, by one thread: so that each counterexample is a shortest one.
fn visit(machine: Machine, until: HasDiscoveries) -> Report {
    let begin = Instant::now();
    let checker = machine
        .clone()
        .checker()
        .threads(1)
        .finish_when(until)
        .spawn_bfs()
        .join();
    let steps = |path: Vec<_>| {
        let steps = path
            .into_iter()
            .filter_map(|(state, action)| Some((state, action?)));
        steps
            .map(|(state, action)| machine.describe(&state, action))
            .collect()
    };
    let broken = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| (name, steps(path.into_vec())));
    let mut broken: Vec<_> = broken.collect();
    broken.sort();
    Report {
        nr_states: checker.unique_state_count(),
        took: begin.elapsed(),
        broken,
    }
}

impl Report {
    /// The counterexample of `property`, if it does not hold.
    pub fn counterexample(&self, property: &str) -> Option<&[String]> {
        let broken = self.broken.iter().find(|(name, _)| *name == property);
        broken.map(|(_, steps)| steps.as_slice())
    }
}
