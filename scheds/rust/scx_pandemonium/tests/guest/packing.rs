// SPDX-License-Identifier: GPL-2.0
//! The profile that packs work: fewer CPUs are used for a light load, small ones
//! first, the same work is done as early as it has to be, and a full load has all
//! CPUs. And programs that a rule confines: to one CPU, and to more once they keep
//! that busy, and others gain by it.
//!
//! `light-load SECONDS TASKS PERIOD_US WORK_US` lets so many tasks wake that often and
//! work that long each time, by plan and not after what came before; of period 0, all
//! the time. The answer: a JSON object of [`Use`], by the kernel's own trace of switches
//! to and from its idle tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;
use serde_json::{Value, json};

use crate::idle::{BUSY_TICKS, FAKE, check_busy, check_share};
use crate::ours::OURS;
use crate::share::metric_of;
use crate::support::crowd;
use crate::support::told::Told;
use crate::support::trace::TRACING;
use crate::support::work::{join, sleep_until, spawn, work};

const NR_CPUS: u64 = 4;

/// A CPU counts as used in each time of this length in which it was not idle.
const WINDOW_US: u64 = 100_000;

/// A CPU that is idle for that long may sleep deeply.
const LONG_US: u64 = 20_000;

/// The name of the tasks of the load, and what a trace says of one that is next.
const COMM: &str = "light";
const LOADS_COMM: &str = "next_comm=light ";

/// How the CPUs were used.
#[derive(Debug, Default, PartialEq)]
struct Use {
    /// CPUs that were used in a window, on average.
    cpus: f64,
    /// How often one left its idle task for a task of the load, and how many CPUs did.
    nr_exits: u64,
    nr_left: usize,
    /// How long all were idle in times of [`LONG_US`] and more, in percent of one.
    long_idle_pct: u64,
    /// How many CPUs were not idle at a time, on average, in percent of one.
    busy_pct: u64,
}

/// Trace switches to and from the idle tasks, or no more.
fn trace_idle(is_on: bool) -> Result<()> {
    let write = |file: &str, text: &str| {
        fs::write(format!("{TRACING}/{file}"), text).with_context(|| file.to_owned())
    };
    let event = "events/sched/sched_switch";
    if is_on {
        write("trace", "")?;
        write(&format!("{event}/filter"), "prev_pid == 0 || next_pid == 0")?;
        return write(&format!("{event}/enable"), "1");
    }
    write(&format!("{event}/enable"), "0")?;
    write(&format!("{event}/filter"), "0")
}

/// What the lines of a trace say, such as
/// `<idle>-0 [001] d..2. 1.000002: sched_switch: prev_comm=swapper/1 prev_pid=0 ...`.
fn use_in(trace: &str) -> Result<Use> {
    let mut found = Use::default();
    let mut events = Vec::new();
    let mut left = BTreeSet::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let event = || {
            let (head, text) = line.split_once(": sched_switch: ")?;
            let mut words = head.split_whitespace().rev();
            let at_us: u64 = words.next()?.replace('.', "").parse().ok()?;
            let cpu = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
            let is_exit = text.contains("prev_pid=0 ");
            Some((at_us, cpu.parse::<u64>().ok()?, is_exit, text))
        };
        let (at_us, cpu, is_exit, text) =
            event().with_context(|| format!("cannot read {line:?}"))?;
        if is_exit && text.contains(LOADS_COMM) {
            found.nr_exits += 1;
            left.insert(cpu);
        }
        events.push((at_us, cpu, is_exit));
    }
    found.nr_left = left.len();
    events.sort_unstable();
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        bail!("no CPU was idle");
    };
    let (begin_us, end_us) = (first.0, last.0);
    let mut since: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    let mut windows = BTreeSet::new();
    let (mut busy_us, mut long_us) = (0, 0);
    let long = |us: u64| if us >= LONG_US { us } else { 0 };
    let mut ends = |cpu: u64, from_us: u64, until_us: u64| {
        busy_us += until_us - from_us;
        for window in from_us / WINDOW_US..=until_us / WINDOW_US {
            windows.insert((window, cpu));
        }
    };
    for (at_us, cpu, is_exit) in events {
        // What it did before its first switch is the other thing.
        let (from_us, was_busy) = since
            .insert(cpu, (at_us, is_exit))
            .unwrap_or((begin_us, !is_exit));
        if was_busy {
            ends(cpu, from_us, at_us);
        } else {
            long_us += long(at_us - from_us);
        }
    }
    for cpu in 0..NR_CPUS {
        // Without an event it was idle all the time.
        let (from_us, is_busy) = since.remove(&cpu).unwrap_or((begin_us, false));
        if is_busy {
            ends(cpu, from_us, end_us);
        } else {
            long_us += long(end_us - from_us);
        }
    }
    let nr_windows = end_us / WINDOW_US - begin_us / WINDOW_US + 1;
    found.cpus = windows.len() as f64 / nr_windows as f64;
    let length_us = (end_us - begin_us).max(1);
    found.long_idle_pct = long_us * 100 / length_us;
    found.busy_pct = busy_us * 100 / length_us;
    Ok(found)
}

