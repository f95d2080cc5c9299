// SPDX-License-Identifier: GPL-2.0
//! What the page shows, computed once: figures, curves, duels and losses.
//!
//! Not here: how it looks (`page`, `tables`, `chart`).

use serde::Serialize;

use crate::compare::{self, Row, Score};
use crate::dataset::{Dataset, Sample};
use crate::result::{Better, has_percentile};
use crate::scenario::{EXTRA_SCENARIOS, SCENARIOS};
use crate::stats::{Spread, Summary, median};
use crate::store::thin;
use crate::text;

/// Colours that `style.css` has, besides that of the subject.
const NR_COLOURS: usize = 12;

/// Everything on the page.
#[derive(Debug, Serialize)]
pub struct Model {
    /// Release of the kernel.
    pub kernel: String,
    /// Version of QEMU; empty on real hardware.
    pub qemu: String,
    /// What tells the samples of one figure apart.
    pub repetition: &'static str,
    /// What to type to get the same again, a command a line.
    pub commands: Vec<String>,
    /// The schedulers, in the order of their colours.
    pub schedulers: Vec<Scheduler>,
    /// Index of the one whose losses are listed.
    pub subject: Option<usize>,
    /// Results by machine, fewest CPUs first.
    pub machines: Vec<Machine>,
    /// Index of the one that the front page is of ([`Dataset::main_machine`]).
    pub main_machine: Option<usize>,
    /// What has no result and why, a line for each.
    pub failures: Vec<String>,
}

/// A scheduler.
#[derive(Debug, Serialize)]
pub struct Scheduler {
    /// Name.
    pub name: String,
    /// Version or command line.
    pub version: String,
}

/// All that was measured on one machine.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// CPUs in all.
    pub cpus: u32,
    /// NODESxLLCSxCORESxTHREADS; empty where it is not known.
    pub topology: String,
    /// Indices of the schedulers that ran here: the columns of all below.
    pub columns: Vec<usize>,
    /// Seeds under each.
    pub seeds: Vec<usize>,
    /// Headline figures.
    pub rows: Vec<Row>,
    /// How often the first index beats the second.
    pub scores: Vec<Vec<Score>>,
    /// Rows in which the subject is not among the best, worst first.
    pub losses: Vec<Loss>,
    /// Scenarios, in their order.
    pub scenarios: Vec<Scenario>,
}

/// A figure in which the subject is not among the best.
#[derive(Debug, Serialize)]
pub struct Loss {
    /// Index of the row.
    pub row: usize,
    /// Column of the best.
    pub winner: usize,
    /// How many times as much as the best, or as little; `None` where that says
    /// nothing.
    pub factor: Option<f64>,
}

/// One scenario on one machine.
#[derive(Debug, Serialize)]
pub struct Scenario {
    /// Id.
    pub id: String,
    /// What runs and what is measured.
    pub about: &'static str,
    /// Indices of its rows.
    pub rows: Vec<usize>,
    /// Its latencies, those that a headline is about.
    pub latencies: Vec<Latency>,
}

/// One kind of latency under every scheduler.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Name within the scenario.
    pub name: String,
    /// The highest percentile that every run of every scheduler supports.
    pub tail: Tail,
    /// One for each column; `None` without a result.
    pub curves: Vec<Option<Curve>>,
}

/// Up to where latencies are shown as bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tail {
    /// 99% of the samples.
    P99,
    /// 90% of the samples.
    P90,
    /// All of them.
    Max,
}

impl Tail {
    /// That of runs of which the shortest has `count` samples.
    fn of(count: u64) -> Self {
        match count {
            count if has_percentile(count, 99) => Self::P99,
            count if has_percentile(count, 90) => Self::P90,
            _ => Self::Max,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::P99 => "p99",
            Self::P90 => "p90",
            Self::Max => "max",
        }
    }

    /// Its value in nanoseconds.
    pub fn of_curve(self, curve: &Curve) -> u64 {
        let [_, p90_ns, p99_ns, max_ns] = curve.percentiles_ns;
        match self {
            Self::P99 => p99_ns,
            Self::P90 => p90_ns,
            Self::Max => max_ns,
        }
    }
}

/// The latencies under one scheduler, all seeds together.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// Medians over the seeds of p50, p90, p99 and max, in nanoseconds; 0 for a
    /// percentile that the samples of some seed are too few for.
    pub percentiles_ns: [u64; 4],
    /// Samples of the seed that has fewest.
    pub count: u64,
    /// (latency in nanoseconds, fraction of samples not above it).
    pub points: Vec<(u64, f64)>,
}

