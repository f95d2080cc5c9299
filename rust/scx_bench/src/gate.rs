// SPDX-License-Identifier: GPL-2.0
//! `scx_bench gate`: has a scheduler become worse than its baseline?
//!
//! A few scenarios, short and in the guest; how it is judged is in `baseline`.
//! The baseline says itself what is run, so that both are always the same.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::baseline::{self, Baseline, Plan};
use crate::dataset::Dataset;
use crate::guest::{self, GuestArgs, Measured};
use crate::output::OutputArgs;
use crate::result::Failure;
use crate::table;

/// What is run for a first baseline: a latency, a storm, deadlines of both
/// kinds, a round trip, a start, weights and starvation. About 100 s of wall
/// time with two guests at a time.
const SCENARIOS: &[&str] = &[
    "saturation",
    "storm",
    "frames60",
    "audio",
    "pipe",
    "launch",
    "nice",
    "flood",
];
const CPUS: u32 = 4;
const SECONDS: f64 = 1.5;
const BASELINE_SEEDS: u64 = 8;
const SEEDS: u64 = 4;

/// Compare a scheduler with its baseline.
#[derive(Debug, Clone, clap::Args)]
pub struct GateArgs {
    /// File with the baseline. It says what is run: to change that, change `plan` in it and
    /// update.
    #[arg(long, value_name = "FILE")]
    pub baseline: PathBuf,
    /// The scheduler, as in `scx_bench guest`.
    #[arg(long, value_name = "NAME=PATH ARGS")]
    pub sched: String,
    /// Measure the baseline anew and write it.
    #[arg(long)]
    pub update: bool,
    /// Kernel image instead of the one that the guest chooses.
    #[arg(long, value_name = "PATH")]
    pub kernel: Option<PathBuf>,
    /// Guests that run at the same time.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Measure again what has been measured already, and fail if it differs.
    #[arg(long)]
    pub again: bool,
}

/// Measure, print the table, and return whether nothing has become worse; or
/// write the baseline.
pub fn run(args: &GateArgs) -> Result<bool> {
    if args.update {
        return update(args);
    }
    let baseline = Baseline::read(&args.baseline)?;
    let measured = measure(args, &baseline.plan, baseline.plan.seeds)?;
    let results = &measured.results;
    let checks = baseline.check(results);
    let mut text = format!("\n{}", baseline::table(&checks));
    if (&baseline.kernel, &baseline.qemu) != (&results.kernel, &results.qemu) {
        text += &format!(
            "\nThe baseline was measured on Linux {} in {}; this is Linux {} in {}.\n",
            baseline.kernel, baseline.qemu, results.kernel, results.qemu
        );
    }
    let failures = failures(results);
    failures
        .iter()
        .for_each(|line| text += &format!("{line}\n"));
    let is_ok = failures.is_empty() && !baseline::is_worse(&checks);
    if !is_ok {
        text += &format!(
            "\nWorse than {}. If that is meant: --update, and say why in the commit.\n",
            args.baseline.display()
        );
    }
    table::say(&text)?;
    measured.check_kept()?;
    Ok(is_ok)
}

fn update(args: &GateArgs) -> Result<bool> {
    let plan = match args.baseline.exists() {
        true => Baseline::read(&args.baseline)?.plan,
        false => first_plan(),
    };
    let seeds = plan.baseline_seeds;
    let measured = measure(args, &plan, seeds)?;
    let results = &measured.results;
    if let Some(failure) = failures(results).first() {
        bail!("no baseline was written: {failure}");
    }
    let baseline = Baseline::of(results, plan);
    baseline.write(&args.baseline)?;
    let table = baseline::table(&baseline.check(results));
    table::say(&format!(
        "\n{table}\nwritten: {}\n",
        args.baseline.display()
    ))?;
    measured.check_kept()?;
    Ok(true)
}

fn first_plan() -> Plan {
    Plan {
        cpus: CPUS,
        scenarios: SCENARIOS.iter().map(|id| id.to_string()).collect(),
        seconds: SECONDS,
        baseline_seeds: BASELINE_SEEDS,
        seeds: SEEDS,
    }
}

fn measure(args: &GateArgs, plan: &Plan, seeds: u64) -> Result<Measured> {
    let measured = guest::measure(&GuestArgs {
        sched: vec![args.sched.clone()],
        cpus: vec![plan.cpus],
        topology: Vec::new(),
        seeds,
        scenario: plan.scenarios.join(","),
        seconds: Some(plan.seconds),
        kernel: args.kernel.clone(),
        output: OutputArgs::default(),
        results: None,
        identity: Vec::new(),
        jobs: args.jobs,
        cost: false,
        again: args.again,
    })?;
    if measured.results.schedulers.len() > 1 {
        bail!(
            "a baseline is of one scheduler, and `{}` names more",
            args.sched
        );
    }
    Ok(measured)
}

/// What has no result, a line for each.
fn failures(results: &Dataset) -> Vec<String> {
    let line = |seed: u64, failure: &Failure| {
        let scenario = failure.scenario.as_deref().unwrap_or("start");
        format!("seed {seed}, {scenario}: {}", failure.message)
    };
    let samples = results.samples.iter();
    samples
        .flat_map(|sample| sample.result.failures.iter().map(|f| line(sample.seed, f)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn the_first_plan_names_scenarios_that_exist() {
        let plan = first_plan();
        let chosen = scenario::select(&plan.scenarios.join(",")).unwrap();
        assert_eq!(chosen.len(), plan.scenarios.len());
        assert!(plan.seeds <= plan.baseline_seeds);
    }

    #[test]
    fn a_scheduler_that_failed_is_told_with_its_seed() {
        let mut results = crate::testing::results(&[("a", &[1.0, 2.0])]);
        results.samples[1].result.failures.push(Failure {
            scenario: None,
            message: "it did not load".into(),
        });
        assert_eq!(failures(&results), ["seed 2, start: it did not load"]);
    }
}
