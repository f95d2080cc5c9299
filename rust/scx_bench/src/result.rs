// SPDX-License-Identifier: GPL-2.0
//! What a run of a scenario found, as it is written to JSON.

use serde::{Deserialize, Serialize};

use crate::cost::Callback;
use crate::stats::{Recorder, Summary};
use crate::system::{MachineCounters, Usage};

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The smaller, the better.
    Lower,
    /// The larger, the better.
    Higher,
    /// The nearer to this value, the better.
    Near(f64),
    /// Neither: it explains the others.
    Neither,
}

/// One figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name within the scenario, such as `wake_p99`.
    pub name: String,
    /// Value in `unit`.
    pub value: f64,
    /// Unit, such as `ms`, `%` or `1/s`; empty for a ratio or a count.
    pub unit: String,
    /// Which way it is good.
    pub better: Better,
    /// Is it what the scenario is about? Others are details.
    pub headline: bool,
}

/// Latencies of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// What was timed, such as `wake`.
    pub name: String,
    /// Percentiles and distribution.
    pub summary: Summary,
}

/// What a group of equal tasks used during the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name, such as `hogs`.
    pub name: String,
    /// Sum over its tasks.
    pub usage: Usage,
}

/// What one scenario found in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Id of the scenario.
    pub scenario: String,
    /// CPUs that the loads were sized for.
    pub cpus: usize,
    /// Seed of this run.
    pub seed: u64,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Figures, headlines first.
    pub metrics: Vec<Metric>,
    /// Latencies by kind.
    pub latencies: Vec<Latency>,
    /// Usage by group.
    pub groups: Vec<Group>,
    /// What the machine as a whole did meanwhile.
    pub machine: MachineCounters,
    /// Calls of the scheduler's callbacks meanwhile; only where their cost was
    /// asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callbacks: Vec<Callback>,
}

impl ScenarioResult {
    /// The figure of this name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The latencies of this name.
    pub fn latency(&self, name: &str) -> Option<&Summary> {
        self.latencies
            .iter()
            .find(|latency| latency.name == name)
            .map(|latency| &latency.summary)
    }
}

/// A scenario without a result, or a scheduler without any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The scenario; `None` if it did not get that far.
    pub scenario: Option<String>,
    /// What happened, in the words of whoever knows best.
    pub message: String,
}

/// Everything that a run of scenarios found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Kernel release.
    pub kernel: String,
    /// Name of the sched_ext scheduler that was enabled; empty for none.
    pub scheduler: String,
    /// Results in the order they were run.
    pub scenarios: Vec<ScenarioResult>,
    /// What has no result.
    pub failures: Vec<Failure>,
}

/// Collects what a scenario finds.
#[derive(Debug, Default)]
pub struct Findings {
    /// Figures in the order they were added.
    pub metrics: Vec<Metric>,
    /// Latencies in the order they were added.
    pub latencies: Vec<Latency>,
    /// Groups in the order they were added.
    pub groups: Vec<Group>,
    /// Counters of the machine over the measurement.
    pub machine: MachineCounters,
    /// Calls of the scheduler's callbacks over the measurement.
    pub callbacks: Vec<Callback>,
    /// Length of the measurement in nanoseconds, where the timetable does not
    /// say it.
    pub length_ns: Option<u64>,
}

impl Findings {
    /// Findings with these counters of the machine and nothing else.
    pub fn new(machine: MachineCounters, callbacks: Vec<Callback>) -> Self {
        Self {
            machine,
            callbacks,
            ..Self::default()
        }
    }

    /// Add a figure that the scenario is about.
    pub fn headline(&mut self, name: &str, value: f64, unit: &str, better: Better) {
        self.push(name, value, unit, better, true);
    }

    /// Add a figure that explains others.
    pub fn detail(&mut self, name: &str, value: f64, unit: &str, better: Better) {
        self.push(name, value, unit, better, false);
    }

    /// Add latencies: p50, p99 and max in ms, those in `headlines` first.
    pub fn latency(&mut self, name: &str, samples: &Recorder, headlines: &[&str]) {
        let summary = samples.summary();
        let ms = |ns: f64| ns / crate::clock::NSEC_PER_MSEC as f64;
        let figures = [
            ("p50", ms(summary.p50_ns as f64)),
            ("p99", ms(summary.p99_ns as f64)),
            ("max", ms(summary.max_ns as f64)),
            ("mean", ms(summary.mean_ns)),
        ];
        for (figure, value) in figures {
            let headline = headlines.contains(&figure);
            self.push(
                &format!("{name}_{figure}"),
                value,
                "ms",
                Better::Lower,
                headline,
            );
        }
        self.latencies.push(Latency {
            name: name.to_string(),
            summary,
        });
    }

    /// Add what a group used.
    pub fn group(&mut self, name: &str, usage: Usage) {
        self.groups.push(Group {
            name: name.to_string(),
            usage,
        });
    }

    fn push(&mut self, name: &str, value: f64, unit: &str, better: Better, headline: bool) {
        let name = name.to_string();
        self.metrics.push(Metric {
            name,
            value,
            unit: unit.to_string(),
            better,
            headline,
        });
    }
}
