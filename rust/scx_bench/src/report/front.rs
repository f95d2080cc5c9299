// SPDX-License-Identifier: GPL-2.0
//! A few figures for a front page: the kernel's own scheduler beside the one that
//! the results are about.
//!
//! Not here: which of two figures is better (`compare`).

use anyhow::{Context, Result};

use super::score;
use crate::compare::{self, Row};
use crate::dataset::Dataset;
use crate::spec;
use crate::table;
use crate::tolerance;

/// Scenario, what of it is told, and what that is in words. Of a latency it is the
/// percentile that is a headline.
const FIGURES: [(&str, &str, &str); 7] = [
    (
        "game_mt",
        "fps",
        "4 hogs for each CPU, a game with a thread for each CPU: frames per second, of 60",
    ),
    (
        "game_mt_cg",
        "fps",
        "the same, game and hogs in a cgroup each",
    ),
    (
        "double",
        "wake",
        "2 hogs for each CPU, a timer of 3 ms: wakeup",
    ),
    (
        "frames60",
        "done",
        "the same, frames of 4 ms at 60 Hz: frame done",
    ),
    (
        "audio",
        "missed",
        "the same and a fork storm, audio of 5.3 ms: periods missed",
    ),
    (
        "launch",
        "launch",
        "a hog for each CPU, starting a program: fork, exec, exit",
    ),
    (
        "futex",
        "trip",
        "a hog for each CPU, two threads on a futex: round trip",
    ),
];

/// The table as Markdown.
pub fn markdown(dataset: &Dataset) -> Result<String> {
    let (subject, (topology, cpus)) = dataset.front()?;
    let columns = [dataset.column(spec::DEFAULT)?, dataset.column(subject)?];
    let rows = compare::rows(dataset, topology);
    let mut lines = String::new();
    for (scenario, kind, words) in FIGURES {
        let is_meant = |row: &&Row| row.scenario == scenario && tail_of(row, kind).is_some();
        let row = rows.iter().find(is_meant);
        let row = row.with_context(|| format!("{scenario} was not measured"))?;
        let tail = tail_of(row, kind).unwrap_or_default();
        let tail = tail.replacen('_', ", ", 1);
        let [default, own] = columns.map(|column| cell(row, column, columns));
        lines += &format!("| {words}{tail} | {default} | {own} |\n");
    }
    Ok(format!(
        "{}\n\n| load, and what is measured | {} | {} |\n|---|--:|--:|\n{lines}",
        score::wrap(&format!(
            "{cpus} CPUs, all of them busy; in milliseconds unless it says otherwise. What is \
             better is bold; {}.",
            tolerance::near_turn_note()
        )),
        dataset.label(spec::DEFAULT),
        dataset.label(subject),
    ))
}

/// What follows `kind` in the name of the row's figure, such as `_p99`; `None` if it
/// is another figure, or a mean.
fn tail_of<'a>(row: &'a Row, kind: &str) -> Option<&'a str> {
    let tail = row.metric.strip_prefix(kind)?;
    let is_one = tail.is_empty() || tail.starts_with("_p") || tail == "_max";
    is_one.then_some(tail)
}

fn cell(row: &Row, column: usize, both: [usize; 2]) -> String {
    let Some(cell) = row.cells[column] else {
        return "-".to_string();
    };
    let near = if row.is_near_turn(cell.median) {
        "~"
    } else {
        ""
    };
    // Too few samples for the percentile: the largest stands for it.
    let is_max = row.of_max.get(column) == Some(&true);
    let max = if is_max { " (max)" } else { "" };
    let text = format!("{near}{}{max}", table::value(cell.median));
    let [a, b] = both;
    let other = if column == a { b } else { a };
    match row.is_better(column, other) {
        true => format!("**{text}**"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::testing;

    #[test]
    fn each_figure_is_told_with_its_percentile_and_the_better_one_is_bold() {
        let mut dataset = testing::dataset(&[("default", &[1.0]), ("mine", &[1.0])]);
        dataset.subject = Some("mine".into());
        assert!(markdown(&dataset).is_err());
        for (sample, value) in dataset.samples.iter_mut().zip([4.0, 0.05]) {
            sample.result.scenarios = FIGURES
                .iter()
                .map(|(id, kind, _)| {
                    let name = format!("{kind}_p95");
                    let name = if matches!(*kind, "missed" | "fps") {
                        kind
                    } else {
                        name.as_str()
                    };
                    let figure = testing::metric(name, value, "ms", Better::Lower);
                    testing::scenario(id, 1, vec![figure])
                })
                .collect();
        }
        let text = markdown(&dataset).unwrap();
        let line = "fork, exec, exit, p95 | 4.00 | **~0.050** |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("periods missed | 4.00 |"), "{text}");
    }
}
