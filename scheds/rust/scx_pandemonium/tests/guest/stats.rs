// SPDX-License-Identifier: GPL-2.0
//! The telemetry is true: read by the client of scx_stats, compared with what
//! the kernel counted.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::told::Told;

/// How often the known task sleeps.
const NR_SLEEPS: u64 = 1000;

/// The monitor is another process with another connection, so that it sees the
/// same wakeups as the agent.
const SCRIPT: &str = "\
begin
fact free $(agent stats-of-sleeper $NR_SLEEPS)
\"$SCHEDULER\" --monitor 0.5 >/tmp/monitor 2>>$LOG &
monitor=$!
fact pinned $(agent_on_cpu_1 stats-of-sleeper $NR_SLEEPS)
kill -INT $monitor
wait $monitor
fact monitor_code $?
fact monitor_lines $(grep -c '^\\[pandemonium\\] ' /tmp/monitor)
stop INT
";

const PATHS: &[&str] = &[
    "nr_idle",
    "nr_handoff",
    "nr_preempt",
    "nr_kthread",
    "nr_own",
    "nr_interactive",
    "nr_batch",
];

/// How far a number may differ from the kernel's, in percent: they are counted
/// from and to slightly different moments.
const DIFFERENCE_MAX_PCT: u64 = 5;

/// What the agent found: telemetry of an interval and counts of the same.
pub struct Found<'a> {
    pub told: &'a Told,
    pub found: Value,
}

impl Found<'_> {
    /// The number of that name, whether it was counted here or by the scheduler.
    pub fn count(&self, name: &str) -> Result<u64> {
        let value = &self.found[name];
        let value = value.as_u64().or(self.found["metrics"][name].as_u64());
        value.with_context(|| format!("no {name} in {}", self.found))
    }

    fn check(&self) -> Result<()> {
        println!("{}", self.found);
        let told = self.told;
        let mut nr_placed = 0;
        for path in PATHS {
            nr_placed += self.count(path)?;
        }
        told.check_eq("sum of the paths", nr_placed, self.count("nr_placed")?)?;

        let nr_sleeps = self.count("nr_own_sleeps")?;
        told.check(nr_sleeps >= NR_SLEEPS, || {
            format!("the task slept {nr_sleeps} times")
        })?;
        // Every wakeup is placed once; what is placed besides had a slice that
        // ended.
        let nr_wakeups = self.count("nr_wakeups")?;
        let nr_woken = nr_placed - self.count("nr_enq_requeue")?;
        let difference = nr_woken.abs_diff(nr_wakeups);
        told.check(
            difference * 100 <= nr_wakeups * DIFFERENCE_MAX_PCT && nr_woken >= NR_SLEEPS,
            || format!("{nr_woken} wakeups were placed, the kernel counted {nr_wakeups}"),
        )?;
        // A CPU that goes to sleep and wakes up switches twice.
        let nr_switches = self.count("nr_switches")?;
        told.check(nr_placed <= nr_switches, || {
            format!("{nr_placed} tasks were placed in {nr_switches} switches")
        })
    }

    /// Checks that the counts of an interval under load agree with each other
    /// and with the kernel's, if at most `nr_tasks_max` tasks waited at a time.
    /// Give how many more were queued than served: a task whose affinity changes
    /// while it waits is queued again.
    pub fn check_books(&self, nr_cpus: u64, nr_tasks_max: u64) -> Result<u64> {
        let told = self.told;
        let sum = |names: &[&str]| -> Result<u64> {
            let counts: Result<Vec<u64>> = names.iter().map(|name| self.count(name)).collect();
            Ok(counts?.iter().sum())
        };

        let placed = sum(PATHS)?;
        let queued = sum(&["nr_own", "nr_interactive", "nr_batch"])?;
        let served = sum(&[
            "nr_serve_own",
            "nr_serve_interactive",
            "nr_serve_batch",
            "nr_serve_pulled",
            "nr_serve_stolen",
            "nr_serve_deficit",
            "nr_serve_rescued",
        ])?;
        println!("placed {placed}, of these queued {queued}; served {served}");
        for name in ["nr_serve_own", "nr_serve_interactive", "nr_serve_batch"] {
            let nr = self.count(name)?;
            told.check(nr > 0, || format!("a mixed load left {name} at 0"))?;
        }
        told.check_eq("sum of the paths", placed, self.count("nr_placed")?)?;
        told.check(served <= queued + nr_tasks_max, || {
            format!("{queued} tasks were queued, {served} were taken from the queues")
        })?;

        // Each enqueued task went by one of the paths of ops.enqueue().
        let enqueued = sum(&["nr_enq_wakeup", "nr_enq_requeue"])?;
        let least = queued + self.count("nr_kthread")?;
        let most = least + self.count("nr_preempt")?;
        told.check(
            (least.saturating_sub(nr_cpus)..=most + nr_cpus).contains(&enqueued),
            || format!("{enqueued} tasks were enqueued, {least} to {most} were placed"),
        )?;

        // What was placed on a CPU or served by one is what the kernel saw run.
        let runs = placed - queued + served;
        let least = self.count("nr_switches_least")?;
        let most = self.count("nr_switches_most")?;
        println!("runs {runs}, switches to a task {least} to {most}");
        let slack = runs * UNCOUNTED_MAX_PCT / 100;
        told.check(least <= runs + slack && runs <= most + slack, || {
            format!(
                "{runs} runs were counted, the kernel switched to a task {least} to {most} times"
            )
        })?;
        Ok(queued.saturating_sub(served))
    }
}

