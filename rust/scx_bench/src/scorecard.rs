// SPDX-License-Identifier: GPL-2.0
//! `scx_bench scorecard`: does a scheduler hold its bounds on each of these kernels?
//!
//! Each kernel boots once for each seed and runs the scenarios of the bounds; all
//! boots share the host's cores. The table has a row for each kernel.
//!
//! Not here: what a bound is (`bounds`), how a guest is run (`boots`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use scx_guest::Topology;
use serde::Serialize;

use crate::boots::{self, BootArgs, Measured, Plan};
use crate::bounds::{Bound, Bounds};
use crate::dataset::Dataset;
use crate::spec::{Spec, SpecArgs};
use crate::table;
use crate::text;

/// What marks a figure that is out of its bound.
const MARK: &str = "!";

/// Hold a scheduler to its bounds, on several kernels.
#[derive(Debug, Clone, clap::Args)]
pub struct ScorecardArgs {
    /// File with the bounds: scenarios, figures, what they have to be and why.
    #[arg(long, value_name = "FILE")]
    pub bounds: PathBuf,
    /// The scheduler, as in `scx_bench guest`.
    #[arg(long, value_name = "NAME=PATH ARGS")]
    pub sched: String,
    /// Kernel image; may be repeated. Without it the one that `scx_guest` pins.
    #[arg(long, value_name = "PATH")]
    pub kernel: Vec<PathBuf>,
    /// Guests that run at the same time.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Measure again what has been measured already, and fail if it differs.
    #[arg(long)]
    pub again: bool,
    /// Write the table to this file as JSON as well.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The figures of all kernels.
#[derive(Debug, PartialEq, Serialize)]
pub struct Scorecard {
    /// The columns.
    pub columns: Vec<Column>,
    /// A row for each kernel.
    pub rows: Vec<Row>,
}

/// A bound, in words.
#[derive(Debug, PartialEq, Serialize)]
pub struct Column {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the figure.
    pub figure: String,
    /// Its unit; empty for a ratio or a count.
    pub unit: String,
    /// The values that are allowed.
    pub allowed: String,
}

/// What one kernel came to.
#[derive(Debug, PartialEq, Serialize)]
pub struct Row {
    /// Release of the kernel.
    pub kernel: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// What has no result and why, a line for each.
    pub failures: Vec<String>,
}

/// The figure of the worst seed.
#[derive(Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Its value; nothing if a seed has none.
    pub value: Option<f64>,
    /// The value in words.
    pub text: String,
    /// Is it within the bound?
    pub is_held: bool,
}

/// Measure, print the table, write it, and return whether all bounds hold.
pub fn run(args: &ScorecardArgs) -> Result<bool> {
    let bounds = Bounds::read(&args.bounds)?;
    let measured = boots::measure_all(args.plans(&bounds)?)?;
    let datasets = measured.iter().map(|measured| &measured.dataset);
    let card = Scorecard::of(&bounds, datasets);
    table::say(&format!("\n{}", card.text(&bounds)))?;
    if let Some(path) = &args.json {
        card.write(path)?;
    }
    measured.iter().try_for_each(Measured::check_kept)?;
    Ok(card.rows.iter().all(Row::is_held))
}

impl ScorecardArgs {
    /// A plan for each kernel.
    fn plans(&self, bounds: &Bounds) -> Result<Vec<Plan>> {
        let sched = SpecArgs {
            sched: vec![self.sched.clone()],
            peers: None,
        };
        let specs = sched.specs()?;
        ensure!(
            specs.len() == 1,
            "bounds are of one scheduler, and `{}` names more",
            self.sched
        );
        let kernels: Vec<Option<&Path>> = match self.kernel.is_empty() {
            true => vec![None],
            false => self
                .kernel
                .iter()
                .map(|path| Some(path.as_path()))
                .collect(),
        };
        let plans = kernels
            .into_iter()
            .map(|kernel| self.plan(kernel, &specs, bounds));
        plans.collect()
    }

    fn plan(&self, kernel: Option<&Path>, specs: &[Spec], bounds: &Bounds) -> Result<Plan> {
        Ok(Plan {
            specs: specs.to_vec(),
            topologies: vec![Topology::flat(bounds.cpus)],
            seeds: bounds.seeds,
            scenarios: bounds.scenarios()?,
            seconds: Some(bounds.seconds),
            with_cost: false,
            committed: None,
            renew: false,
            identities: Default::default(),
            boot: BootArgs {
                kernel: kernel.map(Path::to_owned),
                jobs: self.jobs,
                again: self.again,
            },
        })
    }
}

