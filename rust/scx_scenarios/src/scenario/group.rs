// SPDX-License-Identifier: GPL-2.0
//! Control groups: does a group get what its weight says, whatever runs in it?
//!
//! Each group holds one process whose threads are its tasks. The numbers of
//! tasks are unequal on purpose, and against the weights: a scheduler that sees
//! tasks and no groups gives each group by how many it has.

use std::thread::JoinHandle;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Scenario, WARMUP_NS, add_hogs, measure, share_pct};
use crate::cgroup::{Group, Tree, WEIGHT_DFL};
use crate::clock::{self, NSEC_PER_MSEC, now_ns};
use crate::load::Hogs;
use crate::load::hog::{HogsSeen, SLOT_NS};
use crate::probe::{Event, Probe};
use crate::process::Process;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::Recorder;
use crate::system::Usage;
use crate::thread;

/// Weight of a group that is due three times as much as another.
const WEIGHT_TRIPLE: u32 = 3 * WEIGHT_DFL;
/// What these weights make of two groups.
const RATIO: f64 = 3.0;

/// Two groups of different weight.
pub const CG_WEIGHTS: Scenario = Scenario {
    id: "cg_weights",
    about: "3N hogs in a control group of weight 100 beside N in one of weight 300. Ratio: CPU \
            time of the second group to that of the first, 3 by the weights; gap: longest time \
            between two looks at the clock of any hog.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_weights,
};

/// Groups within a group.
pub const CG_NESTED: Scenario = Scenario {
    id: "cg_nested",
    about: "Two control groups of weight 100. In one of them N hogs; in the other two groups, of \
            weight 100 with 2N hogs and of weight 300 with N. Share of the machine that each of \
            the three got: by the weights 50% (whole), 12.5% (lesser) and 37.5% (greater).",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_nested,
};

/// A weight that changes.
pub const CG_LIVE: Scenario = Scenario {
    id: "cg_live",
    about: "2N hogs in a control group of weight 100 beside N in another of weight 100, which is \
            given 300 in the middle of the time. Ratio of the second group's CPU time to the \
            first's before (1 by the weights) and after (3); settled: from the change to the start \
            of the first 250 ms in which the ratio of work done was within 20% of 3, or to the \
            end.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_live,
};

/// A group of sleepers beside one of hogs.
pub const CG_SLEEPERS: Scenario = Scenario {
    id: "cg_sleepers",
    about: "4N tasks that wake every 10 ms and use 1 ms of CPU, in a control group of weight 100, \
            beside 4N hogs in another. Wake latency: from the absolute deadline to the first \
            instruction; done: to the end of the work; share of the machine that the sleepers got, \
            of which they want 40% and are due 50; gap of the hogs. In results of 26 and 27 \
            November 2026 with 8 CPUs the last of the sleepers were started late with some seeds, \
            and worked off what they had missed.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_sleepers,
};

/// Length of the time over which the ratio has to hold, in nanoseconds.
const SETTLED_NS: u64 = 250 * NSEC_PER_MSEC;
/// How far it may be off.
const SETTLED_TOLERANCE: f64 = 0.2;

fn run_weights(session: &Session) -> Result<Findings> {
    let tree = Tree::new()?;
    let lesser = Hogs::fork(
        session,
        3 * session.cpus,
        Some(&tree.group("lesser", WEIGHT_DFL)?),
    )?;
    let greater = Hogs::fork(
        session,
        session.cpus,
        Some(&tree.group("greater", WEIGHT_TRIPLE)?),
    )?;
    let mut findings = measure(session)?;
    let (lesser, greater) = (lesser.join()?, greater.join()?);
    let ratio = greater.usage().cpu_ns as f64 / lesser.usage().cpu_ns.max(1) as f64;
    findings.headline("ratio", ratio, "", Better::Near(RATIO));
    add_all(session, &mut findings, [lesser, greater]);
    Ok(findings)
}

