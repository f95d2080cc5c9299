//! What is known of a program before it has shown what it is.
//!
//! A [`Hint`] bounds the tiers of a program's tasks and multiplies their weight.
//! It comes from a [`Source`], such as the rules, and the BPF half keeps it with
//! each thread of the process (`src/bpf/hint.bpf.h`).
//!
//! Not here: where hints come from (rules), how they reach BPF (scheduler), what
//! they do there (`src/bpf/policy/hint.h`).

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::bpf_intf::{
    hint, hint_source_HINT_MEMORY, hint_source_HINT_NONE, hint_source_HINT_RULE,
    intf_consts_HINT_FACTOR_ONE, tier_TIER_BATCH as TIER_BATCH,
    tier_TIER_INTERACTIVE as TIER_INTERACTIVE, tier_TIER_LAT_CRITICAL as TIER_LAT_CRITICAL,
};
use crate::tasks::tier_name;

/// What a task may show itself to be, from the lowest up; `enum tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Tier {
    /// Works for as long as it is let.
    Batch,
    /// Sleeps by itself and is waited for.
    Interactive,
    /// The same, often and for a moment each time.
    LatCritical,
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(tier_name(self.to_bpf()))
    }
}

impl Tier {
    /// The tier that the BPF half calls so.
    pub fn from_bpf(tier: u32) -> Option<Tier> {
        match tier {
            TIER_BATCH => Some(Tier::Batch),
            TIER_INTERACTIVE => Some(Tier::Interactive),
            TIER_LAT_CRITICAL => Some(Tier::LatCritical),
            _ => None,
        }
    }

    /// What the BPF half calls it.
    fn to_bpf(self) -> u32 {
        match self {
            Tier::Batch => TIER_BATCH,
            Tier::Interactive => TIER_INTERACTIVE,
            Tier::LatCritical => TIER_LAT_CRITICAL,
        }
    }
}

/// Who says what a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// What it was seen to be before. It gives way to all others, and to what a
    /// task shows itself to be.
    Memory,
    /// A rule of the user or the distribution.
    Rule,
}

/// The weight that a program has by itself, in percent of that.
const WEIGHT_PCT_DFL: u16 = 100;

/// What is said of a program. What is `None` is left to what its tasks show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Its tasks are of this tier at least; a task that works for long is not
    /// above interactive by this.
    pub least_tier: Option<Tier>,
    /// That counts at nice levels above 0 and in SCHED_IDLE as well: its tasks are
    /// served as if they were of nice 0.
    pub ignores_nice: bool,
    /// Its tasks are of this tier at most.
    pub greatest_tier: Option<Tier>,
    /// By what the weight of its tasks is multiplied, in percent, 10..=1000.
    pub weight_pct: Option<u16>,
    /// Whether its tasks keep to few CPUs.
    pub confine: Option<bool>,
}

