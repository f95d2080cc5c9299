// SPDX-License-Identifier: GPL-2.0
//! Figures are judged over several draws.
//!
//! A guest repeats to the byte, but any change of a program's bytes is another draw of
//! what a test measures: a gap, a p99, a ratio, frames. One draw is a sample.
//!
//! The rule: a figure that holds in the first draw holds. If it does not, four more
//! are drawn, with other seeds, and it holds if it does in three of the five.
//!
//! A right program that misses a bound in a draw with probability p fails with about
//! 6 p^3: for p = 0.01, which two hundred tests have at most, the whole suite fails
//! once in 800 runs; for p = 0.002, as they have on average, once in 100,000. A wrong
//! one that misses it nine times in ten passes once in ten.
//!
//! What holds in every draw by construction is no figure, and fails at once: a kernel
//! that dies or complains, a scheduler that is thrown out, a script that gives up, what
//! is checked by [`Told::always`](super::told::Told::always). Tests that have no figure,
//! such as that books balance, do not come by here.

use std::cell::Cell;

use anyhow::{Error, Result};

use super::number_of_env;

/// How many draws there are; a figure that does not hold in the first does in most.
const NR_DRAWS_ENV: &str = "SCX_GUEST_DRAWS";
const NR_DRAWS_DFL: u64 = 5;

/// Seeds of two draws are this far apart.
const SEED_STEP: u64 = 1_000;

thread_local! {
    static DRAW: Cell<u64> = const { Cell::new(0) };
}

/// The seed of the draw that is judged, for the seed `first` of the first one.
pub fn seed(first: u64) -> u64 {
    first + SEED_STEP * DRAW.get()
}

/// A run that failed by itself, whatever is measured in it.
#[derive(Debug)]
pub struct Broken(pub Error);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Broken {}

/// Judge `figure`, which boots what it measures.
pub fn judge(figure: impl Fn() -> Result<()>) -> Result<()> {
    judge_in(number_of_env(NR_DRAWS_ENV, NR_DRAWS_DFL)?, figure)
}

fn judge_in(nr_draws: u64, figure: impl Fn() -> Result<()>) -> Result<()> {
    let nr_hold_min = nr_draws / 2 + 1;
    let (mut nr_hold, mut first) = (0, None);
    for draw in 0..nr_draws {
        DRAW.set(draw);
        let result = figure();
        DRAW.set(0);
        match result {
            Ok(()) if draw == 0 => return Ok(()),
            Ok(()) => nr_hold += 1,
            Err(err) if err.is::<Broken>() => return Err(err),
            Err(err) => {
                println!("draw {draw}: {err:#}");
                first.get_or_insert(err);
            }
        }
        // Those that are left change nothing.
        let nr_left = nr_draws - 1 - draw;
        if nr_hold >= nr_hold_min || nr_hold + nr_left < nr_hold_min {
            break;
        }
    }
    match first {
        Some(err) if nr_hold < nr_hold_min => Err(err),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{anyhow, ensure};

    use super::*;

    /// Judge a figure that misses in these draws; how often it was drawn.
    fn drawn(nr_draws: u64, misses: &[u64]) -> (bool, u64) {
        let nr = Cell::new(0);
        let result = judge_in(nr_draws, || {
            nr.set(nr.get() + 1);
            ensure!(!misses.contains(&(seed(7) / SEED_STEP)), "missed");
            Ok(())
        });
        (result.is_ok(), nr.get())
    }

    #[test]
    fn a_figure_that_misses_once_or_twice_in_five_draws_holds() {
        assert_eq!(drawn(5, &[]), (true, 1));
        assert_eq!(drawn(5, &[0]), (true, 4));
        assert_eq!(drawn(5, &[0, 2]), (true, 5));
    }

    #[test]
    fn a_figure_that_misses_three_times_does_not_hold() {
        assert_eq!(drawn(5, &[0, 1, 2]), (false, 3));
        assert_eq!(drawn(5, &[0, 2, 4]), (false, 5));
        assert_eq!(drawn(5, &[0, 1, 2, 3, 4]), (false, 3));
    }

    #[test]
    fn one_draw_decides_where_no_more_are_wanted() {
        assert_eq!(drawn(1, &[]), (true, 1));
        assert_eq!(drawn(1, &[0]), (false, 1));
    }

    #[test]
    fn a_broken_run_is_not_drawn_again() {
        let nr = Cell::new(0);
        let result = judge(|| {
            nr.set(nr.get() + 1);
            Err(Broken(anyhow!("the kernel died")).into())
        });
        assert!(result.is_err() && nr.get() == 1);
    }
}
