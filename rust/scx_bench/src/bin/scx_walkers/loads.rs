// SPDX-License-Identifier: GPL-2.0
//! What the processes of a scenario do, each until it is killed.
//!
//! A set is memory that is walked from line to line: of each the walker reads a word and
//! does about six instructions with it, of every fourth it writes one. So a set of the
//! size of an L2 misses the L1 at each line, and none of the L2 as long as it stays where
//! it is; a quarter of what it takes along when it moves, another CPU has written.
//!
//! Not here: how many of which there are (`scenarios`).

use std::io::{Read, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context, Result};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use scx_scenarios::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC, now_ns};
use scx_scenarios::token::Token;
use scx_scenarios::{thread, work};

use crate::crew::{Counter, Crew};

const KIB: usize = 1024;

/// Bytes of a line.
const LINE_BYTES: usize = 64;

/// Of so many lines a walk writes one.
const LINES_PER_WRITE: usize = 4;

/// What processes of a pipeline hand on, in bytes: a page, as pipes have them.
const BLOCK_BYTES: usize = 4 * KIB;

/// From one packet of a call to the next, in nanoseconds.
const CALL_PERIOD_NS: u64 = 10 * NSEC_PER_MSEC;
/// The set of each end of a call in KiB, and how often it is walked for a packet: about
/// 0.1 ms.
const CALL_KIB: usize = 64;
const CALL_PASSES: usize = 16;

/// From one frame to the next, in nanoseconds.
const FRAME_NS: u64 = NSEC_PER_SEC / 60;
/// What the threads of a game share, in KiB, and how often each worker walks it for a
/// frame: about 1 ms.
const GAME_KIB: usize = 256;
const GAME_PASSES: usize = 32;

/// The set of a job of make, in KiB, and how often it walks it.
const JOB_KIB: usize = 1024;
const JOB_PASSES: usize = 8;

/// A line of memory.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line {
    word: AtomicU64,
}

/// Memory that is walked.
#[derive(Debug)]
struct Set {
    lines: Vec<Line>,
}

impl Set {
    /// One of `kib`, its pages present.
    fn new(kib: usize) -> Self {
        let nr_lines = kib * KIB / LINE_BYTES;
        let lines = (0..nr_lines).map(|nth| Line {
            word: AtomicU64::new(nth as u64),
        });
        Self {
            lines: lines.collect(),
        }
    }

    /// Walk it once.
    fn walk(&self) {
        let mut sum = self.read_some();
        for lines in self.lines.chunks_exact(LINES_PER_WRITE) {
            for line in lines {
                sum = mix(sum, line.word.load(Ordering::Relaxed));
            }
            lines[0].word.store(sum, Ordering::Relaxed);
        }
    }

    /// Read all of it once.
    fn read(&self) -> u64 {
        let words = self
            .lines
            .iter()
            .map(|line| line.word.load(Ordering::Relaxed));
        words.fold(0, mix)
    }

    /// Write all of the `nth` of `nr` parts once.
    fn write_part(&self, nth: usize, nr: usize) {
        let nr_lines = self.lines.len() / nr;
        for line in self.lines.iter().skip(nth * nr_lines).take(nr_lines) {
            line.word.store(nth as u64, Ordering::Relaxed);
        }
    }

    fn read_some(&self) -> u64 {
        let first = self.lines.first();
        first.map_or(0, |line| line.word.load(Ordering::Relaxed))
    }
}

/// Some work with a word.
#[inline]
fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Hogs that walk a set of `kib` each; a unit is a pass.
pub fn walkers(crew: &mut Crew, count: usize, kib: usize) -> Result<()> {
    for _ in 0..count {
        crew.spawn_one("walker", "pass", |counter| {
            let set = Set::new(kib);
            counter.ready();
            loop {
                set.walk();
                counter.unit();
            }
        })?;
    }
    Ok(())
}

/// Tasks that use `work_us` of CPU time each `period_us`, and touch next to nothing; a
/// unit is a run. One that is late leaves out what it missed.
pub fn timers(crew: &mut Crew, count: usize, period_us: u64, work_us: u64) -> Result<()> {
    let (period_ns, work_ns) = (period_us * NSEC_PER_USEC, work_us * NSEC_PER_USEC);
    for _ in 0..count {
        let start_ns = crew.start_ns(period_ns);
        crew.spawn_one("timer", "run", |counter| {
            counter.ready();
            let mut due_ns = start_ns;
            loop {
                clock::sleep_until_ns(due_ns);
                work::burn_cpu_ns(work_ns);
                counter.unit();
                due_ns = next_ns(due_ns, period_ns);
            }
        })?;
    }
    Ok(())
}

