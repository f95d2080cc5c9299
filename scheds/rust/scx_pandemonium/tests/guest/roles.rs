// SPDX-License-Identifier: GPL-2.0
//! Tasks of known behaviour, each under a name of its own.
//!
//! - `roles SECONDS`: a thread for each row of [`ROLES`] and a pair that passes
//!   a byte back and forth, all in this process, for so long.
//! - `fresh-hog`: what the scheduler says of a task that has done nothing but
//!   work since it was born. The answer is a line for each of two looks, soon
//!   after its birth and from [`FRESH_HOG_MAX`] on: CPU time of the task before
//!   the look, in us, and its tier.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::agent::Stats;

/// What a task does and what it must be found to be.
pub struct Role {
    /// The name of its thread.
    pub name: &'static str,
    /// From one wakeup to the next, in us; 0: it never sleeps.
    period_us: u64,
    /// CPU time after each wakeup, in us.
    burst_us: u64,
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
    for thread in threads {
        match thread.join() {
            Ok(result) => result?,
            Err(_) => bail!("a role panicked"),
        }
    }
    Ok(String::new())
}

fn spawn(
    name: &str,
    act: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<thread::JoinHandle<Result<()>>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(act)
        .with_context(|| format!("starting {name}"))
}

/// Wake every `period` and use `burst` of CPU time, until `ends_at`. A wakeup
/// that comes too late moves those after it.
fn act(period: Duration, burst: Duration, ends_at: Instant) -> Result<()> {
    let mut wakes_at = Instant::now();
    while Instant::now() < ends_at {
        if period.is_zero() {
            work(Duration::from_millis(1));
            continue;
        }
        work(burst);
        wakes_at = Instant::now().max(wakes_at + period);
        thread::sleep(wakes_at.saturating_duration_since(Instant::now()));
    }
    Ok(())
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

/// Use `amount` of CPU time.
fn work(amount: Duration) {
    let ends_at = cpu_time() + amount;
    while cpu_time() < ends_at {
        std::hint::spin_loop();
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a struct that lives here; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
        let tasks = list["tasks"].as_array().context("no list of tasks")?;
        let task = tasks.iter().find(|task| task["comm"] == FRESH_HOG);
        let task = task.context("the hog is not listed")?;
        let tier = task["tier"].as_str().context("a task without a tier")?;
        lines.push(format!("{before_us} {tier}"));
    }
    is_over.store(true, Ordering::Relaxed);
    match hog.join() {
        Ok(result) => result?,
        Err(_) => bail!("the hog panicked"),
    }
    Ok(lines.join("\n"))
}
