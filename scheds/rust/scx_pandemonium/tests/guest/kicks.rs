// SPDX-License-Identifier: GPL-2.0
//! No CPU is idle for a millisecond while a task waits that it may run.
//!
//! Whether that is so is read from the kernel's trace (support/idle_waits.rs), for
//! the tasks of three loads. The guest is asked for `idle-waits LOAD SECONDS`; the
//! answer: how many waits there were, and how long, in us, a CPU was idle for the
//! task in the worst of them, with its name.
//!
//! - `freed`: two hogs share a CPU, all others are idle; then one of them may run
//!   anywhere. It leaves when its slice ends, without a wakeup.
//! - `moved`: hogs share a CPU, and one after the other is sent anywhere, to
//!   another CPU, and back, while it waits as often as not.
//! - `sleepers`: short tasks that leave a CPU idle now and then, movable, pinned,
//!   and in pairs: some are queued just while a CPU goes idle.
//! - `called`: a caller wakes as many as there are CPUs and sleeps. The last of
//!   them finds no idle CPU, only some on their way to those called before it.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::stats::Found;
use crate::support::idle_waits::{IdleTrace, WATCHED, restrict};
use crate::support::work::{hog, join, spawn, spin_until, work};

const NR_CPUS: u32 = 4;
const ALL_CPUS: u64 = (1 << NR_CPUS) - 1;

/// The longest that a CPU may be idle while a task waits for it, in us. Judged over
/// draws for now: in one of ten, `called` had 1,071 for one of 15,581 waits.
const WASTED_MAX_US: u64 = 1_000;

/// The least number of waits that show something.
const NR_WAITS_MIN: u64 = 100;

/// How long the hogs of `freed` share the CPU before one is freed, and how long
/// that one may be anywhere.
const SHARED: Duration = Duration::from_millis(8);
const FREE: Duration = Duration::from_millis(8);

/// How often a hog of `moved` is moved, and how many there are.
const MOVE_INTERVAL: Duration = Duration::from_micros(700);
const NR_MOVED: usize = 3;

/// The sleepers: how many can move, and how long they work and sleep, a little
/// longer for each. With those that cannot and the pairs, they want more than the
/// CPUs have, but not always.
const NR_SLEEPERS: u32 = 10;
const SLEEPER_BURST: Duration = Duration::from_micros(230);
const SLEEPER_PAUSE: Duration = Duration::from_micros(530);
const SLEEPER_STEP: Duration = Duration::from_micros(37);
const NR_PAIRS: u32 = 2;
const PAIR_BURST: Duration = Duration::from_micros(40);

/// Called so often, each works for so long: longer than a CPU may be idle
/// meanwhile. Between calls an errand is run that is no match for them.
const CALL_INTERVAL: Duration = Duration::from_millis(4);
const CALL_BURST: Duration = Duration::from_micros(1_300);
const ERRAND_BURST: Duration = Duration::from_millis(6);
const ERRAND_PAUSE: Duration = Duration::from_millis(9);

/// The loads, and for how many seconds each goes on. Of 0.5 s of calls one in ten
/// finds a CPU that two tasks took for idle where that is easy, and fewer where it
/// takes more of a coincidence.
const LOADS: [(&str, f64); 4] = [
    ("freed", 0.5),
    ("moved", 0.5),
    ("sleepers", 0.5),
    ("called", 16.0),
];

/// The request of that name.
pub fn idle_waits(words: &[&str]) -> Result<String> {
    let [load, seconds] = words else {
        bail!("idle-waits LOAD SECONDS");
    };
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    let trace = IdleTrace::begin(ALL_CPUS)?;
    let ends_at = Instant::now() + seconds;
    match *load {
        "freed" => run_freed(ends_at)?,
        "moved" => run_moved(ends_at)?,
        "sleepers" => run_sleepers(ends_at)?,
        "called" => run_called(ends_at)?,
        _ => bail!("no such load"),
    }
    let found = trace.end()?;
    Ok(format!(
        "{} {} {}",
        found.nr_waits, found.most_us, found.name
    ))
}

