// SPDX-License-Identifier: GPL-2.0
//! A compositor: the thread that puts what programs have drawn on the screen.
//!
//! A program that has something to show wakes it. It waits for the next refresh
//! (60 Hz, an absolute grid), uses 2 ms of CPU and has shown everything that
//! was there when it began. With nothing to show it sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Result;

use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, now_ns};
use crate::session::Session;
use crate::stats::Recorder;
use crate::system::{Account, Usage};
use crate::thread;
use crate::token::Token;
use crate::work;

/// From one refresh to the next, in nanoseconds.
const PERIOD_NS: u64 = NSEC_PER_SEC / 60;
/// CPU time of a composition in nanoseconds.
const WORK_NS: u64 = 2 * NSEC_PER_MSEC;

/// What programs and the compositor share.
#[derive(Debug, Default)]
struct Desk {
    /// When that which waits to be shown became due.
    due_ns: Mutex<Vec<u64>>,
    call: Token,
    is_over: AtomicBool,
}

/// A program's end of a screen.
#[derive(Debug, Clone)]
pub struct Screen {
    desk: Arc<Desk>,
}

/// What a compositor saw of what became due in the measurement.
#[derive(Debug, Default)]
pub struct ScreenSeen {
    /// From the instant at which it became due to the end of the composition
    /// that showed it.
    pub shown: Recorder,
    /// What the compositor itself used.
    pub usage: Usage,
}

impl Screen {
    /// Start a compositor. It runs until [`Screen::end`].
    pub fn spawn(session: &Session) -> Result<(Self, JoinHandle<ScreenSeen>)> {
        let start_ns = session.next_start_ns();
        let session = session.clone();
        let desk = Arc::new(Desk::default());
        let screen = Self {
            desk: Arc::clone(&desk),
        };
        let handle = thread::spawn_measured(session.fifo, "compositor", move || {
            run(&session, &desk, start_ns)
        })?;
        Ok((screen, handle))
    }

    /// Show something that became due at `due_ns`.
    pub fn show(&self, due_ns: u64) {
        lock(&self.desk.due_ns).push(due_ns);
        self.desk.call.post();
    }

    /// Show what is left, then end.
    pub fn end(&self) {
        self.desk.is_over.store(true, Ordering::Release);
        self.desk.call.post();
    }
}

fn run(session: &Session, desk: &Desk, start_ns: u64) -> ScreenSeen {
    let mut account = Account::new();
    let mut seen = ScreenSeen::default();
    loop {
        desk.call.wait();
        // One composition shows what several calls were about.
        if lock(&desk.due_ns).is_empty() {
            if desk.is_over.load(Ordering::Acquire) {
                break;
            }
            continue;
        }
        let since_ns = now_ns().saturating_sub(start_ns);
        clock::sleep_until_ns(start_ns + (since_ns / PERIOD_NS + 1) * PERIOD_NS);
        clock::spin_for_ns(session.inject_ns);
        let now_ns = now_ns();
        if session.counts(now_ns) && !account.is_open() {
            account.open();
        }
        account.look(&session.map);
        let shown = std::mem::take(&mut *lock(&desk.due_ns));
        work::burn_cpu_ns(WORK_NS);
        let done_ns = clock::now_ns();
        for due_ns in shown.into_iter().filter(|&due_ns| session.counts(due_ns)) {
            seen.shown.record(done_ns - due_ns);
        }
    }
    seen.usage = account.close();
    seen
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