fn run_nested(session: &Session) -> Result<Findings> {
    let tree = Tree::new()?;
    let outer = tree.group("outer", WEIGHT_DFL)?;
    let groups = [
        ("whole", 1, 50.0, tree.group("whole", WEIGHT_DFL)?),
        ("lesser", 2, 12.5, outer.group("lesser", WEIGHT_DFL)?),
        ("greater", 1, 37.5, outer.group("greater", WEIGHT_TRIPLE)?),
    ];
    let hogs = groups
        .iter()
        .map(|(_, per_cpu, _, group)| Hogs::fork(session, per_cpu * session.cpus, Some(group)))
        .collect::<Result<Vec<_>>>()?;
    let mut findings = measure(session)?;
    let hogs = hogs
        .into_iter()
        .map(Process::join)
        .collect::<Result<Vec<_>>>()?;
    for ((name, _, due_pct, _), hogs) in groups.iter().zip(&hogs) {
        let share = share_pct(session, hogs.usage().cpu_ns);
        findings.headline(name, share, "%", Better::Near(*due_pct));
    }
    add_all(session, &mut findings, hogs);
    Ok(findings)
}

fn run_live(session: &Session) -> Result<Findings> {
    let tree = Tree::new()?;
    let groups = [
        tree.group("stays", WEIGHT_DFL)?,
        tree.group("changes", WEIGHT_DFL)?,
    ];
    let stays = Hogs::fork(session, 2 * session.cpus, Some(&groups[0]))?;
    let changes = Hogs::fork(session, session.cpus, Some(&groups[1]))?;
    let setter = start_setter(session, groups)?;
    let mut findings = measure(session)?;
    let seen = thread::join(setter)??;
    let (stays, changes) = (stays.join()?, changes.join()?);

    let before = ratio_between(&seen.at_start, &seen.at_change);
    findings.headline("before", before, "", Better::Near(1.0));
    let after = ratio_between(&seen.at_change, &seen.at_end);
    findings.headline("after", after, "", Better::Near(RATIO));
    let slots = Slots {
        stays: stays.chunks_by_slot(),
        changes: changes.chunks_by_slot(),
    };
    // The slot in which the weight changed is of neither time.
    let slot = (seen.changed_ns.saturating_sub(session.from_ns) / SLOT_NS) as usize;
    let settled_slots = slots.settled(slot + 1);
    let settled_ms = (settled_slots as u64 * SLOT_NS) as f64 / NSEC_PER_MSEC as f64;
    findings.headline("settled", settled_ms, "ms", Better::Lower);
    add_all(session, &mut findings, [stays, changes]);
    Ok(findings)
}

/// CPU time in nanoseconds of the group that keeps its weight and of the one
/// that changes it.
type CpuTimes = [u64; 2];

/// What the thread that changes the weight saw.
struct SetterSeen {
    changed_ns: u64,
    at_start: CpuTimes,
    at_change: CpuTimes,
    at_end: CpuTimes,
}

/// Give the second of `groups` its new weight in the middle of the measurement.
fn start_setter(session: &Session, groups: [Group; 2]) -> Result<JoinHandle<Result<SetterSeen>>> {
    let session = session.clone();
    thread::spawn("set_weight", move || {
        let cpu_times = || Ok::<_, anyhow::Error>([groups[0].cpu_ns()?, groups[1].cpu_ns()?]);
        clock::sleep_until_ns(session.from_ns);
        let at_start = cpu_times()?;
        clock::sleep_until_ns(session.from_ns + session.length_ns() / 2);
        groups[1].set_weight(WEIGHT_TRIPLE)?;
        let changed_ns = now_ns();
        let at_change = cpu_times()?;
        clock::sleep_until_ns(session.to_ns);
        Ok(SetterSeen {
            changed_ns,
            at_start,
            at_change,
            at_end: cpu_times()?,
        })
    })
}

/// The second group's CPU time to the first's between two readings.
fn ratio_between(from: &CpuTimes, to: &CpuTimes) -> f64 {
    let used = |nth: usize| to[nth].saturating_sub(from[nth]) as f64;
    used(1) / used(0).max(1.0)
}

/// Work of two groups by slots of [`SLOT_NS`].
struct Slots {
    stays: Vec<u64>,
    changes: Vec<u64>,
}

impl Slots {
    /// The second group's work to the first's, in these slots; `None` if the
    /// first did none or there are no such slots.
    fn of(&self, from: usize, to: usize) -> Option<f64> {
        let sum = |slots: &[u64]| slots.get(from..to).map(|slots| slots.iter().sum::<u64>());
        let (stays, changes) = (sum(&self.stays)?, sum(&self.changes)?);
        (stays > 0).then(|| changes as f64 / stays as f64)
    }

