// SPDX-License-Identifier: GPL-2.0
//! Tasks of known behaviour, each under a name of its own.
//!
//! - `roles SECONDS`: a thread for each row of [`ROLES`] and a pair that passes
//!   a byte back and forth, all in this process, for so long.
//! - `fresh-hog`: what the scheduler says of a task that has done nothing but
//!   work since it was born. The answer is a line for each of two looks, soon
//!   after its birth and from [`FRESH_HOG_MAX`] on: CPU time of the task before
//!   the look, in us, and its tier.
//! - `young`: the tiers in which threads that woke twice in their lives were
//!   served last; the answer is a word for each that is not batch by itself.
//! - `processes SECONDS NAMES`: for each name a process with two threads that
//!   look like batch work. `OLD>NEW` changes its name after half a second.
//! - `rivals SECONDS NAME HOGS`: so many hogs, and a process of that name whose
//!   two threads sleep a little and are hogs for the rest. The answer: CPU time
//!   of the process, least and most of a hog, and the longest time that a hog
//!   was kept from going on, all in ms.
//! - `frames SECONDS NAME HOGS`: so many hogs, and a process of that name that
//!   draws frames too long for an interactive task. The answer: mean and longest
//!   time from when a frame was due to begin until it was drawn, in us.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::ours::tasks_of;
use crate::support::telemetry::Stats;
use crate::support::work::{
    act, cpu_time, cpu_time_of_children, fork, join, set_name, spawn, wait_for, work,
};

/// Threads that wake twice, and how long they sleep.
const NR_YOUNG: u32 = 8;
const YOUNG_SLEEP: Duration = Duration::from_millis(10);

/// What a task does and what it must be found to be.
pub struct Role {
    /// The name of its thread.
    pub name: &'static str,
    /// From one wakeup to the next, in us; 0: it never sleeps.
    pub period_us: u64,
    /// CPU time after each wakeup, in us.
    pub burst_us: u64,
    /// Its tiers, the lowest and the highest that are right.
    pub tiers: (&'static str, &'static str),
}

const fn role(
    name: &'static str,
    period_us: u64,
    burst_us: u64,
    tiers: (&'static str, &'static str),
) -> Role {
    Role {
        name,
        period_us,
        burst_us,
        tiers,
    }
}

const CRITICAL: (&str, &str) = ("lat_critical", "lat_critical");
const RESPONSIVE: (&str, &str) = ("interactive", "lat_critical");
const BATCH: (&str, &str) = ("batch", "batch");

/// The truth table of tiers. The natively tested one has more rows; here the
/// sleeps and bursts are real.
pub const ROLES: &[Role] = &[
    role("audio", 5_300, 700, CRITICAL),
    role("compositor", 16_700, 3_000, CRITICAL),
    role("game", 16_700, 12_000, RESPONSIVE),
    role("terminal", 150_000, 1_000, RESPONSIVE),
    role("compiler", 55_000, 50_000, BATCH),
    role("backup", 50_000, 30_000, BATCH),
    role("hog", 0, 0, BATCH),
];

/// The pair.
pub const PAIR: [&str; 2] = ["pair_a", "pair_b"];
const PAIR_BURST: Duration = Duration::from_micros(60);

/// The two threads of a process that is looked at by its name.
const NAMED_PERIOD: Duration = Duration::from_millis(100);
const NAMED_BURST: Duration = Duration::from_millis(20);
/// When it changes its name.
const RENAMED_AFTER: Duration = Duration::from_millis(500);

/// Sleeps with which the rival of hogs begins, so that it is known, and how
/// long it works between two later ones.
const NR_RIVAL_SLEEPS: usize = 10;
const RIVAL_BURST: Duration = Duration::from_millis(100);
const RIVAL_SLEEP: Duration = Duration::from_millis(1);

/// A frame that is too long for an interactive task, and less often than a fair
/// share beside two hogs for each CPU allows.
const FRAME_PERIOD: Duration = Duration::from_millis(100);
const FRAME_BURST: Duration = Duration::from_millis(36);
/// Frames that do not count, drawn while the task is still unknown.
const NR_FIRST_FRAMES: usize = 10;

/// How long a hog works between two looks at the clock.
const HOG_BURST: Duration = Duration::from_micros(50);

/// Name of the task that is looked at from its birth on.
const FRESH_HOG: &str = "fresh_hog";
/// CPU time after which it must have been seen through.
pub const FRESH_HOG_MAX: Duration = Duration::from_millis(20);

