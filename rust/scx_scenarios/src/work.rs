// SPDX-License-Identifier: GPL-2.0
//! CPU work measured in the CPU time of the thread that does it.
//!
//! A load of "4 ms of CPU" must mean the same on a fast machine, on a slow one
//! and in a guest whose processors share one clock, so work is never a number
//! of loops: it is a number of small chunks, repeated until the thread's own
//! CPU clock has moved far enough.

use std::hint::black_box;

use crate::clock;

/// Rounds of the generator in one chunk: about 5000 instructions, so 1-2 us on
/// hardware and 5 us for a lone processor of the deterministic guest. Small
/// against the shortest work of any scenario (100 us), large against the
/// system call that reads the CPU clock.
const CHUNK_ROUNDS: u32 = 700;

/// Chunks that a hog does between two looks at the clock. Reading it has to
/// cost next to nothing, and a gap must be seen to some 20 us.
const HOG_CHUNKS: u32 = 4;

/// A source of work that the compiler can neither shorten nor skip.
#[derive(Debug, Clone)]
pub struct Work {
    state: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

impl Work {
    /// Work in its initial state; it has no size of its own.
    pub fn new() -> Self {
        Self {
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Do one chunk, about 5000 instructions, without a system call.
    #[inline(never)]
    pub fn chunk(&mut self) {
        let mut x = self.state;
        for _ in 0..CHUNK_ROUNDS {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        self.state = black_box(x);
    }

    /// Do what a hog does between two looks at the clock, about 20000
    /// instructions.
    pub fn hog_chunk(&mut self) {
        for _ in 0..HOG_CHUNKS {
            self.chunk();
        }
    }

    /// Use `cpu_ns` of the calling thread's CPU time, whatever wall time that
    /// takes. Overshoots by at most one chunk.
    pub fn burn_cpu_ns(&mut self, cpu_ns: u64) {
        if cpu_ns == 0 {
            return;
        }
        let until_ns = clock::thread_cpu_ns() + cpu_ns;
        while clock::thread_cpu_ns() < until_ns {
            self.chunk();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::NSEC_PER_MSEC;

    #[test]
    fn burning_uses_the_cpu_time_asked_for() {
        let mut work = Work::new();
        let start_ns = clock::thread_cpu_ns();
        work.burn_cpu_ns(2 * NSEC_PER_MSEC);
        assert!(clock::thread_cpu_ns() - start_ns >= 2 * NSEC_PER_MSEC);
    }
}
