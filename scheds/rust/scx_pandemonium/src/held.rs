//! Programs that are known to be waited for, and are served as batch work all the
//! same: a compositor or a game that was niced down, or whose cgroup is idle.
//!
//! Often nobody meant that: what a display manager's helper was, all that it started
//! is. Tiers, hints and compositors' names are void then, so it has to be said.
//!
//! Not here: what the scheduler makes of it (`src/bpf/classify.bpf.c`).

use std::fs;

use procfs::process::{Process, all_processes};

use crate::bpf_intf::{held_by_HELD_BY_CGROUP, held_by_HELD_BY_NICE, held_by_HELD_BY_SCHED_IDLE};
use crate::compositor;
use crate::hint::{Hint, Tier};
use crate::rules::{self, Rules};
use crate::text::printable;

/// Of `policy` in `/proc/PID/stat`.
const SCHED_IDLE: u32 = 5;

/// Where cgroups are mounted.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// What keeps a task in batch whatever it is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Nice,
    SchedIdle,
    Cgroup,
}

impl Held {
    /// What the BPF half calls so.
    pub fn from_bpf(held_by: u32) -> Option<Held> {
        #[allow(non_upper_case_globals)]
        match held_by {
            held_by_HELD_BY_NICE => Some(Held::Nice),
            held_by_HELD_BY_SCHED_IDLE => Some(Held::SchedIdle),
            held_by_HELD_BY_CGROUP => Some(Held::Cgroup),
            _ => None,
        }
    }

    /// As the telemetry has it.
    pub fn name(self) -> &'static str {
        match self {
            Held::Nice => "nice",
            Held::SchedIdle => "sched_idle",
            Held::Cgroup => "cgroup",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<Held> {
        let all = [Held::Nice, Held::SchedIdle, Held::Cgroup];
        all.into_iter().find(|held| held.name() == name)
    }

    /// What to know about process `pid`, called `name`, and what to do.
    pub fn note(self, name: &str, pid: i64) -> String {
        let (how, instead) = match self {
            Held::Nice => (
                "runs at a nice level above 0",
                "give it nice 0, or a rule of your own that names it and has least_tier",
            ),
            Held::SchedIdle => (
                "runs in SCHED_IDLE",
                "give it SCHED_OTHER, or a rule of your own that names it and has least_tier",
            ),
            Held::Cgroup => (
                "is in a cgroup with cpu.idle",
                "write 0 to cpu.idle, or move it",
            ),
        };
        let name = printable(name);
        format!("{name} ({pid}) {how}, so it is served as batch work: {instead}")
    }
}

/// What to know about each process of this machine that is held in batch though its
/// name or `rules` say that it is more.
pub fn programs(rules: &Rules) -> Vec<String> {
    let processes = all_processes().into_iter().flatten().flatten();
    processes
        .filter_map(|process| of_process(&process, rules))
        .collect()
}

fn of_process(process: &Process, rules: &Rules) -> Option<String> {
    let stat = process.stat().ok()?;
    let facts = rules::Facts::read(stat.pid).ok()?;
    let hint = rules.hint(&facts);
    if !compositor::is_known(&stat.comm) && hint.least_tier <= Some(Tier::Batch) {
        return None;
    }
    let is_idle = facts.cgroup.as_deref().is_some_and(is_idle);
    let held = held(stat.policy, stat.nice, is_idle, hint)?;
    Some(held.note(&stat.comm, stat.pid.into()))
}

/// What keeps a process in batch of which `hint` is known.
fn held(policy: Option<u32>, nice: i64, is_idle: bool, hint: Hint) -> Option<Held> {
    if is_idle {
        Some(Held::Cgroup)
    } else if hint.ignores_nice {
        None
    } else if policy == Some(SCHED_IDLE) {
        Some(Held::SchedIdle)
    } else {
        (nice > 0).then_some(Held::Nice)
    }
}

/// Whether a cgroup, or one above, has `cpu.idle`.
fn is_idle(cgroup: &str) -> bool {
    let mut cgroup = cgroup;
    while let Some((above, _)) = cgroup.rsplit_once('/') {
        let idle = fs::read_to_string(format!("{CGROUP_ROOT}{cgroup}/cpu.idle"));
        if idle.is_ok_and(|idle| idle.trim() == "1") {
            return true;
        }
        cgroup = above;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_process_is_its_cgroup_else_its_priority_unless_that_is_ignored() {
        let known = Hint::of_tier(Tier::Interactive);
        let own = Hint {
            ignores_nice: true,
            ..known
        };
        for (policy, nice, is_idle, hint, expected) in [
            (0, 0, false, known, None),
            (0, -5, false, known, None),
            (0, 1, false, known, Some(Held::Nice)),
            (SCHED_IDLE, 0, false, known, Some(Held::SchedIdle)),
            (0, 0, true, known, Some(Held::Cgroup)),
            (0, 1, false, own, None),
            (SCHED_IDLE, 0, false, own, None),
            (SCHED_IDLE, 0, true, own, Some(Held::Cgroup)),
        ] {
            assert_eq!(held(Some(policy), nice, is_idle, hint), expected);
        }
    }

    #[test]
    fn a_note_names_the_process_and_what_to_do() {
        let note = Held::SchedIdle.note("weston\x1b", 431);
        assert!(
            note.starts_with("weston? (431) runs in SCHED_IDLE, so"),
            "{note}"
        );
        assert!(note.contains("a rule of your own"), "{note}");
        for held in [Held::Nice, Held::SchedIdle, Held::Cgroup] {
            assert_eq!(Held::of_name(held.name()), Some(held));
        }
    }
}
