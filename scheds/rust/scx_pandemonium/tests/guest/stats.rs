// SPDX-License-Identifier: GPL-2.0
//! The telemetry is true: read by the client of scx_stats, compared with what
//! the kernel counted.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::kernels;
use crate::world::{Told, World};

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

/// How far the number of wakeups may differ, in percent: they are counted from
/// and to slightly different moments.
const DIFFERENCE_MAX_PCT: u64 = 5;

/// What the agent found: telemetry of an interval and counts of the same.
struct Found<'a> {
    told: &'a Told,
    found: Value,
}

impl Found<'_> {
    fn count(&self, name: &str) -> Result<u64> {
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
        told.check_eq("preempted equals", self.count("nr_preempt_equal")?, 0)?;

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
}

#[test]
fn the_telemetry_agrees_with_the_counts_of_the_kernel() -> Result<()> {
    let script = format!(
        "NR_SLEEPS={NR_SLEEPS}\n\
         agent_on_cpu_1() {{ (taskset -p 2 $(sh -c 'echo $PPID') >/dev/null && agent \"$@\") }}\n\
         {SCRIPT}"
    );
    let told = World::flat(&kernels::first()?, 2)?.run(&script)?;
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
