// SPDX-License-Identifier: GPL-2.0
//! A small table for a front page: how many figures are better, as good and
//! worse under the scheduler that the results are about than under each other.
//!
//! Not here: which of two figures is better (`compare`).

use anyhow::{Context, Result};

use crate::compare;
use crate::dataset::Dataset;

/// Longest line of a page of text.
const COLUMNS: usize = 110;

/// The table with the rule that made it, as Markdown.
pub fn markdown(dataset: &Dataset) -> Result<String> {
    let (subject, (topology, cpus)) = dataset.front()?;
    let rows = compare::rows(dataset, topology);
    let schedulers = &dataset.schedulers;
    let scores = &compare::matrix(&rows, schedulers.len())[dataset.column(subject)?];
    let mut lines = Vec::new();
    let mut nr_figures = 0;
    for ((name, version), score) in schedulers.iter().zip(scores) {
        let (nr_samples, nr_judged) = (
            dataset.nr_samples(name, topology),
            score.wins + score.ties + score.losses,
        );
        if name == subject || nr_samples == 0 {
            continue;
        }
        nr_figures = nr_figures.max(nr_judged);
        // "scx_a 1.0" is version 1.0 of scx_a; what else it may be says nothing.
        let version = version
            .strip_prefix(name.as_str())
            .unwrap_or_default()
            .trim();
        lines.push(format!(
            "| {} | {version} | {} | {nr_samples} | {} | {} | {} |\n",
            dataset.label(name),
            dataset.kernel,
            score.wins,
            score.ties,
            score.losses
        ));
    }
    let (subject, repetition) = (dataset.label(subject), dataset.repetition());
    Ok(format!(
        "Of {nr_figures} figures at {cpus} CPUs, this many are better, as good and worse under {subject} than \
         under\nanother scheduler. A figure is the median over the {repetition}s.\n{}\n\n\
         | compared with | version | Linux | {repetition}s | better | as good | worse |\n\
         |---|---|---|--:|--:|--:|--:|\n{}",
        wrap(&compare::rule(repetition)),
        lines.concat()
    ))
}

/// `text` in lines of at most [`COLUMNS`] characters.
pub fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

/// `page` with `table` between the two lines that mark the place of `name`.
pub fn renew(page: &str, name: &str, table: &str) -> Result<String> {
    let (begin, end) = marks(name);
    let missing = || format!("there are no lines {} and {}", begin.trim(), end.trim());
    let (before, rest) = page.split_once(&begin).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

/// The lines between which the table `name` stands.
pub fn marks(name: &str) -> (String, String) {
    let line = |word: &str| format!("<!-- {name}:{word} -->\n");
    (line("begin"), line("end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_line_tells_how_the_subject_does_against_one_other() {
        let mut dataset = testing::dataset(&[
            ("default", &[2.0, 2.2, 2.1]),
            ("mine", &[1.0, 1.1, 1.2]),
            ("scx_a", &[1.05]),
        ]);
        dataset.subject = Some("mine".into());
        dataset.labels.insert("scx_a".into(), "scx_a old".into());
        let text = markdown(&dataset).unwrap();
        assert!(
            text.starts_with("Of 1 figures at 4 CPUs, this many"),
            "{text}"
        );
        assert!(
            text.contains("| default | 1.0 | 6.18 | 3 | 1 | 0 | 0 |\n"),
            "{text}"
        );
        assert!(
            text.contains("| scx_a old | 1.0 | 6.18 | 1 | 0 | 1 | 0 |\n"),
            "{text}"
        );
        assert!(!text.contains("| mine"), "{text}");
    }

    #[test]
    fn only_what_is_between_the_marks_is_renewed() {
        let (begin, end) = marks("score");
        let page = format!("a\n{begin}old\n{end}b\n");
        let new = renew(&page, "score", "new\n").unwrap();
        assert_eq!(new, format!("a\n{begin}new\n{end}b\n"));
        assert!(renew("a\n", "score", "new\n").is_err());
        assert!(renew(&page, "front", "new\n").is_err());
    }
}
