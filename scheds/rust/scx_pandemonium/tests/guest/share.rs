// SPDX-License-Identifier: GPL-2.0
//! Which tasks get how much of a busy machine, and how long a wakeup waits there: the
//! scenarios of the bench that a promise hangs on. `cargo xtask bench --gate` holds
//! those of one domain on 4 CPUs.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::kernels;
use crate::support::told::Told;

const SCRIPT: &str = "\
scx_bench run --scenario $SCENARIOS --seed $SEED --json /tmp/result >/dev/null ||
	give_up 'the bench failed'
fact bench \"$(cat /tmp/result)\"
stop INT
";

/// CPU time of nice 0 to that of nice 10, by the kernel's weights: 1024 to 110.
const NICE_RATIO: f64 = 1024.0 / 110.0;
/// How far from it is near enough.
const NICE_TOLERANCE: f64 = 0.01;

/// CPU time of the luckiest less that of the unluckiest of equal hogs, in percent of
/// the mean.
const SPREAD_MAX_PCT: f64 = 5.0;

/// Hogs among sleepers that want more than there is: a fair share is 20% of the
/// machine, and sleepers that are served first may not take more than a
/// quarter of it.
const FLOOD_SHARE_MIN_PCT: f64 = 15.0;

/// Wakeups with all CPUs busy: a tenth of half a tick at HZ=250.
const SATURATION_P99_MAX_MS: f64 = 0.2;

/// A figure of the bench, by the name of its scenario and its own.
pub fn metric(told: &Told, scenario: &str, name: &str) -> Result<f64> {
    let bench: Value = told.one("bench")?;
    let find = |list: &Value, key: &str, wanted: &str| -> Option<Value> {
        let found = list.as_array()?.iter().find(|item| item[key] == wanted)?;
        Some(found.clone())
    };
    let value = find(&bench["scenarios"], "scenario", scenario)
        .and_then(|result| find(&result["metrics"], "name", name))
        .and_then(|metric| metric["value"].as_f64())
        .with_context(|| format!("the bench gave no {name} of {scenario}: {bench}"))?;
    println!("{scenario} {name}: {value}");
    Ok(value)
}

/// Start the scheduler, run the script `before`, then these scenarios of the bench,
/// whose figures [`metric`] gives, and stop.
pub fn bench(kernel: &Kernel, topology: &str, before: &str, scenarios: &str) -> Result<Told> {
    OURS.world(kernel, topology)?
        .with_workspace_program("scx_bench")?
        .run(&format!("begin\n{before}SCENARIOS='{scenarios}'\n{SCRIPT}"))
}

fn run(topology: &str, scenarios: &str) -> Result<Told> {
    bench(&kernels::first()?, topology, "", scenarios)
}

fn check_nice(told: &Told) -> Result<()> {
    let ratio = metric(told, "nice", "ratio")?;
    told.check((ratio / NICE_RATIO - 1.0).abs() <= NICE_TOLERANCE, || {
        format!("nice 0 got {ratio:.2} times as much as nice 10, not {NICE_RATIO:.2}")
    })
}

#[test]
fn nice_hogs_and_wakeups_get_their_due_on_2_cpus() -> Result<()> {
    let told = run("1x1x2x1", "nice,flood,saturation")?;
    let share_pct = metric(&told, "flood", "share")?;
    let wake_p99_ms = metric(&told, "saturation", "wake_p99")?;
    check_nice(&told)?;
    told.check(share_pct >= FLOOD_SHARE_MIN_PCT, || {
        format!("hogs got {share_pct:.1}% beside sleepers, not {FLOOD_SHARE_MIN_PCT}%")
    })?;
    told.check(wake_p99_ms <= SATURATION_P99_MAX_MS, || {
        format!("wakeups waited {wake_p99_ms} ms (p99), more than {SATURATION_P99_MAX_MS}")
    })?;
    told.check_stops()
}

/// Two LLC domains, each with a node of its own, and cores of two threads.
#[test]
fn equal_hogs_and_nice_ones_get_their_due_across_two_domains() -> Result<()> {
    let told = run("2x1x2x2", "nice,fair")?;
    let spread_pct = metric(&told, "fair", "spread")?;
    check_nice(&told)?;
    told.check(spread_pct <= SPREAD_MAX_PCT, || {
        format!("equal hogs got times that are {spread_pct:.1}% apart")
    })?;
    told.check_stops()
}
