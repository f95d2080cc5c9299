// SPDX-License-Identifier: GPL-2.0
//! Who gets how much of a busy machine, and who waits for it: the scenarios of
//! the bench that a promise hangs on.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::ours::OURS;
use crate::support::kernels;
use crate::support::told::Told;

const SCRIPT: &str = "\
begin
scx_bench run --scenario nice,flood,saturation --seed $SEED --json /tmp/result >/dev/null ||
	give_up 'the bench failed'
fact bench \"$(cat /tmp/result)\"
stop INT
";

/// CPU time of nice 0 to that of nice 10, by the kernel's weights: 1024 to 110.
const NICE_RATIO: f64 = 1024.0 / 110.0;
/// How far from it is near enough.
const NICE_TOLERANCE: f64 = 0.01;

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

fn shares(nr_cpus: u32) -> Result<()> {
    let told = OURS
        .flat(&kernels::first()?, nr_cpus)?
        .with_workspace_program("scx_bench")?
        .run(SCRIPT)?;
    let ratio = metric(&told, "nice", "ratio")?;
    let share_pct = metric(&told, "flood", "share")?;
    let wake_p99_ms = metric(&told, "saturation", "wake_p99")?;
    told.check((ratio / NICE_RATIO - 1.0).abs() <= NICE_TOLERANCE, || {
        format!("nice 0 got {ratio:.2} times as much as nice 10, not {NICE_RATIO:.2}")
    })?;
    told.check(share_pct >= FLOOD_SHARE_MIN_PCT, || {
        format!("hogs got {share_pct:.1}% beside sleepers, not {FLOOD_SHARE_MIN_PCT}%")
    })?;
    told.check(wake_p99_ms <= SATURATION_P99_MAX_MS, || {
        format!("wakeups waited {wake_p99_ms} ms (p99), more than {SATURATION_P99_MAX_MS}")
    })?;
    told.check_stops()
}

#[test]
fn nice_hogs_and_wakeups_get_their_due_on_2_cpus() -> Result<()> {
    shares(2)
}

#[test]
fn nice_hogs_and_wakeups_get_their_due_on_4_cpus() -> Result<()> {
    shares(4)
}
