// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask test`: every check there is, and how long each took.
//!
//! All steps run, whatever fails, so that one call shows everything. A guest is
//! emulated by one host thread, and cargo runs one test program after the
//! other: with as many tests at a time as there are cores, no guest waits for
//! a core. Temporary files of the tests live in one directory that is gone at
//! the end, however the tests ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scx_guest::Kernel;
use scx_guest::debian::Offer;

use crate::bench;
use crate::interrupt;
use crate::process;
use crate::published;
use crate::scorecard;
use crate::selftests;
use crate::setup::{self, Purpose, Tools};
use crate::workspace::Workspace;

/// Tells the guest tests which kernel to boot.
const KERNEL_ENV: &str = "SCX_GUEST_KERNEL";

/// Tells the guest tests which other kernel to boot where a test wants two.
const SECOND_KERNEL_ENV: &str = "SCX_GUEST_KERNEL_2";

/// Tells the guest tests which kernel is the newest, for what only that one has.
const NEWEST_KERNEL_ENV: &str = "SCX_GUEST_KERNEL_3";

/// Tells the guest tests what to shift the phases of their guests by; 1 without it.
const SEED_ENV: &str = "SCX_GUEST_SEED";

/// The arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run one step only
    #[arg(long, value_enum, value_name = "STEP")]
    only: Option<Step>,
    /// Kernel image for the guest tests, instead of the one that is found or downloaded
    #[arg(long, value_name = "PATH", env = KERNEL_ENV)]
    kernel: Option<PathBuf>,
    /// Another kernel image, for the tests that run on two [env: SCX_GUEST_KERNEL_2]
    #[arg(long, value_name = "PATH")]
    second_kernel: Option<PathBuf>,
    /// Directories to take the other image from, like PATH with colons between them: the first
    /// `vmlinuz-*`. Without either, what `cargo xtask kernel` built [env: SCX_GUEST_KERNELS]
    #[arg(long, value_name = "DIRS", conflicts_with = "second_kernel")]
    kernels: Option<OsString>,
    /// Run the tests so often, each time with other seeds of the guests, and say which failed
    /// in which of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
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
    /// Unit tests and guest tests
    Tests,
    /// `cargo xtask bench --gate`
    Gate,
    /// The headline figures on the oldest, the long-term and the newest kernel
    Scorecard,
}

const STEPS: &[Step] = &[
    Step::Fmt,
    Step::CFormat,
    Step::Clippy,
    Step::Tests,
    Step::Gate,
    Step::Scorecard,
];

