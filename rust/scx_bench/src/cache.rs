// SPDX-License-Identifier: GPL-2.0
//! Results of guest runs, kept under what they depend on.
//!
//! A run in the guest is exact: same inputs, same figures. So a result is kept
//! in a file named by a hash of all inputs and is never measured twice. Files
//! are written beside their place and renamed, so that an interrupted run
//! leaves a whole result or none.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::result::RunResult;

/// Part of every key: to be changed when results would differ for a reason
/// that no other part shows, such as another set-up of the guest.
pub(crate) const GENERATION: &str = "1";

/// Bytes of the hash that name a file.
const NAME_BYTES: usize = 16;

/// Collects what a result depends on.
#[derive(Debug, Clone)]
pub struct Key {
    hasher: Sha256,
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

impl Key {
    /// A key that depends on nothing yet.
    pub fn new() -> Self {
        let mut key = Self {
            hasher: Sha256::new(),
        };
        key.add("generation", GENERATION);
        key
    }

    /// Add a value under a name; both count.
    pub fn add(&mut self, name: &str, value: &str) {
        // Lengths keep neighbouring values apart.
        self.hasher
            .update(format!("{}:{name}{}:{value}", name.len(), value.len()));
    }

    /// Add the content of a file.
    pub fn add_file(&mut self, name: &str, path: &Path) -> Result<()> {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        self.add(name, &hex(&Sha256::digest(&bytes)));
        Ok(())
    }

    /// The key as a file name.
    pub fn name(&self) -> String {
        hex(&self.hasher.clone().finalize()[..NAME_BYTES])
    }
}

/// A directory of results.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The results below `dir`, which is created.
    pub fn open(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(Self {
            dir: dir.to_path_buf(),
        })
    }

    /// The result of this key, if there is one. One that cannot be read counts
    /// as none and is measured again.
    pub fn load(&self, key: &Key) -> Option<RunResult> {
        let text = fs::read_to_string(self.path(key)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keep `result` under this key.
    pub fn save(&self, key: &Key, result: &RunResult) -> Result<()> {
        let path = self.path(key);
        let writing = || format!("writing {}", path.display());
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).with_context(writing)?;
        serde_json::to_writer(&mut file, result).with_context(writing)?;
        file.flush().with_context(writing)?;
        file.persist(&path).with_context(writing)?;
        Ok(())
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(key.name() + ".json")
    }
}

/// Where peers and results are kept: `$XDG_CACHE_HOME/scx_bench` or
/// `~/.cache/scx_bench`.
pub fn default_dir() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where to keep results")?;
    Ok(base.join("scx_bench"))
}

/// A digest of `bytes` in hexadecimal, as long as the name of a file.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..NAME_BYTES])
}

/// The mode of files that others may read, less what the user's umask takes.
/// Temporary files, which become them, start out private.
pub fn file_mode() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[(&str, &str)]) -> Key {
        let mut key = Key::new();
        parts.iter().for_each(|(name, value)| key.add(name, value));
        key
    }

    #[test]
    fn keys_depend_on_every_part_and_on_where_it_ends() {
        let names = [
            key(&[("a", "bc")]).name(),
            key(&[("ab", "c")]).name(),
            key(&[("a", "b"), ("c", "")]).name(),
            key(&[]).name(),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name));
        }
        assert_eq!(key(&[("a", "bc")]).name(), names[0]);
    }

    #[test]
    fn a_result_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let result = RunResult {
            kernel: "6.18".into(),
            ..RunResult::default()
        };
        let here = key(&[("seed", "1")]);
        store.save(&here, &result).unwrap();
        assert_eq!(store.load(&here), Some(result));
        assert_eq!(store.load(&key(&[("seed", "2")])), None);
    }

    #[test]
    fn a_damaged_result_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let here = key(&[("seed", "1")]);
        fs::write(store.path(&here), "{").unwrap();
        assert_eq!(store.load(&here), None);
    }
}
