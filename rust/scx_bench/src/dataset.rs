// SPDX-License-Identifier: GPL-2.0
//! Everything that was measured, under which schedulers and in what: the file
//! `results.json`, or a directory of committed results.
//!
//! Several of them are joined into one for a report. The result of one boot is
//! a `RunResult` (`result`); a file that holds only that (`scx_bench run
//! --json`) counts as a dataset with a single sample.
//!
//! Not here: what is computed from it (`compare`), how it is shown (`text`,
//! `report`, `prometheus`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::clock::NSEC_PER_MSEC;
use crate::peers::{self, Peer};
use crate::result::{Metric, RunResult, ScenarioResult, has_percentile};
use crate::scenario::{EXTRA_SCENARIOS, SCENARIOS};
use crate::spec::{self, Source, Spec};
use crate::stats::Summary;
use crate::store::Committed;
use crate::table;

/// What committed results that are joined have in common, by the names of their
/// keys.
const COMMON_PARTS: [&str; 7] = [
    "workload",
    "workload packages",
    "workload build",
    "kernel",
    "qemu",
    "guest",
    "libc",
];

/// CPUs of the machine that is measured unless another is named.
pub const NR_CPUS_DFL: u32 = 4;

/// Name of the file in its directory.
pub const FILE_NAME: &str = "results.json";

/// One boot and what it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Shape of the machine, as NODESxLLCSxCORESxTHREADS; empty where it is
    /// not known.
    pub topology: String,
    /// CPUs in all; 0 for a scheduler that never got as far as a machine.
    pub cpus: u32,
    /// Seed.
    pub seed: u64,
    /// What was found.
    pub result: RunResult,
}

impl Sample {
    /// Its value of a figure. Where a percentile has too few samples the largest of
    /// them stands for it ([`Sample::is_of_max`]).
    pub fn value(&self, scenario: &str, metric: &str) -> Option<f64> {
        let found = self.scenario(scenario)?;
        let value = found.metric(metric)?.value;
        let max_ns = unsupported(found, metric).map(|summary| summary.max_ns);
        Some(max_ns.map_or(value, |max_ns| max_ns as f64 / NSEC_PER_MSEC as f64))
    }

    /// Is this figure a percentile of fewer samples than that takes?
    pub fn is_of_max(&self, scenario: &str, metric: &str) -> bool {
        let found = self.scenario(scenario);
        found.is_some_and(|found| unsupported(found, metric).is_some())
    }

    fn scenario(&self, id: &str) -> Option<&ScenarioResult> {
        let mut scenarios = self.result.scenarios.iter();
        scenarios.find(|found| found.scenario == id)
    }
}

/// The latencies that `metric` is a percentile of, if they are too few for it.
fn unsupported<'a>(found: &'a ScenarioResult, metric: &str) -> Option<&'a Summary> {
    let (kind, figure) = metric.rsplit_once('_')?;
    let pct = figure
        .strip_prefix('p')?
        .parse()
        .ok()
        .filter(|&pct| pct > 50)?;
    let summary = found.latency(kind)?;
    (!has_percentile(summary.count, pct)).then_some(summary)
}

/// Everything that was measured, and in what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Release of the kernel.
    pub kernel: String,
    /// Version of QEMU; empty on real hardware.
    pub qemu: String,
    /// Number of seeds; the largest of those that were joined.
    pub seeds: u64,
    /// What to type to get the same again; several lines where several runs
    /// were joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// (scheduler, its version or command line), in the order of the columns.
    pub schedulers: Vec<(String, String)>,
    /// What a scheduler is called where people read it, if not by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The scheduler that all this is about, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// All samples, in order of scheduler, topology and seed.
    pub samples: Vec<Sample>,
}

