// SPDX-License-Identifier: GPL-2.0
//! The knobs follow the load: each regime is entered and left where it should be,
//! with `--adaptive-turns` turns get shorter while tasks wait for long and longer
//! again after that, and `--no-adaptive` leaves all as it is.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::told::Told;

/// Hogs one after the other on 5 CPUs, and the regime that follows: a fifth of the
/// machine is a hog's. The boundaries are at 30 and 50% of idle time, 10 and 25.
const STEPS: &[(u32, &str)] = &[
    (3, "light"),
    (4, "mixed"),
    (3, "mixed"),
    (5, "heavy"),
    (4, "heavy"),
    (3, "mixed"),
    (1, "light"),
];

/// The knobs are looked at once a second, and two looks have to
/// agree.
const SCRIPT: &str = "\
begin
for nr_hogs in $STEPS; do
	start_hogs $nr_hogs
	usleep 3500000
	fact metrics \"$(agent stats)\"
	kill $hogs
done
stop INT
";

fn regimes(kernel: &Kernel) -> Result<()> {
    let steps: Vec<String> = STEPS.iter().map(|(nr, _)| nr.to_string()).collect();
    let script = format!("STEPS='{}'\n{SCRIPT}", steps.join(" "));
    let told = OURS.flat(kernel, 5)?.run(&script)?;
    let metrics: Vec<Value> = told.all("metrics")?;
    told.check_eq("steps", metrics.len(), STEPS.len())?;
    let mut wrong = Vec::new();
    for (metrics, (nr_hogs, regime)) in metrics.iter().zip(STEPS) {
        println!("{nr_hogs} hogs: {}", metrics["regime"]);
        if metrics["regime"] != *regime {
            wrong.push(format!(
                "{nr_hogs} hogs are {}, not {regime}",
                metrics["regime"]
            ));
        }
    }
    told.check(wrong.is_empty(), || wrong.join("; "))?;
    told.check_stops()
}

figure!(each_regime_is_entered_and_left_at_its_boundaries, regimes);

/// Long after the last change, the load is looked at every other second.
const CALM_SCRIPT: &str = "\
looks() {
	grep -c 'regime light' $LOG
}
begin --verbose
usleep 13000000
before=$(looks)
usleep 10000000
fact looks $(($(looks) - before))
stop INT
";

figure!(
    a_load_that_stays_is_looked_at_every_other_second,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(CALM_SCRIPT)?;
        let nr_looks: u32 = told.one("looks")?;
        println!("{nr_looks} looks in 10 s");
        told.check((4..=6).contains(&nr_looks), || {
            format!("the load was looked at {nr_looks} times in 10 s")
        })?;
        told.check_stops()
    }
);

/// Batch work that sleeps, of three times what two CPUs can do, then nothing.
const WAITS_SCRIPT: &str = "\
# wakeups: how often the run loop of the scheduler slept.
wakeups() {
	awk '/^voluntary_ctxt_switches/ { print $2 }' /proc/$pid/status
}
for flag in --adaptive-turns --no-adaptive; do
	begin $flag
	fact waiting \"$(agent sleepers 5 0 12*20000)\"
	usleep 1000000
	before=$(wakeups)
	usleep 14000000
	fact idle_wakeups $(($(wakeups) - before))
	fact after \"$(agent stats)\"
	stop INT
done
";

const LATENCY_TARGET_US: u64 = 8000;

/// How much more often the run loop may wake up on an idle machine than without
/// looking at the load.
const IDLE_WAKEUPS_MORE_MAX: u64 = 2;

/// How often it may wake up at all in these 14 s: twice a second, and once at each end.
const IDLE_WAKEUPS_MAX: u64 = 2 * 14 + 2;

/// The regime and the time within which a task gets its turn, by the telemetry.
fn setting(metrics: &Value) -> Result<(String, u64)> {
    let regime = metrics["regime"].as_str().context("no regime")?;
    let target_us = metrics["latency_target_us"].as_u64().context("no target")?;
    Ok((regime.to_owned(), target_us))
}

fn waits(told: &Told) -> Result<()> {
    let waiting: Vec<Value> = told.all("waiting")?;
    let after: Vec<Value> = told.all("after")?;
    told.check_eq("runs", (waiting.len(), after.len()), (2, 2))?;
    for (nr, regimes) in [["heavy", "light"], ["off", "off"]].into_iter().enumerate() {
        let metrics = &waiting[nr];
        let (busy, idle) = (setting(metrics)?, setting(&after[nr])?);
        println!(
            "batch work waits {} us (p99): {busy:?}; then {idle:?}",
            metrics["batch_p99_us"]
        );
        told.check_eq("regime beside hogs", busy.0.as_str(), regimes[0])?;
        told.check_eq("regime after that", idle.0.as_str(), regimes[1])?;
        let is_shorter = busy.1 < LATENCY_TARGET_US;
        told.check_eq("turns are shorter", is_shorter, nr == 0)?;
        told.check_eq("target after that", idle.1, LATENCY_TARGET_US)?;
    }
    let wakeups: Vec<u64> = told.all("idle_wakeups")?;
    println!("wakeups of the loader in 14 idle s, with and without looking: {wakeups:?}");
    let is_quiet = wakeups[0] <= wakeups[1] + IDLE_WAKEUPS_MORE_MAX
        && wakeups[0].max(wakeups[1]) <= IDLE_WAKEUPS_MAX;
    told.check(is_quiet, || {
        format!("the loader woke up {wakeups:?} times on an idle machine")
    })?;
    told.check_stops()
}

figure!(
    turns_are_shorter_while_batch_work_waits_for_long,
    |kernel| waits(&OURS.flat(kernel, 2)?.run(WAITS_SCRIPT)?)
);
