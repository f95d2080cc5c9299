//! Profiles: sets of knobs for what a machine is used for.
//!
//! A profile says only what differs from the defaults, so a default that is
//! changed is changed in all of them. There is one for each mode of scx_loader.
//!
//! Not here: where the values come from (docs/DESIGN.md).

use std::fmt;

use clap::ValueEnum;

use crate::bpf_intf::{affinity_mode_AFFINITY_STRONG, intf_consts_NSEC_PER_MSEC, knobs};

const NSEC_PER_MSEC: u64 = intf_consts_NSEC_PER_MSEC as u64;

/// Factors and parts are fixed-point numbers with this for 1.
pub const ONE: u64 = 1024;

/// What the machine is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Profile {
    /// The defaults.
    #[default]
    Auto,
    /// A task that sleeps by itself gets more of a crowded machine, also while it
    /// is late.
    Gaming,
    /// Turns are shorter and come sooner, for more switches.
    Lowlatency,
    /// Work is packed onto few CPUs, small ones first, and turns are longer: fewer
    /// CPUs that wake, switches and timers.
    Powersave,
    /// Tasks that sleep get no more than an equal share, and turns are the longest.
    Server,
}

impl Profile {
    /// The knobs of this profile, where those of none are `defaults`.
    pub fn knobs(self, defaults: knobs) -> knobs {
        match self {
            Profile::Auto => defaults,
            Profile::Gaming => knobs {
                lat_cri_thresh_low: 4,
                boost_max: 32 * ONE,
                ..defaults
            },
            Profile::Lowlatency => knobs {
                slice_min_ns: NSEC_PER_MSEC / 2,
                turn_min_ns: NSEC_PER_MSEC / 2,
                slice_ns: 2 * NSEC_PER_MSEC,
                latency_target_ns: 4 * NSEC_PER_MSEC,
                ..defaults
            },
            Profile::Powersave => knobs {
                slice_min_ns: 2 * NSEC_PER_MSEC,
                turn_min_ns: 2 * NSEC_PER_MSEC,
                batch_slice_ns: 40 * NSEC_PER_MSEC,
                latency_target_ns: 16 * NSEC_PER_MSEC,
                sojourn_thresh_ns: 20 * NSEC_PER_MSEC,
                affinity_mode: affinity_mode_AFFINITY_STRONG.into(),
                ..defaults
            },
            Profile::Server => knobs {
                slice_min_ns: 3 * NSEC_PER_MSEC,
                turn_min_ns: 3 * NSEC_PER_MSEC,
                latency_target_ns: 24 * NSEC_PER_MSEC,
                sojourn_thresh_ns: 30 * NSEC_PER_MSEC,
                boost_max: ONE,
                ..defaults
            },
        }
    }
}

impl Profile {
    /// Whether work is packed onto as few CPUs as its load needs.
    pub fn packs(self) -> bool {
        self == Profile::Powersave
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::cli::Opts;
    use crate::control::knob::KNOBS;
    use crate::scheduler::default_knobs;

    #[test]
    fn every_profile_differs_from_the_others() {
        let defaults = default_knobs().unwrap();
        let sets = Profile::value_variants().iter().map(|profile| {
            let knobs = profile.knobs(defaults);
            KNOBS.iter().map(|knob| knob.get(&knobs)).collect()
        });
        let sets: Vec<Vec<u64>> = sets.collect();
        for (nr, set) in sets.iter().enumerate() {
            assert!(!sets[..nr].contains(set), "profile {nr} is there twice");
        }
    }

    /// The section that users copy names each profile in the mode of that name.
    #[test]
    fn each_mode_of_scx_loader_has_its_profile() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scx_loader.toml");
        let config: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
        let modes = config["scheds"]["scx_pandemonium"].as_table().unwrap();
        for profile in Profile::value_variants() {
            let args = modes[&format!("{profile}_mode")].as_array().unwrap();
            let args = args.iter().map(|arg| arg.as_str().unwrap());
            let words = ["scx_pandemonium"].into_iter().chain(args);
            let opts = Opts::try_parse_from(words).unwrap();
            assert_eq!(opts.profile, *profile);
        }
        assert_eq!(modes.len(), Profile::value_variants().len());
    }
}
