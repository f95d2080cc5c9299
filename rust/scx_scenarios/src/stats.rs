// SPDX-License-Identifier: GPL-2.0
//! Statistics: latency histograms of one run, and medians over many.
//!
//! A [`Recorder`] keeps every sample of a run in an HDR histogram of three
//! significant digits and its exact extremes. A [`Summary`] is what is written
//! to JSON: percentiles and the distribution. A [`Spread`] joins the same
//! figure from several seeds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency told apart, in nanoseconds; longer ones count as this.
const HIGHEST_NS: u64 = 60 * crate::clock::NSEC_PER_SEC;

/// Significant decimal digits kept by a histogram.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Points per halving of the distance to 100% in a written distribution.
const TICKS_PER_HALF_DISTANCE: u32 = 3;

/// Latencies of one kind in one run, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Recorder {
    histogram: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty recorder. All its memory is allocated and touched here, so that
    /// recording neither allocates nor faults.
    pub fn new() -> Self {
        let mut histogram = match Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS) {
            Ok(histogram) => histogram,
            // Only bounds that make no sense are refused, and these are constant.
            Err(_) => unreachable!("constant histogram bounds are valid"),
        };
        // One write per bucket brings in its page; the count is reset after.
        for exponent in 0..36 {
            let value_ns = (1u64 << exponent).min(HIGHEST_NS);
            histogram.saturating_record(value_ns);
            histogram.saturating_record(value_ns + value_ns / 2);
        }
        histogram.reset();
        Self {
            histogram,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Record one sample, in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        self.histogram.saturating_record(value_ns.max(1));
        self.sum_ns += u128::from(value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Take over all samples of `other`.
    pub fn merge(&mut self, other: &Recorder) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that `pct` percent of the samples do not exceed, in
    /// nanoseconds; 0 without samples.
    pub fn percentile_ns(&self, pct: f64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        // A bucket's upper edge may lie above the largest sample in it.
        self.histogram.value_at_percentile(pct).min(self.max_ns)
    }

    /// Smallest sample in nanoseconds, exact; 0 without samples.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    /// Largest sample in nanoseconds, exact; 0 without samples.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Mean of the samples in nanoseconds, exact; 0 without samples.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        self.sum_ns as f64 / self.count() as f64
    }

    /// What is written of these samples.
    pub fn summary(&self) -> Summary {
        let mut distribution = Vec::new();
        if self.count() > 0 {
            for step in self.histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
                let value_ns = step.value_iterated_to().min(self.max_ns);
                distribution.push((value_ns, step.quantile_iterated_to()));
            }
        }
        Summary {
            count: self.count(),
            min_ns: self.min_ns(),
            mean_ns: self.mean_ns(),
            p50_ns: self.percentile_ns(50.0),
            p90_ns: self.percentile_ns(90.0),
            p99_ns: self.percentile_ns(99.0),
            p999_ns: self.percentile_ns(99.9),
            max_ns: self.max_ns(),
            distribution,
        }
    }
}

/// Percentiles and distribution of one kind of latency in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample, in nanoseconds.
    pub min_ns: u64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile, in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, in nanoseconds.
    pub p999_ns: u64,
    /// Largest sample, in nanoseconds.
    pub max_ns: u64,
    /// (latency in nanoseconds, fraction of samples not above it).
    pub distribution: Vec<(u64, f64)>,
}

/// One figure over several runs that differ only by seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median over the runs, in the unit of the figure.
    pub median: f64,
    /// Smallest value seen.
    pub min: f64,
    /// Largest value seen.
    pub max: f64,
    /// Number of runs.
    pub count: usize,
}

impl Spread {
    /// Join `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            median,
            min,
            max,
            count: values.len(),
        })
    }
}

/// The median of `values`, or `None` when there are none. The median of an even
/// number of values is the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return Some(sorted[middle]);
    }
    Some((sorted[middle - 1] + sorted[middle]) / 2.0)
}

/// Jain's fairness index of `shares`: 1 when all are equal, 1/n when one has
/// everything; 1 for no shares at all.
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let sum_of_squares: f64 = shares.iter().map(|share| share * share).sum();
    if sum_of_squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * sum_of_squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_distribution_are_within_a_thousandth() {
        let mut recorder = Recorder::new();
        for value in 1..=100_000u64 {
            recorder.record(value * 1_000);
        }
        for (pct, expected_ns) in [
            (50.0, 50_000_000.0),
            (99.0, 99_000_000.0),
            (99.9, 99_900_000.0),
        ] {
            let error = (recorder.percentile_ns(pct) as f64 - expected_ns).abs() / expected_ns;
            assert!(error < 0.001, "p{pct} is off by {error}");
        }
        assert_eq!(recorder.max_ns(), 100_000_000);
        assert_eq!(recorder.min_ns(), 1_000);
        assert_eq!(recorder.mean_ns(), 50_000_500.0);
    }

    #[test]
    fn a_new_recorder_holds_nothing() {
        let summary = Recorder::new().summary();
        assert_eq!((summary.count, summary.max_ns, summary.p99_ns), (0, 0, 0));
        assert!(summary.distribution.is_empty());
    }

    #[test]
    fn merging_is_the_same_as_recording_in_one() {
        let (mut left, mut right, mut both) = (Recorder::new(), Recorder::new(), Recorder::new());
        for value in 0..1_000u64 {
            let half = if value % 3 == 0 {
                &mut left
            } else {
                &mut right
            };
            half.record(value * value);
            both.record(value * value);
        }
        left.merge(&right);
        assert_eq!(left.summary(), both.summary());
    }

    #[test]
    fn no_percentile_exceeds_the_largest_sample() {
        let mut recorder = Recorder::new();
        recorder.record(1_234_567);
        assert_eq!(recorder.percentile_ns(99.0), 1_234_567);
    }

    #[test]
    fn the_distribution_rises_to_one() {
        let mut recorder = Recorder::new();
        (1..=500u64).for_each(|value| recorder.record(value * value));
        let distribution = recorder.summary().distribution;
        assert!(
            distribution
                .windows(2)
                .all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1)
        );
        assert_eq!(distribution.last().map(|last| last.1), Some(1.0));
    }

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        let spread = Spread::of(&[2.0, 9.0, 4.0]);
        assert_eq!(
            spread,
            Some(Spread {
                median: 4.0,
                min: 2.0,
                max: 9.0,
                count: 3
            })
        );
    }

    #[test]
    fn jain_of_equal_and_of_greedy_shares() {
        assert_eq!(jain_index(&[2.0, 2.0, 2.0, 2.0]), 1.0);
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain_index(&[]), 1.0);
    }
}
