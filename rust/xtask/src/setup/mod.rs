// SPDX-License-Identifier: GPL-2.0
//! Sees to it that what a command needs is there.
//!
//!   1. What is missing is found by looking for it ([`needs`]); nothing missing: done, offline.
//!   2. As root it is installed by apt. Otherwise sudo is used, after asking.
//!   3. Where that is not possible (no apt, no sudo, declined) the command fails with the line
//!      that would install it.
//!
//! The environment for every later cargo call is made here too, so that all
//! of them agree on it and nothing is built twice.

mod apt;
mod needs;

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::unistd::Uid;

use scx_guest::quote;

use crate::process;
pub use needs::Purpose;
use needs::{Machine, Need};

/// The tools of a machine on which everything needed is present.
#[derive(Debug)]
pub struct Tools {
    /// Compiles the BPF half.
    pub clang: Option<PathBuf>,
    /// Formats C.
    pub clang_format: Option<PathBuf>,
}

impl Tools {
    /// A cargo call with the environment that all cargo calls share.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        if let Some(clang) = self.bpf_clang() {
            command.env("BPF_CLANG", clang);
        }
        command
    }

    /// The compiler for BPF: the user's, else the one that was found, by its name.
    pub fn bpf_clang(&self) -> Option<OsString> {
        let found = || Some(self.clang.as_ref()?.file_name()?.to_owned());
        env::var_os("BPF_CLANG").or_else(found)
    }
}

/// The arguments of `cargo xtask setup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Use sudo without asking
    #[arg(long, short)]
    yes: bool,
}

/// `cargo xtask setup`: everything for `run`, `test` and `bench`. What only
/// `kernel` needs is left to that command.
pub fn main(args: &Args) -> Result<()> {
    let purposes = [
        Purpose::Build,
        Purpose::Format,
        Purpose::Guest,
        Purpose::Workload,
        Purpose::Desktop,
        Purpose::Loader,
        Purpose::Meson,
    ];
    let tools = ensure(&purposes, args.yes)?;
    ensure_rust_components(&tools)?;
    println!("everything needed is here");
    Ok(())
}

/// Install what `purposes` need and is missing. `yes` allows sudo without asking.
pub fn ensure(purposes: &[Purpose], yes: bool) -> Result<Tools> {
    let machine = Machine::current();
    let missing = machine.missing(purposes);
    if !missing.is_empty() {
        install(&machine, &missing, yes)?;
        let left = machine.missing(purposes);
        if !left.is_empty() {
            bail!("still missing after installing: {}", list(&left));
        }
    }
    Ok(Tools {
        clang: machine.find_clang(),
        clang_format: machine.find_clang_format(),
    })
}

/// Download Debian's newest `package` into `dir` without installing it; return the file.
pub fn download(package: &str, dir: &Path) -> Result<PathBuf> {
    apt::download(package, dir)
}

/// Download the archive of the sources of Debian's `package` in `version`, which `suite`
/// has, into `dir`; return the file.
pub fn download_source(package: &str, version: &str, suite: &str, dir: &Path) -> Result<PathBuf> {
    apt::download_source(package, version, suite, dir)
}

/// Install the toolchain components that the checks need.
///
/// Without cargo there is nothing to add to: root, for whom `setup` installs
/// packages, may well have no Rust.
pub fn ensure_rust_components(tools: &Tools) -> Result<()> {
    let answers = |args: &[&str]| {
        let mut command = tools.cargo();
        command
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !answers(&["--version"]) {
        return Ok(());
    }
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if answers(&[subcommand, "--version"]) {
            continue;
        }
        let mut rustup = Command::new("rustup");
        rustup.args(["component", "add", component]);
        process::run_quietly(
            &mut rustup,
            &format!("adding {component} to the Rust toolchain"),
        )
        .with_context(|| format!("{component} is missing and rustup could not add it"))?;
    }
    Ok(())
}

fn install(machine: &Machine, missing: &[&Need], yes: bool) -> Result<()> {
    eprintln!("missing: {}", list(missing));
    let needs_sudo = !Uid::effective().is_root();
    if machine.find_command(&["apt-get"], None).is_none() {
        bail!(
            "no apt-get here: install {} by this distribution's means",
            list(missing)
        );
    }
    if needs_sudo && machine.find_command(&["sudo"], None).is_none() {
        bail!("not root, and no sudo here; as root: {}", by_hand(missing));
    }
    if needs_sudo && !yes && !is_confirmed(missing)? {
        bail!("nothing was installed; to do so: sudo {}", by_hand(missing));
    }
    apt::install(missing, needs_sudo)
}

/// Ask on the terminal. Without one, the answer is no.
fn is_confirmed(missing: &[&Need]) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("Install {} with sudo apt-get? [y/N] ", packages(missing));
    io::stderr().flush().context("asking")?;
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("reading the answer")?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// The command that does it: xtask itself as root, which also knows where a
/// package has to come from backports; and what that command runs.
fn by_hand(missing: &[&Need]) -> String {
    let apt_get = format!(
        "apt-get install --no-install-recommends {}",
        packages(missing)
    );
    match env::current_exe() {
        Ok(xtask) => format!(
            "{} setup (that is, {apt_get})",
            quote(&xtask.to_string_lossy())
        ),
        Err(_) => apt_get,
    }
}

fn packages(needs: &[&Need]) -> String {
    needs
        .iter()
        .map(|need| need.package)
        .collect::<Vec<_>>()
        .join(" ")
}

fn list(needs: &[&Need]) -> String {
    needs
        .iter()
        .map(|need| need.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for answer in ["y", "Y\n", "yes", " Yes "] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n", "yep", "no"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }

    #[test]
    fn a_missing_need_is_named_with_the_version_it_must_have() {
        let qemu = needs::NEEDS
            .iter()
            .find(|need| need.name == "QEMU")
            .expect("a row");
        assert_eq!(list(&[qemu]), "QEMU >= 8.1");
        assert_eq!(packages(&[qemu]), "qemu-system-x86");
    }
}
