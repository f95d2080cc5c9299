//! How soon a task that waits should get its turn, by how long tasks did wait.
//!
//! Short turns cost switches, and are worth them only while a task that slept
//! waits for those that work. So turns are as long as the profile says until
//! wakeups of a tier wait too long, become shorter while they do, and longer again
//! once they have not for a while. Shortening is the faster one: a late answer is
//! noticed, a few switches are not.
//!
//! Not here: how long a turn is for a given time (`src/bpf/policy/slice.h`).

use crate::bpf_intf::{intf_consts_NSEC_PER_MSEC, knobs};
use crate::control::regime::Regime;

/// Turns are shortened to this part of what they were, down to the least part of
/// what the profile says, and get this much longer again; in percent.
const SHORTER_PCT: u64 = 75;
const LEAST_PCT: u64 = 50;
const LONGER_PCT: u64 = 5;

/// All of what the profile says.
const WHOLE_PCT: u64 = 100;

/// Samples in a row without a long wait before turns get longer.
const NR_CALM: u32 = 2;

/// A time within which a task gets its turn that is short enough.
const LEAST_NS: u64 = 4 * intf_consts_NSEC_PER_MSEC as u64;

/// The longest wait of wakeups, but for one in a hundred, that is short enough.
const WAIT_MAX_NS: u64 = 5 * intf_consts_NSEC_PER_MSEC as u64;

/// The part of the profile's time, and how long it was long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    pct: u64,
    nr_calm: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            pct: WHOLE_PCT,
            nr_calm: 0,
        }
    }
}

impl Turns {
    /// What follows from a sample of `regime` in which the wakeups of no tier
    /// waited longer than `wait_p99_ns`, but for one in a hundred; `None` if there
    /// were too few to tell.
    pub fn next(self, regime: Regime, wait_p99_ns: Option<u64>) -> Turns {
        // With idle CPUs a wait is no matter of turns.
        let is_long = regime != Regime::Light && wait_p99_ns.is_some_and(|wait| wait > WAIT_MAX_NS);
        if is_long {
            return Turns {
                pct: (self.pct * SHORTER_PCT / 100).max(LEAST_PCT),
                nr_calm: 0,
            };
        }
        let nr_calm = (self.nr_calm + 1).min(NR_CALM);
        let longer_pct = if nr_calm == NR_CALM { LONGER_PCT } else { 0 };
        Turns {
            pct: (self.pct + longer_pct).min(WHOLE_PCT),
            nr_calm,
        }
    }

    /// Whether turns are as long as the profile says.
    pub fn is_whole(self) -> bool {
        self.pct == WHOLE_PCT
    }

    /// `knobs`, those of the profile, with turns of this length. To what slices fall
    /// is shortened alike, so that the target is out of reach for no more tasks. A
    /// crowd, for which it is, keeps the slices of the profile, and so do tasks of the
    /// upper tiers: two that wake each other would have half a turn.
    pub fn shorten(self, knobs: knobs) -> knobs {
        let least_pct = (LEAST_NS * WHOLE_PCT).div_ceil(knobs.latency_target_ns.max(1));
        let pct = self.pct.max(least_pct.min(WHOLE_PCT));
        knobs {
            latency_target_ns: knobs.latency_target_ns * pct / WHOLE_PCT,
            turn_min_ns: knobs.turn_min_ns * pct / WHOLE_PCT,
            ..knobs
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    use crate::control::DEFAULTS;

    /// The time of a profile that has `target_ns`.
    fn shortened_ns(turns: Turns, target_ns: u64) -> u64 {
        let profile = knobs {
            latency_target_ns: target_ns,
            ..*DEFAULTS
        };
        let knobs = turns.shorten(profile);
        let (was, is) = (profile.turn_min_ns, knobs.turn_min_ns);
        let alike_ns = target_ns * is / was;
        assert!(alike_ns.abs_diff(knobs.latency_target_ns) <= target_ns / 100);
        knobs.latency_target_ns
    }

    const TARGET_NS: u64 = 8_000_000;

    #[test]
    fn long_waits_shorten_turns_fast_and_calm_lengthens_them_slowly() {
        let mut turns = Turns::default();
        let mut seen = Vec::new();
        let long = [Some(WAIT_MAX_NS + 1); 4];
        let calm = [Some(WAIT_MAX_NS), None, None, Some(0)];
        for wait in long.into_iter().chain(calm) {
            turns = turns.next(Regime::Heavy, wait);
            seen.push(shortened_ns(turns, TARGET_NS) / 1000);
        }
        assert_eq!(seen, [6000, 4480, 4000, 4000, 4000, 4400, 4800, 5200]);
    }

    #[test]
    fn nothing_is_shortened_while_cpus_are_idle() {
        let turns = Turns::default().next(Regime::Light, Some(u64::MAX));
        assert!(turns.is_whole());
    }

    #[test]
    fn a_profile_with_shorter_turns_than_the_least_keeps_them() {
        let turns = Turns::default().next(Regime::Heavy, Some(u64::MAX));
        assert_eq!(shortened_ns(turns, 2_000_000), 2_000_000);
    }

    fn regimes() -> impl Strategy<Value = Regime> {
        prop_oneof![
            Just(Regime::Light),
            Just(Regime::Mixed),
            Just(Regime::Heavy)
        ]
    }

    proptest! {
        #[test]
        fn turns_stay_in_range_and_settle(
            samples in prop::collection::vec((regimes(), any::<Option<u64>>()), 0..50),
            last in (regimes(), any::<Option<u64>>()),
            target_ns in 1_000_000..100_000_000u64,
        ) {
            let mut turns = Turns::default();
            for (regime, wait) in samples {
                turns = turns.next(regime, wait);
                let found = shortened_ns(turns, target_ns);
                prop_assert!(found <= target_ns && found >= LEAST_NS.min(target_ns));
            }
            // The same sample for ever moves it one way only, to a rest.
            let mut before = turns;
            let (mut nr_shorter, mut nr_longer) = (0, 0);
            for _ in 0..20 {
                turns = turns.next(last.0, last.1);
                nr_shorter += u32::from(turns.pct < before.pct);
                nr_longer += u32::from(turns.pct > before.pct);
                before = turns;
            }
            prop_assert!(nr_shorter == 0 || nr_longer == 0);
            prop_assert_eq!(turns.next(last.0, last.1), turns);
        }

        #[test]
        fn a_longer_wait_never_makes_longer_turns(
            samples in prop::collection::vec((regimes(), any::<Option<u64>>()), 0..20),
            waits in (any::<u64>(), any::<u64>()),
            regime in regimes(),
        ) {
            let turns = samples.into_iter().fold(Turns::default(), |turns, (regime, wait)| {
                turns.next(regime, wait)
            });
            let (less, more) = (waits.0.min(waits.1), waits.0.max(waits.1));
            prop_assert!(turns.next(regime, Some(more)).pct <= turns.next(regime, Some(less)).pct);
        }
    }
}
