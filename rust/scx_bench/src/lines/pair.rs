// SPDX-License-Identifier: GPL-2.0
//! What a line costs that another CPU has.
//!
//! Two threads, each kept on its CPU, take turns. In each run
//!
//!   1. the other one writes as many lines as half of its L1 cache holds;
//!   2. this one reads them: each is fetched from where the other has it;
//!   3. both read them again, then this one writes them: each line is shared, and
//!      the other's copy has to go;
//!   4. it writes them again, now its own: what a write costs that waits for
//!      its turn, which is in 3 as well;
//!   5. one line goes to and fro, written by both.
//!
//! The one whose turn it is not looks for its turn meanwhile: if it slept, its
//! CPU might write its caches back.
//!
//! Not here: what this CPU has itself, or no CPU (`caches`).

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};

use super::cycle::{APART_LINES, Cycle, Draws, Memory};
use super::figure::{Figure, Runs, What};
use super::pin;
use super::speed;
use super::topology::{Cache, Pair};

/// How often a run goes around for the writes of its own lines, which are short.
const OWN_ROUNDS: usize = 16;

/// Round trips of a run.
const TRIPS: u64 = 256;

/// What the other thread is asked to do.
const NOTHING: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;
const RETURN_LINE: u32 = 3;
const END: u32 = 4;

/// Alone in its line and in the one that might be fetched with it.
#[repr(align(256))]
#[derive(Debug, Default)]
struct Alone<T>(T);

/// What the two threads share.
#[derive(Debug, Default)]
struct Desk {
    /// Written by this thread, and back to [`NOTHING`] by the other.
    request: Alone<AtomicU32>,
    /// The line that goes to and fro.
    line: Alone<AtomicU64>,
}

/// The other thread, from this one. It ends when this is dropped.
struct Other<'a> {
    desk: &'a Desk,
}

/// Measure `pair`, of whose first CPU `l1` is the nearest cache, in `runs` runs.
///
/// # Errors
///
/// If a thread cannot be kept on its CPU or there is no memory.
pub(super) fn measure(pair: Pair, l1: &Cache, runs: usize) -> Result<Vec<Figure>> {
    let lines = l1.bytes / l1.line_bytes / 2;
    pin::on_cpu(pair.here, || {
        let memory = Memory::new(lines * APART_LINES * l1.line_bytes, l1.line_bytes)?;
        let mut draws = Draws::new(u64::from(pair.there));
        let cycle = memory.link(lines, APART_LINES, &mut draws)?;
        let desk = Desk::default();
        thread::scope(|scope| {
            let (sender, pinned) = mpsc::channel();
            let other = Other { desk: &desk };
            let desk = &desk;
            thread::Builder::new()
                .name("lines-other".to_string())
                .spawn_scoped(scope, move || {
                    let outcome = pin::pin(pair.there);
                    let is_pinned = outcome.is_ok();
                    if sender.send(outcome).is_ok() && is_pinned {
                        desk.serve(cycle, lines);
                    }
                })
                .context("starting a thread")?;
            pinned.recv().context("the other thread is gone")??;
            let mut figures = Figures::default();
            for _ in 0..runs {
                // Another order each time, or a prefetcher might learn it.
                let cycle = memory.link(lines, APART_LINES, &mut draws)?;
                figures.add_run(&other, cycle, lines);
            }
            Ok(figures.figures(pair, lines))
        })
    })
}

/// The runs of each figure.
#[derive(Debug, Default)]
struct Figures {
    read_written: Runs,
    write_shared: Runs,
    write_own: Runs,
    round_trip: Runs,
}

impl Figures {
    fn add_run(&mut self, other: &Other, cycle: Cycle, lines: usize) {
        let ghz = speed::clock_ghz();
        other.ask(WRITE, || ());
        let took_ns = speed::time_ns(|| cycle.read(lines));
        self.read_written.add(took_ns, lines, ghz);
        // Some CPUs give a line that was written to its reader, with nothing left
        // behind: only the next reader shares it.
        other.ask(READ, || ());
        hint::black_box(cycle.read(lines));
        let took_ns = speed::time_ns(|| cycle.write_in_turn(lines));
        self.write_shared.add(took_ns, lines, ghz);
        let took_ns = speed::time_ns(|| cycle.write_in_turn(OWN_ROUNDS * lines));
        self.write_own.add(took_ns, OWN_ROUNDS * lines, ghz);
        let took_ns = other.round_trips_ns();
        self.round_trip.add(took_ns, TRIPS as usize, ghz);
    }

    fn figures(&self, pair: Pair, lines: usize) -> Vec<Figure> {
        let all = [
            (&self.read_written, What::ReadWritten, lines),
            (&self.write_shared, What::WriteShared, lines),
            (&self.write_own, What::WriteOwn, lines),
            (&self.round_trip, What::RoundTrip, 1),
        ];
        all.into_iter()
            .filter_map(|(runs, what, lines)| runs.figure(what, pair.here, Some(pair), lines))
            .collect()
    }
}

impl Desk {
    /// Do what is asked, until the end.
    fn serve(&self, cycle: Cycle, lines: usize) {
        loop {
            match self.request.0.load(Ordering::Acquire) {
                NOTHING => {
                    hint::spin_loop();
                    continue;
                }
                WRITE => {
                    hint::black_box(cycle.write(lines));
                }
                READ => {
                    hint::black_box(cycle.read(lines));
                }
                RETURN_LINE => self.return_line(),
                _ => return,
            }
            self.request.0.store(NOTHING, Ordering::Release);
        }
    }

    /// Answer each odd number by the even one after it; the first trip does not
    /// count. Without a pause in the loop, which would be in the figure.
    fn return_line(&self) {
        for trip in 0..=TRIPS {
            while self.line.0.load(Ordering::Acquire) != 2 * trip + 1 {}
            self.line.0.store(2 * trip + 2, Ordering::Release);
        }
    }

    /// Send the line for trip `trip` and wait until it is back.
    fn send_line(&self, trip: u64) {
        self.line.0.store(2 * trip + 1, Ordering::Release);
        while self.line.0.load(Ordering::Acquire) != 2 * trip + 2 {}
    }
}

impl Other<'_> {
    /// Have `request` done; `meanwhile` is this thread's part of it.
    fn ask<T>(&self, request: u32, meanwhile: impl FnOnce() -> T) -> T {
        self.desk.request.0.store(request, Ordering::Release);
        let outcome = meanwhile();
        while self.desk.request.0.load(Ordering::Acquire) != NOTHING {
            hint::spin_loop();
        }
        outcome
    }

    /// How long [`TRIPS`] round trips take, in nanoseconds.
    fn round_trips_ns(&self) -> f64 {
        self.desk.line.0.store(0, Ordering::Relaxed);
        self.ask(RETURN_LINE, || {
            self.desk.send_line(0);
            speed::time_ns(|| (1..=TRIPS).for_each(|trip| self.desk.send_line(trip)))
        })
    }
}

impl Drop for Other<'_> {
    fn drop(&mut self) {
        self.desk.request.0.store(END, Ordering::Release);
    }
}
