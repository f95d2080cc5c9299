// SPDX-License-Identifier: GPL-2.0
//! Results that are kept, so that nothing is measured twice.
//!
//! On this machine a result is kept whole, under a hash of all that it depends
//! on (`key`). In a directory to be committed it is made small (`thin`) and the
//! file says what it depends on, so that it is found again on any machine. When
//! that has changed it is said what has ([`Store::differing`]), and a new result
//! takes the place of the old one only when that is asked for. Files are written
//! beside their place and renamed: there is a whole result or none.
//!
//! Not here: what is measured (`boots`), what is computed from it (`compare`).

mod key;
pub mod thin;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etcetera::base_strategy::{BaseStrategy, Xdg};
use serde::Deserialize;
use serde_json::Value;

use crate::result::RunResult;
pub use key::Key;

/// Mode of the files, less what the user's umask takes. Temporary files, which
/// become them, start out private.
const FILE_MODE: u32 = 0o644;

/// A directory of results.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    is_committed: bool,
}

/// A file of a committed directory.
#[derive(Debug)]
pub struct Committed {
    /// What the result depends on, in words by name: `scheduler`, `program`,
    /// `topology`, `seed`, `kernel`, `qemu` and others.
    pub words: BTreeMap<String, String>,
    /// The result.
    pub result: RunResult,
}

impl Store {
    /// The results of this machine, in `dir`, which is created.
    pub fn local(dir: &Path) -> Result<Self> {
        Self::open(dir, false)
    }

    /// Results to be committed, in `dir`, which is created.
    pub fn committed(dir: &Path) -> Result<Self> {
        Self::open(dir, true)
    }

    fn open(dir: &Path, is_committed: bool) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(Self {
            dir: dir.to_path_buf(),
            is_committed,
        })
    }

    /// The result of this key, if there is one. A file that cannot be read or
    /// depends on something else counts as none and will be replaced.
    pub fn load(&self, key: &Key) -> Option<RunResult> {
        let path = self.path(key);
        if self.is_committed {
            let file = Committed::read(&path).ok()?;
            return key
                .differences(&file.words)
                .is_empty()
                .then_some(file.result);
        }
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// In which parts files of these names depend on something else than `keys`
    /// say, in lines to be printed, each part once with the files; empty if all
    /// agree or are not there. On this machine's own results nothing is said: they
    /// go by what they depend on.
    pub fn differing(&self, keys: impl Iterator<Item = Key>) -> String {
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for key in keys.filter(|_| self.is_committed) {
            let path = self.path(&key);
            if !path.exists() {
                continue;
            }
            let parts = match Committed::read(&path) {
                Ok(file) => key.differences(&file.words),
                Err(error) => vec![format!("{error:#}")],
            };
            for part in parts {
                files.entry(part).or_default().push(key.committed_name());
            }
        }
        let line = |(part, names): (String, Vec<String>)| match names.as_slice() {
            [name] => format!("  {part} ({name})\n"),
            [name, ..] => format!("  {part} ({name} and {} more)\n", names.len() - 1),
            [] => String::new(),
        };
        files.into_iter().map(line).collect()
    }

    /// Keep `result` under this key, and return it as it will be found.
    pub fn save(&self, key: &Key, result: RunResult) -> Result<RunResult> {
        let result = match self.is_committed {
            true => thin::thin(result),
            false => result,
        };
        if self.load(key).as_ref() == Some(&result) {
            return Ok(result);
        }
        let path = self.path(key);
        let writing = || format!("writing {}", path.display());
        let text = match self.is_committed {
            true => {
                let words = serde_json::to_string(key.words()).with_context(writing)?;
                let result = thin::write(&result)?;
                format!("{{\"identity\":{words},\n\"result\":{result}}}\n")
            }
            false => serde_json::to_string(&result).with_context(writing)?,
        };
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(FILE_MODE))
            .tempfile_in(&self.dir)
            .with_context(writing)?;
        file.write_all(text.as_bytes()).with_context(writing)?;
        file.persist(&path).with_context(writing)?;
        Ok(result)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(match self.is_committed {
            true => key.committed_name(),
            false => key.local_name(),
        })
    }
}

