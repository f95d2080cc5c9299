// SPDX-License-Identifier: GPL-2.0
//! Figures of several schedulers side by side.
//!
//! A row is one headline figure of a scenario, a column a scheduler, a cell
//! the median over the seeds with the smallest and the largest value seen. The
//! best of a row is marked, and with it all that cannot be told from it ([`rule`]).
//!
//! Not here: how that is shown (`text`, `report`, `score`).

use std::cmp::Ordering;

use serde::Serialize;

use crate::dataset::{Dataset, Sample};
use crate::result::{Better, Metric};
use crate::spec;
use crate::stats::Spread;
use crate::tolerance;

/// Part of the better one, or of their goal, that two figures may differ by and be as
/// good as each other.
const TIE: f64 = 0.10;

/// When two figures are as good as each other, as a sentence. `repetition` is what
/// tells the samples of a figure apart.
pub fn rule(repetition: &str) -> String {
    format!(
        "Two figures are as good as each other if they differ by no more than {:.0}% of the better \
         one, or of their goal if they have one, or by no more than {}; or if the ranges of \
         their {repetition}s overlap.",
        TIE * 100.0,
        tolerance::floors()
    )
}

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
    /// What the measured threads find in SCHED_FIFO, where that was measured. It
    /// competes with no cell.
    pub limit: Option<Spread>,
    /// Was it measured in a guest, where an emulated CPU holds up the others?
    pub in_guest: bool,
    /// Columns in which the figure is a percentile and some seed has too few samples
    /// for it: the largest sample stands for it there.
    pub of_max: Vec<bool>,
}

/// Outcome of many duels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Rows in which the first is better.
    pub wins: usize,
    /// Rows in which neither is.
    pub ties: usize,
    /// Rows in which the second is.
    pub losses: usize,
}

impl Row {
    /// How bad the figure in `column` is; `None` without a result.
    pub fn badness(&self, column: usize) -> Option<f64> {
        badness(self.better, self.cells.get(column)?.as_ref()?.median)
    }

