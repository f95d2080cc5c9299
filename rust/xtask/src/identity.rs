// SPDX-License-Identifier: GPL-2.0
//! What stands for our scheduler's program in results that are committed.
//!
//! The bytes of a program differ from machine to machine, so its words are a
//! digest of what they are made of: sources, and as parts of their own the
//! packages that it depends on, the profile and the compilers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use crate::setup::Tools;
use crate::workspace::Workspace;

#[path = "../../scx_scenarios/lock.rs"]
mod lock;

/// What of a package decides what its program does.
const SOURCES: &[&str] = &["Cargo.toml", "build.rs", "src"];

/// Bytes of a digest that are told.
const DIGEST_BYTES: usize = 16;

/// `package`, whose sources are in `dir`, as `scx_bench --identity` takes it after
/// the name: `DIGEST;packages=DIGEST;build=WORDS`.
pub fn of(workspace: &Workspace, tools: &Tools, package: &str, dir: &Path) -> Result<String> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    let lock = lock::find(workspace.root()).context("there is no Cargo.lock")?;
    let packages = lock::packages(&read(&lock)?, package)
        .map_err(|error| anyhow!("reading {}: {error}", lock.display()))?;
    let clang = tools.bpf_clang().context("there is no clang")?;
    Ok(format!(
        "{};packages={};build={}, {}, {}",
        digest_sources(dir)?,
        hex(Sha256::new().chain_update(packages)),
        first_line(Command::new(clang).arg("--version"))?,
        first_line(
            Command::new("rustc")
                .arg("--version")
                .current_dir(workspace.root())
        )?,
        profile(&read(&workspace.root().join("Cargo.toml"))?)?
    ))
}

/// The release profile of a workspace whose `Cargo.toml` this is, in words.
fn profile(manifest: &str) -> Result<String> {
    let table: toml::Table = manifest.parse().context("reading Cargo.toml")?;
    let profile = table.get("profile").and_then(|all| all.get("release"));
    let settings = profile.and_then(toml::Value::as_table);
    let words = settings
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = words.collect();
    // What stands between two parts of an identity does not stand in one.
    Ok(format!("release {}", words.join(" ")).replace(';', ","))
}

fn first_line(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("starting {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().replace(';', ","))
}

/// A digest of the sources in `dir` that decide how our scheduler schedules.
fn digest_sources(dir: &Path) -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        add_files(&dir.join(source), &mut files)?;
    }
    files.sort();
    let mut hasher = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(dir).unwrap_or(&file);
        // Names and lengths keep neighbouring files apart.
        hasher.update(format!("{} {}\n", name.display(), bytes.len()));
        hasher.update(bytes);
    }
    Ok(hex(hasher))
}

/// The beginning of a digest.
fn hex(hasher: Sha256) -> String {
    format!("{:.*x}", 2 * DIGEST_BYTES, hasher.finalize())
}

/// Add `path`, or all files below it if it is a directory; nothing if it is
/// not there.
fn add_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_path_buf());
    }
    if !path.is_dir() {
        return Ok(());
    }
    let reading = || format!("reading {}", path.display());
    for entry in fs::read_dir(path).with_context(reading)? {
        add_files(&entry.with_context(reading)?.path(), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_names_and_contents_of_sources_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let digest = || digest_sources(dir.path()).expect("readable");
        fs::create_dir_all(dir.path().join("src/bpf")).expect("directories");
        fs::write(dir.path().join("src/bpf/main.bpf.c"), "a").expect("a file");
        let before = digest();
        fs::write(dir.path().join("README.md"), "text").expect("a file");
        assert_eq!(digest(), before);
        fs::write(dir.path().join("src/bpf/main.bpf.c"), "b").expect("a file");
        assert_ne!(digest(), before);
    }

    #[test]
    fn a_profile_is_told_setting_by_setting() {
        let words = profile("[profile.release]\nopt-level = 2\nlto = false\n");
        assert_eq!(words.expect("it parses"), "release lto=false opt-level=2");
        assert_eq!(profile("").expect("it parses"), "release ");
    }

    const LOCK: &str = r#"
        version = 4
        [[package]]
        name = "ours"
        version = "1.0.0"
        dependencies = ["a", "b 2.0.0"]
        [[package]]
        name = "a"
        version = "0.1.0"
        checksum = "aa"
        dependencies = ["c"]
        [[package]]
        name = "b"
        version = "1.0.0"
        [[package]]
        name = "b"
        version = "2.0.0"
        checksum = "bb"
        [[package]]
        name = "c"
        version = "3.0.0"
        [[package]]
        name = "theirs"
        version = "1.0.0"
        dependencies = ["b 1.0.0"]
    "#;

    #[test]
    fn the_packages_are_all_that_it_depends_on_and_no_more() {
        let packages = lock::packages(LOCK, "ours").expect("it parses");
        assert_eq!(packages, "a 0.1.0 aa\nb 2.0.0 bb\nc 3.0.0 \nours 1.0.0 \n");
        assert!(lock::packages(LOCK, "absent").is_err());
        assert!(lock::packages("[[package]]", "ours").is_err());
    }

    #[test]
    fn the_lock_file_of_the_workspace_is_found_from_a_package() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = lock::find(here).expect("it is there");
        let text = fs::read_to_string(path).expect("readable");
        let packages = lock::packages(&text, "scx_bench").expect("it parses");
        assert!(packages.contains("hdrhistogram ") && !packages.contains("libbpf-sys "));
    }
}