#[test]
fn a_trace_says_how_cpus_were_used() {
    let line = |cpu: u64, at: &str, prev: u64| {
        let next = if prev == 0 { COMM } else { "swapper" };
        format!("a-1 [00{cpu}] d..2. {at}: sched_switch: prev_pid={prev} next_comm={next} x\n")
    };
    let trace = [
        line(0, "1.000000", 0),
        line(0, "1.050000", 7),
        line(1, "1.100000", 0),
        line(1, "1.150000", 8),
    ];
    let found = use_in(&trace.concat()).unwrap();
    assert_eq!(
        found,
        Use {
            cpus: 1.0,
            nr_exits: 2,
            nr_left: 2,
            long_idle_pct: 333,
            busy_pct: 66
        }
    );
}

/// Rounds of a task, how many ended after the next should have begun, and how late
/// one began at most.
type Rounds = (u64, u64, Duration);

fn rounds(
    begins_at: Instant,
    ends_at: Instant,
    period: Duration,
    burst: Duration,
) -> Result<Rounds> {
    let (mut nr, mut nr_late, mut latest) = (0, 0, Duration::ZERO);
    let mut wakes_at = begins_at;
    while wakes_at < ends_at {
        sleep_until(wakes_at);
        latest = latest.max(wakes_at.elapsed());
        work(burst);
        nr += 1;
        wakes_at += period;
        nr_late += u64::from(Instant::now() > wakes_at);
    }
    Ok((nr, nr_late, latest))
}

/// What the words after `light-load` ask for.
pub fn light_load(words: &[&str]) -> Result<String> {
    let [seconds, nr_tasks, period_us, work_us] = words else {
        bail!("light-load SECONDS TASKS PERIOD_US WORK_US");
    };
    let (nr_tasks, burst) = (
        nr_tasks.parse::<u32>()?,
        Duration::from_micros(work_us.parse()?),
    );
    let period = Duration::from_micros(period_us.parse()?);
    let begins_at = Instant::now() + Duration::from_millis(50);
    let ends_at = begins_at + Duration::from_secs_f64(seconds.parse()?);
    let mut tasks = Vec::new();
    for nr in 0..nr_tasks {
        // No two of the same period, so that all phases meet.
        let period = period + period * nr / (8 * nr_tasks);
        let begins_at = begins_at + period * nr / nr_tasks;
        tasks.push(spawn(COMM, move || {
            rounds(begins_at, ends_at, period, burst)
        })?);
    }
    sleep_until(begins_at);
    trace_idle(true)?;
    sleep_until(ends_at);
    trace_idle(false)?;
    let found = use_in(&fs::read_to_string(format!("{TRACING}/trace"))?)?;
    let (mut nr, mut nr_late, mut latest) = (0, 0, Duration::ZERO);
    for task in tasks {
        let rounds = join(task)?;
        nr += rounds.0;
        nr_late += rounds.1;
        latest = latest.max(rounds.2);
    }
    Ok(json!({
        "cpus": found.cpus, "exits": found.nr_exits, "left": found.nr_left,
        "long_idle_pct": found.long_idle_pct, "busy_pct": found.busy_pct,
        "rounds": nr, "late": nr_late,
        "latest_us": latest.as_micros() as u64,
    })
    .to_string())
}

/// Sleepers, then those and a hog for each CPU: the shell. The second half of the
/// CPUs is small at last; the load begins on a big one.
const SCRIPT: &str = "\
for profile in auto powersave; do
	begin --profile $profile
	usleep 1500000
	fact light \"$(agent light-load 1 6 16000 400)\"
	fact frames \"$(agent light-load 1 2 16667 5000)\"
	stop INT
done
begin --profile powersave
usleep 1500000
start_hogs 4
usleep 1000000
tell_busy_ticks
stop INT
for cpu in 0 1 2 3; do
	fake cpu$cpu/cpu_capacity $((1024 >> cpu / 2))
