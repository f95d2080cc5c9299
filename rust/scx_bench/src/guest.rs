// SPDX-License-Identifier: GPL-2.0
//! `scx_bench guest`: the scenarios under each scheduler, in the deterministic
//! guest.
//!
//! What is measured, under which schedulers, and what is written of it. A
//! scheduler that cannot be built, does not load or fails on the way is reported
//! with its message, never as a result.
//!
//! Not here: how the guests are run (`boots`), how results are shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use scx_guest::Topology;

use crate::boots::{self, BootArgs, Identity, Plan};
use crate::caches::{self, CachesArgs};
use crate::dataset::NR_CPUS_DFL;
use crate::output::{OutputArgs, Repeat};
use crate::scenario;
use crate::spec::{Spec, SpecArgs};
use crate::store::Store;
use crate::table;
use crate::text;

/// Measure schedulers in the deterministic guest.
#[derive(Debug, Clone, clap::Args)]
pub struct GuestArgs {
    /// Which schedulers.
    #[command(flatten)]
    pub sched: SpecArgs,
    /// Numbers of CPUs, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [NR_CPUS_DFL])]
    pub cpus: Vec<u32>,
    /// Topologies instead, as NODESxLLCSxCORESxTHREADS, separated by commas; or shapes of
    /// machines that people have: 8core, 16core-2ccx, 13900k, 2socket-64.
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
    /// What is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Take results from this directory, and put new ones there: small files to be committed,
    /// found again on any machine. What they depend on is in them; where that is not what would
    /// be measured now, nothing is measured and each part that differs is told.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Measure anew what `--results` holds of another kernel, workload, program and so on, and
    /// put it in the old one's place.
    #[arg(long, requires = "results")]
    pub renew: bool,
    /// What stands for the program of a `--sched NAME=PATH` in `--results`, such as a digest of
    /// its sources: its bytes differ from machine to machine. What else it is made of, such as
    /// its compiler, may follow as parts of their own. Repeatable.
    #[arg(long, value_name = "NAME=TEXT[;PART=TEXT]...", requires = "results")]
    pub identity: Vec<String>,
    /// Measure what the callbacks cost instead, in instructions. Busy CPUs share the clock, so
    /// that is exact with `--cpus 1`, or where the others idle (pipe_idle); else each callback
    /// contains what they did meanwhile. Counting itself costs some: keep the other figures apart.
    #[arg(long)]
    pub cost: bool,
    /// What is counted of caches instead.
    #[command(flatten)]
    pub caches: CachesArgs,
    /// How guests are booted.
    #[command(flatten)]
    pub boot: BootArgs,
}

/// Measure what `args` say, print the tables and write the results. Returns
/// whether everything has a result.
pub fn run(args: &GuestArgs) -> Result<bool> {
    if let Some(caches) = args.caches.caches {
        return caches::run(args, caches);
    }
    let specs = args.sched.specs()?;
    let mut measured = boots::measure(args.plan(&specs)?)?;
    let dataset = &mut measured.dataset;
    dataset.command = args.command(&specs);
    dataset.subject = args.output.subject(&specs);
    let said = table::say(&(text::tables(dataset) + &text::costs(dataset)));
    args.output.write(dataset)?;
    said?;
    measured.check_kept()?;
    Ok(measured.dataset.is_whole())
}

impl GuestArgs {
    fn plan(&self, specs: &[Spec]) -> Result<Plan> {
        Ok(Plan {
            specs: specs.to_vec(),
            topologies: self.topologies()?,
            seeds: self.seeds,
            scenarios: scenario::select(&self.scenario)?,
            seconds: self.seconds,
            with_cost: self.cost,
            committed: self.results.as_deref().map(Store::committed).transpose()?,
            renew: self.renew,
            identities: self.identities(specs)?,
            boot: self.boot.clone(),
        })
    }

    pub(crate) fn topologies(&self) -> Result<Vec<Topology>> {
        if self.seeds == 0 {
            bail!("--seeds must be at least 1");
        }
        let topologies: Vec<Topology> = match self.topology.is_empty() {
            true => self.cpus.iter().map(|&cpus| Topology::flat(cpus)).collect(),
            false => self.topology.clone(),
        };
        topologies.iter().try_for_each(Topology::check)?;
        Ok(topologies)
    }

    /// By scheduler, what stands for its program.
    fn identities(&self, specs: &[Spec]) -> Result<BTreeMap<String, Identity>> {
        let parse = |text: &String| {
            let not_so = || format!("`{text}` is not NAME=TEXT[;PART=TEXT]...");
            let pair = |text: &str| {
                let (name, words) = text.split_once('=').with_context(not_so)?;
                Ok((name.trim().to_string(), words.trim().to_string()))
            };
            let mut pairs = text.split(';').map(pair);
            let (name, program) = pairs.next().with_context(not_so)??;
            if !specs.iter().any(|spec| spec.name == name) {
                bail!("--identity names `{name}`, which is not measured");
            }
            let parts = pairs.collect::<Result<_>>()?;
            Ok((name, Identity { program, parts }))
        };
        self.identity.iter().map(parse).collect()
    }

    /// What to type to get the same again.
    pub(crate) fn command(&self, specs: &[Spec]) -> String {
        let machines = match self.topology.is_empty() {
            true => format!("--cpus {}", join(&self.cpus)),
            false => format!("--topology {}", join(&self.topology)),
        };
        self.output.repeat(&Repeat {
            program: "scx_bench guest",
            options: format!("{machines} --seeds {}", self.seeds),
            specs,
            scenario: &self.scenario,
            seconds: self.seconds,
        })
    }
}

fn join<T: ToString>(items: &[T]) -> String {
    let words: Vec<String> = items.iter().map(T::to_string).collect();
    words.join(",")
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
            args.command(&args.sched.specs().unwrap()),
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
            args.command(&args.sched.specs().unwrap()),
            "make bench --cpus 4 --seeds 3 --sched default"
        );
    }

    #[test]
    fn an_identity_belongs_to_a_scheduler_that_is_measured() {
        let of = |identity: &str| {
            let args = parse(&[
                "--sched=mine=/bin/sh",
                "--results=x",
                "--identity",
                identity,
            ]);
            args.identities(&args.sched.specs().unwrap())
        };
        assert_eq!(of("mine=abc").unwrap()["mine"].program, "abc");
        let mine = of("mine=abc; build=clang 19, rustc")
            .unwrap()
            .remove("mine");
        let parts = mine.unwrap().parts;
        assert_eq!(
            parts,
            [("build".to_string(), "clang 19, rustc".to_string())]
        );
        assert!(of("mine=abc;build").is_err());
        assert!(of("other=abc").is_err());
        assert!(of("abc").is_err());
    }
}
