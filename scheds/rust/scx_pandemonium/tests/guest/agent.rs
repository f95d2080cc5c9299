// SPDX-License-Identifier: GPL-2.0
//! The test program as a program of the guest: what a shell cannot do.
//!
//! The guest runs this very program with `$GUEST_AGENT` set to one of the
//! requests below; the answer goes to file descriptor 3, apart from what the
//! test harness prints. So nothing has to be built or found besides the tests.
//!
//! - `stats`: the telemetry of the running scheduler since it was asked first,
//!   a tenth of a second ago, by the scx_stats client, as JSON.
//! - `stats-of-ms MS`: the same of so many ms.
//! - `stats-of-sleeper SLEEPS`: the telemetry of a task that sleeps so many
//!   times, with counts of the same by the kernel.
//! - `stats-of-load SECONDS`: the telemetry of so many seconds, with the number
//!   of the kernel's switches to a normal task.
//! - `stats-of-waiters SECONDS`: the telemetry of so many seconds of batch work
//!   that sleeps now and then beside hogs, with each of its waits by the kernel's
//!   trace.
//! - `rodata`: the constants of the loaded BPF object, as hexadecimal digits.
//! - `load ...`: see load.rs. `crowd ...`: see crowd.rs.
//! - `wander ...`, `sleepers ...`, `leavers ...`: see idle.rs.
//! - `roles ...`, `fresh-hog`, `young`, `processes ...`, `rivals ...`,
//!   `frames ...`: see roles.rs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use scx_stats::prelude::StatsClient;
use serde_json::{Value, json};

use crate::support::{crowd, load};
use crate::{idle, roles};

const REQUEST_ENV: &str = "GUEST_AGENT";

/// Where the shell put the standard output that the harness does not have.
const ANSWER_PATH: &str = "/proc/self/fd/3";

/// How long the stats server may take to appear, and to answer.
const SERVER_LIMIT: Duration = Duration::from_secs(3);
const SERVER_POLL: Duration = Duration::from_millis(20);
const ANSWER_LIMIT_MS: u64 = 5000;

/// How long each sleep of the known sleeper is.
const SLEEP: Duration = Duration::from_millis(1);

/// The waiters beside hogs: how often they wake and how long they work then, which
/// makes them batch work.
const WAITER: &str = "waiter";
const NR_WAITERS: usize = 4;
const NR_HOGS_BESIDE_WAITERS: usize = 2;
const WAITER_PERIOD: Duration = Duration::from_millis(80);
const WAITER_BURST: Duration = Duration::from_millis(20);
/// Time in which they become known.
const WARM_UP: Duration = Duration::from_millis(700);

/// Where the kernel traces.
const TRACING: &str = "/sys/kernel/tracing";
/// The trace event that a wait begins with; SWITCH_EVENT ends it.
const WAKING_EVENT: &str = "/sys/kernel/tracing/events/sched/sched_waking";

/// The trace event that a wakeup is counted by.
const WAKEUP_EVENT: &str = "/sys/kernel/tracing/events/sched/sched_wakeup";
/// The one that a switch is counted by, and how: idle tasks do not count.
const SWITCH_EVENT: &str = "/sys/kernel/tracing/events/sched/sched_switch";
const SWITCH_KEYS: &str = "hist:keys=next_prio";
const SWITCH_FILTER: &str = "next_pid != 0";

/// Priorities from here on are those of normal tasks; below are real-time ones.
const NORMAL_PRIO_MIN: u64 = 100;

/// Not a test but the door for the guest; without a request there is nothing
/// to do.
#[test]
fn in_a_guest() -> ExitCode {
    let Ok(request) = std::env::var(REQUEST_ENV) else {
        return ExitCode::SUCCESS;
    };
    let words: Vec<&str> = request.split_whitespace().collect();
    let answer = answer(&words).and_then(|answer| {
        let mut file = File::create(ANSWER_PATH).context("opening the answer")?;
        writeln!(file, "{answer}").context("answering")
    });
    match answer {
        // The harness has nothing to say here.
        Ok(()) => std::process::exit(0),
        Err(err) => {
            eprintln!("agent {request}: {err:#}");
            std::process::exit(1)
        }
    }
}

