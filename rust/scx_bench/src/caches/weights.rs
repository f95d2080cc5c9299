// SPDX-License-Identifier: GPL-2.0
//! Modelled time: what counts of caches would come to on a machine.
//!
//! Instructions plus, for each access that missed the L1, what it waits where it finds
//! its line. No machine is that simple: cores overlap misses and fetch ahead, and a line
//! of a neighbour costs twice as much in one design as in another. So the weights are
//! options, and a comparison counts only if its sign is the same for all of them from a
//! quarter to four times what they are, each by itself.
//!
//! Not here: what invalidations cost. Most come with a line of another core, which counts.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use scx_guest::ByKind;
use serde::{Deserialize, Serialize};

/// By how much each weight but that of an instruction is swept, up and down.
pub const SWEEP: f64 = 4.0;

const NR_WEIGHTS: usize = 6;

/// Names of the weights, on the command line and in what is shown.
const NAMES: [&str; NR_WEIGHTS] = ["instruction", "l2", "l3", "remote", "far", "memory"];

/// What one of each costs, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// An instruction, including its accesses that hit the L1.
    pub instruction: f64,
    /// An access that finds its line in the L2.
    pub l2: f64,
    /// In the L3.
    pub l3: f64,
    /// In the caches of another core below the same L3, which had written it.
    pub remote: f64,
    /// Below another L3.
    pub far: f64,
    /// In memory.
    pub memory: f64,
}

/// Measured by `scx_bench lines` on a virtual machine of two CPUs of a Zen 4 server at 3.69 GHz:
/// medians of the loads from L2, L3 and memory, of the load of a line that the other CPU wrote
/// (`remote`), and of the same where the hypervisor had put the two CPUs below different L3
/// caches (`far`).
///
/// Assumed, not measured: one instruction per cycle, 0.27 ns. To sweep all other weights by
/// the same factor is to assume a quarter to four instructions per cycle.
impl Default for Weights {
    fn default() -> Self {
        Self {
            instruction: 0.27,
            l2: 3.8,
            l3: 13.6,
            remote: 28.5,
            far: 125.0,
            memory: 157.0,
        }
    }
}

/// What there is of that which weights are for.
pub type Amounts = [f64; NR_WEIGHTS];

/// The amounts of all code of a span together, by `units` of work.
pub fn amounts(total: &ByKind, units: u64) -> Amounts {
    let mut all = total.user;
    all += total.kernel;
    all += total.bpf;
    let counts = [
        all.instructions,
        all.l1_misses - all.l2_misses,
        all.l3_hits(),
        all.remote,
        all.far,
        all.memory,
    ];
    counts.map(|count| count as f64 / units as f64)
}

/// How much longer one takes than another, in percent of that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// With the weights as they are.
    pub pct: f64,
    /// The least over the sweep.
    pub least_pct: f64,
    /// The most.
    pub most_pct: f64,
    /// Whether all other work was the same meanwhile; without that a unit pays for more or less
    /// than itself.
    pub is_same_work: bool,
}

impl Difference {
    /// Is it the same sign all over the sweep, beside the same work?
    pub fn holds(&self) -> bool {
        self.is_same_work && (self.least_pct > 0.0 || self.most_pct < 0.0)
    }

    /// What both say.
    pub fn join(self, other: Self) -> Self {
        Self {
            pct: self.pct,
            least_pct: self.least_pct.min(other.least_pct),
            most_pct: self.most_pct.max(other.most_pct),
            is_same_work: self.is_same_work && other.is_same_work,
        }
    }
}

impl Weights {
    /// Nanoseconds of `amounts`.
    pub fn time_ns(&self, amounts: &Amounts) -> f64 {
        time_ns(&self.words(), amounts)
    }

    /// Nanoseconds of `amounts` with all weights but that of an instruction divided and
    /// multiplied by [`SWEEP`]: the least and the most of the sweep.
    pub fn range_ns(&self, amounts: &Amounts) -> [f64; 2] {
        [1.0 / SWEEP, SWEEP].map(|factor| {
            let mut words = self.words();
            words.iter_mut().skip(1).for_each(|word| *word *= factor);
            time_ns(&words, amounts)
        })
    }

    /// How much longer `this` takes than `other`.
    ///
    /// The ratio of two sums is monotonous in each weight, so its extremes are at the
    /// corners of the sweep.
    pub fn difference(&self, this: &Amounts, other: &Amounts) -> Difference {
        let pct = |words: &Amounts| (time_ns(words, this) / time_ns(words, other) - 1.0) * 100.0;
        let mut found = Difference {
            pct: pct(&self.words()),
            least_pct: f64::INFINITY,
            most_pct: f64::NEG_INFINITY,
            is_same_work: true,
        };
        for corner in 0..1 << (NR_WEIGHTS - 1) {
            let mut words = self.words();
            for (bit, word) in words.iter_mut().skip(1).enumerate() {
                *word *= match corner >> bit & 1 {
                    0 => 1.0 / SWEEP,
                    _ => SWEEP,
                };
            }
            found.least_pct = found.least_pct.min(pct(&words));
            found.most_pct = found.most_pct.max(pct(&words));
        }
        found
    }

    fn words(&self) -> Amounts {
        [
            self.instruction,
            self.l2,
            self.l3,
            self.remote,
            self.far,
            self.memory,
        ]
    }
}

