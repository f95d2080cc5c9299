// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask kernel`: builds the second test kernel, 6.12 with 1000 Hz.
//!
//! It is the oldest kernel the scheduler promises to run on, with the tick rate
//! of distributions for desktops. No distribution ships that pair, so it is
//! built from Debian's `linux-source-6.12` with the options of `kernel.config`
//! at the top level, on top of the smallest configuration there is. `cargo xtask
//! test` finds the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::process::run_quietly;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// Debian's package of the sources, which also names the archive inside it.
const SOURCE_PACKAGE: &str = "linux-source-6.12";

/// What the image and its configuration are called, after `vmlinuz-` and `config-`.
const NAME: &str = "6.12-hz1000";

/// The arguments of `cargo xtask kernel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to put the image and its configuration, instead of the cache
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How many compilers to run at a time
    #[arg(long, short, value_name = "N")]
    jobs: Option<usize>,
    /// Use sudo without asking
    #[arg(long, short)]
    yes: bool,
}

/// Fetch, configure, build, keep.
pub fn main(args: &Args) -> Result<()> {
    let started = Instant::now();
    let tools = setup::ensure(&[Purpose::Kernel], args.yes)?;
    let workspace = Workspace::find(&tools)?;
    let out = match &args.out {
        Some(dir) => dir.clone(),
        None => scx_guest::built_kernels_dir()?,
    };
    fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;

    // Beside the result: sources and objects need about 3 GB, too much for many a /tmp.
    let scratch = tempfile::tempdir_in(&out).context("making a directory for the sources")?;
    let tree = fetch(scratch.path())?;
    configure(&tree, &workspace.root().join("kernel.config"))?;
    let jobs = args
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    run_quietly(
        make(&tree).arg(format!("-j{jobs}")).arg("bzImage"),
        "building the kernel (10 minutes or more)",
    )?;

    let image = out.join(format!("vmlinuz-{NAME}"));
    keep(&tree.join(".config"), &out.join(format!("config-{NAME}")))?;
    keep(&tree.join("arch/x86/boot/bzImage"), &image)?;
    println!(
        "{} built in {} s",
        image.display(),
        started.elapsed().as_secs()
    );
    Ok(())
}

/// Download and unpack the sources below `scratch`; return their top level.
fn fetch(scratch: &Path) -> Result<PathBuf> {
    let package = setup::download(SOURCE_PACKAGE, scratch)?;
    let unpacked = scratch.join("package");
    let mut command = Command::new("dpkg-deb");
    run_quietly(
        command.arg("-x").arg(&package).arg(&unpacked),
        "unpacking the package",
    )?;
    let archive = unpacked.join(format!("usr/src/{SOURCE_PACKAGE}.tar.xz"));
    let mut command = Command::new("tar");
    command.arg("-xf").arg(&archive).arg("-C").arg(scratch);
    run_quietly(&mut command, "unpacking the sources")?;
    let tree = scratch.join(SOURCE_PACKAGE);
    ensure!(
        tree.join("Makefile").is_file(),
        "{} holds no kernel sources",
        archive.display()
    );
    Ok(tree)
}

/// The smallest configuration with the options of `fragment` on top.
fn configure(tree: &Path, fragment: &Path) -> Result<()> {
    run_quietly(
        make(tree).arg("tinyconfig"),
        "making the smallest configuration",
    )?;
    let mut merge = Command::new(tree.join("scripts/kconfig/merge_config.sh"));
    merge
        .current_dir(tree)
        .args(["-m", ".config"])
        .arg(fragment);
    run_quietly(&mut merge, "adding kernel.config")?;
    run_quietly(
        make(tree).arg("olddefconfig"),
        "completing the configuration",
    )?;

    let wanted =
        fs::read_to_string(fragment).with_context(|| format!("reading {}", fragment.display()))?;
    let config = tree.join(".config");
    let got =
        fs::read_to_string(&config).with_context(|| format!("reading {}", config.display()))?;
    let dropped = dropped_options(&wanted, &got);
    if !dropped.is_empty() {
        bail!(
            "this kernel does not take {} of kernel.config",
            dropped.join(", ")
        );
    }
    Ok(())
}

/// The options of `wanted` that did not make it into `got`, for want of another option.
fn dropped_options<'a>(wanted: &'a str, got: &str) -> Vec<&'a str> {
    let options = wanted
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("CONFIG_"));
    options
        .filter(|option| !got.lines().any(|line| line == *option))
        .collect()
}

/// make in `tree`, with the same stamps in the image wherever it is built.
fn make(tree: &Path) -> Command {
    let mut command = Command::new("make");
    command
        .arg("-C")
        .arg(tree)
        .env("KBUILD_BUILD_TIMESTAMP", "2026-01-01")
        .env("KBUILD_BUILD_USER", "xtask")
        .env("KBUILD_BUILD_HOST", "xtask");
    command
}

/// Copy `from` to `to`, never leaving half a file under that name.
fn keep(from: &Path, to: &Path) -> Result<()> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let part = to.with_file_name(format!(".{name}.part"));
    fs::copy(from, &part)
        .and_then(|_| fs::rename(&part, to))
        .with_context(|| format!("writing {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_the_kernel_did_not_take_is_named() {
        let wanted = "# a comment\nCONFIG_A=y\nCONFIG_B=256\n\nCONFIG_C=y\n";
        let got = "CONFIG_A=y\nCONFIG_B=64\n# CONFIG_C is not set\nCONFIG_D=y\n";
        assert_eq!(dropped_options(wanted, got), ["CONFIG_B=256", "CONFIG_C=y"]);
        assert!(dropped_options(wanted, wanted).is_empty());
    }
}
