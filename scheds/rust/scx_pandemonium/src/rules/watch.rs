//! Which processes are looked at, and when.
//!
//! All of them when the scheduler starts; later each that starts a program,
//! changes its name or moves to another cgroup, as BPF tells. Such a process is
//! looked at once more a little later: Wine puts the name of the game into a
//! process that has begun as one of its own, and a session manager moves what it
//! started to its cgroup.
//!
//! Not here: what the rules say (rules), how BPF is told (scheduler).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use log::debug;

use super::process::is_gone;
use super::{Facts, Rules};
use crate::hint::Hint;

/// When a process is looked at again. BPF does not report one anew before that
/// for less than a new program.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A process and what is said of it.
pub type Known = (i32, Hint);

/// Looks at processes as they come.
pub struct Watch<'a> {
    rules: &'a Rules,
    /// Processes to be looked at again, the earliest first.
    again: VecDeque<(Instant, i32)>,
    /// When all processes are to be looked at.
    all_due_at: Option<Instant>,
    /// When they were looked at last.
    all_at: Option<Instant>,
}

impl<'a> Watch<'a> {
    /// Look for what `rules` say.
    pub fn new(rules: &'a Rules) -> Watch<'a> {
        Watch {
            rules,
            again: VecDeque::new(),
            all_due_at: None,
            all_at: None,
        }
    }

    /// It is not known which processes were started: look at all of them soon,
    /// but not all the time.
    pub fn lost_some(&mut self, now: Instant) {
        let due_at = self.all_at.map_or(now, |at| now.max(at + AGAIN_AFTER));
        self.all_due_at.get_or_insert(due_at);
    }

    /// What is said of each process that there is.
    pub fn all(&mut self, now: Instant) -> Vec<Known> {
        self.all_at = Some(now);
        self.all_due_at = None;
        if self.rules.is_empty() {
            return Vec::new();
        }
        let processes = match procfs::process::all_processes() {
            Ok(processes) => processes,
            Err(err) => {
                debug!("listing the processes: {err}");
                return Vec::new();
            }
        };
        let pids = processes.filter_map(|process| Some(process.ok()?.pid()));
        let known = pids.filter_map(|pid| self.look(pid));
        known.filter(|(_, hint)| !hint.is_empty()).collect()
    }

    /// What is said of processes that were reported at `now`. One of which
    /// nothing is said is left out: BPF knows that by itself.
    pub fn started(&mut self, pids: &[i32], now: Instant) -> Vec<Known> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        pids.dedup();
        let due_at = now + AGAIN_AFTER;
        let known: Vec<Known> = pids.into_iter().filter_map(|pid| self.look(pid)).collect();
        self.again
            .extend(known.iter().map(|(pid, _)| (due_at, *pid)));
        let said = known.into_iter().filter(|(_, hint)| !hint.is_empty());
        said.collect()
    }

    /// What is said of those that are due to be looked at again, be it nothing.
    pub fn again(&mut self, now: Instant) -> Vec<Known> {
        let mut known = match self.all_due_at {
            Some(due_at) if due_at <= now => self.all(now),
            _ => Vec::new(),
        };
        while let Some((due_at, pid)) = self.again.front().copied()
            && due_at <= now
        {
            self.again.pop_front();
            known.extend(self.look(pid));
        }
        known
    }

    /// What is said of a process; `None` if it is gone.
    fn look(&self, pid: i32) -> Option<Known> {
        match Facts::read(pid) {
            Ok(facts) => Some((pid, self.rules.hint(&facts))),
            Err(err) => {
                if !is_gone(&err) {
                    debug!("looking at process {pid}: {err}");
                }
                None
            }
        }
    }
}
