// SPDX-License-Identifier: GPL-2.0
//! What a result depends on: one key, from which both of its names are derived.
//!
//! A run in the guest is exact: same inputs, same figures. Each part of a key
//! is told in words that are equal on every machine that builds the same
//! sources. A program that is built differs from machine to machine, so its
//! words are a version or a digest of its sources, of the packages that it
//! depends on, its profile and its compilers; its bytes count beside them.
//!
//!   1. The name on this machine is a hash of everything, bytes included.
//!   2. The name of a committed file is scheduler, topology and seed; the words
//!      of the other parts stand in the file.
//!
//! Not here: where results are kept (`store`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Part of every key: to be changed when results would differ for a reason
/// that no other part shows.
const GENERATION: &str = "1";

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
    /// Parts that cannot be told here.
    unknown: BTreeSet<String>,
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
        key.add("workload", scx_scenarios::SOURCES);
        key.add_bytes("workload", workload)?;
        key.add("workload packages", scx_scenarios::PACKAGES);
        key.add("workload build", scx_scenarios::BUILD);
        Ok(key)
    }

    /// Add a part; nothing is added for empty words.
    pub fn add(&mut self, name: &str, words: &str) {
        if !words.is_empty() {
            self.words.insert(name.to_string(), words.to_string());
        }
    }

    /// Add a part that cannot be told here, such as a compiler that is not
    /// installed: whatever is kept is right.
    pub fn add_unknown(&mut self, name: &str) {
        self.unknown.insert(name.to_string());
    }

    /// Add a file that is the same everywhere: what it is called, if anything,
    /// and a digest of its bytes.
    pub fn add_file(&mut self, name: &str, path: &Path, title: &str) -> Result<()> {
        let digest = digest_file(path)?;
        self.add(name, format!("{title} {digest}").trim_start());
        Ok(())
    }

    /// Add the bytes of a program of this machine, for whose part there are words
    /// that stand for it everywhere.
    pub fn add_bytes(&mut self, name: &str, path: &Path) -> Result<()> {
        self.bytes.insert(name.to_string(), digest_file(path)?);
        Ok(())
    }

    /// The key of one boot.
    pub fn of_boot(&self, topology: &str, seed: u64) -> Self {
        let mut key = self.clone();
        key.add("topology", topology);
        key.add("seed", &seed.to_string());
        key
    }

    /// What of `kept`, the words of a committed file, is something else here: a line
    /// for each part.
    pub fn differences(&self, kept: &BTreeMap<String, String>) -> Vec<String> {
        let names: BTreeSet<&String> = kept.keys().chain(self.words.keys()).collect();
        let line = |name: &String| {
            let (then, now) = (kept.get(name), self.words.get(name));
            let told =
                |words: Option<&String>| words.map_or("not told", String::as_str).to_string();
            (then != now && !self.unknown.contains(name))
                .then(|| format!("{name}: {}, now {}", told(then), told(now)))
        };
        names.into_iter().filter_map(line).collect()
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
    format!("{:.*x}", 2 * DIGEST_BYTES, Sha256::digest(bytes))
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
        key.add("program", words);
        key.add_bytes("program", program.path()).unwrap();
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
    fn every_part_that_differs_is_told_with_both_its_words() {
        let kept = key("scx_a 1.0", "x", 1);
        assert!(kept.differences(kept.words()).is_empty());
        let mut now = key("scx_a 1.1", "x", 1);
        now.add("kernel", "6.18");
        let told = now.differences(kept.words());
        let expected = [
            "kernel: not told, now 6.18",
            "program: scx_a 1.0, now scx_a 1.1",
        ];
        assert_eq!(told, expected);
        // What cannot be told here is not held against what was kept.
        let mut unsure = kept.clone();
        unsure.add_unknown("kernel");
        let told = unsure.differences(now.words());
        assert_eq!(told, ["program: scx_a 1.1, now scx_a 1.0"]);
    }

    #[test]
    fn a_key_tells_packages_profile_and_compiler_of_the_workload() {
        let key = key("p", "x", 1);
        for (name, word) in [("workload build", "rustc"), ("workload build", "opt-level")] {
            assert!(key.words()[name].contains(word), "{:?}", key.words());
        }
        assert_eq!(key.words()["workload packages"].len(), 2 * DIGEST_BYTES);
    }
}