/// What the words after `roles` ask for.
pub fn run(words: &[&str]) -> Result<String> {
    let [seconds] = words else {
        bail!("roles SECONDS");
    };
    let seconds: f64 = seconds.parse().context("seconds")?;
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds);

    let mut threads = Vec::new();
    for role in ROLES {
        let (period, burst) = (
            Duration::from_micros(role.period_us),
            Duration::from_micros(role.burst_us),
        );
        threads.push(spawn(role.name, move || act(period, burst, ends_at))?);
    }
    let (ours, theirs) = UnixStream::pair().context("making a pair of sockets")?;
    (&ours).write_all(&[1])?;
    for (name, socket) in PAIR.into_iter().zip([theirs, ours]) {
        threads.push(spawn(name, move || pass(socket, ends_at))?);
    }
    threads.into_iter().try_for_each(join)?;
    Ok(String::new())
}

/// Pass a byte to the other of the pair whenever it comes, until `ends_at`.
fn pass(mut socket: UnixStream, ends_at: Instant) -> Result<()> {
    let mut byte = [0];
    while Instant::now() < ends_at && socket.read_exact(&mut byte).is_ok() {
        work(PAIR_BURST);
        // The other one may have gone.
        if socket.write_all(&byte).is_err() {
            break;
        }
    }
    Ok(())
}

/// Watch a task from its birth on.
pub fn fresh_hog() -> Result<String> {
    let mut stats = Stats::connect()?;
    // The first answer takes longer.
    stats.ask("tasks")?;
    let cpu_us = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let (hog_cpu_us, hog_is_over) = (cpu_us.clone(), is_over.clone());
    let hog = spawn(FRESH_HOG, move || {
        while !hog_is_over.load(Ordering::Relaxed) {
            let time_us = u64::try_from(cpu_time().as_micros())?;
            hog_cpu_us.store(time_us, Ordering::Relaxed);
        }
        Ok(())
    })?;

    let mut lines = Vec::new();
    for from in [Duration::from_millis(1), FRESH_HOG_MAX] {
        let before_us = loop {
            let time_us = cpu_us.load(Ordering::Relaxed);
            if Duration::from_micros(time_us) >= from {
                break time_us;
            }
        };
        let list = stats.ask("tasks")?;
        let tasks = tasks_of(&list)?;
        let task = tasks.iter().find(|task| task["comm"] == FRESH_HOG);
        let task = task.context("the hog is not listed")?;
        let tier = task["tier"].as_str().context("a task without a tier")?;
        lines.push(format!("{before_us} {tier}"));
    }
    is_over.store(true, Ordering::Relaxed);
    join(hog)?;
    Ok(lines.join("\n"))
}

/// Let threads wake twice and see how they were served.
pub fn young() -> Result<String> {
    const NAME: &str = "young";
    let mut stats = Stats::connect()?;
    // The first answer takes longer.
    stats.ask("tasks")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Result<Vec<_>> = (0..NR_YOUNG)
        .map(|_| {
            let is_over = is_over.clone();
            spawn(NAME, move || {
                thread::sleep(YOUNG_SLEEP);
                thread::sleep(YOUNG_SLEEP);
                while !is_over.load(Ordering::Relaxed) {
                    thread::park();
                }
                Ok(())
            })
        })
        .collect();
    let threads = threads?;
    // All of them are parked by then, whatever else runs.
    thread::sleep(YOUNG_SLEEP * 10);

    let list = stats.ask("tasks")?;
    let tasks = tasks_of(&list)?;
    let tiers: Vec<&str> = tasks
        .iter()
        .filter(|task| task["comm"] == NAME && task["age"] == 2 && task["tier"] != "batch")
        .filter_map(|task| task["served_tier"].as_str())
        .collect();
    let answer = tiers.join(" ");

    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.thread().unpark();
        join(thread)?;
    }
    Ok(answer)
}

/// What the words after `processes` ask for.
pub fn processes(words: &[&str]) -> Result<String> {
    let [seconds, names @ ..] = words else {
        bail!("processes SECONDS NAMES");
    };
    let seconds: f64 = seconds.parse().context("seconds")?;
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds);
    let mut pids = Vec::new();
    for name in names {
        pids.push(fork(|| be_called(name, ends_at))?);
    }
    pids.into_iter().try_for_each(wait_for)?;
    Ok(String::new())
}

/// The life of a process with two threads that look like batch work.
fn be_called(name: &str, ends_at: Instant) -> Result<()> {
    let (old, new) = name.split_once('>').unwrap_or((name, name));
    set_name(old)?;
    let painter = spawn("painter", move || act(NAMED_PERIOD, NAMED_BURST, ends_at))?;
    let renamed_at = ends_at.min(Instant::now() + RENAMED_AFTER);
    act(NAMED_PERIOD, NAMED_BURST, renamed_at)?;
    set_name(new)?;
    act(NAMED_PERIOD, NAMED_BURST, ends_at)?;
    join(painter)
}

