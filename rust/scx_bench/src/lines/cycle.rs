// SPDX-License-Identifier: GPL-2.0
//! Lines of memory that are linked to one cycle in random order, and walks along it.
//!
//! Each line holds the address of the next, so a load waits for the one before
//! it, and no prefetcher can know what comes. Memory is asked for in huge pages,
//! without which a walk also measures how addresses are translated.
//!
//! Not here: who walks when (`caches`, `pair`).

use std::ffi::c_void;
use std::fs;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use nix::sys::mman::{self, MapFlags, MmapAdvise, ProtFlags};

/// From one line to the next where a prefetcher must not fetch one with the other:
/// neither the line after it nor the other one of a pair. An odd number uses all
/// sets of a cache. A small one keeps the pages few, which in a virtual machine may
/// be small ones of the host although the guest has huge ones.
pub(super) const APART_LINES: usize = 3;

/// The smallest page, in bytes.
const PAGE_BYTES: usize = 4 << 10;
/// Size of a huge page, in bytes; memory begins at one and is a multiple of it.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What is at the start of a line.
#[repr(C)]
#[derive(Debug)]
struct Line {
    /// Null until the line is linked.
    next: AtomicPtr<Line>,
    /// Only ever written.
    written: AtomicU64,
}

/// Memory for lines.
#[derive(Debug)]
pub(super) struct Memory {
    map: NonNull<c_void>,
    map_bytes: usize,
    /// From the start of the map to the first huge page.
    offset_bytes: usize,
    line_bytes: usize,
}

// SAFETY: the memory belongs to this alone, and is accessed by atomics alone.
unsafe impl Sync for Memory {}

/// A place in a cycle of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle<'a> {
    at: &'a Line,
}

