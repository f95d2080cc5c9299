//! Fills the memory from what the BPF half sees, and says what is to be told it.
//!
//! The run loop hands in the threads that have shown what they are, about once a
//! second, and gets what changed of the predictions.
//!
//! Not here: what is made of an observation (profile), how the BPF half is read
//! and told (scheduler).

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow};
use log::warn;

use super::profile::{Prediction, Sighting};
use super::program::{Program, number};
use super::{Key, Procdb, ProcdbOpts, file};
use crate::bpf_intf::{
    hint, intf_consts_COMM_LEN, intf_consts_PROGRAM_NAMED_BIT, learned_row, memory_key,
};
use crate::hint::{Hint, Source, Tier};

/// How often threads are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How often the memory is saved while it changes.
const SAVE_INTERVAL: Duration = Duration::from_secs(300);

/// A memory for the BPF half; `None` if it has to forget it.
pub type Memory = (memory_key, Option<hint>);

/// A process and the number of the program that it runs.
pub type Numbered = (i32, u64);

/// What the BPF half has to be told.
#[derive(Debug, Default)]
pub struct News {
    pub memories: Vec<Memory>,
    pub numbered: Vec<Numbered>,
}

/// The memory of programs at work.
pub struct Learner {
    procdb: Procdb,
    /// Its file; `None` if it must not be saved.
    path: Option<PathBuf>,
    /// What each process runs that was seen last, by its id and its file.
    programs: HashMap<(i32, u64), Option<Program>>,
    /// What the BPF half was told, by the programs that it knows.
    told: BTreeMap<Told, Prediction>,
    /// Inodes of programs' files as they were found at the start: an update of
    /// one has given it another than it had, and a filesystem may have two.
    inodes: BTreeMap<String, u64>,
    swept_at: Instant,
    saved_at: Instant,
    /// A save that the run loop does not wait for.
    saving: Option<JoinHandle<Result<()>>>,
    is_changed: bool,
    /// It was told that the memory cannot be saved.
    is_unsaved_told: bool,
}

/// Order of what the BPF half looks memories up by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    program: u64,
    uid: u32,
    thread: String,
}

impl Learner {
    /// Begin with what the file that `opts` name remembers; `None` if nothing is
    /// to be remembered.
    pub fn load(opts: &ProcdbOpts) -> Option<Learner> {
        if opts.no_procdb {
            return None;
        }
        let (mut procdb, path) = match &opts.procdb {
            Some(path) => file::load_named(path),
            None => {
                let path = file::usual_path();
                (file::load(&path), Some(path))
            }
        };
        procdb.age(today());
        let now = Instant::now();
        Some(Learner {
            procdb,
            path,
            programs: HashMap::new(),
            told: BTreeMap::new(),
            inodes: BTreeMap::new(),
            swept_at: now,
            saved_at: now,
            saving: None,
            is_changed: false,
            is_unsaved_told: false,
        })
    }

    /// What a BPF half has to be told that was told nothing.
    pub fn begin(&mut self) -> Vec<Memory> {
        self.told.clear();
        let day = today();
        let known = self.procdb.predictions(day);
        let files = known.filter(|(_, inode, _)| *inode != 0);
        let found = files.filter_map(|(key, ..)| {
            let metadata = std::fs::metadata(&key.program).ok()?;
            Some((key.program.clone(), metadata.ino()))
        });
        self.inodes = found.collect();
        self.changes(day)
    }

    /// Number of entries, and of those that something is expected of.
    pub fn counts(&self) -> (u64, u64) {
        let nr_known = self.procdb.predictions(today()).count();
        (self.procdb.len() as u64, nr_known as u64)
    }

    /// Whether it is time to look at threads, at `now`.
    pub fn is_sweep_due(&self, now: Instant) -> bool {
        now.duration_since(self.swept_at) >= SWEEP_INTERVAL
    }

    /// Learn from `rows`, which were read at `now`.
    pub fn learn(&mut self, rows: &[learned_row], now: Instant) -> News {
        self.swept_at = now;
        let mut news = News::default();
        let mut programs = HashMap::new();
        let mut seen: BTreeMap<Key, (u64, Vec<Sighting>)> = BTreeMap::new();
        for row in rows {
            let id = (row.tgid, row.program);
            let program = programs.entry(id).or_insert_with(|| {
                let known = self.programs.remove(&id);
                known.unwrap_or_else(|| Program::read(row.tgid))
            });
            let Some(program) = program else {
                continue;
            };
            let mut inode = row.program;
            if let Some(number) = program.number() {
                inode = 0;
                if number != row.program {
                    news.numbered.push((row.tgid, number));
                }
            } else if is_number(row.program) {
                // It ran a script when it was looked at.
                continue;
            }
            if let Some((thread, sighting)) = sighting(row) {
                let key = Key {
                    program: program.name.clone(),
                    thread,
                    uid: row.uid,
                };
                let (last_inode, sightings) = seen.entry(key).or_default();
                *last_inode = inode;
                sightings.push(sighting);
            }
        }
        self.programs = programs;
        news.numbered.sort_unstable();
        news.numbered.dedup();

        let day = today();
        self.is_changed |= !seen.is_empty();
        for (key, (inode, sightings)) in seen {
            self.procdb.observe(key, inode, &sightings, day);
        }
        news.memories = self.changes(day);
        news
    }

