// SPDX-License-Identifier: GPL-2.0
//! What a load costs in each cache of one CPU, and in memory.
//!
//! For L1 and for memory the CPU goes around a cycle of lines that L1 holds, or of
//! which the last cache holds a part only. For the caches between, it reads the
//! lines, then sweeps over others until the nearer caches are full of those, and
//! reads the lines again, once: a moment later, so that neighbours who fill an L3
//! cache too have little time to.
//!
//! Not here: caches of other CPUs (`pair`).

use anyhow::{Context, Result};

use super::cycle::{APART_LINES, Draws, Memory};
use super::figure::{Figure, Runs, What};
use super::pin;
use super::speed;
use super::topology::{Cache, Cpu};

/// Loads of a run from L1: long to the clock, 30 ns of which are in a run.
const L1_LOADS: usize = 8192;

/// Loads of a run from elsewhere: long to the clock and short to what may
/// interrupt it; 64 KiB of most CPUs.
const LOADS: usize = 1024;

/// The sweep is as many times larger than the nearer caches: of 8 ways, which
/// might be replaced at random, it leaves a line with a chance of (7/8)^24, 4%.
const SWEEP_RATIO: usize = 3;

/// Lines in memory are as many times more than the last cache holds, if there is
/// room, and at least the second. Replaced at random, e^-4 or 2% would be left in
/// it.
const MEMORY_RATIO: usize = 4;
const MEMORY_RATIO_MIN: usize = 2;

/// The part of the available memory that may be taken.
const MEMORY_SHARE: usize = 2;

/// How one figure is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walk {
    pub what: What,
    /// How many are on the cycle.
    lines: usize,
    /// From one to the next, in lines.
    spacing: usize,
    /// How many others are read before a run, to have these out of nearer caches.
    swept_lines: usize,
    /// Of a run.
    loads: usize,
}

impl Walk {
    /// The memory that it needs, in lines.
    fn all_lines(&self) -> usize {
        self.lines * self.spacing + self.swept_lines
    }
}

/// What was found of one CPU.
#[derive(Debug)]
pub(super) struct Found {
    pub figures: Vec<Figure>,
    /// How much of the memory was in huge pages, in percent.
    pub huge_pct: f64,
}

/// A walk for each of `caches`, nearest first, and one for memory, where
/// `available_bytes` are free; then what is left out and why.
pub(super) fn walks(caches: &[Cache], available_bytes: usize) -> (Vec<Walk>, Vec<String>) {
    let (mut walks, mut left_out) = (Vec::new(), Vec::new());
    // The caches before, and the size of a line.
    let (mut nearer_bytes, mut line_bytes) = (0, 1);
    for cache in caches {
        line_bytes = cache.line_bytes;
        let what = What::Cache(cache.level);
        let swept_bytes = SWEEP_RATIO * nearer_bytes;
        if nearer_bytes == 0 {
            walks.push(Walk {
                what,
                lines: cache.bytes / line_bytes / 2,
                spacing: 1,
                swept_lines: 0,
                loads: L1_LOADS,
            });
        } else if swept_bytes + LOADS * line_bytes > cache.bytes {
            left_out.push(format!(
                "{what}: it is not {SWEEP_RATIO} times as large as what is nearer"
            ));
        } else {
            walks.push(Walk {
                what,
                lines: LOADS,
                spacing: APART_LINES,
                swept_lines: swept_bytes / line_bytes,
                loads: LOADS,
            });
        }
        nearer_bytes = nearer_bytes.max(cache.bytes);
    }
    let room_bytes = available_bytes / MEMORY_SHARE;
    if room_bytes < nearer_bytes * MEMORY_RATIO_MIN {
        left_out.push(format!(
            "{}: {} MiB, {MEMORY_RATIO_MIN} times the last cache, are more than may be taken",
            What::Memory,
            (nearer_bytes * MEMORY_RATIO_MIN) >> 20
        ));
    } else {
        walks.push(Walk {
            what: What::Memory,
            lines: room_bytes.min(nearer_bytes * MEMORY_RATIO) / line_bytes,
            spacing: 1,
            swept_lines: 0,
            loads: LOADS,
        });
    }
    (walks, left_out)
}

