// SPDX-License-Identifier: GPL-2.0
//! Results in the text format of Prometheus, version 0.0.4.
//!
//! Everything is in base units, as is the custom there: seconds, and parts of
//! one instead of percent. Each boot is a series of its own, told apart by the
//! label `seed`; the median is left to the reader. Series go by the names of
//! schedulers, which do not change, and versions stand beside them.
//!
//! Not here: what people read (`text`, `report`).

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::clock::NSEC_PER_SEC;
use crate::dataset::{Dataset, Sample};
use crate::result::{Metric, SAMPLES_ABOVE, ScenarioResult};
use crate::store::thin::{is_in_summary, round};
use crate::table;

/// A metric with its samples, which have to stand together.
#[derive(Debug)]
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    lines: Vec<String>,
}

/// Labels of one series: (name, value).
type Labels<'a> = Vec<(&'a str, String)>;

/// Write `dataset` to `path`; its directory is created.
pub fn write(dataset: &Dataset, path: &Path) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    fs::write(path, text(dataset)).with_context(|| format!("writing {}", path.display()))?;
    table::say(&format!("written: {}\n", path.display()))
}

/// `dataset` as text.
pub fn text(dataset: &Dataset) -> String {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut info = gauge("scx_bench_info", "What the figures were measured on.");
    let machine = [("kernel", &dataset.kernel), ("qemu", &dataset.qemu)];
    info.add("", &machine.map(|(name, value)| (name, value.clone())), 1.0);
    let mut versions = gauge("scx_bench_scheduler_info", "Version of each scheduler.");
    for (name, version) in &dataset.schedulers {
        let labels = [("scheduler", name.clone()), ("version", version.clone())];
        versions.add("", &labels, 1.0);
    }
    let mut latencies = Family::new(
        "scx_bench_latency_seconds",
        "summary",
        "Latencies of a scenario by kind.",
    );
    let mut longest = gauge(
        "scx_bench_latency_max_seconds",
        "Longest latency of a scenario by kind.",
    );
    let mut figures = [
        gauge("scx_bench_figure_seconds", "Figures that are times."),
        gauge(
            "scx_bench_figure_ratio",
            "Figures that are parts of something, as parts of 1.",
        ),
        gauge("scx_bench_figure_hertz", "Figures that are rates."),
        gauge(
            "scx_bench_figure_dimensionless",
            "Figures that are counts or proportions.",
        ),
    ];
    let mut failures = gauge(
        "scx_bench_failures",
        "Scenarios without a result, and starts that failed.",
    );
    for sample in &dataset.samples {
        let labels = labels(sample);
        for scenario in &sample.result.scenarios {
            let of = |kind, name: &str| {
                let added = [
                    ("scenario", scenario.scenario.clone()),
                    (kind, name.to_string()),
                ];
                [labels.clone(), added.to_vec()].concat()
            };
            add_latencies(scenario, &of, &mut latencies, &mut longest);
            // A detail such as `wake_p50` is in the summary of `wake` already.
            let is_told = |metric: &&Metric| {
                metric.headline || !is_in_summary(&metric.name, &scenario.latencies)
            };
            for metric in scenario.metrics.iter().filter(is_told) {
                let (index, factor) = unit(metric);
                figures[index].add("", &of("figure", &metric.name), metric.value * factor);
            }
        }
        failures.add("", &labels, sample.result.failures.len() as f64);
    }
    let families = [info, versions, latencies, longest].into_iter();
    families
        .chain(figures)
        .chain([failures])
        .map(|family| family.text())
        .collect()
}

fn add_latencies<'a>(
    scenario: &ScenarioResult,
    labels: &dyn Fn(&'a str, &str) -> Labels<'a>,
    latencies: &mut Family,
    longest: &mut Family,
) {
    for latency in &scenario.latencies {
        let labels = labels("latency", &latency.name);
        let summary = &latency.summary;
        // A quantile, and of how many samples one lies above it.
        let quantiles = [
            ("0.5", 2, summary.p50_ns),
            ("0.9", 10, summary.p90_ns),
            ("0.99", 100, summary.p99_ns),
            ("0.999", 1000, summary.p999_ns),
        ];
        let is_told = |one_of: u64| one_of == 2 || summary.count >= SAMPLES_ABOVE * one_of;
        for (quantile, _, value_ns) in quantiles.into_iter().filter(|one| is_told(one.1)) {
            let labels = [&labels[..], &[("quantile", quantile.to_string())]].concat();
            latencies.add("", &labels, seconds(value_ns as f64));
        }
        let sum = seconds(summary.mean_ns * summary.count as f64);
        latencies.add("_sum", &labels, sum);
        latencies.add("_count", &labels, summary.count as f64);
        longest.add("", &labels, seconds(summary.max_ns as f64));
    }
}

impl Family {
    fn new(name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            help,
            lines: Vec::new(),
        }
    }

    fn add(&mut self, suffix: &str, labels: &[(&str, String)], value: f64) {
        let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escape(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let (name, labels) = (self.name, labels.join(","));
        self.lines
            .push(format!("{name}{suffix}{{{labels}}} {}\n", number(value)));
    }

    /// The family as text; nothing without samples.
    fn text(self) -> String {
        let Self {
            name,
            kind,
            help,
            lines,
        } = self;
        if lines.is_empty() {
            return String::new();
        }
        let mut text = String::new();
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        text + &lines.concat()
    }
}

