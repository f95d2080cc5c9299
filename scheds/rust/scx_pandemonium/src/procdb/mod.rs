//! procdb: what programs were seen to be, so that a known one begins as that.
//!
//! [`Procdb`] holds a [`Profile`] for each [`Key`]: the threads of one name, in
//! one program, of one user. The name of a program alone would mix what has
//! nothing in common: an unpacked `main` with another, the render thread of a
//! browser with its pool, a user's build with a service's.
//!
//! It is pure: observations and the day come in, predictions go out. It has at
//! most [`NR_ENTRIES_MAX`] entries, and forgets those first that were not seen for
//! longest.
//!
//! Not here: where observations come from (learner), the file (file), what a
//! prediction does (`src/bpf/hint.bpf.h`).

pub mod command;
mod file;
pub mod learner;
mod profile;
mod program;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bpf_intf::intf_consts_COMM_LEN;

use self::profile::{Prediction, Profile, STALE_DAYS, Sighting};

/// Programs' threads that are remembered.
const NR_ENTRIES_MAX: usize = 512;

/// How many remain when there are more: what is new is not the next to go.
const NR_ENTRIES_KEPT: usize = NR_ENTRIES_MAX - NR_ENTRIES_MAX / 8;

/// Bytes of a program's name in a file: the longest path.
const PROGRAM_LEN_MAX: usize = 4096;

/// Which threads a profile is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The program: a path, or what runs it and its name, see [`program`].
    pub program: String,
    /// Name of the threads, 15 bytes at most.
    pub thread: String,
    /// The user who started it.
    pub uid: u32,
}

impl Key {
    /// Whether a thread can have it; one of a file need not be so.
    fn is_sound(&self) -> bool {
        let is_name =
            |text: &str, len_max| !text.is_empty() && text.len() <= len_max && !text.contains('\0');
        is_name(&self.program, PROGRAM_LEN_MAX)
            && is_name(&self.thread, intf_consts_COMM_LEN as usize - 1)
    }
}

/// What is remembered under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Inode of the program's file as the kernel has it; 0 if the program has
    /// none of its own.
    inode: u64,
    profile: Profile,
}

/// Profiles of programs' threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procdb {
    entries: BTreeMap<Key, Entry>,
}

impl Procdb {
    /// Threads of `key`, all that ran lately, were seen at one moment of `day`.
    fn observe(&mut self, key: Key, inode: u64, sightings: &[Sighting], day: u32) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.inode = inode;
            entry.profile.observe(sightings, day);
        } else if let Some(profile) = Profile::new(sightings, day)
            && key.is_sound()
        {
            self.entries.insert(key, Entry { inode, profile });
        }
        self.limit(day);
    }

    /// What to expect of each program's threads on `day`, as far as it is known,
    /// with the inode of the program.
    fn predictions(&self, day: u32) -> impl Iterator<Item = (&Key, u64, Prediction)> {
        self.entries.iter().filter_map(move |(key, entry)| {
            let prediction = entry.profile.prediction(day)?;
            Some((key, entry.inode, prediction))
        })
    }

    /// Number of entries.
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forget what was not seen for too long. A day to come, by a clock that was
    /// wrong, becomes `day`.
    fn age(&mut self, day: u32) {
        for entry in self.entries.values_mut() {
            entry.profile.seen_day = entry.profile.seen_day.min(day);
        }
        self.entries
            .retain(|_, entry| entry.profile.stale_days(day) < STALE_DAYS);
    }

    /// If there are too many entries forget some: those that were not seen for
    /// longest, of these those with fewest observations, of these the last by
    /// name.
    fn limit(&mut self, day: u32) {
        if self.len() <= NR_ENTRIES_MAX {
            return;
        }
        let mut keys: Vec<Key> = self.entries.keys().cloned().collect();
        keys.sort_by_cached_key(|key| {
            let entry = self.entries.get(key);
            let rank = entry.map(|entry| {
                let profile = &entry.profile;
                (profile.stale_days(day), Reverse(profile.nr_observations))
            });
            (rank, key.clone())
        });
        for key in &keys[NR_ENTRIES_KEPT..] {
            self.entries.remove(key);
        }
    }
}

/// Where the memory is.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ProcdbOpts {
    /// Keep the memory of programs in FILE rather than in the cache directory:
    /// that of the service, of the user, or /var/cache/pandemonium.
    #[clap(long, value_name = "FILE", conflicts_with = "no_procdb")]
    pub procdb: Option<PathBuf>,

    /// Do not remember what programs were seen to be, and read no memory of it.
    #[clap(long)]
    pub no_procdb: bool,
}
