// SPDX-License-Identifier: GPL-2.0
//! A comparison as tables on the terminal.
//!
//! Not here: what is computed (`compare`), a line for each scenario while it
//! runs (`table`).

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::compare::{self, Row, matrix, rows};
use crate::dataset::Dataset;
use crate::result::ScenarioResult;
use crate::spec;
use crate::stats::Spread;
use crate::table;
use crate::tolerance;

/// The tables of all topologies, failures after each, as text.
pub fn tables(dataset: &Dataset) -> String {
    let mut text = String::new();
    for (topology, cpus) in dataset.machines() {
        let shape = match topology {
            "" => String::new(),
            _ => format!(" ({topology})"),
        };
        let _ = writeln!(
            text,
            "\n{cpus} CPUs{shape}, Linux {}, median of {} {}s [min..max], * = best or as good",
            dataset.kernel,
            dataset.seeds,
            dataset.repetition()
        );
        let rows = rows(dataset, topology);
        text.push_str(&notes(dataset, &rows));
        text.push_str(&table(dataset, &rows));
        text.push_str(&matrix_text(dataset, &rows));
    }
    for (index, line) in failures(dataset).iter().enumerate() {
        let before = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{before}no result: {line}");
    }
    text
}

/// The rule of comparisons, and what marks in `rows` mean.
fn notes(dataset: &Dataset, rows: &[Row]) -> String {
    let mut text = compare::rule(dataset.repetition()) + "\n";
    let small = |row: &Row| {
        let mut cells = row.cells.iter().flatten();
        cells.any(|cell| row.is_near_turn(cell.median))
    };
    if rows.iter().any(small) {
        text += &format!("{}.\n", tolerance::near_turn_note());
    }
    if rows.iter().any(|row| row.of_max.contains(&true)) {
        text += "^ is the largest sample, where there are too few for the percentile.\n";
    }
    text
}

/// What callbacks cost, where that was measured: for each topology and
/// scheduler the calls and the mean length over all scenarios and seeds, and
/// what all of them together cost for each context switch.
pub fn costs(dataset: &Dataset) -> String {
    let mut text = String::new();
    let mut sums: BTreeMap<(u32, usize), Cost> = BTreeMap::new();
    for sample in &dataset.samples {
        let is_column = |(name, _): &(String, String)| *name == sample.scheduler;
        let scenarios = sample.result.scenarios.iter();
        let counted = scenarios.filter(|scenario| !scenario.callbacks.is_empty());
        if let Some(column) = dataset.schedulers.iter().position(is_column) {
            counted.for_each(|found| sums.entry((sample.cpus, column)).or_default().add(found));
        }
    }
    for ((cpus, column), cost) in sums {
        let name = dataset.label(&dataset.schedulers[column].0);
        let per_switch = table::value(cost.time_ns as f64 / cost.switches.max(1) as f64);
        let _ = writeln!(
            text,
            "\n{name}, {cpus} CPUs: callbacks cost {per_switch} instructions for each context switch"
        );
        text.push_str(&cost.table());
    }
    text
}

/// What callbacks cost over several scenarios.
#[derive(Debug, Default)]
struct Cost {
    /// (calls, time in nanoseconds) by callback.
    callbacks: BTreeMap<String, (u64, u64)>,
    time_ns: u64,
    switches: u64,
}

impl Cost {
    fn add(&mut self, scenario: &ScenarioResult) {
        self.switches += scenario.machine.switches;
        for callback in &scenario.callbacks {
            let (calls, time_ns) = self.callbacks.entry(callback.name.clone()).or_default();
            *calls += callback.calls;
            *time_ns += callback.time_ns;
            self.time_ns += callback.time_ns;
        }
    }

    fn table(&self) -> String {
        let mut lines = vec![
            ["callback", "calls", "instructions"]
                .map(String::from)
                .to_vec(),
        ];
        for (callback, &(calls, time_ns)) in &self.callbacks {
            let mean = table::value(time_ns as f64 / calls.max(1) as f64);
            lines.push(vec![callback.clone(), calls.to_string(), mean]);
        }
        align(&lines)
    }
}

/// The matrix as text; nothing if there is only one scheduler.
fn matrix_text(dataset: &Dataset, rows: &[Row]) -> String {
    let names = labels(dataset);
    if names.len() < 2 {
        return String::new();
    }
    let mut lines = vec![[vec!["wins-ties-losses against".to_string()], names.clone()].concat()];
    for (index, scores) in matrix(rows, names.len()).iter().enumerate() {
        let mut line = vec![names[index].clone()];
        line.extend(
            scores
                .iter()
                .enumerate()
                .map(|(other, score)| match other == index {
                    true => String::new(),
                    false => format!("{}-{}-{}", score.wins, score.ties, score.losses),
                }),
        );
        lines.push(line);
    }
    format!("\n{}", align(&lines))
}

fn table(dataset: &Dataset, rows: &[Row]) -> String {
    let mut lines = vec![["scenario", "figure"].map(String::from).to_vec()];
    lines[0].extend(labels(dataset));
    let has_limit = rows.iter().any(|row| row.limit.is_some());
    lines[0].extend(has_limit.then(|| spec::LIMIT.to_string()));
    let mut last_scenario = "";
    for row in rows {
        let is_new = row.scenario != last_scenario;
        let scenario = if is_new { row.scenario.as_str() } else { "" };
        let figure = format!("{} {}", row.metric, row.unit);
        let mut line = vec![scenario.to_string(), figure.trim_end().to_string()];
        for (column, is_best) in row.winners().into_iter().enumerate() {
            let of_max = row.of_max.get(column) == Some(&true);
            line.push(cell_text(row, row.cells[column].as_ref(), is_best, of_max));
        }
        line.extend(has_limit.then(|| cell_text(row, row.limit.as_ref(), false, false)));
        lines.push(line);
        last_scenario = &row.scenario;
    }
    align(&lines)
}