impl Committed {
    /// Every file of a committed directory, in the order of their names.
    pub fn read_all(dir: &Path) -> Result<Vec<Self>> {
        let reading = || format!("reading {}", dir.display());
        let entries = fs::read_dir(dir).with_context(reading)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().with_context(reading)?;
        paths.retain(|path| path.extension().is_some_and(|name| name == "json"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct File {
            identity: BTreeMap<String, String>,
            result: Value,
        }
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).with_context(reading)?;
        let file: File = serde_json::from_str(&text).with_context(reading)?;
        Ok(Self {
            words: file.identity,
            result: thin::read(file.result).with_context(reading)?,
        })
    }
}

/// Where published schedulers and results are kept on this machine:
/// `$XDG_CACHE_HOME/scx_bench` or `~/.cache/scx_bench`.
pub fn cache_dir() -> Result<PathBuf> {
    let dirs = Xdg::new().context("finding the directory for caches")?;
    Ok(dirs.cache_dir().join("scx_bench"))
}

#[cfg(test)]
mod tests {
    use super::key::tests::key;
    use super::*;
    use crate::testing;

    fn result(value: f64) -> RunResult {
        let data = testing::dataset(&[("scx_a", &[value])]);
        data.samples[0].result.clone()
    }

    #[test]
    fn a_result_is_found_by_what_it_depends_on() {
        let dir = tempfile::tempdir().unwrap();
        let (local, committed) = (
            Store::local(dir.path()).unwrap(),
            Store::committed(dir.path()).unwrap(),
        );
        for store in [&local, &committed] {
            let here = key("scx_a 1.0", "x", 1);
            let saved = store.save(&here, result(1.0)).unwrap();
            assert_eq!(store.load(&here), Some(saved));
            assert_eq!(store.load(&key("scx_a 1.0", "x", 2)), None);
            assert_eq!(store.load(&key("scx_a 1.1", "x", 1)), None);
        }
        // Another build of the same sources is the same only where it is said.
        let rebuilt = key("scx_a 1.0", "y", 1);
        assert_eq!(local.load(&rebuilt), None);
        assert_eq!(committed.load(&rebuilt), Some(thin::thin(result(1.0))));
    }

    #[test]
    fn a_new_version_takes_the_place_of_the_committed_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::committed(dir.path()).unwrap();
        store.save(&key("scx_a 1.0", "x", 1), result(1.0)).unwrap();
        store.save(&key("scx_a 1.1", "x", 1), result(2.0)).unwrap();
        assert_eq!(store.load(&key("scx_a 1.0", "x", 1)), None);
        let all = Committed::read_all(dir.path()).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].words["program"], "scx_a 1.1");
        assert_eq!(all[0].result, thin::thin(result(2.0)));
    }

    #[test]
    fn it_is_told_which_part_of_what_is_kept_differs() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::committed(dir.path()).unwrap();
        for seed in 1..=3 {
            let kept = key("scx_a 1.0", "x", seed);
            store.save(&kept, result(1.0)).unwrap();
        }
        let told = |words: &str| store.differing((1..=4).map(|seed| key(words, "y", seed)));
        assert_eq!(told("scx_a 1.0"), "");
        assert_eq!(
            told("scx_a 1.1"),
            "  program: scx_a 1.0, now scx_a 1.1 (scx_a-1x1x4x1-s1.json and 2 more)\n"
        );
        fs::write(store.path(&key("p", "x", 4)), "{").unwrap();
        assert!(told("scx_a 1.0").contains("s4.json"));
    }

    #[test]
    fn a_damaged_result_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        for store in [Store::local(dir.path()), Store::committed(dir.path())] {
            let (store, here) = (store.unwrap(), key("p", "x", 1));
            fs::write(store.path(&here), "{").unwrap();
            assert_eq!(store.load(&here), None);
        }
    }
}
