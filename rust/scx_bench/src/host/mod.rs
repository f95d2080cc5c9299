// SPDX-License-Identifier: GPL-2.0
//! `scx_bench host`: the scenarios under each scheduler, on this machine.
//!
//!   1. What cannot work is refused before anything is changed: a kernel
//!      without sched_ext, a scheduler that is running already, a program or
//!      a CPU that is missing.
//!   2. For each number of CPUs, a round through all schedulers is thrown away
//!      to warm caches and clocks up, then the rounds that count follow. In a
//!      round the schedulers take turns, so that whatever drifts with time
//!      meets all alike.
//!   3. Each turn is a process of its own that starts the scheduler, runs the
//!      scenarios and stops it. Between turns the kernel's own schedules.
//!   4. The machine is left as it was found, whatever happens (`interrupt`,
//!      `hotplug`).
//!
//! Here figures differ from repeat to repeat, so each is told with its
//! confidence interval (`summary`, `interval`); `noise` says what makes them
//! differ.
//!
//! Not here: what runs in a turn (`run`), the guest (`guest`).

mod hotplug;
mod interval;
pub(crate) mod noise;
mod summary;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::candidate::{self, Candidate, failed};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, now_ns};
use crate::dataset::{Dataset, Sample};
use crate::interrupt;
use crate::output::{OutputArgs, Repeat};
use crate::result::RunResult;
use crate::run;
use crate::scenario::{self, Scenario};
use crate::scheduler;
use crate::spec::{Source, Spec, SpecArgs};
use crate::store;
use crate::table;
use crate::text;
use crate::tool::Running;

/// Length of each measurement in the round that is thrown away, in seconds.
const WARMUP_SECONDS: f64 = 0.3;

/// How long the kernel may take to be without a scheduler after a turn.
const GONE_LIMIT_NS: u64 = 10 * NSEC_PER_SEC;
/// Between two looks at that.
const GONE_POLL_NS: u64 = 50 * NSEC_PER_MSEC;

/// Measure schedulers on this machine.
#[derive(Debug, Clone, clap::Args)]
pub struct HostArgs {
    /// Which schedulers.
    #[command(flatten)]
    pub sched: SpecArgs,
    /// Scenarios, separated by commas; see `scx_bench list`.
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub scenario: String,
    /// Length of each measurement in seconds, instead of the scenario's own.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// How often everything is measured, after a round that is thrown away.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeats: u64,
    /// Numbers of CPUs, separated by commas: the first ones stay online, the others are taken
    /// offline for that long. Needs root.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// What is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// One scheduler's turn in a round.
struct Turn<'a> {
    candidate: &'a Candidate,
    cpus: usize,
    /// From 1; 0 is the one that is thrown away.
    repeat: u64,
}

