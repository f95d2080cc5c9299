// SPDX-License-Identifier: GPL-2.0
//! What was found with caches, as tables on the terminal.
//!
//! Not here: what is computed (`found`, `weights`).

use std::fmt::Write;

use scx_guest::{Counts, Line};

use super::found::{Dataset, Figures, Sample};
use super::symbols;
use super::weights::{Difference, SWEEP};
use crate::clock::NSEC_PER_USEC;
use crate::table::value;
use crate::text;

/// One of the counts.
pub(super) type Count = fn(&Counts) -> u64;

/// What is shown of counts.
pub(super) const ROWS: [(&str, Count); 6] = [
    ("instructions", |counts| counts.instructions),
    ("L1 misses", |counts| counts.l1_misses),
    ("L2 misses", |counts| counts.l2_misses),
    ("lines of other cores", |counts| counts.remote + counts.far),
    ("lines of memory", |counts| counts.memory),
    ("invalidations", |counts| counts.invalidations),
];

/// All tables, and what has no result.
pub fn tables(dataset: &Dataset) -> String {
    let mut text = notes(dataset);
    for topology in &dataset.topologies {
        for (scenario, about) in &dataset.scenarios {
            let _ = write!(text, "\n{scenario} on {topology}: {about}\n");
            text.push_str(&table(dataset, topology, scenario));
        }
    }
    for sample in &dataset.samples {
        text.push_str(&lines(sample));
    }
    for line in failures(dataset) {
        let _ = writeln!(text, "no result: {line}");
    }
    text
}

/// What figures mean that stand in the tables.
fn notes(dataset: &Dataset) -> String {
    let first = dataset.schedulers.first().map_or("", |(name, _)| name);
    format!(
        "\nLinux {}, caches {}; counts for each unit, moves and units of a second.\n\
         Modelled time is a sum of {} ns. \"Against {first}\" is followed by what it comes to \
         with\neach weight but the first from 1/{SWEEP} to {SWEEP} times that, under each seed; a \
         ? has no sign there,\nor other roles did more or less meanwhile.\n",
        dataset.kernel, dataset.caches, dataset.weights,
    )
}

fn table(dataset: &Dataset, topology: &str, scenario: &str) -> String {
    let columns: Vec<Option<&Figures>> = dataset
        .schedulers
        .iter()
        .map(|(scheduler, _)| dataset.find(topology, scenario, scheduler))
        .collect();
    let mut lines = vec![vec![String::new()]];
    let names = dataset.schedulers.iter().map(|(name, _)| name.clone());
    lines[0].extend(names);
    let mut add = |title: String, cell: &dyn Fn(&Figures) -> Option<String>| {
        let cells: Vec<Option<String>> = columns.iter().map(|of| of.and_then(cell)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or("-".into()));
            lines.push(std::iter::once(title).chain(cells).collect());
        }
    };
    let Some(roles) = columns.iter().flatten().next().map(|of| &of.roles) else {
        return String::new();
    };
    for (nth, role) in roles.iter().enumerate() {
        let title = format!("{}: {} 1/s", role.name, role.unit);
        add(title, &|of| {
            Some(value(of.per_second(of.roles.get(nth)?.units)))
        });
        if columns.iter().flatten().any(|of| of.roles[nth].moves > 0) {
            let title = format!("{}: moves 1/s", role.name);
            add(title, &|of| {
                Some(value(of.per_second(of.roles.get(nth)?.moves)))
            });
        }
    }
    type Part = fn(&Figures) -> &Counts;
    let kinds: [(&str, Part); 3] = [
        ("user", |of| &of.total.user),
        ("kernel", |of| &of.total.kernel),
        ("bpf", |of| &of.total.bpf),
    ];
    for (kind, counts) in kinds {
        for (row, count) in ROWS {
            add(format!("{kind} {row}"), &|of| {
                let of_kind = counts(of);
                let has_some = of_kind.instructions > 0 && of.units() > 0;
                has_some.then(|| value(count(of_kind) as f64 / of.units() as f64))
            });
        }
    }
    add("modelled time us".to_string(), &|of| {
        let is_known = of.units() > 0;
        is_known.then(|| value(of.modelled_ns / NSEC_PER_USEC as f64))
    });
    let first = dataset.schedulers.first().map_or("", |(name, _)| name);
    add(format!("against {first} %"), &|of| {
        of.against_first.map(difference_text)
    });
    text::align_right(&lines)
}

