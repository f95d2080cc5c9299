// SPDX-License-Identifier: GPL-2.0
//! Counts of caches that a gate holds: figures like any others, one for each name in a plan.
//!
//! Not here: how a figure is judged (`crate::baseline`).

use anyhow::{Context, Result, bail};
use scx_guest::{ByKind, Caches, Counts, Topology};
use serde::{Deserialize, Serialize};

use super::Plan;
use super::found::{Dataset, Sample};
use super::kept::nr_cpus;
use super::table::{Count, ROWS};
use crate::boots::BootArgs;
use crate::clock::NSEC_PER_SEC;
use crate::dataset;
use crate::result::{Better, Failure, Metric, RunResult, ScenarioResult};
use crate::spec::Spec;
use crate::system::MachineCounters;

/// What a gate counts, in a guest of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldCounts {
    /// The caches, as `--caches` of `scx_bench guest` names them.
    pub model: String,
    /// Shape of the guest, as NODESxLLCSxCORESxTHREADS.
    pub topology: String,
    /// What is held.
    pub figures: Vec<HeldCount>,
    /// The baseline is of seeds 1 to this.
    pub baseline_seeds: u64,
    /// The gate is of seeds 1 to this.
    pub seeds: u64,
}

/// A count for each unit of a scenario's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldCount {
    /// Id of the scenario; see `scx_bench list --caches`.
    pub scenario: String,
    /// Whose code and what of it, such as `user_l2_misses` or `bpf_instructions`.
    pub figure: String,
}

impl HeldCounts {
    /// Those of a first baseline on `topology`: what batch work loses by being moved, and what a
    /// busy pipe's round trip costs in BPF programs.
    pub fn first(topology: Topology) -> Self {
        let held = |scenario: &str, figure: &str| HeldCount {
            scenario: scenario.to_string(),
            figure: figure.to_string(),
        };
        Self {
            model: super::CACHES_DFL.to_string(),
            topology: topology.to_string(),
            figures: vec![
                held("walk_wakers", "user_l2_misses"),
                held("pipes", "bpf_instructions"),
            ],
            baseline_seeds: 3,
            seeds: 1,
        }
    }

    /// What the machine is called among others that count nothing.
    fn machine(&self) -> String {
        format!("{} {}", self.topology, self.model)
    }

    /// Count under the scheduler of `specs`, seeds 1 to `seeds`.
    pub fn measure(&self, specs: &[Spec], seeds: u64, boot: &BootArgs) -> Result<dataset::Dataset> {
        let topology: Topology = self.topology.parse()?;
        let caches: Caches = self.model.parse()?;
        let mut scenarios: Vec<&str> = Vec::new();
        for held in &self.figures {
            find(&held.figure)?;
            if !scenarios.contains(&held.scenario.as_str()) {
                scenarios.push(&held.scenario);
            }
        }
        let counted = super::measure(&Plan {
            specs: specs.to_vec(),
            topologies: vec![topology],
            scenarios: scenarios.join(","),
            seeds,
            seconds: None,
            caches,
            boot: boot.clone(),
        })?;
        self.dataset(&counted, seeds)
    }

    /// The figures of what was counted: a sample for each seed.
    fn dataset(&self, counted: &Dataset, seeds: u64) -> Result<dataset::Dataset> {
        let mut samples: Vec<dataset::Sample> = Vec::new();
        for sample in &counted.samples {
            let known = samples
                .iter_mut()
                .find(|of| (&of.scheduler, of.seed) == (&sample.scheduler, sample.seed));
            let result = match known {
                Some(known) => &mut known.result,
                None => {
                    samples.push(dataset::Sample {
                        scheduler: sample.scheduler.clone(),
                        topology: self.machine(),
                        cpus: nr_cpus(&self.topology),
                        seed: sample.seed,
                        result: RunResult {
                            kernel: counted.kernel.clone(),
                            ..RunResult::default()
                        },
                    });
                    let last = samples.last_mut();
                    &mut last.context("it was just added")?.result
                }
            };
            match &sample.failure {
                Some(why) => result.failures.push(Failure {
                    scenario: Some(sample.scenario.clone()),
                    message: why.clone(),
                }),
                None => result.scenarios.push(self.scenario(sample)?),
            }
        }
        Ok(dataset::Dataset {
            kernel: counted.kernel.clone(),
            qemu: counted.qemu.clone(),
            seeds,
            schedulers: counted.schedulers.clone(),
            samples,
            ..dataset::Dataset::default()
        })
    }

