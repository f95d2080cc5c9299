// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask soak`: the guest tests that shake the scheduler, for as long as one
//! likes, and a line for each of how it ended.
//!
//! *Exact* is `tests/guest/soak.rs`: a seed repeats it to the bit, and a second of the
//! guest takes six or seven. *Races* is `tests/guest/races.rs`: CPUs run at the same
//! time, nothing repeats, and a second is a second. *Starts* is `tests/guest/starts.rs`:
//! the scheduler starts and ends, which takes about seven seconds each time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scx_guest::{Kernel, Topology};

use crate::interrupt;
use crate::process;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// The arguments of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seconds of the guest, under the clock that counts instructions; 0 leaves it out
    #[arg(long, value_name = "SEC", default_value_t = 60)]
    exact: u32,
    /// Seconds in which CPUs race; 0 leaves it out
    #[arg(long, value_name = "SEC", default_value_t = 600)]
    races: u32,
    /// Starts of the scheduler, each with an end; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 40)]
    starts: u32,
    /// Machine of the races, as NODESxLLCSxCORESxTHREADS, instead of the test's own
    #[arg(long, value_name = "SHAPE")]
    topology: Option<Topology>,
    /// What phases, and the changes of the races, are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Kernel image, instead of the one that is found or downloaded
    #[arg(long, value_name = "PATH")]
    kernel: Option<std::path::PathBuf>,
    /// Use sudo without asking
    #[arg(long, short)]
    yes: bool,
}

/// A test, and the environment variable for its length.
struct Soak {
    title: String,
    test: &'static str,
    length_env: &'static str,
    length: u32,
    unit: &'static str,
}

/// Run each, whatever the others come to.
pub fn main(args: &Args) -> Result<()> {
    let purposes = [Purpose::Build, Purpose::Guest, Purpose::Workload];
    let tools = setup::ensure(&purposes, args.yes)?;
    let workspace = Workspace::find(&tools)?;
    let kernel = Kernel::find(args.kernel.as_deref())?;
    let image = std::path::absolute(kernel.image()).context("resolving the kernel's path")?;
    let soaks = [
        Soak {
            title: "exact".to_string(),
            test: "soak::",
            length_env: "SCX_SOAK_SECONDS",
            length: args.exact,
            unit: "s",
        },
        Soak {
            title: match args.topology {
                Some(topology) => format!("races on {topology}"),
                None => "races".to_string(),
            },
            test: "races::",
            length_env: "SCX_RACES_SECONDS",
            length: args.races,
            unit: "s",
        },
        Soak {
            title: "starts".to_string(),
            test: "starts::",
            length_env: "SCX_STARTS",
            length: args.starts,
            unit: "starts",
        },
    ];
    let mut ends: Vec<(String, bool)> = Vec::new();
    for soak in soaks.iter().filter(|soak| soak.length > 0) {
        let started = Instant::now();
        let mut command = workspace.guest_test(&tools, soak.test, &image);
        command
            .arg("--nocapture")
            .env(soak.length_env, soak.length.to_string())
            .env("SCX_GUEST_SEED", args.seed.to_string());
        if let Some(topology) = args.topology {
            command.env("SCX_RACES_TOPOLOGY", topology.to_string());
        }
        let result = process::run(&mut command);
        interrupt::check()?;
        let end = end(soak, args.seed, result.is_ok(), started.elapsed());
        ends.push((end, result.is_ok()));
    }
    println!("Linux {}", kernel.release());
    for (end, _) in &ends {
        println!("{end}");
    }
    ensure!(!ends.is_empty(), "all lengths are 0");
    ensure!(ends.iter().all(|(_, is_ok)| *is_ok), "see above");
    Ok(())
}

fn end(soak: &Soak, seed: u64, is_ok: bool, took: Duration) -> String {
    format!(
        "{}: {} {}, seed {seed}: {}, in {} s",
        soak.title,
        soak.length,
        soak.unit,
        if is_ok { "survived" } else { "FAILED" },
        took.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_and_how_it_ended() {
        let soak = Soak {
            title: "races on 1x2x2x1".to_string(),
            test: "races::",
            length_env: "SCX_RACES_SECONDS",
            length: 60,
            unit: "s",
        };
        let took = Duration::from_secs(75);
        assert_eq!(
            end(&soak, 3, true, took),
            "races on 1x2x2x1: 60 s, seed 3: survived, in 75 s"
        );
        assert!(end(&soak, 3, false, took).contains("FAILED"));
    }

    #[test]
    fn lengths_are_those_that_the_tests_read() {
        let read = |path: &str| {
            let dir = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../scheds/rust/scx_pandemonium/tests/guest/"
            );
            std::fs::read_to_string(format!("{dir}{path}")).unwrap()
        };
        assert!(read("soak.rs").contains("\"SCX_SOAK_SECONDS\""));
        assert!(read("races.rs").contains("\"SCX_RACES_SECONDS\""));
        assert!(read("races.rs").contains("\"SCX_RACES_TOPOLOGY\""));
        assert!(read("starts.rs").contains("\"SCX_STARTS\""));
    }
}
