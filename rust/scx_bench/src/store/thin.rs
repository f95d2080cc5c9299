// SPDX-License-Identifier: GPL-2.0
//! A result made small enough to be committed.
//!
//! What is kept is what tables and reports show: the figures, and of each
//! latency its percentiles and a distribution of a few points. What is told
//! twice or only explains how a figure came about is left out. Numbers are rounded to a
//! hundredth of what any comparison tells apart.
//!
//! [`thin`] drops, [`write()`] and [`read`] store: what was thinned is read as it
//! was written, and thinning it again changes nothing.
//!
//! Not here: the file that it stands in (`store`).

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cost::Callback;
use crate::result::{Better, Failure, Latency, Metric, RunResult, ScenarioResult};
use crate::stats::Summary;
use crate::system::MachineCounters;

/// Significant digits of a figure.
const DIGITS: i32 = 5;

/// Significant digits of a point of a distribution: it is drawn, not compared.
const POINT_DIGITS: i32 = 3;

/// Decimals of a fraction of the samples.
const FRACTION_DECIMALS: f64 = 1e6;

/// Fractions of the samples for which a distribution has a point. They lie
/// closer towards the tail, as a report draws them.
const FRACTIONS: &[f64] = &[
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 1.0,
];

/// A scenario as it is stored; short names, since they repeat.
#[derive(Serialize, Deserialize)]
struct Stored {
    id: String,
    cpus: usize,
    seed: u64,
    s: f64,
    /// Context switches of the machine.
    sw: u64,
    /// Figures: name, value, unit, which way is good, 1 for a headline.
    m: Vec<(String, f64, String, Better, u8)>,
    /// Latencies.
    l: Vec<StoredLatency>,
    /// Callbacks: name, calls, nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    c: Vec<(String, u64, u64)>,
}

/// Name; count, min, p50, p90, p99, p99.9 and max; mean; points.
type StoredLatency = (String, [u64; 7], f64, Vec<(u64, f64)>);

/// What is stored besides the scenarios.
#[derive(Serialize, Deserialize)]
struct Frame {
    kernel: String,
    scheduler: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failure>,
    scenarios: Vec<Stored>,
}

/// Leave out of `result` what is not kept.
pub fn thin(mut result: RunResult) -> RunResult {
    for scenario in &mut result.scenarios {
        let latencies = &scenario.latencies;
        let is_kept = |metric: &Metric| metric.headline || !is_in_summary(&metric.name, latencies);
        scenario.metrics.retain(is_kept);
        for metric in &mut scenario.metrics {
            metric.value = round(metric.value, DIGITS);
        }
        for latency in &mut scenario.latencies {
            let summary = &mut latency.summary;
            summary.mean_ns = round(summary.mean_ns, DIGITS);
            summary.distribution = thin_distribution(&summary.distribution);
        }
        scenario.groups.clear();
        scenario.machine = MachineCounters {
            switches: scenario.machine.switches,
            ..MachineCounters::default()
        };
    }
    result
}

/// Is the figure `name` in the summary or the points of one of `latencies`
/// already, as `wake_p50` is in those of `wake`?
pub fn is_in_summary(name: &str, latencies: &[Latency]) -> bool {
    let Some((kind, figure)) = name.rsplit_once('_') else {
        return false;
    };
    ["p50", "p90", "p95", "p99", "max", "mean"].contains(&figure)
        && latencies.iter().any(|latency| latency.name == kind)
}

/// The points of `distribution` that are the first at each of `FRACTIONS`.
pub fn thin_distribution(distribution: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut points: Vec<(u64, f64)> = Vec::new();
    for &fraction in FRACTIONS {
        let Some(&(value_ns, reached)) = distribution.iter().find(|(_, r)| *r >= fraction) else {
            continue;
        };
        let value_ns = round(value_ns as f64, POINT_DIGITS) as u64;
        let reached = (reached * FRACTION_DECIMALS).round() / FRACTION_DECIMALS;
        if points.last() != Some(&(value_ns, reached)) {
            points.push((value_ns, reached));
        }
    }
    points
}

/// `value` with so many significant digits.
pub fn round(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // Printed and read again, the shortest decimal comes out, not the nearest
    // binary fraction of a product.
    let decimals = usize::try_from(digits - 1).unwrap_or(0);
    format!("{value:.decimals$e}").parse().unwrap_or(value)
}

/// A thinned result as JSON, a line for each scenario.
pub fn write(result: &RunResult) -> Result<String> {
    let frame = Frame {
        kernel: result.kernel.clone(),
        scheduler: result.scheduler.clone(),
        failures: result.failures.clone(),
        scenarios: Vec::new(),
    };
    let frame = serde_json::to_string(&frame).context("writing JSON")?;
    let lines: Vec<String> = result
        .scenarios
        .iter()
        .map(|scenario| serde_json::to_string(&store(scenario)))
        .collect::<Result<_, _>>()
        .context("writing JSON")?;
    let Some(head) = frame.strip_suffix("]}") else {
        unreachable!("the scenarios are the frame's last field")
    };
    Ok(format!("{head}\n{}\n]}}", lines.join(",\n")))
}

/// What [`write()`] wrote, as parsed JSON.
pub fn read(value: Value) -> Result<RunResult> {
    let frame: Frame = serde_json::from_value(value).context("reading a kept result")?;
    Ok(RunResult {
        kernel: frame.kernel,
        scheduler: frame.scheduler,
        scenarios: frame.scenarios.into_iter().map(restore).collect(),
        failures: frame.failures,
    })
}