impl Hint {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Hint::default()
    }

    /// That its tasks begin in `tier`.
    pub fn of_tier(tier: Tier) -> Hint {
        Hint {
            least_tier: Some(tier),
            greatest_tier: Some(tier),
            ..Hint::default()
        }
    }

    /// The hint as the BPF half keeps it.
    pub fn to_bpf(self, source: Source) -> hint {
        let weight_pct = u32::from(self.weight_pct.unwrap_or(WEIGHT_PCT_DFL));
        hint {
            least_tier: self.least_tier.unwrap_or(Tier::Batch).to_bpf(),
            greatest_tier: self.greatest_tier.unwrap_or(Tier::LatCritical).to_bpf(),
            weight_factor: weight_pct * intf_consts_HINT_FACTOR_ONE / u32::from(WEIGHT_PCT_DFL),
            source: match source {
                _ if self.is_empty() => hint_source_HINT_NONE,
                Source::Memory => hint_source_HINT_MEMORY,
                Source::Rule => hint_source_HINT_RULE,
            },
            is_confined: self.confine.unwrap_or_default().into(),
            ignores_nice: (self.ignores_nice && self.least_tier > Some(Tier::Batch)).into(),
            avg_runtime_ns: 0,
        }
    }

    /// This hint and what `later` says, which wins where they differ. A bound
    /// that contradicts a later one gives way to it.
    pub fn then(self, later: Hint) -> Hint {
        let mut hint = Hint {
            least_tier: later.least_tier.or(self.least_tier),
            ignores_nice: match later.least_tier {
                Some(_) => later.ignores_nice,
                None => self.ignores_nice,
            },
            greatest_tier: later.greatest_tier.or(self.greatest_tier),
            weight_pct: later.weight_pct.or(self.weight_pct),
            confine: later.confine.or(self.confine),
        };
        if let (Some(least), Some(greatest)) = (hint.least_tier, hint.greatest_tier)
            && least > greatest
        {
            match later.greatest_tier {
                Some(_) => hint.least_tier = Some(greatest),
                None => hint.greatest_tier = Some(least),
            }
        }
        hint
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.least_tier.map(|tier| match self.ignores_nice {
                true => format!("at least {tier} at any nice level"),
                false => format!("at least {tier}"),
            }),
            self.greatest_tier.map(|tier| format!("at most {tier}")),
            self.weight_pct.map(|pct| format!("weight {pct}%")),
            self.confine.map(|is_confined| match is_confined {
                true => "confined to few CPUs".to_owned(),
                false => "on any CPU".to_owned(),
            }),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return out.write_str("nothing");
        }
        out.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(least_tier: Option<Tier>, greatest_tier: Option<Tier>) -> Hint {
        Hint {
            least_tier,
            greatest_tier,
            ..Hint::default()
        }
    }

    #[test]
    fn what_is_said_later_wins_and_what_is_not_said_stays() {
        let early = Hint {
            least_tier: Some(Tier::Interactive),
            weight_pct: Some(200),
            ..Hint::default()
        };
        let late = Hint {
            weight_pct: Some(50),
            ..Hint::default()
        };
        let both = early.then(late);
        assert_eq!(both.least_tier, Some(Tier::Interactive));
        assert_eq!(both.weight_pct, Some(50));
        assert_eq!(both.to_string(), "at least interactive, weight 50%");
        assert_eq!(Hint::default().then(early), early);
        assert_eq!(early.then(Hint::default()), early);
    }

    #[test]
    fn what_is_not_said_bounds_nothing_in_bpf() {
        let nothing = Hint::default().to_bpf(Source::Rule);
        assert_eq!(nothing.source, hint_source_HINT_NONE);
        assert_eq!(nothing.least_tier, TIER_BATCH);
        assert_eq!(nothing.greatest_tier, TIER_LAT_CRITICAL);
        assert_eq!(nothing.weight_factor, intf_consts_HINT_FACTOR_ONE);
        let half = Hint {
            weight_pct: Some(50),
            ..bounds(Some(Tier::Interactive), Some(Tier::Interactive))
        };
        let half = half.to_bpf(Source::Rule);
        assert_eq!(half.source, hint_source_HINT_RULE);
        assert_eq!(half.least_tier, TIER_INTERACTIVE);
        assert_eq!(half.greatest_tier, TIER_INTERACTIVE);
        assert_eq!(half.weight_factor, intf_consts_HINT_FACTOR_ONE / 2);
    }

    #[test]
    fn only_the_least_tier_that_counts_says_whether_nice_levels_do() {
        let firm = Hint {
            ignores_nice: true,
            ..bounds(Some(Tier::Interactive), None)
        };
        let soft = bounds(Some(Tier::Interactive), None);
        assert!(soft.then(firm).ignores_nice);
        assert!(!firm.then(soft).ignores_nice);
        assert!(
            firm.then(bounds(None, Some(Tier::LatCritical)))
                .ignores_nice
        );
        assert_eq!(firm.to_bpf(Source::Rule).ignores_nice, 1);
        assert_eq!(soft.to_bpf(Source::Rule).ignores_nice, 0);
        let capped = firm.then(bounds(None, Some(Tier::Batch)));
        assert_eq!(capped.to_bpf(Source::Rule).ignores_nice, 0);
        let text = firm.to_string();
        assert_eq!(text, "at least interactive at any nice level");
    }

    #[test]
    fn a_bound_gives_way_to_a_later_one_that_contradicts_it() {
        let game = bounds(Some(Tier::Interactive), None);
        let background = bounds(None, Some(Tier::Batch));
        assert_eq!(
            game.then(background),
            bounds(Some(Tier::Batch), Some(Tier::Batch))
        );
        assert_eq!(
            background.then(game),
            bounds(Some(Tier::Interactive), Some(Tier::Interactive))
        );
    }
}
