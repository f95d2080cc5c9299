// SPDX-License-Identifier: GPL-2.0
//! What the kernel itself counts and traces, to compare telemetry with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail, ensure};

/// Where the kernel traces.
pub const TRACING: &str = "/sys/kernel/tracing";
const EVENTS: &str = "/sys/kernel/tracing/events/sched";

/// Priorities from here on are those of normal tasks; below are real-time ones.
const NORMAL_PRIO_MIN: u64 = 100;

/// Context switches of the machine since it booted.
pub fn switches() -> Result<u64> {
    number_after("/proc/stat", "ctxt ")
}

/// How often this thread gave its CPU up by itself.
pub fn voluntary_switches() -> Result<u64> {
    number_after("/proc/thread-self/status", "voluntary_ctxt_switches:")
}

fn number_after(path: &str, word: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix(word))
        .with_context(|| format!("{path} has no {word}"))?;
    Ok(number.trim().parse()?)
}

/// A count of one kind of event by the kernel.
pub struct EventCount {
    event: &'static str,
    histogram: &'static str,
}

impl EventCount {
    /// Count wakeups from now on.
    pub fn of_wakeups() -> Result<EventCount> {
        EventCount::begin("sched_wakeup", "hist:keys=prio")
    }

    /// Count switches to a task from now on; those to an idle task do not count.
    pub fn of_switches() -> Result<EventCount> {
        EventCount::begin("sched_switch", "hist:keys=next_prio if next_pid != 0")
    }

    fn begin(event: &'static str, histogram: &'static str) -> Result<EventCount> {
        let count = EventCount { event, histogram };
        count.trigger(histogram)?;
        Ok(count)
    }

    /// Events so far that concern normal tasks, from lines such as
    /// `{ prio:  120 } hitcount:  20`.
    pub fn read(&self) -> Result<u64> {
        let path = format!("{EVENTS}/{}/hist", self.event);
        let text = fs::read_to_string(path).context("reading a count")?;
        let mut sum = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["{", "prio:" | "next_prio:", prio, "}", "hitcount:", count] = words.as_slice()
                && prio.parse::<u64>()? >= NORMAL_PRIO_MIN
            {
                sum += count.parse::<u64>()?;
            }
        }
        Ok(sum)
    }

    /// Count no more.
    pub fn end(self) -> Result<()> {
        self.trigger(&format!("!{}", self.histogram))
    }

    fn trigger(&self, text: &str) -> Result<()> {
        let path = format!("{EVENTS}/{}/trigger", self.event);
        fs::write(path, text).with_context(|| {
            format!(
                "counting {}: has the kernel CONFIG_HIST_TRIGGERS?",
                self.event
            )
        })
    }
}

/// The events that a wait ends and begins with, and how they call its task; that it
/// stops is needed too, since what has not stopped is woken to no effect.
///
/// Switches are traced before the first wakeup and until after the last: a wakeup
/// whose switch is not traced would seem to wait until the next run of its task.
const WAIT_EVENTS: [(&str, &[&str]); 2] = [
    ("sched_switch", &["prev_comm", "next_comm"]),
    ("sched_waking", &["comm"]),
];

/// A trace of the waits from wakeup to run.
pub struct WaitTrace(());

impl WaitTrace {
    /// Trace the waits of the tasks whose name matches `pattern` from now on.
    pub fn begin(pattern: &str) -> Result<WaitTrace> {
        for (event, comms) in WAIT_EVENTS {
            let matches = comms.iter().map(|comm| format!("{comm} ~ \"{pattern}\""));
            let filter: Vec<String> = matches.collect();
            fs::write(format!("{EVENTS}/{event}/filter"), filter.join(" || "))?;
            fs::write(format!("{EVENTS}/{event}/enable"), "1").context("tracing")?;
        }
        Ok(WaitTrace(()))
    }

