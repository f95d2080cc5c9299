// SPDX-License-Identifier: GPL-2.0
//! The tests that boot a kernel: which kernels, which tests, how often.
//!
//! A guest is emulated by one host thread: with as many tests at a time as there are
//! cores, no guest waits for a core. Temporary files of the tests live in one directory
//! that is gone at the end, however the tests ended.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::thread;

use anyhow::{Context, Result, ensure};
use scx_guest::Kernel;
use scx_guest::debian::Offer;

use crate::count::TestCount;
use crate::interrupt;
use crate::process;
use crate::published;
use crate::selftests;
use crate::setup::Tools;
use crate::workspace::Workspace;

/// The test programs that boot kernels, by the names that they have in any crate: those of
/// the scheduler and of the guest, and those of the caches that a guest may have.
pub const TARGETS: &[&str] = &["guest", "caches"];

/// Tell the guest tests which kernels to boot.
const KERNEL_ENV: &str = "SCX_GUEST_KERNEL";
const OLDEST_ENV: &str = "SCX_GUEST_KERNEL_2";
const NEWEST_ENV: &str = "SCX_GUEST_KERNEL_3";

/// Tells the guest tests what to shift the phases of their guests by; 1 without it.
const SEED_ENV: &str = "SCX_GUEST_SEED";

/// Names a file to which each guest test adds a line, `SECONDS NAME`.
const TIMES_ENV: &str = "SCX_GUEST_TIMES";

/// So many of the slowest tests are named.
const NR_SLOWEST: usize = 10;

/// Which guest tests to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel image for the guest tests, instead of the one that is found or downloaded
    #[arg(long, value_name = "PATH", env = KERNEL_ENV)]
    pub kernel: Option<PathBuf>,
    /// Another kernel image, the oldest, for the tests that run on it [env: SCX_GUEST_KERNEL_2]
    #[arg(long, value_name = "PATH")]
    second_kernel: Option<PathBuf>,
    /// Directories to take the other image from, like PATH with colons between them: the first
    /// `vmlinuz-*`. Without either, what `cargo xtask kernel` built [env: SCX_GUEST_KERNELS]
    #[arg(long, value_name = "DIRS", conflicts_with = "second_kernel")]
    kernels: Option<OsString>,
    /// Run the guest tests of one kernel only
    #[arg(long, value_enum, value_name = "KERNEL")]
    on: Option<On>,
    /// Run a part of the guest tests: every N-th, from the K-th on
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Run the guest tests so often, each time with other seeds of the guests, and say which
    /// failed in which of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
}

/// A kernel by what it is for the tests: the end of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// The long-term kernel, on which all run but few; see --kernel
    Lts,
    /// The oldest with sched_ext; see --second-kernel
    Oldest,
    /// The newest that loads schedulers
    Newest,
}

impl On {
    fn is_of(self, test: &str) -> bool {
        match self {
            On::Oldest => test.ends_with("::oldest"),
            On::Newest => test.ends_with("::newest"),
            On::Lts => !On::Oldest.is_of(test) && !On::Newest.is_of(test),
        }
    }
}

/// One part of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    /// From 1.
    nr: usize,
    nr_all: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parse = || {
            let (nr, nr_all) = text.split_once('/')?;
            let shard = Shard {
                nr: nr.parse().ok()?,
                nr_all: nr_all.parse().ok()?,
            };
            (1..=shard.nr_all).contains(&shard.nr).then_some(shard)
        };
        parse().ok_or_else(|| "two numbers, such as 1/4".to_owned())
    }
}

/// The kernels that matter most.
pub struct Kernels {
    /// The long-term one.
    pub lts: Kernel,
    /// The oldest that has sched_ext, if there is an image of it.
    pub oldest: Option<Kernel>,
    /// The newest that loads schedulers.
    pub newest: Option<Kernel>,
}

impl Kernels {
    /// Find or download them, and say which they are.
    pub fn find(args: &Args) -> Result<Kernels> {
        let kernels = Kernels {
            lts: Kernel::find(args.kernel.as_deref())?,
            oldest: Kernel::find_second(args.second_kernel.as_deref(), args.kernels.as_deref())?,
            newest: newest_kernel(args)?,
        };
        println!("kernel: {}", kernels.lts.release());
        match &kernels.oldest {
            Some(oldest) => println!("oldest kernel: {}", oldest.release()),
            None => println!("oldest kernel: not run (`cargo xtask kernel` builds one)"),
        }
        if let Some(newest) = &kernels.newest {
            println!("newest kernel: {}", newest.release());
        }
        Ok(kernels)
    }
}