impl Dataset {
    /// Nothing measured yet of these schedulers.
    pub fn new<'a>(kernel: &str, specs: impl Iterator<Item = &'a Spec>) -> Self {
        let mut dataset = Self {
            kernel: kernel.to_string(),
            ..Self::default()
        };
        // The limit has no column: each row has a place for it.
        for spec in specs.filter(|spec| spec.source != Source::Limit) {
            let name = spec.name.clone();
            if let Source::Published(Peer {
                label: Some(label), ..
            }) = &spec.source
            {
                dataset.labels.insert(name.clone(), label.clone());
            }
            dataset.schedulers.push((name, spec.describe()));
        }
        dataset
    }

    /// Read one file, or a directory of committed results, and check what it
    /// says.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::of_committed(Committed::read_all(path)?)
                .with_context(|| format!("joining the results in {}", path.display()));
        }
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} holds no results", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        // A program that runs scenarios several times may write one result after
        // the other.
        let runs = serde_json::Deserializer::from_str(text).into_iter::<RunResult>();
        match runs.collect::<Result<Vec<_>, _>>() {
            Ok(runs) => Self::merge(runs.into_iter().map(Self::of_run).collect()),
            Err(_) => Ok(serde_json::from_str(text)?),
        }
    }

    /// The dataset of committed results. They have to be of one workload, kernel
    /// and QEMU, and each scheduler of one version. The first that is neither the kernel's
    /// nor published is what they are about.
    fn of_committed(files: Vec<Committed>) -> Result<Self> {
        let peers = peers::read(None)?;
        let first = files.first().context("there are none")?.words.clone();
        let mut dataset = Self::default();
        for Committed { words, result } in files {
            let word = |name: &str| words.get(name).cloned().unwrap_or_default();
            let (name, version) = (word("scheduler"), word("program"));
            for part in COMMON_PARTS {
                let (here, there) = (words.get(part), first.get(part));
                ensure!(
                    here == there,
                    "the {part} of {name} is {here:?}, not {there:?}"
                );
            }
            let peer = peers.iter().find(|peer| peer.name == name);
            if let Some(label) = peer.and_then(|peer| peer.label.clone()) {
                dataset.labels.insert(name.clone(), label);
            }
            if spec::is_program(&name, &peers) {
                dataset.subject.get_or_insert(name.clone());
            }
            let topology = word("topology");
            let nr_cpus = topology.parse::<scx_guest::Topology>().map(|t| t.nr_cpus());
            let seed = word("seed").parse().context("a seed is not a number")?;
            dataset.kernel.clone_from(&result.kernel);
            dataset.seeds = dataset.seeds.max(seed);
            dataset.add_scheduler(name.clone(), version)?;
            dataset.add_sample(Sample {
                scheduler: name,
                cpus: nr_cpus.ok().context("a topology is none")?,
                topology,
                seed,
                result,
            });
        }
        dataset.qemu = first.get("qemu").cloned().unwrap_or_default();
        Ok(dataset)
    }

    /// The results of a single run on a machine of which nothing else is known.
    pub fn of_run(run: RunResult) -> Self {
        let (name, version) = (name_in_kernel(&run.scheduler), run.scheduler.clone());
        let first = run.scenarios.first();
        let cpus = first.map_or(0, |scenario| scenario.cpus as u32);
        let sample = Sample {
            scheduler: name.clone(),
            topology: String::new(),
            cpus,
            seed: first.map_or(0, |scenario| scenario.seed),
            result: run,
        };
        Self {
            kernel: sample.result.kernel.clone(),
            seeds: 1,
            schedulers: vec![(name, version)],
            samples: vec![sample],
            ..Self::default()
        }
    }

    /// Write `results.json` into `dir`, which is created.
    pub fn write(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        let path = dir.join(FILE_NAME);
        let json = serde_json::to_string(self).context("writing JSON")?;
        fs::write(&path, json + "\n").with_context(|| format!("writing {}", path.display()))?;
        table::say(&format!("\nwritten: {}\n", path.display()))
    }

    /// What tells the samples of one figure apart: the guest takes a seed, a real
    /// machine is itself never twice the same.
    pub fn repetition(&self) -> &'static str {
        match self.qemu.is_empty() {
            true => "repeat",
            false => "seed",
        }
    }

    /// What a scheduler is called where people read it: its label if it has one,
    /// its name, and beside that "this" for what it is all about.
    pub fn label(&self, scheduler: &str) -> String {
        match self.labels.get(scheduler) {
            Some(label) => label.clone(),
            None if self.subject.as_deref() == Some(scheduler) => format!("{scheduler} (this)"),
            None => scheduler.to_string(),
        }
    }

    /// An error that names all schedulers unless this is one of them.
    pub fn check_scheduler(&self, name: &str) -> Result<()> {
        let names: Vec<&str> = self.schedulers.iter().map(|(n, _)| n.as_str()).collect();
        ensure!(
            names.contains(&name),
            "`{name}` was not measured; there are: {}",
            names.join(", ")
        );
        Ok(())
    }

    /// The headline figures that any sample has: (scenario, figure), in the order
    /// of the scenarios.
    pub fn headlines(&self, is_meant: impl Fn(&Sample) -> bool) -> Vec<(String, Metric)> {
        self.figures(is_meant, &[])
    }

    /// The same, with the figures among `details` that are no headlines.
    pub fn figures(
        &self,
        is_meant: impl Fn(&Sample) -> bool,
        details: &[&str],
    ) -> Vec<(String, Metric)> {
        let samples: Vec<&Sample> = self.samples.iter().filter(|&s| is_meant(s)).collect();
        let results = || samples.iter().flat_map(|sample| &sample.result.scenarios);
        let known = SCENARIOS.iter().chain(EXTRA_SCENARIOS);
        let mut ids: Vec<&str> = known.map(|scenario| scenario.id).collect();
        // Those of another program come last.
        for result in results() {
            if !ids.contains(&result.scenario.as_str()) {
                ids.push(&result.scenario);
            }
        }
        let mut found: Vec<(String, Metric)> = Vec::new();
        for scenario in ids {
            let results = results().filter(|result| result.scenario == scenario);
            for metric in results.flat_map(|result| &result.metrics) {
                let is_known =
                    |(id, other): &(String, Metric)| id == scenario && other.name == metric.name;
                let counts = metric.headline || details.contains(&metric.name.as_str());
                if counts && !found.iter().any(is_known) {
                    found.push((scenario.to_string(), metric.clone()));
                }
            }
        }
        found
    }

    /// Every sample's value of a figure, in the order of the samples.
    pub fn values(
        &self,
        scenario: &str,
        metric: &str,
        is_meant: impl Fn(&Sample) -> bool,
    ) -> Vec<f64> {
        let samples = self.samples.iter().filter(|&sample| is_meant(sample));
        samples
            .filter_map(|sample| sample.value(scenario, metric))
            .collect()
    }

    /// Has everything a result?
    pub fn is_whole(&self) -> bool {
        let mut samples = self.samples.iter();
        samples.all(|sample| sample.result.failures.is_empty())
    }

    /// The machines that anything was measured on, fewest CPUs first.
    pub fn machines(&self) -> Vec<(&str, u32)> {
        let mut machines: Vec<(&str, u32)> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.cpus > 0) {
            let machine = (sample.topology.as_str(), sample.cpus);
            if !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        machines.sort_by_key(|&(_, cpus)| cpus);
        machines
    }

    /// What a front page is about: the subject, and the machine that most schedulers
    /// were measured on.
    ///
    /// # Errors
    ///
    /// If no subject is named or nothing was measured.
    pub fn front(&self) -> Result<(&str, (&str, u32))> {
        let subject = self.subject.as_deref().context("no --subject is named")?;
        let machine = self.main_machine().context("nothing was measured")?;
        Ok((subject, machine))
    }

    /// Where `scheduler` stands among the schedulers.
    ///
    /// # Errors
    ///
    /// If it was not measured.
    pub fn column(&self, scheduler: &str) -> Result<usize> {
        let mut names = self.schedulers.iter().map(|(name, _)| name);
        let column = names.position(|name| name == scheduler);
        column.with_context(|| format!("{scheduler} was not measured"))
    }

    /// The machine that most schedulers were measured on, of those the one with most
    /// samples, and of those the one that is measured unless another is named.
    pub fn main_machine(&self) -> Option<(&str, u32)> {
        let names = || self.schedulers.iter().map(|(name, _)| name);
        let nr_schedulers = |topology: &str| {
            let ran = |name: &&String| self.nr_samples(name, topology) > 0;
            names().filter(ran).count()
        };
        let nr_samples = |topology: &str| {
            names()
                .map(|name| self.nr_samples(name, topology))
                .sum::<usize>()
        };
        let machines = self.machines().into_iter();
        machines.max_by_key(|(topology, cpus)| {
            let is_usual = *cpus == NR_CPUS_DFL;
            (nr_schedulers(topology), nr_samples(topology), is_usual)
        })
    }

    /// Samples that a figure of this scheduler on this machine is expected in.
    pub fn nr_samples(&self, scheduler: &str, topology: &str) -> usize {
        let is_meant = |sample: &&Sample| {
            sample.scheduler == scheduler && sample.topology == topology && sample.cpus > 0
        };
        self.samples.iter().filter(is_meant).count()
    }

    /// Join several; what a later one measured again replaces what an earlier
    /// one did. Kernel and QEMU have to be the same: figures from different
    /// ones do not compare.
    pub fn merge(all: Vec<Dataset>) -> Result<Self> {
        let mut all = all.into_iter();
        let mut merged = all.next().context("there are no results to join")?;
        for next in all {
            if (&next.kernel, &next.qemu) != (&merged.kernel, &merged.qemu) {
                bail!(
                    "results of different machines do not compare: Linux {} in `{}`, Linux {} in \
                     `{}`",
                    merged.kernel,
                    merged.qemu,
                    next.kernel,
                    next.qemu
                );
            }
            merged.seeds = merged.seeds.max(next.seeds);
            if !next.command.is_empty() && !merged.command.lines().any(|line| line == next.command)
            {
                if !merged.command.is_empty() {
                    merged.command.push('\n');
                }
                merged.command.push_str(&next.command);
            }
            for (name, version) in next.schedulers {
                merged.add_scheduler(name, version)?;
            }
            merged.labels.extend(next.labels);
            merged.subject = merged.subject.or(next.subject);
            next.samples
                .into_iter()
                .for_each(|sample| merged.add_sample(sample));
        }
        Ok(merged)
    }

    fn add_scheduler(&mut self, name: String, version: String) -> Result<()> {
        // No column of its own: each row has a place for the limit.
        if name == spec::LIMIT {
            return Ok(());
        }
        let known = self.schedulers.iter().find(|(other, _)| *other == name);
        match known {
            Some((_, other)) if *other != version => {
                bail!("`{name}` is `{other}` in one file and `{version}` in another")
            }
            Some(_) => {}
            None => self.schedulers.push((name, version)),
        }
        Ok(())
    }

    fn add_sample(&mut self, sample: Sample) {
        let is_same = |other: &&mut Sample| {
            (&other.scheduler, &other.topology, other.cpus, other.seed)
                == (
                    &sample.scheduler,
                    &sample.topology,
                    sample.cpus,
                    sample.seed,
                )
        };
        let Some(known) = self.samples.iter_mut().find(is_same) else {
            self.samples.push(sample);
            return;
        };
        let (known, new) = (&mut known.result, sample.result);
        let is_new = |id: &str| new.scenarios.iter().any(|scenario| scenario.scenario == id);
        known
            .scenarios
            .retain(|scenario| !is_new(&scenario.scenario));
        known
            .failures
            .retain(|failure| !failure.scenario.as_deref().is_some_and(is_new));
        known.scenarios.extend(new.scenarios);
        let fresh = new.failures.into_iter();
        let unknown: Vec<_> = fresh
            .filter(|failure| !known.failures.contains(failure))
            .collect();
        known.failures.extend(unknown);
    }
}

