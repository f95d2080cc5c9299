// SPDX-License-Identifier: GPL-2.0
//! `scx_bench gate`: has a scheduler become worse than its baseline?
//!
//! A few scenarios, short and in the guest, each machine of the plan in turn; then those with
//! caches, if the plan has any.
//!
//! Not here: what is run (`gate_plan`), how a figure is judged (`baseline`).

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use scx_guest::Topology;

use crate::baseline::{self, Baseline};
use crate::boots::{self, BootArgs, Plan};
use crate::dataset::Dataset;
use crate::gate_plan::{GatePlan, GateRun};
use crate::scenario;
use crate::spec::SpecArgs;
use crate::table;
use crate::text;

/// Compare a scheduler with its baseline.
#[derive(Debug, Clone, clap::Args)]
pub struct GateArgs {
    /// File with the baseline, to be committed with the scheduler. It says what is run: to
    /// change that, change `plan` in it and update.
    #[arg(long, value_name = "FILE")]
    pub baseline: PathBuf,
    /// The scheduler, as in `scx_bench guest`.
    #[arg(long, value_name = "NAME=PATH ARGS")]
    pub sched: String,
    /// Measure the baseline anew and write it.
    #[arg(long)]
    pub update: bool,
    /// Machine of a first baseline, as NODESxLLCSxCORESxTHREADS or by the name of a preset; 4
    /// CPUs without it.
    #[arg(long, value_name = "SHAPE", requires = "update")]
    pub topology: Option<Topology>,
    /// Scenarios of a first baseline, separated by commas; see `scx_bench list`. A choice without
    /// it.
    #[arg(long, value_name = "LIST", requires = "update")]
    pub scenario: Option<String>,
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
    let measured = measure(args, &baseline.plan, Seeds::OfGate)?;
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
    let is_first = !args.baseline.exists();
    ensure!(
        is_first || (args.topology.is_none() && args.scenario.is_none()),
        "--topology and --scenario are for a first baseline; to change what {} runs, change \
         `plan` in it",
        args.baseline.display()
    );
    let plan = match (is_first, &args.scenario) {
        (false, _) => Baseline::read(&args.baseline)?.plan,
        (true, None) => GatePlan::first(args.topology, &[]),
        (true, Some(list)) => GatePlan::first(args.topology, &scenario::select(list)?),
    };
    let measured = measure(args, &plan, Seeds::OfBaseline)?;
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

/// What was measured on all machines.
struct Measured {
    dataset: Dataset,
    parts: Vec<boots::Measured>,
}

impl Measured {
    fn check_kept(&self) -> Result<()> {
        self.parts.iter().try_for_each(boots::Measured::check_kept)
    }
}

/// Which of a plan's numbers of seeds are run.
#[derive(Debug, Clone, Copy)]
enum Seeds {
    OfGate,
    OfBaseline,
}

impl Seeds {
    fn choose(self, of_gate: u64, of_baseline: u64) -> u64 {
        match self {
            Self::OfGate => of_gate,
            Self::OfBaseline => of_baseline,
        }
    }
}

fn measure(args: &GateArgs, plan: &GatePlan, seeds: Seeds) -> Result<Measured> {
    let sched = SpecArgs {
        sched: vec![args.sched.clone()],
        peers: None,
    };
    let specs = sched.specs()?;
    ensure!(
        specs.len() == 1,
        "a baseline is of one scheduler, and `{}` names more",
        args.sched
    );
    let measure = |run: GateRun| {
        boots::measure(Plan {
            specs: specs.clone(),
            topologies: vec![run.topology.parse()?],
            seeds: seeds.choose(plan.seeds, plan.baseline_seeds),
            scenarios: scenario::select(&run.scenarios.join(","))?,
            seconds: Some(plan.seconds),
            with_cost: false,
            committed: None,
            renew: false,
            identities: Default::default(),
            boot: args.boot.clone(),
        })
    };
    let parts: Vec<boots::Measured> = plan
        .runs()?
        .into_iter()
        .map(measure)
        .collect::<Result<_>>()?;
    let mut datasets: Vec<Dataset> = parts.iter().map(|part| part.dataset.clone()).collect();
    if let Some(held) = &plan.caches {
        let seeds = seeds.choose(held.seeds, held.baseline_seeds);
        datasets.push(held.measure(&specs, seeds, &args.boot)?);
    }
    Ok(Measured {
        dataset: Dataset::merge(datasets)?,
        parts,
    })
}
