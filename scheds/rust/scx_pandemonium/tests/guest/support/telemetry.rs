// SPDX-License-Identifier: GPL-2.0
//! The telemetry of the running scheduler, read by the scx_stats client, beside
//! what the kernel counted in the same interval.
//!
//! What the scheduler reports is passed on as it is, so any scheduler with an
//! scx_stats server will do; what it means is for the test to know.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use scx_stats::prelude::StatsClient;
use serde_json::{Value, json};

use super::trace::{EventCount, WaitTrace, switches, voluntary_switches};
use super::work;

/// How long the stats server may take to appear, and to answer.
const SERVER_LIMIT: Duration = Duration::from_secs(3);
const SERVER_POLL: Duration = Duration::from_millis(20);
const ANSWER_LIMIT_MS: u64 = 5000;

/// What waits for a CPU that the start of this program had is served after that.
const SETTLE: Duration = Duration::from_millis(30);

/// How long each sleep of the known sleeper is.
const SLEEP: Duration = Duration::from_millis(1);

/// The waiters beside hogs.
const WAITER: &str = "waiter";
const NR_HOGS_BESIDE_WAITERS: usize = 2;
/// Time in which they become known.
const WARM_UP: Duration = Duration::from_millis(700);

/// A connection to the scheduler's telemetry.
pub struct Stats(StatsClient);

impl Stats {
    /// Connect, and let what happened so far count no more. The server appears
    /// a little after the scheduler.
    pub fn connect() -> Result<Stats> {
        let started = Instant::now();
        let client = loop {
            match StatsClient::new().connect(Some(ANSWER_LIMIT_MS)) {
                Err(_) if started.elapsed() < SERVER_LIMIT => sleep(SERVER_POLL),
                result => break result.context("connecting to the stats server")?,
            }
        };
        let mut stats = Stats(client);
        stats.read()?;
        Ok(stats)
    }

    /// What happened since it was read last.
    pub fn read(&mut self) -> Result<Value> {
        self.ask("top")
    }

    /// What the server says of `target`.
    pub fn ask(&mut self, target: &str) -> Result<Value> {
        self.0
            .request("stats", vec![("target".into(), target.into())])
            .with_context(|| format!("asking for {target}"))
    }
}

/// The telemetry of so many ms, once what the start of this program took from
/// others, up to 10 ms of a CPU, is over.
pub fn of_ms(ms: u64) -> Result<String> {
    sleep(SETTLE);
    let mut stats = Stats::connect()?;
    sleep(Duration::from_millis(ms));
    Ok(stats.read()?.to_string())
}

/// Sleep `nr_sleeps` times and give what the scheduler counted meanwhile beside
/// what the kernel counted.
pub fn of_sleeper(nr_sleeps: u64) -> Result<String> {
    let mut stats = Stats::connect()?;
    let wakeups = EventCount::of_wakeups()?;
    stats.read()?;
    let switches_before = switches()?;
    let sleeps_before = voluntary_switches()?;
    for _ in 0..nr_sleeps {
        sleep(SLEEP);
    }
    let nr_own_sleeps = voluntary_switches()? - sleeps_before;
    let metrics = stats.read()?;
    let nr_switches = switches()? - switches_before;
    let nr_wakeups = wakeups.read()?;
    wakeups.end()?;
    let counted = json!({
        "metrics": metrics,
        "nr_own_sleeps": nr_own_sleeps,
        "nr_switches": nr_switches,
        "nr_wakeups": nr_wakeups,
    });
    Ok(counted.to_string())
}

/// Give what the scheduler counted in `seconds` beside the kernel's switches.
pub fn of_load(seconds: f64) -> Result<String> {
    let mut stats = Stats::connect()?;
    let switches = EventCount::of_switches()?;
    // This task has to wait for its turns like any other, so the interval of
    // the scheduler is put between two of the kernel.
    let before = switches.read()?;
    stats.read()?;
    let begun = switches.read()?;
    sleep(Duration::from_secs_f64(seconds));
    let ended = switches.read()?;
    let metrics = stats.read()?;
    let after = switches.read()?;
    switches.end()?;
    let counted = json!({
        "metrics": metrics,
        "nr_switches_least": ended - begun,
        "nr_switches_most": after - before,
    });
    Ok(counted.to_string())
}

/// Give what the scheduler says of the waits of `seconds` beside the waits of waiters by
/// the kernel's trace, in us. There are `nr`, that wake about every `period_us` and work for
/// `burst_us`.
pub fn of_waiters(seconds: f64, nr: u32, period_us: u64, burst_us: u64) -> Result<String> {
    let (period, burst) = (
        Duration::from_micros(period_us),
        Duration::from_micros(burst_us),
    );
    let interval = Duration::from_secs_f64(seconds);
    let ends_at = Instant::now() + WARM_UP * 2 + interval;
    let mut threads = Vec::new();
    for _ in 0..NR_HOGS_BESIDE_WAITERS {
        threads.push(work::spawn("hog", move || {
            work::act(Duration::ZERO, Duration::ZERO, ends_at)
        })?);
    }
    for nr in 0..nr {
        // No two of the same, so that they meet.
        let period = period * (20 + nr) / 20;
        threads.push(work::spawn(&format!("{WAITER}{nr}"), move || {
            work::act(period, burst, ends_at)
        })?);
    }
    sleep(WARM_UP);

    let mut stats = Stats::connect()?;
    let trace = WaitTrace::begin(&format!("{WAITER}*"))?;
    stats.read()?;
    sleep(interval);
    let metrics = stats.read()?;
    let waits_us = trace.end()?;
    threads.into_iter().try_for_each(work::join)?;
    Ok(json!({ "metrics": metrics, "waits_us": waits_us }).to_string())
}
