// SPDX-License-Identifier: GPL-2.0
//! Tasks that run for a while, then sleep for a while.
//!
//! Both are relative: a task that is kept waiting works later, not more. So a
//! task of 2 ms CPU and 2 ms sleep wants half a CPU and can never want more.

use std::thread::JoinHandle;

use anyhow::Result;

use crate::clock::{self, now_ns};
use crate::session::Session;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work::Work;

/// A kind of such tasks; times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Cycle {
    /// Thread name.
    pub name: &'static str,
    /// CPU time used between two sleeps.
    pub run_ns: u64,
    /// Length of a sleep.
    pub sleep_ns: u64,
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
        let mut work = Work::new();
        let mut account = Account::new();
        let mut usage = None;

        clock::sleep_until_ns(start_ns);
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
                break;
            }
            work.burn_cpu_ns(self.run_ns);
            clock::sleep_ns(self.sleep_ns);
        }
        usage.unwrap_or_default()
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