invariant!(
    the_telemetry_agrees_with_the_counts_of_the_kernel,
    |kernel| {
        let script = format!(
            "NR_SLEEPS={NR_SLEEPS}\n\
         agent_on_cpu_1() {{ (taskset -p 2 $(sh -c 'echo $PPID') >/dev/null && agent \"$@\") }}\n\
         {SCRIPT}"
        );
        let told = OURS.flat(kernel, 2)?.run(&script)?;
        for key in ["free", "pinned"] {
            let found = told.one(key)?;
            let found = Found { told: &told, found };
            found.check()?;
            if key == "pinned" {
                let nr_own = found.count("nr_own")? + found.count("nr_preempt")?;
                told.check(nr_own >= NR_SLEEPS, || {
                    format!("a pinned task slept {NR_SLEEPS} times, {nr_own} were placed as pinned")
                })?;
            }
        }
        told.check_eq("exit code of the monitor", told.one("monitor_code")?, 0)?;
        let nr_lines: u64 = told.one("monitor_lines")?;
        told.check(nr_lines >= 2, || {
            format!("the monitor printed {nr_lines} lines")
        })?;
        told.check_stops()
    }
);

/// Tasks that wake beside hogs: the tier that their telemetry is of, their number, how
/// often they wake and how long they work then, in us, which makes them that.
const WAITERS: [(&str, u32, u64, u64); 3] = [
    ("batch", 4, 80_000, 20_000),
    ("interactive", 14, 40_000, 3_000),
    ("lat_critical", 4, 10_000, 100),
];

/// How long their waits are looked at, and how many there must be.
const WAITERS_SECONDS: u32 = 3;
const NR_WAITS_MIN: usize = 120;
/// A bucket of the histogram is up to an eighth wide.
const BUCKET_PCT: u64 = 13;
/// So many of the longest waits are printed.
const NR_LONGEST: usize = 4;
/// The intervals of the two counts may differ by so many waits.
const NR_WAITS_APART: usize = 2;
/// The trace begins with the waker's call, and its line takes a while.
const TRACE_US: u64 = 5;