/// The first instant of a grid of `period_ns` that is after `last_ns` and not over.
fn next_ns(last_ns: u64, period_ns: u64) -> u64 {
    let nr_over = now_ns().saturating_sub(last_ns) / period_ns;
    last_ns + nr_over.max(1) * period_ns
}

/// Pairs of processes that hand a byte back and forth through two pipes, with nothing in
/// between; a unit is a round trip.
pub fn pairs(crew: &mut Crew, count: usize) -> Result<()> {
    for _ in 0..count {
        let (mut asked, mut ask) = pipe().context("making a pipe")?;
        let (mut answered, mut answer) = pipe().context("making a pipe")?;
        crew.spawn_one("asking", "round trip", move |counter| {
            let mut byte = [0];
            counter.ready();
            loop {
                ask.write_all(&byte)?;
                answered.read_exact(&mut byte)?;
                counter.unit();
            }
        })?;
        crew.spawn_one("answering", "answer", move |counter| {
            let mut byte = [0];
            counter.ready();
            loop {
                asked.read_exact(&mut byte)?;
                answer.write_all(&byte)?;
                counter.unit();
            }
        })?;
    }
    Ok(())
}

/// A pipeline: one process writes blocks, the next one changes them, the last one reads
/// them. A unit is a block that was read.
pub fn pipeline(crew: &mut Crew) -> Result<()> {
    let (mut from_source, mut to_filter) = pipe().context("making a pipe")?;
    let (mut from_filter, mut to_sink) = pipe().context("making a pipe")?;
    crew.spawn_one("sink", "block", move |counter| {
        let mut block = [0; BLOCK_BYTES];
        let mut sum = 0;
        counter.ready();
        loop {
            from_filter.read_exact(&mut block)?;
            sum = block
                .iter()
                .fold(sum, |sum, &byte| mix(sum, u64::from(byte)));
            std::hint::black_box(sum);
            counter.unit();
        }
    })?;
    crew.spawn_one("filter", "changed block", move |counter| {
        let mut block = [0; BLOCK_BYTES];
        counter.ready();
        loop {
            from_source.read_exact(&mut block)?;
            block.iter_mut().for_each(|byte| *byte = !*byte);
            to_sink.write_all(&block)?;
            counter.unit();
        }
    })?;
    crew.spawn_one("source", "written block", move |counter| {
        let mut block = [0u8; BLOCK_BYTES];
        counter.ready();
        loop {
            block
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_add(1));
            to_filter.write_all(&block)?;
            counter.unit();
        }
    })
}

/// A call: each 10 ms a process makes a packet, with a set of its own, and another one,
/// which has one too, gets it. A unit is a packet.
pub fn call(crew: &mut Crew) -> Result<()> {
    let (mut received, mut send) = pipe().context("making a pipe")?;
    let start_ns = crew.start_ns(CALL_PERIOD_NS);
    let work = |set: &Set| (0..CALL_PASSES).for_each(|_| set.walk());
    crew.spawn_one("listener", "packet", move |counter| {
        let set = Set::new(CALL_KIB);
        let mut block = [0; BLOCK_BYTES];
        counter.ready();
        loop {
            received.read_exact(&mut block)?;
            work(&set);
            counter.unit();
        }
    })?;
    crew.spawn_one("speaker", "sent packet", move |counter| {
        let set = Set::new(CALL_KIB);
        let mut due_ns = start_ns;
        counter.ready();
        loop {
            clock::sleep_until_ns(due_ns);
            work(&set);
            send.write_all(&[1; BLOCK_BYTES])?;
            counter.unit();
            due_ns = next_ns(due_ns, CALL_PERIOD_NS);
        }
    })
}

/// What a game's threads share, beside the set.
#[derive(Debug, Default)]
struct Round {
    nr_missing: AtomicUsize,
    done: Token,
}

