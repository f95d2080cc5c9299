// SPDX-License-Identifier: GPL-2.0
//! Everything that was measured, under which schedulers and in what: the file
//! `results.json`. The result of one boot is a `RunResult` (`result`).
//!
//! Several such files are joined into one for a report. A file of a single run
//! (`scx_bench run --json`) counts as one with a single sample.
//!
//! Not here: what is computed from it (`compare`), how it is shown.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::result::RunResult;
use crate::spec;
use crate::table;

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
    /// All samples, in order of scheduler, topology and seed.
    pub samples: Vec<Sample>,
}

impl Dataset {
    /// Read one file and check what it says.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} holds no results", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        if let Ok(run) = serde_json::from_str::<RunResult>(text) {
            return Ok(Self::of_run(run));
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The results of a single run on a machine of which nothing else is known.
    pub fn of_run(run: RunResult) -> Self {
        let name = match run.scheduler.as_str() {
            "" => spec::DEFAULT,
            name => name,
        };
        let (name, version) = (name.to_string(), run.scheduler.clone());
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
            next.samples
                .into_iter()
                .for_each(|sample| merged.add_sample(sample));
        }
        Ok(merged)
    }

    fn add_scheduler(&mut self, name: String, version: String) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn joining_keeps_what_is_new_and_takes_the_later_of_two() {
        let first = testing::results(&[("a", &[1.0, 2.0]), ("b", &[3.0, 4.0])]);
        let mut second = testing::results(&[("b", &[5.0, 4.0]), ("c", &[6.0])]);
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
        let first = testing::results(&[("a", &[1.0])]);
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
        let run = testing::results(&[("a", &[1.0])]).samples[0].result.clone();
        let text = serde_json::to_string(&run).unwrap();
        let results = Dataset::parse(&text).unwrap();
        assert_eq!(results.schedulers[0].0, "default");
        assert_eq!(results.machines(), [("", 4)]);
        assert_eq!(results.samples[0].result, run);
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let results = testing::results(&[("a", &[1.0, 2.0]), ("b", &[3.0])]);
        results.write(dir.path()).unwrap();
        assert_eq!(Dataset::read(&dir.path().join(FILE_NAME)).unwrap(), results);
        assert!(Dataset::read(&dir.path().join("absent")).is_err());
    }
}
