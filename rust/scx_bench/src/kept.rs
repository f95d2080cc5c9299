// SPDX-License-Identifier: GPL-2.0
//! Results that are committed, and found again on any machine.
//!
//! The cache of this machine (`cache`) goes by the bytes of the programs that
//! ran, which differ wherever they are built. Here a result goes by what is the
//! same for everybody: the sources of the workload, the version of a published
//! scheduler or a digest of the sources of another, the kernel's image, QEMU,
//! scenarios, topology and seed. All of it is written into the file, so that
//! a reader sees where a result comes from.
//!
//! A file is named by scheduler, topology and seed. When what it depends on has
//! changed, the new result takes its place.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::cache;
use crate::compact;
use crate::result::RunResult;

/// Digest of the sources that the workload program is built from.
const WORKLOAD_SOURCES: &str = env!("SCX_WORKLOAD_SOURCES");

/// Characters of a digest that names a part of the scenarios.
const PART_CHARS: usize = 8;

/// What a result depends on, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    values: BTreeMap<String, String>,
    /// Added to the name of the file unless all scenarios run at their length.
    part: Option<String>,
}

/// A file of the directory.
#[derive(Deserialize)]
struct File {
    identity: BTreeMap<String, String>,
    result: Value,
}

/// A directory of such results.
#[derive(Debug, Clone)]
pub struct Kept {
    dir: PathBuf,
}

impl Identity {
    /// What every result depends on. `part` says what is run if it is not
    /// everything.
    pub fn new(part: Option<&str>) -> Self {
        let mut identity = Self {
            values: BTreeMap::new(),
            part: part.map(|part| cache::digest(part.as_bytes())[..PART_CHARS].to_string()),
        };
        identity.add("generation", cache::GENERATION);
        identity.add("workload", WORKLOAD_SOURCES);
        identity
    }

    /// Add a value under a name; nothing is added for an empty one.
    pub fn add(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.values.insert(name.to_string(), value.to_string());
        }
    }

    /// Add what a file is called and a digest of its content.
    pub fn add_file(&mut self, name: &str, title: &str, path: &Path) -> Result<()> {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let value = format!("{title} {}", cache::digest(&bytes));
        self.add(name, value.trim());
        Ok(())
    }

    /// The identity of one boot.
    pub fn of_boot(&self, topology: &str, seed: u64) -> Self {
        let mut identity = self.clone();
        identity.add("topology", topology);
        identity.add("seed", &seed.to_string());
        identity
    }

    fn file_name(&self) -> String {
        let value = |name: &str| self.values.get(name).map_or("", String::as_str);
        let mut words = vec![
            value("scheduler").to_string(),
            value("topology").to_string(),
            format!("s{}", value("seed")),
        ];
        words.extend(self.part.clone());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let name = words.join("-");
        name.replace(|c| !is_plain(c), "_") + ".json"
    }
}

impl Kept {
    /// The results in `dir`, which is created.
    pub fn open(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(Self {
            dir: dir.to_path_buf(),
        })
    }

    /// The result of this identity, if there is one. A file that cannot be
    /// read or is of another identity counts as none and will be replaced.
    pub fn load(&self, identity: &Identity) -> Option<RunResult> {
        let text = fs::read_to_string(self.path(identity)).ok()?;
        let file: File = serde_json::from_str(&text).ok()?;
        if file.identity != identity.values {
            return None;
        }
        compact::read_value(file.result).ok()
    }

    /// Keep a thinned `result` under this identity, if it is not there already.
    pub fn save(&self, identity: &Identity, result: &RunResult) -> Result<()> {
        if self.load(identity).as_ref() == Some(result) {
            return Ok(());
        }
        let path = self.path(identity);
        let writing = || format!("writing {}", path.display());
        let head = serde_json::to_string(&identity.values).with_context(writing)?;
        let text = format!(
            "{{\"identity\":{head},\n\"result\":{}}}\n",
            compact::write(result)?
        );
        let mut file = tempfile::Builder::new()
            .permissions(cache::file_mode())
            .tempfile_in(&self.dir)
            .with_context(writing)?;
        file.write_all(text.as_bytes()).with_context(writing)?;
        file.persist(&path).with_context(writing)?;
        Ok(())
    }

    fn path(&self, identity: &Identity) -> PathBuf {
        self.dir.join(identity.file_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn identity(program: &str, seed: u64) -> Identity {
        let mut identity = Identity::new(None);
        identity.add("scheduler", "scx_a");
        identity.add("program", program);
        identity.of_boot("1x1x4x1", seed)
    }

    fn result(value: f64) -> RunResult {
        let results = testing::results(&[("scx_a", &[value])]);
        compact::thin(results.samples[0].result.clone())
    }

    #[test]
    fn a_result_is_found_by_what_it_depends_on() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::open(dir.path()).unwrap();
        kept.save(&identity("scx_a 1.0", 1), &result(1.0)).unwrap();
        assert_eq!(kept.load(&identity("scx_a 1.0", 1)), Some(result(1.0)));
        assert_eq!(kept.load(&identity("scx_a 1.0", 2)), None);
        assert_eq!(kept.load(&identity("scx_a 1.1", 1)), None);
    }

    #[test]
    fn a_new_version_takes_the_place_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::open(dir.path()).unwrap();
        kept.save(&identity("scx_a 1.0", 1), &result(1.0)).unwrap();
        kept.save(&identity("scx_a 1.1", 1), &result(2.0)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(kept.load(&identity("scx_a 1.0", 1)), None);
        assert_eq!(kept.load(&identity("scx_a 1.1", 1)), Some(result(2.0)));
    }

    #[test]
    fn names_are_plain_and_parts_stand_beside_the_whole() {
        assert_eq!(identity("p", 3).file_name(), "scx_a-1x1x4x1-s3.json");
        let mut odd = Identity::new(Some("pipe 1 s"));
        odd.add("scheduler", "../my sched");
        let name = odd.of_boot("1x1x2x1", 1).file_name();
        assert!(name.starts_with(".._my_sched-1x1x2x1-s1-"), "{name}");
        assert_eq!(name.len(), ".._my_sched-1x1x2x1-s1-12345678.json".len());
    }

    #[test]
    fn the_digest_of_the_workload_covers_what_it_is_made_of_and_no_more() {
        let sources: Vec<&str> = env!("SCX_WORKLOAD_FILES").split(',').collect();
        for part in [
            "src/scenario/share.rs",
            "src/load",
            "src/run.rs",
            "child/child.c",
        ] {
            assert!(sources.iter().any(|file| file.starts_with(part)), "{part}");
        }
        for part in ["src/report", "src/kept.rs", "src/gate.rs", "src/guest.rs"] {
            assert!(!sources.iter().any(|file| file.starts_with(part)), "{part}");
        }
        assert_eq!(WORKLOAD_SOURCES.len(), 32);
    }
}
