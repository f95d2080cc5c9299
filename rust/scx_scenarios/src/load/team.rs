// SPDX-License-Identifier: GPL-2.0
//! Threads that another wakes together and waits for: the workers of a game,
//! the decoders of a film, the painters of a page.
//!
//! In a round the leader wakes each worker by futex, one after the other, may
//! work beside them, and sleeps. Each worker uses the same CPU time, and the
//! last to be done wakes the leader, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use anyhow::Result;

use crate::clock::now_ns;
use crate::session::Session;
use crate::system::{Account, Usage};
use crate::thread;
use crate::token::Token;
use crate::work;

/// What the leader shares with one worker; instants of the monotonic clock.
#[derive(Debug, Default)]
struct Line {
    wake: Token,
    woken_at_ns: AtomicU64,
    began_at_ns: AtomicU64,
}

/// What all of a team share.
#[derive(Debug, Default)]
struct Shared {
    /// Workers that are not done in this round.
    missing: AtomicUsize,
    done: Token,
    is_over: AtomicBool,
}

/// A team that waits for its leader; used by one thread.
#[derive(Debug)]
pub struct Team {
    lines: Vec<Arc<Line>>,
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<Usage>>,
}

impl Team {
    /// Start `count` workers of this thread name that use `work_ns` of CPU time
    /// in each round.
    pub fn spawn(session: &Session, name: &str, count: usize, work_ns: u64) -> Result<Self> {
        let lines: Vec<Arc<Line>> = (0..count).map(|_| Arc::default()).collect();
        let shared = Arc::new(Shared::default());
        let handles = lines
            .iter()
            .map(|line| {
                let session = session.clone();
                let (line, shared) = (Arc::clone(line), Arc::clone(&shared));
                thread::spawn_measured(session.fifo, name, move || {
                    work_for(&session, &line, &shared, work_ns)
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            lines,
            shared,
            handles,
        })
    }

    /// Begin a round, which [`Team::wait`] ends.
    pub fn wake(&self) {
        self.shared
            .missing
            .store(self.lines.len(), Ordering::Release);
        for line in &self.lines {
            line.woken_at_ns.store(now_ns(), Ordering::Relaxed);
            line.wake.post();
        }
    }

    /// Wait for the last worker of a round. How long the last to begin waited
    /// for its first instruction, in nanoseconds from before its wakeup.
    pub fn wait(&self) -> u64 {
        if self.lines.is_empty() {
            return 0;
        }
        self.shared.done.wait();
        let waited_ns = |line: &Arc<Line>| {
            let began_ns = line.began_at_ns.load(Ordering::Relaxed);
            began_ns.saturating_sub(line.woken_at_ns.load(Ordering::Relaxed))
        };
        self.lines.iter().map(waited_ns).max().unwrap_or(0)
    }

    /// End the workers; their usage together.
    pub fn join(self) -> Result<Usage> {
        self.shared.is_over.store(true, Ordering::Release);
        self.lines.iter().for_each(|line| line.wake.post());
        let mut sum = Usage::default();
        thread::join_all(self.handles)?
            .iter()
            .for_each(|usage| sum.add(usage));
        Ok(sum)
    }
}

fn work_for(session: &Session, line: &Line, shared: &Shared, work_ns: u64) -> Usage {
    let mut account = Account::new();
    loop {
        line.wake.wait();
        if shared.is_over.load(Ordering::Acquire) {
            return account.close();
        }
        let now_ns = now_ns();
        line.began_at_ns.store(now_ns, Ordering::Relaxed);
        if session.counts(now_ns) && !account.is_open() {
            account.open();
        }
        account.look(&session.map);
        work::burn_cpu_ns(work_ns);
        if shared.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.done.post();
        }
    }
}
