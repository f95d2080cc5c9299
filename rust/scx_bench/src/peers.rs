// SPDX-License-Identifier: GPL-2.0
//! The published schedulers: which there are, and how their programs are got.
//!
//! Names and versions are data: `peers.json`, or a file of the user. A program
//! comes from the package registry by `cargo install --locked` when it is first
//! needed, into a cache directory of its own for each version, so that a result
//! names what was measured and a newer release changes nothing by itself.
//!
//! Not here: what the user names on the command line (`spec`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
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
}

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
    /// Its program below `cache`, built now if it is not there yet.
    pub fn program(&self, cache: &Path) -> Result<PathBuf> {
        let root = cache
            .join("peers")
            .join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(&self.name);
        if !program.is_file() {
            self.build(&root, &cache.join("build"))?;
        }
        if !program.is_file() {
            bail!("{} {} has no program of its name", self.name, self.version);
        }
        Ok(program)
    }

    fn build(&self, root: &Path, target: &Path) -> Result<()> {
        let package = format!("{}@{}", self.name, self.version);
        eprintln!("building {package}, once; this takes some minutes");
        fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
        let output = Command::new("cargo")
            .args(["install", "--locked", "--quiet", &package, "--root"])
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

#[cfg(test)]
mod tests {
    use super::*;

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
