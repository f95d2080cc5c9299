// SPDX-License-Identifier: GPL-2.0
//! Tasks that never sleep.
//!
//! A hog computes, and after every few thousand instructions looks at the
//! clock, which costs no system call. Two looks far apart mean that it was off
//! the CPU in between: the longest such gap is how long a CPU-bound task can
//! be kept waiting.

use std::thread::JoinHandle;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;
use crate::clock::{self, NSEC_PER_MSEC, now_ns};
use crate::process::Process;
use crate::session::Session;
use crate::system::{self, Account, Usage};
use crate::thread;
use crate::work;

/// Length of a slot in which chunks are counted, in nanoseconds.
pub const SLOT_NS: u64 = 10 * NSEC_PER_MSEC;

/// A running group of hogs.
#[derive(Debug)]
pub struct Hogs {
    handles: Vec<JoinHandle<HogSeen>>,
}

/// What one hog saw during the measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HogSeen {
    /// What it used.
    pub usage: Usage,
    /// Longest time between two looks at the clock, in nanoseconds.
    pub gap_max_ns: u64,
    /// Chunks of work done in the measurement: about 20000 instructions each.
    pub chunks: u64,
    /// The same by slots of [`SLOT_NS`] from the start of the measurement.
    pub chunks_by_slot: Vec<u32>,
}

/// What a group of hogs saw.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HogsSeen {
    /// Each hog, in the order they were started.
    pub each: Vec<HogSeen>,
}

impl HogsSeen {
    /// Usage of all together.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.each.iter().for_each(|hog| sum.add(&hog.usage));
        sum
    }

    /// The longest gap of any, in nanoseconds.
    pub fn gap_max_ns(&self) -> u64 {
        self.each
            .iter()
            .map(|hog| hog.gap_max_ns)
            .max()
            .unwrap_or(0)
    }

    /// Chunks of all together by slots of [`SLOT_NS`].
    pub fn chunks_by_slot(&self) -> Vec<u64> {
        let nr_slots = self.each.iter().map(|hog| hog.chunks_by_slot.len()).max();
        let mut sums = vec![0; nr_slots.unwrap_or(0)];
        for hog in &self.each {
            for (sum, &chunks) in sums.iter_mut().zip(&hog.chunks_by_slot) {
                *sum += u64::from(chunks);
            }
        }
        sums
    }

    /// CPU time of each in nanoseconds.
    pub fn cpu_ns(&self) -> Vec<f64> {
        self.each
            .iter()
            .map(|hog| hog.usage.cpu_ns as f64)
            .collect()
    }
}

impl Hogs {
    /// Start `count` hogs, so much nicer than the bench itself: weights follow
    /// differences, so their ratios do not depend on how nice that is.
    pub fn spawn(session: &Session, count: usize, nice: i32) -> Result<Self> {
        let handles = (0..count)
            .map(|index| {
                let start_ns = session.next_start_ns();
                let session = session.clone();
                // Only the first is held up in a test: the longest gap is the
                // longest of any.
                let inject_ns = if index == 0 { session.inject_ns } else { 0 };
                thread::spawn("hog", move || run(&session, start_ns, nice, inject_ns))
            })
            .collect::<Result<_>>()?;
        Ok(Self { handles })
    }

    /// Start `count` hogs in a process of their own, within `group` if there is one.
    pub fn fork(
        session: &Session,
        count: usize,
        group: Option<&Group>,
    ) -> Result<Process<HogsSeen>> {
        let session = session.for_process();
        Process::start(|| {
            group.map_or(Ok(()), Group::enter)?;
            let hogs = Self::spawn(&session, count, 0)?;
            session.ensure_set_up()?;
            hogs.join()
        })
    }

    /// Wait for them to end.
    pub fn join(self) -> Result<HogsSeen> {
        Ok(HogsSeen {
            each: thread::join_all(self.handles)?,
        })
    }
}

fn run(session: &Session, start_ns: u64, nice: i32, inject_ns: u64) -> HogSeen {
    let mut account = Account::new();
    let nr_slots = session.length_ns().div_ceil(SLOT_NS) as usize;
    let mut seen = HogSeen {
        chunks_by_slot: vec![0; nr_slots],
        ..HogSeen::default()
    };
    let inject_at_ns = session.from_ns + session.length_ns() / 2;
    let mut inject_ns = inject_ns;

    // Raising priority may be refused; the share measured then shows it.
    if nice != 0 {
        let _ = system::add_thread_nice(nice);
    }
    clock::sleep_until_ns(start_ns);
    let mut last_ns = now_ns();
    while last_ns < session.to_ns {
        work::hog_chunk();
        if inject_ns > 0 && last_ns >= inject_at_ns {
            clock::sleep_until_ns(last_ns + inject_ns);
            inject_ns = 0;
        }
        let now_ns = now_ns();
        if now_ns >= session.from_ns {
            if !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            seen.gap_max_ns = seen.gap_max_ns.max(now_ns - last_ns);
            seen.chunks += 1;
            let slot = ((now_ns - session.from_ns) / SLOT_NS) as usize;
            if let Some(chunks) = seen.chunks_by_slot.get_mut(slot) {
                *chunks += 1;
            }
        }
        last_ns = now_ns;
    }
    seen.usage = account.close();
    // The last events measured still meet the full load.
    while now_ns() < session.load_to_ns {
        work::hog_chunk();
    }
    seen
}