fn labels(dataset: &Dataset) -> Vec<String> {
    let names = dataset.schedulers.iter().map(|(name, _)| name);
    names.map(|name| dataset.label(name)).collect()
}

fn cell_text(row: &Row, cell: Option<&Spread>, is_best: bool, of_max: bool) -> String {
    let Some(spread) = cell else {
        return "-".to_string();
    };
    let best = if is_best { "*" } else { " " };
    let mark = if of_max {
        format!("^{best}")
    } else {
        best.to_string()
    };
    let near = if row.is_near_turn(spread.median) {
        "~"
    } else {
        ""
    };
    let median = format!("{near}{}", table::value(spread.median));
    if spread.count == 1 || spread.min == spread.max {
        return format!("{median}{mark}");
    }
    format!(
        "{median}{mark}[{}..{}]",
        table::value(spread.min),
        table::value(spread.max)
    )
}

/// What has no result and why, a line for each.
pub fn failures(dataset: &Dataset) -> Vec<String> {
    let mut lines = Vec::new();
    for sample in &dataset.samples {
        let name = dataset.label(&sample.scheduler);
        let repetition = dataset.repetition();
        let place = match sample.cpus {
            0 => name,
            cpus => format!("{name}, {cpus} CPUs, {repetition} {}", sample.seed),
        };
        lines.extend(sample.result.failures.iter().map(|failure| {
            let scenario = failure.scenario.as_deref().unwrap_or("all");
            format!("{place}, {scenario}: {}", failure.message)
        }));
    }
    lines
}

/// One scenario under each scheduler in a small table: how long wakeups took,
/// and which part of the CPU time went to which group of tasks.
pub fn brief(dataset: &Dataset) -> String {
    let mut lines = vec![vec![String::new()]];
    lines[0].extend(labels(dataset));
    let scenarios = dataset
        .samples
        .iter()
        .flat_map(|s| s.result.scenarios.first());
    let scenarios: Vec<&ScenarioResult> = scenarios.collect();
    let metrics = scenarios.first().map_or(&[][..], |first| &first.metrics);
    for metric in metrics {
        let title = match metric.name.rsplit_once('_') {
            Some(("wake", figure @ ("p50" | "p99" | "max"))) => format!("wake latency {figure}"),
            Some((group, "cpu")) => format!("CPU share of {group}"),
            _ => continue,
        };
        let mut line = vec![title];
        // Microseconds matter in a latency, tenths in a share.
        let decimals = if metric.unit == "ms" { 3 } else { 1 };
        line.extend(
            scenarios
                .iter()
                .map(|found| match found.metric(&metric.name) {
                    Some(found) => format!("{:.decimals$} {}", found.value, found.unit),
                    None => "-".to_string(),
                }),
        );
        lines.push(line);
    }
    align_right(&lines)
}

/// Lines of cells as columns, all to the left.
pub(crate) fn align(lines: &[Vec<String>]) -> String {
    join(lines, "  ", |cell, width, _| format!("{cell:<width$}"))
}

/// The same, all but the first to the right.
pub(crate) fn align_right(lines: &[Vec<String>]) -> String {
    join(lines, "   ", |cell, width, column| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    })
}

fn join(lines: &[Vec<String>], gap: &str, pad: fn(&str, usize, usize) -> String) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, width))| pad(cell, *width, column))
            .collect();
        let _ = writeln!(text, "{}", cells.join(gap).trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::failed;
    use crate::result::Better;
    use crate::testing;

    #[test]
    fn a_failed_seed_is_told_and_leaves_the_cell_empty() {
        let mut dataset = testing::dataset(&[("a", &[1.0, 1.0]), ("b", &[2.0, 2.0])]);
        dataset.samples[3].result = failed("it did not load");
        let text = tables(&dataset);
        let line = "no result: b, 4 CPUs, seed 2, all: it did not load";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("saturation  wake_p99 ms  1.00*  -\n"),
            "{text}"
        );
    }

    #[test]
    fn two_runs_become_two_columns() {
        let sample = |name: &str, figures: &[(&str, f64, &str)]| {
            let metrics = figures
                .iter()
                .map(|&(name, value, unit)| testing::metric(name, value, unit, Better::Lower));
            testing::sample(
                name,
                1,
                vec![testing::scenario("demo", 1, metrics.collect())],
            )
        };
        let mut dataset = testing::dataset(&[("pandemonium", &[]), ("default", &[])]);
        dataset.samples = vec![
            sample(
                "pandemonium",
                &[
                    ("wake_p50", 0.02, "ms"),
                    ("wake_p99", 0.15, "ms"),
                    ("hogs_cpu", 50.04, "%"),
                    ("jobs_cpu", 40.0, "%"),
                    ("switches", 812.0, "1/s"),
                ],
            ),
            sample(
                "default",
                &[
                    ("wake_p50", 2.0, "ms"),
                    ("wake_p99", 13.9, "ms"),
                    ("hogs_cpu", 55.0, "%"),
                ],
            ),
        ];
        let expected = "
                    pandemonium     default
wake latency p50       0.020 ms    2.000 ms
wake latency p99       0.150 ms   13.900 ms
CPU share of hogs        50.0 %      55.0 %
CPU share of jobs        40.0 %           -
";
        assert_eq!(format!("\n{}", brief(&dataset)), expected);
    }
}
