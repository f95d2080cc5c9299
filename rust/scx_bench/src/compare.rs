// SPDX-License-Identifier: GPL-2.0
//! Figures of several schedulers side by side.
//!
//! A row is one headline figure of a scenario, a column a scheduler, a cell
//! the median over the seeds with the smallest and the largest value seen. The
//! best of a row is marked, and with it all that cannot be told from it: those
//! within 10%.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::dataset::{Dataset, Sample};
use crate::result::{Better, Metric, ScenarioResult};
use crate::stats::Spread;
use crate::table;

/// Figures no further apart than this count as equal.
pub const TIE: f64 = 0.10;

/// A row of a table: one figure under every scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is good.
    pub better: Better,
    /// One for each scheduler, in the order of the columns; `None` without a
    /// result.
    pub cells: Vec<Option<Spread>>,
}

/// Outcome of many duels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Rows in which the first is better by more than 10%.
    pub wins: usize,
    /// Rows in which neither is.
    pub ties: usize,
    /// Rows in which the second is.
    pub losses: usize,
}

impl Row {
    /// How far a value is from good: the smaller, the better. `None` for a
    /// figure that is neither good nor bad.
    pub fn badness(&self, value: f64) -> Option<f64> {
        match self.better {
            Better::Lower => Some(value),
            Better::Higher => Some(-value),
            Better::Near(goal) => Some((value - goal).abs()),
            Better::Neither => None,
        }
    }

    /// How bad each cell is; `None` without a result.
    fn all_badness(&self) -> Vec<Option<f64>> {
        let badness =
            |cell: &Option<Spread>| cell.as_ref().and_then(|spread| self.badness(spread.median));
        self.cells.iter().map(badness).collect()
    }

    /// Is cell `a` better than cell `b` (less), as good or worse?
    fn duel(&self, a: usize, b: usize) -> Option<Ordering> {
        let pair = Row {
            cells: vec![*self.cells.get(a)?, *self.cells.get(b)?],
            ..self.clone()
        };
        if a == b || pair.all_badness().contains(&None) {
            return None;
        }
        match pair.winners()[..] {
            [true, false] => Some(Ordering::Less),
            [false, true] => Some(Ordering::Greater),
            _ => Some(Ordering::Equal),
        }
    }

    /// Which cells are the best, or as good as it.
    pub fn winners(&self) -> Vec<bool> {
        let badness = self.all_badness();
        let Some(best) = badness.iter().flatten().copied().min_by(f64::total_cmp) else {
            return vec![false; self.cells.len()];
        };
        // Nearness is judged against the goal itself: 9.2 and 9.4 are equally near 9.3.
        let margin = match self.better {
            Better::Near(goal) => TIE * goal.abs(),
            _ => TIE * best.abs(),
        };
        badness
            .iter()
            .map(|value| value.is_some_and(|value| value <= best + margin))
            .collect()
    }
}

/// The tables of all topologies, failures after each, as text.
pub fn tables(results: &Dataset) -> String {
    let mut text = String::new();
    for (topology, cpus) in results.machines() {
        let shape = match topology {
            "" => String::new(),
            _ => format!(" ({topology})"),
        };
        let _ = writeln!(
            text,
            "\n{cpus} CPUs{shape}, Linux {}, median of {} {}s [min..max], * = best or \
             within 10% of it",
            results.kernel,
            results.seeds,
            results.repetition()
        );
        let rows = rows(results, topology);
        text.push_str(&table(results, &rows));
        text.push_str(&matrix_text(results, &rows));
    }
    for (index, line) in failures(results).iter().enumerate() {
        let before = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{before}no result: {line}");
    }
    text
}

