//! How busy the machine is, in three words.
//!
//! A regime is left at another share of idle time than the one it is entered at,
//! and only once two samples in a row agree, so that a load at a boundary does not
//! change it again and again.
//!
//! Not here: where the share comes from (adapt), what follows (turns).

use std::fmt;

/// Samples in a row that have to agree.
const NR_SAMPLES: u32 = 2;

/// Shares of idle time, in percent, below which a regime is left for a busier one,
/// and above which for one less busy.
const LIGHT_BELOW_PCT: f64 = 30.0;
const MIXED_ABOVE_PCT: f64 = 50.0;
const MIXED_BELOW_PCT: f64 = 10.0;
const HEAVY_ABOVE_PCT: f64 = 25.0;

/// How busy the machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Regime {
    /// Half of the CPU time is idle.
    #[default]
    Light,
    /// In between.
    Mixed,
    /// Next to no CPU time is idle.
    Heavy,
}

impl Regime {
    /// The regime that follows from this one if `idle_pct` stays as it is.
    fn wanted(self, idle_pct: f64) -> Regime {
        match self {
            Regime::Light if idle_pct < LIGHT_BELOW_PCT => Regime::Mixed.wanted(idle_pct),
            Regime::Heavy if idle_pct > HEAVY_ABOVE_PCT => Regime::Mixed.wanted(idle_pct),
            Regime::Mixed if idle_pct < MIXED_BELOW_PCT => Regime::Heavy,
            Regime::Mixed if idle_pct > MIXED_ABOVE_PCT => Regime::Light,
            same => same,
        }
    }
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Regime::Light => "light",
            Regime::Mixed => "mixed",
            Regime::Heavy => "heavy",
        })
    }
}

/// The regime, and how often another one was wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegimeFilter {
    /// The regime at present.
    pub now: Regime,
    wanted: Regime,
    nr_wanted: u32,
}

impl RegimeFilter {
    /// Whether the machine is lightly loaded and the last sample agrees.
    pub fn is_calm(self) -> bool {
        self.now == Regime::Light && self.wanted == Regime::Light
    }

    /// What follows from a sample in which `idle_pct` of the CPU time was idle.
    pub fn next(self, idle_pct: f64) -> RegimeFilter {
        let wanted = self.now.wanted(idle_pct);
        let nr_wanted = if wanted == self.wanted {
            (self.nr_wanted + 1).min(NR_SAMPLES)
        } else {
            1
        };
        let now = if nr_wanted >= NR_SAMPLES {
            wanted
        } else {
            self.now
        };
        RegimeFilter {
            now,
            wanted,
            nr_wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The regime after these samples.
    fn after(samples: &[f64]) -> Regime {
        let filter = RegimeFilter::default();
        samples
            .iter()
            .fold(filter, |filter, idle| filter.next(*idle))
            .now
    }

    #[test]
    fn each_boundary_has_two_sides() {
        let light = [90.0, 90.0];
        let mixed = [20.0, 20.0];
        let heavy = [0.0, 0.0];
        for (before, idle_pct, expected) in [
            (light, 30.0, Regime::Light),
            (light, 29.9, Regime::Mixed),
            (mixed, 50.0, Regime::Mixed),
            (mixed, 50.1, Regime::Light),
            (mixed, 10.0, Regime::Mixed),
            (mixed, 9.9, Regime::Heavy),
            (heavy, 25.0, Regime::Heavy),
            (heavy, 25.1, Regime::Mixed),
        ] {
            let samples = [before[0], before[1], idle_pct, idle_pct];
            assert_eq!(after(&samples), expected, "{samples:?}");
        }
    }

    #[test]
    fn one_sample_changes_nothing_and_two_go_all_the_way() {
        assert_eq!(after(&[90.0, 90.0, 0.0]), Regime::Light);
        assert_eq!(after(&[90.0, 90.0, 0.0, 0.0]), Regime::Heavy);
        assert_eq!(after(&[0.0, 0.0, 90.0, 0.0, 90.0, 0.0]), Regime::Heavy);
        assert_eq!(after(&[0.0, 0.0, 90.0, 90.0]), Regime::Light);
    }

    proptest! {
        #[test]
        fn a_constant_load_changes_it_once_at_most(
            samples in prop::collection::vec(0.0..=100.0, 0..20),
            idle_pct in 0.0..=100.0,
        ) {
            let filter = RegimeFilter::default();
            let mut filter = samples.iter().fold(filter, |filter, idle| filter.next(*idle));
            let mut nr_changes = 0;
            for _ in 0..20 {
                let next = filter.next(idle_pct);
                nr_changes += u32::from(next.now != filter.now);
                filter = next;
            }
            prop_assert!(nr_changes <= 1);
        }
    }
}
