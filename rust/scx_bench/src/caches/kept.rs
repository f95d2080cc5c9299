// SPDX-License-Identifier: GPL-2.0
//! Counts of caches as committed files, one for each scheduler and machine.
//!
//! A file has all counts of each run but those of single CPUs and lines, a run a line, so
//! that a diff shows which run has changed. Modelled time is not in it: it is computed from
//! the counts by the weights of today whenever they are read.
//!
//! Not here: results of other scenarios (`store`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use scx_guest::Topology;
use serde_json::{Value, to_string};

use super::found::{Dataset, Sample};
use super::weights::Weights;
use crate::spec;
use crate::table;

/// What files of a directory end in.
const EXTENSION: &str = "json";

/// Write a file for each scheduler and machine of `dataset` into `dir`, which is created.
pub fn write(dataset: &Dataset, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    for (scheduler, _) in &dataset.schedulers {
        for topology in &dataset.topologies {
            let Some(kept) = dataset.kept(scheduler, topology) else {
                continue;
            };
            let path = dir.join(format!("{scheduler}-{topology}.{EXTENSION}"));
            let text = kept.lines().context("writing JSON")?;
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            table::say(&format!("written: {}\n", path.display()))?;
        }
    }
    Ok(())
}

/// Read all files of `dir`, in the order of their names.
pub fn read(dir: &Path) -> Result<Dataset> {
    let reading = || format!("reading {}", dir.display());
    let entries = fs::read_dir(dir).with_context(reading)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<_> = paths.collect::<Result<_>>().with_context(reading)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == EXTENSION));
    paths.sort();
    let parts = paths.iter().map(|path| {
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).with_context(reading)?;
        serde_json::from_str(&text).with_context(reading)
    });
    Dataset::join(parts.collect::<Result<_>>()?)
        .with_context(|| format!("joining the counts in {}", dir.display()))
}

impl Dataset {
    /// What is kept of one scheduler on one machine, to be committed: all counts of each run
    /// but those of single CPUs and lines. None if it has no run.
    pub fn kept(&self, scheduler: &str, topology: &str) -> Option<Self> {
        let (name, version) = self.schedulers.iter().find(|(name, _)| name == scheduler)?;
        let is_meant = |of: &&Sample| (&*of.scheduler, &*of.topology) == (scheduler, topology);
        let mut samples: Vec<Sample> = self.samples.iter().filter(is_meant).cloned().collect();
        for sample in &mut samples {
            sample.names.clear();
            if let Some(span) = &mut sample.span {
                span.cpus.clear();
                span.sites.clear();
                span.lines.clear();
            }
        }
        (!samples.is_empty()).then(|| Self {
            schedulers: vec![(name.clone(), version.clone())],
            topologies: vec![topology.to_string()],
            samples,
            figures: Vec::new(),
            ..self.clone()
        })
    }

    /// Join what was measured in parts, by the weights of today. The kernel's scheduler comes
    /// first; the others are in the order of the parts.
    ///
    /// # Errors
    ///
    /// If there is no part, if two of them are not of the same kernel, QEMU, caches and
    /// scenarios, or if both have the same run.
    pub fn join(parts: Vec<Self>) -> Result<Self> {
        let mut parts = parts.into_iter();
        let mut joined = parts.next().context("there are no counts of caches")?;
        for part in parts {
            for (what, here, there) in [
                ("kernel", &part.kernel, &joined.kernel),
                ("QEMU", &part.qemu, &joined.qemu),
                ("caches", &part.caches, &joined.caches),
            ] {
                ensure!(here == there, "{what}: {here} is not {there}");
            }
            ensure!(
                part.scenarios == joined.scenarios,
                "the scenarios of `{}` are not those of `{}`",
                part.command,
                joined.command
            );
            joined.add(part)?;
        }
        joined
            .schedulers
            .sort_by_key(|(name, _)| name != spec::DEFAULT);
        joined.topologies.sort_by_key(|shape| nr_cpus(shape));
        joined.weights = Weights::default();
        joined.compute();
        Ok(joined)
    }

