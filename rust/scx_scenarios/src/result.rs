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

/// Samples that have to lie above a percentile for it to be told.
pub const SAMPLES_ABOVE: u64 = 3;

/// Do `count` samples support this percentile, in percent?
pub fn has_percentile(count: u64, pct: u64) -> bool {
    count * (100 - pct) >= SAMPLES_ABOVE * 100
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

    /// Add latencies in ms: p50, p90, p95, p99, max and mean, those in `headlines` first.
    ///
    /// A percentile is only told of so many samples that at least
    /// [`SAMPLES_ABOVE`] lie above it: p99 of 300, p95 of 60, p90 of 30. A
    /// headline has the same name under every scheduler, so a scenario chooses
    /// one that the events of its timetable support; where a scheduler gets
    /// fewer of them done, the largest sample stands for it.
    pub fn latency(&mut self, name: &str, samples: &Recorder, headlines: &[&str]) {
        let summary = samples.summary();
        let ms = |ns: f64| ns / crate::clock::NSEC_PER_MSEC as f64;
        let mut add = |figure: &str, value_ns: f64| {
            let name = format!("{name}_{figure}");
            let headline = headlines.contains(&figure);
            self.push(&name, ms(value_ns), "ms", Better::Lower, headline);
        };
        add("p50", summary.p50_ns as f64);
        for (figure, pct) in [("p90", 90), ("p95", 95), ("p99", 99)] {
            if has_percentile(summary.count, pct) {
                add(figure, samples.percentile_ns(pct as f64) as f64);
            } else if headlines.contains(&figure) {
                add(figure, summary.max_ns as f64);
            }
        }
        add("max", summary.max_ns as f64);
        add("mean", summary.mean_ns);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: u64, headlines: &[&str]) -> Vec<String> {
        let mut samples = Recorder::new();
        (1..=count).for_each(|value| samples.record(value * 1_000_000));
        let mut findings = Findings::default();
        findings.latency("wake", &samples, headlines);
        let names = findings.metrics.into_iter().map(|metric| metric.name);
        names.collect()
    }

    #[test]
    fn a_percentile_is_told_only_of_enough_samples() {
        let has = |count, figure: &str| names(count, &[]).contains(&format!("wake_{figure}"));
        for (figure, least) in [("p90", 30), ("p95", 60), ("p99", 300)] {
            assert!(has(least, figure) && !has(least - 1, figure), "{figure}");
        }
        assert!(["p50", "max", "mean"].iter().all(|figure| has(1, figure)));
    }

    #[test]
    fn a_headline_of_too_few_samples_is_the_largest() {
        assert!(names(10, &["p95"]).contains(&"wake_p95".to_string()));
        let mut samples = Recorder::new();
        (1..=50).for_each(|value| samples.record(value * 1_000_000));
        let mut findings = Findings::default();
        findings.latency("wake", &samples, &["p95"]);
        let p95 = findings.metrics.iter().find(|one| one.name == "wake_p95");
        assert_eq!(p95.map(|one| (one.value, one.headline)), Some((50.0, true)));
    }
}
