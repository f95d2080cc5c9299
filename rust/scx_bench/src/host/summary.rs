// SPDX-License-Identifier: GPL-2.0
//! Means with their confidence intervals, and what cannot be concluded.
//!
//! Not here: medians side by side (`text`).

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
pub fn text(dataset: &Dataset) -> String {
    let mut text = String::new();
    let numbers: BTreeSet<u32> = dataset.samples.iter().map(|sample| sample.cpus).collect();
    for cpus in numbers.into_iter().filter(|&cpus| cpus > 0) {
        let _ = writeln!(
            text,
            "\n{cpus} CPUs, mean of {} repeats ± half of the 95% confidence interval",
            dataset.seeds
        );
        let mut noisy = 0;
        for (scenario, metric) in dataset.headlines(|sample| sample.cpus == cpus) {
            let cells = cells(dataset, cpus, &scenario, &metric.name);
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

/// Schedulers without a result in every repeat have no cell.
fn cells(dataset: &Dataset, cpus: u32, scenario: &str, metric: &str) -> Vec<Cell> {
    let cell = |(scheduler, _): &(String, String)| {
        let is_meant = |sample: &Sample| sample.cpus == cpus && sample.scheduler == *scheduler;
        let values = dataset.values(scenario, metric, is_meant);
        let interval = Interval::of(&values).filter(|_| values.len() as u64 == dataset.seeds)?;
        Some(Cell {
            scheduler: dataset.label(scheduler),
            interval,
        })
    };
    dataset.schedulers.iter().filter_map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::testing;

    fn sample(scheduler: &str, repeat: u64, value: f64) -> Sample {
        let figure = testing::metric("wake_p99", value, "ms", Better::Lower);
        let scenario = testing::scenario("saturation", repeat, vec![figure]);
        testing::sample(scheduler, repeat, vec![scenario])
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