done
mount --bind /tmp/cpus $CPUS
begin --profile powersave
fact small $(agent wander 0 200)
stop INT
";

/// What a light load uses at most of the CPUs that it uses with auto, and how much of
/// its work has to be done; in percent.
const CPUS_MAX_PCT: f64 = 60.0;
const ROUNDS_MIN_PCT: u64 = 99;

/// How late a task may begin: the wait for a packed CPU, and what else may pass until
/// another one has woken.
const LATE_MAX_US: u64 = 500 + 1_000;

fn number(of: &Value, key: &str) -> Result<u64> {
    of[key].as_u64().with_context(|| format!("no {key}"))
}

/// The answers told as `key`, of auto and packed.
fn answers(told: &Told, key: &str) -> Result<[Value; 2]> {
    let answers: Vec<Value> = told.all(key)?;
    let Ok([auto, packed]) = <[Value; 2]>::try_from(answers) else {
        bail!("not two answers of {key}");
    };
    println!("{key}: auto {auto}\n{key}: powersave {packed}");
    Ok([auto, packed])
}

fn check_packed(told: &Told, [auto, packed]: &[Value; 2]) -> Result<()> {
    let cpus = |of: &Value| of["cpus"].as_f64().context("no cpus");
    told.check(cpus(packed)? * 100.0 <= cpus(auto)? * CPUS_MAX_PCT, || {
        format!("CPUs used in each 100 ms: {auto} and packed {packed}")
    })?;
    // Each wakeup wakes a CPU at most, also of a task that waits for a packed one first.
    let (rounds, exits) = (number(packed, "rounds")?, number(packed, "exits")?);
    told.check(exits <= rounds, || {
        format!("{rounds} rounds, and {exits} exits from idle for them")
    })?;
    let (long, packed_long) = (
        number(auto, "long_idle_pct")?,
        number(packed, "long_idle_pct")?,
    );
    told.check(packed_long > long, || {
        format!("idle for long in {long}% of a CPU's time, packed {packed_long}%")
    })
}

fn check_work(told: &Told, [auto, packed]: &[Value; 2]) -> Result<()> {
    let (rounds, packed_rounds) = (number(auto, "rounds")?, number(packed, "rounds")?);
    told.check(packed_rounds * 100 >= rounds * ROUNDS_MIN_PCT, || {
        format!("{rounds} rounds, packed {packed_rounds}")
    })?;
    told.check_eq("rounds that end late", number(packed, "late")?, 0)?;
    let latest_us = number(packed, "latest_us")?;
    told.check(latest_us <= LATE_MAX_US, || {
        format!("a round began {latest_us} us late")
    })
}

fn packs(kernel: &Kernel) -> Result<()> {
    let told = OURS
        .flat(kernel, NR_CPUS as u32)?
        .run(&format!("{FAKE}{BUSY_TICKS}{SCRIPT}"))?;
    let (light, frames) = (answers(&told, "light")?, answers(&told, "frames")?);
    check_packed(&told, &light)?;
    check_work(&told, &light)?;
    check_work(&told, &frames)?;
    check_busy(&told)?;
    check_share(&told, "small", &[2, 3])?;
    told.check_stops()
}

/// A rule that confines the program `indexer`.
const RULE: &str = r#"
mkdir -p /tmp/rules
cat >/tmp/rules/1.toml <<EOF
[[rule]]
name = "indexer"
confine = true
EOF
"#;

/// A light load of a program that no rule knows, then of one that is confined, on
/// CPUs that are idle otherwise; then as many hogs as there are CPUs.
const CONFINED_SCRIPT: &str = r#"
begin --rules /tmp/rules
fact light "$(agent as stranger after 300 light-load 1 4 16000 2000)"
fact light "$(agent as indexer after 300 light-load 1 4 16000 2000)"
agent as indexer crowd 5 'hog*2' >/tmp/hogs &
hogs=$!
usleep 500000
fact explained "$("$SCHEDULER" rules explain $(pidof indexer) --rules /tmp/rules | tail -n 1)"
fact first "$(agent stats-of-ms 300)"
usleep 3000000
fact then "$(agent stats-of-ms 300)"
wait $hogs || give_up 'the hogs failed'
tell hogs /tmp/hogs
stop INT
"#;

const CONFINED_NR_CPUS: u64 = 2;

/// How far CPU time of confined tasks may be off what their CPUs have, in percent.
const CONFINED_OFF_PCT: u64 = 10;

/// How long a confined hog may wait for another on one CPU.
const CONFINED_WAIT_MAX: Duration = Duration::from_millis(200);

