// SPDX-License-Identifier: GPL-2.0
//! Compiles the short process of fork loads, which the bench carries inside,
//! and tells what the workload program is made of.
//!
//! The process is C without a C library, so that a compiler is all that is
//! needed and starting it costs little more than fork and exec.
//!
//! Committed results go by a digest of the workload's sources: its root and
//! every module that is named by one that belongs to it. What judges results is
//! not named there, so that changing it leaves them valid. The packages that it
//! depends on, the compiler and the profile are told beside it.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

mod lock;

/// Root of the workload program.
const WORKLOAD_ROOT: &str = "src/bin/scx_workload.rs";

/// Bytes of the digest that are kept.
const DIGEST_BYTES: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let source = "child/child.c";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-changed=src");
    tell_workload_sources(source)?;
    tell_packages()?;
    tell_build()?;

    let output = PathBuf::from(env::var("OUT_DIR")?).join("child");
    let status = cc::Build::new()
        .opt_level(2)
        .get_compiler()
        .to_command()
        .args([
            "-static",
            "-nostdlib",
            "-ffreestanding",
            "-fno-pic",
            "-no-pie",
        ])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables"])
        .args(["-fno-tree-vectorize", "-Wall", "-Werror"])
        .args(["-Wl,--build-id=none", "-s", "-o"])
        .arg(&output)
        .arg(source)
        .status()?;
    if !status.success() {
        return Err(format!("the C compiler could not build {source}: {status}").into());
    }
    Ok(())
}

/// Set the names of the workload's source files, and a digest of them, for the
/// compiler.
fn tell_workload_sources(child: &str) -> io::Result<()> {
    let mut files = BTreeSet::from([PathBuf::from(child)]);
    let mut queue = vec![PathBuf::from(WORKLOAD_ROOT)];
    while let Some(file) = queue.pop() {
        let text = fs::read_to_string(&file)?;
        if !files.insert(file) {
            continue;
        }
        for module in modules_named_in(&text) {
            let path = Path::new("src").join(&module);
            if path.is_dir() {
                add_rust_files(&path, &mut queue)?;
            }
            let file = path.with_extension("rs");
            if file.is_file() {
                queue.push(file);
            }
        }
    }
    let mut hasher = Sha256::new();
    for file in &files {
        let bytes = fs::read(file)?;
        hasher.update(format!("{} {}\n", file.display(), bytes.len()));
        hasher.update(bytes);
    }
    let hex = hex(hasher);
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    println!("cargo::rustc-env=SCX_WORKLOAD_SOURCES={hex}");
    println!("cargo::rustc-env=SCX_WORKLOAD_FILES={}", names.join(","));
    Ok(())
}

/// Set a digest of the packages that this one depends on, for the compiler.
fn tell_packages() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let digest = match lock::find(&here) {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", path.display());
            let packages = lock::packages(&fs::read_to_string(path)?, env!("CARGO_PKG_NAME"))?;
            hex(Sha256::new().chain_update(packages))
        }
        None => "no Cargo.lock".to_string(),
    };
    println!("cargo::rustc-env=SCX_WORKLOAD_PACKAGES={digest}");
    Ok(())
}

/// Set the profile and the compiler in words, for the compiler.
fn tell_build() -> Result<(), Box<dyn Error>> {
    let rustc = Command::new(env::var("RUSTC")?).arg("--version").output()?;
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let words = format!(
        "{}, opt-level {}, {} {}",
        env::var("PROFILE")?,
        env::var("OPT_LEVEL")?,
        String::from_utf8_lossy(&rustc.stdout).trim(),
        flags.replace('\u{1f}', " ")
    );
    println!("cargo::rustc-env=SCX_WORKLOAD_BUILD={}", words.trim());
    Ok(())
}

/// The beginning of a digest.
fn hex(hasher: Sha256) -> String {
    format!("{:.*x}", 2 * DIGEST_BYTES, hasher.finalize())
}

/// Top-level modules of this crate that `text` names, in whatever way: all
/// words of a `use` with braces are taken for modules, and those that are none
/// have no file.
fn modules_named_in(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut modules = Vec::new();
    for start in ["crate::", "scx_bench::"] {
        for (at, _) in text.match_indices(start) {
            let rest = text.get(at + start.len()..).unwrap_or_default();
            let names = match rest.strip_prefix('{') {
                Some(list) => list.split(';').next().unwrap_or_default(),
                None => rest.split(|c| !is_word(c)).next().unwrap_or_default(),
            };
            let words = names.split(|c| !is_word(c)).filter(|word| !word.is_empty());
            modules.extend(words.map(str::to_string));
        }
    }
    modules
}

/// Add the Rust files below `dir` to `files`.
fn add_rust_files(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            add_rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
