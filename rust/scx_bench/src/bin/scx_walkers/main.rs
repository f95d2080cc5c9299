// SPDX-License-Identifier: GPL-2.0
//! The part of `scx_bench guest --caches` that runs in the guest: one scenario that
//! gives caches something to lose.
//!
//! 1. Its processes start and touch their memory; timed ones begin at instants that
//!    the seed shifts.
//! 2. After a while the model of caches begins, empty, with a span called `warm`, and
//!    fills.
//! 3. Then a span with the name of the scenario: what ends in it is counted. When it
//!    is over, the counts are written, and all processes are killed.
//!
//! Spans begin and end by an instruction that does nothing where there is no model, so
//! it can be run anywhere. The thread that does it is in SCHED_FIFO: no scheduler below
//! that class has a say in how long a span is.
//!
//! Not here: what was counted of caches, and what becomes of both (`scx_bench`); the
//! scenarios without caches, whose program (`scx_workload`) has to stay the same to the
//! byte.

mod crew;
mod loads;
mod scenarios;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use scx_scenarios::clock::{self, NSEC_PER_MSEC};
use scx_scenarios::session::{Params, Session};
use scx_scenarios::system::{self, CpuMap};
use scx_scenarios::thread;
use serde::Serialize;

use crew::{Crew, Found};
use scenarios::{SCENARIOS, Scenario};

/// Load before the model begins, in nanoseconds: schedulers learn what their tasks are.
const LOAD_NS: u64 = 300 * NSEC_PER_MSEC;

/// From the begin of the model to the span that counts, in nanoseconds: some turns of
/// each task, which fill the caches.
const WARM_NS: u64 = 100 * NSEC_PER_MSEC;

/// Run a scenario that gives caches something to lose.
#[derive(Debug, Parser)]
struct Cli {
    /// Which one.
    #[arg(long, value_name = "ID", required_unless_present = "list")]
    scenario: Option<String>,
    /// Write the scenarios as JSON, and run none.
    #[arg(long)]
    list: bool,
    /// Length of the span in seconds, instead of the scenario's own.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Size the loads for this many CPUs instead of those online.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// Shifts the starts of timed tasks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write what was found to this file, as JSON; standard output without it.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A scenario, for who has to choose one.
#[derive(Debug, Serialize)]
struct Listed {
    id: &'static str,
    about: &'static str,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scx_walkers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    if cli.list {
        let list: Vec<Listed> = SCENARIOS
            .iter()
            .map(|of| Listed {
                id: of.id,
                about: of.about,
            })
            .collect();
        return write(&serde_json::to_string(&list)?, None);
    }
    let id = cli.scenario.as_deref().unwrap_or_default();
    let Some(scenario) = SCENARIOS.iter().find(|of| of.id == id) else {
        bail!("no scenario `{id}`");
    };
    let found = measure(scenario, cli)?;
    write(&serde_json::to_string(&found)?, cli.json.as_ref())
}

fn write(text: &str, path: Option<&PathBuf>) -> Result<()> {
    let text = format!("{text}\n");
    match path {
        Some(path) => fs::write(path, text).with_context(|| format!("writing {}", path.display())),
        None => scx_scenarios::table::say(&text),
    }
}

fn measure(scenario: &Scenario, cli: &Cli) -> Result<Found> {
    let seconds = cli.seconds.unwrap_or(scenario.seconds);
    if !(seconds > 0.0 && seconds.is_finite()) {
        bail!("--seconds must be a positive number");
    }
    let cpus = cli.cpus.unwrap_or_else(system::usable_cpus);
    if cpus == 0 {
        bail!("--cpus must be at least 1");
    }
    let params = Params {
        cpus,
        seconds: Some(seconds),
        seed: cli.seed,
        inject_ns: 0,
        no_load: false,
        with_cost: false,
        fifo: false,
    };
    let map = CpuMap::read().into();
    let session = Session::new(&params, map, LOAD_NS + WARM_NS, seconds);
    system::lock_memory();
    let mut crew = Crew::new(&session)?;
    (scenario.start)(&mut crew)?;
    // Not before: children are in the class of their parent.
    thread::be_measured(true);
    crew.wait_until_ready()?;

    clock::sleep_until_ns(session.from_ns - WARM_NS);
    crew::begin_span("warm");
    clock::sleep_until_ns(session.from_ns);
    crew::begin_span(scenario.id);
    crew.count(true);
    clock::sleep_until_ns(session.to_ns);
    crew.count(false);
    crew::end_span();
    crew.found(scenario.id)
}
