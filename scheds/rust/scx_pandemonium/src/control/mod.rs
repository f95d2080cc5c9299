//! What the knobs are set to: pure steps, without a clock, files and BPF.
//!
//! In this order, each over what stands before:
//!
//! 1. the defaults of `src/bpf/main.bpf.c`;
//! 2. the profile;
//! 3. what the load of the last seconds asks for, unless `--no-adaptive` is given:
//!    the regime, on how many CPUs `powersave` packs work and to how many tasks are
//!    confined (pack) and, only with `--adaptive-turns`, how long turns are (turns);
//! 4. what the command line says of a single knob.
//!
//! Not here: who writes the knobs (scheduler), who looks at the load (adapt), who
//! asks for a profile (server), what a knob decides (the room of `src/bpf/` that
//! reads it).

pub mod knob;
pub mod pack;
pub mod profile;
pub mod regime;
pub mod turns;

#[cfg(test)]
use std::sync::LazyLock;

use crate::bpf_intf::knobs;
use crate::cli::Affinity;
use crate::control::pack::Pack;
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
    /// CPUs that are online.
    pub nr_cpus: u32,
    /// What no tier's wakeups waited longer than, but for one in a hundred, in ns;
    /// `None` if there were too few to tell.
    pub wait_p99_ns: Option<u64>,
    /// CPU time of confined tasks, in percent of the time of one CPU, from 0.
    pub confined_pct: f64,
}

/// What the load asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptation {
    regime: RegimeFilter,
    /// `None` if turns stay as the profile says.
    turns: Option<Turns>,
    pack: Pack,
    /// Those for confined tasks; `None` if no rule confines any.
    confined: Option<Pack>,
}

impl Adaptation {
    /// What a calm machine asks for; turns are shortened if `are_turns_adapted`, and
    /// tasks confined if `are_tasks_confined`.
    pub fn new(are_turns_adapted: bool, are_tasks_confined: bool) -> Adaptation {
        Adaptation {
            turns: are_turns_adapted.then(Turns::default),
            confined: are_tasks_confined.then(Pack::default),
            ..Adaptation::default()
        }
    }

    /// What follows from a sample of the load.
    pub fn next(self, load: Load) -> Adaptation {
        let regime = self.regime.next(load.idle_pct);
        Adaptation {
            regime,
            turns: self
                .turns
                .map(|turns| turns.next(regime.now, load.wait_p99_ns)),
            pack: self.pack.next(load.idle_pct, load.nr_cpus),
            confined: self
                .confined
                .map(|pack| pack.next_for(load.confined_pct, load.nr_cpus)),
        }
    }

    /// Whether tasks may be confined, so that the next step has a use for what they
    /// used.
    pub fn confines(self) -> bool {
        self.confined.is_some()
    }

    /// How busy the machine is.
    pub fn regime(self) -> Regime {
        self.regime.now
    }

    /// Whether the next step has a use for the waits, if `idle_pct` of the CPU time
    /// was idle: not on a calm machine where turns are as long as the profile says.
    /// A second before the regime changes it has, so that both change at once.
    pub fn needs_waits(self, idle_pct: f64) -> bool {
        let is_calm = self.regime.next(idle_pct).is_calm();
        self.turns
            .is_some_and(|turns| !is_calm || !turns.is_whole())
    }
}

impl Control {
    /// The knobs that follow from `defaults`.
    pub fn knobs(&self, defaults: knobs) -> knobs {
        let mut knobs = self.profile.knobs(defaults);
        if let Some(adaptation) = self.adaptation {
            if let Some(turns) = adaptation.turns {
                knobs = turns.shorten(knobs);
            }
            if self.profile.packs() {
                knobs.nr_packed_cpus = adaptation.pack.knob();
            }
            knobs.nr_confined_cpus = adaptation.confined.map_or(0, Pack::knob);
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

    #[test]
    fn turns_get_shorter_with_the_sample_that_changes_the_regime() {
        assert!(!Adaptation::new(false, false).needs_waits(0.0));
        let calm = Adaptation::new(true, false);
        assert!(!calm.needs_waits(100.0));
        assert!(calm.needs_waits(0.0));
        let busy = calm.next(Load {
            idle_pct: 0.0,
            nr_cpus: 4,
            wait_p99_ns: None,
            confined_pct: 0.0,
        });
        assert_eq!(busy.regime(), Regime::Light);
        let heavy = busy.next(Load {
            idle_pct: 0.0,
            nr_cpus: 4,
            wait_p99_ns: Some(u64::MAX),
            confined_pct: 0.0,
        });
        assert_eq!(heavy.regime(), Regime::Heavy);
        assert!(heavy.turns.is_some_and(|turns| !turns.is_whole()));
        assert!(heavy.needs_waits(100.0), "until turns are as long again");
    }

    #[test]
    fn confined_tasks_have_cpus_by_what_they_use_and_only_with_a_rule() {
        let load = |confined_pct| Load {
            idle_pct: 50.0,
            nr_cpus: 4,
            wait_p99_ns: None,
            confined_pct,
        };
        let knob = |adaptation| {
            let control = Control {
                adaptation: Some(adaptation),
                ..Control::default()
            };
            control.knobs(*DEFAULTS).nr_confined_cpus
        };
        assert_eq!(knob(Adaptation::new(false, false).next(load(100.0))), 0);
        let mut adaptation = Adaptation::new(false, true);
        assert_eq!(knob(adaptation), 1);
        let mut seen = Vec::new();
        for busy_pct in [99.0, 199.0, 299.0, 399.0, 100.0, 100.0, 100.0] {
            adaptation = adaptation.next(load(busy_pct));
            seen.push(knob(adaptation));
        }
        assert_eq!(seen, [2, 3, 0, 0, 3, 2, 2], "all CPUs are no confinement");
        let off = Control::default();
        assert_eq!(off.knobs(*DEFAULTS).nr_confined_cpus, 0, "--no-adaptive");
    }

    proptest! {
        #[test]
        fn every_knob_stays_in_range_whatever_the_load(
            profile in prop::sample::select(Profile::value_variants()),
            loads in prop::collection::vec(
                (0.0..=100.0, any::<Option<u64>>(), 0.0..=400.0), 0..50,
            ),
        ) {
            let defaults = *DEFAULTS;
            let mut control = Control {
                profile,
                affinity: None,
                adaptation: Some(Adaptation::new(true, true)),
            };
            for (idle_pct, wait_p99_ns, confined_pct) in loads {
                let load = Load { idle_pct, nr_cpus: 4, wait_p99_ns, confined_pct };
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
