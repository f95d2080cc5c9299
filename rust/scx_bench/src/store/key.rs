// SPDX-License-Identifier: GPL-2.0
//! What a result depends on: one key, from which both of its names are derived.
//!
//! A run in the guest is exact: same inputs, same figures. Each part of a key
//! is told in words that are equal on every machine that builds the same
//! sources. A program that is built differs from machine to machine, so its
//! words are a version or a digest of its sources, and its bytes count beside
//! them.
//!
//!   1. The name on this machine is a hash of everything, bytes included.
//!   2. The name of a committed file is scheduler, topology and seed; the words
//!      of the other parts stand in the file.
//!
//! Not here: where results are kept (`store`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Part of every key: to be changed when results would differ for a reason
/// that no other part shows, such as another set-up of the guest.
const GENERATION: &str = "1";

/// Digest of the sources that the workload program is built from.
const WORKLOAD_SOURCES: &str = env!("SCX_WORKLOAD_SOURCES");

/// Bytes of a digest that are kept.
const DIGEST_BYTES: usize = 16;

/// Characters of a digest that names a choice of scenarios.
const CHOICE_CHARS: usize = 8;

/// What a result depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// Every part in words, by name.
    words: BTreeMap<String, String>,
    /// Digests of the programs that words stand for.
    bytes: BTreeMap<String, String>,
    /// Added to the name of the committed file unless all scenarios run at
    /// their own length.
    choice: Option<String>,
}

impl Key {
    /// The key of what `workload`, the program at this path, finds when it runs
    /// `run`, which is everything if `is_all`.
    pub fn new(workload: &Path, run: &str, is_all: bool) -> Result<Self> {
        let choice = digest(run.as_bytes())[..CHOICE_CHARS].to_string();
        let mut key = Self {
            choice: (!is_all).then_some(choice),
            ..Self::default()
        };
        key.add("generation", GENERATION);
        key.add("run", run);
        key.add_program("workload", workload, WORKLOAD_SOURCES)?;
        Ok(key)
    }

    /// Add a part; nothing is added for empty words.
    pub fn add(&mut self, name: &str, words: &str) {
        if !words.is_empty() {
            self.words.insert(name.to_string(), words.to_string());
        }
    }

    /// Add a file that is the same everywhere: what it is called, if anything,
    /// and a digest of its bytes.
    pub fn add_file(&mut self, name: &str, path: &Path, title: &str) -> Result<()> {
        let digest = digest_file(path)?;
        self.add(name, format!("{title} {digest}").trim_start());
        Ok(())
    }

    /// Add a program that is built here, and the words that stand for it
    /// everywhere.
    pub fn add_program(&mut self, name: &str, path: &Path, words: &str) -> Result<()> {
        self.bytes.insert(name.to_string(), digest_file(path)?);
        self.add(name, words);
        Ok(())
    }

    /// The key of one boot.
    pub fn of_boot(&self, topology: &str, seed: u64) -> Self {
        let mut key = self.clone();
        key.add("topology", topology);
        key.add("seed", &seed.to_string());
        key
    }

    /// All parts in words, as a committed file tells them.
    pub fn words(&self) -> &BTreeMap<String, String> {
        &self.words
    }

    /// Name of the file on this machine.
    pub fn local_name(&self) -> String {
        // Maps are written in order, and their names and values in quotes.
        let text = format!("{:?} {:?}", self.words, self.bytes);
        digest(text.as_bytes()) + ".json"
    }

    /// Name of the committed file.
    pub fn committed_name(&self) -> String {
        let word = |name: &str| self.words.get(name).map_or("", String::as_str);
        let mut name = format!(
            "{}-{}-s{}",
            word("scheduler"),
            word("topology"),
            word("seed")
        );
        if let Some(choice) = &self.choice {
            name += &format!("-{choice}");
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        name.replace(|c| !is_plain(c), "_") + ".json"
    }
}

fn digest_file(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(digest(&bytes))
}

/// A digest of `bytes` in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let bytes = digest.iter().take(DIGEST_BYTES);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The key of a boot of `scx_a`, whose program has these words and bytes.
    pub fn key(words: &str, bytes: &str, seed: u64) -> Key {
        let mut key = Key::new(Path::new("/dev/null"), "all of it", true).unwrap();
        let program = tempfile::NamedTempFile::new().unwrap();
        fs::write(program.path(), bytes).unwrap();
        key.add("scheduler", "scx_a");
        key.add_program("program", program.path(), words).unwrap();
        key.of_boot("1x1x4x1", seed)
    }

    #[test]
    fn the_local_name_depends_on_every_part_and_on_bytes() {
        let names = [
            key("scx_a 1.0", "x", 1).local_name(),
            key("scx_a 1.0", "x", 2).local_name(),
            key("scx_a 1.0", "y", 1).local_name(),
            key("scx_a 1.1", "x", 1).local_name(),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name));
        }
        assert_eq!(key("scx_a 1.0", "x", 1).local_name(), names[0]);
    }

    #[test]
    fn neighbouring_parts_are_told_apart() {
        let of = |parts: &[(&str, &str)]| {
            let mut key = Key::default();
            parts.iter().for_each(|(name, words)| key.add(name, words));
            key.local_name()
        };
        assert_ne!(of(&[("a", "bc")]), of(&[("ab", "c")]));
        assert_ne!(
            of(&[("a", "b"), ("c", "d")]),
            of(&[("a", "b\", \"c\": \"d")])
        );
    }

    #[test]
    fn committed_names_are_plain_and_choices_stand_beside_the_whole() {
        assert_eq!(key("p", "x", 3).committed_name(), "scx_a-1x1x4x1-s3.json");
        assert_eq!(key("p", "y", 3).words(), key("p", "x", 3).words());
        let mut odd = Key::new(Path::new("/dev/null"), "pipe 1 s", false).unwrap();
        odd.add("scheduler", "../my sched");
        let name = odd.of_boot("1x1x2x1", 1).committed_name();
        assert!(name.starts_with(".._my_sched-1x1x2x1-s1-"), "{name}");
        assert_eq!(name.len(), ".._my_sched-1x1x2x1-s1-12345678.json".len());
    }

    #[test]
    fn the_digest_of_the_workload_covers_what_it_is_made_of_and_no_more() {
        let sources: Vec<&str> = env!("SCX_WORKLOAD_FILES").split(',').collect();
        let covers = |part: &&str| sources.iter().any(|file| file.starts_with(part));
        let parts = [
            "src/scenario/share.rs",
            "src/load",
            "src/run.rs",
            "child/child.c",
        ];
        assert!(parts.iter().all(covers), "{sources:?}");
        let others = ["src/report", "src/store", "src/gate.rs", "src/guest.rs"];
        assert!(!others.iter().any(covers), "{sources:?}");
        assert_eq!(WORKLOAD_SOURCES.len(), 2 * DIGEST_BYTES);
    }
}