/// Start a thread that is watched on the CPUs of `mask`, and does `act`.
fn spawn_watched(
    name: &str,
    mask: u64,
    act: impl FnOnce(i32) -> Result<()> + Send + 'static,
) -> Result<thread::JoinHandle<Result<()>>> {
    spawn(&format!("{WATCHED}_{name}"), move || {
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        restrict(tid, mask, mask)?;
        act(tid)
    })
}

fn run_freed(ends_at: Instant) -> Result<()> {
    let hog = spawn_watched("hog", 1, move |_| {
        spin_until(ends_at);
        Ok(())
    })?;
    let freed = spawn_watched("freed", 1, move |tid| {
        while Instant::now() < ends_at {
            spin_until(Instant::now() + SHARED);
            restrict(tid, 1, ALL_CPUS)?;
            spin_until(Instant::now() + FREE);
            restrict(tid, ALL_CPUS, 1)?;
        }
        Ok(())
    })?;
    join(hog)?;
    join(freed)
}

fn run_moved(ends_at: Instant) -> Result<()> {
    // None is gone while it is moved.
    let is_over = Arc::new(AtomicBool::new(false));
    let until_over = Arc::clone(&is_over);
    let mut threads = vec![spawn_watched("hog", 1, move |_| {
        hog(&until_over);
        Ok(())
    })?];
    let (tell, hear) = mpsc::channel();
    for _ in 0..NR_MOVED {
        let (tell, until_over) = (tell.clone(), Arc::clone(&is_over));
        threads.push(spawn_watched("moved", 1, move |tid| {
            tell.send(tid)?;
            hog(&until_over);
            Ok(())
        })?);
    }
    let tids: Result<Vec<i32>, _> = (0..NR_MOVED).map(|_| hear.recv()).collect();
    let (tids, mut before) = (tids?, [1; NR_MOVED]);
    for nr in 0.. {
        if Instant::now() + MOVE_INTERVAL >= ends_at {
            break;
        }
        sleep(MOVE_INTERVAL);
        let which = nr % NR_MOVED;
        let mask = [ALL_CPUS, 1, 1 << (nr % NR_CPUS as usize), 1][nr / NR_MOVED % 4];
        restrict(tids[which], before[which], mask)?;
        before[which] = mask;
    }
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().try_for_each(join)
}

fn run_sleepers(ends_at: Instant) -> Result<()> {
    let mut threads = Vec::new();
    for nr in 0..NR_SLEEPERS + NR_CPUS {
        let mask = match nr.checked_sub(NR_SLEEPERS) {
            Some(cpu) => 1 << cpu,
            None => ALL_CPUS,
        };
        threads.push(spawn_watched("sleeper", mask, move |_| {
            while Instant::now() < ends_at {
                work(SLEEPER_BURST);
                sleep(SLEEPER_PAUSE + SLEEPER_STEP * nr);
            }
            Ok(())
        })?);
    }
    for _ in 0..NR_PAIRS {
        threads.extend(spawn_pair(ends_at)?);
    }
    threads.into_iter().try_for_each(join)
}

fn run_called(ends_at: Instant) -> Result<()> {
    let mut called = Vec::new();
    let (tell, hear) = mpsc::channel();
    for _ in 0..NR_CPUS {
        let tell = tell.clone();
        called.push(spawn_watched("called", ALL_CPUS, move |_| {
            let calls = Arc::new(AtomicI32::new(0));
            tell.send((thread::current(), Arc::clone(&calls)))?;
            while Instant::now() < ends_at {
                thread::park_timeout(10 * CALL_INTERVAL);
                if calls.swap(0, Ordering::SeqCst) > 0 {
                    work(CALL_BURST);
                }
            }
            Ok(())
        })?);
    }
    let errand = spawn("errand", move || {
        while Instant::now() < ends_at {
            work(ERRAND_BURST);
            sleep(ERRAND_PAUSE);
        }
        Ok(())
    })?;
    let lines: Result<Vec<_>, _> = (0..NR_CPUS).map(|_| hear.recv()).collect();
    let lines = lines?;
    while Instant::now() < ends_at {
        sleep(CALL_INTERVAL);
        for (thread, calls) in &lines {
            calls.fetch_add(1, Ordering::SeqCst);
            thread.unpark();
        }
    }
    join(errand)?;
    called.into_iter().try_for_each(join)
}

