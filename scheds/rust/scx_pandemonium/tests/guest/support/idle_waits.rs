// SPDX-License-Identifier: GPL-2.0
//! How long tasks wait while a CPU that they may use is idle, by the kernel's
//! trace of switches and wakeups.
//!
//! Only threads that said which CPUs they may use ([`restrict`]) are looked at,
//! from then on. Their names begin with [`WATCHED`], by which the kernel picks
//! the events.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::trace::TRACING;
use super::work::set_affinity;

/// What the names of watched threads begin with.
pub const WATCHED: &str = "watched";

/// Memory for events, for each CPU: some hundred thousand of them.
const BUFFER_KIB: u32 = 16 << 10;

/// A CPU that was let alone for so long has nothing to run.
const SETTLE: Duration = Duration::from_millis(2);

/// A trace of idle CPUs and of watched threads.
pub struct IdleTrace(());

/// The waits that ended, or that still last at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct IdleWaits {
    /// How many there were.
    pub nr_waits: u64,
    /// The longest that one of them lasted while a CPU was idle for it, in us.
    pub most_us: u64,
    /// The name of the thread that waited so.
    pub name: String,
}

impl IdleTrace {
    /// Trace from now on. The caller leaves with the affinity `all_cpus`.
    pub fn begin(all_cpus: u64) -> Result<IdleTrace> {
        let is_watched = |field: &str| format!("{field} ~ \"{WATCHED}*\"");
        let switches = format!(
            "prev_pid == 0 || next_pid == 0 || {} || {}",
            is_watched("prev_comm"),
            is_watched("next_comm")
        );
        write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        write("events/sched/sched_wakeup/filter", &is_watched("comm"))?;
        write("events/sched/sched_switch/filter", &switches)?;
        enable("1")?;
        // A CPU that is idle all the time would never be seen to become idle.
        for cpu in (0..u64::BITS).filter(|cpu| all_cpus & 1 << cpu != 0) {
            set_affinity(0, 1 << cpu)?;
            thread::sleep(SETTLE);
        }
        set_affinity(0, all_cpus)?;
        Ok(IdleTrace(()))
    }

    /// Trace no more, and give what was found.
    pub fn end(self) -> Result<IdleWaits> {
        enable("0")?;
        let trace = fs::read_to_string(format!("{TRACING}/trace")).context("reading the trace")?;
        write("trace", "")?;
        read(&trace)
    }
}

fn enable(is_on: &str) -> Result<()> {
    for event in ["sched_wakeup", "sched_switch"] {
        write(&format!("events/sched/{event}/enable"), is_on)?;
    }
    Ok(())
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(format!("{TRACING}/{path}"), text).with_context(|| format!("writing {path}"))
}

/// Let thread `tid`, which may use the CPUs of `before`, use those of `after`,
/// and say so in the trace. In between only what is in both counts.
pub fn restrict(tid: i32, before: u64, after: u64) -> Result<()> {
    write("trace_marker", &format!("mask {tid} {:x}", before & after))?;
    set_affinity(tid, after)?;
    write("trace_marker", &format!("mask {tid} {after:x}"))
}

/// A thread that is watched.
#[derive(Default)]
struct Watched {
    /// CPUs that it may use.
    mask: u64,
    is_waiting: bool,
    /// How long of its present wait a CPU was idle for it.
    wasted_us: u64,
}

/// What the trace has told so far.
#[derive(Default)]
struct State {
    idle_cpus: u64,
    threads: BTreeMap<i32, Watched>,
    at_us: u64,
    found: IdleWaits,
}

impl State {
    fn advance(&mut self, at_us: u64) {
        let idle_cpus = self.idle_cpus;
        let passed_us = at_us.saturating_sub(self.at_us);
        self.at_us = at_us;
        if idle_cpus == 0 {
            return;
        }
        for thread in self.threads.values_mut() {
            if thread.is_waiting && thread.mask & idle_cpus != 0 {
                thread.wasted_us += passed_us;
            }
        }
    }

    /// Thread `tid`, if it is watched, waits from now on, or does so no more.
    fn set_waiting(&mut self, tid: i32, name: &str, is_waiting: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if thread.is_waiting == is_waiting {
            return;
        }
        thread.is_waiting = is_waiting;
        let wasted_us = std::mem::take(&mut thread.wasted_us);
        if !is_waiting {
            self.count_wait(name, wasted_us);
        }
    }

