// SPDX-License-Identifier: GPL-2.0
//! Tasks that run for a while, then sleep for a while.
//!
//! How long such a task runs is counted in its own CPU time or in wall time
//! ([`Turn`]). A task of 2 ms CPU time and 2 ms sleep that is kept waiting
//! works later, not more: it wants half a CPU and can never want more. A task
//! of 9 ms wall time and 1 ms sleep is a hog that looks interactive.

use std::thread::JoinHandle;

use anyhow::Result;

use crate::clock::{self, now_ns};
use crate::session::Session;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work;

/// A kind of such tasks; times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Cycle {
    /// Thread name.
    pub name: &'static str,
    /// When it has run long enough.
    pub run: Turn,
    /// Length of a sleep.
    pub sleep_ns: u64,
}

/// How long a task runs between two sleeps, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// Until it has used this much CPU time; the sleep is counted from then.
    Cpu(u64),
    /// This much of each period of wall time, whether it got the CPU or not.
    /// The sleep is the rest of the period; periods are counted from its start.
    Wall(u64),
}

/// A running group of such tasks.
#[derive(Debug)]
pub struct Cycles {
    handles: Vec<JoinHandle<Usage>>,
}

impl Cycle {
    /// Start `count` of them.
    pub fn spawn(self, session: &Session, count: usize) -> Result<Cycles> {
        let handles = (0..count)
            .map(|_| {
                let start_ns = session.next_start_ns();
                let session = session.clone();
                thread::spawn(self.name, move || self.run(&session, start_ns))
            })
            .collect::<Result<_>>()?;
        Ok(Cycles { handles })
    }

    fn run(self, session: &Session, start_ns: u64) -> Usage {
        let mut account = Account::new();
        let mut usage = None;

        clock::sleep_until_ns(start_ns);
        let mut turn_cpu_ns = clock::thread_cpu_ns();
        loop {
            let now_ns = now_ns();
            if now_ns >= session.from_ns && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            if now_ns >= session.to_ns && usage.is_none() {
                usage = Some(std::mem::take(&mut account).close());
            }
            if now_ns >= session.load_to_ns {
                return usage.unwrap_or_default();
            }
            match self.wake_ns(start_ns, now_ns, turn_cpu_ns) {
                Some(wake_ns) => {
                    clock::sleep_until_ns(wake_ns);
                    turn_cpu_ns = clock::thread_cpu_ns();
                }
                None => work::chunk(),
            }
        }
    }

    /// When a task that was started at `start_ns` wakes again, if its turn is
    /// over at `now_ns`; `None` while the turn lasts, at the start of which its
    /// thread had used `turn_cpu_ns` of CPU time.
    fn wake_ns(&self, start_ns: u64, now_ns: u64, turn_cpu_ns: u64) -> Option<u64> {
        match self.run {
            Turn::Cpu(run_ns) => {
                let is_over = clock::thread_cpu_ns() >= turn_cpu_ns + run_ns;
                // Read anew: preempted meanwhile, the task still sleeps as long.
                is_over.then(|| clock::now_ns() + self.sleep_ns)
            }
            Turn::Wall(run_ns) => {
                let period_ns = run_ns + self.sleep_ns;
                let end_ns = start_ns + ((now_ns - start_ns) / period_ns + 1) * period_ns;
                (now_ns + self.sleep_ns >= end_ns).then_some(end_ns)
            }
        }
    }
}

impl Cycles {
    /// Wait for them to end; their usage together.
    pub fn join(self) -> Result<Usage> {
        let mut sum = Usage::default();
        thread::join_all(self.handles)?
            .iter()
            .for_each(|usage| sum.add(usage));
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(run: Turn) -> Cycle {
        Cycle {
            name: "cycle",
            run,
            sleep_ns: 1_000,
        }
    }

    #[test]
    fn a_turn_of_cpu_time_lasts_until_that_was_used() {
        let cycle = cycle(Turn::Cpu(2_000_000));
        let turn_cpu_ns = clock::thread_cpu_ns();
        assert_eq!(cycle.wake_ns(0, 500, turn_cpu_ns), None);
        work::burn_cpu_ns(2_000_000);
        let over_ns = now_ns();
        let wake_ns = cycle.wake_ns(0, 500, turn_cpu_ns).unwrap();
        assert!(wake_ns >= over_ns + 1_000);
    }

    #[test]
    fn a_turn_of_wall_time_ends_on_its_grid_however_little_was_run() {
        let cycle = cycle(Turn::Wall(9_000));
        for (now_ns, wake_ns) in [
            (500, None),
            (9_499, None),
            (9_500, Some(10_500)),
            (10_499, Some(10_500)),
            (10_500, None),
            (30_000, Some(30_500)),
        ] {
            assert_eq!(cycle.wake_ns(500, now_ns, 0), wake_ns, "at {now_ns}");
        }
    }
}