fn time_ns(weights: &Amounts, amounts: &Amounts) -> f64 {
    weights.iter().zip(amounts).map(|(one, nr)| one * nr).sum()
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words();
        let words = NAMES
            .iter()
            .zip(words)
            .map(|(name, ns)| format!("{name}={ns}"));
        write!(f, "{}", words.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Weights {
    type Err = anyhow::Error;

    /// Those that are named; the others are the usual ones.
    fn from_str(text: &str) -> Result<Self> {
        let mut weights = Self::default();
        for word in text.split(',') {
            let not_so = || format!("`{word}` is not NAME=NS, such as memory=80");
            let (name, ns) = word.split_once('=').with_context(not_so)?;
            let ns: f64 = ns.parse().ok().with_context(not_so)?;
            ensure!(ns >= 0.0 && ns.is_finite(), "{}", not_so());
            match name {
                "instruction" => weights.instruction = ns,
                "l2" => weights.l2 = ns,
                "l3" => weights.l3 = ns,
                "remote" => weights.remote = ns,
                "far" => weights.far = ns,
                "memory" => weights.memory = ns,
                _ => bail!("no weight `{name}`; known: {}", NAMES.join(", ")),
            }
        }
        ensure!(weights.instruction > 0.0, "an instruction takes some time");
        Ok(weights)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Round ones.
    pub const ROUND: Weights = Weights {
        instruction: 1.0,
        l2: 4.0,
        l3: 12.0,
        remote: 25.0,
        far: 100.0,
        memory: 100.0,
    };

    #[test]
    fn each_access_counts_where_it_found_its_line() {
        let counts = "{\"instructions\":100,\"accesses\":50,\"l1_misses\":40,\"l2_misses\":30,\
            \"remote\":4,\"far\":3,\"memory\":2,\"invalidations\":9}";
        let zero = "{\"instructions\":0,\"accesses\":0,\"l1_misses\":0,\"l2_misses\":0,\
            \"remote\":0,\"far\":0,\"memory\":0,\"invalidations\":0}";
        let text = format!("{{\"user\":{counts},\"kernel\":{counts},\"bpf\":{zero}}}");
        let total: ByKind = serde_json::from_str(&text).unwrap();
        let amounts = amounts(&total, 2);
        assert_eq!(amounts, [100.0, 10.0, 21.0, 4.0, 3.0, 2.0]);
        let weights = ROUND;
        let expected = 100.0 + 40.0 + 252.0 + 100.0 + 300.0 + 200.0;
        assert_eq!(weights.time_ns(&amounts), expected);
        assert_eq!(
            weights.range_ns(&amounts),
            [100.0 + 892.0 / 4.0, 100.0 + 892.0 * 4.0]
        );
    }

    #[test]
    fn a_sign_holds_only_if_no_weight_turns_it() {
        let weights = ROUND;
        let of = |this: Amounts, other: Amounts| weights.difference(&this, &other);
        // More of everything.
        let more = of(
            [1100.0, 11.0, 0.0, 2.0, 0.0, 1.0],
            [1000.0, 10.0, 0.0, 1.0, 0.0, 1.0],
        );
        assert!(more.holds() && more.pct > 0.0, "{more:?}");
        assert!(more.least_pct <= more.pct && more.pct <= more.most_pct);
        // Fewer instructions, more of memory: 100 against 40, 160 or 10 of it.
        let mixed = of(
            [1000.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            [1040.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
        assert!(!mixed.holds() && mixed.pct > 0.0, "{mixed:?}");
        // The ratios at the two ends.
        assert!((mixed.least_pct - (1025.0 / 1040.0 - 1.0) * 100.0).abs() < 1e-9);
        assert!((mixed.most_pct - (1400.0 / 1040.0 - 1.0) * 100.0).abs() < 1e-9);
        let same = of([7.0; NR_WEIGHTS], [7.0; NR_WEIGHTS]);
        assert!(!same.holds(), "{same:?}");
    }

    /// Each by itself: one goes up where another one goes down.
    #[test]
    fn weights_are_swept_apart() {
        let weights = ROUND;
        let found = weights.difference(
            &[1000.0, 0.0, 0.0, 4.0, 0.0, 0.0],
            &[1000.0, 0.0, 0.0, 0.0, 0.0, 2.0],
        );
        assert!(!found.holds(), "{found:?}");
        let expected = ((1000.0 + 400.0) / (1000.0 + 50.0) - 1.0) * 100.0;
        assert!((found.most_pct - expected).abs() < 1e-9);
    }

    #[test]
    fn all_seeds_have_to_say_the_same() {
        let one = Difference {
            pct: 5.0,
            least_pct: 1.0,
            most_pct: 9.0,
            is_same_work: true,
        };
        let other = Difference {
            pct: 2.0,
            least_pct: -1.0,
            most_pct: 3.0,
            is_same_work: true,
        };
        let of_other_work = Difference {
            is_same_work: false,
            ..one
        };
        assert!(!of_other_work.holds() && !one.join(of_other_work).holds());
        assert!(one.holds() && !one.join(other).holds());
        assert_eq!(one.join(other).most_pct, 9.0);
    }

    #[test]
    fn weights_are_read_as_they_are_shown() {
        let weights: Weights = "l3=9.5,memory=160".parse().unwrap();
        assert_eq!((weights.l2, weights.l3, weights.memory), (3.8, 9.5, 160.0));
        assert_eq!(weights.to_string().parse::<Weights>().unwrap(), weights);
        for text in ["", "l3", "l3=x", "l3=-1", "l3=inf", "l4=1", "instruction=0"] {
            assert!(text.parse::<Weights>().is_err(), "{text:?}");
        }
    }
}