    /// The column with the best figure, and how bad that is.
    pub fn best(&self) -> Option<(usize, f64)> {
        let all = (0..self.cells.len()).filter_map(|column| Some((column, self.badness(column)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Is cell `a` better than cell `b` (less), as good or worse? See [`rule`].
    fn duel(&self, a: usize, b: usize) -> Option<Ordering> {
        let (own, other) = (self.badness(a)?, self.badness(b)?);
        let is_tie = (own - other).abs() <= self.margin(own.min(other)) || self.overlap(a, b);
        let outcome = if is_tie {
            Ordering::Equal
        } else {
            own.total_cmp(&other)
        };
        (a != b).then_some(outcome)
    }

    /// Is cell `a` better than cell `b`?
    pub fn is_better(&self, a: usize, b: usize) -> bool {
        self.duel(a, b) == Some(Ordering::Less)
    }

    /// Is there a value that lies in the ranges of both cells?
    fn overlap(&self, a: usize, b: usize) -> bool {
        let cell = |column: usize| self.cells.get(column).copied().flatten();
        let both = cell(a).zip(cell(b));
        both.is_some_and(|(a, b)| a.min <= b.max && b.min <= a.max)
    }

    /// Which cells are the best, or as good as it.
    pub fn winners(&self) -> Vec<bool> {
        let best = self.best().map(|(column, _)| column);
        let is_good = |column: usize| {
            best.is_some_and(|best| {
                column == best || self.duel(column, best) == Some(Ordering::Equal)
            })
        };
        (0..self.cells.len()).map(is_good).collect()
    }

    /// How much worse than the best is as good. Nearness is judged against the goal
    /// itself: 9.2 and 9.4 are equally near 9.3.
    fn margin(&self, best: f64) -> f64 {
        let part = match self.better {
            Better::Near(goal) => return TIE * goal.abs(),
            _ => TIE * best.abs(),
        };
        // On real hardware no CPU waits for another one's turn.
        match self.unit.as_str() {
            "ms" if !self.in_guest => part,
            unit => part.max(tolerance::floor(&self.metric, unit)),
        }
    }

    /// Is this value, one of this row, near the emulator's turn?
    pub fn is_near_turn(&self, value: f64) -> bool {
        self.in_guest && tolerance::is_near_turn(value, &self.unit)
    }
}

/// How far a value is from good: the smaller, the better. `None` for a figure that
/// is neither good nor bad.
pub fn badness(better: Better, value: f64) -> Option<f64> {
    match better {
        Better::Lower => Some(value),
        Better::Higher => Some(-value),
        Better::Near(goal) => Some((value - goal).abs()),
        Better::Neither => None,
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

/// The rows of one topology, in the order of the scenarios. A percentile that no
/// sample here supports goes by the name of what stands for it, the largest.
pub fn rows(dataset: &Dataset, topology: &str) -> Vec<Row> {
    let is_here = |sample: &Sample| sample.topology == topology;
    let row = |(scenario, metric): (String, Metric)| {
        let of = |scheduler: &str| {
            let is_meant = |sample: &&Sample| is_here(sample) && sample.scheduler == scheduler;
            dataset.samples.iter().filter(is_meant).collect::<Vec<_>>()
        };
        let cell = |scheduler: &str| {
            let values = of(scheduler)
                .into_iter()
                .map(|sample| sample.value(&scenario, &metric.name));
            // Fewer than all seeds is no median of them.
            Spread::of(&values.collect::<Option<Vec<f64>>>()?)
        };
        let is_of_max = |sample: &Sample| sample.is_of_max(&scenario, &metric.name);
        let names = || dataset.schedulers.iter().map(|(name, _)| name.as_str());
        let has_it = |sample: &&Sample| sample.value(&scenario, &metric.name).is_some();
        let mut all = dataset
            .samples
            .iter()
            .filter(|one| is_here(one))
            .filter(has_it);
        let is_max = all.all(is_of_max);
        let kind = metric.name.rsplit_once('_').map_or("", |(kind, _)| kind);
        Row {
            cells: names().map(cell).collect(),
            limit: cell(spec::LIMIT),
            of_max: names()
                .map(|name| !is_max && of(name).into_iter().any(is_of_max))
                .collect(),
            metric: match is_max {
                true => format!("{kind}_max"),
                false => metric.name.clone(),
            },
            unit: metric.unit.clone(),
            better: metric.better,
            in_guest: !dataset.qemu.is_empty(),
            scenario,
        }
    };
    dataset.headlines(is_here).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ..testing::dataset(&[("a", &[]), ("b", &[])])
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

    fn winners(a: [f64; 3], b: [f64; 3]) -> Vec<bool> {
        rows(&both(a, b, Better::Lower), "1x1x4x1")[0].winners()
    }

    #[test]
    fn nothing_is_worse_while_ranges_overlap() {
        assert_eq!(winners([1.0, 1.1, 3.0], [2.9, 3.0, 3.5]), [true, true]);
        assert_eq!(winners([1.0, 1.1, 2.8], [2.9, 3.0, 3.5]), [true, false]);
    }

    #[test]
    fn what_is_next_to_nothing_is_as_good_in_a_guest_only() {
        let mut dataset = both([0.04; 3], [0.12; 3], Better::Lower);
        let winners = |dataset: &Dataset| rows(dataset, "1x1x4x1")[0].winners();
        assert_eq!(winners(&dataset), [true, true]);
        dataset.qemu.clear();
        assert_eq!(winners(&dataset), [true, false]);
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_their_largest_and_marked() {
        let mut dataset = both([1.0; 3], [2.0; 3], Better::Lower);
        let few = |sample: &mut Sample| {
            let mut latency = testing::latency("wake", 10_000);
            latency.summary.count = 299;
            sample.result.scenarios[0].latencies = vec![latency];
        };
        few(&mut dataset.samples[1]);
        let row = rows(&dataset, "1x1x4x1").remove(0);
        assert_eq!(
            (row.metric.as_str(), row.of_max),
            ("wake_p99", vec![true, false])
        );
        assert_eq!(row.cells[0].map(|cell| cell.max), Some(10.0));
        dataset.samples.iter_mut().for_each(few);
        let row = rows(&dataset, "1x1x4x1").remove(0);
        assert_eq!(
            (row.metric.as_str(), row.of_max),
            ("wake_max", vec![false, false])
        );
    }

    #[test]
    fn the_limit_stands_beside_the_schedulers_and_beats_none() {
        let mut dataset = both([1.0; 3], [2.0; 3], Better::Lower);
        let seeds = (1..=3u64).map(|seed| sample(spec::LIMIT, seed, 0.1, Better::Lower));
        dataset.samples.extend(seeds);
        let rows = rows(&dataset, "1x1x4x1");
        assert_eq!(rows[0].cells.len(), 2);
        assert_eq!(rows[0].winners(), [true, false]);
        assert_eq!(rows[0].limit.map(|limit| limit.median), Some(0.1));
    }

    #[test]
    fn the_matrix_counts_duels_both_ways() {
        let dataset = both([1.0; 3], [2.0; 3], Better::Lower);
        let rows = rows(&dataset, "1x1x4x1");
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
    fn a_missing_seed_leaves_the_cell_empty() {
        let mut dataset = both([1.0; 3], [2.0; 3], Better::Lower);
        dataset.samples[4].result.scenarios.clear();
        assert_eq!(rows(&dataset, "1x1x4x1")[0].cells[1], None);
    }
}