impl Step {
    fn title(self) -> &'static str {
        match self {
            Step::Fmt => "cargo fmt",
            Step::CFormat => "clang-format",
            Step::Clippy => "cargo clippy",
            Step::Tests => "cargo test",
            Step::Gate => "bench --gate",
            Step::Scorecard => "scorecard",
        }
    }

    fn purposes(self) -> &'static [Purpose] {
        match self {
            Step::Fmt => &[],
            Step::CFormat => &[Purpose::Format],
            Step::Clippy => &[Purpose::Build],
            Step::Tests => &[
                Purpose::Build,
                Purpose::Guest,
                Purpose::Workload,
                Purpose::Desktop,
                Purpose::Loader,
                Purpose::Meson,
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
        .filter(|step| args.only.is_none_or(|only| only == *step))
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
            Step::Tests => tests(args, &workspace, &tools, &mut count),
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

/// Unit tests and guest tests. The kernels, the kernel's selftests and the published
/// programs are got first, so that a download is seen and happens once.
fn tests(args: &Args, workspace: &Workspace, tools: &Tools, count: &mut TestCount) -> Result<()> {
    let kernel = Kernel::find(args.kernel.as_deref())?;
    println!("kernel: {}", kernel.release());
    let second = Kernel::find_second(args.second_kernel.as_deref(), args.kernels.as_deref())?;
    match &second {
        Some(second) => println!("second kernel: {}", second.image().display()),
        None => println!("second kernel: none (`cargo xtask kernel` builds one)"),
    }

    let newest = newest_kernel(args)?;
    if let Some(newest) = &newest {
        println!("newest kernel: {}", newest.release());
    }

    build_selftests(args, tools)?;
    published::build(workspace, tools).context("the published programs")?;

    let cores = thread::available_parallelism().map_or(1, usize::from);
    let scratch = tempfile::tempdir().context("making a directory for the tests")?;
    // Compiled first, with all the programs that tests run, where cargo has the
    // terminal for itself.
    workspace.build_all(tools)?;

    for draw in 1..=args.draws {
        if args.draws > 1 {
            println!("== draw {draw} of {}", args.draws);
        }
        count.draw = draw;
        let mut command = workspace.test_all(tools);
        command
            .env(SEED_ENV, draw.to_string())
            .env("RUST_TEST_THREADS", cores.to_string())
            .env("TMPDIR", scratch.path())
            .env(KERNEL_ENV, absolute(kernel.image())?);
        if let Some(second) = &second {
            command.env(SECOND_KERNEL_ENV, absolute(second.image())?);
        }
        if let Some(newest) = &newest {
            command.env(NEWEST_KERNEL_ENV, absolute(newest.image())?);
        }
        draw_once(&mut command, count)?;
    }
    ensure!(count.failed == 0, "{} failed", count.failed);
    Ok(())
}

/// Run all tests once.
fn draw_once(command: &mut Command, count: &mut TestCount) -> Result<()> {
    let nr_failed = count.failed;
    command
        .arg("--no-fail-fast")
        .arg(if io::stdout().is_terminal() {
            "--color=always"
        } else {
            "--color=never"
        });
    let status = process::follow(command, |line| {
        println!("{line}");
        count.add(&line);
    })?;
    if status.success() {
        return Ok(());
    }
    // Killed from outside, or by the kernel for want of memory: what was
    // counted is not all.
    ensure!(
        status.code().is_some(),
        "the tests were cut short ({status})"
    );
    ensure!(
        count.failed > nr_failed,
        "the tests did not run to their end"
    );
    Ok(())
}

/// The kernel's selftests. A machine that brings its own kernel need not be able
/// to get Debian's sources; the tests that would run them are named as not run.
fn build_selftests(args: &Args, tools: &Tools) -> Result<()> {
    match selftests::build(tools).context("the kernel's selftests") {
        Err(error) if args.kernel.is_some() && !interrupt::is_pressed() => {
            eprintln!("{}", crate::one_line(&error));
            Ok(())
        }
        result => result,
    }
}

/// Has the scheduler become worse than its baseline?
fn gate(args: &Args, workspace: &Workspace, tools: &Tools) -> Result<()> {
    let kernel: Vec<String> = match &args.kernel {
        Some(image) => vec!["--kernel".into(), image.display().to_string()],
        None => Vec::new(),
    };
    bench::gate(workspace, tools, &kernel)
}

/// Do the headline figures hold on the kernels that matter most?
fn scorecard(args: &Args, workspace: &Workspace, tools: &Tools) -> Result<()> {
    let mut kernels: Vec<Kernel> = Vec::new();
    match Kernel::find_second(args.second_kernel.as_deref(), args.kernels.as_deref())? {
        Some(oldest) => kernels.push(oldest),
        None => println!("oldest kernel: not run (`cargo xtask kernel` builds one)"),
    }
    kernels.push(Kernel::find(args.kernel.as_deref())?);
    kernels.extend(newest_kernel(args)?);
    kernels.dedup_by_key(|kernel| kernel.release().to_owned());
    let images: Vec<&Path> = kernels.iter().map(Kernel::image).collect();
    let card = scorecard::measure(workspace, tools, &images)?;
    let broken = card.broken();
    ensure!(broken.is_empty(), "not held on {}", broken.join(", "));
    Ok(())
}

/// The newest kernel of Debian that loads schedulers. A machine that brings its own kernel
/// need not be able to get it, which is said.
fn newest_kernel(args: &Args) -> Result<Option<Kernel>> {
    let newest = || -> Result<Kernel> {
        let offer = Offer::fetch_or_cached()?;
        Ok(offer.kernel(&offer.newest_good()?)?)
    };
    match newest() {
        Ok(kernel) => Ok(Some(kernel)),
        Err(error) if args.kernel.is_some() && !interrupt::is_pressed() => {
            println!("newest kernel: none ({})", crate::one_line(&error));
            Ok(None)
        }
        Err(error) => Err(error.context("the newest kernel")),
    }
}

/// Tests run in the directories of their crates.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("resolving {}", path.display()))
}

/// What a test says that does not test anything here: `skipped: NAME: WHY`.
const SKIPPED: &str = "skipped: ";

/// The sum of what the test programs report.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCount {
    passed: u64,
    failed: u64,
    /// Names of those that passed without testing anything, by reason.
    skipped: BTreeMap<String, BTreeSet<String>>,
    /// Which draw is counted.
    draw: u32,
    /// Names of those that failed, and in which draws.
    failures: BTreeMap<String, Vec<u32>>,
}

