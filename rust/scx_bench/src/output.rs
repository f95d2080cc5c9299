// SPDX-License-Identifier: GPL-2.0
//! What is written of results besides the tables, and the command that repeats
//! them.

use std::path::PathBuf;

use anyhow::Result;

use crate::dataset::Dataset;
use crate::prometheus;
use crate::report;
use crate::spec::{self, Source};

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
    /// Every `--sched`.
    pub sched: &'a [String],
    /// `--scenario`.
    pub scenario: &'a str,
    /// `--seconds`.
    pub seconds: Option<f64>,
}

impl OutputArgs {
    /// Write what was asked for. `sched` is what was measured.
    pub fn write(&self, results: &Dataset, sched: &[String]) -> Result<()> {
        if let Some(dir) = &self.out {
            results.write(dir)?;
            let programs = spec::parse_all(sched)?
                .into_iter()
                .find(|spec| matches!(spec.source, Source::Program { .. }));
            let subject = self.subject.clone().or(programs.map(|spec| spec.name));
            report::write(results, subject.as_deref(), &dir.join(report::FILE_NAME))?;
        }
        if let Some(path) = &self.prometheus {
            prometheus::write(results, path)?;
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
        let specs = spec::parse_all(repeat.sched).unwrap_or_default();
        let scheds = specs
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