    fn scenario(&self, sample: &Sample) -> Result<ScenarioResult> {
        let span = sample.span.as_ref().context("nothing was counted")?;
        let roles = sample.units.as_ref().map(|units| &units.roles);
        let role = roles.and_then(|roles| roles.first());
        let role = role.filter(|role| role.units > 0);
        let role = role.context("no unit of work ended")?;
        let is_here = |held: &&HeldCount| held.scenario == sample.scenario;
        let metrics = self.figures.iter().filter(is_here).map(|held| {
            let (of_kind, count) = find(&held.figure)?;
            Ok(Metric {
                name: held.figure.clone(),
                value: count(of_kind(&span.total)) as f64 / role.units as f64,
                unit: format!("per {}", role.unit),
                better: Better::Lower,
                headline: true,
            })
        });
        Ok(ScenarioResult {
            scenario: sample.scenario.clone(),
            cpus: nr_cpus(&self.topology) as usize,
            seed: sample.seed,
            seconds: span.duration_ns as f64 / NSEC_PER_SEC as f64,
            metrics: metrics.collect::<Result<_>>()?,
            latencies: Vec::new(),
            groups: Vec::new(),
            machine: MachineCounters::default(),
            callbacks: Vec::new(),
        })
    }
}

/// The counts of one kind of code.
type OfKind = fn(&ByKind) -> &Counts;

/// The count that `figure` names.
fn find(figure: &str) -> Result<(OfKind, Count)> {
    let (kind, name) = figure.split_once('_').unwrap_or_default();
    let of_kind: OfKind = match kind {
        "user" => |total| &total.user,
        "kernel" => |total| &total.kernel,
        "bpf" => |total| &total.bpf,
        _ => bail!("`{figure}` does not begin with user_, kernel_ or bpf_"),
    };
    let rows = ROWS.map(|(row, count)| (row.to_lowercase().replace(' ', "_"), count));
    match rows.iter().find(|(row, _)| row == name) {
        Some((_, count)) => Ok((of_kind, *count)),
        None => {
            let known = rows.map(|(row, _)| row).join(", ");
            bail!("`{figure}` is no count; after {kind}_ comes one of {known}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::found::tests::dataset as counted;

    fn held(figures: &[(&str, &str)]) -> HeldCounts {
        HeldCounts {
            figures: figures
                .iter()
                .map(|(scenario, figure)| HeldCount {
                    scenario: scenario.to_string(),
                    figure: figure.to_string(),
                })
                .collect(),
            ..HeldCounts::first(Topology::flat(4))
        }
    }

    #[test]
    fn counts_are_figures_for_each_unit_and_seed() {
        let mut counted = counted([(10, 1000, 2), (10, 1000, 3), (9, 9, 9), (9, 9, 9)]);
        counted.samples.truncate(2);
        let names = [("walk", "user_l2_misses"), ("walk", "bpf_instructions")];
        let found = held(&names).dataset(&counted, 2).unwrap();
        let values = |figure: &str| found.values("walk", figure, |_| true);
        assert_eq!(values("user_l2_misses"), [0.2, 0.3]);
        assert_eq!(values("bpf_instructions"), [0.0, 0.0]);
        // Apart from the same machine without caches.
        assert_eq!(found.machines(), [("1x1x4x1 sketch", 4)]);
        let headlines = found.headlines(|_| true);
        let titles = headlines.iter().map(|(_, metric)| metric.unit.as_str());
        assert_eq!(titles.collect::<Vec<_>>(), ["per pass"; 2]);
    }

    #[test]
    fn a_run_without_a_result_is_a_failure_and_no_figure() {
        let mut counted = counted([(10, 1000, 2); 4]);
        counted.samples.truncate(2);
        counted.samples[1].failure = Some("it did not load".into());
        counted.samples[1].span = None;
        let found = held(&[("walk", "user_l2_misses")]).dataset(&counted, 2);
        let found = found.unwrap();
        assert_eq!(found.values("walk", "user_l2_misses", |_| true).len(), 1);
        assert!(!found.is_whole());
    }

    #[test]
    fn figures_are_counts_of_the_table() {
        for name in [
            "user_l2_misses",
            "kernel_lines_of_other_cores",
            "bpf_instructions",
        ] {
            assert!(find(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "user",
            "user_",
            "l2_misses",
            "user_l4_misses",
            "all_instructions",
        ] {
            assert!(find(name).is_err(), "{name}");
        }
        let first = HeldCounts::first(Topology::flat(4));
        assert!(first.figures.iter().all(|held| find(&held.figure).is_ok()));
        assert!(first.model.parse::<Caches>().is_ok());
    }
}
