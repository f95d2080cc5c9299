// SPDX-License-Identifier: GPL-2.0
//! How far a mean over a few repeats may be trusted.
//!
//! The interval is mean ± t · s / √n with s the standard deviation of the n
//! repeats and t the 97.5% point of Student's distribution with n - 1 degrees
//! of freedom: in 95 of 100 such experiments it holds the true mean, if the
//! repeats are independent and not too far from normal. A crate for it would
//! bring one for linear algebra along.
//!
//! Not here: medians (`stats`).

/// 97.5% points of Student's distribution for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same of the normal distribution, and the first correction for a finite
/// number of degrees of freedom beyond the table.
const Z_975: f64 = 1.960;
const Z_CORRECTION: f64 = 2.4;

/// A mean and its 95% confidence interval, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Mean of the repeats.
    pub mean: f64,
    /// Half the width of the interval; infinite for a single repeat.
    pub half: f64,
    /// Standard deviation of the repeats by the mean: how noisy one repeat is.
    /// 0 where the mean is.
    pub variation: f64,
}

impl Interval {
    /// The interval of `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() == 1 {
            return Some(Self {
                mean,
                half: f64::INFINITY,
                variation: 0.0,
            });
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let variation = if mean == 0.0 {
            0.0
        } else {
            (deviation / mean).abs()
        };
        Some(Self {
            mean,
            half: student_975(values.len() - 1) * deviation / count.sqrt(),
            variation,
        })
    }

    /// Do the two intervals have no value in common? Then the difference of the
    /// means is not chance.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() > self.half + other.half
    }
}

fn student_975(degrees: usize) -> f64 {
    let last = T_975.len();
    if degrees <= last {
        T_975[degrees.max(1) - 1]
    } else {
        Z_975 + Z_CORRECTION / degrees as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_known_values_is_as_tables_give_it() {
        // s = 1.5811, t(4) = 2.776: half = 2.776 * 1.5811 / sqrt(5).
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(interval.mean, 3.0);
        assert!((interval.half - 1.963).abs() < 0.001, "{interval:?}");
        assert!((interval.variation - 0.527).abs() < 0.001, "{interval:?}");
    }

    #[test]
    fn one_value_says_nothing_about_its_spread() {
        let one = Interval::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.half), (7.0, f64::INFINITY));
        assert!(!one.is_apart_from(&Interval::of(&[900.0, 900.0]).unwrap()));
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn means_are_apart_only_when_their_intervals_are() {
        let low = Interval::of(&[10.0, 10.1, 9.9, 10.0]).unwrap();
        let high = Interval::of(&[12.0, 12.1, 11.9, 12.0]).unwrap();
        let wide = Interval::of(&[6.0, 18.0, 10.0, 14.0]).unwrap();
        assert!(low.is_apart_from(&high));
        assert!(!low.is_apart_from(&wide));
    }

    #[test]
    fn the_points_fall_towards_those_of_the_normal_distribution() {
        let points: Vec<f64> = (1..200).map(student_975).collect();
        assert!(points.windows(2).all(|pair| pair[0] > pair[1]));
        assert!((student_975(120) - 1.980).abs() < 0.001);
    }
}
