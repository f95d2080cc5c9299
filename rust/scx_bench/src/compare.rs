// SPDX-License-Identifier: GPL-2.0
//! Figures of several schedulers side by side.
//!
//! A row is one headline figure of a scenario, a column a scheduler, a cell
//! the median over the seeds with the smallest and the largest value seen. The
//! best of a row is marked, and with it all that cannot be told from it: those
//! within 10%.
//!
//! Not here: how that is shown (`text`, `report`, `score`).

use std::cmp::Ordering;

use serde::Serialize;

use crate::dataset::{Dataset, Sample};
use crate::result::Better;
use crate::spec;
use crate::stats::Spread;

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
    /// What the measured threads find in SCHED_FIFO, where that was measured. It
    /// competes with no cell.
    pub limit: Option<Spread>,
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
    /// How bad the figure in `column` is; `None` without a result.
    pub fn badness(&self, column: usize) -> Option<f64> {
        badness(self.better, self.cells.get(column)?.as_ref()?.median)
    }

    /// The column with the best figure, and how bad that is.
    pub fn best(&self) -> Option<(usize, f64)> {
        let all = (0..self.cells.len()).filter_map(|column| Some((column, self.badness(column)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Is cell `a` better than cell `b` (less), as good or worse?
    fn duel(&self, a: usize, b: usize) -> Option<Ordering> {
        let (own, other) = (self.badness(a)?, self.badness(b)?);
        let best = own.min(other);
        let is_tie = own.max(other) <= best + self.margin(best);
        let outcome = if is_tie {
            Ordering::Equal
        } else {
            own.total_cmp(&other)
        };
        (a != b).then_some(outcome)
    }

    /// Which cells are the best, or as good as it.
    pub fn winners(&self) -> Vec<bool> {
        let limit = self.best().map(|(_, best)| best + self.margin(best));
        let is_good = |own: f64| limit.is_some_and(|limit| own <= limit);
        let columns = 0..self.cells.len();
        columns
            .map(|column| self.badness(column).is_some_and(is_good))
            .collect()
    }

    /// How much worse than the best is as good. Nearness is judged against the goal
    /// itself: 9.2 and 9.4 are equally near 9.3.
    fn margin(&self, best: f64) -> f64 {
        match self.better {
            Better::Near(goal) => TIE * goal.abs(),
            _ => TIE * best.abs(),
        }
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

/// The rows of one topology, in the order of the scenarios.
pub fn rows(dataset: &Dataset, topology: &str) -> Vec<Row> {
    let is_here = |sample: &Sample| sample.topology == topology;
    let row = |(scenario, metric): (String, crate::result::Metric)| {
        let cell = |scheduler: &str| {
            let is_meant = |sample: &Sample| is_here(sample) && sample.scheduler == scheduler;
            let values = dataset.values(&scenario, &metric.name, is_meant);
            // Fewer than all seeds is no median of them.
            let is_whole = values.len() == dataset.nr_samples(scheduler, topology);
            if is_whole { Spread::of(&values) } else { None }
        };
        let names = dataset.schedulers.iter().map(|(name, _)| name.as_str());
        Row {
            cells: names.map(cell).collect(),
            limit: cell(spec::LIMIT),
            scenario,
            metric: metric.name.clone(),
            unit: metric.unit.clone(),
            better: metric.better,
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
