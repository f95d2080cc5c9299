// SPDX-License-Identifier: GPL-2.0
//! The part of the bench that runs in the guest: scenarios and nothing else.
//!
//! It uses nothing of the library of scx_bench, so that what judges results does not
//! change its bytes.

use std::process::ExitCode;

use clap::Parser;

use scx_scenarios::run::{self, RunArgs};

/// Run scenarios of scx_bench here.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: RunArgs,
}

fn main() -> ExitCode {
    match run::run(&Cli::parse().args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scx_workload: {error:#}");
            ExitCode::FAILURE
        }
    }
}
