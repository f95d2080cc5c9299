//! What was measured, as tables and pictures of one terminal's width.

use std::iter;

use comfy_table::{CellAlignment, Table, presets};

use crate::probe::Run;
use crate::probe::sample::Waits;
use crate::text::printable;

/// Columns where there is no terminal, and the least and most that are drawn.
const WIDTH_DFL: usize = 80;
const WIDTH_MIN: usize = 40;
const WIDTH_MAX: usize = 120;

/// Columns before the bars, as `  524288 us`, and of a count after its bar.
const LABEL_WIDTH: usize = 12;
const COUNT_WIDTH: usize = 8;

/// Powers of two of a microsecond that are drawn: to 12 days.
const NR_OCTAVES_MAX: usize = 40;

/// Runs beside each other, as text.
pub fn draw<'a>(runs: impl Iterator<Item = &'a Run>) -> String {
    let width = terminal_size::terminal_size().map_or(WIDTH_DFL, |(width, _)| width.0.into());
    draw_within(&runs.collect::<Vec<_>>(), width)
}

fn draw_within(runs: &[&Run], width: usize) -> String {
    let width = width.clamp(WIDTH_MIN, WIDTH_MAX);
    let mut text = String::new();
    for (run, letter) in runs.iter().zip('A'..) {
        let jobs = match run.nr_jobs {
            0 => "no load".to_owned(),
            nr => format!("{nr} jobs beside"),
        };
        text += &format!(
            "{letter}: {}, {} CPUs, {} s, {jobs}, kernel {}\n",
            printable(&run.scheduler),
            run.nr_cpus,
            run.seconds,
            printable(&run.kernel)
        );
    }
    text += &table(runs);
    // Those of the last run: it is the one that this program has made.
    let kinds = runs.last().map_or(&[][..], |run| &run.waits);
    for kind in kinds {
        text += &picture(&kind.name, runs, width);
    }
    text
}

/// The waits of `name` in a run.
fn waits<'a>(run: &'a Run, name: &str) -> Option<&'a Waits> {
    run.waits.iter().find(|waits| waits.name == name)
}

fn table(runs: &[&Run]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "waits, us",
        "",
        "samples",
        "p50",
        "p99",
        "max",
    ]);
    let figure = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.0}"));
    for kind in runs.last().map_or(&[][..], |run| &run.waits) {
        for (run, letter) in runs.iter().zip('A'..) {
            let Some(waits) = waits(run, &kind.name) else {
                continue;
            };
            table.add_row([
                printable(&kind.name),
                letter.to_string(),
                waits.nr_samples.to_string(),
                figure(waits.p50_us),
                figure(waits.p99_us),
                figure(waits.max_us),
            ]);
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// A histogram of the waits of `name`, those of each run in its own column.
fn picture(name: &str, runs: &[&Run], width: usize) -> String {
    let counts: Vec<&[u64]> = runs
        .iter()
        .map(|run| waits(run, name).map_or(&[][..], |waits| &waits.below_us))
        .collect();
    let is_used = |octave: &usize| counts.iter().any(|counts| count(counts, *octave) > 0);
    let Some(first) = (0..NR_OCTAVES_MAX).find(is_used) else {
        return String::new();
    };
    let last = (first..NR_OCTAVES_MAX).rev().find(is_used).unwrap_or(first);
    let column = (width - LABEL_WIDTH) / runs.len();
    let bar_max = column.saturating_sub(COUNT_WIDTH + 2).max(1);
    let most = (first..=last)
        .flat_map(|octave| counts.iter().map(move |counts| count(counts, octave)))
        .max()
        .unwrap_or(0);
    let mut text = format!(
        "\n{} (waits below; a bar grows with the logarithm)\n",
        printable(name)
    );
    for octave in first..=last {
        text += &format!("{:>9} us", 1u64 << octave);
        let cells = counts.iter().map(|counts| {
            let count = count(counts, octave);
            let bar: String = iter::repeat_n('#', bar_len(count, most, bar_max)).collect();
            let shown = if count > 0 {
                format!("{bar} {count}")
            } else {
                String::new()
            };
            format!(" {shown:<0$}", column - 1)
        });
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text
}

fn count(counts: &[u64], octave: usize) -> u64 {
    counts.get(octave).copied().unwrap_or(0)
}

/// Length of the bar of `count`: `bar_max` for `most`, 1 for a single one.
fn bar_len(count: u64, most: u64, bar_max: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let part = (count as f64).ln() / (most as f64).ln().max(1.0);
    1 + (part * (bar_max - 1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::example;

    #[test]
    fn two_runs_are_beside_each_other_within_the_width() {
        let before = example("default");
        let mut after = example("pandemonium");
        after.waits[0].below_us = vec![0, 1_000_000, 2];
        for width in [10, 40, 80, 500] {
            let text = draw_within(&[&before, &after], width);
            assert!(text.starts_with("A: default, 4 CPUs"), "{text}");
            assert!(text.contains("\nB: pandemonium, 4 CPUs"), "{text}");
            let bars: Vec<&str> = text
                .lines()
                .filter(|line| line.get(9..12) == Some(" us"))
                .collect();
            // From 2 us of the one to 4096 us of the other.
            assert_eq!(bars.len(), 12, "{text}");
            for line in bars {
                assert!(line.len() <= width.clamp(WIDTH_MIN, WIDTH_MAX), "{line}");
            }
        }
    }

    #[test]
    fn a_bar_is_there_for_a_single_wait_and_is_the_longest_for_the_most() {
        assert_eq!(bar_len(0, 1000, 20), 0);
        assert_eq!(bar_len(1, 1000, 20), 1);
        assert_eq!(bar_len(1000, 1000, 20), 20);
        assert_eq!(bar_len(1, 1, 20), 1);
        assert!(bar_len(30, 1000, 20) > 5);
    }

    #[test]
    fn a_run_without_waits_is_a_table_with_no_figure() {
        let mut run = example("default");
        run.waits = vec![Waits::of("timer", &[]).unwrap()];
        let text = draw_within(&[&run], 80);
        assert!(text.contains('-') && !text.contains('#'), "{text}");
    }
}
