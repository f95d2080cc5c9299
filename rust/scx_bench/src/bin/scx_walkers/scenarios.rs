// SPDX-License-Identifier: GPL-2.0
//! The scenarios: each a load that a scheduler can spoil by where it lets tasks run.
//!
//! N stands for the number of CPUs. What is counted of caches is divided by the units of
//! the role that a scenario starts first.

use anyhow::Result;

use crate::crew::Crew;
use crate::loads;

/// A scenario.
#[derive(Debug)]
pub struct Scenario {
    /// Name on the command line and in results.
    pub id: &'static str,
    /// What runs, and what is a unit of it.
    pub about: &'static str,
    /// Default length of the span in seconds.
    pub seconds: f64,
    /// Starts its processes.
    pub start: fn(&mut Crew) -> Result<()>,
}

/// Length of a span where no scenario has a reason for another: 30 frames, half a
/// minute of an emulator that counts.
const SECONDS: f64 = 0.5;

/// All of them, in the order in which they are run and shown.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "walk_wakers",
        about: "2N hogs walk 256 KiB each; N tasks work 1 ms in 8. For each pass of a hog.",
        seconds: SECONDS,
        start: |crew| {
            let cpus = crew.cpus();
            loads::walkers(crew, 2 * cpus, 256)?;
            loads::timers(crew, cpus, 8000, 1000)
        },
    },
    Scenario {
        id: "walk",
        about: "4N hogs walk 256 KiB each, and nothing wakes up. For each pass of a hog.",
        seconds: SECONDS,
        start: |crew| {
            let cpus = crew.cpus();
            loads::walkers(crew, 4 * cpus, 256)
        },
    },
    Scenario {
        id: "walk_timers",
        about: "N hogs walk 64 KiB each; 4N timers of 2 ms use 0.05 ms. For each pass of a hog.",
        seconds: 0.3,
        start: |crew| {
            let cpus = crew.cpus();
            loads::walkers(crew, cpus, 64)?;
            loads::timers(crew, 4 * cpus, 2000, 50)
        },
    },
    Scenario {
        id: "walk_frames",
        about: "N hogs walk 1 MiB each, as compilers do, beside the game of `game`. For each \
                pass of a hog.",
        seconds: SECONDS,
        start: |crew| {
            let cpus = crew.cpus();
            loads::walkers(crew, cpus, 1024)?;
            loads::game(crew)
        },
    },
    Scenario {
        id: "walk_call",
        about: "2N hogs walk 256 KiB each, beside a call: each 10 ms a process makes a packet, 0.1 \
                ms in a set of 64 KiB, and another one does as much with it. For each pass of a \
                hog.",
        seconds: SECONDS,
        start: |crew| {
            let cpus = crew.cpus();
            loads::walkers(crew, 2 * cpus, 256)?;
            loads::call(crew)
        },
    },
    Scenario {
        id: "game",
        about: "60 frames per second: the main thread writes 256 KiB, N - 1 workers read all of it \
                for 1 ms and write as much together, which it reads. For each frame.",
        seconds: SECONDS,
        start: loads::game,
    },
    Scenario {
        id: "pipes",
        about: "N pairs of processes hand a byte back and forth through pipes: as many want CPUs \
                as there are. For each round trip.",
        seconds: 0.2,
        start: |crew| {
            let cpus = crew.cpus();
            loads::pairs(crew, cpus)
        },
    },
    Scenario {
        id: "pipes_half",
        about: "N/2 such pairs: half of the CPUs idle. For each round trip.",
        seconds: 0.2,
        start: |crew| {
            let count = (crew.cpus() / 2).max(1);
            loads::pairs(crew, count)
        },
    },
    Scenario {
        id: "pipeline",
        about: "One process writes blocks of 4 KiB, one changes them, one reads them, through \
                pipes. For each block.",
        seconds: 0.2,
        start: loads::pipeline,
    },
    Scenario {
        id: "make",
        about: "2N jobs at a time: fork, 8 walks of a new set of 1 MiB, exit. For each job.",
        seconds: SECONDS,
        start: |crew| {
            let count = 2 * crew.cpus();
            loads::jobs(crew, count)
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_scenario_and_a_span_a_name() {
        for (nth, scenario) in SCENARIOS.iter().enumerate() {
            let is_same = |other: &Scenario| other.id == scenario.id;
            assert_eq!(SCENARIOS.iter().position(is_same), Some(nth));
            // As the model has it; `warm` is what comes before.
            assert!(scenario.id.len() <= 64 && scenario.id != "warm");
            assert!(scenario.about.contains("For each "));
        }
    }
}
