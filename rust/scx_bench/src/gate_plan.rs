// SPDX-License-Identifier: GPL-2.0
//! What the gate runs: part of the baseline, so that both are always the same.
//!
//! Not here: how it is measured (`gate`), how a figure is judged (`baseline`).

use anyhow::{Result, ensure};
use scx_guest::Topology;
use serde::{Deserialize, Serialize};

use crate::caches::held::HeldCounts;
use crate::scenario::Scenario;

/// What is run for a first baseline: a latency, a storm, deadlines of both
/// kinds, a round trip, a start, weights and starvation. About 100 s of wall
/// time with two guests at a time.
const SCENARIOS: &[&str] = &[
    "saturation",
    "storm",
    "frames60",
    "audio",
    "pipe",
    "launch",
    "nice",
    "flood",
];

/// Figures that explain others and count all the same. Migrations stand for the caches that the
/// guest of these scenarios does not have; what is counted of caches is in [`HeldCounts`].
const DETAILS: &[&str] = &["migrations_per_preemption"];

/// What is run on two last-level caches: whether each gives its tasks as much.
const SCENARIOS_OF_TWO_LLCS: &[&str] = &["fair", "nice"];

const CPUS: u32 = 4;
const TWO_LLCS: Topology = Topology::new(1, 2, 2, 1);
const SECONDS: f64 = 1.5;
const BASELINE_SEEDS: u64 = 8;
const SEEDS: u64 = 4;

/// What the gate runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GatePlan {
    /// CPUs of the guest, all below one cache.
    pub cpus: u32,
    /// Shape of the guest instead, as NODESxLLCSxCORESxTHREADS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Scenarios in their order.
    pub scenarios: Vec<String>,
    /// What is run on other machines.
    #[serde(default = "more")]
    pub more: Vec<GateRun>,
    /// What is counted of caches; nothing if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<HeldCounts>,
    /// Names of figures that count besides the headlines.
    #[serde(default = "details")]
    pub details: Vec<String>,
    /// Length of each measurement in seconds.
    pub seconds: f64,
    /// The baseline is of seeds 1 to this.
    pub baseline_seeds: u64,
    /// The gate is of seeds 1 to this.
    pub seeds: u64,
}

/// Scenarios on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRun {
    /// Shape of the guest, as NODESxLLCSxCORESxTHREADS.
    pub topology: String,
    /// Scenarios in their order.
    pub scenarios: Vec<String>,
}

impl GatePlan {
    /// The plan of a first baseline, on `topology` instead of the usual machine and
    /// with `scenarios` instead of the usual ones, and without counts of caches, if there are any.
    pub fn first(topology: Option<Topology>, scenarios: &[&Scenario]) -> Self {
        let named = scenarios.iter().map(|scenario| scenario.id.to_string());
        Self {
            cpus: topology.map_or(CPUS, |topology| topology.nr_cpus()),
            topology: topology.map(|topology| topology.to_string()),
            scenarios: match scenarios {
                [] => words(SCENARIOS),
                _ => named.collect(),
            },
            more: more(),
            caches: scenarios
                .is_empty()
                .then(|| HeldCounts::first(topology.unwrap_or_else(|| Topology::flat(CPUS)))),
            details: details(),
            seconds: SECONDS,
            baseline_seeds: BASELINE_SEEDS,
            seeds: SEEDS,
        }
    }

    /// Shape of the main machine, as samples tell it.
    pub fn main_topology(&self) -> String {
        let flat = || Topology::flat(self.cpus).to_string();
        self.topology.clone().unwrap_or_else(flat)
    }

    /// All that is run, each machine once, the main one first.
    pub fn runs(&self) -> Result<Vec<GateRun>> {
        let mut runs = vec![GateRun {
            topology: self.main_topology(),
            scenarios: self.scenarios.clone(),
        }];
        for more in &self.more {
            let found = runs.iter_mut().find(|run| run.topology == more.topology);
            let Some(run) = found else {
                runs.push(more.clone());
                continue;
            };
            let is_new = |id: &&String| !run.scenarios.contains(id);
            let new: Vec<String> = more.scenarios.iter().filter(is_new).cloned().collect();
            run.scenarios.extend(new);
        }
        ensure!(
            runs.iter().all(|run| !run.scenarios.is_empty()),
            "the plan names a machine without scenarios"
        );
        Ok(runs)
    }
}

fn more() -> Vec<GateRun> {
    vec![GateRun {
        topology: TWO_LLCS.to_string(),
        scenarios: words(SCENARIOS_OF_TWO_LLCS),
    }]
}

fn details() -> Vec<String> {
    words(DETAILS)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn the_first_plan_names_scenarios_that_exist() {
        let plan = GatePlan::first(None, &[]);
        for run in plan.runs().unwrap() {
            let chosen = scenario::select(&run.scenarios.join(",")).unwrap();
            assert_eq!(chosen.len(), run.scenarios.len());
            run.topology.parse::<Topology>().unwrap();
        }
        assert!(plan.seeds <= plan.baseline_seeds);
    }

    #[test]
    fn a_plan_without_other_machines_gets_the_run_on_two_caches() {
        let old = r#"{"cpus":4,"scenarios":["pipe"],"seconds":1.5,"baseline_seeds":8,"seeds":4}"#;
        let plan: GatePlan = serde_json::from_str(old).unwrap();
        let topologies: Vec<String> = plan
            .runs()
            .unwrap()
            .into_iter()
            .map(|run| run.topology)
            .collect();
        assert_eq!(topologies, ["1x1x4x1", "1x2x2x1"]);
        assert_eq!(
            (plan.details.as_slice(), plan.caches),
            (&details()[..], None)
        );
    }

    #[test]
    fn a_machine_is_run_once_with_all_of_its_scenarios() {
        let plan = GatePlan::first(Some(TWO_LLCS), &[]);
        let runs = plan.runs().unwrap();
        assert_eq!(runs.len(), 1);
        assert!(runs[0].scenarios.contains(&"fair".to_string()));
        let one = GatePlan::first(None, &scenario::select("pipe").unwrap());
        assert_eq!((one.scenarios, one.caches), (words(&["pipe"]), None));
        let nices = runs[0].scenarios.iter().filter(|id| *id == "nice");
        assert_eq!((nices.count(), plan.cpus), (1, 4));
    }
}