/// Check what is said of the waits of `tier`.
fn check_waits(told: &Told, tier: &str) -> Result<()> {
    let found = told.one(tier)?;
    let found = Found { told, found };
    let waits_us: Vec<u64> = serde_json::from_value(found.found["waits_us"].clone())?;
    let nr_waits = waits_us.len();
    told.check(nr_waits >= NR_WAITS_MIN, || {
        format!("{nr_waits} waits of {tier} were traced")
    })?;

    let rank = nr_waits * 99 / 100;
    let least_us = waits_us[rank - NR_WAITS_APART];
    let most_us = waits_us[(rank + NR_WAITS_APART).min(nr_waits - 1)];
    let said_us = found.count(&format!("{tier}_p99_us"))?;
    println!("{tier}: p99 of {nr_waits} waits {said_us} us, by the trace {least_us} to {most_us}");
    told.check(
        (least_us.saturating_sub(TRACE_US) * (100 - BUCKET_PCT)..=most_us * (100 + BUCKET_PCT))
            .contains(&(said_us * 100)),
        || format!("{tier}: a p99 of {said_us} us, by the trace {least_us} to {most_us}"),
    )?;

    let mean_us = waits_us.iter().sum::<u64>() / nr_waits as u64;
    let said_us = found.count(&format!("{tier}_mean_us"))?;
    let longest_us = &waits_us[nr_waits - NR_LONGEST..];
    println!("{tier}: mean {said_us} us, by the trace {mean_us}, the longest {longest_us:?}");
    told.check(
        said_us.abs_diff(mean_us) * 100 <= mean_us * BUCKET_PCT + TRACE_US * 100,
        || format!("{tier}: a mean of {said_us} us, by the trace {mean_us}"),
    )?;

    // Of all tasks, since the start.
    let longest_us = waits_us.last().context("no longest")?;
    let said_us = found.count("max_wait_us")?;
    println!("{tier}: longest wait {said_us} us, by the trace {longest_us}");
    told.check(said_us * (100 + BUCKET_PCT) >= longest_us * 100, || {
        format!("{tier}: a longest wait of {said_us} us, by the trace {longest_us}")
    })
}

fn waits_are_true(kernel: &Kernel) -> Result<()> {
    let facts = WAITERS.map(|(tier, nr, period_us, burst_us)| {
        format!(
            "fact {tier} $(agent stats-of-waiters {WAITERS_SECONDS} {nr} {period_us} {burst_us})\n"
        )
    });
    let script = format!("begin\n{}stop INT\n", facts.concat());
    let told = OURS.flat(kernel, 2)?.run(&script)?;
    for (tier, ..) in WAITERS {
        check_waits(&told, tier)?;
    }
    told.check_stops()
}

invariant!(
    waits_are_those_that_the_kernel_traces,
    [lts, oldest, newest],
    waits_are_true
);

const NR_CPUS: u32 = 4;

/// Two domains, so that tasks are stolen and balanced as well.
const LOADED_TOPOLOGY: &str = "2x1x2x1";

const LOADED_SCRIPT: &str = "\
begin
load 2 &
load=$!
usleep 500000
fact books $(agent stats-of-load 1)
wait $load
stop INT
";

/// Tasks of the load: those that wait at the end of an interval are not served
/// in it, those that waited at its beginning were not placed in it.
const NR_TASKS_MAX: u64 = 9 * NR_CPUS as u64 + 20;

/// How many runs and switches may be without a counterpart, in percent: a task
/// that a higher class interrupted goes on without being placed, and one that is
/// queued and at once found to be the next does not switch.
const UNCOUNTED_MAX_PCT: u64 = 2;

invariant!(the_books_balance_under_load, |kernel| {
    let told = OURS.world(kernel, LOADED_TOPOLOGY)?.run(LOADED_SCRIPT)?;
    let found = told.one("books")?;
    println!("{found}");
    let found = Found { told: &told, found };
    let nr_left = found.check_books(NR_CPUS.into(), NR_TASKS_MAX)?;
    told.check(nr_left <= NR_TASKS_MAX, || {
        format!("{nr_left} queued tasks were not taken from the queues")
    })?;
    told.check_stops()
});
