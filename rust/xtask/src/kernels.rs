// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask kernels`: on which kernels does the scheduler do what README says?
//!
//! Boots the newest kernel of each series that Debian offers, and the second kernel
//! of the tests if there is one. Runs some of the guest tests there, then measures the
//! headline figures (`scorecard`). README's table of kernels is what this prints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use scx_guest::Kernel;
use scx_guest::debian::{self, Offer};

use crate::interrupt;
use crate::process;
use crate::scorecard::{self, Cell, Column, Figures};
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// Guest tests: it loads, survives and stops; shares by weights, preempts; and CPUs
/// come and go.
const TESTS_DFL: &[&str] = &["acceptance::", "share::nice_hogs", "hotplug::"];

/// Those of two other kernels are the same again.
const SKIPPED: &[&str] = &["--skip", "::oldest", "--skip", "::newest"];

/// Where the table stands in README.
const BEGIN: &str = "<!-- kernels:begin -->\n";
const END: &str = "<!-- kernels:end -->";

/// The arguments of `cargo xtask kernels`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Releases that begin so, instead of all; may be repeated
    #[arg(long, value_name = "RELEASE")]
    only: Vec<String>,
    /// Kernel image as well, of any distribution; may be repeated
    #[arg(long, value_name = "PATH")]
    kernel: Vec<PathBuf>,
    /// Guest tests whose names contain this, instead of the usual ones; may be repeated
    #[arg(long, value_name = "NAME")]
    test: Vec<String>,
    /// Put the table into README
    #[arg(long)]
    write: bool,
    /// Use sudo without asking
    #[arg(long, short)]
    yes: bool,
}

/// A kernel and what became of it.
enum Row {
    Tried(Tried),
    /// It was not tried, and why.
    Untried {
        release: String,
        why: String,
    },
}

struct Tried {
    release: String,
    hz: Option<u32>,
    image: PathBuf,
    /// Tests that failed.
    failed: Vec<String>,
    figures: Figures,
}

impl Tried {
    fn is_good(&self) -> bool {
        self.failed.is_empty() && self.figures.are_held()
    }
}

/// Try them one after the other, measure them side by side, and show all whatever fails.
pub fn main(args: &Args) -> Result<()> {
    let purposes = [Purpose::Build, Purpose::Guest, Purpose::Workload];
    let tools = setup::ensure(&purposes, args.yes)?;
    let workspace = Workspace::find(&tools)?;
    let usual = TESTS_DFL.iter().map(|test| (*test).to_owned());
    let tests = match args.test.is_empty() {
        true => usual.collect(),
        false => args.test.clone(),
    };
    ensure_all_exist(&tests, &workspace, &tools)?;
    let mut rows = Vec::new();
    let offer = Offer::fetch()?;
    for release in offer.newest_of_each_series()? {
        if !is_wanted(&release, &args.only) {
            continue;
        }
        if let Some(reason) = debian::known_bad(&release) {
            let why = format!("loads no scx scheduler: {reason}");
            rows.push(Row::Untried { release, why });
            continue;
        }
        rows.push(match offer.kernel(&release) {
            Ok(kernel) => Row::Tried(try_on(&kernel, &tests, &workspace, &tools)?),
            Err(error) => {
                eprintln!("Linux {release}: {error}");
                let why = "not tried: its image was not found".to_owned();
                Row::Untried { release, why }
            }
        });
    }
    let images = args.kernel.iter().map(|image| Kernel::from_path(image));
    let second = Kernel::find_second(None, None).transpose();
    for kernel in images.chain(second) {
        let kernel = kernel?;
        if is_wanted(kernel.release(), &args.only) {
            rows.push(Row::Tried(try_on(&kernel, &tests, &workspace, &tools)?));
        }
    }
    ensure!(!rows.is_empty(), "no kernel is called so");
    let columns = measure(&mut rows, &workspace, &tools)?;
    let table = table(&rows, &columns);
    print!("{table}");
    if args.write {
        write(&workspace.root().join("README.md"), &table)?;
    }
    let is_bad = |row: &Row| matches!(row, Row::Tried(tried) if !tried.is_good());
    ensure!(!rows.iter().any(is_bad), "see above");
    Ok(())
}

/// Measure the figures of all kernels that were tried, and return what they are.
fn measure(rows: &mut [Row], workspace: &Workspace, tools: &setup::Tools) -> Result<Vec<Column>> {
    let tried = rows.iter_mut().filter_map(|row| match row {
        Row::Tried(tried) => Some(tried),
        Row::Untried { .. } => None,
    });
    let mut tried: Vec<&mut Tried> = tried.collect();
    if tried.is_empty() {
        return Ok(Vec::new());
    }
    let images: Vec<&Path> = tried.iter().map(|tried| tried.image.as_path()).collect();
    let card = scorecard::measure(workspace, tools, &images)?;
    for (tried, figures) in tried.iter_mut().zip(card.rows) {
        tried.figures = figures;
    }
    Ok(card.columns)
}

fn is_wanted(release: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|start| release.starts_with(start))
}

/// An error for a name that no test has: it would pass on every kernel.
fn ensure_all_exist(tests: &[String], workspace: &Workspace, tools: &setup::Tools) -> Result<()> {
    let mut command = workspace.guest_test(tools, "", Path::new(""));
    command.args(SKIPPED).arg("--list");
    let mut names = Vec::new();
    let status = process::follow(&mut command, |line| {
        names.extend(line.strip_suffix(": test").map(str::to_owned));
    })?;
    ensure!(status.success(), "the guest tests cannot be built");
    for test in tests {
        ensure!(
            names.iter().any(|name| name.contains(test.as_str())),
            "no guest test is called {test}; `cargo test --release -p scx_pandemonium --test \
             guest -- --list` prints all names"
        );
    }
    Ok(())
}