/// What the words after `rivals` ask for.
pub fn rivals(words: &[&str]) -> Result<String> {
    let [seconds, name, nr_hogs] = words else {
        bail!("rivals SECONDS NAME HOGS");
    };
    let seconds: f64 = seconds.parse().context("seconds")?;
    let nr_hogs: usize = nr_hogs.parse().context("hogs")?;
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds);

    let pid = fork(|| {
        set_name(name)?;
        let painter = spawn("painter", move || rival(ends_at))?;
        rival(ends_at)?;
        join(painter)
    })?;
    let found = run_hogs(nr_hogs, ends_at)?;
    wait_for(pid)?;
    let cpu = |hog: &(Duration, Duration)| hog.0.as_millis();
    Ok(format!(
        "{} {} {} {}",
        cpu_time_of_children()?.as_millis(),
        found.iter().map(cpu).min().unwrap_or_default(),
        found.iter().map(cpu).max().unwrap_or_default(),
        found
            .iter()
            .map(|hog| hog.1.as_millis())
            .max()
            .unwrap_or_default()
    ))
}

/// CPU time of each of `nr_hogs` until `ends_at`, and its longest time between
/// two looks at the clock.
fn run_hogs(nr_hogs: usize, ends_at: Instant) -> Result<Vec<(Duration, Duration)>> {
    let hogs: Result<Vec<_>> = (0..nr_hogs)
        .map(|_| {
            thread::Builder::new()
                .spawn(move || watchful_hog(ends_at))
                .context("starting a hog")
        })
        .collect();
    let mut found = Vec::new();
    for hog in hogs? {
        match hog.join() {
            Ok(result) => found.push(result),
            Err(_) => bail!("a hog panicked"),
        }
    }
    Ok(found)
}

/// What the words after `frames` ask for.
pub fn frames(words: &[&str]) -> Result<String> {
    let [seconds, name, nr_hogs] = words else {
        bail!("frames SECONDS NAME HOGS");
    };
    let seconds: f64 = seconds.parse().context("seconds")?;
    let nr_hogs: usize = nr_hogs.parse().context("hogs")?;
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds);

    let (mut ours, mut theirs) = UnixStream::pair().context("making a pair of sockets")?;
    let pid = fork(|| {
        set_name(name)?;
        let (mean, longest) = draw(ends_at)?;
        let answer = format!("{} {}", mean.as_micros(), longest.as_micros());
        Ok(theirs.write_all(answer.as_bytes())?)
    })?;
    run_hogs(nr_hogs, ends_at)?;
    wait_for(pid)?;
    drop(theirs);
    let mut answer = String::new();
    ours.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Draw frames until `ends_at`: mean and longest time of one.
fn draw(ends_at: Instant) -> Result<(Duration, Duration)> {
    let mut times = Vec::new();
    let mut due_at = Instant::now();
    while due_at < ends_at {
        thread::sleep(due_at.saturating_duration_since(Instant::now()));
        work(FRAME_BURST);
        times.push(Instant::now() - due_at);
        due_at = Instant::now().max(due_at + FRAME_PERIOD);
    }
    let times = times.split_off(NR_FIRST_FRAMES.min(times.len()));
    let nr = u32::try_from(times.len())?;
    ensure!(nr > 0, "no frame was drawn");
    let longest = times.iter().max().copied().unwrap_or_default();
    Ok((times.iter().sum::<Duration>() / nr, longest))
}

/// Sleep a little at first and now and then, and work for the rest.
fn rival(ends_at: Instant) -> Result<()> {
    for _ in 0..NR_RIVAL_SLEEPS {
        thread::sleep(RIVAL_SLEEP);
    }
    while Instant::now() < ends_at {
        let until = ends_at.saturating_duration_since(Instant::now());
        work(RIVAL_BURST.min(until));
        thread::sleep(RIVAL_SLEEP);
    }
    Ok(())
}

/// Work until `ends_at`: CPU time used and the longest time between two looks at
/// the clock.
fn watchful_hog(ends_at: Instant) -> (Duration, Duration) {
    let mut gap_max = Duration::ZERO;
    let mut before = Instant::now();
    while before < ends_at {
        work(HOG_BURST);
        let now = Instant::now();
        gap_max = gap_max.max(now - before);
        before = now;
    }
    (cpu_time(), gap_max)
}
