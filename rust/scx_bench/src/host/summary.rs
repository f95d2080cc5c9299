// SPDX-License-Identifier: GPL-2.0
//! Means with their confidence intervals, and what cannot be concluded.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::interval::Interval;
use crate::dataset::{Dataset, Sample};
use crate::result::Metric;
use crate::table;

/// Repeats that differ by more than this, as standard deviation by mean, make
/// a figure noisy.
const NOISY: f64 = 0.10;

/// One figure under one scheduler.
struct Cell {
    scheduler: String,
    interval: Interval,
}

/// Every headline figure under every scheduler: mean ± half of the 95%
/// confidence interval, and whether it differs from the first scheduler's.
pub fn text(results: &Dataset) -> String {
    let mut text = String::new();
    let numbers: BTreeSet<u32> = results.samples.iter().map(|sample| sample.cpus).collect();
    for cpus in numbers.into_iter().filter(|&cpus| cpus > 0) {
        let samples: Vec<&Sample> = results
            .samples
            .iter()
            .filter(|sample| sample.cpus == cpus)
            .collect();
        let _ = writeln!(
            text,
            "\n{cpus} CPUs, mean of {} repeats ± half of the 95% confidence interval",
            results.seeds
        );
        let mut noisy = 0;
        for (scenario, metric) in headlines(&samples) {
            let cells = cells(results, &samples, &scenario, &metric.name);
            noisy += cells
                .iter()
                .filter(|cell| cell.interval.variation > NOISY)
                .count();
            let _ = writeln!(text, "{}", line(&scenario, &metric, &cells));
        }
        if noisy > 0 {
            let _ = writeln!(
                text,
                "noise: {noisy} figures, marked ~, vary by more than {:.0}% from repeat to \
                 repeat; more --repeats and a quieter machine narrow them",
                NOISY * 100.0
            );
        }
    }
    text
}

fn line(scenario: &str, metric: &Metric, cells: &[Cell]) -> String {
    let mut line = format!("{scenario:<13} {:<12} {:<6}", metric.name, metric.unit);
    for cell in cells {
        let interval = &cell.interval;
        let half = match interval.half.is_finite() {
            true => format!(" ± {}", table::value(interval.half)),
            false => String::new(),
        };
        let noisy = if interval.variation > NOISY { "~" } else { "" };
        let verdict = match cells.first() {
            Some(first) if first.scheduler == cell.scheduler => "",
            Some(first) if first.interval.is_apart_from(interval) => " (differs)",
            _ => " (no difference shown)",
        };
        let _ = write!(
            line,
            "  {}: {}{half}{noisy}{verdict}",
            cell.scheduler,
            table::value(interval.mean)
        );
    }
    line
}

/// The headline figures that any sample has, in the order they were measured.
fn headlines(samples: &[&Sample]) -> Vec<(String, Metric)> {
    let mut found: Vec<(String, Metric)> = Vec::new();
    for result in samples.iter().flat_map(|sample| &sample.result.scenarios) {
        for metric in result.metrics.iter().filter(|metric| metric.headline) {
            let is_known = found
                .iter()
                .any(|(id, other)| *id == result.scenario && other.name == metric.name);
            if !is_known {
                found.push((result.scenario.clone(), metric.clone()));
            }
        }
    }
    found
}

/// Schedulers without a result in every repeat have no cell.
fn cells(results: &Dataset, samples: &[&Sample], scenario: &str, metric: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (scheduler, _) in &results.schedulers {
        let values: Vec<f64> = samples
            .iter()
            .filter(|sample| sample.scheduler == *scheduler)
            .flat_map(|sample| &sample.result.scenarios)
            .filter(|result| result.scenario == scenario)
            .filter_map(|result| result.metric(metric))
            .map(|metric| metric.value)
            .collect();
        if values.len() as u64 != results.seeds {
            continue;
        }
        cells.extend(Interval::of(&values).map(|interval| Cell {
            scheduler: scheduler.clone(),
            interval,
        }));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Better, Findings, RunResult, ScenarioResult};

    fn sample(scheduler: &str, repeat: u64, value: f64) -> Sample {
        let mut findings = Findings::default();
        findings.headline("wake_p99", value, "ms", Better::Lower);
        let scenario = ScenarioResult {
            scenario: "saturation".into(),
            cpus: 2,
            seed: repeat,
            seconds: 1.0,
            metrics: findings.metrics,
            latencies: Vec::new(),
            groups: Vec::new(),
            machine: findings.machine,
            callbacks: Vec::new(),
        };
        Sample {
            scheduler: scheduler.into(),
            topology: "host".into(),
            cpus: 2,
            seed: repeat,
            result: RunResult {
                scenarios: vec![scenario],
                ..RunResult::default()
            },
        }
    }

    fn text_of(a: [f64; 3], b: &[f64]) -> String {
        let samples = |name: &'static str, values: &[f64]| {
            let numbered = (1..).zip(values.to_vec());
            numbered
                .map(|(repeat, value)| sample(name, repeat, value))
                .collect::<Vec<_>>()
        };
        let schedulers = ["a", "b"].map(|name| (name.to_string(), String::new()));
        text(&Dataset {
            seeds: 3,
            schedulers: schedulers.to_vec(),
            samples: [samples("a", &a), samples("b", b)].concat(),
            ..Dataset::default()
        })
    }

    #[test]
    fn a_clear_difference_is_told_from_none() {
        let clear = text_of([1.0, 1.01, 0.99], &[2.0, 2.01, 1.99]);
        assert!(clear.contains("b: 2.00 ± 0.025 (differs)"), "{clear}");
        let none = text_of([1.0, 1.4, 0.6], &[1.2, 1.6, 0.8]);
        assert!(none.contains("(no difference shown)"), "{none}");
        assert!(
            none.contains('~') && none.contains("noise: 2 figures"),
            "{none}"
        );
    }

    #[test]
    fn a_scheduler_that_failed_in_a_repeat_has_no_figure() {
        let text = text_of([1.0, 1.01, 0.99], &[2.0, 2.0]);
        assert!(text.contains("a: 1.00") && !text.contains("b:"), "{text}");
    }
}