/// The name of a scheduler as the kernel tells it, without the version and the
/// platform of its build, which may stand at its end.
fn name_in_kernel(ops: &str) -> String {
    let is_version = |(at, _): &(usize, &str)| {
        let rest = ops.get(at + 1..).unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit())
    };
    let end = ops.match_indices('_').find(is_version);
    let name = end.and_then(|(at, _)| ops.get(..at)).unwrap_or(ops);
    match name {
        "" => spec::DEFAULT.to_string(),
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn joining_keeps_what_is_new_and_takes_the_later_of_two() {
        let first = testing::dataset(&[("a", &[1.0, 2.0]), ("b", &[3.0, 4.0])]);
        let mut second = testing::dataset(&[("b", &[5.0, 4.0]), ("c", &[6.0])]);
        second.command = "again".into();
        let merged = Dataset::merge(vec![first, second]).unwrap();
        let names: Vec<&str> = merged.schedulers.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(merged.samples.len(), 5);
        assert_eq!(
            merged.samples[2].result.scenarios[0].metrics[0].value, 5.0,
            "seed 1 of b is the later one"
        );
        assert_eq!(merged.nr_samples("c", "1x1x4x1"), 1);
        assert_eq!(merged.command, "again");
    }

    #[test]
    fn what_was_measured_elsewhere_is_refused() {
        let first = testing::dataset(&[("a", &[1.0])]);
        let mut other_kernel = first.clone();
        other_kernel.kernel = "6.12".into();
        let error = Dataset::merge(vec![first.clone(), other_kernel]).unwrap_err();
        assert!(error.to_string().contains("6.12"), "{error}");
        let mut other_version = first.clone();
        other_version.schedulers[0].1 = "another".into();
        assert!(Dataset::merge(vec![first, other_version]).is_err());
        assert!(Dataset::merge(Vec::new()).is_err());
    }

    #[test]
    fn a_file_of_one_run_is_read_as_well() {
        let run = testing::dataset(&[("a", &[1.0])]).samples[0].result.clone();
        let text = serde_json::to_string(&run).unwrap();
        let results = Dataset::parse(&text).unwrap();
        assert_eq!(results.schedulers[0].0, "default");
        assert_eq!(results.machines(), [("", 4)]);
        assert_eq!(results.samples[0].result, run);
    }

    #[test]
    fn runs_one_after_the_other_are_joined_by_the_names_of_schedulers() {
        let mut run = testing::dataset(&[("a", &[1.0])]).samples[0].result.clone();
        let first = serde_json::to_string(&run).unwrap();
        run.scheduler = "odd_name_6.0.0_x86_64_unknown_linux_gnu".into();
        let both = format!("{first}\n{}\n", serde_json::to_string(&run).unwrap());
        let dataset = Dataset::parse(&both).unwrap();
        let names = dataset.schedulers.iter().map(|(name, _)| name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["default", "odd_name"]);
        assert_eq!(dataset.samples.len(), 2);
        assert!(Dataset::parse(&both[..both.len() - 40]).is_err());
        assert!(Dataset::parse("").is_err());
    }

    #[test]
    fn committed_results_are_joined_if_they_belong_together() {
        let file = |scheduler: &str, program: &str, topology: &str, seed: &str| {
            let words = [
                ("scheduler", scheduler),
                ("program", program),
                ("topology", topology),
                ("seed", seed),
                ("kernel", "6.18 abc"),
            ];
            let run = testing::dataset(&[("a", &[1.0])]).samples[0].result.clone();
            Committed {
                words: words.map(|(name, word)| (name.into(), word.into())).into(),
                result: run,
            }
        };
        let files = || {
            vec![
                file("default", "the kernel's", "1x1x2x1", "1"),
                file("default", "the kernel's", "1x1x4x1", "2"),
                file("mine", "abc", "1x1x4x1", "1"),
                file("scx_pandemonium", "scx_pandemonium 5.23.1", "1x1x4x1", "1"),
            ]
        };
        let dataset = Dataset::of_committed(files()).unwrap();
        assert_eq!((dataset.kernel.as_str(), dataset.seeds), ("6.18", 2));
        let labels = dataset
            .schedulers
            .iter()
            .map(|(name, _)| dataset.label(name));
        let labels: Vec<String> = labels.collect();
        assert_eq!(labels, ["default", "mine (this)", "scx_pandemonium 5"]);
        assert_eq!(dataset.main_machine(), Some(("1x1x4x1", 4)));
        // As many schedulers on both machines, more samples on the smaller one.
        let of = |topology, seed| file("default", "the kernel's", topology, seed);
        let both = vec![of("1x1x2x1", "1"), of("1x1x2x1", "2"), of("1x1x4x1", "1")];
        let both = Dataset::of_committed(both).unwrap();
        assert_eq!(both.main_machine(), Some(("1x1x2x1", 2)));
        // As many samples as well.
        let all = vec![of("1x1x4x1", "1"), of("1x1x8x1", "1")];
        let all = Dataset::of_committed(all).unwrap();
        assert_eq!(all.main_machine(), Some(("1x1x4x1", 4)));
        let with =
            |other: Committed| Dataset::of_committed(files().into_iter().chain([other]).collect());
        assert!(with(file("mine", "another", "1x1x4x1", "2")).is_err());
        let mut elsewhere = file("mine", "abc", "1x1x4x1", "2");
        elsewhere.words.insert("kernel".into(), "6.12 abc".into());
        assert!(with(elsewhere).is_err());
        assert!(Dataset::of_committed(Vec::new()).is_err());
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = testing::dataset(&[("a", &[1.0, 2.0]), ("b", &[3.0])]);
        dataset.write(dir.path()).unwrap();
        assert_eq!(Dataset::read(&dir.path().join(FILE_NAME)).unwrap(), dataset);
        assert!(Dataset::read(&dir.path().join("absent")).is_err());
    }
}
