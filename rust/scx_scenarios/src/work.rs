// SPDX-License-Identifier: GPL-2.0
//! CPU work measured in the CPU time of the thread that does it.
//!
//! A load of "4 ms of CPU" must mean the same on a fast machine, on a slow one
//! and in a guest whose processors share one clock, so work is never a number
//! of loops: it is a number of small chunks, repeated until the thread's own
//! CPU clock has moved far enough.
//!
//! Not here: work that misses caches or fills execution units. What a scheduler
//! does with a thread does not depend on its instructions, and these are what costs
//! an emulator least.

use std::arch::asm;

use crate::clock;

/// Chunks that a hog does between two looks at the clock. Reading it has to
/// cost next to nothing, and a gap must be seen to some 20 us.
const HOG_CHUNKS: u32 = 4;

/// Rounds of one chunk, of 128 instructions each: 1 us on hardware or less, and 5 us for
/// a lone processor of the deterministic guest. That is small against the shortest
/// work of any scenario (100 us), and large against the system call that reads the CPU
/// clock.
const CHUNK_ROUNDS: u32 = 40;

/// Do one chunk, about 5000 instructions, without a system call.
///
/// An emulator pays for jumps, memory and flags rather than for instructions, and where
/// a processor's turn ends in the middle of a block without jumps, for the translation
/// of a part of it: so there are few jumps, and blocks are short. PAUSE would not do: at
/// that an emulated processor gives way to the others.
#[inline(never)]
pub fn chunk() {
    for _ in 0..CHUNK_ROUNDS {
        // SAFETY: a no-op reads and writes nothing.
        unsafe {
            asm!(
                ".rept 126",
                "nop",
                ".endr",
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}

/// Do what a hog does between two looks at the clock, about 20000 instructions.
pub fn hog_chunk() {
    for _ in 0..HOG_CHUNKS {
        chunk();
    }
}

/// Use `cpu_ns` of the calling thread's CPU time, whatever wall time that takes.
/// Overshoots by at most one chunk.
pub fn burn_cpu_ns(cpu_ns: u64) {
    if cpu_ns == 0 {
        return;
    }
    let until_ns = clock::thread_cpu_ns() + cpu_ns;
    while clock::thread_cpu_ns() < until_ns {
        chunk();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::NSEC_PER_MSEC;

    #[test]
    fn burning_uses_the_cpu_time_asked_for() {
        let start_ns = clock::thread_cpu_ns();
        burn_cpu_ns(2 * NSEC_PER_MSEC);
        assert!(clock::thread_cpu_ns() - start_ns >= 2 * NSEC_PER_MSEC);
    }
}