    /// Slots after `from` until the ratio holds; all that are left if it never
    /// does.
    fn settled(&self, from: usize) -> usize {
        let length = (SETTLED_NS / SLOT_NS) as usize;
        let is_near = |ratio: f64| (ratio - RATIO).abs() <= SETTLED_TOLERANCE * RATIO;
        let last = self.stays.len().saturating_sub(length);
        (from..=last)
            .find(|&slot| self.of(slot, slot + length).is_some_and(is_near))
            .unwrap_or(self.stays.len())
            .saturating_sub(from)
    }
}

/// What the sleepers of a group saw.
#[derive(Serialize, Deserialize)]
struct SleepersSeen {
    events: Vec<Event>,
    usage: Usage,
}

fn run_sleepers(session: &Session) -> Result<Findings> {
    let tree = Tree::new()?;
    let sleepers = start_sleepers(session, &tree.group("sleepers", WEIGHT_DFL)?)?;
    let nr_hogs = session.nr_load(4 * session.cpus);
    let hogs = Hogs::fork(session, nr_hogs, Some(&tree.group("hogs", WEIGHT_DFL)?))?;
    let mut findings = measure(session)?;
    let seen = sleepers.join()?;
    let (mut wake, mut done) = (Recorder::new(), Recorder::new());
    for event in &seen.events {
        wake.record(event.wake_ns);
        done.record(event.done_ns);
    }
    findings.latency("wake", &wake, &["p99"]);
    findings.latency("done", &done, &["p99"]);
    let share = share_pct(session, seen.usage.cpu_ns);
    findings.headline("share", share, "%", Better::Higher);
    findings.group("sleepers", seen.usage);
    add_all(session, &mut findings, [hogs.join()?]);
    Ok(findings)
}

fn start_sleepers(session: &Session, group: &Group) -> Result<Process<SleepersSeen>> {
    let session = session.for_process();
    Process::start(|| {
        group.enter()?;
        let sleeper = Probe {
            name: "sleeper",
            period_ns: 10 * NSEC_PER_MSEC,
            work_ns: NSEC_PER_MSEC,
        };
        let handles = (0..4 * session.cpus)
            .map(|_| sleeper.spawn(&session))
            .collect::<Result<Vec<_>>>()?;
        session.ensure_set_up()?;
        let mut seen = SleepersSeen {
            events: Vec::new(),
            usage: Usage::default(),
        };
        for one in thread::join_all(handles)? {
            seen.events.extend(one.events);
            seen.usage.add(&one.usage);
        }
        Ok(seen)
    })
}

/// Tell of all groups of hogs as of one.
fn add_all(session: &Session, findings: &mut Findings, groups: impl IntoIterator<Item = HogsSeen>) {
    let each = groups.into_iter().flat_map(|hogs| hogs.each).collect();
    let hogs = HogsSeen { each };
    let gap_ms = hogs.gap_max_ns() as f64 / NSEC_PER_MSEC as f64;
    findings.headline("gap", gap_ms, "ms", Better::Lower);
    add_hogs(session, findings, &hogs);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(changes: impl Iterator<Item = u64>) -> Slots {
        let changes: Vec<u64> = changes.collect();
        Slots {
            stays: vec![10; changes.len()],
            changes,
        }
    }

    #[test]
    fn a_ratio_is_of_the_time_between_two_readings() {
        assert_eq!(ratio_between(&[5, 7], &[105, 307]), 3.0);
        assert_eq!(ratio_between(&[5, 7], &[5, 7]), 0.0);
    }

    #[test]
    fn a_ratio_is_of_the_slots_that_are_named() {
        let slots = slots([10, 10, 30, 30].into_iter());
        assert_eq!(slots.of(0, 2), Some(1.0));
        assert_eq!(slots.of(2, 4), Some(3.0));
        assert_eq!(slots.of(2, 5), None);
    }

    #[test]
    fn settled_is_the_start_of_the_first_time_in_which_it_holds() {
        let at_once = slots((0..100).map(|_| 30));
        assert_eq!(at_once.settled(40), 0);
        // Of 25 slots 18 at 3 and 7 at 1 make 2.44, which is near enough.
        let late = slots((0..100).map(|slot| if slot < 60 { 10 } else { 30 }));
        assert_eq!(late.settled(40), 13);
        let never = slots((0..100).map(|_| 10));
        assert_eq!(never.settled(40), 60);
    }
}