fn answer(words: &[&str]) -> Result<String> {
    match words {
        ["stats"] => stats_of_ms(100),
        ["stats-of-ms", ms] => stats_of_ms(ms.parse()?),
        ["stats-of-sleeper", nr_sleeps] => stats_of_sleeper(nr_sleeps.parse()?),
        ["stats-of-load", seconds] => stats_of_load(seconds.parse()?),
        ["stats-of-waiters", seconds] => stats_of_waiters(seconds.parse()?),
        ["rodata"] => rodata(),
        ["load", words @ ..] => load::run(words),
        ["crowd", words @ ..] => crowd::run(words),
        ["wander", words @ ..] => idle::wander(words),
        ["sleepers", words @ ..] => idle::sleepers(words),
        ["leavers", words @ ..] => idle::leavers(words),
        ["roles", words @ ..] => roles::run(words),
        ["fresh-hog"] => roles::fresh_hog(),
        ["young"] => roles::young(),
        ["processes", words @ ..] => roles::processes(words),
        ["rivals", words @ ..] => roles::rivals(words),
        ["frames", words @ ..] => roles::frames(words),
        _ => bail!("no such request"),
    }
}

fn stats_of_ms(ms: u64) -> Result<String> {
    let mut stats = Stats::connect()?;
    sleep(Duration::from_millis(ms));
    Ok(stats.read()?.to_string())
}

/// The tasks of an answer to `tasks`, the server's or the program's.
pub fn tasks_of(list: &Value) -> Result<&[Value]> {
    let tasks = list["tasks"].as_array().context("no list of tasks")?;
    Ok(tasks)
}

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
    fn read(&mut self) -> Result<Value> {
        self.ask("top")
    }

    /// What the server says of `target`.
    pub fn ask(&mut self, target: &str) -> Result<Value> {
        self.0
            .request("stats", vec![("target".into(), target.into())])
            .with_context(|| format!("asking for {target}"))
    }
}

/// Sleep `nr_sleeps` times and give what the scheduler counted meanwhile beside
/// what the kernel counted.
fn stats_of_sleeper(nr_sleeps: u64) -> Result<String> {
    let trigger = format!("{WAKEUP_EVENT}/trigger");
    let mut stats = Stats::connect()?;
    fs::write(&trigger, "hist:keys=prio").context("counting wakeups")?;
    stats.read()?;
    let switches_before = switches()?;
    let sleeps_before = voluntary_switches()?;
    for _ in 0..nr_sleeps {
        sleep(SLEEP);
    }
    let nr_own_sleeps = voluntary_switches()? - sleeps_before;
    let metrics = stats.read()?;
    let nr_switches = switches()? - switches_before;
    let nr_wakeups = wakeups()?;
    fs::write(&trigger, "!hist:keys=prio").context("counting no more")?;
    let counted = json!({
        "metrics": metrics,
        "nr_own_sleeps": nr_own_sleeps,
        "nr_switches": nr_switches,
        "nr_wakeups": nr_wakeups,
    });
    Ok(counted.to_string())
}

/// Context switches of the machine since it booted.
fn switches() -> Result<u64> {
    number_after("/proc/stat", "ctxt ")
}

/// How often this thread gave its CPU up by itself.
fn voluntary_switches() -> Result<u64> {
    number_after("/proc/thread-self/status", "voluntary_ctxt_switches:")
}

fn number_after(path: &str, word: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix(word))
        .with_context(|| format!("{path} has no {word}"))?;
    Ok(number.trim().parse()?)
}

/// Give what the scheduler counted in `seconds` beside the kernel's switches.
fn stats_of_load(seconds: f64) -> Result<String> {
    let trigger = format!("{SWITCH_EVENT}/trigger");
    let mut stats = Stats::connect()?;
    fs::write(&trigger, format!("{SWITCH_KEYS} if {SWITCH_FILTER}")).context("counting")?;
    // This task has to wait for its turns like any other, so the interval of
    // the scheduler is put between two of the kernel.
    let before = events(SWITCH_EVENT)?;
    stats.read()?;
    let begun = events(SWITCH_EVENT)?;
    sleep(Duration::from_secs_f64(seconds));
    let ended = events(SWITCH_EVENT)?;
    let metrics = stats.read()?;
    let after = events(SWITCH_EVENT)?;
    fs::write(&trigger, format!("!{SWITCH_KEYS} if {SWITCH_FILTER}"))
        .context("counting no more")?;
    let counted = json!({
        "metrics": metrics,
        "nr_switches_least": ended - begun,
        "nr_switches_most": after - before,
    });
    Ok(counted.to_string())
}

