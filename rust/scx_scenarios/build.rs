// SPDX-License-Identifier: GPL-2.0
//! Compiles the short process of fork loads, which the scenarios carry inside,
//! and tells what they are made of.
//!
//! The process is C without a C library, so that a compiler is all that is
//! needed and starting it costs little more than fork and exec.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

mod lock;

/// What the program is made of, beside packages and the compiler.
const SOURCES: [&str; 2] = ["child", "src"];

/// Bytes of a digest that are kept.
const DIGEST_BYTES: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    tell("SOURCES", &hex(sources()?));
    tell("PACKAGES", &packages()?);
    tell("BUILD", build()?.trim());
    compile_child(Path::new("child/child.c"))
}

/// Set a variable of this package for the compiler.
fn tell(name: &str, words: &str) {
    println!("cargo::rustc-env=SCX_SCENARIOS_{name}={words}");
}

/// A digest of the names, lengths and bytes of all source files.
fn sources() -> Result<Sha256, Box<dyn Error>> {
    let mut hasher = Sha256::new();
    for source in SOURCES {
        for entry in WalkDir::new(source).sort_by_file_name() {
            let entry = entry?;
            if entry.file_type().is_file() {
                let bytes = fs::read(entry.path())?;
                hasher.update(format!("{} {}\n", entry.path().display(), bytes.len()));
                hasher.update(bytes);
            }
        }
    }
    Ok(hasher)
}

/// A digest of the packages that this one depends on.
fn packages() -> Result<String, Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let Some(path) = lock::find(&here) else {
        return Ok("no Cargo.lock".to_string());
    };
    println!("cargo::rerun-if-changed={}", path.display());
    let packages = lock::packages(&fs::read_to_string(path)?, env!("CARGO_PKG_NAME"))?;
    Ok(hex(Sha256::new().chain_update(packages)))
}

/// The profile and the compiler, in words.
fn build() -> Result<String, Box<dyn Error>> {
    let rustc = Command::new(env::var("RUSTC")?).arg("--version").output()?;
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    Ok(format!(
        "{}, opt-level {}, {} {}",
        env::var("PROFILE")?,
        env::var("OPT_LEVEL")?,
        String::from_utf8_lossy(&rustc.stdout).trim(),
        flags.replace('\u{1f}', " ")
    ))
}

/// The beginning of a digest.
fn hex(hasher: Sha256) -> String {
    format!("{:.*x}", 2 * DIGEST_BYTES, hasher.finalize())
}

fn compile_child(source: &Path) -> Result<(), Box<dyn Error>> {
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
        return Err(format!(
            "the C compiler could not build {}: {status}",
            source.display()
        )
        .into());
    }
    Ok(())
}