    /// Whether the BPF half was told of a program that it knows by a number only.
    pub fn knows_numbers(&self) -> bool {
        self.told.keys().any(|told| is_number(told.program))
    }

    /// The numbers of those processes that run what is known by a number only.
    /// If nothing is, they are not looked at.
    pub fn started(&self, pids: &[i32]) -> Vec<Numbered> {
        if !self.knows_numbers() {
            return Vec::new();
        }
        let numbers = pids.iter().filter_map(|pid| {
            let number = Program::read(*pid)?.number()?;
            let is_known = self.told.keys().any(|told| told.program == number);
            is_known.then_some((*pid, number))
        });
        numbers.collect()
    }

    /// What is to be expected now, as far as it is not what was told before.
    fn changes(&mut self, day: u32) -> Vec<Memory> {
        let mut expected = BTreeMap::new();
        for (key, inode, prediction) in self.procdb.predictions(day) {
            let program = match inode {
                0 => number(&key.program),
                inode => inode,
            };
            for program in [Some(program), self.inodes.get(&key.program).copied()] {
                let told = program.map(|program| Told {
                    program,
                    uid: key.uid,
                    thread: key.thread.clone(),
                });
                expected.extend(told.map(|told| (told, prediction)));
            }
        }
        let mut memories = Vec::new();
        for (told, prediction) in &expected {
            let before = self.told.get(told);
            if before.is_none_or(|before| prediction.drifted_from(before)) {
                memories.push((told.to_bpf(), Some(prediction.to_bpf())));
                self.told.insert(told.clone(), *prediction);
            }
        }
        self.told.retain(|told, _| {
            let stays = expected.contains_key(told);
            if !stays {
                memories.push((told.to_bpf(), None));
            }
            stays
        });
        memories
    }

    /// Begin to save the memory if it changed and was not saved for long, and the
    /// disk is not at that still.
    pub fn save_if_due(&mut self, now: Instant) {
        if now.duration_since(self.saved_at) < SAVE_INTERVAL {
            return;
        }
        self.saved_at = now;
        if self.saving.as_ref().is_some_and(|save| !save.is_finished()) {
            return;
        }
        self.end_save();
        self.begin_save();
    }

    /// Save the memory if it changed.
    pub fn save(&mut self) {
        self.end_save();
        self.begin_save();
        self.end_save();
    }

    fn begin_save(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let Some(path) = self.path.clone() else {
            return;
        };
        let procdb = self.procdb.clone();
        let builder = thread::Builder::new().name("procdb".to_owned());
        match builder.spawn(move || file::save(&procdb, &path)) {
            Ok(saving) => self.saving = Some(saving),
            Err(err) => self.tell_unsaved(&err.into()),
        }
    }

    /// Wait for the save that is under way.
    fn end_save(&mut self) {
        match self.saving.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(err))) => self.tell_unsaved(&err),
            Some(Err(_)) => self.tell_unsaved(&anyhow!("the thread that saves panicked")),
        }
    }

    /// Scheduling goes on without it as well, so it is told once.
    fn tell_unsaved(&mut self, err: &anyhow::Error) {
        let Some(path) = &self.path else {
            return;
        };
        if !std::mem::replace(&mut self.is_unsaved_told, true) {
            let path = path.display();
            warn!("the memory of programs {path} is not saved: {err:#}");
        }
    }
}

impl Told {
    fn to_bpf(&self) -> memory_key {
        let mut comm = [0; intf_consts_COMM_LEN as usize];
        // The last byte stays 0.
        let len = self.thread.len().min(comm.len() - 1);
        comm[..len].copy_from_slice(&self.thread.as_bytes()[..len]);
        memory_key {
            program: self.program,
            uid: self.uid,
            reserved: 0,
            comm,
        }
    }
}

impl Prediction {
    fn to_bpf(self) -> hint {
        hint {
            avg_runtime_ns: self.avg_runtime_ns,
            ..Hint::of_tier(self.tier).to_bpf(Source::Memory)
        }
    }
}

/// Whether a program of the BPF half is a number of ours.
fn is_number(program: u64) -> bool {
    program >> intf_consts_PROGRAM_NAMED_BIT != 0
}

/// The name of a thread and what it is seen to be; `None` if its name is not text.
fn sighting(row: &learned_row) -> Option<(String, Sighting)> {
    let len = row.comm.iter().position(|byte| *byte == 0);
    let comm = &row.comm[..len.unwrap_or(row.comm.len())];
    let thread = str::from_utf8(comm).ok()?.to_owned();
    let sighting = Sighting {
        tier: Tier::from_bpf(row.tier)?,
        avg_runtime_ns: row.avg_runtime_ns,
        score: row.score,
    };
    Some((thread, sighting))
}

/// Days since 1970; 0 if the clock stands before that.
pub fn today() -> u32 {
    const DAY_SEC: u64 = 24 * 60 * 60;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let days = since.map_or(0, |since| since.as_secs() / DAY_SEC);
    u32::try_from(days).unwrap_or(u32::MAX)
}