    fn add(&mut self, part: Self) -> Result<()> {
        for (name, version) in part.schedulers {
            match self.schedulers.iter().find(|(known, _)| *known == name) {
                Some((_, known)) => {
                    ensure!(*known == version, "{name} is `{version}` and `{known}`")
                }
                None => self.schedulers.push((name, version)),
            }
        }
        for topology in part.topologies {
            if !self.topologies.contains(&topology) {
                self.topologies.push(topology);
            }
        }
        for sample in part.samples {
            ensure!(
                !self.samples.iter().any(|known| known.is_same_run(&sample)),
                "{} on {}, {}, seed {}, is there twice",
                sample.scheduler,
                sample.topology,
                sample.scenario,
                sample.seed
            );
            self.samples.push(sample);
        }
        let commands: Vec<&str> = self.command.lines().collect();
        if !commands.contains(&part.command.as_str()) {
            self.command = format!("{}\n{}", self.command, part.command);
        }
        Ok(())
    }

    /// As JSON, each run on a line.
    fn lines(&self) -> Result<String> {
        let mut value = serde_json::to_value(self)?;
        let fields = value.as_object_mut().context("it has no fields")?;
        fields.remove("samples");
        fields.remove("weights");
        let samples = self.samples.iter().map(to_string);
        let samples: Vec<String> = samples.collect::<Result<_, _>>()?;
        let mut text = "{\n".to_string();
        for (name, value) in fields.iter() {
            text += &format!("{}: {value},\n", Value::from(name.as_str()));
        }
        Ok(text + &format!("\"samples\": [\n{}\n]}}\n", samples.join(",\n")))
    }
}

/// CPUs of a machine; 0 where its shape is none.
pub fn nr_cpus(shape: &str) -> u32 {
    shape.parse().map_or(0, |shape: Topology| shape.nr_cpus())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::found::tests::dataset;

    /// Two schedulers on one machine, in parts as files have them.
    fn parts() -> [Dataset; 2] {
        let whole = dataset([(10, 1000, 1), (10, 1000, 1), (10, 1000, 2), (10, 1000, 3)]);
        ["b", "a"].map(|scheduler| whole.kept(scheduler, "1x1x4x1").unwrap())
    }

    #[test]
    fn what_is_written_is_read_again_without_single_cpus() {
        let dir = tempfile::tempdir().unwrap();
        let whole = dataset([(10, 1000, 1), (10, 1000, 1), (10, 1000, 2), (10, 1000, 3)]);
        write(&whole, dir.path()).unwrap();
        let names = ["a-1x1x4x1.json", "b-1x1x4x1.json"];
        let text = fs::read_to_string(dir.path().join(names[1])).unwrap();
        assert_eq!(text.matches("\n{\"scheduler\"").count(), 2, "{text}");
        assert!(!text.contains("weights") && !text.contains("modelled"));

        let read = read(dir.path()).unwrap();
        assert_eq!(read.schedulers, whole.schedulers);
        assert_eq!(read.samples.len(), whole.samples.len());
        for (sample, of_whole) in read.samples.iter().zip(&whole.samples) {
            assert!(sample.is_same_run(of_whole));
            let (span, of_whole) = (sample.span.as_ref(), of_whole.span.as_ref());
            let (span, of_whole) = (span.unwrap(), of_whole.unwrap());
            assert_eq!(span.total, of_whole.total);
            assert!(span.cpus.is_empty() && !of_whole.cpus.is_empty());
        }
        // By the weights of today, whatever they were.
        assert_eq!(read.weights, Weights::default());
        let figures = read.find("1x1x4x1", "walk", "b").unwrap();
        assert_eq!(figures.modelled_ns, (2000.0 * 0.27 + 5.0 * 157.0) / 20.0);
    }

    #[test]
    fn parts_that_are_not_of_the_same_are_refused() {
        let refused = |change: fn(&mut Dataset), words: &str| {
            let [first, mut second] = parts();
            change(&mut second);
            let error = Dataset::join(vec![first, second]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(|part| part.kernel = "7.3".into(), "kernel: 7.3 is not 6.18");
        refused(|part| part.caches = "l1=1K/1".into(), "caches");
        refused(|part| part.scenarios.clear(), "scenarios");
        refused(|part| *part = parts()[0].clone(), "there twice");
        assert!(Dataset::join(Vec::new()).is_err());
    }

    #[test]
    fn the_kernels_scheduler_and_the_smallest_machine_come_first() {
        let [first, mut second] = parts();
        second.schedulers[0].0 = spec::DEFAULT.into();
        second.topologies[0] = "1x1x2x1".into();
        for sample in &mut second.samples {
            sample.scheduler = spec::DEFAULT.into();
            sample.topology = "1x1x2x1".into();
        }
        let joined = Dataset::join(vec![first, second]).unwrap();
        let names: Vec<&str> = joined.schedulers.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, [spec::DEFAULT, "b"]);
        assert_eq!(joined.topologies, ["1x1x2x1", "1x1x4x1"]);
    }
}