/// Take `walks` on `cpu`, which has a cache, in `runs` runs each.
///
/// # Errors
///
/// If the thread cannot be kept there or there is no memory.
pub(super) fn measure(cpu: &Cpu, walks: &[Walk], runs: usize) -> Result<Found> {
    let line_bytes = cpu.caches.first().context("a cache")?.line_bytes;
    let lines = walks.iter().map(Walk::all_lines).max().unwrap_or(0);
    pin::on_cpu(cpu.id, || {
        let memory = Memory::new(lines * line_bytes, line_bytes)?;
        let mut figures = Vec::new();
        for walk in walks {
            let found = measure_one(&memory, walk, runs)?;
            figures.extend(found.figure(walk.what, cpu.id, None, walk.lines));
        }
        Ok(Found {
            figures,
            huge_pct: memory.huge_pct(),
        })
    })
}

fn measure_one(memory: &Memory, walk: &Walk, runs: usize) -> Result<Runs> {
    let mut found = Runs::default();
    let mut draws = Draws::new(walk.lines as u64);
    let mut cycle = memory.link(walk.lines, walk.spacing, &mut draws)?;
    // What was written to link it has left the caches after that.
    cycle = cycle.read(walk.lines);
    for _ in 0..runs {
        let ghz = speed::clock_ghz();
        // A cycle in memory comes round when the caches have long lost it.
        if walk.what != What::Memory {
            cycle = cycle.read(walk.lines);
            memory.sweep(walk.lines * walk.spacing, walk.swept_lines)?;
        }
        let took_ns = speed::time_ns(|| cycle = cycle.read(walk.loads));
        found.add(took_ns, walk.loads, ghz);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const LINE_BYTES: usize = 64;

    fn cache(level: u32, kib: usize) -> Cache {
        Cache {
            level,
            bytes: kib << 10,
            line_bytes: LINE_BYTES,
            shared: [0].into(),
        }
    }

    /// What each walk is for, the bytes of its lines and those that are swept.
    fn sizes(walks: &[Walk]) -> Vec<(What, usize, usize)> {
        let of_walk = |walk: &Walk| {
            let bytes = [walk.lines, walk.swept_lines].map(|lines| lines * LINE_BYTES);
            (walk.what, bytes[0], bytes[1])
        };
        walks.iter().map(of_walk).collect()
    }

    #[test]
    fn lines_and_sweep_fit_the_cache_and_are_too_many_for_the_nearer() {
        let caches = [cache(1, 32), cache(2, 512), cache(3, 32 << 10)];
        let (walks, left_out) = walks(&caches, 8192 * MIB);
        let expected = [
            (What::Cache(1), 16 << 10, 0),
            (What::Cache(2), 64 << 10, 96 << 10),
            (What::Cache(3), 64 << 10, 1536 << 10),
            (What::Memory, 128 * MIB, 0),
        ];
        assert_eq!(sizes(&walks), expected);
        assert!(left_out.is_empty(), "{left_out:?}");
    }

    #[test]
    fn memory_is_bounded_by_what_is_free() {
        let caches = [cache(1, 32), cache(2, 512), cache(3, 32 << 10)];
        let (enough, _) = walks(&caches, 200 * MIB);
        let last = sizes(&enough).pop().unwrap();
        assert_eq!(last, (What::Memory, 100 * MIB, 0));
        let (few, left_out) = walks(&caches, 100 * MIB);
        assert_eq!(few.last().unwrap().what, What::Cache(3));
        assert!(left_out[0].contains("64 MiB"), "{left_out:?}");
    }

    #[test]
    fn a_cache_like_the_nearer_one_is_left_out() {
        let caches = [cache(1, 64), cache(2, 4096), cache(3, 8192)];
        let (walks, left_out) = walks(&caches, 8192 * MIB);
        let whats: Vec<What> = walks.iter().map(|walk| walk.what).collect();
        assert_eq!(whats, [What::Cache(1), What::Cache(2), What::Memory]);
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].starts_with("load from L3"), "{left_out:?}");
    }
}