/// Two threads that work in turns, and wake each other by a futex.
fn spawn_pair(ends_at: Instant) -> Result<Vec<thread::JoinHandle<Result<()>>>> {
    let turn = Arc::new(AtomicI32::new(0));
    let (tell_second, hear_second) = mpsc::channel::<thread::Thread>();
    let (tell_first, hear_first) = mpsc::channel::<thread::Thread>();
    let take_turns = move |turn: Arc<AtomicI32>, ours: i32, other: thread::Thread| {
        while Instant::now() < ends_at {
            if turn.load(Ordering::SeqCst) == ours {
                work(PAIR_BURST);
                turn.store(1 - ours, Ordering::SeqCst);
                other.unpark();
            }
            // The other one may be gone.
            thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    };
    let turn_too = Arc::clone(&turn);
    let first = spawn_watched("pair", ALL_CPUS, move |_| {
        tell_second.send(thread::current())?;
        take_turns(turn, 0, hear_first.recv()?)
    })?;
    let second = spawn_watched("pair", ALL_CPUS, move |_| {
        tell_first.send(thread::current())?;
        take_turns(turn_too, 1, hear_second.recv()?)
    })?;
    Ok(vec![first, second])
}

fn no_cpu_is_idle_for_long(kernel: &Kernel) -> Result<()> {
    let facts =
        LOADS.map(|(load, seconds)| format!("fact {load} $(agent idle-waits {load} {seconds})\n"));
    let script = format!("begin\n{}stop INT\n", facts.concat());
    let told = OURS.flat(kernel, NR_CPUS)?.run(&script)?;
    let mut wrong = Vec::new();
    for (load, _) in LOADS {
        let line: String = told.one(load)?;
        println!("{load}: waits, most us of one in which a CPU was idle for it: {line}");
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        ensure!(words.len() == 3, "not an answer: {line}");
        let (nr_waits, most_us): (u64, u64) = (words[0].parse()?, words[1].parse()?);
        if nr_waits < NR_WAITS_MIN {
            wrong.push(format!("{load}: only {nr_waits} waits"));
        }
        if most_us > WASTED_MAX_US {
            let name = words[2];
            wrong.push(format!(
                "{load}: a CPU was idle for {most_us} us while {name} waited for it"
            ));
        }
    }
    told.check(wrong.is_empty(), || wrong.join("; "))?;
    told.check_stops()
}

/// Pairs of tasks that sleep and wake on six CPUs of eight, pinned: no other CPU
/// has work.
const PINNED_SCRIPT: &str = "\
begin
crowd pairs 0.7 pipe*1@0+1 pipe*1@2+3 pipe*1@4+5 &
usleep 300000
fact stats $(agent stats-of-ms 300)
wait $!
stop INT
";

/// How often a CPU may look for work in vain, for each wakeup, in percent. It does
/// once for each task that sleeps.
const EMPTY_FOR_WAKEUP_MAX_PCT: u64 = 105;

fn no_idle_cpu_looks_again_in_vain(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 8)?.run(PINNED_SCRIPT)?;
    let found = told.one("stats")?;
    let found = Found { told: &told, found };
    let nr_empty = found.count("nr_dispatch_empty")?;
    let nr_wakeups = found.count("nr_enq_wakeup")?;
    println!("looks for work in vain {nr_empty}, wakeups {nr_wakeups}");
    told.check(
        nr_empty * 100 <= nr_wakeups * EMPTY_FOR_WAKEUP_MAX_PCT,
        || format!("idle CPUs looked in vain {nr_empty} times beside {nr_wakeups} wakeups"),
    )?;
    told.check_stops()
}

figure!(
    no_idle_cpu_looks_for_work_that_only_another_may_do,
    no_idle_cpu_looks_again_in_vain
);

figure!(
    no_cpu_is_idle_for_a_millisecond_while_a_task_waits,
    [lts, newest],
    no_cpu_is_idle_for_long
);
