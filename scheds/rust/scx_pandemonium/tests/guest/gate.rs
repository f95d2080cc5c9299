// SPDX-License-Identifier: GPL-2.0
//! A new task goes before batch work if its parent does, and only as often as the
//! gate has tokens.
//!
//! - `children`: with hogs on all CPUs, a thread that goes before batch work starts
//!   others one by one, with pauses, then many at once; a hog starts some, with
//!   pauses. Each notes how long it has waited for a CPU, and sleeps. The answer
//!   is a line for each of `single`, `burst` and `fed`: how many there were, how many
//!   of them are served before batch work, and the median wait in us.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::{OURS, tasks_of};
use crate::support::telemetry::Stats;
use crate::support::work::{hog, join, spawn, work};

const NR_CPUS: u32 = 4;
const NR_HOGS: u32 = 2 * NR_CPUS;

/// Time in which the bucket is full again, and more.
const PAUSE: Duration = Duration::from_millis(30);
const NR_SINGLE: usize = 5;
const NR_BURST: usize = 40;

/// How often the parent sleeps before it is known, and how long it works then.
const NR_SLEEPS: u32 = 20;
const SLEEP: Duration = Duration::from_millis(5);
const BURST: Duration = Duration::from_micros(200);

/// Wakeups from which on a task is known (`AGE_GATE` of policy/classify.h).
const NR_WAKEUPS_KNOWN: u64 = 2;

/// CPU time that makes batch work of a hog.
const LONG_BURST: Duration = Duration::from_millis(20);

/// So many tokens are in a full bucket, and in so many ms a CPU earns one
/// (policy/gate.h).
const NR_TOKENS: u64 = NR_CPUS as u64;
const REFILL_MS: u64 = 20;

/// An admitted child waits no longer than that, in us: a CPU is preempted for it.
const ADMITTED_WAIT_MAX_US: u64 = 100;

const SCRIPT: &str = "\
begin
agent children >/tmp/children || give_up 'the children failed'
tell children /tmp/children
stop INT
";

/// Threads that a test starts and that sleep once they ran.
struct Children {
    kind: &'static str,
    is_over: Arc<AtomicBool>,
    /// In us, of one child after the other; no lock, on which a child would sleep.
    waits_us: Arc<[AtomicU64]>,
    threads: Vec<thread::JoinHandle<Result<()>>>,
    took: Duration,
}

impl Children {
    /// Start `nr` of them, each after `pause`.
    fn start(kind: &'static str, nr: usize, pause: impl Fn()) -> Result<Children> {
        let mut children = Children {
            kind,
            is_over: Arc::new(AtomicBool::new(false)),
            waits_us: (0..nr).map(|_| AtomicU64::new(0)).collect(),
            threads: Vec::new(),
            took: Duration::ZERO,
        };
        let started_at = Instant::now();
        for child in 0..nr {
            pause();
            let (is_over, waits_us) = (children.is_over.clone(), children.waits_us.clone());
            children.threads.push(spawn(kind, move || {
                waits_us[child].store(run_delay_us()?, Ordering::Relaxed);
                while !is_over.load(Ordering::Relaxed) {
                    thread::park();
                }
                Ok(())
            })?);
        }
        children.took = started_at.elapsed();
        Ok(children)
    }

    /// End them, and tell what became of them, by the list of tasks.
    fn end(self, tasks: &[Value]) -> Result<String> {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.thread().unpark();
            join(thread)?;
        }
        let ours = || tasks.iter().filter(|task| task["comm"] == self.kind);
        // One that slept more often is known by itself and needs no token.
        let nr_before_batch = ours().filter(|task| {
            task["served_tier"] != "batch" && task["age"].as_u64() < Some(NR_WAKEUPS_KNOWN)
        });
        let mut waits_us: Vec<u64> = (self.waits_us.iter())
            .map(|wait_us| wait_us.load(Ordering::Relaxed))
            .collect();
        waits_us.sort_unstable();
        Ok(format!(
            "{} {} {} {} {}",
            self.kind,
            ours().count(),
            nr_before_batch.count(),
            waits_us.get(waits_us.len() / 2).context("no child ran")?,
            self.took.as_millis()
        ))
    }
}

/// How long this thread was runnable and did not run, in us, as the kernel counts it.
fn run_delay_us() -> Result<u64> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let delay_ns = schedstat
        .split_whitespace()
        .nth(1)
        .context("no run delay")?;
    Ok(delay_ns.parse::<u64>()? / 1000)
}

/// The request of that name.
pub fn children() -> Result<String> {
    let mut stats = Stats::connect()?;
    // The first answer takes longer.
    stats.ask("tasks")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut hogs = Vec::new();
    for _ in 0..NR_HOGS {
        let is_over = is_over.clone();
        hogs.push(spawn("hog", move || {
            hog(&is_over);
            Ok(())
        })?);
    }
    let parent = spawn("parent", || {
        for _ in 0..NR_SLEEPS {
            thread::sleep(SLEEP);
            work(BURST);
        }
        let single = Children::start("single", NR_SINGLE, || thread::sleep(PAUSE))?;
        thread::sleep(PAUSE);
        Ok((single, Children::start("burst", NR_BURST, || ())?))
    })?;
    let (single, burst) = join(parent)?;
    let fed = join(spawn("hog_parent", || {
        Children::start("fed", NR_SINGLE, || work(LONG_BURST))
    })?)?;
    // All have run by then.
    thread::sleep(PAUSE * 4);
    let list = stats.ask("tasks")?;
    let tasks = tasks_of(&list)?;
    let lines: Result<Vec<String>> = [single, burst, fed]
        .into_iter()
        .map(|children| children.end(tasks))
        .collect();
    is_over.store(true, Ordering::Relaxed);
    hogs.into_iter().try_for_each(join)?;
    Ok(lines?.join("\n"))
}

fn admits(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(SCRIPT)?;
    let lines: Vec<String> = told.all("children")?;
    for line in &lines {
        println!("children, before batch work, median wait in us, born in ms: {line}");
    }
    let numbers = |line: &str| -> Result<Vec<u64>> {
        Ok(line
            .split(' ')
            .skip(1)
            .map(str::parse)
            .collect::<Result<_, _>>()?)
    };
    let lines: Result<Vec<Vec<u64>>> = lines.iter().map(|line| numbers(line)).collect();
    let lines = lines?;
    let [single, burst, fed] = lines.as_slice() else {
        bail!("not three lines");
    };
    let nr_single = NR_SINGLE as u64;
    told.check(single[..2] == [nr_single, nr_single], || {
        format!("of single children {single:?} went before batch work")
    })?;
    told.check(single[2] <= ADMITTED_WAIT_MAX_US, || {
        format!("single children waited {} us", single[2])
    })?;
    // One token more may have been earned than whole intervals have passed.
    let most = NR_TOKENS + 1 + burst[3] * u64::from(NR_CPUS) / REFILL_MS;
    told.check(
        burst[0] == NR_BURST as u64 && (NR_TOKENS..=most).contains(&burst[1]),
        || format!("of a burst {burst:?} went before batch work, not {NR_TOKENS} to {most}"),
    )?;
    told.check(fed[..2] == [nr_single, 0], || {
        format!("of the children of a hog {fed:?} went before batch work")
    })?;
    told.check_stops()
}

invariant!(
    a_child_goes_before_batch_work_if_its_parent_does_and_tokens_last,
    admits
);
