// SPDX-License-Identifier: GPL-2.0
//! `scx_bench guest --caches`: what schedulers cost in caches.
//!
//! *What does a frame, a round trip, a pass over a working set cost, in instructions and
//! in lines that were elsewhere?* A guest with a model of caches runs scenarios that give
//! these something to lose, and their units of work are held against what was counted
//! meanwhile.
//!
//! 1. A machine boots for each scheduler and topology, starts the scheduler, and is kept.
//! 2. Each scenario and seed goes on from there: no scenario is part of what another one
//!    meets.
//! 3. The program in it (`bin/scx_walkers`) tells units, the model counts.
//!
//! Nothing is taken from one call to the next; `--keep` writes files to be committed (`kept`).
//!
//! Not here: the scenarios (`bin/scx_walkers`), the model (`scx_guest`).

pub mod found;
pub mod held;
pub mod kept;
pub mod symbols;
pub mod table;
pub mod weights;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rayon::prelude::*;
use scx_guest::{Caches, Guest, Kernel, Prepared, Span, Topology};
use serde::Deserialize;

use crate::boots::{self, BootArgs};
use crate::candidate::{self, Candidate};
use crate::guest::GuestArgs;
use crate::interrupt;
use crate::spec::{Source, Spec};
use crate::store;

use found::{Dataset, Sample, Units};
use symbols::Symbols;
use weights::Weights;

/// The program that runs in the guest.
const PROGRAM: &str = "scx_walkers";

/// The caches where none are named.
const CACHES_DFL: &str = "sketch";

/// Wall time of a boot, or of a scenario, after which it has failed.
const LIMIT: Duration = Duration::from_secs(900);

/// Where the guest's kernel says whether a scheduler is enabled, and which.
const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";

/// Where the guest has what the scheduler wrote.
const LOG: &str = "/run/scheduler.log";

/// Measure caches instead.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct CachesArgs {
    /// Count what accesses would meet in caches instead, in scenarios that give these something
    /// to lose: without SPEC in caches of round sizes (`sketch`), else in those of a machine, such
    /// as laptop-4 or zen5-2ccd, or as in l1=32K/8,l2=1M/8,l3=16M/16. `,top=10` adds the ten lines
    /// that CPUs took from each other most often, with those who did.
    #[arg(long, value_name = "SPEC", num_args = 0..=1, default_missing_value = CACHES_DFL,
          conflicts_with_all = ["out", "prometheus", "results", "cost", "again"])]
    pub caches: Option<Caches>,
    /// What modelled time is made of, in nanoseconds: those of instruction, l2, l3, remote, far
    /// and memory that are to be others than usual.
    #[arg(long, value_name = "NAME=NS,...", requires = "caches", default_value_t)]
    pub weights: Weights,
    /// Write all that was counted to this file.
    #[arg(long, value_name = "FILE", requires = "caches")]
    pub json: Option<PathBuf>,
    /// Write the counts of each run, without single CPUs and lines, to a small file for each
    /// scheduler and machine in this directory, to be committed; `scx_bench report --caches DIR`
    /// shows them.
    #[arg(long, value_name = "DIR", requires = "caches")]
    pub keep: Option<PathBuf>,
}

/// A scenario of the program in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listed {
    /// Its name.
    pub id: String,
    /// What runs, and what is a unit of it.
    pub about: String,
}

/// The scenarios with caches.
pub fn list() -> Result<Vec<Listed>> {
    let program = boots::find_beside(PROGRAM)?;
    let output = Command::new(&program)
        .arg("--list")
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("reading the scenarios of {}", program.display()))
}

/// Those of a comma-separated list; `all` means every one.
fn select(list: &str, all: Vec<Listed>) -> Result<Vec<Listed>> {
    let mut chosen = Vec::new();
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        match all.iter().find(|of| of.id == id) {
            Some(found) => chosen.push(found.clone()),
            None if id == "all" => chosen.extend(all.iter().cloned()),
            None => {
                let known: Vec<&str> = all.iter().map(|of| of.id.as_str()).collect();
                bail!(
                    "no scenario `{id}` with caches; known: all, {}",
                    known.join(", ")
                );
            }
        }
    }
    ensure!(!chosen.is_empty(), "no scenario is named");
    Ok(chosen)
}

/// What is measured.
#[derive(Debug)]
pub struct Plan {
    /// The schedulers.
    pub specs: Vec<Spec>,
    /// The guest's machines.
    pub topologies: Vec<Topology>,
    /// Scenarios, separated by commas; `all` means every one.
    pub scenarios: String,
    /// Runs of each scenario: seeds 1 to this.
    pub seeds: u64,
    /// Length of each span in seconds, instead of the scenario's own.
    pub seconds: Option<f64>,
    /// The caches.
    pub caches: Caches,
    /// How guests are booted.
    pub boot: BootArgs,
}