fn difference_text(difference: Difference) -> String {
    let Difference {
        pct,
        least_pct,
        most_pct,
        ..
    } = difference;
    let mark = if difference.holds() { "" } else { "?" };
    format!("{pct:+.1}{mark} [{least_pct:+.1}..{most_pct:+.1}]")
}

/// The lines that cores took from each other most often in one run, if that was asked
/// for: who came for what another one had written.
fn lines(sample: &Sample) -> String {
    let Some(span) = &sample.span else {
        return String::new();
    };
    let mut text = String::new();
    if !span.lines.is_empty() {
        let _ = writeln!(
            text,
            "\nlines of {} under {} on {}, seed {}: remote, invalidations; who met whom",
            sample.scenario, sample.scheduler, sample.topology, sample.seed
        );
    }
    for line in &span.lines {
        text.push_str(&line_text(sample, line));
    }
    text
}

fn line_text(sample: &Sample, line: &Line) -> String {
    let name = |address| {
        let text = symbols::text(address);
        sample.names.get(&text).cloned().unwrap_or(text)
    };
    let mut text = format!(
        "{} {} {}\n",
        symbols::text(line.address),
        line.remote,
        line.invalidations
    );
    for meeting in &line.meetings {
        let _ = writeln!(
            text,
            "    {} at {} met {} at {}: {} reads, {} writes, {} invalidations",
            name(meeting.by),
            meeting.offset,
            name(meeting.written_by),
            meeting.written_offset,
            meeting.reads,
            meeting.writes,
            meeting.invalidations
        );
    }
    text
}

/// What has no result and why, a line for each.
pub fn failures(dataset: &Dataset) -> Vec<String> {
    let failed = dataset.samples.iter().filter_map(|sample| {
        let why = sample.failure.as_ref()?;
        Some(format!(
            "{}, {}, {}, seed {}: {why}",
            sample.scheduler, sample.topology, sample.scenario, sample.seed
        ))
    });
    failed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::found::tests::dataset;

    #[test]
    fn costs_are_for_each_unit_and_say_whether_they_differ() {
        let of = |counts| tables(&dataset(counts));
        let text = of([(10, 1000, 0), (10, 1000, 0), (10, 1000, 10), (5, 500, 5)]);
        let row = |title: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(title));
            let line = line.unwrap_or_else(|| panic!("{title}: {text}"));
            line[title.len()..]
                .split_whitespace()
                .map(str::to_string)
                .collect()
        };
        assert_eq!(row("user instructions"), ["100", "100"]);
        assert_eq!(row("user L2 misses"), ["0", "1.00"]);
        assert_eq!(row("user lines of memory"), ["0", "1.00"]);
        // 20 passes and 15 in 2 us.
        assert_eq!(row("walker: pass 1/s"), ["10000000", "7500000"]);
        assert_eq!(row("modelled time us"), ["0.100", "0.200"]);
        assert_eq!(row("against a %"), ["-", "+100.0", "[+25.0..+400.0]"]);
        // There is no BPF program in either.
        assert!(!text.contains("bpf"), "{text}");
    }

    #[test]
    fn what_has_no_sign_is_marked() {
        let text = tables(&dataset([
            (10, 1000, 1),
            (10, 1000, 1),
            (10, 1010, 1),
            (10, 990, 1),
        ]));
        assert!(text.contains("+0.0? [-"), "{text}");
    }

    #[test]
    fn a_failure_is_told() {
        let mut dataset = dataset([(10, 1000, 1); 4]);
        dataset.samples[3].failure = Some("it did not load".into());
        let text = tables(&dataset);
        let line = "no result: b, 1x1x4x1, walk, seed 2: it did not load\n";
        assert!(text.ends_with(line), "{text}");
    }
}
