// SPDX-License-Identifier: GPL-2.0
//! Hogs that sleep a little, to look interactive.
//!
//! In each 10 ms of wall time a cheat sleeps for the last one, whether it got
//! the CPU in the other nine or not.

use std::thread::JoinHandle;

use anyhow::Result;

use crate::clock::{self, NSEC_PER_MSEC, now_ns};
use crate::session::Session;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work::Work;

/// From one sleep to the next, in nanoseconds.
const PERIOD_NS: u64 = 10 * NSEC_PER_MSEC;
/// Length of a sleep in nanoseconds.
const SLEEP_NS: u64 = NSEC_PER_MSEC;

/// A running group of cheats.
#[derive(Debug)]
pub struct Cheats {
    handles: Vec<JoinHandle<Usage>>,
}

impl Cheats {
    /// Start `count` of them.
    pub fn spawn(session: &Session, count: usize) -> Result<Self> {
        let handles = (0..count)
            .map(|_| {
                let start_ns = session.next_start_ns();
                let session = session.clone();
                thread::spawn("cheat", move || run(&session, start_ns))
            })
            .collect::<Result<_>>()?;
        Ok(Self { handles })
    }

    /// Wait for them to end; their usage together.
    pub fn join(self) -> Result<Usage> {
        let mut sum = Usage::default();
        thread::join_all(self.handles)?
            .iter()
            .for_each(|usage| sum.add(usage));
        Ok(sum)
    }
}

fn run(session: &Session, start_ns: u64) -> Usage {
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
            return usage.unwrap_or_default();
        }
        let period_ns = (now_ns - start_ns) / PERIOD_NS;
        let end_ns = start_ns + (period_ns + 1) * PERIOD_NS;
        if now_ns + SLEEP_NS >= end_ns {
            clock::sleep_until_ns(end_ns);
        } else {
            work.chunk();
        }
    }
}