fn store(scenario: &ScenarioResult) -> Stored {
    let metric = |metric: &Metric| {
        (
            metric.name.clone(),
            metric.value,
            metric.unit.clone(),
            metric.better,
            u8::from(metric.headline),
        )
    };
    let latency = |latency: &Latency| {
        let s = &latency.summary;
        let counts = [
            s.count, s.min_ns, s.p50_ns, s.p90_ns, s.p99_ns, s.p999_ns, s.max_ns,
        ];
        (
            latency.name.clone(),
            counts,
            s.mean_ns,
            s.distribution.clone(),
        )
    };
    Stored {
        id: scenario.scenario.clone(),
        cpus: scenario.cpus,
        seed: scenario.seed,
        s: scenario.seconds,
        sw: scenario.machine.switches,
        m: scenario.metrics.iter().map(metric).collect(),
        l: scenario.latencies.iter().map(latency).collect(),
        c: scenario
            .callbacks
            .iter()
            .map(|callback| (callback.name.clone(), callback.calls, callback.time_ns))
            .collect(),
    }
}

fn restore(stored: Stored) -> ScenarioResult {
    let metric = |(name, value, unit, better, headline)| Metric {
        name,
        value,
        unit,
        better,
        headline: headline != 0,
    };
    let latency = |(name, counts, mean_ns, distribution): StoredLatency| {
        let [count, min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns] = counts;
        Latency {
            name,
            summary: Summary {
                count,
                min_ns,
                mean_ns,
                p50_ns,
                p90_ns,
                p99_ns,
                p999_ns,
                max_ns,
                distribution,
            },
        }
    };
    ScenarioResult {
        scenario: stored.id,
        cpus: stored.cpus,
        seed: stored.seed,
        seconds: stored.s,
        metrics: stored.m.into_iter().map(metric).collect(),
        latencies: stored.l.into_iter().map(latency).collect(),
        groups: Vec::new(),
        machine: MachineCounters {
            switches: stored.sw,
            ..MachineCounters::default()
        },
        callbacks: stored
            .c
            .into_iter()
            .map(|(name, calls, time_ns)| Callback {
                name,
                calls,
                time_ns,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn result() -> RunResult {
        let mut result = testing::dataset(&[("a", &[1.234_567_8])]).samples[0]
            .result
            .clone();
        result.scenarios[0].machine.switches = 77;
        result.scenarios[0].machine.forks = 5;
        result.scenarios.push(testing::scenario(
            "nice",
            1,
            vec![testing::metric("ratio", 9.1, "", Better::Near(9.3))],
        ));
        result.failures.push(Failure {
            scenario: Some("flood".into()),
            message: "a \"quoted\" word".into(),
        });
        result
    }

    #[test]
    fn what_was_thinned_is_read_as_it_was_written() {
        let again = |result| {
            let text = write(result).unwrap();
            read(serde_json::from_str(&text).unwrap()).unwrap()
        };
        let thinned = thin(result());
        assert_eq!(again(&thinned), thinned);
        assert_eq!(thin(thinned.clone()), thinned);
        let empty = RunResult::default();
        assert_eq!(again(&empty), empty);
        assert!(read(Value::Null).is_err());
    }

    #[test]
    fn thinning_keeps_percentiles_and_the_shape() {
        let (full, thinned) = (result(), thin(result()));
        let of = |result: &RunResult| result.scenarios[0].latencies[0].summary.clone();
        let (full, thinned) = (of(&full), of(&thinned));
        assert_eq!(full.p99_ns, thinned.p99_ns);
        assert_eq!(round(full.mean_ns, DIGITS), thinned.mean_ns);
        let points = &thinned.distribution;
        assert!(points.len() <= FRACTIONS.len() && points.len() > 8);
        assert!(
            points
                .windows(2)
                .all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1)
        );
        assert_eq!(points.last().map(|last| last.1), Some(1.0));
    }

    #[test]
    fn what_a_summary_tells_is_not_told_again() {
        let latencies = [testing::latency("wake", 1_000)];
        assert!(is_in_summary("wake_p50", &latencies));
        assert!(!is_in_summary("done_p50", &latencies));
        assert!(!is_in_summary("wake_missed", &latencies));
        let mut result = result();
        let metrics = &mut result.scenarios[0].metrics;
        metrics.push(Metric {
            headline: false,
            ..testing::metric("wake_p50", 1.0, "ms", Better::Lower)
        });
        metrics.push(Metric {
            headline: false,
            ..testing::metric("idle", 1.0, "%", Better::Lower)
        });
        let thinned = thin(result);
        let names = thinned.scenarios[0].metrics.iter().map(|m| m.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["wake_p99", "idle"]);
    }

    #[test]
    fn a_scenario_takes_a_kilobyte() {
        let text = write(&thin(result())).unwrap();
        let line = text.lines().find(|line| line.contains("saturation"));
        assert!(line.unwrap().len() < 1_000, "{text}");
    }

    #[test]
    fn rounding_keeps_significant_digits() {
        assert_eq!(round(1_234_567.0, 3), 1_230_000.0);
        assert_eq!(round(0.001_234_5, 3), 0.001_23);
        assert_eq!(round(-9.999, 2), -10.0);
        assert_eq!(round(0.0, 3), 0.0);
    }
}
