// SPDX-License-Identifier: GPL-2.0
//! Schedulers with the programs that start them, for guest and host alike.
//!
//! A scheduler whose program cannot be found or built is no candidate: its
//! sample says why, and the others are measured all the same.
//!
//! Not here: what is named on the command line (`spec`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dataset::Sample;
use crate::result::{Failure, RunResult};
use crate::spec::{Source, Spec};

/// A scheduler that can be measured.
#[derive(Debug)]
pub struct Candidate {
    /// Which one it is.
    pub spec: Spec,
    /// What starts it; nothing for the kernel's own and for one that is known.
    pub program: Option<Program>,
}

/// A scheduler's program.
#[derive(Debug)]
pub struct Program {
    /// Its absolute path. Links stay: a program may go by its name.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// The candidates among `specs`, published ones built below `cache` where
/// necessary, and a sample that says why for each of the others. Programs of
/// those that `is_known` are not looked for. A published one that is not for
/// the kernel `release` is left out, which is said; an error if that leaves none.
pub fn find_all(
    specs: &[Spec],
    release: &str,
    cache: &Path,
    is_known: impl Fn(&Spec) -> bool,
) -> Result<(Vec<Candidate>, Vec<Sample>)> {
    let mut candidates = Vec::new();
    let mut unbuilt = Vec::new();
    for spec in specs.iter().cloned() {
        if let Source::Published(peer) = &spec.source
            && !peer.is_for(release)
        {
            let first = peer.kernel.as_deref().unwrap_or_default();
            eprintln!(
                "{} is left out: it needs Linux {first}, and this is {release}",
                spec.describe()
            );
            continue;
        }
        let program = match is_known(&spec) {
            true => Ok(None),
            false => find_program(&spec, cache),
        };
        match program {
            Ok(program) => candidates.push(Candidate { spec, program }),
            Err(error) => unbuilt.push(Sample {
                scheduler: spec.name,
                topology: String::new(),
                cpus: 0,
                seed: 0,
                result: failed(&format!("{error:#}")),
            }),
        }
    }
    ensure!(
        !candidates.is_empty() || !unbuilt.is_empty(),
        "there is nothing to measure on Linux {release}"
    );
    Ok((candidates, unbuilt))
}

fn find_program(spec: &Spec, cache: &Path) -> Result<Option<Program>> {
    let (path, args) = match &spec.source {
        Source::Kernel | Source::Limit => return Ok(None),
        Source::Published(peer) => (peer.program(cache)?, Vec::new()),
        Source::Program { path, args } => (path.clone(), args.clone()),
    };
    let path = std::path::absolute(&path).with_context(|| format!("finding {}", path.display()))?;
    Ok(Some(Program { path, args }))
}

/// The result of a scheduler that got nowhere.
pub fn failed(message: &str) -> RunResult {
    let failure = Failure {
        scenario: None,
        message: message.to_string(),
    };
    RunResult {
        failures: vec![failure],
        ..RunResult::default()
    }
}