fn confines(kernel: &Kernel) -> Result<()> {
    let world = OURS.flat(kernel, CONFINED_NR_CPUS as u32)?;
    let told = world.run(&format!("{RULE}{CONFINED_SCRIPT}"))?;
    let [stranger, confined] = answers(&told, "light")?;
    let nr_cpus = CONFINED_NR_CPUS;
    told.check_eq("CPUs of a stranger", number(&stranger, "left")?, nr_cpus)?;
    told.check_eq("CPUs that were confined to", number(&confined, "left")?, 1)?;
    for key in ["rounds", "late"] {
        told.check_eq(key, number(&confined, key)?, number(&stranger, key)?)?;
    }
    let explained: String = told.one("explained")?;
    told.check_eq(
        "the hogs",
        explained.as_str(),
        "together: confined to few CPUs",
    )?;
    crowd::check(&told, "hogs", CONFINED_WAIT_MAX)?;
    for (key, nr_cpus, knob) in [("first", 1, 1), ("then", nr_cpus, 0)] {
        let stats: Value = told.one(key)?;
        let found = (
            number(&stats, "nr_confined_cpus")?,
            number(&stats, "confined_ms")?,
        );
        println!("{key}: CPUs for confined tasks, CPU time in 300 ms: {found:?}");
        told.check_eq("CPUs for confined tasks", found.0, knob)?;
        let due_ms = 300 * nr_cpus;
        told.check(
            found.1.abs_diff(due_ms) * 100 <= due_ms * CONFINED_OFF_PCT,
            || format!("{key}: confined tasks used {} of {due_ms} ms", found.1),
        )?;
    }
    told.check_stops()
}

/// Two confined hogs have three of four CPUs, of which one goes off for a while.
const CONFINED_OFFLINE_SCRIPT: &str = r#"
begin --rules /tmp/rules
agent as indexer crowd 8 'hog*2' >/tmp/hogs &
hogs=$!
usleep 4500000
fact before "$(agent stats-of-ms 300)"
echo 0 >/sys/devices/system/cpu/cpu1/online
usleep 1500000
echo 1 >/sys/devices/system/cpu/cpu1/online
wait $hogs || give_up 'the hogs failed'
tell hogs /tmp/hogs
stop INT
"#;

// A CPU that died may still be in the kernel's idle mask.
figure!(
    no_confined_task_is_left_behind_on_a_cpu_that_is_offline,
    |kernel| {
        let world = OURS.flat(kernel, 4)?;
        let told = world.run(&format!("{RULE}{CONFINED_OFFLINE_SCRIPT}"))?;
        let before: Value = told.one("before")?;
        let nr_cpus = number(&before, "nr_confined_cpus")?;
        told.check_eq("CPUs for confined tasks", nr_cpus, 3)?;
        crowd::check(&told, "hogs", CONFINED_WAIT_MAX)?;
        told.check_stops()
    }
);

/// Audio beside six tasks that work for 1 ms in each 4, free and confined.
const SPARED_SCRIPT: &str = r#"
begin --rules /tmp/rules
for name in stranger indexer; do
	agent as $name crowd 60 'brief*6' >/dev/null &
	# A rule counts within a second.
	usleep 1500000
	scx_bench run --scenario audio --seed $SEED --json /tmp/result >/dev/null ||
		give_up 'the bench failed'
	fact audio "$(cat /tmp/result)"
	kill $(pidof $name)
	wait $!
done
stop INT
"#;

/// Of the time to the end of a period beside tasks that are free, what is left beside
/// confined ones, in percent.
const SPARED_MAX_PCT: f64 = 80.0;

fn spares(kernel: &Kernel) -> Result<()> {
    let told = OURS
        .flat(kernel, NR_CPUS as u32)?
        .with_workspace_program("scx_bench")?
        .run(&format!("{RULE}{SPARED_SCRIPT}"))?;
    let done = told.all("audio")?;
    let done = done.iter().map(|of| metric_of(of, "audio", "done_p99"));
    let [free_ms, confined_ms] = done.collect::<Result<Vec<_>>>()?[..] else {
        bail!("not two results of the bench");
    };
    told.check(confined_ms * 100.0 <= free_ms * SPARED_MAX_PCT, || {
        format!("audio is done after {confined_ms} ms beside confined tasks, {free_ms} else")
    })?;
    told.check_stops()
}

figure!(a_confined_program_leaves_more_to_audio, spares);

figure!(
    a_confined_program_has_one_cpu_until_it_needs_more,
    [lts, oldest],
    confines
);

figure!(powersave_packs_a_light_load, packs);
