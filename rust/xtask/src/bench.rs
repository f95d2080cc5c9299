// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask bench`: `scx_bench guest`, with our scheduler in its list, and
//! `scx_bench gate`, with our baseline.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use etcetera::base_strategy::{BaseStrategy, Xdg};
use time::OffsetDateTime;

use crate::identity;
use crate::pages::LAYERS;
use crate::process;
use crate::setup::{self, Purpose, Tools};
use crate::workspace::Workspace;

/// What ours is called in tables.
const OURS: &str = "pandemonium";

/// Its package and its program.
const PACKAGE: &str = "scx_pandemonium";

/// Where its package is.
const PACKAGE_DIR: &str = "scheds/rust/scx_pandemonium";

/// Its baseline, in that directory.
const BASELINE: &str = "bench-baseline.json";

/// The arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The options of scx_bench guest: cargo xtask bench -- --help")]
pub struct Args {
    /// Run a few scenarios only and fail if a figure is worse than the committed baseline
    #[arg(long)]
    gate: bool,
    /// Compare our scheduler with itself: each layer off or on, each profile
    #[arg(long, conflicts_with = "gate")]
    layers: bool,
    /// Passed on to `scx_bench guest`, or to `scx_bench gate` after `--gate`; there `--update`
    /// writes the baseline anew
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    rest: Vec<String>,
}

/// Install, build, hand over.
pub fn main(args: &Args) -> Result<()> {
    let mut purposes = vec![Purpose::Build, Purpose::Guest, Purpose::Workload];
    if names_peers(&args.rest) {
        purposes.push(Purpose::Peers);
    }
    let tools = setup::ensure(&purposes, false)?;
    let workspace = Workspace::find(&tools)?;
    if args.gate {
        return gate(&workspace, &tools, &args.rest);
    }
    workspace.build_all(&tools)?;
    let ours = workspace.binary(PACKAGE);
    let mut command = Command::new(workspace.binary("scx_bench"));
    // For the published schedulers, which it builds.
    if let (None, Some(clang)) = (env::var_os("BPF_CLANG"), &tools.clang) {
        command.env("BPF_CLANG", clang);
    }
    let layers = if args.layers { LAYERS } else { &[] };
    command
        .arg("guest")
        .args(schedulers(&args.rest, &ours.to_string_lossy()))
        .args(layers.iter().flat_map(|(name, options)| {
            let program = format!("{name}={} {options}", ours.display());
            ["--sched".to_string(), program]
        }))
        .args(["--command", "cargo xtask bench"]);
    if !has(&args.rest, "--subject") {
        command.args(["--subject", OURS]);
    }
    // Counts of caches are no figures over time.
    if !has(&args.rest, "--prometheus") && !has(&args.rest, "--caches") {
        let version = workspace.version(PACKAGE)?;
        command.arg("--prometheus").arg(prometheus_file(version)?);
    }
    if has(&args.rest, "--results") {
        let identity = identity::of(&workspace, &tools, PACKAGE, &package_dir(&workspace))?;
        command.args(["--identity", &format!("{OURS}={identity}")]);
        for (name, options) in layers {
            command.args(["--identity", &format!("{name}={options} {identity}")]);
        }
    }
    process::run(command.args(&args.rest))
}

/// `scx_bench gate` with our scheduler and baseline, and `rest`.
pub fn gate(workspace: &Workspace, tools: &Tools, rest: &[String]) -> Result<()> {
    workspace.build_all(tools)?;
    let mut command = Command::new(workspace.binary("scx_bench"));
    command
        .arg("gate")
        .args(["--sched", &ours(workspace)])
        .arg("--baseline")
        .arg(package_dir(workspace).join(BASELINE))
        .args(rest);
    process::run(&mut command)
}

/// Our scheduler, as `--sched` names it.
pub fn ours(workspace: &Workspace) -> String {
    format!("{OURS}={}", workspace.binary(PACKAGE).display())
}

/// Where our package is, with what the bench holds it to.
pub fn package_dir(workspace: &Workspace) -> PathBuf {
    workspace.root().join(PACKAGE_DIR)
}

/// What is added to the schedulers that `rest` names: ours, unless it names
/// one of that name, and the kernel's to compare with if it names none.
fn schedulers(rest: &[String], path: &str) -> Vec<String> {
    let names_ours = |arg: &String| arg.contains(&format!("{OURS}="));
    let ours = ["--sched".to_string(), format!("{OURS}={path}")];
    if rest.iter().any(names_ours) {
        return Vec::new();
    }
    if has(rest, "--sched") {
        return ours.to_vec();
    }
    [["--sched".to_string(), "default".to_string()], ours].concat()
}

/// Do the arguments name a published scheduler, or all of them?
fn names_peers(rest: &[String]) -> bool {
    rest.iter()
        .flat_map(|arg| arg.split([',', '=']))
        .any(|word| word == "peers" || word.starts_with("scx_"))
}

/// Is this option among the arguments?
fn has(rest: &[String], option: &str) -> bool {
    let with_value = format!("{option}=");
    rest.iter()
        .any(|arg| arg == option || arg.starts_with(&with_value))
}

/// A file for the figures of this run: `~/.cache/pandemonium/VERSION-TIME.prom`.
fn prometheus_file(version: &str) -> Result<PathBuf> {
    let dirs = Xdg::new().context("finding the directory for caches")?;
    let name = format!("{version}-{}.prom", timestamp(OffsetDateTime::now_utc()));
    Ok(dirs.cache_dir().join(OURS).join(name))
}

/// A time in the shape that sorts and needs no quotes: 20261121T090807Z.
fn timestamp(at: OffsetDateTime) -> String {
    format!(
        "{}{:02}{:02}T{:02}{:02}{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn ours_is_added_to_what_is_named() {
        let added = |line: &str| schedulers(&words(line), "/p").join(" ");
        assert_eq!(added("--seeds 1"), "--sched default --sched pandemonium=/p");
        assert_eq!(added("--sched scx_flash"), "--sched pandemonium=/p");
        assert_eq!(added("--sched=peers"), "--sched pandemonium=/p");
        assert_eq!(added("--sched pandemonium=/other"), "");
    }

    #[test]
    fn published_schedulers_are_seen_in_any_list() {
        assert!(names_peers(&words("--sched default,scx_flash")));
        assert!(names_peers(&words("--sched=peers")));
        assert!(!names_peers(&words("--sched default --results peers.json")));
    }

    #[test]
    fn options_are_found_in_both_forms() {
        assert!(has(&words("--out x --results y"), "--results"));
        assert!(has(&words("--results=y"), "--results"));
        assert!(!has(&words("--results-of y"), "--results"));
    }

    #[test]
    fn a_timestamp_sorts() {
        let at = OffsetDateTime::from_unix_timestamp(1_795_252_087).expect("a time");
        assert_eq!(timestamp(at), "20261121T090807Z");
    }
}