impl Scorecard {
    /// The card of `datasets`, which are of one kernel each.
    pub fn of<'a>(bounds: &Bounds, datasets: impl Iterator<Item = &'a Dataset>) -> Self {
        let column = |bound: &Bound| Column {
            scenario: bound.scenario.clone(),
            figure: bound.figure.clone(),
            unit: bound.unit.clone(),
            allowed: bound.allowed(),
        };
        let cell = |bound: &Bound, dataset: &Dataset| {
            let value = bound.worst(dataset);
            Cell {
                value,
                text: value.map_or("-".to_string(), table::value),
                is_held: value.is_some_and(|value| bound.holds(value)),
            }
        };
        let row = |dataset: &Dataset| Row {
            kernel: dataset.kernel.clone(),
            cells: bounds
                .bounds
                .iter()
                .map(|bound| cell(bound, dataset))
                .collect(),
            failures: text::failures(dataset),
        };
        Self {
            columns: bounds.bounds.iter().map(column).collect(),
            rows: datasets.map(row).collect(),
        }
    }

    /// The card as a table, then a line for each bound that does not hold.
    pub fn text(&self, bounds: &Bounds) -> String {
        let head = |name: &str, word: fn(&Bound) -> String| {
            let words = bounds.bounds.iter().map(word);
            [vec![name.to_string()], words.collect()].concat()
        };
        let mut lines = vec![
            head("", |bound| bound.scenario.clone()),
            head("", |bound| format!("{} {}", bound.figure, bound.unit)),
            head("bound", Bound::allowed),
        ];
        for row in &self.rows {
            let cells = row.cells.iter().map(Cell::marked);
            lines.push([vec![row.kernel.clone()], cells.collect()].concat());
        }
        let mut text = text::align(&lines);
        for row in &self.rows {
            for line in &row.failures {
                text += &format!("Linux {}: no result: {line}\n", row.kernel);
            }
            let cells = row.cells.iter().zip(&bounds.bounds);
            for (cell, bound) in cells.filter(|(cell, _)| !cell.is_held) {
                text += &format!(
                    "Linux {}: {} is {}, not {}: {}\n",
                    row.kernel,
                    bound.title(),
                    cell.text,
                    bound.allowed(),
                    bound.from
                );
            }
        }
        text
    }

    fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string(self).context("writing JSON")?;
        fs::write(path, json + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

impl Row {
    /// Do all bounds hold?
    pub fn is_held(&self) -> bool {
        self.failures.is_empty() && self.cells.iter().all(|cell| cell.is_held)
    }
}

impl Cell {
    fn marked(&self) -> String {
        match self.is_held {
            true => self.text.clone(),
            false => format!("{}{MARK}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::failed;
    use crate::testing;

    fn bounds() -> Bounds {
        Bounds {
            cpus: 4,
            seconds: 1.5,
            seeds: 2,
            bounds: vec![Bound {
                scenario: "saturation".into(),
                figure: "wake_p99".into(),
                unit: "ms".into(),
                least: None,
                most: Some(2.0),
                from: "the report".into(),
            }],
        }
    }

    fn dataset(kernel: &str, values: &[f64]) -> Dataset {
        Dataset {
            kernel: kernel.into(),
            ..testing::dataset(&[("a", values)])
        }
    }

    #[test]
    fn each_kernel_has_a_row_and_each_broken_bound_a_line() {
        let datasets = [dataset("6.18", &[1.0, 2.0]), dataset("7.3", &[1.0, 3.0])];
        let card = Scorecard::of(&bounds(), datasets.iter());
        let held: Vec<bool> = card.rows.iter().map(Row::is_held).collect();
        assert_eq!(held, [true, false]);
        let expected = "
       saturation
       wake_p99 ms
bound  <= 2
6.18   2.00
7.3    3.00!
Linux 7.3: saturation wake_p99 ms is 3.00, not <= 2: the report
";
        assert_eq!(format!("\n{}", card.text(&bounds())), expected);
    }

    #[test]
    fn a_kernel_that_does_not_boot_holds_nothing() {
        let mut dataset = dataset("7.3", &[1.0, 1.0]);
        dataset.samples[1].result = failed("it did not boot");
        let card = Scorecard::of(&bounds(), [&dataset].into_iter());
        assert!(!card.rows[0].is_held());
        assert_eq!(card.rows[0].cells[0].text, "-");
        let text = card.text(&bounds());
        assert!(text.contains("Linux 7.3: no result: a, 4 CPUs, seed 2, all: it did not boot"));
    }
}