/// Measure what `args` say, print the tables and write the results. Returns
/// whether everything has a result.
pub fn run(args: &HostArgs) -> Result<bool> {
    let scenarios = scenario::select(&args.scenario)?;
    scenarios
        .iter()
        .try_for_each(|scenario| scenario.check_tools())?;
    let specs = args.sched.specs()?;
    check_machine(args, &specs)?;
    // Found out now rather than when everything has been measured.
    if let Some(dir) = &args.output.out {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    let release = run::kernel_release();
    let cache = store::cache_dir()?;
    let (candidates, unbuilt) = candidate::find_all(&specs, &release, &cache, |_| false)?;
    for warning in noise::warnings()? {
        table::say(&format!("noise: {warning}\n"))?;
    }
    let samples = run_all(args, &scenarios, &candidates)?;
    let measured = candidates.iter().map(|candidate| &candidate.spec);
    let dataset = Dataset {
        seeds: args.repeats,
        command: args.command(&specs),
        subject: args.output.subject(&specs),
        samples: unbuilt.into_iter().chain(samples).collect(),
        ..Dataset::new(&release, measured)
    };
    let said = table::say(&(text::tables(&dataset) + &summary::text(&dataset)));
    let written = args.output.write(&dataset);
    written.or_else(|error| rescue_results(&dataset, error))?;
    said?;
    Ok(dataset.is_whole())
}

/// An error if this machine cannot do what `args` ask for.
fn check_machine(args: &HostArgs, specs: &[Spec]) -> Result<()> {
    if args.repeats == 0 {
        bail!("--repeats must be at least 1");
    }
    let others: Vec<&str> = specs
        .iter()
        .filter(|spec| !matches!(spec.source, Source::Kernel | Source::Limit))
        .map(|spec| spec.name.as_str())
        .collect();
    let is_root = nix::unistd::geteuid().is_root();
    if !others.is_empty() && !scheduler::is_supported() {
        bail!(
            "Linux {} has no sched_ext, so it cannot run {}; `--sched default` runs here, and \
             `scx_bench guest` runs all of them in a kernel that has it",
            run::kernel_release(),
            others.join(", ")
        );
    }
    if !others.is_empty() && !is_root {
        bail!("loading a scheduler needs root: {}", others.join(", "));
    }
    if specs.iter().any(|spec| spec.source == Source::Limit) && !is_root {
        bail!("threads of SCHED_FIFO, for the limit, need root");
    }
    if scheduler::is_enabled() {
        bail!(
            "the sched_ext scheduler `{}` is running; stop it first (if a service started it: \
             systemctl stop scx_loader, or scx), and start it again afterwards",
            scheduler::active()
        );
    }
    if !args.cpus.is_empty() && !is_root {
        bail!("taking CPUs offline for --cpus needs root");
    }
    args.cpus
        .iter()
        .try_for_each(|&nr_cpus| hotplug::check(nr_cpus))
}

/// All turns of all rounds, in order; the samples of those that count.
fn run_all(
    args: &HostArgs,
    scenarios: &[&Scenario],
    candidates: &[Candidate],
) -> Result<Vec<Sample>> {
    let all = hotplug::online()?.len();
    let cpu_numbers = if args.cpus.is_empty() {
        vec![all]
    } else {
        args.cpus.clone()
    };
    let nr_turns = cpu_numbers.len() as u64 * args.repeats * candidates.len() as u64;
    let mut samples = Vec::new();
    for cpus in cpu_numbers {
        let _offline = match cpus == all {
            true => None,
            false => Some(hotplug::leave(cpus)?),
        };
        for repeat in 0..=args.repeats {
            for candidate in candidates {
                let turn = Turn {
                    candidate,
                    cpus,
                    repeat,
                };
                eprintln!("{}", turn.announcement(samples.len() as u64, nr_turns));
                let result = turn.run(args, scenarios)?;
                if repeat > 0 {
                    samples.push(turn.sample(result));
                }
            }
        }
    }
    Ok(samples)
}

impl HostArgs {
    /// What to type to get the same again.
    fn command(&self, specs: &[Spec]) -> String {
        let mut options = format!("--repeats {}", self.repeats);
        if !self.cpus.is_empty() {
            let numbers: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            options.push_str(&format!(" --cpus {}", numbers.join(",")));
        }
        self.output.repeat(&Repeat {
            program: "scx_bench host",
            options,
            specs,
            scenario: &self.scenario,
            seconds: self.seconds,
        })
    }
}

impl Turn<'_> {
    fn announcement(&self, done: u64, of: u64) -> String {
        let name = &self.candidate.spec.name;
        match self.repeat {
            0 => format!("warm-up: {name}, {} CPUs", self.cpus),
            repeat => format!(
                "{} of {of}: {name}, {} CPUs, repeat {repeat}",
                done + 1,
                self.cpus
            ),
        }
    }

    /// Run the scenarios in a process of their own and read what it found.
    fn run(&self, args: &HostArgs, scenarios: &[&Scenario]) -> Result<RunResult> {
        let report = tempfile::tempfile().context("opening a file for a result")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), report.as_raw_fd());
        let here = std::env::current_exe().context("finding this program")?;
        let running = Running::start(&here, &self.words(args, scenarios, &path), Path::new("/"))?;
        let outcome = running.join();
        interrupt::end_here_if_pressed();
        let result = match (read_report(&report), outcome) {
            (Some(result), _) => result,
            (None, Err(error)) => failed(&format!("{error:#}")),
            (None, Ok((text, _))) => failed(&format!("no result was written: {text}")),
        };
        wait_until_gone()?;
        Ok(result)
    }

    fn words(&self, args: &HostArgs, scenarios: &[&Scenario], report: &str) -> Vec<String> {
        let ids: Vec<&str> = scenarios.iter().map(|scenario| scenario.id).collect();
        let seconds = match self.repeat {
            0 => Some(WARMUP_SECONDS),
            _ => args.seconds,
        };
        let mut words = vec![
            "run".to_string(),
            "--settle".to_string(),
            format!("--cpus={}", self.cpus),
            format!("--seed={}", self.repeat),
            format!("--scenario={}", ids.join(",")),
            format!("--json={report}"),
        ];
        words.extend(seconds.map(|seconds| format!("--seconds={seconds}")));
        if self.candidate.spec.source == Source::Limit {
            words.push("--fifo".to_string());
        }
        if let Some(program) = &self.candidate.program {
            let path = program.path.to_string_lossy().into_owned();
            words.extend(["--".to_string(), path]);
            words.extend(program.args.iter().cloned());
        }
        words
    }

    fn sample(&self, result: RunResult) -> Sample {
        Sample {
            scheduler: self.candidate.spec.name.clone(),
            // Each number of CPUs has a table of its own.
            topology: format!("host:{}", self.cpus),
            cpus: self.cpus as u32,
            seed: self.repeat,
            result,
        }
    }
}

fn read_report(report: &File) -> Option<RunResult> {
    serde_json::from_reader(report).ok()
}

/// Wait until the kernel's own scheduler schedules again: whatever came next
/// would be measured under the wrong one.
fn wait_until_gone() -> Result<()> {
    let limit_ns = now_ns() + GONE_LIMIT_NS;
    while scheduler::is_enabled() {
        if now_ns() >= limit_ns {
            bail!(
                "the scheduler `{}` stays although its program has ended",
                scheduler::active()
            );
        }
        clock::sleep_ns(GONE_POLL_NS);
    }
    Ok(())
}

/// Results that could not be written where they should be go elsewhere, since
/// the same cannot be measured again. An error in any case.
fn rescue_results(dataset: &Dataset, error: anyhow::Error) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("scx_bench-{}", std::process::id()));
    match dataset.write(&dir) {
        Ok(()) => Err(error),
        Err(_) => {
            table::say(&(serde_json::to_string(dataset)? + "\n"))?;
            Err(error.context("the results stand above, as JSON"))
        }
    }
}
