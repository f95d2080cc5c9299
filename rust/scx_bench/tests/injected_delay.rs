// SPDX-License-Identifier: GPL-2.0
//! Each scenario measures what it claims: a known delay between the event and
//! the first look at it shows in the figure, within 5%.
//!
//! Compared are the smallest samples of a run with the delay and of one
//! without: other work on the machine can only make samples larger, and among
//! hundreds some are undisturbed. Where the figure is the largest gap, the
//! delay is so long that disturbances are small against it. A machine may
//! still be disturbed for a whole run, so there are a few attempts.

#![allow(clippy::expect_used)]

use std::process::Command;
use std::sync::Mutex;

use scx_bench::clock::{NSEC_PER_MSEC, NSEC_PER_USEC};
use scx_bench::result::{RunResult, ScenarioResult};

const ATTEMPTS: usize = 12;
const TOLERANCE: f64 = 0.05;

/// One at a time: they would disturb each other.
static MACHINE: Mutex<()> = Mutex::new(());

fn run(scenario: &str, seconds: f64, inject_ns: u64) -> ScenarioResult {
    let json = std::env::temp_dir().join(format!("scx_bench.{}.{scenario}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_scx_bench"))
        .args(["run", "--no-load", "--cpus", "1", "--scenario", scenario])
        .args(["--seconds", &seconds.to_string()])
        .args([
            "--inject-delay-us",
            &(inject_ns / NSEC_PER_USEC).to_string(),
        ])
        .arg("--json")
        .arg(&json)
        .output()
        .expect("the bench starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{scenario}: {error}");
    let text = std::fs::read_to_string(&json).expect("the bench wrote its result");
    std::fs::remove_file(&json).expect("the result can be removed");
    let mut result: RunResult = serde_json::from_str(&text).expect("the result is JSON");
    result.scenarios.pop().expect("one scenario was run")
}

/// `delay_ns` shows in the smallest sample of every latency in `names`.
fn is_found_in_latencies(scenario: &str, names: &[&str], seconds: f64, delay_ns: u64) {
    attempt(scenario, delay_ns, || {
        let plain = run(scenario, seconds, 0);
        let delayed = run(scenario, seconds, delay_ns);
        names
            .iter()
            .map(|name| {
                let min_ns = |result: &ScenarioResult| {
                    let summary = result.latency(name).expect("the scenario times this");
                    assert!(summary.count > 0, "{scenario}: no samples of {name}");
                    summary.min_ns as f64
                };
                (name.to_string(), min_ns(&delayed) - min_ns(&plain))
            })
            .collect()
    });
}

/// `delay_ns` shows as the longest gap of a hog.
fn is_found_in_the_gap(scenario: &str, delay_ns: u64) {
    attempt(scenario, delay_ns, || {
        let delayed = run(scenario, 2.0 * delay_ns as f64 / 1e9 + 0.4, delay_ns);
        let gap = delayed
            .metric("hog_gap_max")
            .expect("the scenario has hogs");
        vec![("gap".to_string(), gap.value * NSEC_PER_MSEC as f64)]
    });
}

fn attempt(scenario: &str, delay_ns: u64, measure: impl Fn() -> Vec<(String, f64)>) {
    let _machine = MACHINE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let found = measure();
        let is_near =
            |found_ns: f64| (found_ns - delay_ns as f64).abs() <= TOLERANCE * delay_ns as f64;
        if found.iter().all(|&(_, found_ns)| is_near(found_ns)) {
            return;
        }
        last = format!("{found:?}");
    }
    panic!("{scenario}: a delay of {delay_ns} ns was measured as {last} ns");
}

macro_rules! a_delay_is_found_in_latencies {
    ($($scenario:ident: $names:expr, $seconds:expr, $delay_ms:expr;)*) => {$(
        #[test]
        fn $scenario() {
            let delay_ns = $delay_ms * NSEC_PER_MSEC;
            is_found_in_latencies(stringify!($scenario), &$names, $seconds, delay_ns);
        }
    )*};
}

macro_rules! a_delay_is_found_in_the_gap {
    ($($scenario:ident,)*) => {$(
        #[test]
        fn $scenario() {
            is_found_in_the_gap(stringify!($scenario), 800 * NSEC_PER_MSEC);
        }
    )*};
}

a_delay_is_found_in_latencies! {
    saturation: ["wake"], 0.4, 1;
    double: ["wake", "done"], 0.4, 1;
    storm: ["wake"], 0.4, 1;
    recovery: ["before", "during", "after"], 0.9, 1;
    longrun: ["wake", "done"], 0.4, 2;
    mixed: ["wake", "done"], 0.4, 1;
    frames60: ["wake", "done"], 1.0, 8;
    frames144: ["wake", "done"], 0.5, 3;
    audio: ["wake", "done"], 0.5, 3;
    pipe: ["trip"], 0.3, 2;
    socket: ["trip"], 0.3, 2;
    eventfd: ["trip"], 0.3, 2;
    futex: ["trip"], 0.3, 2;
    fanout: ["trip", "wake"], 0.4, 3;
    pipe_idle: ["trip"], 0.3, 2;
    launch: ["launch"], 0.8, 20;
    messaging: ["round"], 0.5, 10;
    schbench: ["wake"], 0.4, 1;
    idle: ["wake"], 0.6, 2;
    compile: ["job"], 2.0, 200;
    pool: ["round"], 0.4, 5;
    demo: ["wake"], 0.4, 1;
}

a_delay_is_found_in_the_gap! {
    fair,
    fair_odd,
    nice,
    flood,
}