/// Run each of the tests on `kernel`.
fn try_on(
    kernel: &Kernel,
    tests: &[String],
    workspace: &Workspace,
    tools: &setup::Tools,
) -> Result<Tried> {
    println!("Linux {}", kernel.release());
    let image = std::path::absolute(kernel.image()).context("resolving the kernel's path")?;
    let mut failed = Vec::new();
    for test in tests {
        let mut command = workspace.guest_test(tools, test, &image);
        command.args(SKIPPED);
        if process::run(&mut command).is_err() {
            failed.push(test.trim_end_matches("::").to_owned());
        }
        interrupt::check()?;
    }
    Ok(Tried {
        release: kernel.release().to_owned(),
        hz: kernel.hz(),
        image,
        failed,
        figures: Figures::default(),
    })
}

/// A line for what the columns are, one for their bounds, then one for each kernel.
fn table(rows: &[Row], columns: &[Column]) -> String {
    let line = |first: [&str; 3], cells: Vec<String>| {
        let first = first.map(str::to_owned).to_vec();
        format!("| {} |\n", [first, cells].concat().join(" | "))
    };
    let title = |column: &Column| {
        let title = format!("`{}` {} {}", column.scenario, column.figure, column.unit);
        title.trim_end().to_owned()
    };
    let allowed = columns.iter().map(|column| column.allowed.clone());
    let mut text = line(
        ["Linux", "HZ", "tests"],
        columns.iter().map(title).collect(),
    );
    text += &format!("|---|---|---|{}\n", "--:|".repeat(columns.len()));
    text += &line(["*bound*", "", ""], allowed.collect());
    for row in rows {
        text += &match row {
            Row::Tried(tried) => {
                let hz = tried.hz.map_or_else(String::new, |hz| hz.to_string());
                let cells = tried.figures.cells.iter().map(cell).collect();
                line([&tried.release, &hz, &ending(&tried.failed)], cells)
            }
            Row::Untried { release, why } => {
                line([release, "", why], vec![String::new(); columns.len()])
            }
        };
    }
    text
}

fn ending(failed: &[String]) -> String {
    match failed {
        [] => "pass".to_owned(),
        _ => format!("FAILED: {}", failed.join(", ")),
    }
}

fn cell(cell: &Cell) -> String {
    match cell.is_held {
        true => cell.text.clone(),
        false => format!("**{}** NOT HELD", cell.text),
    }
}

/// Put `table` in the place of the one between the marks of the file at `path`.
fn write(path: &Path, table: &str) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let text = replace(&text, table)
        .ok_or_else(|| anyhow!("{} has no {} and {END}", path.display(), BEGIN.trim_end()))?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn replace(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel on which all tests pass, with one figure.
    fn tried(release: &str, text: &str, is_held: bool) -> Tried {
        Tried {
            release: release.to_owned(),
            hz: Some(250),
            image: PathBuf::new(),
            failed: Vec::new(),
            figures: Figures {
                kernel: release.to_owned(),
                cells: vec![Cell {
                    text: text.to_owned(),
                    is_held,
                }],
                failures: Vec::new(),
            },
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_kernel_with_its_figures() {
        let rows = [
            Row::Tried(tried("6.18.15", "60.0", true)),
            Row::Tried(Tried {
                failed: vec!["hotplug".to_owned()],
                hz: None,
                ..tried("7.3.4", "29.7", false)
            }),
            Row::Untried {
                release: "7.1.13".to_owned(),
                why: "loads nothing".to_owned(),
            },
        ];
        let columns = [Column {
            scenario: "game".to_owned(),
            figure: "fps".to_owned(),
            unit: "1/s".to_owned(),
            allowed: ">= 57.5".to_owned(),
        }];
        let expected = "| Linux | HZ | tests | `game` fps 1/s |\n|---|---|---|--:|\n\
                        | *bound* |  |  | >= 57.5 |\n\
                        | 6.18.15 | 250 | pass | 60.0 |\n\
                        | 7.3.4 |  | FAILED: hotplug | **29.7** NOT HELD |\n\
                        | 7.1.13 |  | loads nothing |  |\n";
        assert_eq!(table(&rows, &columns), expected);
    }

    #[test]
    fn a_kernel_is_good_if_its_tests_pass_and_its_figures_hold() {
        let good = || tried("7.3.4", "60.0", true);
        assert!(good().is_good());
        assert!(!tried("7.3.4", "29.7", false).is_good());
        let failed = vec!["hotplug".to_owned()];
        assert!(!Tried { failed, ..good() }.is_good());
        let mut silent = good();
        silent.figures.failures.push("it did not boot".to_owned());
        assert!(!silent.is_good());
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("a\n{BEGIN}old\n{END}\nb\n");
        let expected = format!("a\n{BEGIN}new\n{END}\nb\n");
        assert_eq!(replace(&text, "new\n"), Some(expected));
        assert_eq!(replace("no marks", "new\n"), None);
    }

    #[test]
    fn readme_has_the_marks() {
        let text = include_str!("../../../README.md");
        assert!(replace(text, "").is_some());
    }

    #[test]
    fn the_usual_tests_exist() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scheds/rust/scx_pandemonium");
        for test in TESTS_DFL {
            let (module, name) = test.split_once("::").expect("a module");
            let path = dir.join("tests/guest").join(module).with_extension("rs");
            let text = fs::read_to_string(&path).expect("there is such a module");
            let is_there = ["figure!(", "invariant!("].iter().any(|kind| {
                text.split(kind)
                    .skip(1)
                    .any(|test| test.trim_start().starts_with(name))
            });
            assert!(is_there, "{test}");
        }
    }
}
