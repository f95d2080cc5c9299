// SPDX-License-Identifier: GPL-2.0
//! Scenarios right here, on the machine that this runs on.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_USEC, now_ns};
use crate::cost;
use crate::result::{Failure, RunResult, ScenarioResult};
use crate::scenario::{self, Scenario};
use crate::scheduler::{self, Scheduler};
use crate::session::Params;
use crate::system::{self, MachineCounters};
use crate::table;

/// The machine is quiet when it idles this much, in percent.
const QUIET_IDLE_PCT: u64 = 97;
/// Length of one look at that, in nanoseconds.
const QUIET_LOOK_NS: u64 = 200 * NSEC_PER_MSEC;
/// Looks before it is given up.
const QUIET_LOOKS: usize = 25;

/// Run scenarios on this machine.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// Scenarios, separated by commas; all of `scx_bench list` without it.
    #[arg(long, default_value = "all", value_name = "LIST")]
    pub scenario: String,
    /// Length of each measurement in seconds, instead of the scenario's own.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Shifts the start of every load by up to 20 ms.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Size the loads for this many CPUs instead of those online.
    #[arg(long, value_name = "N")]
    pub cpus: Option<usize>,
    /// Write everything found to this file; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print all figures, not only the headlines.
    #[arg(short, long)]
    pub verbose: bool,
    /// Wait until the machine idles before the first scenario.
    #[arg(long)]
    pub settle: bool,
    /// Count calls of the scheduler's callbacks and the time in them. Counting
    /// costs time itself.
    #[arg(long)]
    pub cost: bool,
    /// Run the measured threads in SCHED_FIFO: no wait of theirs is then due to a scheduler
    /// below that class. Real-time has costs of its own, which show where threads only switch,
    /// as in `pipe`. Needs root.
    #[arg(long)]
    pub fifo: bool,
    /// Delay every measured event by this much; tests look for it in the result.
    #[arg(long, default_value_t = 0, hide = true, value_name = "US")]
    pub inject_delay_us: u64,
    /// Leave out background loads.
    #[arg(long, hide = true)]
    pub no_load: bool,
    /// Start this scheduler before, and stop it after; a command line after `--`.
    /// Without it, whatever schedules now is measured.
    #[arg(last = true, value_name = "SCHEDULER")]
    pub scheduler: Vec<String>,
}

/// Run what `args` say, print a line for each scenario and write the result.
/// Returns whether everything has a result.
pub fn run(args: &RunArgs) -> Result<bool> {
    run_and(args, |_| Ok(()))
}

/// The same, and hand the result to `then` at the end.
pub fn run_and(args: &RunArgs, then: impl FnOnce(&RunResult) -> Result<()>) -> Result<bool> {
    let scenarios = scenario::select(&args.scenario)?;
    let params = params(args)?;
    let result = run_all(args, &scenarios, &params)?;
    for failure in &result.failures {
        let place = failure.scenario.as_deref().unwrap_or("start");
        table::say(&format!("{place:<12} FAILED: {}\n", failure.message))?;
    }
    if let Some(path) = &args.json {
        write_json(&result, path)?;
    }
    then(&result)?;
    Ok(result.failures.is_empty())
}

fn params(args: &RunArgs) -> Result<Params> {
    let cpus = args.cpus.unwrap_or_else(system::usable_cpus);
    if cpus == 0 {
        bail!("--cpus must be at least 1");
    }
    if args
        .seconds
        .is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite()))
    {
        bail!("--seconds must be a positive number");
    }
    if args.fifo && !nix::unistd::geteuid().is_root() {
        bail!("--fifo needs root");
    }
    Ok(Params {
        cpus,
        seconds: args.seconds,
        seed: args.seed,
        inject_ns: args.inject_delay_us * NSEC_PER_USEC,
        no_load: args.no_load,
        with_cost: args.cost,
        fifo: args.fifo,
    })
}

fn run_all(args: &RunArgs, scenarios: &[&Scenario], params: &Params) -> Result<RunResult> {
    system::lock_memory();
    let mut result = RunResult {
        kernel: kernel_release(),
        ..RunResult::default()
    };
    let mut scheduler = match start(args) {
        Ok(scheduler) => scheduler,
        Err(error) => {
            let message = format!("{error:#}");
            result.failures.push(Failure {
                scenario: None,
                message,
            });
            return Ok(result);
        }
    };
    result.scheduler = scheduler::active();
    if args.cost {
        cost::enable()?;
    }
    for scenario in scenarios {
        if let Err(error) = revive(args, &mut scheduler) {
            let message = format!("{error:#}");
            result.failures.push(Failure {
                scenario: Some(scenario.id.into()),
                message,
            });
            return Ok(result);
        }
        match run_one(scenario, params, scheduler.as_mut()) {
            Ok(found) => {
                let mut lines = vec![table::headline_line(&found)];
                if args.verbose {
                    lines.extend(table::detail_lines(&found));
                }
                table::say(&(lines.join("\n") + "\n"))?;
                result.scenarios.push(found);
            }
            Err(error) => {
                let message = format!("{error:#}");
                result.failures.push(Failure {
                    scenario: Some(scenario.id.into()),
                    message,
                });
            }
        }
    }
    if let Some(scheduler) = scheduler
        && let Err(error) = scheduler.stop()
    {
        result.failures.push(Failure {
            scenario: None,
            message: format!("{error:#}"),
        });
    }
    Ok(result)
}

/// Start the scheduler if one was named, and let the machine settle.
fn start(args: &RunArgs) -> Result<Option<Scheduler>> {
    if args.settle {
        settle()?;
    }
    if args.scheduler.is_empty() {
        return Ok(None);
    }
    let scheduler = Scheduler::start(&args.scheduler)?;
    if args.settle {
        settle()?;
    }
    Ok(Some(scheduler))
}

/// Start the scheduler again if it has failed in the last scenario.
fn revive(args: &RunArgs, scheduler: &mut Option<Scheduler>) -> Result<()> {
    let is_dead = scheduler
        .as_mut()
        .is_some_and(|scheduler| scheduler.check().is_err());
    if is_dead {
        // Dropped first: the old one has to be gone.
        *scheduler = None;
        *scheduler = start(args)?;
    }
    Ok(())
}

fn run_one(
    scenario: &Scenario,
    params: &Params,
    scheduler: Option<&mut Scheduler>,
) -> Result<ScenarioResult> {
    let found = scenario.run(params)?;
    if let Some(scheduler) = scheduler {
        scheduler.check()?;
    }
    Ok(found)
}

/// Wait until the machine has nothing to do; for a while, if it never has.
fn settle() -> Result<()> {
    let nr_cpus = system::usable_cpus() as u64;
    let mut before = MachineCounters::read()?;
    let mut before_ns = now_ns();
    for _ in 0..QUIET_LOOKS {
        clock::sleep_ns(QUIET_LOOK_NS);
        let (now, at_ns) = (MachineCounters::read()?, now_ns());
        let idle_ns = now.since(&before).idle_ns;
        if idle_ns * 100 >= (at_ns - before_ns) * nr_cpus * QUIET_IDLE_PCT {
            break;
        }
        (before, before_ns) = (now, at_ns);
    }
    Ok(())
}

/// Write `result` to `path`; `-` is standard output.
fn write_json(result: &RunResult, path: &Path) -> Result<()> {
    let json = serde_json::to_string(result).context("writing JSON")?;
    if path == Path::new("-") {
        return table::say(&(json + "\n"));
    }
    fs::write(path, json + "\n").with_context(|| format!("writing {}", path.display()))
}

/// Release of the running kernel.
pub fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_string()
}
