//! What the knobs are set to: pure steps, without a clock, files and BPF.
//!
//! In this order, each over what stands before:
//!
//! 1. the defaults of `src/bpf/main.bpf.c`;
//! 2. the profile;
//! 3. what the load of the last seconds asks for, unless `--no-adaptive` is given:
//!    the regime, and how long turns are (turns);
//! 4. what the command line says of a single knob.
//!
//! Not here: who writes the knobs (scheduler), who looks at the load (adapt), who
//! asks for a profile (server), what a knob decides (the room of `src/bpf/` that
//! reads it).

pub mod knob;
pub mod profile;
pub mod regime;
pub mod turns;

#[cfg(test)]
use std::sync::LazyLock;

use crate::bpf_intf::knobs;
use crate::cli::Affinity;
use crate::control::profile::Profile;
use crate::control::regime::{Regime, RegimeFilter};
use crate::control::turns::Turns;

/// What decides the knobs at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The profile; it may be changed at any time.
    pub profile: Profile,
    /// `--affinity`, if it was given.
    pub affinity: Option<Affinity>,
    /// What the load asks for; `None` with `--no-adaptive`.
    pub adaptation: Option<Adaptation>,
}

/// What the load of some seconds was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Share of the CPU time that was idle, in percent.
    pub idle_pct: f64,
    /// What no tier's wakeups waited longer than, but for one in a hundred, in ns;
    /// `None` if there were too few to tell.
    pub wait_p99_ns: Option<u64>,
}

/// What the load asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptation {
    regime: RegimeFilter,
    turns: Turns,
}

impl Adaptation {
    /// What follows from a sample of the load.
    pub fn next(self, load: Load) -> Adaptation {
        let regime = self.regime.next(load.idle_pct);
        Adaptation {
            regime,
            turns: self.turns.next(regime.now, load.wait_p99_ns),
        }
    }

    /// How busy the machine is.
    pub fn regime(self) -> Regime {
        self.regime.now
    }

    /// Whether it asks for nothing but what the profile says.
    pub fn is_at_rest(self) -> bool {
        self.turns.is_whole()
    }
}

impl Control {
    /// The knobs that follow from `defaults`.
    pub fn knobs(&self, defaults: knobs) -> knobs {
        let mut knobs = self.profile.knobs(defaults);
        if let Some(adaptation) = self.adaptation {
            knobs = adaptation.turns.shorten(knobs);
        }
        if let Some(affinity) = self.affinity {
            knobs.affinity_mode = affinity.mode().into();
        }
        knobs
    }
}

/// The knobs that the BPF half was built with.
#[cfg(test)]
static DEFAULTS: LazyLock<knobs> =
    LazyLock::new(|| crate::scheduler::default_knobs().expect("the BPF half can be opened"));

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use proptest::prelude::*;

    use super::*;
    use crate::bpf_intf::{affinity_mode_AFFINITY_OFF, affinity_mode_AFFINITY_STRONG};
    use crate::control::knob::KNOBS;

    #[test]
    fn a_flag_wins_over_every_profile() {
        let defaults = *DEFAULTS;
        for profile in Profile::value_variants() {
            let mut control = Control {
                profile: *profile,
                affinity: Some(Affinity::Off),
                adaptation: None,
            };
            let mode = control.knobs(defaults).affinity_mode;
            assert_eq!(mode, u64::from(affinity_mode_AFFINITY_OFF), "{profile}");
            control.affinity = Some(Affinity::Strong);
            let mode = control.knobs(defaults).affinity_mode;
            assert_eq!(mode, u64::from(affinity_mode_AFFINITY_STRONG), "{profile}");
        }
    }

    proptest! {
        #[test]
        fn every_knob_stays_in_range_whatever_the_load(
            profile in prop::sample::select(Profile::value_variants()),
            loads in prop::collection::vec((0.0..=100.0, any::<Option<u64>>()), 0..50),
        ) {
            let defaults = *DEFAULTS;
            let mut control = Control {
                profile,
                affinity: None,
                adaptation: Some(Adaptation::default()),
            };
            for (idle_pct, wait_p99_ns) in loads {
                let load = Load { idle_pct, wait_p99_ns };
                control.adaptation = control.adaptation.map(|adaptation| adaptation.next(load));
                let knobs = control.knobs(defaults);
                for knob in KNOBS {
                    let range = knob.least..=knob.most;
                    prop_assert!(range.contains(&knob.get(&knobs)), "{}", knob.name);
                }
            }
        }
    }
}
