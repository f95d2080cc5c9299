// SPDX-License-Identifier: GPL-2.0
//! What is written of results besides the tables, and the command that repeats
//! them.
//!
//! Not here: how it is written (`dataset`, `report`, `prometheus`).

use std::path::PathBuf;

use anyhow::Result;

use crate::dataset::Dataset;
use crate::prometheus;
use crate::report;
use crate::spec::{Source, Spec};

/// What is written of the results, besides the tables.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OutputArgs {
    /// Write results.json and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the figures to this file, in the text format of Prometheus.
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Whose losses the report lists; without it the first program of this machine.
    #[arg(long, value_name = "NAME")]
    pub subject: Option<String>,
    /// What to type instead of the name of this command to get the same again; it adds the subject by
    /// itself.
    #[arg(long, hide = true, requires = "subject", value_name = "TEXT")]
    pub command: Option<String>,
}

/// What decides a comparison, as it stands on the command line.
#[derive(Debug)]
pub struct Repeat<'a> {
    /// The command's name.
    pub program: &'a str,
    /// Machines, and how often.
    pub options: String,
    /// The schedulers.
    pub specs: &'a [Spec],
    /// `--scenario`.
    pub scenario: &'a str,
    /// `--seconds`.
    pub seconds: Option<f64>,
}

impl OutputArgs {
    /// What the results are about: what the user says, or the first program of
    /// this machine.
    pub fn subject(&self, specs: &[Spec]) -> Option<String> {
        let is_program = |spec: &&Spec| matches!(spec.source, Source::Program { .. });
        let program = specs.iter().find(is_program).map(|spec| spec.name.clone());
        self.subject.clone().or(program)
    }

    /// Write what was asked for.
    pub fn write(&self, dataset: &Dataset) -> Result<()> {
        if let Some(dir) = &self.out {
            dataset.write(dir)?;
            report::write(dataset, &dir.join(report::FILE_NAME))?;
        }
        if let Some(path) = &self.prometheus {
            prometheus::write(dataset, path)?;
        }
        Ok(())
    }

    /// What to type to get the same again. Paths of programs are left out:
    /// they mean nothing elsewhere.
    pub fn repeat(&self, repeat: &Repeat) -> String {
        let (program, added) = match &self.command {
            Some(program) => (program.as_str(), self.subject.as_ref()),
            None => (repeat.program, None),
        };
        let scheds = repeat
            .specs
            .iter()
            .filter(|spec| added != Some(&spec.name))
            .map(|spec| match &spec.source {
                Source::Program { .. } => format!("'{}={}'", spec.name, spec.describe()),
                _ => spec.name.clone(),
            });
        let mut command = format!("{program} {}", repeat.options);
        scheds.for_each(|sched| command.push_str(&format!(" --sched {sched}")));
        if repeat.scenario != "all" {
            command.push_str(&format!(" --scenario {}", repeat.scenario));
        }
        if let Some(seconds) = repeat.seconds {
            command.push_str(&format!(" --seconds {seconds}"));
        }
        command
    }
}
