// SPDX-License-Identifier: GPL-2.0
//! Which tasks get how much of a busy machine, and how long a wakeup waits there: the
//! scenarios of the bench that a promise hangs on. `cargo xtask bench --gate` holds
//! those of one domain on 4 CPUs.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::crowd;
use crate::support::told::Told;
use crate::waits::STARVED_MAX;

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
pub const FLOOD_SHARE_MIN_PCT: f64 = 15.0;

/// Wakeups with all CPUs busy: a tenth of half a tick at HZ=250.
const SATURATION_P99_MAX_MS: f64 = 0.2;

/// A figure of the bench, by the name of its scenario and its own.
pub fn metric(told: &Told, scenario: &str, name: &str) -> Result<f64> {
    metric_of(&told.one("bench")?, scenario, name)
}

/// A figure of these results of the bench, by the name of its scenario and its own.
pub fn metric_of(bench: &Value, scenario: &str, name: &str) -> Result<f64> {
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

fn run(kernel: &Kernel, topology: &str, scenarios: &str) -> Result<Told> {
    bench(kernel, topology, "", scenarios)
}

fn check_nice(told: &Told) -> Result<()> {
    let ratio = metric(told, "nice", "ratio")?;
    told.check((ratio / NICE_RATIO - 1.0).abs() <= NICE_TOLERANCE, || {
        format!("nice 0 got {ratio:.2} times as much as nice 10, not {NICE_RATIO:.2}")
    })
}

figure!(nice_hogs_and_wakeups_get_their_due_on_2_cpus, |kernel| {
    let told = run(kernel, "1x1x2x1", "nice,flood,saturation")?;
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
});

fn check_across_domains(kernel: &Kernel, topology: &str) -> Result<()> {
    let told = run(kernel, topology, "nice,fair")?;
    let spread_pct = metric(&told, "fair", "spread")?;
    check_nice(&told)?;
    told.check(spread_pct <= SPREAD_MAX_PCT, || {
        format!("equal hogs got times that are {spread_pct:.1}% apart")
    })?;
    told.check_stops()
}

// Two LLC domains, each with a node of its own, and cores of two threads.
figure!(
    equal_hogs_and_nice_ones_get_their_due_across_two_domains,
    |kernel| check_across_domains(kernel, "2x1x2x2")
);

// More CPUs below one cache than a domain holds.
figure!(
    equal_hogs_and_nice_ones_get_their_due_across_the_parts_of_a_cache,
    |kernel| check_across_domains(kernel, "1x1x18x1")
);

/// Hogs on one CPU, three pairs of them one after the other.
const PAIRS_SCRIPT: &str = "\
begin
crowd greatest 9 hog*1^-20 hog*1
crowd least 9 hog*1 hog*1^19
crowd idle 3 hog*1 hog*1^idle
stop INT
";

/// What the lesser hog is due of a CPU, by the kernel's weights of nice -20, 0 and 19,
/// and how far from it is near enough, in ms of 9 s: the head start of a new task, and
/// a turn. One nice level more or less would be 20 and more.
const LESSER_DUE: &[(&str, f64)] = &[
    ("greatest", 1024.0 / (88_761.0 + 1024.0)),
    ("least", 15.0 / (1024.0 + 15.0)),
];
const LESSER_TOLERANCE_MS: f64 = 10.0;

/// CPU time of a hog of SCHED_IDLE in 3 s beside a hog: 3 parts of 1027, which is 9 ms,
/// and what keeps it from being starved.
const IDLE_MAX_MS: u128 = 18;

figure!(
    hogs_of_the_greatest_and_least_weights_get_their_due,
    |kernel| {
        let told = OURS.flat(kernel, 1)?.run(PAIRS_SCRIPT)?;
        for (name, part) in LESSER_DUE {
            let members = crowd::check(&told, name, STARVED_MAX)?;
            let ms = |member: &crowd::Member| member.cpu.as_secs_f64() * 1e3;
            let (greater_ms, lesser_ms) = (ms(&members[0]), ms(&members[1]));
            let due_ms = (greater_ms + lesser_ms) * part;
            println!("{name}: {lesser_ms:.1} ms, due {due_ms:.1}");
            told.check((lesser_ms - due_ms).abs() <= LESSER_TOLERANCE_MS, || {
                format!("the {name} weight leaves {lesser_ms:.1} ms to a hog, not {due_ms:.1}")
            })?;
        }
        let members = crowd::check(&told, "idle", STARVED_MAX)?;
        let idle_ms = members[1].cpu.as_millis();
        told.check(idle_ms <= IDLE_MAX_MS, || {
            format!("a hog of SCHED_IDLE got {idle_ms} ms, more than {IDLE_MAX_MS}")
        })?;
        told.check_stops()
    }
);

/// Runs of `nice` below: hogs that have just woken are owed most.
const NR_RUNS: usize = 20;
const RUN_SECONDS: &str = "0.5";
/// What a hog of nice 10 may wait at most, the mean of all runs. Usual are 15 to 19 ms,
/// and 40 for one that has used its CPU up to the most that it may owe.
const NICED_GAP_MAX_MS: f64 = 18.0;

const RUNS: &str = "\
for seed in $(seq $NR_RUNS); do
	scx_bench run --scenario nice --seconds $RUN_SECONDS --seed $seed --json /tmp/result >/dev/null ||
		give_up 'the bench failed'
	fact bench \"$(cat /tmp/result)\"
done
stop INT
";

// A domain in which a hog is owed time has as much to do as any: else the other one
// takes more from it, and niced hogs that are left alone there run up a debt.
figure!(niced_hogs_run_up_no_debt_across_two_domains, |kernel| {
    let told = OURS
        .world(kernel, "2x1x2x2")?
        .with_workspace_program("scx_bench")?
        .run(&format!(
            "begin\nNR_RUNS={NR_RUNS} RUN_SECONDS={RUN_SECONDS}\n{RUNS}"
        ))?;
    let gaps_ms = told
        .all::<Value>("bench")?
        .iter()
        .map(|bench| metric_of(bench, "nice", "gap"))
        .collect::<Result<Vec<f64>>>()?;
    told.check_eq("runs", gaps_ms.len(), NR_RUNS)?;
    let mean_ms = gaps_ms.iter().sum::<f64>() / gaps_ms.len() as f64;
    told.check(mean_ms <= NICED_GAP_MAX_MS, || {
        format!("a hog of nice 10 waited up to {mean_ms:.1} ms, more than {NICED_GAP_MAX_MS}")
    })?;
    told.check_stops()
});
