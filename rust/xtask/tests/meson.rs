// SPDX-License-Identifier: GPL-2.0
//! `meson.build` and `cargo xtask install` install the same.
//!
//! Both put the built program and what belongs to it into a directory, which are then
//! compared file by file. Meson is given a cargo that hands out the program that cargo
//! has built already, and says with what it was called.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use walkdir::WalkDir;

/// Copies the program to where cargo would put it, and keeps its arguments.
const CARGO: &str = r#"#!/bin/sh
printf '%s\n' "$BPF_CLANG" "$@" >ARGS
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/release" && cp PROGRAM "$2/release/"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program as `cargo build --release` makes it, in the directory of this test's
/// own program.
fn built_program() -> Result<PathBuf> {
    let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let program = xtask.with_file_name("scx_pandemonium");
    ensure!(program.is_file(), "{} is not built", program.display());
    Ok(program)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Mode and bytes of each file below `dir`, by its path from there.
fn files(dir: &Path) -> Result<BTreeMap<PathBuf, (u32, Vec<u8>)>> {
    let mut files = BTreeMap::new();
    for entry in WalkDir::new(dir) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let mode = entry.metadata()?.permissions().mode() & 0o7777;
            let bytes = fs::read(entry.path())?;
            let name = entry.path().strip_prefix(dir)?.to_path_buf();
            files.insert(name, (mode, bytes));
        }
    }
    Ok(files)
}

#[test]
fn meson_installs_what_xtask_installs() -> Result<()> {
    if Command::new("meson").arg("--version").output().is_err() {
        eprintln!("skipped: meson_installs_what_xtask_installs: no meson");
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name);
    let program = built_program()?;
    let cargo = CARGO
        .replace("ARGS", &path("args").display().to_string())
        .replace("PROGRAM", &program.display().to_string());
    fs::write(path("text"), cargo)?;
    // Written by another process: a program that is open for writing cannot be started.
    run(Command::new("install")
        .arg("--mode=755")
        .args([path("text"), path("cargo")]))?;

    run(Command::new("meson")
        .args(["setup", "--prefix", "/usr", "-D", "bpf_clang=clang-x"])
        .args(["-D", "offline=true", "-D"])
        .arg(format!("cargo={}", path("cargo").display()))
        .args([path("build"), root()]))?;
    run(Command::new("meson")
        .args(["compile", "-C"])
        .arg(path("build")))?;
    run(Command::new("meson")
        .args(["install", "--no-rebuild", "-C"])
        .arg(path("build"))
        .arg("--destdir")
        .arg(path("meson")))?;
    run(Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["install", "--no-build", "--prefix", "/usr", "--destdir"])
        .arg(path("xtask"))
        .current_dir(root()))?;

    let (meson, xtask) = (files(&path("meson"))?, files(&path("xtask"))?);
    ensure!(meson.keys().eq(xtask.keys()), "other files are installed");
    for (name, file) in &meson {
        ensure!(file == &xtask[name], "{} differs", name.display());
    }

    let args = fs::read_to_string(path("args"))?;
    let args: Vec<&str> = args.lines().collect();
    ensure!(args[..2] == ["clang-x", "build"], "called with {args:?}");
    for arg in ["--release", "--locked", "--offline", "scx_pandemonium"] {
        ensure!(args.contains(&arg), "{arg} is not in {args:?}");
    }
    Ok(())
}