/// Give what the scheduler says of the waits of `seconds` beside the waits of the
/// waiters by the kernel's trace, in us.
fn stats_of_waiters(seconds: f64) -> Result<String> {
    let interval = Duration::from_secs_f64(seconds);
    let ends_at = Instant::now() + WARM_UP * 2 + interval;
    let mut threads = Vec::new();
    for _ in 0..NR_HOGS_BESIDE_WAITERS {
        threads.push(roles::spawn("hog", move || {
            roles::act(Duration::ZERO, Duration::ZERO, ends_at)
        })?);
    }
    for nr in 0..NR_WAITERS {
        threads.push(roles::spawn(&format!("{WAITER}{nr}"), move || {
            roles::act(WAITER_PERIOD, WAITER_BURST, ends_at)
        })?);
    }
    sleep(WARM_UP);

    let mut stats = Stats::connect()?;
    let events = [(WAKING_EVENT, "comm"), (SWITCH_EVENT, "next_comm")];
    for (event, comm) in events {
        fs::write(format!("{event}/filter"), format!("{comm} ~ \"{WAITER}*\""))?;
        fs::write(format!("{event}/enable"), "1").context("tracing")?;
    }
    stats.read()?;
    sleep(interval);
    let metrics = stats.read()?;
    for (event, _) in events {
        fs::write(format!("{event}/enable"), "0")?;
        fs::write(format!("{event}/filter"), "0")?;
    }
    let trace = fs::read_to_string(format!("{TRACING}/trace")).context("reading the trace")?;
    threads.into_iter().try_for_each(roles::join)?;
    Ok(json!({ "metrics": metrics, "waits_us": waits_us(&trace)? }).to_string())
}

/// The waits from wakeup to run in the lines of a trace, in us, the shortest
/// first, as in
/// `hog-9 [001] d.h2. 1.000001: sched_waking: comm=waiter0 pid=8 prio=120 ...` and
/// `hog-9 [001] d..2. 1.000002: sched_switch: ... ==> next_comm=waiter0 next_pid=8 ...`.
fn waits_us(trace: &str) -> Result<Vec<u64>> {
    let mut woken_at_us: BTreeMap<&str, u64> = BTreeMap::new();
    let mut waits_us = Vec::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().rev();
        let is_switch = line.contains(" sched_switch: ");
        let key = if is_switch { "next_pid=" } else { "pid=" };
        let pid = words.find_map(|word| word.strip_prefix(key));
        let event = words.find(|word| word.starts_with("sched_"));
        let at = words.next().and_then(|word| word.strip_suffix(':'));
        let (Some(pid), Some(_), Some(at)) = (pid, event, at) else {
            bail!("cannot read {line:?}");
        };
        let at_us: u64 = at.replace('.', "").parse().context("a time")?;
        if !is_switch {
            woken_at_us.insert(pid, at_us);
        } else if let Some(woken_at_us) = woken_at_us.remove(pid) {
            waits_us.push(at_us - woken_at_us);
        }
    }
    waits_us.sort_unstable();
    Ok(waits_us)
}

/// Wakeups of normal tasks.
fn wakeups() -> Result<u64> {
    events(WAKEUP_EVENT)
}

/// Events that concern normal tasks, from lines such as
/// `{ prio:  120 } hitcount:  20`.
fn events(event: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("{event}/hist")).context("reading a count")?;
    let mut sum = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["{", "prio:" | "next_prio:", prio, "}", "hitcount:", count] = words.as_slice()
            && prio.parse::<u64>()? >= NORMAL_PRIO_MIN
        {
            sum += count.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// The bytes of the one map of constants that is loaded.
fn rodata() -> Result<String> {
    let mut ids = MapInfoIter::default()
        .filter(|map| map.name.to_string_lossy().ends_with(".rodata"))
        .map(|map| map.id);
    let (Some(id), None) = (ids.next(), ids.next()) else {
        bail!("there is not exactly one map of constants");
    };
    let map = MapHandle::from_map_id(id).context("opening the constants")?;
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .context("reading the constants")?
        .context("the constants are absent")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
