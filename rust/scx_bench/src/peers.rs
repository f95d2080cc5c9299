// SPDX-License-Identifier: GPL-2.0
//! The published schedulers: which there are, and how their programs are got.
//!
//! Names and versions are data: `peers.json`, or a file of the user. A program
//! comes from the package registry by `cargo install --locked` when it is first
//! needed, into a cache directory of its own for each version, so that a result
//! names what was measured and a newer release changes nothing by itself.
//!
//! Not here: what the user names on the command line (`spec`).

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use scx_guest::debian::version as version_of_kernel;
use serde::Deserialize;

/// Those that are known unless the user names others.
const KNOWN: &str = include_str!("../peers.json");

/// A published scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Name of the package and of its program.
    pub name: String,
    /// The version that is measured.
    pub version: String,
    /// What it is called where people read it, if not by its name.
    pub label: Option<String>,
    /// The first series of kernels on which its authors support it, such as `7.1`; without
    /// it, every one that has sched_ext.
    pub kernel: Option<String>,
}

/// File beside a program that says what it was built with.
const BUILT_WITH: &str = "built-with";

/// Names the compiler for BPF, which is `clang` otherwise.
const CLANG_VARIABLE: &str = "BPF_CLANG";

/// Lines of a failed build that are quoted.
const QUOTED_LINES: usize = 12;

/// The published schedulers of `file`, or those of `peers.json`.
pub fn read(file: Option<&Path>) -> Result<Vec<Peer>> {
    let Some(path) = file else {
        return serde_json::from_str(KNOWN).context("reading peers.json");
    };
    let reading = || format!("reading the published schedulers in {}", path.display());
    let text = fs::read_to_string(path).with_context(reading)?;
    serde_json::from_str(&text).with_context(reading)
}

impl Peer {
    /// Is it for the kernel `release`?
    pub fn is_for(&self, release: &str) -> bool {
        let first = self.kernel.as_deref().map(version_of_kernel);
        first.is_none_or(|first| first <= version_of_kernel(release))
    }

    /// Its program below `cache`, built now if it is not there yet.
    pub fn program(&self, cache: &Path) -> Result<PathBuf> {
        let root = self.root(cache);
        let program = root.join("bin").join(&self.name);
        if !program.is_file() || !root.join(BUILT_WITH).is_file() {
            let compilers = compilers().context("asking clang and rustc for their versions")?;
            self.build(&root, &cache.join("build"))?;
            let note = root.join(BUILT_WITH);
            fs::write(&note, compilers).with_context(|| format!("writing {}", note.display()))?;
        }
        if !program.is_file() {
            bail!("{} {} has no program of its name", self.name, self.version);
        }
        Ok(program)
    }

    /// The compilers that its program below `cache` was built with, or would be;
    /// `None` if it is not there and they are not.
    pub fn built_with(&self, cache: &Path) -> Option<String> {
        let note = fs::read_to_string(self.root(cache).join(BUILT_WITH));
        note.ok().or_else(|| compilers().ok())
    }

    fn root(&self, cache: &Path) -> PathBuf {
        let name = format!("{}-{}", self.name, self.version);
        cache.join("peers").join(name)
    }

    fn build(&self, root: &Path, target: &Path) -> Result<()> {
        let package = format!("{}@{}", self.name, self.version);
        eprintln!("building {package}, once; this takes some minutes");
        fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
        let output = Command::new("cargo")
            .args([
                "install", "--locked", "--quiet", "--force", &package, "--root",
            ])
            .arg(root)
            // Neither the target directory nor the settings of a project that
            // this may be called from.
            .current_dir(root)
            .env("CARGO_TARGET_DIR", target)
            .output()
            .context("starting cargo")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = text.lines().collect();
            let quoted = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
            bail!("{package} cannot be built (BPF_CLANG names the compiler for BPF):\n{quoted}");
        }
        Ok(())
    }
}

/// The compilers of programs that are built now, in the words of each.
fn compilers() -> Result<String> {
    let clang = env::var_os(CLANG_VARIABLE).unwrap_or_else(|| "clang".into());
    Ok(format!(
        "{}, {}",
        version(&clang)?,
        version("rustc".as_ref())?
    ))
}

/// The first line of what `program --version` prints.
fn version(program: &OsStr) -> Result<String> {
    let name = program.display();
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("starting {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(str::to_string);
    line.with_context(|| format!("{name} does not tell its version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_was_built_with() {
        let cache = tempfile::tempdir().unwrap();
        let peer = read(None).unwrap().remove(0);
        let root = peer.root(cache.path());
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join(BUILT_WITH), "clang 18, rustc 1.90").unwrap();
        let told = peer.built_with(cache.path());
        assert_eq!(told.as_deref(), Some("clang 18, rustc 1.90"));
        assert!(version("rustc".as_ref()).unwrap().starts_with("rustc "));
        assert!(version("/nonexistent".as_ref()).is_err());
    }

    #[test]
    fn one_for_newer_kernels_is_for_those() {
        let peer: Peer =
            serde_json::from_str(r#"{"name":"scx_a","version":"1.0","kernel":"7.1"}"#).unwrap();
        let releases = ["6.18.15+deb13", "7.0.13", "7.1.0-rc1", "7.10", "8.0"];
        assert_eq!(
            releases.map(|release| peer.is_for(release)),
            [false, false, true, true, true]
        );
        let any: Peer = serde_json::from_str(r#"{"name":"scx_a","version":"1.0"}"#).unwrap();
        assert!(any.is_for("6.12.0"));
    }

    #[test]
    fn the_known_ones_can_be_read_and_a_file_takes_their_place() {
        let known = read(None).unwrap();
        assert!(known.iter().any(|peer| peer.name == "scx_lavd"));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), r#"[{"name":"scx_a","version":"1.0"}]"#).unwrap();
        let own = read(Some(file.path())).unwrap();
        assert_eq!((own.len(), own[0].name.as_str()), (1, "scx_a"));
        fs::write(file.path(), r#"[{"name":"scx_a"}]"#).unwrap();
        let error = read(Some(file.path())).unwrap_err();
        assert!(format!("{error:#}").contains("version"), "{error:#}");
    }
}
