// SPDX-License-Identifier: GPL-2.0
//! Time: how long something took, in nanoseconds, and how many cycles that were.

use std::hint::black_box;

use crate::clock::now_ns;

/// Rounds of additions that are counted: 20 us at 3 GHz.
const ROUNDS: u32 = 4_000;
/// Additions of a round.
const ROUND_ADDITIONS: u32 = 16;

/// How long `body` takes, in nanoseconds.
pub(super) fn time_ns<T>(body: impl FnOnce() -> T) -> f64 {
    let from_ns = now_ns();
    black_box(body());
    (now_ns() - from_ns) as f64
}

/// Cycles of this CPU in a nanosecond: the speed of additions, of which each
/// waits for the one before and takes a cycle. `None` where that is not known.
#[cfg(target_arch = "x86_64")]
pub(super) fn clock_ghz() -> Option<f64> {
    let mut sum = black_box(1_u64);
    let one = black_box(1_u64);
    let took_ns = time_ns(|| {
        for _ in 0..ROUNDS {
            // Of registers: some CPUs add a constant in no time.
            //
            // SAFETY: additions in a register, without memory or the stack.
            unsafe {
                std::arch::asm!(
                    ".rept {additions}",
                    "add {sum}, {one}",
                    ".endr",
                    sum = inout(reg) sum,
                    one = in(reg) one,
                    additions = const ROUND_ADDITIONS,
                    options(pure, nomem, nostack),
                );
            }
        }
        sum
    });
    Some(f64::from(ROUNDS * ROUND_ADDITIONS) / took_ns)
}

/// Cycles of this CPU in a nanosecond, which is not known here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn clock_ghz() -> Option<f64> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_one_that_a_cpu_may_have() {
        let fastest = (0..100).filter_map(|_| clock_ghz()).fold(0.0, f64::max);
        assert!((0.3..10.0).contains(&fastest), "{fastest} GHz");
    }
}