/// A game of 60 frames per second: for each its main thread writes all of a set, wakes
/// N - 1 workers, who walk it, each with a part of a second set to write, and reads what
/// they wrote. A unit is a frame; one that is late leaves out refreshes.
pub fn game(crew: &mut Crew) -> Result<()> {
    let start_ns = crew.start_ns(FRAME_NS);
    let nr_workers = (crew.cpus() - 1).max(1);
    let mut frames = crew.counter("game", "frame")?;
    let mut missed = crew.counter("screen", "missed refresh")?;
    crew.spawn("game", move || {
        let (world, answers) = (Arc::new(Set::new(GAME_KIB)), Arc::new(Set::new(GAME_KIB)));
        let round = Arc::new(Round::default());
        let calls: Vec<Arc<Token>> = (0..nr_workers).map(|_| Arc::default()).collect();
        for (nth, call) in calls.iter().cloned().enumerate() {
            let (world, answers) = (Arc::clone(&world), Arc::clone(&answers));
            let round = Arc::clone(&round);
            thread::spawn("worker", move || {
                loop {
                    call.wait();
                    (0..GAME_PASSES).for_each(|_| {
                        std::hint::black_box(world.read());
                    });
                    answers.write_part(nth, nr_workers);
                    if round.nr_missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                        round.done.post();
                    }
                }
            })?;
        }
        frames.ready();
        let mut due_ns = start_ns;
        loop {
            clock::sleep_until_ns(due_ns);
            world.write_part(0, 1);
            round.nr_missing.store(nr_workers, Ordering::Release);
            calls.iter().for_each(|call| call.post());
            round.done.wait();
            std::hint::black_box(answers.read());
            frames.unit();
            let next_ns = next_frame_ns(due_ns, now_ns());
            missed.units_left_out((next_ns - due_ns) / FRAME_NS - 1);
            due_ns = next_ns;
        }
    })
}

/// The first refresh after `now_ns`, of which `due_ns` was one.
fn next_frame_ns(due_ns: u64, now_ns: u64) -> u64 {
    due_ns + (now_ns.saturating_sub(due_ns) / FRAME_NS + 1) * FRAME_NS
}

/// `make` with so many jobs at a time: each is a fork with a set of its own, new pages
/// all of them, which it walks some times, and exits. A unit is a job that has ended.
pub fn jobs(crew: &mut Crew, count: usize) -> Result<()> {
    for _ in 0..count {
        let mut make = crew.counter("make", "job")?;
        let mut job = crew.counter("job", "pass of a job")?;
        crew.spawn("make", move || {
            make.ready();
            loop {
                run_job(&mut job)?;
                make.unit();
            }
        })?;
    }
    Ok(())
}

/// Run a job to its end.
fn run_job(counter: &mut Counter) -> Result<()> {
    // SAFETY: this process has one thread; the child leaves by _exit.
    match unsafe { fork() }.context("forking")? {
        ForkResult::Parent { child } => {
            waitpid(child, None).context("waiting for a job")?;
            Ok(())
        }
        ForkResult::Child => {
            let set = Set::new(JOB_KIB);
            counter.here();
            for _ in 0..JOB_PASSES {
                set.walk();
                counter.unit();
            }
            // SAFETY: ends the child at once; nothing of it is needed.
            unsafe { libc::_exit(0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_reads_each_line_and_writes_every_fourth() {
        let set = Set::new(1);
        let words = |set: &Set| -> Vec<u64> {
            let lines = set.lines.iter();
            lines
                .map(|line| line.word.load(Ordering::Relaxed))
                .collect()
        };
        let before = words(&set);
        assert_eq!(before.len(), 16);
        set.walk();
        let changed: Vec<usize> = words(&set)
            .iter()
            .zip(&before)
            .enumerate()
            .filter(|(_, (one, other))| one != other)
            .map(|(nth, _)| nth)
            .collect();
        assert_eq!(changed, [0, 4, 8, 12]);
        // Of each word depends what is written after it.
        let other = Set::new(1);
        other.lines[3].word.store(77, Ordering::Relaxed);
        other.walk();
        assert_ne!(words(&other)[0], words(&set)[0]);
        assert_ne!(set.read(), other.read());
    }

    #[test]
    fn parts_are_written_apart() {
        let set = Set::new(1);
        set.write_part(3, 4);
        let last: Vec<u64> = set.lines[11..]
            .iter()
            .map(|line| line.word.load(Ordering::Relaxed))
            .collect();
        assert_eq!(last, [11, 3, 3, 3, 3]);
    }

    #[test]
    fn what_was_missed_is_left_out() {
        let now_ns = now_ns();
        let period_ns = 10 * NSEC_PER_SEC;
        assert_eq!(next_ns(now_ns, period_ns), now_ns + period_ns);
        let due_ns = now_ns - 3 * period_ns - 1;
        assert_eq!(next_ns(due_ns, period_ns), due_ns + 3 * period_ns);
        assert_eq!(next_frame_ns(100, 100), 100 + FRAME_NS);
        assert_eq!(next_frame_ns(100, 99 + FRAME_NS), 100 + FRAME_NS);
        assert_eq!(next_frame_ns(100, 100 + FRAME_NS), 100 + 2 * FRAME_NS);
    }
}
