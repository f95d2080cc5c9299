// SPDX-License-Identifier: GPL-2.0
//! A task that wakes at fixed instants and sees how late it is.
//!
//! Every deadline is absolute and a period after the last, whatever happened
//! before: a probe that was held up for ten periods records ten late events,
//! not one. Wake latency is from the deadline to the first instruction after
//! the sleep; completion is from the deadline to the end of its work.

use std::thread::JoinHandle;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::clock::{self, now_ns};
use crate::session::Session;
use crate::stats::Recorder;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work;

/// A periodic task; all times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Thread name.
    pub name: &'static str,
    /// From one deadline to the next.
    pub period_ns: u64,
    /// CPU time used after each wakeup.
    pub work_ns: u64,
}

/// What a probe saw during the measurement.
#[derive(Debug, Default)]
pub struct Seen {
    /// From deadline to running.
    pub wake: Recorder,
    /// From deadline to the end of the work.
    pub done: Recorder,
    /// Events whose work ended more than a period after their deadline.
    pub missed: u64,
    /// Each event, in order.
    pub events: Vec<Event>,
    /// What the probe itself used.
    pub usage: Usage,
}

/// One event of a probe; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The deadline, after the start of the measurement.
    pub at_ns: u64,
    /// From the deadline to running.
    pub wake_ns: u64,
    /// From the deadline to the end of the work.
    pub done_ns: u64,
}

impl Probe {
    /// Start the probe. It runs until the end of the measurement.
    pub fn spawn(self, session: &Session) -> Result<JoinHandle<Seen>> {
        let start_ns = session.next_start_ns();
        let session = session.clone();
        let nr_events = (session.length_ns() / self.period_ns) as usize + 2;
        // Written once, so that recording an event cannot fault.
        let event = Event {
            at_ns: 1,
            wake_ns: 1,
            done_ns: 1,
        };
        let mut events = vec![event; nr_events];
        events.clear();
        let seen = Seen {
            events,
            ..Seen::default()
        };
        thread::spawn_measured(session.fifo, self.name, move || {
            self.run(&session, start_ns, seen)
        })
    }

    fn run(self, session: &Session, start_ns: u64, mut seen: Seen) -> Seen {
        let mut account = Account::new();
        let mut deadline_ns = start_ns;
        while deadline_ns < session.to_ns {
            clock::sleep_until_ns(deadline_ns);
            clock::spin_for_ns(session.inject_ns);
            let woke_ns = now_ns();
            let counts = session.counts(deadline_ns);
            if counts && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            work::burn_cpu_ns(self.work_ns);
            if counts {
                let event = Event {
                    at_ns: deadline_ns - session.from_ns,
                    done_ns: now_ns() - deadline_ns,
                    wake_ns: woke_ns - deadline_ns,
                };
                seen.wake.record(event.wake_ns);
                seen.done.record(event.done_ns);
                seen.missed += u64::from(event.done_ns > self.period_ns);
                seen.events.push(event);
            }
            deadline_ns += self.period_ns;
        }
        seen.usage = account.close();
        seen
    }
}