/// Run the guest tests. The kernels, the kernel's selftests and the published programs are
/// got first, so that a download is seen and happens once.
pub fn run(args: &Args, workspace: &Workspace, tools: &Tools, count: &mut TestCount) -> Result<()> {
    let kernels = Kernels::find(args)?;
    build_selftests(args, tools)?;
    published::build(workspace, tools).context("the published programs")?;

    let cores = thread::available_parallelism().map_or(1, usize::from);
    let scratch = tempfile::tempdir().context("making a directory for the tests")?;
    let times = scratch.path().join("times");
    // Compiled first, with all the programs that tests run, where cargo has the
    // terminal for itself.
    workspace.build_all(tools)?;
    let names = match (args.on, args.shard) {
        (None, None) => Vec::new(),
        (on, shard) => {
            let names = chosen(&names(workspace, tools)?, on, shard);
            // None at all would be taken for all of them.
            ensure!(!names.is_empty(), "no guest test is in that part");
            names
        }
    };

    let mut nr_failed = 0;
    for draw in 1..=args.draws {
        if args.draws > 1 {
            println!("== draw {draw} of {}", args.draws);
        }
        count.draw = draw;
        let mut command = guest_tests(workspace, tools);
        command
            .env(SEED_ENV, draw.to_string())
            .env("RUST_TEST_THREADS", cores.to_string())
            .env("TMPDIR", scratch.path())
            .env(TIMES_ENV, &times)
            .env(KERNEL_ENV, absolute(kernels.lts.image())?);
        for (env, kernel) in [(OLDEST_ENV, &kernels.oldest), (NEWEST_ENV, &kernels.newest)] {
            if let Some(kernel) = kernel {
                command.env(env, absolute(kernel.image())?);
            }
        }
        nr_failed += count.run(&mut command, &names)?;
    }
    let times = fs::read_to_string(&times).unwrap_or_default();
    for (seconds, name) in slowest(&times) {
        println!("{seconds:>8.1} s  {name}");
    }
    ensure!(nr_failed == 0, "{nr_failed} failed");
    Ok(())
}

/// The test programs that boot kernels.
fn guest_tests(workspace: &Workspace, tools: &Tools) -> Command {
    let mut command = workspace.test_all(tools);
    for target in TARGETS {
        command.args(["--test", target]);
    }
    command
}

/// The names of all guest tests.
fn names(workspace: &Workspace, tools: &Tools) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut command = guest_tests(workspace, tools);
    let status = process::follow(command.args(["--", "--list"]), |line| {
        names.extend(line.strip_suffix(": test").map(str::to_owned));
    })?;
    ensure!(status.success(), "the guest tests cannot be listed");
    Ok(names)
}

/// Those of `names` that run on `on`, and of them `shard`.
fn chosen(names: &[String], on: Option<On>, shard: Option<Shard>) -> Vec<String> {
    let Shard { nr, nr_all } = shard.unwrap_or(Shard { nr: 1, nr_all: 1 });
    let of_kernel = names
        .iter()
        .filter(|name| on.is_none_or(|on| on.is_of(name)));
    of_kernel.skip(nr - 1).step_by(nr_all).cloned().collect()
}

/// The slowest of lines `SECONDS NAME`, the slowest first.
fn slowest(times: &str) -> Vec<(f64, &str)> {
    let parse = |line: &'_ str| -> Option<(f64, usize)> {
        let (seconds, _) = line.split_once(' ')?;
        Some((seconds.parse().ok()?, seconds.len() + 1))
    };
    let mut all: Vec<(f64, &str)> = times
        .lines()
        .filter_map(|line| parse(line).map(|(seconds, at)| (seconds, &line[at..])))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(NR_SLOWEST);
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_tests_is_chosen_by_kernel_and_number() {
        let names = [
            "a::b::lts",
            "a::b::oldest",
            "a::c::lts",
            "a::d",
            "a::d::newest",
        ];
        let names = names.map(str::to_owned);
        let shard = |text: &str| Some(text.parse().expect("a shard"));
        assert_eq!(chosen(&names, None, None), names);
        assert_eq!(chosen(&names, Some(On::Oldest), None), ["a::b::oldest"]);
        assert_eq!(chosen(&names, Some(On::Lts), shard("2/2")), ["a::c::lts"]);
        let of_all = |text| chosen(&names, None, shard(text));
        let mut both = [of_all("1/2"), of_all("2/2")].concat();
        both.sort();
        assert_eq!(both, names);
    }

    #[test]
    fn a_shard_that_is_none_is_refused() {
        for text in ["", "1", "0/2", "3/2", "a/b", "1/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_slowest_tests_are_named_first() {
        let times = "2.5 a::b\n10.0 c\n\nnonsense\n0.1 d";
        assert_eq!(slowest(times), [(10.0, "c"), (2.5, "a::b"), (0.1, "d")]);
    }
}