/// Index of the family that `metric` belongs to, and what its value is
/// multiplied by to be in the unit of that.
fn unit(metric: &Metric) -> (usize, f64) {
    match metric.unit.as_str() {
        "s" => (0, 1.0),
        "ms" => (0, 1e-3),
        "us" => (0, 1e-6),
        "ns" => (0, 1e-9),
        "%" => (1, 1e-2),
        "1/1000" => (1, 1e-3),
        "1/s" => (2, 1.0),
        _ => (3, 1.0),
    }
}

fn labels(sample: &Sample) -> Labels<'static> {
    vec![
        ("scheduler", sample.scheduler.clone()),
        ("topology", sample.topology.clone()),
        ("cpus", sample.cpus.to_string()),
        ("seed", sample.seed.to_string()),
    ]
}

fn seconds(ns: f64) -> f64 {
    ns / NSEC_PER_SEC as f64
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_string(),
        f64::NEG_INFINITY => "-Inf".to_string(),
        // Scaling must not add digits that were not measured.
        _ => round(value, 9).to_string(),
    }
}

/// A label's value as it stands between quotation marks.
fn escape(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use prometheus_parse::{Scrape, Value};

    use super::*;
    use crate::result::Better;
    use crate::testing;

    fn parse(dataset: &Dataset) -> Scrape {
        let lines = text(dataset);
        Scrape::parse(lines.lines().map(|line| Ok(line.to_string()))).unwrap()
    }

    /// Values of the samples of this name whose labels have these values.
    fn gauges(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let has_labels = |sample: &&prometheus_parse::Sample| {
            sample.metric == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(label) == Some(value))
        };
        let samples = scrape.samples.iter().filter(has_labels);
        samples
            .map(|sample| match sample.value {
                Value::Gauge(value) => value,
                ref other => panic!("{name} is {other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_parser_finds_every_figure_in_base_units() {
        let mut dataset = testing::dataset(&[("a", &[1.5, 2.5]), ("b", &[3.5])]);
        let figures = &mut dataset.samples[0].result.scenarios[0].metrics;
        figures.push(testing::metric("idle", 12.5, "%", Better::Lower));
        figures.push(testing::metric("busy", 3.0, "1/1000", Better::Lower));
        figures.push(testing::metric("switches", 800.0, "1/s", Better::Neither));
        figures.push(testing::metric("missed", 2.0, "", Better::Lower));
        let scrape = parse(&dataset);

        let times = gauges(&scrape, "scx_bench_figure_seconds", &[("scheduler", "a")]);
        assert_eq!(times, [0.0015, 0.0025]);
        let seed = [("scheduler", "a"), ("seed", "2")];
        assert_eq!(gauges(&scrape, "scx_bench_figure_seconds", &seed), [0.0025]);
        assert_eq!(
            gauges(&scrape, "scx_bench_figure_ratio", &[]),
            [0.125, 0.003]
        );
        assert_eq!(gauges(&scrape, "scx_bench_figure_hertz", &[]), [800.0]);
        let counts = [("figure", "missed")];
        assert_eq!(
            gauges(&scrape, "scx_bench_figure_dimensionless", &counts),
            [2.0]
        );
        assert_eq!(gauges(&scrape, "scx_bench_failures", &[]), [0.0; 3]);
    }

    #[test]
    fn latencies_are_summaries_with_sum_and_count() {
        let dataset = testing::dataset(&[("a", &[1.5])]);
        let summary = &dataset.samples[0].result.scenarios[0].latencies[0].summary;
        let scrape = parse(&dataset);
        let name = "scx_bench_latency_seconds";
        let found = scrape.samples.iter().find(|sample| sample.metric == name);
        let Value::Summary(quantiles) = &found.unwrap().value else {
            panic!("not a summary");
        };
        // Of 1000 samples one lies above p99.9, which is none.
        assert_eq!((summary.count, quantiles.len()), (1000, 3));
        assert_eq!(quantiles[2].quantile, 0.99);
        assert_eq!(quantiles[2].count, seconds(summary.p99_ns as f64));
        let text = text(&dataset);
        assert!(text.contains("scx_bench_latency_seconds_count{"), "{text}");
    }

    #[test]
    fn labels_survive_whatever_is_in_them() {
        let mut dataset = testing::dataset(&[("a", &[1.0])]);
        dataset.qemu = "a \"b\" c\\d\ne".into();
        let text = text(&dataset);
        assert!(text.contains(r#"qemu="a \"b\" c\\d\ne"}"#), "{text}");
        let scrape = parse(&dataset);
        let info = scrape.samples.iter().find(|s| s.metric == "scx_bench_info");
        assert!(info.unwrap().labels.get("qemu").unwrap().contains("b"));
    }

    #[test]
    fn every_family_is_announced_once_and_stands_together() {
        let text = text(&testing::dataset(&[("a", &[1.0]), ("b", &[2.0])]));
        let mut seen: Vec<&str> = Vec::new();
        let names = text.lines().map(|line| {
            let line = line.strip_prefix("# HELP ").unwrap_or(line);
            let line = line.strip_prefix("# TYPE ").unwrap_or(line);
            let name = line.split([' ', '{']).next().unwrap();
            let name = name.strip_suffix("_sum").unwrap_or(name);
            name.strip_suffix("_count").unwrap_or(name)
        });
        for name in names {
            if seen.last() != Some(&name) {
                assert!(!seen.contains(&name), "{name} stands twice");
                seen.push(name);
            }
        }
    }
}
