// SPDX-License-Identifier: GPL-2.0
//! A load of many kinds of tasks that notices when one of them is left behind.
//!
//! `load SECONDS NR_CPUS [churn]`: for each CPU two hogs, one hog and one sleeper
//! that are pinned to it, two sleepers, a pair that passes a byte back and
//! forth, and a task that forks; `churn` moves the affinity of one worker after
//! the other. The answer is a line for each kind with how often its workers
//! went round and their longest time, in ms, between two rounds.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::work::{chunk, set_affinity};

/// What a hog does between two looks at the clock: some tens of microseconds.
const HOG_CHUNKS: u64 = 20;
const SLEEP: Duration = Duration::from_millis(1);
const PAUSE_OF_FORKER: Duration = Duration::from_millis(5);

/// How often `churn` moves a worker.
const CHURN_INTERVAL: Duration = Duration::from_millis(1);

/// What one worker has shown.
struct Worker {
    kind: &'static str,
    tid: AtomicI32,
    nr_rounds: AtomicU64,
    gap_max_us: AtomicU64,
}

/// The workers and what tells them to stop.
struct Crew {
    workers: Vec<Arc<Worker>>,
    threads: Vec<thread::JoinHandle<Result<()>>>,
    is_over: Arc<AtomicBool>,
}

/// What the words after `load` ask for.
pub fn run(words: &[&str]) -> Result<String> {
    let (seconds, nr_cpus, is_churn) = match words {
        [seconds, nr_cpus] => (seconds, nr_cpus, false),
        [seconds, nr_cpus, "churn"] => (seconds, nr_cpus, true),
        _ => bail!("load SECONDS NR_CPUS [churn]"),
    };
    let seconds: f64 = seconds.parse().context("seconds")?;
    let nr_cpus: usize = nr_cpus.parse().context("CPUs")?;
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds);

    let mut crew = Crew::new();
    for cpu in 0..nr_cpus {
        for _ in 0..2 {
            crew.hire("hog", None, hog)?;
            crew.hire("sleeper", None, sleeper)?;
        }
        crew.hire("pinned_hog", Some(cpu), hog)?;
        crew.hire("pinned_sleeper", Some(cpu), sleeper)?;
        let (mut ours, mut theirs) = UnixStream::pair().context("making a pair of sockets")?;
        crew.hire("pair", None, move || {
            ours.write_all(&[1])?;
            Ok(ours.read_exact(&mut [0])?)
        })?;
        // Ends with the first of the pair; it is not counted.
        thread::spawn(move || {
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
        });
    }
    crew.hire("forker", None, forker)?;

    let mut nr_moves: usize = 0;
    while Instant::now() < ends_at {
        if is_churn {
            crew.churn(nr_moves, nr_cpus);
            nr_moves += 1;
        }
        thread::sleep(CHURN_INTERVAL);
    }
    crew.finish()
}

fn hog() -> Result<()> {
    for _ in 0..HOG_CHUNKS {
        chunk();
    }
    Ok(())
}

fn sleeper() -> Result<()> {
    thread::sleep(SLEEP);
    Ok(())
}

fn forker() -> Result<()> {
    let status = Command::new("true").status().context("forking")?;
    ensure!(status.success(), "true is false");
    thread::sleep(PAUSE_OF_FORKER);
    Ok(())
}

impl Crew {
    fn new() -> Crew {
        Crew {
            workers: Vec::new(),
            threads: Vec::new(),
            is_over: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Start a worker that does `round` again and again, on `cpu` only if that
    /// is given. It runs when this returns.
    fn hire(
        &mut self,
        kind: &'static str,
        cpu: Option<usize>,
        mut round: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let worker = Arc::new(Worker {
            kind,
            tid: AtomicI32::new(0),
            nr_rounds: AtomicU64::new(0),
            gap_max_us: AtomicU64::new(0),
        });
        self.workers.push(worker.clone());
        let is_over = self.is_over.clone();
        let begun = Arc::new(Barrier::new(2));
        let begins = begun.clone();
        self.threads.push(thread::spawn(move || {
            // SAFETY: takes nothing and cannot fail.
            worker
                .tid
                .store(unsafe { libc::gettid() }, Ordering::Relaxed);
            let pinned = cpu.map_or(Ok(()), |cpu| set_affinity(0, 1 << cpu));
            begins.wait();
            pinned?;
            let mut before = Instant::now();
            while !is_over.load(Ordering::Relaxed) {
                round()?;
                let now = Instant::now();
                let gap_us = u64::try_from((now - before).as_micros())?;
                worker.gap_max_us.fetch_max(gap_us, Ordering::Relaxed);
                worker.nr_rounds.fetch_add(1, Ordering::Relaxed);
                before = now;
            }
            Ok(())
        }));
        begun.wait();
        Ok(())
    }

    /// Move a worker: to one CPU, to any, to all but one, in turn. A CPU that is
    /// offline is refused by the kernel, which is as good.
    fn churn(&self, nr_moves: usize, nr_cpus: usize) {
        let worker = &self.workers[nr_moves % self.workers.len()];
        let all = u64::MAX >> (u64::BITS as usize - nr_cpus);
        // A step that has no factor in common with usual numbers of CPUs.
        let one = 1 << (nr_moves * 7 % nr_cpus);
        let mask = match nr_moves % 5 {
            0 | 1 | 3 => one,
            2 if nr_cpus > 1 => all & !one,
            _ => all,
        };
        let _ = set_affinity(worker.tid.load(Ordering::Relaxed), mask);
    }

    /// Stop, and tell what became of each kind of worker.
    fn finish(self) -> Result<String> {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a worker panicked"),
            }
        }
        let mut kinds: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for worker in &self.workers {
            let nr_rounds = worker.nr_rounds.load(Ordering::Relaxed);
            let gap_us = worker.gap_max_us.load(Ordering::Relaxed);
            let kind = kinds.entry(worker.kind).or_insert((0, u64::MAX, 0));
            kind.0 += nr_rounds;
            kind.1 = kind.1.min(nr_rounds);
            kind.2 = kind.2.max(gap_us);
        }
        let lines: Vec<String> = kinds
            .iter()
            .map(|(kind, (sum, min, gap_us))| format!("{kind} {sum} {min} {}", gap_us / 1000))
            .collect();
        Ok(lines.join("\n"))
    }
}

/// What became of one kind of worker, as the host reads it.
#[derive(Debug)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Rounds of the one that made fewest.
    pub nr_rounds_min: u64,
    /// Longest time between two rounds of any.
    pub gap_max_ms: u64,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<14} {:>6} rounds at least, {:>4} ms apart at most",
            self.name, self.nr_rounds_min, self.gap_max_ms
        )
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Kind> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, _sum, nr_rounds_min, gap_max_ms] = words.as_slice() else {
            bail!("not a kind of worker: {line}");
        };
        Ok(Kind {
            name: (*name).to_owned(),
            nr_rounds_min: nr_rounds_min.parse()?,
            gap_max_ms: gap_max_ms.parse()?,
        })
    }
}
