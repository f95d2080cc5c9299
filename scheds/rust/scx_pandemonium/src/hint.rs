//! What is known of a program before it has shown what it is.
//!
//! A [`Hint`] bounds the tiers of a program's tasks and multiplies their weight.
//! It comes from a [`Source`], such as the rules, and the BPF half keeps it with
//! each thread of the process (`src/bpf/hint.bpf.h`).
//!
//! Not here: where hints come from (rules), how they reach BPF (scheduler), what
//! they do there (`src/bpf/policy/hint.h`).

use std::fmt;

use serde::Deserialize;

/// What a task may show itself to be, from the lowest up; `enum tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        out.write_str(match self {
            Tier::Batch => "batch",
            Tier::Interactive => "interactive",
            Tier::LatCritical => "lat_critical",
        })
    }
}

/// The weight that a program has by itself, in percent of that.
pub const WEIGHT_PCT_DFL: u16 = 100;

/// What is said of a program. What is `None` is left to what its tasks show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Its tasks are of this tier at least; a task that works for long is not
    /// above interactive by this.
    pub least_tier: Option<Tier>,
    /// Its tasks are of this tier at most.
    pub greatest_tier: Option<Tier>,
    /// By what the weight of its tasks is multiplied, in percent, 10..=1000.
    pub weight_pct: Option<u16>,
}

impl Hint {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Hint::default()
    }

    /// This hint and what `later` says, which wins where they differ. A bound
    /// that contradicts a later one gives way to it.
    pub fn then(self, later: Hint) -> Hint {
        let mut hint = Hint {
            least_tier: later.least_tier.or(self.least_tier),
            greatest_tier: later.greatest_tier.or(self.greatest_tier),
            weight_pct: later.weight_pct.or(self.weight_pct),
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
            self.least_tier.map(|tier| format!("at least {tier}")),
            self.greatest_tier.map(|tier| format!("at most {tier}")),
            self.weight_pct.map(|pct| format!("weight {pct}%")),
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
            weight_pct: None,
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