/// Measure what `args` say, print the tables and write the counts. Returns whether
/// everything has a result.
pub fn run(args: &GuestArgs, caches: Caches) -> Result<bool> {
    let plan = Plan {
        specs: args.sched.specs()?,
        topologies: args.topologies()?,
        scenarios: args.scenario.clone(),
        seeds: args.seeds,
        seconds: args.seconds,
        caches,
        boot: args.boot.clone(),
    };
    let mut dataset = measure(&plan)?;
    dataset.command = command(args, &plan.specs, caches);
    dataset.weights = args.caches.weights;
    dataset.compute();
    let said = crate::table::say(&table::tables(&dataset));
    if let Some(path) = &args.caches.json {
        let text = serde_json::to_string_pretty(&dataset).context("writing JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(dir) = &args.caches.keep {
        kept::write(&dataset, dir)?;
    }
    said?;
    Ok(dataset.is_whole())
}

/// Count what `plan` says. Nothing is computed yet, and no command is there to repeat it.
pub fn measure(plan: &Plan) -> Result<Dataset> {
    let Plan { specs, caches, .. } = plan;
    ensure!(
        specs.iter().all(|spec| spec.source != Source::Limit),
        "`limit` has no result with caches"
    );
    for &topology in &plan.topologies {
        caches.check(topology)?;
    }
    let bench = Bench {
        program: boots::find_beside(PROGRAM)?,
        scenarios: select(&plan.scenarios, list()?)?,
        kernel: Kernel::find(plan.boot.kernel.as_deref())?,
        seeds: plan.seeds,
        seconds: plan.seconds,
        caches: *caches,
    };
    let release = bench.kernel.release();
    let cache_dir = store::cache_dir()?;
    let (candidates, unbuilt) = candidate::find_all(specs, release, &cache_dir, |_| false)?;
    let machines: Vec<(&Candidate, Topology)> = candidates
        .iter()
        .flat_map(|candidate| plan.topologies.iter().map(move |&of| (candidate, of)))
        .collect();
    let jobs = rayon::ThreadPoolBuilder::new()
        .num_threads(plan.boot.jobs.unwrap_or(boots::JOBS_MAX_DFL).max(1))
        .build()
        .context("starting threads for guests")?;
    // One at a time: a machine takes minutes, so no thread may have two left at the end.
    let boots = machines.par_iter().with_max_len(1);
    let samples: Vec<Vec<Sample>> = jobs.install(|| {
        boots
            .map(|&(of, topology)| bench.run(of, topology))
            .collect()
    });
    interrupt::end_here_if_pressed();

    let mut all = Vec::new();
    for sample in unbuilt {
        let failures = sample.result.failures.into_iter();
        let failures = failures.map(|failure| failure.message);
        all.extend(failures.map(|why| failed(&sample.scheduler, "all machines", "all", 0, why)));
    }
    all.extend(samples.into_iter().flatten());
    let schedulers = candidates.iter().map(|of| &of.spec);
    Ok(Dataset {
        kernel: release.to_string(),
        qemu: boots::qemu_version()?,
        command: String::new(),
        caches: caches.to_string(),
        weights: Weights::default(),
        schedulers: schedulers
            .map(|spec| (spec.name.clone(), spec.describe()))
            .collect(),
        topologies: plan.topologies.iter().map(Topology::to_string).collect(),
        scenarios: bench
            .scenarios
            .into_iter()
            .map(|of| (of.id, of.about))
            .collect(),
        samples: all,
        figures: Vec::new(),
    })
}

/// What to type to get the same again.
fn command(args: &GuestArgs, specs: &[Spec], caches: Caches) -> String {
    let weights = match args.caches.weights {
        weights if weights == Weights::default() => String::new(),
        weights => format!(" --weights {weights}"),
    };
    format!("{} --caches {caches}{weights}", args.command(specs))
}

/// A run without a result.
fn failed(scheduler: &str, topology: &str, scenario: &str, seed: u64, why: String) -> Sample {
    Sample {
        scheduler: scheduler.to_string(),
        topology: topology.to_string(),
        scenario: scenario.to_string(),
        seed,
        failure: Some(why),
        units: None,
        span: None,
        names: Default::default(),
    }
}

/// What all machines share.
struct Bench {
    program: PathBuf,
    scenarios: Vec<Listed>,
    kernel: Kernel,
    seeds: u64,
    seconds: Option<f64>,
    caches: Caches,
}

impl Bench {
    /// All scenarios and seeds under one scheduler on one machine.
    fn run(&self, candidate: &Candidate, topology: Topology) -> Vec<Sample> {
        let name = &candidate.spec.name;
        let shape = topology.to_string();
        let guest = self.guest(candidate, topology);
        let prepared = match self.prepare(&guest, candidate) {
            Ok(prepared) => prepared,
            Err(error) => return vec![failed(name, &shape, "all", 0, format!("{error:#}"))],
        };
        let mut samples = Vec::new();
        for scenario in &self.scenarios {
            for seed in 1..=self.seeds {
                let script = self.script(&scenario.id, topology, seed);
                let found = match interrupt::is_pressed() {
                    true => Err(anyhow!("interrupted")),
                    false => run_one(&prepared, &guest.clone().seed(seed), &script),
                };
                let (told, sample) = match found {
                    Ok(counted) => (
                        "counted".to_string(),
                        Sample {
                            failure: None,
                            units: Some(counted.units),
                            names: counted.names,
                            span: Some(counted.span),
                            ..failed(name, &shape, &scenario.id, seed, String::new())
                        },
                    ),
                    Err(error) => {
                        let why = format!("{error:#}");
                        let told = format!("no result: {why}");
                        (told, failed(name, &shape, &scenario.id, seed, why))
                    }
                };
                eprintln!("{name}, {shape}, {}, seed {seed}: {told}", scenario.id);
                samples.push(sample);
            }
        }
        samples
    }

    fn guest(&self, candidate: &Candidate, topology: Topology) -> Guest {
        let guest = Guest::new(&self.kernel)
            .topology(topology)
            .memory_mib(boots::memory_mib(topology))
            .time_limit(LIMIT)
            .program_as(&self.program, PROGRAM)
            .caches(self.caches)
            .quiet();
        match &candidate.program {
            Some(program) => guest.program(&program.path),
            None => guest,
        }
    }

    /// A machine on which the scheduler schedules.
    fn prepare(&self, guest: &Guest, candidate: &Candidate) -> Result<Prepared> {
        let mut lines = Vec::new();
        let script = start_script(candidate, self.caches.nr_top > 0);
        let prepared = guest
            .clone()
            .prepare(&script, &mut |line| lines.push(line.to_string()));
        prepared.with_context(|| format!("it did not start; it said: {}", lines.join(" | ")))
    }

    /// What runs a scenario, and fails if another scheduler schedules at its end than at
    /// the begin.
    fn script(&self, scenario: &str, topology: Topology, seed: u64) -> String {
        let seconds = self.seconds.map(|seconds| format!(" --seconds={seconds}"));
        format!(
            "{PROGRAM} --scenario={} --cpus={} --seed={seed}{} --json=/dev/report || exit\n\
             [ \"$(cat {OPS} 2>/dev/null)\" = \"$ops\" ] && exit\n\
             tail -n 3 {LOG}\nexit 3\n",
            scx_guest::quote(scenario),
            topology.nr_cpus(),
            seconds.unwrap_or_default(),
        )
    }
}

/// What starts the scheduler and waits until it schedules; with symbols in the report,
/// if they are wanted.
fn start_script(candidate: &Candidate, has_symbols: bool) -> String {
    let mut script = String::new();
    if let Some(program) = &candidate.program {
        let name = program.path.file_name().unwrap_or_default();
        let words = std::iter::once(name.to_string_lossy().into_owned())
            .chain(program.args.iter().cloned())
            .map(|word| scx_guest::quote(&word));
        let words: Vec<String> = words.collect();
        script += &format!(
            "{} >{LOG} 2>&1 &\n\
             until [ \"$(cat {STATE})\" = enabled ]; do\n\
             \tkill -0 $! 2>/dev/null || {{ tail -n 3 {LOG}; exit 3; }}\n\
             \tsleep 0.1\ndone\nsleep 1\n",
            words.join(" ")
        );
    }
    script += &format!("ops=$(cat {OPS} 2>/dev/null)\n");
    if has_symbols {
        script += "echo 0 >/proc/sys/kernel/kptr_restrict\n\
                   grep ' [tTwW] ' /proc/kallsyms >/dev/report\n";
    }
    script
}

/// What was counted in one run.
struct Counted {
    units: Units,
    span: Span,
    names: BTreeMap<String, String>,
}

fn run_one(prepared: &Prepared, guest: &Guest, script: &str) -> Result<Counted> {
    let mut lines = Vec::new();
    let outcome = prepared.run(guest, script, &mut |line| lines.push(line.to_string()))?;
    let said = || format!("the guest said: {}", lines.join(" | "));
    ensure!(outcome.exit_code == 0, "{}", said());
    let spans = outcome.caches.unwrap_or_default();
    let report = String::from_utf8_lossy(&outcome.report);
    counted(spans, &report).with_context(said)
}

/// Units and counts of the same: the report ends with a line of units, before it are
/// symbols, if they were asked for; the last span has the scenario's name.
fn counted(spans: Vec<Span>, report: &str) -> Result<Counted> {
    let last = report.trim_end().lines().next_back().unwrap_or_default();
    let units: Units = serde_json::from_str(last).context("reading units of work")?;
    let span = spans
        .into_iter()
        .next_back()
        .context("nothing was counted")?;
    ensure!(
        span.name == units.scenario,
        "`{}` was counted, `{}` was done",
        span.name,
        units.scenario
    );
    ensure!(
        units.roles.first().is_some_and(|role| role.units > 0),
        "no unit of work ended"
    );
    let names = match span.lines.is_empty() && span.sites.is_empty() {
        true => BTreeMap::new(),
        false => Symbols::parse(report).names(&span),
    };
    Ok(Counted { units, span, names })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(ids: &[&str]) -> Vec<Listed> {
        let listed = ids.iter().map(|id| Listed {
            id: id.to_string(),
            about: String::new(),
        });
        listed.collect()
    }

    #[test]
    fn scenarios_are_chosen_by_name_in_the_order_named() {
        let ids = |list: &str| -> Result<Vec<String>> {
            let chosen = select(list, listed(&["a", "b"]))?;
            Ok(chosen.into_iter().map(|of| of.id).collect())
        };
        assert_eq!(ids("all").unwrap(), ["a", "b"]);
        assert_eq!(ids("b, a").unwrap(), ["b", "a"]);
        assert!(
            ids("c")
                .unwrap_err()
                .to_string()
                .contains("known: all, a, b")
        );
        assert!(ids("").is_err());
    }

    fn span(name: &str) -> Span {
        let counts = "{\"instructions\":9,\"accesses\":8,\"l1_misses\":7,\"l2_misses\":6,\
            \"remote\":1,\"far\":1,\"memory\":1,\"invalidations\":2}";
        let total = format!("{{\"user\":{counts},\"kernel\":{counts},\"bpf\":{counts}}}");
        let site = "{\"address\":\"0xffffffff81000010\",\"kind\":\"kernel\",\"remote\":1,\
            \"invalidations\":0}";
        let text = format!(
            "{{\"name\":\"{name}\",\"duration_ns\":5,\"total\":{total},\"cpus\":[],\
             \"sites\":[{site}],\"lines\":[]}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    const UNITS: &str = "{\"scenario\":\"walk\",\"cpus\":4,\"roles\":[{\"name\":\"walker\",\
        \"unit\":\"pass\",\"nr_processes\":2,\"units\":7,\"moves\":1}]}";

    #[test]
    fn units_belong_to_the_last_span_and_symbols_come_before_them() {
        let report = format!("ffffffff81000000 T futex_wake\n{UNITS}\n");
        let found = counted(vec![span("warm"), span("walk")], &report).unwrap();
        assert_eq!(
            (found.units.roles[0].units, found.span.name.as_str()),
            (7, "walk")
        );
        assert_eq!(found.names["0xffffffff81000010"], "futex_wake+0x10");
        for (spans, report) in [
            (vec![span("walk"), span("warm")], report.clone()),
            (vec![], report.clone()),
            (vec![span("walk")], String::new()),
            (
                vec![span("walk")],
                report.replace("\"units\":7", "\"units\":0"),
            ),
        ] {
            assert!(counted(spans, &report).is_err(), "{report}");
        }
    }

    #[test]
    fn a_scheduler_that_leaves_is_told_from_one_that_stays() {
        let spec = Spec {
            name: "mine".into(),
            source: Source::Program {
                path: "/x/scx_mine".into(),
                args: Vec::new(),
            },
        };
        let program = candidate::Program {
            path: "/x/scx_mine".into(),
            args: vec!["--slice".into(), "a b".into()],
        };
        let candidate = Candidate {
            spec,
            program: Some(program),
        };
        let script = start_script(&candidate, false);
        assert!(script.starts_with("scx_mine --slice 'a b' >"), "{script}");
        assert!(
            script.contains("kill -0")
                && script.ends_with("ops=$(cat /sys/kernel/sched_ext/root/ops 2>/dev/null)\n")
        );
        assert!(!script.contains("kallsyms"));
        assert!(start_script(&candidate, true).contains("kallsyms"));
    }
}
