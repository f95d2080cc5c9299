// SPDX-License-Identifier: GPL-2.0
//! `scx_bench guest`: the scenarios under each scheduler, in the deterministic
//! guest.
//!
//! What is measured, under which schedulers, and what is written of it. A
//! scheduler that cannot be built, does not load or fails on the way is reported
//! with its message, never as a result.
//!
//! Not here: how the guests are run (`boots`), how results are shown.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use scx_guest::{Kernel, Topology};

use crate::boots::{self, Bench, Candidate};
use crate::cache::{self, Store};
use crate::compare;
use crate::dataset::{Dataset, Sample};
use crate::kept::Kept;
use crate::output::{OutputArgs, Repeat};
use crate::result::{Failure, RunResult};
use crate::scenario;
use crate::spec::{self, Source, Spec};
use crate::table;

/// Measure schedulers in the deterministic guest.
#[derive(Debug, Clone, clap::Args)]
pub struct GuestArgs {
    /// Schedulers: `default` (the kernel's), published ones by name, `peers` for all of those,
    /// and `NAME=PATH ARGS` for a program of this machine. Separated by commas; repeatable.
    #[arg(long, value_name = "LIST", default_value = spec::DEFAULT)]
    pub sched: Vec<String>,
    /// Numbers of CPUs, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4")]
    pub cpus: Vec<u32>,
    /// Topologies instead, as NODESxLLCSxCORESxTHREADS, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub topology: Vec<Topology>,
    /// Samples of each figure: seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seeds: u64,
    /// Scenarios, separated by commas; see `scx_bench list`.
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub scenario: String,
    /// Length of each measurement in seconds, instead of the scenario's own.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Kernel image instead of the one that the guest chooses.
    #[arg(long, value_name = "PATH")]
    pub kernel: Option<PathBuf>,
    /// What is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Take results from this directory, and put new ones there: small files to be committed,
    /// found again on any machine. What they depend on is in them.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// What stands for the program of a `--sched NAME=PATH` in `--results`, such as a digest of
    /// its sources: its bytes differ from machine to machine. Repeatable.
    #[arg(long, value_name = "NAME=TEXT", requires = "results")]
    pub identity: Vec<String>,
    /// Guests that run at the same time.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Measure what the callbacks cost instead, in instructions. Busy CPUs share the clock, so
    /// that is exact with `--cpus 1`, or where the others idle (pipe_idle); else each callback
    /// contains what they did meanwhile. Counting itself costs some: keep the other figures apart.
    #[arg(long)]
    pub cost: bool,
    /// Measure again what has been measured already, and fail if it differs.
    #[arg(long)]
    pub again: bool,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// All of it.
    pub results: Dataset,
    is_unkept: bool,
}

/// Measure what `args` say, print the tables and write the results. Returns
/// whether everything has a result.
pub fn run(args: &GuestArgs) -> Result<bool> {
    let measured = measure(args)?;
    let results = &measured.results;
    let said = table::say(&(compare::tables(results) + &compare::costs(results)));
    args.output.write(results, &args.sched)?;
    said?;
    measured.check_kept()?;
    Ok(results.is_whole())
}

/// Measure what `args` say, or take it from where it is kept.
pub fn measure(args: &GuestArgs) -> Result<Measured> {
    let specs = spec::parse_all(&args.sched)?;
    let cache_dir = cache::default_dir()?;
    let topologies = topologies(args)?;
    let identities = identities(args, &specs)?;
    let (candidates, unbuilt) = find_programs(specs, &cache_dir);
    let mut bench = Bench {
        kernel: Kernel::find(args.kernel.as_deref())?,
        workload: boots::find_workload()?,
        scenarios: scenario::select(&args.scenario)?,
        args,
        store: Store::open(&cache_dir.join("results"))?,
        kept: args.results.as_deref().map(Kept::open).transpose()?,
        progress: ProgressBar::hidden(),
        is_unkept: AtomicBool::new(false),
    };
    let qemu = boots::qemu_version()?;
    let boots = bench.plan(&candidates, &topologies, &qemu, &identities)?;
    let mut results = Dataset {
        kernel: bench.kernel.release().to_string(),
        qemu,
        seeds: args.seeds,
        command: args.command(),
        schedulers: candidates
            .iter()
            .map(|c| (c.spec.name.clone(), c.spec.describe()))
            .collect(),
        samples: unbuilt,
    };
    results.samples.extend(bench.run_all(boots)?);
    Ok(Measured {
        results,
        is_unkept: bench.is_unkept.into_inner(),
    })
}