impl Memory {
    /// Room for at least `bytes`, in lines of `line_bytes`.
    ///
    /// # Errors
    ///
    /// If there is no such memory, or lines are too small for what they hold.
    pub fn new(bytes: usize, line_bytes: usize) -> Result<Self> {
        let is_aligned = line_bytes.is_multiple_of(align_of::<Line>());
        ensure!(
            line_bytes >= size_of::<Line>() && is_aligned,
            "lines of {line_bytes} bytes are not supported"
        );
        let map_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        let size = NonZeroUsize::new(map_bytes).context("no memory is asked for")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, placed by the kernel.
        let map = unsafe { mman::mmap_anonymous(None, size, access, MapFlags::MAP_PRIVATE) }
            .with_context(|| format!("getting {map_bytes} bytes of memory"))?;
        // Refused by a kernel that has no huge pages; how many it gave is counted
        // later.
        //
        // SAFETY: advice for a mapping of that length, of which nothing is in use.
        let _ = unsafe { mman::madvise(map, map_bytes, MmapAdvise::MADV_HUGEPAGE) };
        let memory = Self {
            offset_bytes: map.cast::<u8>().as_ptr().align_offset(HUGE_PAGE_BYTES),
            map,
            map_bytes,
            line_bytes,
        };
        // Pages that are only read would all be the one of zeroes.
        for page in 0..memory.bytes() / PAGE_BYTES {
            let line = memory.line(page * PAGE_BYTES / line_bytes)?;
            line.written.store(1, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Bytes that lines can take.
    pub fn bytes(&self) -> usize {
        self.map_bytes - HUGE_PAGE_BYTES
    }

    /// How much of it is in huge pages now, in percent of [`Memory::bytes`].
    pub fn huge_pct(&self) -> f64 {
        // What else this process has in huge pages is little.
        let smaps = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let huge_bytes = huge_kib(&smaps).unwrap_or(0) << 10;
        (100.0 * huge_bytes as f64 / self.bytes() as f64).min(100.0)
    }

    /// Link `count` lines, at least one, of which each begins `spacing` lines after the one
    /// before, to one cycle in an order of `draws`. The result is at the
    /// first line of the memory.
    ///
    /// # Errors
    ///
    /// If there are not as many.
    pub fn link(&self, count: usize, spacing: usize, draws: &mut Draws) -> Result<Cycle<'_>> {
        let order = order(count, draws);
        let successors = order.iter().cycle().skip(1);
        for (&slot, &next) in order.iter().zip(successors) {
            let next = ptr::from_ref(self.line(next * spacing)?).cast_mut();
            let line = self.line(slot * spacing)?;
            line.next.store(next, Ordering::Relaxed);
        }
        Ok(Cycle { at: self.line(0)? })
    }

    /// Read `count` lines from the one of number `first` on, in order and as fast
    /// as can be.
    ///
    /// # Errors
    ///
    /// If there are not as many.
    pub fn sweep(&self, first: usize, count: usize) -> Result<()> {
        for number in first..first + count {
            black_box(self.line(number)?.written.load(Ordering::Relaxed));
        }
        Ok(())
    }

    fn line(&self, number: usize) -> Result<&Line> {
        let nr_lines = self.bytes() / self.line_bytes;
        ensure!(number < nr_lines, "line {number} of {nr_lines}");
        let offset = self.offset_bytes + number * self.line_bytes;
        // SAFETY: the line is within the map by its number, and aligned as the map
        // and lines are. It holds zeroes or what was stored here, all of it valid,
        // lives as long as this, and is accessed by atomics alone.
        Ok(unsafe { self.map.byte_add(offset).cast::<Line>().as_ref() })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // It fails only for what is no mapping.
        //
        // SAFETY: all references to lines borrow this, so none is left.
        let _ = unsafe { mman::munmap(self.map, self.map_bytes) };
    }
}

impl<'a> Cycle<'a> {
    /// Read `steps` lines, each after the one before; where that ends.
    #[inline(never)]
    pub fn read(self, steps: usize) -> Self {
        let mut at = self.at;
        for _ in 0..steps {
            at = Self::follow(at.next.load(Ordering::Relaxed));
        }
        Self { at }
    }

    /// Write `steps` lines, without waiting until a write is done.
    #[inline(never)]
    pub fn write(self, steps: usize) -> Self {
        let mut at = self.at;
        for step in 0..steps {
            at.written.store(step as u64, Ordering::Relaxed);
            at = Self::follow(at.next.load(Ordering::Relaxed));
        }
        Self { at }
    }

    /// Write `steps` lines, each after the one before has been written: a locked
    /// addition gives the address of the next only when the line is its CPU's own.
    #[inline(never)]
    pub fn write_in_turn(self, steps: usize) -> Self {
        // The compiler must not know that nothing is added.
        let nothing = black_box(0);
        let mut at = self.at;
        for _ in 0..steps {
            at = Self::follow(at.next.fetch_byte_add(nothing, Ordering::Relaxed));
        }
        Self { at }
    }

    fn follow(next: *mut Line) -> &'a Line {
        // SAFETY: a cycle is made only by `link`, which has every line of it point
        // to a line that points on, and again only to such. They are lines of the
        // memory that is borrowed for 'a, and are accessed by atomics alone.
        unsafe { &*next }
    }
}

/// KiB of anonymous memory in huge pages, of a `smaps_rollup`.
fn huge_kib(smaps: &str) -> Option<u64> {
    let mut lines = smaps.lines();
    let rest = lines.find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    rest.trim().strip_suffix(" kB")?.parse().ok()
}

/// The numbers below `count` in random order: each place, from the last one down,
/// gets one of those that are left.
fn order(count: usize, draws: &mut Draws) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for left in (1..=count).rev() {
        order.swap(left - 1, draws.below(left));
    }
    order
}

/// Numbers without a pattern that a seed decides: SplitMix64. A package for it
/// would be one of `scx_workload` as well, whose bytes are part of its results.
#[derive(Debug)]
pub(super) struct Draws {
    state: u64,
}

impl Draws {
    /// Those of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next one, below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LINE_BYTES: usize = 64;

