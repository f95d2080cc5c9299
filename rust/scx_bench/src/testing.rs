// SPDX-License-Identifier: GPL-2.0
//! Results made up for unit tests.
//!
//! Not here: runs of the program (`tests/common`).

use crate::dataset::{Dataset, Sample};
use crate::result::{Better, Latency, Metric, RunResult, ScenarioResult};
use crate::stats::Recorder;
use crate::system::MachineCounters;

/// A headline figure in `unit`.
pub fn metric(name: &str, value: f64, unit: &str, better: Better) -> Metric {
    Metric {
        name: name.into(),
        value,
        unit: unit.into(),
        better,
        headline: true,
    }
}

/// A scenario of 4 CPUs with these figures and no latencies.
pub fn scenario(id: &str, seed: u64, metrics: Vec<Metric>) -> ScenarioResult {
    ScenarioResult {
        scenario: id.into(),
        cpus: 4,
        seed,
        seconds: 1.0,
        metrics,
        latencies: Vec::new(),
        groups: Vec::new(),
        machine: MachineCounters::default(),
        callbacks: Vec::new(),
    }
}

/// Latencies of 1, 2 ... 1000 times `step_ns`.
pub fn latency(name: &str, step_ns: u64) -> Latency {
    let mut recorder = Recorder::new();
    (1..=1000).for_each(|nth| recorder.record(nth * step_ns));
    Latency {
        name: name.into(),
        summary: recorder.summary(),
    }
}

/// A boot of 4 CPUs under `scheduler` that ran these scenarios.
pub fn sample(scheduler: &str, seed: u64, scenarios: Vec<ScenarioResult>) -> Sample {
    Sample {
        scheduler: scheduler.into(),
        topology: "1x1x4x1".into(),
        cpus: 4,
        seed,
        result: RunResult {
            kernel: "6.18".into(),
            scenarios,
            ..RunResult::default()
        },
    }
}

/// Results of `saturation`: each scheduler with its wake p99 in ms for seeds 1
/// and on. The latencies behind it rise evenly to a hundredth above it.
pub fn dataset(columns: &[(&str, &[f64])]) -> Dataset {
    let mut samples = Vec::new();
    for (name, values) in columns {
        for (seed, &value) in (1..).zip(*values) {
            let metrics = vec![metric("wake_p99", value, "ms", Better::Lower)];
            let mut found = scenario("saturation", seed, metrics);
            found.latencies = vec![latency("wake", (value * 1e6 / 990.0) as u64)];
            samples.push(sample(name, seed, vec![found]));
        }
    }
    let seeds = columns.iter().map(|(_, values)| values.len() as u64).max();
    let version = |name: &str| (name.to_string(), format!("{name} 1.0"));
    Dataset {
        kernel: "6.18".into(),
        qemu: "QEMU 10".into(),
        seeds: seeds.unwrap_or(0),
        schedulers: columns.iter().map(|(name, _)| version(name)).collect(),
        samples,
        ..Dataset::default()
    }
}
