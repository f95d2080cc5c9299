// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask test`: every check there is, and how long each took.
//!
//! All steps run, whatever fails, so that one call shows everything. What boots a
//! kernel is one step, see `guests`; what does not is another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bench;
use crate::count::TestCount;
use crate::guests::{self, Kernels};
use crate::interrupt;
use crate::process;
use crate::scorecard;
use crate::setup::{self, Purpose, Tools};
use crate::workspace::Workspace;

/// The arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run these steps only
    #[arg(long, value_enum, value_name = "STEPS", value_delimiter = ',')]
    only: Vec<Step>,
    #[command(flatten)]
    guests: guests::Args,
    /// Use sudo without asking
    #[arg(long, short)]
    yes: bool,
}

/// The checks, in the order they run: quick ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    /// cargo fmt
    Fmt,
    /// clang-format
    CFormat,
    /// cargo clippy
    Clippy,
    /// What boots no kernel
    Unit,
    /// What boots one
    Guests,
    /// `cargo xtask bench --gate`
    Gate,
    /// The headline figures on the oldest, the long-term and the newest kernel
    Scorecard,
}

const STEPS: &[Step] = &[
    Step::Fmt,
    Step::CFormat,
    Step::Clippy,
    Step::Unit,
    Step::Guests,
    Step::Gate,
    Step::Scorecard,
];

impl Step {
    fn title(self) -> &'static str {
        match self {
            Step::Fmt => "cargo fmt",
            Step::CFormat => "clang-format",
            Step::Clippy => "cargo clippy",
            Step::Unit => "unit tests",
            Step::Guests => "guest tests",
            Step::Gate => "bench --gate",
            Step::Scorecard => "scorecard",
        }
    }

    fn purposes(self) -> &'static [Purpose] {
        match self {
            Step::Fmt => &[],
            Step::CFormat => &[Purpose::Format],
            Step::Clippy => &[Purpose::Build],
            Step::Unit => &[Purpose::Build, Purpose::Meson],
            Step::Guests => &[
                Purpose::Build,
                Purpose::Guest,
                Purpose::Workload,
                Purpose::Desktop,
                Purpose::Loader,
            ],
            Step::Gate | Step::Scorecard => &[Purpose::Build, Purpose::Guest, Purpose::Workload],
        }
    }
}

/// What one step came to.
struct Outcome {
    title: &'static str,
    is_ok: bool,
    took: Duration,
}

/// Run the steps, then say what each came to.
pub fn main(args: &Args) -> Result<()> {
    let steps: Vec<Step> = STEPS
        .iter()
        .copied()
        .filter(|step| args.only.is_empty() || args.only.contains(step))
        .collect();
    let started = Instant::now();
    let purposes: Vec<Purpose> = steps
        .iter()
        .flat_map(|step| step.purposes())
        .copied()
        .collect();
    let tools = setup::ensure(&purposes, args.yes)?;
    setup::ensure_rust_components(&tools)?;
    let workspace = Workspace::find(&tools)?;
    let mut outcomes = vec![Outcome {
        title: "setup",
        is_ok: true,
        took: started.elapsed(),
    }];
    let mut count = TestCount::default();

    for step in steps {
        println!("== {}", step.title());
        let started = Instant::now();
        let result = match step {
            Step::Fmt => fmt(&workspace, &tools),
            Step::CFormat => c_format(&workspace, &tools),
            Step::Clippy => clippy(&workspace, &tools),
            Step::Unit => unit(&workspace, &tools, &mut count),
            Step::Guests => guests::run(&args.guests, &workspace, &tools, &mut count),
            Step::Gate => gate(args, &workspace, &tools),
            Step::Scorecard => scorecard(args, &workspace, &tools),
        };
        interrupt::check()?;
        if let Err(error) = &result {
            eprintln!("{}: {}", step.title(), crate::one_line(error));
        }
        outcomes.push(Outcome {
            title: step.title(),
            is_ok: result.is_ok(),
            took: started.elapsed(),
        });
    }
    report(&outcomes, &count)
}

