// SPDX-License-Identifier: GPL-2.0
//! The command line of the bench: one program, a command for each thing to do.
//!
//! Not here: what runs in the guest (`bin/scx_workload`).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use scx_bench::caches;
use scx_bench::dataset::Dataset;
use scx_bench::gate::{self, GateArgs};
use scx_bench::guest::{self, GuestArgs};
use scx_bench::host::{self, HostArgs};
use scx_bench::interrupt;
use scx_bench::lines::{self, LinesArgs};
use scx_bench::prometheus;
use scx_bench::report::{self, ReportArgs};
use scx_bench::run::{self, RunArgs};
use scx_bench::scenario::{EXTRA_SCENARIOS, SCENARIOS};
use scx_bench::scorecard::{self, ScorecardArgs};
use scx_bench::table;

/// Measure how CPU schedulers compare.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Describe the scenarios.
    List(ListArgs),
    /// Run scenarios here, under the scheduler that is active now or one to start.
    Run(HereArgs),
    /// Run scenarios under each scheduler in the deterministic guest, and compare.
    Guest(Box<GuestArgs>),
    /// Run scenarios under each scheduler on this machine, and compare.
    Host(HostArgs),
    /// Measure one scheduler in the guest and compare it with its baseline.
    Gate(GateArgs),
    /// Hold a scheduler to its bounds in the guest, on several kernels.
    Scorecard(ScorecardArgs),
    /// Measure what a cache line costs on this machine's CPUs.
    Lines(LinesArgs),
    /// Join results and show them: as tables, as a page, for Prometheus.
    Report(ReportArgs),
}

/// Which scenarios.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Those of `guest --caches` instead.
    #[arg(long)]
    caches: bool,
}

/// What the workload program knows, and what only this one does.
#[derive(Debug, clap::Args)]
struct HereArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Write the figures to this file, in the text format of Prometheus.
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = interrupt::install().and_then(|()| dispatch(cli));
    interrupt::end_here_if_pressed();
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scx_bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything has a result.
fn dispatch(cli: Cli) -> Result<bool> {
    match cli.command {
        Command::List(args) => {
            match args.caches {
                true => list_caches()?,
                false => list()?,
            }
            Ok(true)
        }
        Command::Run(args) => run::run_and(&args.run, |result| match &args.prometheus {
            Some(path) => prometheus::write(&Dataset::of_run(result.clone()), path),
            None => Ok(()),
        }),
        Command::Guest(args) => guest::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Scorecard(args) => scorecard::run(&args),
        Command::Lines(args) => {
            lines::run(&args)?;
            Ok(true)
        }
        Command::Report(args) => report::run(&args),
    }
}

fn list() -> Result<()> {
    let mut text = format!(
        "N is the number of CPUs; a hog is a task that never sleeps. What comes after {} is run only \
         by name; `external` is all of it that runs other projects' programs.\n",
        SCENARIOS.last().map_or("", |scenario| scenario.id)
    );
    for scenario in SCENARIOS.iter().chain(EXTRA_SCENARIOS) {
        let length = match scenario.seconds {
            0.0 => "as long as it takes".to_string(),
            seconds => format!("{seconds} s"),
        };
        text += &format!("\n{} ({length})\n", scenario.id);
        text += &format!("    {}\n", scenario.about);
    }
    table::say(&text)
}

fn list_caches() -> Result<()> {
    let mut text = "N is the number of CPUs; a hog is a task that never sleeps.\n".to_string();
    for scenario in caches::list()? {
        text += &format!("\n{}\n    {}\n", scenario.id, scenario.about);
    }
    table::say(&text)
}
