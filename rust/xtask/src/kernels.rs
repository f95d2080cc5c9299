// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask kernels`: on which kernels does the scheduler work?
//!
//! Boots the newest kernel of each series that Debian offers, and the second kernel
//! of the tests if there is one, and runs some of the guest tests there. README's
//! table of kernels is what this prints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use scx_guest::Kernel;
use scx_guest::debian::{self, Offer};

use crate::interrupt;
use crate::process;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// Guest tests: it loads, survives and stops; shares by weights, preempts; and CPUs
/// come and go.
const TESTS_DFL: &[&str] = &["acceptance::", "share::nice_hogs", "hotplug::"];

/// Those of the second kernel are the same again.
const SKIPPED: &str = "second_kernel";

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
struct Row {
    release: String,
    hz: Option<u32>,
    end: End,
}

enum End {
    Works,
    /// It was not tried, and why.
    Untried(String),
    /// Tests that failed.
    Failed(Vec<String>),
}

impl Row {
    fn untried(release: String, why: String) -> Row {
        Row {
            release,
            hz: None,
            end: End::Untried(why),
        }
    }
}

/// Try them one after the other, and show all whatever fails.
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
            rows.push(Row::untried(
                release,
                format!("loads no scx scheduler: {reason}"),
            ));
            continue;
        }
        rows.push(match offer.kernel(&release) {
            Ok(kernel) => try_on(&kernel, &tests, &workspace, &tools)?,
            Err(error) => {
                eprintln!("Linux {release}: {error}");
                Row::untried(release, "not tried: its image was not found".to_owned())
            }
        });
    }
    let images = args.kernel.iter().map(|image| Kernel::from_path(image));
    let second = Kernel::find_second(None, None).transpose();
    for kernel in images.chain(second) {
        let kernel = kernel?;
        if is_wanted(kernel.release(), &args.only) {
            rows.push(try_on(&kernel, &tests, &workspace, &tools)?);
        }
    }
    ensure!(!rows.is_empty(), "no kernel is called so");
    let table = table(&rows);
    print!("{table}");
    if args.write {
        write(&workspace.root().join("README.md"), &table)?;
    }
    let has_failed = |row: &Row| matches!(row.end, End::Failed(_));
    ensure!(!rows.iter().any(has_failed), "see above");
    Ok(())
}

fn is_wanted(release: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|start| release.starts_with(start))
}

/// An error for a name that no test has: it would pass on every kernel.
fn ensure_all_exist(tests: &[String], workspace: &Workspace, tools: &setup::Tools) -> Result<()> {
    let mut command = workspace.guest_test(tools, "", Path::new(""));
    command.args(["--skip", SKIPPED, "--list"]);
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
) -> Result<Row> {
    println!("Linux {}", kernel.release());
    let image = std::path::absolute(kernel.image()).context("resolving the kernel's path")?;
    let mut failed = Vec::new();
    for test in tests {
        let mut command = workspace.guest_test(tools, test, &image);
        command.args(["--skip", SKIPPED]);
        if process::run(&mut command).is_err() {
            failed.push(test.trim_end_matches("::").to_owned());
        }
        interrupt::check()?;
    }
    Ok(Row {
        release: kernel.release().to_owned(),
        hz: kernel.hz(),
        end: match failed.is_empty() {
            true => End::Works,
            false => End::Failed(failed),
        },
    })
}

fn table(rows: &[Row]) -> String {
    let mut text = "| Linux | HZ | |\n|---|---|---|\n".to_owned();
    for row in rows {
        let hz = row.hz.map_or_else(String::new, |hz| hz.to_string());
        let what = match &row.end {
            End::Works => "works".to_owned(),
            End::Untried(why) => why.clone(),
            End::Failed(tests) => format!("FAILED: {}", tests.join(", ")),
        };
        text += &format!("| {} | {hz} | {what} |\n", row.release);
    }
    text
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

    #[test]
    fn the_table_has_a_line_for_each_kernel() {
        let works = Row {
            release: "6.18.15".to_owned(),
            hz: Some(250),
            end: End::Works,
        };
        let rows = [
            works,
            Row::untried("7.1.13".to_owned(), "loads nothing".to_owned()),
        ];
        let expected = "| Linux | HZ | |\n|---|---|---|\n| 6.18.15 | 250 | works |\n\
                        | 7.1.13 |  | loads nothing |\n";
        assert_eq!(table(&rows), expected);
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
            assert!(text.contains(&format!("fn {name}")), "{test}");
        }
    }
}