impl Model {
    /// The page about `results`, with the losses of its subject.
    pub fn of(dataset: &Dataset) -> Self {
        let is_subject = |(name, _): &(String, String)| Some(name) == dataset.subject.as_ref();
        let subject = dataset.schedulers.iter().position(is_subject);
        let scheduler = |(name, version): &(String, String)| Scheduler {
            name: dataset.label(name),
            version: version.clone(),
        };
        let machines = dataset.machines();
        let main = dataset.main_machine();
        Self {
            kernel: dataset.kernel.clone(),
            qemu: dataset.qemu.clone(),
            repetition: dataset.repetition(),
            commands: dataset.command.lines().map(str::to_string).collect(),
            schedulers: dataset.schedulers.iter().map(scheduler).collect(),
            subject,
            main_machine: machines.iter().position(|machine| Some(*machine) == main),
            machines: machines
                .into_iter()
                .map(|(topology, cpus)| Machine::of(dataset, topology, cpus, subject))
                .collect(),
            failures: text::failures(dataset),
        }
    }
}

impl Machine {
    fn of(dataset: &Dataset, topology: &str, cpus: u32, subject: Option<usize>) -> Self {
        let names: Vec<&str> = dataset.schedulers.iter().map(|(n, _)| n.as_str()).collect();
        let nr_samples = |index: &usize| dataset.nr_samples(names[*index], topology);
        let columns: Vec<usize> = (0..names.len())
            .filter(|index| nr_samples(index) > 0)
            .collect();
        let mut rows = compare::rows(dataset, topology);
        for row in &mut rows {
            row.cells = columns.iter().map(|&index| row.cells[index]).collect();
            row.of_max = columns.iter().map(|&index| row.of_max[index]).collect();
            row.cells.iter_mut().flatten().for_each(round);
            row.limit.iter_mut().for_each(round);
        }
        let names: Vec<&str> = columns.iter().map(|&index| names[index]).collect();
        let is_here = |sample: &&Sample| sample.topology == topology && sample.cpus == cpus;
        let samples: Vec<&Sample> = dataset.samples.iter().filter(is_here).collect();
        let subject = columns.iter().position(|&index| Some(index) == subject);
        Self {
            cpus,
            topology: topology.to_string(),
            seeds: columns.iter().map(nr_samples).collect(),
            scores: compare::matrix(&rows, columns.len()),
            losses: subject.map_or_else(Vec::new, |subject| losses(&rows, subject)),
            scenarios: scenarios(&rows, &samples, &names),
            columns,
            rows,
        }
    }

    /// Rows in which `column` has a figure that is good or bad.
    pub fn nr_judged(&self, column: usize) -> usize {
        let judged = |row: &&Row| row.better != Better::Neither && row.cells[column].is_some();
        self.rows.iter().filter(judged).count()
    }
}

/// A machine, with what is needed to name its columns.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The page.
    pub model: &'a Model,
    /// One machine of it.
    pub machine: &'a Machine,
}

impl View<'_> {
    /// Name of the scheduler in this column.
    pub fn name(&self, column: usize) -> &str {
        &self.model.schedulers[self.machine.columns[column]].name
    }

    /// Class of the colour of that scheduler, which is the same on all machines.
    pub fn colour(&self, column: usize) -> String {
        let index = self.machine.columns[column];
        match self.model.subject {
            Some(subject) if subject == index => "c-subject".to_string(),
            // The others are counted without it.
            Some(subject) if subject < index => format!("c{}", (index - 1) % NR_COLOURS),
            _ => format!("c{}", index % NR_COLOURS),
        }
    }

    /// Is it the one whose losses are listed?
    pub fn is_subject(&self, column: usize) -> bool {
        self.model.subject == Some(self.machine.columns[column])
    }

    /// The column of that one.
    pub fn subject(&self) -> Option<usize> {
        (0..self.machine.columns.len()).find(|&column| self.is_subject(column))
    }
}

/// Leave out digits that say nothing.
fn round(cell: &mut Spread) {
    for value in [&mut cell.median, &mut cell.min, &mut cell.max] {
        *value = thin::round(*value, 5);
    }
}