impl TestCount {
    /// Count `line` if it is a test program's last, `test result: ok. 3 passed; 0 failed; ...`,
    /// or a test says in it that it was skipped.
    fn add(&mut self, line: &str) {
        if let Some((_, skipped)) = line.split_once(SKIPPED)
            && let Some((name, reason)) = skipped.split_once(": ")
        {
            let names = self.skipped.entry(reason.to_string()).or_default();
            names.insert(name.to_string());
        }
        if let Some(name) = failed_name(line) {
            let draws = self.failures.entry(name.to_string()).or_default();
            draws.push(self.draw);
        }
        let Some((_, result)) = line.split_once("test result: ") else {
            return;
        };
        let number_before = |word: &str| {
            let (before, _) = result.split_once(word)?;
            before
                .trim()
                .rsplit(|c: char| !c.is_ascii_digit())
                .next()?
                .parse::<u64>()
                .ok()
        };
        self.passed += number_before(" passed").unwrap_or(0);
        self.failed += number_before(" failed").unwrap_or(0);
    }

    /// The sum as lines: what passed and failed, and what was not run and why.
    fn summary(&self) -> String {
        let nr_skipped = self.skipped.values().map(BTreeSet::len).sum::<usize>() as u64;
        let nr_skipped = nr_skipped * u64::from(self.draw.max(1));
        let passed = self.passed.saturating_sub(nr_skipped);
        let mut text = format!("{passed} passed, {} failed", self.failed);
        for (reason, names) in &self.skipped {
            let list: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("\n{} not run, {reason}: {}", names.len(), list.join(", "));
        }
        for (name, draws) in &self.failures {
            let draws: Vec<String> = draws.iter().map(u32::to_string).collect();
            text += &format!("\n{name} failed");
            if self.draw > 1 {
                text += &format!(" in draws {} of {}", draws.join(", "), self.draw);
            }
        }
        text
    }
}

/// The name in `test NAME ... FAILED`.
fn failed_name(line: &str) -> Option<&str> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    result.contains("FAILED").then_some(name)
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
    fn results_are_summed_over_the_test_programs() {
        let mut count = TestCount::default();
        count.add("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        count.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        count.add("test a_result ... ok");
        assert_eq!(count.summary(), "15 passed, 2 failed");
    }

    #[test]
    fn what_was_not_run_is_named_and_did_not_pass() {
        let mut count = TestCount::default();
        for line in [
            "skipped: share::on_the_second: no second kernel",
            "test share::on_the_second ... ok",
            "test waits::on_the_second ... skipped: waits::on_the_second: no second kernel",
            "test result: ok. 3 passed; 0 failed; 0 ignored",
        ] {
            count.add(line);
        }
        let expected = "1 passed, 0 failed\n\
                        2 not run, no second kernel: share::on_the_second, waits::on_the_second";
        assert_eq!(count.summary(), expected);
    }

    #[test]
    fn what_failed_is_named_with_its_draws() {
        let mut count = TestCount::default();
        for draw in 1..=3 {
            count.draw = draw;
            count.add(match draw {
                2 => "test a::b ... FAILED",
                _ => "test a::b ... ok",
            });
            count.add("test result: x. 1 passed; 1 failed; 0 ignored");
        }
        let expected = "3 passed, 3 failed\na::b failed in draws 2 of 3";
        assert_eq!(count.summary(), expected);
    }

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