    fn count_wait(&mut self, name: &str, wasted_us: u64) {
        self.found.nr_waits += 1;
        if wasted_us > self.found.most_us {
            self.found.most_us = wasted_us;
            self.found.name = name.to_owned();
        }
    }

    fn switch(&mut self, cpu: u32, args: &str) -> Result<()> {
        let prev: i32 = value(args, "prev_pid=")?.parse()?;
        let next: i32 = value(args, "next_pid=")?.parse()?;
        let stays = value(args, "prev_state=")?.starts_with('R');
        self.set_waiting(prev, value(args, "prev_comm=")?, stays);
        self.set_waiting(next, value(args, "next_comm=")?, false);
        if next == 0 {
            self.idle_cpus |= 1 << cpu;
        } else {
            self.idle_cpus &= !(1 << cpu);
        }
        Ok(())
    }

    fn set_mask(&mut self, text: &str) -> Result<()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["mask", tid, mask] = words.as_slice() else {
            bail!("not a mask: {text}");
        };
        let thread = self.threads.entry(tid.parse()?).or_default();
        thread.mask = u64::from_str_radix(mask, 16)?;
        Ok(())
    }
}

/// What stands behind `key` in the fields of an event.
fn value<'a>(args: &'a str, key: &str) -> Result<&'a str> {
    args.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
        .with_context(|| format!("no {key} in {args:?}"))
}

/// Read lines such as
/// `hog-9 [001] d..2. 1.000002: sched_switch: prev_comm=hog prev_pid=9 ...`.
fn read(trace: &str) -> Result<IdleWaits> {
    let mut state = State::default();
    for line in trace.lines() {
        if let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written: ") {
            let (kept, rest) = counts.split_once('/').context("no count of events")?;
            let written = rest.split_whitespace().next();
            ensure!(written == Some(kept), "events were lost: {line}");
        }
        if line.starts_with('#') {
            continue;
        }
        let (head, event) = line.split_once(": ").context("no event")?;
        let (head, at) = head.rsplit_once(' ').context("no time")?;
        let (_, cpu) = head.rsplit_once('[').context("no CPU")?;
        let cpu: u32 = cpu.split(']').next().context("no CPU")?.parse()?;
        state.advance(at.replace('.', "").parse().context("a time")?);
        match event.split_once(": ") {
            Some(("sched_switch", args)) => state.switch(cpu, args)?,
            Some(("sched_wakeup", args)) => {
                let tid = value(args, "pid=")?.parse()?;
                state.set_waiting(tid, value(args, "comm=")?, true);
            }
            Some(("tracing_mark_write", text)) => state.set_mask(text)?,
            _ => bail!("cannot read {line:?}"),
        }
    }
    let unserved: Vec<u64> = state
        .threads
        .values()
        .filter(|thread| thread.is_waiting)
        .map(|thread| thread.wasted_us)
        .collect();
    for wasted_us in unserved {
        state.count_wait("one that waits at the end", wasted_us);
    }
    Ok(state.found)
}

#[test]
fn a_wait_counts_while_a_cpu_is_idle_that_the_task_may_use() -> Result<()> {
    let found = read(
        "# entries-in-buffer/entries-written: 9/9   #P:4\n\
         a-8 [000] ..... 1.000000: tracing_mark_write: mask 9 2\n\
         a-8 [000] d..2. 1.000001: sched_switch: prev_comm=a prev_pid=8 prev_prio=120 \
         prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n\
         b-7 [001] d..2. 1.000005: sched_wakeup: comm=watched pid=9 prio=120 target_cpu=001\n\
         b-7 [001] d..2. 1.000100: sched_switch: prev_comm=b prev_pid=7 prev_prio=120 \
         prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n\
         <idle>-0 [001] d..2. 1.000400: sched_switch: prev_comm=swapper/1 prev_pid=0 \
         prev_prio=120 prev_state=R ==> next_comm=watched next_pid=9 next_prio=120\n\
         watched-9 [001] d..2. 1.000500: sched_switch: prev_comm=watched prev_pid=9 \
         prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=7 next_prio=120\n\
         b-7 [001] ..... 1.000600: tracing_mark_write: mask 9 1\n\
         b-7 [001] d..2. 1.001600: sched_switch: prev_comm=b prev_pid=7 prev_prio=120 \
         prev_state=S ==> next_comm=c next_pid=6 next_prio=120\n",
    )?;
    let expected = IdleWaits {
        nr_waits: 2,
        most_us: 1000,
        name: "one that waits at the end".to_owned(),
    };
    ensure!(found == expected, "{found:?}");
    Ok(())
}
