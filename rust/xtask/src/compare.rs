// SPDX-License-Identifier: GPL-2.0
//! The small table at the end of `cargo xtask run`: the same load under two schedulers.
//!
//! The guest reports what `scx_bench run --json` wrote under each scheduler, one
//! object after the other; only the figures that the table shows are read.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The load under one scheduler.
#[derive(Debug, Deserialize)]
pub struct Run {
    scheduler: String,
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Deserialize)]
struct Scenario {
    metrics: Vec<Metric>,
}

#[derive(Debug, Deserialize)]
struct Metric {
    name: String,
    value: f64,
    unit: String,
}

/// Read the runs that the guest reported.
pub fn read(report: &[u8]) -> Result<Vec<Run>> {
    let runs: Vec<Run> = serde_json::Deserializer::from_slice(report)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("reading the guest's report")?;
    ensure!(!runs.is_empty(), "the guest reported nothing");
    Ok(runs)
}

/// Wake latency and CPU share, a column for each run. A figure that a run does
/// not have is a dash.
pub fn table(runs: &[Run]) -> String {
    let mut rows = vec![row("", runs, |run| Some(scheduler_name(run).to_string()))];
    for metric in runs.first().map_or(&[][..], metrics) {
        let Some(title) = title(&metric.name) else {
            continue;
        };
        rows.push(row(&title, runs, |run| {
            let found = metrics(run)
                .iter()
                .find(|other| other.name == metric.name)?;
            Some(format!(
                "{:.*} {}",
                decimals(&found.unit),
                found.value,
                found.unit
            ))
        }));
    }
    format_table(&rows)
}

/// What the table calls a figure; none if it is not shown.
fn title(metric: &str) -> Option<String> {
    match metric.rsplit_once('_')? {
        ("wake", figure @ ("p50" | "p99" | "max")) => Some(format!("wake latency {figure}")),
        (group, "cpu") => Some(format!("CPU share of {group}")),
        _ => None,
    }
}

/// Microseconds matter in a latency, tenths in a share.
fn decimals(unit: &str) -> usize {
    if unit == "ms" { 3 } else { 1 }
}

fn row(name: &str, runs: &[Run], cell: impl Fn(&Run) -> Option<String>) -> Vec<String> {
    let cells = runs
        .iter()
        .map(|run| cell(run).unwrap_or_else(|| "-".to_string()));
    std::iter::once(name.to_string()).chain(cells).collect()
}

/// A result without a name is one without a sched_ext scheduler. A name may
/// have the version and the platform of its build at its end.
fn scheduler_name(run: &Run) -> &str {
    let version = run.scheduler.match_indices('_').find(|(at, _)| {
        let rest = run.scheduler.get(at + 1..).unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit())
    });
    match version.and_then(|(at, _)| run.scheduler.get(..at)) {
        Some(name) => name,
        None if run.scheduler.is_empty() => "default",
        None => &run.scheduler,
    }
}

fn metrics(run: &Run) -> &[Metric] {
    run.scenarios
        .first()
        .map_or(&[], |scenario| &scenario.metrics)
}

/// Rows of cells in columns: the first to the left, figures to the right.
fn format_table(rows: &[Vec<String>]) -> String {
    let nr_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..nr_columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if column == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = r#"{"kernel":"6.18","scheduler":"pandemonium_6.0.0_x86_64","scenarios":[{
        "scenario":"demo","cpus":4,"seed":1,"seconds":10.0,"metrics":[
        {"name":"wake_p50","value":0.02,"unit":"ms","better":"lower","headline":true},
        {"name":"wake_p99","value":0.15,"unit":"ms"},
        {"name":"hogs_cpu","value":50.04,"unit":"%"},
        {"name":"jobs_cpu","value":40.0,"unit":"%"},
        {"name":"switches","value":812.0,"unit":"1/s"}],"latencies":[]}]}"#;
    const DEFAULT: &str = r#"{"scheduler":"","scenarios":[{"metrics":[
        {"name":"wake_p50","value":2.0,"unit":"ms"},
        {"name":"wake_p99","value":13.9,"unit":"ms"},
        {"name":"hogs_cpu","value":55.0,"unit":"%"}]}]}"#;

    #[test]
    fn two_runs_become_two_columns() {
        let runs = read(format!("{OURS}\n{DEFAULT}\n").as_bytes()).expect("two runs");
        let expected = "
                    pandemonium     default
wake latency p50       0.020 ms    2.000 ms
wake latency p99       0.150 ms   13.900 ms
CPU share of hogs        50.0 %      55.0 %
CPU share of jobs        40.0 %           -
";
        assert_eq!(format!("\n{}", table(&runs)), expected);
    }

    #[test]
    fn a_report_that_is_empty_or_cut_is_an_error() {
        assert!(read(b"").is_err());
        assert!(read(&OURS.as_bytes()[..40]).is_err());
    }
}