/// What callbacks cost, where that was measured: for each topology and
/// scheduler the calls and the mean length over all scenarios and seeds, and
/// what all of them together cost for each context switch.
pub fn costs(results: &Dataset) -> String {
    let mut sums: BTreeMap<(u32, usize), Cost> = BTreeMap::new();
    for sample in &results.samples {
        let is_column = |(name, _): &(String, String)| *name == sample.scheduler;
        let Some(column) = results.schedulers.iter().position(is_column) else {
            continue;
        };
        for scenario in sample
            .result
            .scenarios
            .iter()
            .filter(|one| !one.callbacks.is_empty())
        {
            sums.entry((sample.cpus, column)).or_default().add(scenario);
        }
    }
    let mut text = String::new();
    for ((cpus, column), cost) in sums {
        let name = &results.schedulers[column].0;
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

/// How often the scheduler of a line beats that of a column, does as well, and
/// loses, over all rows in which both have a figure.
pub fn matrix(rows: &[Row], nr_schedulers: usize) -> Vec<Vec<Score>> {
    let mut scores = vec![vec![Score::default(); nr_schedulers]; nr_schedulers];
    for row in rows {
        for (line, scores) in scores.iter_mut().enumerate() {
            for (column, score) in scores.iter_mut().enumerate() {
                match row.duel(line, column) {
                    Some(Ordering::Less) => score.wins += 1,
                    Some(Ordering::Equal) => score.ties += 1,
                    Some(Ordering::Greater) => score.losses += 1,
                    None => {}
                }
            }
        }
    }
    scores
}

/// The rows of one topology, in the order of the scenarios.
pub fn rows(results: &Dataset, topology: &str) -> Vec<Row> {
    let samples: Vec<&Sample> = results
        .samples
        .iter()
        .filter(|sample| sample.topology == topology)
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    for (scenario, metric) in headlines(&samples) {
        let cells = results
            .schedulers
            .iter()
            .map(|(scheduler, _)| {
                let values = values(&samples, scheduler, &scenario, &metric.name);
                // Fewer than all seeds is no median of them.
                let is_whole = values.len() == results.nr_samples(scheduler, topology);
                if is_whole { Spread::of(&values) } else { None }
            })
            .collect();
        rows.push(Row {
            scenario,
            metric: metric.name.clone(),
            unit: metric.unit.clone(),
            better: metric.better,
            cells,
        });
    }
    rows
}

/// The matrix as text; nothing if there is nobody to compare with.
fn matrix_text(results: &Dataset, rows: &[Row]) -> String {
    let names: Vec<String> = results
        .schedulers
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    if names.len() < 2 {
        return String::new();
    }
    let mut lines = vec![[vec!["wins-ties-losses against".to_string()], names.clone()].concat()];
    for (name, scores) in names.iter().zip(matrix(rows, names.len())) {
        let mut line = vec![name.clone()];
        for (score, other) in scores.iter().zip(&names) {
            let text = format!("{}-{}-{}", score.wins, score.ties, score.losses);
            line.push(if name == other { String::new() } else { text });
        }
        lines.push(line);
    }
    format!("\n{}", align(&lines))
}

fn table(results: &Dataset, rows: &[Row]) -> String {
    let mut lines: Vec<Vec<String>> = vec![vec!["scenario".into(), "figure".into()]];
    lines[0].extend(results.schedulers.iter().map(|(name, _)| name.clone()));
    let mut last_scenario = String::new();
    for row in rows {
        let unit = if row.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", row.unit)
        };
        let scenario = if row.scenario == last_scenario {
            ""
        } else {
            row.scenario.as_str()
        };
        let mut line = vec![scenario.to_string(), format!("{}{unit}", row.metric)];
        for (cell, is_best) in row.cells.iter().zip(row.winners()) {
            line.push(cell_text(cell.as_ref(), is_best));
        }
        last_scenario.clone_from(&row.scenario);
        lines.push(line);
    }
    align(&lines)
}

fn cell_text(cell: Option<&Spread>, is_best: bool) -> String {
    let Some(spread) = cell else {
        return "-".to_string();
    };
    let mark = if is_best { "*" } else { " " };
    let median = table::value(spread.median);
    if spread.count == 1 || spread.min == spread.max {
        return format!("{median}{mark}");
    }
    format!(
        "{median}{mark}[{}..{}]",
        table::value(spread.min),
        table::value(spread.max)
    )
}

/// The headline figures that any of `samples` has, in the order of scenarios.
fn headlines(samples: &[&Sample]) -> Vec<(String, Metric)> {
    let mut found: Vec<(String, Metric)> = Vec::new();
    for scenario in crate::scenario::SCENARIOS
        .iter()
        .chain(crate::scenario::EXTRA_SCENARIOS)
    {
        let results = samples.iter().flat_map(|sample| &sample.result.scenarios);
        for result in results.filter(|result| result.scenario == scenario.id) {
            for metric in result.metrics.iter().filter(|metric| metric.headline) {
                let is_known = found
                    .iter()
                    .any(|(id, other)| id == scenario.id && other.name == metric.name);
                if !is_known {
                    found.push((scenario.id.to_string(), metric.clone()));
                }
            }
        }
    }
    found
}

fn values(samples: &[&Sample], scheduler: &str, scenario: &str, metric: &str) -> Vec<f64> {
    samples
        .iter()
        .filter(|sample| sample.scheduler == scheduler)
        .flat_map(|sample| &sample.result.scenarios)
        .filter(|result| result.scenario == scenario)
        .filter_map(|result| result.metric(metric))
        .map(|metric| metric.value)
        .collect()
}

/// What has no result and why, a line for each.
pub fn failures(results: &Dataset) -> Vec<String> {
    let mut lines = Vec::new();
    for sample in &results.samples {
        for failure in &sample.result.failures {
            let scenario = failure.scenario.as_deref().unwrap_or("all");
            let place = match sample.cpus {
                0 => sample.scheduler.clone(),
                cpus => format!(
                    "{}, {cpus} CPUs, {} {}",
                    sample.scheduler,
                    results.repetition(),
                    sample.seed
                ),
            };
            lines.push(format!("{place}, {scenario}: {}", failure.message));
        }
    }
    lines
}

/// Lines of cells as columns.
pub(crate) fn align(lines: &[Vec<String>]) -> String {
    let nr_columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(String::len)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..nr_columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Failure;
    use crate::testing;

    fn sample(scheduler: &str, seed: u64, value: f64, better: Better) -> Sample {
        let figure = testing::metric("wake_p99", value, "ms", better);
        testing::sample(
            scheduler,
            seed,
            vec![testing::scenario("saturation", seed, vec![figure])],
        )
    }

    fn results(samples: Vec<Sample>) -> Dataset {
        Dataset {
            samples,
            ..testing::results(&[("a", &[]), ("b", &[])])
        }
    }

    fn both(a: [f64; 3], b: [f64; 3], better: Better) -> Dataset {
        let of = |name: &'static str, values: [f64; 3]| {
            (1..=3u64)
                .zip(values)
                .map(move |(seed, value)| sample(name, seed, value, better))
        };
        results(of("a", a).chain(of("b", b)).collect())
    }

    #[test]
    fn a_cell_is_the_median_over_the_seeds() {
        let rows = rows(
            &both([1.0, 9.0, 2.0], [4.0, 3.0, 5.0], Better::Lower),
            "1x1x4x1",
        );
        assert_eq!(rows.len(), 1);
        let medians: Vec<f64> = rows[0]
            .cells
            .iter()
            .flatten()
            .map(|cell| cell.median)
            .collect();
        assert_eq!(medians, [2.0, 4.0]);
        assert_eq!(rows[0].winners(), [true, false]);
    }

    #[test]
    fn the_best_depends_on_which_way_is_good() {
        for (better, expected) in [
            (Better::Higher, [false, true]),
            (Better::Near(3.9), [false, true]),
            (Better::Near(2.05), [true, false]),
            (Better::Neither, [false, false]),
        ] {
            let rows = rows(&both([2.0; 3], [4.0; 3], better), "1x1x4x1");
            assert_eq!(rows[0].winners(), expected, "{better:?}");
        }
    }

    #[test]
    fn what_is_within_a_tenth_of_the_best_is_as_good() {
        let rows = rows(&both([1.0; 3], [1.09; 3], Better::Lower), "1x1x4x1");
        assert_eq!(rows[0].winners(), [true, true]);
    }

    #[test]
    fn the_matrix_counts_duels_both_ways() {
        let results = both([1.0; 3], [2.0; 3], Better::Lower);
        let rows = rows(&results, "1x1x4x1");
        let scores = matrix(&rows, 2);
        assert_eq!(
            scores[0][1],
            Score {
                wins: 1,
                ties: 0,
                losses: 0
            }
        );
        assert_eq!(
            scores[1][0],
            Score {
                wins: 0,
                ties: 0,
                losses: 1
            }
        );
        assert_eq!(scores[0][0], Score::default());
    }

    #[test]
    fn a_missing_seed_leaves_the_cell_empty_and_is_told() {
        let mut results = both([1.0; 3], [2.0; 3], Better::Lower);
        results.samples[4].result.scenarios.clear();
        let message = "it did not load".to_string();
        results.samples[4].result.failures.push(Failure {
            scenario: None,
            message,
        });
        assert_eq!(rows(&results, "1x1x4x1")[0].cells[1], None);
        let text = tables(&results);
        assert!(
            text.contains("no result: b, 4 CPUs, seed 2, all: it did not load"),
            "{text}"
        );
    }
}
