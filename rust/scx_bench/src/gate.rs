// SPDX-License-Identifier: GPL-2.0
//! `scx_bench gate`: has a scheduler become worse than its baseline?
//!
//! A few scenarios, short and in the guest. The baseline says itself what is
//! run, so that both are always the same.
//!
//! Not here: how a figure is judged (`baseline`).

use std::path::PathBuf;

use anyhow::{Result, bail};
use scx_guest::Topology;

use crate::baseline::{self, Baseline, GatePlan};
use crate::boots::{self, BootArgs, Measured, Plan};
use crate::scenario;
use crate::spec::SpecArgs;
use crate::table;
use crate::text;

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
    /// How guests are booted.
    #[command(flatten)]
    pub boot: BootArgs,
}

/// Measure, print the table, and return whether nothing has become worse; or
/// write the baseline.
pub fn run(args: &GateArgs) -> Result<bool> {
    if args.update {
        return update(args);
    }
    let baseline = Baseline::read(&args.baseline)?;
    let measured = measure(args, &baseline.plan, baseline.plan.seeds)?;
    let dataset = &measured.dataset;
    let checks = baseline.check(dataset);
    let mut text = format!("\n{}", baseline::table(&checks));
    if (&baseline.kernel, &baseline.qemu) != (&dataset.kernel, &dataset.qemu) {
        text += &format!(
            "\nThe baseline was measured on Linux {} in {}; this is Linux {} in {}.\n",
            baseline.kernel, baseline.qemu, dataset.kernel, dataset.qemu
        );
    }
    let failures = text::failures(dataset);
    text += &failures
        .iter()
        .map(|line| format!("no result: {line}\n"))
        .collect::<String>();
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
    let dataset = &measured.dataset;
    if let Some(failure) = text::failures(dataset).first() {
        bail!("no baseline was written: {failure}");
    }
    let baseline = Baseline::of(dataset, plan);
    baseline.write(&args.baseline)?;
    let table = baseline::table(&baseline.check(dataset));
    table::say(&format!(
        "\n{table}\nwritten: {}\n",
        args.baseline.display()
    ))?;
    measured.check_kept()?;
    Ok(true)
}

fn first_plan() -> GatePlan {
    GatePlan {
        cpus: CPUS,
        scenarios: SCENARIOS.iter().map(|id| id.to_string()).collect(),
        seconds: SECONDS,
        baseline_seeds: BASELINE_SEEDS,
        seeds: SEEDS,
    }
}

fn measure(args: &GateArgs, plan: &GatePlan, seeds: u64) -> Result<Measured> {
    let sched = SpecArgs {
        sched: vec![args.sched.clone()],
        peers: None,
    };
    let specs = sched.specs()?;
    if specs.len() > 1 {
        bail!(
            "a baseline is of one scheduler, and `{}` names more",
            args.sched
        );
    }
    let topology = Topology::flat(plan.cpus);
    topology.check()?;
    boots::measure(Plan {
        specs,
        topologies: vec![topology],
        seeds,
        scenarios: scenario::select(&plan.scenarios.join(","))?,
        seconds: Some(plan.seconds),
        with_cost: false,
        committed: None,
        renew: false,
        identities: Default::default(),
        boot: args.boot.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_plan_names_scenarios_that_exist() {
        let plan = first_plan();
        let chosen = scenario::select(&plan.scenarios.join(",")).unwrap();
        assert_eq!(chosen.len(), plan.scenarios.len());
        assert!(plan.seeds <= plan.baseline_seeds);
    }
}
