// SPDX-License-Identifier: GPL-2.0
//! The tasks of this repository: `cargo xtask run`, `test`, `bench`, `report`,
//! `kernel`, `kernels`, `setup`, `soak`, `sabotage`, `install`, `uninstall`, `package`,
//! `export`.
//!
//! Each command first installs what it needs and does not find, then builds,
//! then does its work. A failure is one line on stderr and a non-zero exit;
//! Ctrl-C ends everything that was started, and exits 130.
//!
//! Not here: how a guest boots (scx_guest), what loads it and what is measured
//! (scx_bench), anything about scheduling.

mod bench;
mod count;
mod export;
mod guests;
mod identity;
mod install;
mod interrupt;
mod kernel;
mod kernels;
mod package;
mod pages;
mod process;
mod published;
mod report;
mod run;
mod sabotage;
mod scorecard;
mod selftests;
mod setup;
mod soak;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Build, run and test the scheduler",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Debug, Subcommand)]
enum Cmd {
    /// Run the scheduler: on this kernel if it has sched_ext, else in a guest under a mixed load
    Run(run::Args),
    /// Check everything: formats, lints, unit tests and guest tests
    Test(test::Args),
    /// Measure schedulers in the guest; the arguments are those of `scx_bench guest`
    Bench(bench::Args),
    /// Make the report, the front picture and README's tables anew from the committed results
    Report(report::Args),
    /// Build the second test kernel (6.12, 1000 Hz) from Debian's sources
    Kernel(kernel::Args),
    /// Try the scheduler on every series of kernels that Debian offers: tests and figures
    Kernels(kernels::Args),
    /// Shake the scheduler in a guest for as long as one likes
    Soak(soak::Args),
    /// Break the scheduler on purpose, edit by edit, and see the named test fail
    Sabotage(sabotage::Args),
    /// Install what the other commands need, and nothing else
    Setup(setup::Args),
    /// Install the scheduler with its manual pages, completions and systemd unit
    Install(install::Args),
    /// Remove what `install` with the same options has put there
    Uninstall(install::Place),
    /// Make a Debian package, an RPM, and a PKGBUILD with its sources
    Package(package::Args),
    /// Put the scheduler into a checkout of the scx monorepo
    Export(export::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = interrupt::install().and_then(|()| execute(cli.command));
    interrupt::finish();
    match result {
        _ if interrupt::is_pressed() => {
            eprintln!("interrupted");
            ExitCode::from(interrupt::EXIT_CODE)
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Cmd) -> Result<()> {
    match command {
        Cmd::Run(args) => run::main(&args),
        Cmd::Test(args) => test::main(&args),
        Cmd::Bench(args) => bench::main(&args),
        Cmd::Report(args) => report::main(&args),
        Cmd::Kernel(args) => kernel::main(&args),
        Cmd::Kernels(args) => kernels::main(&args),
        Cmd::Setup(args) => setup::main(&args),
        Cmd::Soak(args) => soak::main(&args),
        Cmd::Sabotage(args) => sabotage::main(&args),
        Cmd::Install(args) => install::main(&args),
        Cmd::Uninstall(place) => install::uninstall(&place),
        Cmd::Package(args) => package::main(&args),
        Cmd::Export(args) => export::main(&args),
    }
}

/// The error and its causes, leaving out a cause that the text before it tells already.
fn one_line(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .fold(String::new(), |line, cause| match line.as_str() {
            "" => cause,
            line if line.ends_with(&cause) => line.to_string(),
            line => format!("{line}: {cause}"),
        })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file")
            .context("reading x: no such file")
            .context("running");
        assert_eq!(one_line(&error), "running: reading x: no such file");
        assert_eq!(one_line(&anyhow!("b").context("a")), "a: b");
    }
}