fn fmt(workspace: &Workspace, tools: &Tools) -> Result<()> {
    let mut command = tools.cargo();
    command
        .current_dir(workspace.root())
        .args(["fmt", "--all", "--check"]);
    process::run(&mut command).context("cargo fmt formats what is shown above")
}

fn c_format(workspace: &Workspace, tools: &Tools) -> Result<()> {
    let clang_format = tools
        .clang_format
        .as_ref()
        .context("clang-format is missing")?;
    let mut files = Vec::new();
    for top in ["scheds", "rust"] {
        find_c_files(&workspace.root().join(top), &mut files)?;
    }
    files.sort();
    ensure!(!files.is_empty(), "no C file was found to check");
    println!("{} files", files.len());
    process::run(
        Command::new(clang_format)
            .args(["--dry-run", "-Werror"])
            .args(&files),
    )
    .context("clang-format -i formats the files named above")
}

/// Add the C sources below `dir` to `files`.
fn find_c_files(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("reading {}", dir.display()))?
            .path();
        if path.is_dir() {
            find_c_files(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "c" || extension == "h")
        {
            files.push(path);
        }
    }
    Ok(())
}

fn clippy(workspace: &Workspace, tools: &Tools) -> Result<()> {
    let mut command = tools.cargo();
    command
        .current_dir(workspace.root())
        .args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--release",
            "--locked",
        ])
        .args(["--", "-D", "warnings"]);
    process::run(&mut command)
}

/// What boots no kernel: all test programs but the guests', and what pages show as code.
fn unit(workspace: &Workspace, tools: &Tools, count: &mut TestCount) -> Result<()> {
    // Compiled first, with all the programs that tests run, where cargo has the
    // terminal for itself.
    workspace.build_all(tools)?;
    let mut command = workspace.test_all(tools);
    command.args(["--lib", "--bins"]);
    for target in workspace.test_targets() {
        if !guests::TARGETS.contains(&target) {
            command.args(["--test", target]);
        }
    }
    let nr_failed =
        count.run(&mut command, &[])? + count.run(workspace.test_all(tools).arg("--doc"), &[])?;
    ensure!(nr_failed == 0, "{nr_failed} failed");
    Ok(())
}

/// Has the scheduler become worse than its baseline?
fn gate(args: &Args, workspace: &Workspace, tools: &Tools) -> Result<()> {
    let kernel: Vec<String> = match &args.guests.kernel {
        Some(image) => vec!["--kernel".into(), image.display().to_string()],
        None => Vec::new(),
    };
    bench::gate(workspace, tools, &kernel)
}

/// Do the headline figures hold on the kernels that matter most?
fn scorecard(args: &Args, workspace: &Workspace, tools: &Tools) -> Result<()> {
    let Kernels {
        lts,
        oldest,
        newest,
    } = Kernels::find(&args.guests)?;
    let mut kernels: Vec<_> = oldest.into_iter().chain([lts]).chain(newest).collect();
    kernels.dedup_by_key(|kernel| kernel.release().to_owned());
    let images: Vec<&Path> = kernels.iter().map(|kernel| kernel.image()).collect();
    let card = scorecard::measure(workspace, tools, &images)?;
    let broken = card.broken();
    ensure!(broken.is_empty(), "not held on {}", broken.join(", "));
    Ok(())
}

fn report(outcomes: &[Outcome], count: &TestCount) -> Result<()> {
    println!();
    for outcome in outcomes {
        let result = if outcome.is_ok { "ok" } else { "FAILED" };
        println!(
            "{:<14} {result:<7} {:>7.1} s",
            outcome.title,
            outcome.took.as_secs_f64()
        );
    }
    if *count != TestCount::default() {
        println!("{}", count.summary());
    }
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|o| !o.is_ok)
        .map(|o| o.title)
        .collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_files_are_found_below_and_others_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("a/b")).expect("directories");
        for name in ["a/b/main.bpf.c", "a/intf.h", "a/lib.rs"] {
            fs::write(dir.path().join(name), "").expect("a file");
        }
        let mut files = Vec::new();
        find_c_files(dir.path(), &mut files).expect("readable");
        files.sort();
        assert_eq!(
            files,
            [
                dir.path().join("a/b/main.bpf.c"),
                dir.path().join("a/intf.h")
            ]
        );
    }
}