    /// Addresses of the lines of a cycle, one step after the other.
    fn addresses(cycle: Cycle, steps: usize, step: impl Fn(Cycle) -> Cycle) -> Vec<usize> {
        let mut at = cycle;
        let mut seen = Vec::new();
        for _ in 0..steps {
            seen.push(ptr::from_ref(at.at).addr());
            at = step(at);
        }
        assert!(ptr::eq(at.at, cycle.at), "{steps} steps are once around");
        seen
    }

    #[test]
    fn every_line_is_on_the_one_cycle_once() {
        let memory = Memory::new(1 << 20, LINE_BYTES).unwrap();
        for (count, spacing, seed) in [(1, 1, 1), (2, 1, 2), (1000, 1, 3), (257, 17, 4)] {
            let cycle = memory.link(count, spacing, &mut Draws::new(seed)).unwrap();
            let seen = addresses(cycle, count, |at| at.read(1));
            let base = *seen.iter().min().unwrap();
            let expected: BTreeSet<usize> = (0..count)
                .map(|slot| base + slot * spacing * LINE_BYTES)
                .collect();
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
            assert!(base.is_multiple_of(HUGE_PAGE_BYTES));
        }
    }

    #[test]
    fn lines_do_not_follow_each_other_in_a_way_that_can_be_guessed() {
        let memory = Memory::new(1 << 20, LINE_BYTES).unwrap();
        let cycle = memory.link(4096, 1, &mut Draws::new(5)).unwrap();
        let seen = addresses(cycle, 4096, |at| at.read(1));
        let is_near = |pair: &&[usize]| pair[0].abs_diff(pair[1]) <= 2 * LINE_BYTES;
        // 4 of 4096 lines are that near.
        let near = seen.windows(2).filter(is_near).count();
        assert!(near < 20, "{near}");
        let again = memory.link(4096, 1, &mut Draws::new(6)).unwrap();
        assert_ne!(addresses(again, 4096, |at| at.read(1)), seen);
    }

    #[test]
    fn all_walks_go_the_same_way_and_leave_it_as_it_is() {
        let memory = Memory::new(1 << 20, LINE_BYTES).unwrap();
        let cycle = memory.link(100, 3, &mut Draws::new(7)).unwrap();
        let read = addresses(cycle, 100, |at| at.read(1));
        assert_eq!(addresses(cycle, 100, |at| at.write(1)), read);
        assert_eq!(addresses(cycle, 100, |at| at.write_in_turn(1)), read);
        assert_eq!(addresses(cycle, 100, |at| at.read(1)), read);
        for walk in [Cycle::read, Cycle::write, Cycle::write_in_turn] {
            let end = ptr::from_ref(walk(cycle, 42).at).addr();
            assert_eq!(end, read[42]);
        }
    }

    #[test]
    fn huge_pages_are_counted_as_the_kernel_tells() {
        let smaps =
            "Anonymous:       20480 kB\nAnonHugePages:     18432 kB\nShmemPmdMapped: 1 kB\n";
        assert_eq!(huge_kib(smaps), Some(18432));
        assert_eq!(huge_kib("Anonymous: 1 kB\n"), None);
    }

    #[test]
    fn lines_that_do_not_fit_are_refused() {
        let memory = Memory::new(1 << 20, LINE_BYTES).unwrap();
        let nr_lines = memory.bytes() / LINE_BYTES;
        let draws = &mut Draws::new(8);
        assert!(memory.link(nr_lines, 1, draws).is_ok());
        assert!(memory.link(nr_lines + 1, 1, draws).is_err());
        assert!(memory.link(nr_lines / 2 + 1, 2, draws).is_err());
        assert!(memory.sweep(nr_lines / 2, nr_lines / 2).is_ok());
        assert!(memory.sweep(nr_lines / 2, nr_lines / 2 + 1).is_err());
        assert!(Memory::new(1 << 20, 8).is_err());
    }
}
