// SPDX-License-Identifier: GPL-2.0
//! One figure over many runs: its median, and between which values most runs are.
//!
//! A run in which the CPU was taken away is far off. It moves neither of the
//! three while such runs are few, so none has to be recognised.

use serde::Serialize;

use crate::stats;
use crate::table;

/// The middle of many values and their spread, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of the values are below.
    pub median: f64,
    /// A tenth of the values is not above.
    pub p10: f64,
    /// Nine tenths of the values are not above.
    pub p90: f64,
}

impl Quantiles {
    /// Those of `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |tenths: usize| sorted.get((sorted.len() * tenths).div_ceil(10).max(1) - 1);
        Some(Self {
            median: stats::median(values)?,
            p10: *rank(1)?,
            p90: *rank(9)?,
        })
    }

    /// The same in a unit of which one is `factor` of the old one; at least 0.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            p10: self.p10 * factor,
            p90: self.p90 * factor,
        }
    }

    /// As `median [p10..p90]`.
    pub fn text(&self) -> String {
        let [median, p10, p90] = [self.median, self.p10, self.p90].map(table::value);
        format!("{median} [{p10}..{p90}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_runs_may_be_far_off_at_either_end() {
        let mut values: Vec<f64> = (1..=20).map(f64::from).collect();
        values.reverse();
        let expected = Quantiles {
            median: 10.5,
            p10: 2.0,
            p90: 18.0,
        };
        assert_eq!(Quantiles::of(&values), Some(expected));
        values[0] = 1e9;
        values[1] = 1e9;
        assert_eq!(Quantiles::of(&values), Some(expected));
    }

    #[test]
    fn few_values_are_enough_and_none_are_not() {
        assert_eq!(Quantiles::of(&[]), None);
        let one = Quantiles::of(&[7.0]).unwrap();
        assert_eq!([one.median, one.p10, one.p90], [7.0; 3]);
        let two = Quantiles::of(&[3.0, 1.0]).unwrap();
        assert_eq!([two.median, two.p10, two.p90], [2.0, 1.0, 3.0]);
    }

    #[test]
    fn another_unit_changes_all_of_it() {
        let quantiles = Quantiles::of(&[1.0, 2.0, 4.0]).unwrap().scaled(2.0);
        assert_eq!(quantiles.text(), "4.00 [2.00..8.00]");
    }
}
