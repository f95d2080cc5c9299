// SPDX-License-Identifier: GPL-2.0
//! A program that makes a picture for the screen's next refresh: a game, a
//! player of films.
//!
//! For each frame its main thread wakes its workers, works beside them, waits
//! for the last of them and then for the next refresh. Refreshes are instants of an absolute
//! grid. A frame that is done late waits for the first refresh *after* it is
//! done, as a program with vertical sync does: so it always sleeps, is never
//! behind by more than a frame, and never becomes a hog.

use std::thread::JoinHandle;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::team::Team;
use crate::clock::{self, NSEC_PER_SEC, now_ns};
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::Recorder;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work;

/// Such a program; all times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Game {
    /// Name of its main thread.
    pub name: &'static str,
    /// Name of its workers.
    pub worker_name: &'static str,
    /// From one refresh to the next.
    pub period_ns: u64,
    /// CPU time of the main thread in a frame, while the workers work.
    pub main_ns: u64,
    /// Number of workers; may be none.
    pub workers: usize,
    /// CPU time of each worker in a frame.
    pub worker_ns: u64,
}

/// What a game saw during the measurement; frames count that began in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GameSeen {
    /// Of each frame: from the refresh at which it began to the end of its last
    /// thread, in nanoseconds.
    pub frames_ns: Vec<u64>,
    /// Of each frame: how long the last worker to begin waited, in nanoseconds;
    /// empty without workers.
    pub waits_ns: Vec<u64>,
    /// Refreshes after which the old picture stayed, since the next was not done.
    pub missed: u64,
    /// What all its threads used.
    pub usage: Usage,
}

impl Game {
    /// Start it. It runs until the end of the measurement.
    pub fn spawn(self, session: &Session) -> Result<JoinHandle<Result<GameSeen>>> {
        let start_ns = session.next_start_ns();
        let team = Team::spawn(session, self.worker_name, self.workers, self.worker_ns)?;
        let session = session.clone();
        thread::spawn_measured(session.fifo, self.name, move || {
            self.run(&session, start_ns, team)
        })
    }

    fn run(self, session: &Session, start_ns: u64, team: Team) -> Result<GameSeen> {
        let mut account = Account::new();
        let nr_frames = (session.length_ns() / self.period_ns) as usize + 2;
        let mut seen = GameSeen {
            frames_ns: Vec::with_capacity(nr_frames),
            waits_ns: Vec::with_capacity(nr_frames),
            ..GameSeen::default()
        };
        let mut refresh_ns = start_ns;
        while refresh_ns < session.to_ns {
            clock::sleep_until_ns(refresh_ns);
            let counts = session.counts(refresh_ns);
            if counts && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            clock::spin_for_ns(session.inject_ns);
            team.wake();
            work::burn_cpu_ns(self.main_ns);
            let wait_ns = team.wait();
            let done_ns = now_ns();
            if counts {
                seen.frames_ns.push(done_ns - refresh_ns);
                seen.missed += (done_ns - refresh_ns) / self.period_ns;
                if self.workers > 0 {
                    seen.waits_ns.push(wait_ns);
                }
            }
            refresh_ns = next_refresh_ns(start_ns, self.period_ns, done_ns);
        }
        seen.usage = account.close();
        seen.usage.add(&team.join()?);
        Ok(seen)
    }
}

impl GameSeen {
    /// Add what a scenario tells of it: frames per second, frame times, missed
    /// refreshes, and how long the last worker waited.
    pub fn add_to(self, session: &Session, findings: &mut Findings) {
        let record = |values: &[u64]| {
            let mut samples = Recorder::new();
            values.iter().for_each(|&value_ns| samples.record(value_ns));
            samples
        };
        let seconds = session.length_ns() as f64 / NSEC_PER_SEC as f64;
        let fps = self.frames_ns.len() as f64 / seconds;
        findings.headline("fps", fps, "1/s", Better::Higher);
        findings.latency("frame", &record(&self.frames_ns), &["p95"]);
        findings.detail("missed", self.missed as f64, "", Better::Lower);
        if !self.waits_ns.is_empty() {
            findings.latency("worker_wait", &record(&self.waits_ns), &[]);
        }
        findings.group("game", self.usage);
    }
}

/// The first refresh after `now_ns`, which is not before `start_ns`.
fn next_refresh_ns(start_ns: u64, period_ns: u64, now_ns: u64) -> u64 {
    start_ns + ((now_ns - start_ns) / period_ns + 1) * period_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_refresh_is_always_to_come() {
        for (now_ns, next_ns) in [(100, 110), (109, 110), (110, 120), (135, 140)] {
            assert_eq!(next_refresh_ns(100, 10, now_ns), next_ns);
        }
    }
}