    /// Trace no more, and give the waits in us, the shortest first.
    pub fn end(self) -> Result<Vec<u64>> {
        for (event, _) in WAIT_EVENTS.iter().rev() {
            fs::write(format!("{EVENTS}/{event}/enable"), "0")?;
            fs::write(format!("{EVENTS}/{event}/filter"), "0")?;
        }
        let path = format!("{TRACING}/trace");
        let trace = fs::read_to_string(&path).context("reading the trace")?;
        fs::write(&path, "").context("clearing the trace")?;
        waits_us(&trace)
    }
}

/// The waits from wakeup to run in the lines of a trace, in us, the shortest
/// first, as in
/// `hog-9 [001] d.h2. 1.000001: sched_waking: comm=waiter0 pid=8 prio=120 ...` and
/// `hog-9 [001] d..2. 1.000002: sched_switch: ... ==> next_comm=waiter0 next_pid=8 ...`.
fn waits_us(trace: &str) -> Result<Vec<u64>> {
    let mut woken_at_us: BTreeMap<&str, u64> = BTreeMap::new();
    let mut runnable: BTreeSet<&str> = BTreeSet::new();
    let mut waits_us = Vec::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let (head, event) = line.split_once(": ").context("no event")?;
        let (_, at) = head.rsplit_once(' ').context("no time")?;
        let at_us: u64 = at.replace('.', "").parse().context("a time")?;
        let field = |key: &str| event.split_whitespace().find_map(|w| w.strip_prefix(key));
        if let Some(pid) = field("pid=") {
            if runnable.insert(pid) {
                woken_at_us.insert(pid, at_us);
            }
            continue;
        }
        let (Some(prev), Some(next)) = (field("prev_pid="), field("next_pid=")) else {
            bail!("cannot read {line:?}");
        };
        if !field("prev_state=").is_some_and(|state| state.starts_with('R')) {
            runnable.remove(prev);
        }
        runnable.insert(next);
        waits_us.extend(woken_at_us.remove(next).map(|from_us| at_us - from_us));
    }
    waits_us.sort_unstable();
    Ok(waits_us)
}

#[test]
fn a_wait_is_from_the_first_wakeup_of_a_task_that_sleeps() -> Result<()> {
    let waits_us = waits_us(
        "a-8 [000] d..2. 1.000001: sched_waking: comm=b pid=9 prio=120 target_cpu=000\n\
         a-8 [000] d..2. 1.000003: sched_waking: comm=b pid=9 prio=120 target_cpu=000\n\
         a-8 [000] d..2. 1.000011: sched_switch: prev_comm=a prev_pid=8 prev_prio=120 \
         prev_state=S ==> next_comm=b next_pid=9 next_prio=120\n\
         b-9 [000] d..2. 1.000012: sched_waking: comm=b pid=9 prio=120 target_cpu=000\n\
         b-9 [000] d..2. 1.000020: sched_switch: prev_comm=b prev_pid=9 prev_prio=120 \
         prev_state=R ==> next_comm=c next_pid=7 next_prio=120\n\
         c-7 [000] d..2. 1.000021: sched_waking: comm=b pid=9 prio=120 target_cpu=000\n\
         c-7 [000] d..2. 1.000030: sched_switch: prev_comm=c prev_pid=7 prev_prio=120 \
         prev_state=S ==> next_comm=b next_pid=9 next_prio=120\n\
         b-9 [000] d..2. 1.000040: sched_switch: prev_comm=b prev_pid=9 prev_prio=120 \
         prev_state=S ==> next_comm=a next_pid=8 next_prio=120\n\
         a-8 [000] d..2. 1.000050: sched_waking: comm=b pid=9 prio=120 target_cpu=000\n\
         a-8 [000] d..2. 1.000055: sched_switch: prev_comm=a prev_pid=8 prev_prio=120 \
         prev_state=S ==> next_comm=b next_pid=9 next_prio=120\n",
    )?;
    ensure!(waits_us == [5, 10], "{waits_us:?}");
    Ok(())
}