impl Measured {
    /// An error if a result could not be kept. For the end: the figures are there
    /// all the same.
    pub fn check_kept(&self) -> Result<()> {
        if self.is_unkept {
            bail!("not all results could be kept; they would be measured again");
        }
        Ok(())
    }
}

impl GuestArgs {
    /// What to type to get the same again.
    fn command(&self) -> String {
        let machines = match self.topology.is_empty() {
            true => format!("--cpus {}", join(&self.cpus)),
            false => format!("--topology {}", join(&self.topology)),
        };
        self.output.repeat(&Repeat {
            program: "scx_bench guest",
            options: format!("{machines} --seeds {}", self.seeds),
            sched: &self.sched,
            scenario: &self.scenario,
            seconds: self.seconds,
        })
    }
}

fn topologies(args: &GuestArgs) -> Result<Vec<Topology>> {
    let topologies = if args.topology.is_empty() {
        args.cpus.iter().map(|&cpus| Topology::flat(cpus)).collect()
    } else {
        args.topology.clone()
    };
    topologies.iter().try_for_each(Topology::check)?;
    if args.seeds == 0 {
        bail!("--seeds must be at least 1");
    }
    Ok(topologies)
}

/// (scheduler, what stands for its program) as stated by the user.
fn identities(args: &GuestArgs, specs: &[Spec]) -> Result<Vec<(String, String)>> {
    let parse = |text: &String| {
        let (name, identity) = text
            .split_once('=')
            .with_context(|| format!("`{text}` is not NAME=TEXT"))?;
        if !specs.iter().any(|spec| spec.name == name) {
            bail!("--identity names `{name}`, which is not measured");
        }
        Ok((name.to_string(), identity.to_string()))
    };
    args.identity.iter().map(parse).collect()
}

fn join<T: ToString>(items: &[T]) -> String {
    let words: Vec<String> = items.iter().map(T::to_string).collect();
    words.join(",")
}

/// The program of each scheduler, built where necessary; samples that say why
/// for those that have none.
fn find_programs(specs: Vec<Spec>, cache: &Path) -> (Vec<Candidate>, Vec<Sample>) {
    let mut candidates = Vec::new();
    let mut unbuilt = Vec::new();
    for spec in specs {
        let (program, args) = match &spec.source {
            Source::Kernel => (Ok(None), Vec::new()),
            Source::Published(peer) => (peer.program(cache).map(Some), Vec::new()),
            Source::Program { path, args } => (Ok(Some(path.clone())), args.clone()),
        };
        match program {
            Ok(program) => candidates.push(Candidate {
                spec,
                program,
                args,
            }),
            Err(error) => {
                let failure = Failure {
                    scenario: None,
                    message: format!("{error:#}"),
                };
                unbuilt.push(Sample {
                    scheduler: spec.name,
                    topology: String::new(),
                    cpus: 0,
                    seed: 0,
                    result: RunResult {
                        failures: vec![failure],
                        ..RunResult::default()
                    },
                });
            }
        }
    }
    (candidates, unbuilt)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: GuestArgs,
    }

    fn parse(words: &[&str]) -> GuestArgs {
        Cli::parse_from(std::iter::once(&"guest").chain(words)).args
    }

    #[test]
    fn the_command_repeats_the_run_without_paths_of_this_machine() {
        let args = parse(&[
            "--sched=default,scx_flash",
            "--sched=mine=/bin/sh -v",
            "--cpus=2,4",
            "--seconds=0.5",
        ]);
        assert_eq!(
            args.command(),
            "scx_bench guest --cpus 2,4 --seeds 3 --sched default --sched scx_flash \
             --sched 'mine=sh -v' --seconds 0.5"
        );
    }

    #[test]
    fn who_starts_the_bench_adds_the_subject_itself() {
        let args = parse(&[
            "--sched=default",
            "--sched=mine=/bin/sh",
            "--subject=mine",
            "--command=make bench",
        ]);
        assert_eq!(
            args.command(),
            "make bench --cpus 4 --seeds 3 --sched default"
        );
    }

    #[test]
    fn an_identity_belongs_to_a_scheduler_that_is_measured() {
        let specs = spec::parse_all(&["mine=/bin/sh".to_string()]).unwrap();
        let of = |identity: &str| {
            let words = ["--results=x", "--identity", identity];
            identities(&parse(&words), &specs)
        };
        assert_eq!(
            of("mine=abc").unwrap(),
            [("mine".to_string(), "abc".to_string())]
        );
        assert!(of("other=abc").is_err());
        assert!(of("abc").is_err());
    }
}