fn losses(rows: &[Row], subject: usize) -> Vec<Loss> {
    let mut losses: Vec<Loss> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(own) = row.cells[subject] else {
            continue;
        };
        if row.better == Better::Neither || row.winners()[subject] {
            continue;
        }
        let Some((winner, _)) = row.best() else {
            continue;
        };
        let Some(other) = row.cells[winner] else {
            continue;
        };
        losses.push(Loss {
            row: index,
            winner,
            factor: factor(row.better, own.median, other.median),
        });
    }
    let size = |loss: &Loss| loss.factor.unwrap_or(f64::INFINITY);
    losses.sort_by(|a, b| size(b).total_cmp(&size(a)));
    losses
}

/// How many times as bad `own` is as `best`.
fn factor(better: Better, own: f64, best: f64) -> Option<f64> {
    let factor = match better {
        Better::Lower => own / best,
        Better::Higher => best / own,
        Better::Near(_) | Better::Neither => return None,
    };
    (factor.is_finite() && factor > 0.0).then(|| thin::round(factor, 3))
}

fn scenarios(rows: &[Row], samples: &[&Sample], names: &[&str]) -> Vec<Scenario> {
    let all = SCENARIOS.iter().chain(EXTRA_SCENARIOS);
    all.filter_map(|scenario| {
        let of_scenario = |(_, row): &(usize, &Row)| row.scenario == scenario.id;
        let rows: Vec<(usize, &Row)> = rows.iter().enumerate().filter(of_scenario).collect();
        if rows.is_empty() {
            return None;
        }
        Some(Scenario {
            id: scenario.id.to_string(),
            about: scenario.about,
            latencies: latencies(scenario.id, &rows, samples, names),
            rows: rows.into_iter().map(|(index, _)| index).collect(),
        })
    })
    .collect()
}

/// The latencies of scenario `id` that any of `rows` is about.
fn latencies(
    id: &str,
    rows: &[(usize, &Row)],
    samples: &[&Sample],
    names: &[&str],
) -> Vec<Latency> {
    let mut kinds: Vec<&str> = Vec::new();
    let scenarios = samples.iter().flat_map(|sample| &sample.result.scenarios);
    for latency in scenarios
        .filter(|scenario| scenario.scenario == id)
        .flat_map(|scenario| &scenario.latencies)
    {
        let is_headline = rows.iter().any(|(_, row)| is_about(row, &latency.name));
        if is_headline && !kinds.contains(&latency.name.as_str()) {
            kinds.push(&latency.name);
        }
    }
    let curve = |name: &str, kind: &str| {
        let summaries: Vec<&Summary> = samples
            .iter()
            .filter(|sample| sample.scheduler == name)
            .flat_map(|sample| &sample.result.scenarios)
            .filter(|scenario| scenario.scenario == id)
            .filter_map(|scenario| scenario.latency(kind))
            .filter(|summary| summary.count > 0)
            .collect();
        Curve::of(&summaries)
    };
    let latency = |kind: &str| {
        let curves: Vec<Option<Curve>> = names.iter().map(|name| curve(name, kind)).collect();
        let counts = curves.iter().flatten().map(|curve| curve.count);
        Latency {
            name: kind.to_string(),
            tail: Tail::of(counts.min().unwrap_or(0)),
            curves,
        }
    };
    kinds.into_iter().map(latency).collect()
}

/// Is this row a figure of the latency `name`, such as `wake_p99` of `wake`?
pub fn is_about(row: &Row, name: &str) -> bool {
    let rest = row.metric.strip_prefix(name);
    rest.is_some_and(|rest| ["_p50", "_p90", "_p95", "_p99", "_max", "_mean"].contains(&rest))
}

impl Curve {
    /// Join the seeds; `None` when there are none.
    fn of(summaries: &[&Summary]) -> Option<Self> {
        let middle = |get: fn(&Summary) -> u64| {
            let values: Vec<f64> = summaries.iter().map(|s| get(s) as f64).collect();
            Some(thin::round(median(&values)?, 4) as u64)
        };
        let count = summaries.iter().map(|summary| summary.count).min()?;
        let supported = |pct: u64, value_ns: u64| match has_percentile(count, pct) {
            true => value_ns,
            false => 0,
        };
        Some(Self {
            percentiles_ns: [
                middle(|s| s.p50_ns)?,
                supported(90, middle(|s| s.p90_ns)?),
                supported(99, middle(|s| s.p99_ns)?),
                middle(|s| s.max_ns)?,
            ],
            count,
            points: thin::thin_distribution(&pool(summaries)),
        })
    }
}

