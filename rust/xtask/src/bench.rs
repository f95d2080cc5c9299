// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask bench`: `scx_bench guest`, with our scheduler in its list.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// What ours is called in tables.
const OURS: &str = "pandemonium";

/// The arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Passed on to `scx_bench guest`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    rest: Vec<String>,
}

/// Install, build, hand over.
pub fn main(args: &Args) -> Result<()> {
    let purposes = [Purpose::Build, Purpose::Guest, Purpose::Workload];
    let tools = setup::ensure(&purposes, false)?;
    let workspace = Workspace::find(&tools)?;
    workspace.build(&tools, &["scx_bench", "scx_pandemonium"])?;
    let ours = workspace.binary("scx_pandemonium");
    let mut command = Command::new(workspace.binary("scx_bench"));
    command
        .arg("guest")
        .args(schedulers(&args.rest, &ours.to_string_lossy()))
        .args(&args.rest);
    process::run(&mut command)
}

/// What is added to the schedulers that `rest` names: ours, unless it names
/// one of that name, and the kernel's to compare with if it names none.
fn schedulers(rest: &[String], path: &str) -> Vec<String> {
    let is_list = |arg: &String| arg.starts_with("--sched=") || arg == "--sched";
    let names_ours = |arg: &String| arg.contains(&format!("{OURS}="));
    let ours = ["--sched".to_string(), format!("{OURS}={path}")];
    if rest.iter().any(names_ours) {
        return Vec::new();
    }
    if rest.iter().any(is_list) {
        return ours.to_vec();
    }
    [["--sched".to_string(), "default".to_string()], ours].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_added_to_what_is_named() {
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        let added = |line: &str| schedulers(&words(line), "/p").join(" ");
        assert_eq!(added("--seeds 1"), "--sched default --sched pandemonium=/p");
        assert_eq!(added("--sched scx_flash"), "--sched pandemonium=/p");
        assert_eq!(added("--sched=peers"), "--sched pandemonium=/p");
        assert_eq!(added("--sched pandemonium=/other"), "");
    }
}