/// The distribution of all samples together: at each latency the mean of what
/// fraction of each run lies below, by the number of its samples.
fn pool(summaries: &[&Summary]) -> Vec<(u64, f64)> {
    let mut values: Vec<u64> = summaries
        .iter()
        .flat_map(|summary| summary.distribution.iter().map(|point| point.0))
        .collect();
    values.sort_unstable();
    values.dedup();
    let total: u64 = summaries.iter().map(|summary| summary.count).sum();
    let below = |summary: &Summary, value_ns: u64| {
        let points = &summary.distribution;
        let nr_below = points.partition_point(|point| point.0 <= value_ns);
        nr_below.checked_sub(1).map_or(0.0, |last| points[last].1)
    };
    let fraction = |value_ns: u64| {
        let parts = summaries
            .iter()
            .map(|summary| below(summary, value_ns) * summary.count as f64);
        parts.sum::<f64>() / total.max(1) as f64
    };
    values
        .into_iter()
        .map(|value_ns| (value_ns, fraction(value_ns)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn example() -> Dataset {
        testing::dataset(&[
            ("a", &[1.0, 1.1, 1.2]),
            ("b", &[4.0, 3.0, 2.0]),
            ("c", &[1.15]),
        ])
    }

    fn about(subject: &str) -> Model {
        let mut dataset = example();
        dataset.subject = Some(subject.into());
        Model::of(&dataset)
    }

    #[test]
    fn losses_name_the_best_and_the_factor() {
        let model = about("b");
        let machine = &model.machines[0];
        assert_eq!(machine.losses.len(), 1);
        assert_eq!(machine.losses[0].winner, 0);
        assert_eq!(machine.losses[0].factor, Some(2.73));
        assert_eq!(machine.seeds, [3, 3, 1]);
        assert_eq!(machine.nr_judged(1), 1);
    }

    #[test]
    fn who_is_as_good_as_the_best_has_no_losses() {
        let model = about("c");
        assert!(model.machines[0].losses.is_empty());
        assert_eq!(about("d").subject, None);
    }

    #[test]
    fn no_p99_is_shown_of_fewer_than_300_samples() {
        assert_eq!(
            [300, 299, 30, 29].map(Tail::of),
            [Tail::P99, Tail::P90, Tail::P90, Tail::Max]
        );
        let mut dataset = example();
        let shown = |dataset: &Dataset| {
            let mut model = Model::of(dataset);
            model.machines[0].scenarios[0].latencies.remove(0)
        };
        assert_eq!(shown(&dataset).tail, Tail::P99);
        // One seed of one scheduler is enough.
        dataset.samples[4].result.scenarios[0].latencies[0]
            .summary
            .count = 299;
        let latency = shown(&dataset);
        assert_eq!(latency.tail, Tail::P90);
        let p99s = latency.curves.iter().flatten();
        let p99s: Vec<bool> = p99s.map(|curve| curve.percentiles_ns[2] > 0).collect();
        assert_eq!(p99s, [true, false, true]);
    }

    #[test]
    fn pooled_seeds_lie_between_them() {
        let of = |step_ns| testing::latency("wake", step_ns).summary;
        let (fast, slow) = (of(1_000), of(2_000));
        let pooled = pool(&[&fast, &slow]);
        let at = |value_ns: u64| {
            let nth = pooled.partition_point(|point| point.0 <= value_ns);
            pooled[nth - 1].1
        };
        // Of the fast ones all are below 1 ms, of the slow ones half.
        assert!((at(1_000_000) - 0.75).abs() < 0.1, "{}", at(1_000_000));
        assert_eq!(pooled.last().map(|last| last.1), Some(1.0));
        assert!(pooled.windows(2).all(|w| w[0].1 <= w[1].1));
    }

    #[test]
    fn a_scheduler_that_did_not_run_on_a_machine_has_no_column_there() {
        let mut dataset = example();
        dataset.samples.retain(|sample| sample.scheduler != "a");
        let model = Model::of(&dataset);
        assert_eq!(model.machines[0].columns, [1, 2]);
        assert_eq!(model.machines[0].rows[0].cells.len(), 2);
    }

    #[test]
    fn only_latencies_of_headlines_are_shown() {
        let mut dataset = example();
        for sample in &mut dataset.samples {
            let other = testing::latency("burst", 1_000);
            sample.result.scenarios[0].latencies.push(other);
        }
        let model = Model::of(&dataset);
        let latencies = &model.machines[0].scenarios[0].latencies;
        assert_eq!(latencies.len(), 1);
        assert_eq!(latencies[0].name, "wake");
    }
}
