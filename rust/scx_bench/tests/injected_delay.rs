// SPDX-License-Identifier: GPL-2.0
//! Each scenario measures what it claims: a known delay between the event and
//! the first look at it shows in the figure, within 5%.
//!
//! Compared are the smallest samples of a run with the delay and of one
//! without: other work on the machine can only make samples larger, and among
//! hundreds some are undisturbed. Where the figure is the largest gap, the
//! delay is so long that disturbances are small against it. Where it may be
//! root, the bench also takes precedence over whatever else runs. A machine may
//! still be disturbed for a whole run, so there are a few attempts, with longer
//! delays where a scenario can bear them.

#![allow(clippy::expect_used)]

mod common;

use common::Bench;
use scx_bench::clock::NSEC_PER_MSEC;
use scx_bench::result::ScenarioResult;
use scx_bench::scenario::{self, EXTRA_SCENARIOS, SCENARIOS};

const ATTEMPTS: usize = 12;
const TOLERANCE: f64 = 0.05;

/// Attempts after which a delay grows, where it may.
const PATIENCE: usize = 3;

fn run(scenario: &str, seconds: f64, inject_ns: u64) -> ScenarioResult {
    Bench::new(scenario)
        .seconds(seconds)
        .inject_ns(inject_ns)
        .no_load()
        .run()
}

/// How a scenario bears a longer delay.
#[derive(Clone, Copy, PartialEq)]
enum Delay {
    /// Not at all: it would last beyond the period.
    Fixed,
    /// It waits for the end of one event before the next.
    Grows,
}

/// `delay_ns` shows in the smallest sample of every latency in `names`.
fn is_found_in_latencies(scenario: &str, names: &[&str], seconds: f64, delay_ns: u64, kind: Delay) {
    attempt(scenario, delay_ns, kind, |delay_ns, factor| {
        let seconds = seconds * factor as f64;
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
    attempt(scenario, delay_ns, Delay::Grows, |delay_ns, _| {
        let delayed = run(scenario, 2.0 * delay_ns as f64 / 1e9 + 0.4, delay_ns);
        let gap = delayed
            .metric("hog_gap_max")
            .expect("the scenario has hogs");
        vec![("gap".to_string(), gap.value * NSEC_PER_MSEC as f64)]
    });
}

/// `measure` is told the delay, and by which factor it has grown.
fn attempt(
    scenario: &str,
    delay_ns: u64,
    kind: Delay,
    measure: impl Fn(u64, u64) -> Vec<(String, f64)>,
) {
    let _machine = common::take_machine();
    let mut last = String::new();
    for nth in 0..ATTEMPTS {
        let factor = match kind {
            Delay::Fixed => 1,
            Delay::Grows => 1 + (nth / PATIENCE) as u64,
        };
        let delay_ns = delay_ns * factor;
        let found = measure(delay_ns, factor);
        let is_near =
            |found_ns: f64| (found_ns - delay_ns as f64).abs() <= TOLERANCE * delay_ns as f64;
        if found.iter().all(|&(_, found_ns)| is_near(found_ns)) {
            return;
        }
        last = format!("a delay of {delay_ns} ns was measured as {found:?} ns");
        println!("{scenario}: {last}");
    }
    panic!("{scenario}: {last}");
}

/// Its programs or control groups are missing here: nothing can be said.
fn cannot_run(scenario: &str) -> bool {
    let chosen = scenario::select(scenario).expect("the scenario exists");
    let check = |one: &&scenario::Scenario| one.check_tools().and_then(|()| one.check_groups());
    let missing = chosen.iter().find_map(|one| check(one).err());
    if let Some(error) = &missing {
        println!("not tested: {error:#}");
    }
    missing.is_some()
}

macro_rules! a_delay_is_found_in_latencies {
    ($($scenario:ident: $names:expr, $seconds:expr, $delay_ms:expr, $kind:expr;)*) => {
        const TIMED: &[&str] = &[$(stringify!($scenario)),*];
        $(
            #[test]
            fn $scenario() {
                let name = stringify!($scenario);
                if cannot_run(name) {
                    return;
                }
                let delay_ns = $delay_ms * NSEC_PER_MSEC;
                is_found_in_latencies(name, &$names, $seconds, delay_ns, $kind);
            }
        )*
    };
}

macro_rules! a_delay_is_found_in_the_gap {
    ($($scenario:ident,)*) => {
        const GAPS: &[&str] = &[$(stringify!($scenario)),*];
        $(
            #[test]
            fn $scenario() {
                let name = stringify!($scenario);
                if cannot_run(name) {
                    return;
                }
                is_found_in_the_gap(name, 800 * NSEC_PER_MSEC);
            }
        )*
    };
}

/// Programs of other projects are tested by those.
#[test]
fn no_scenario_of_our_own_is_left_out() {
    for scenario in SCENARIOS.iter().chain(EXTRA_SCENARIOS) {
        let is_tested = TIMED.contains(&scenario.id) || GAPS.contains(&scenario.id);
        assert_ne!(
            is_tested,
            scenario.id.starts_with("ext_"),
            "{}",
            scenario.id
        );
    }
}

a_delay_is_found_in_latencies! {
    saturation: ["wake"], 0.4, 1, Delay::Fixed;
    double: ["wake", "done"], 0.4, 1, Delay::Fixed;
    storm: ["wake"], 0.4, 1, Delay::Fixed;
    recovery: ["before", "during", "after"], 0.9, 1, Delay::Fixed;
    longrun: ["wake", "done"], 0.4, 2, Delay::Fixed;
    mixed: ["wake", "done"], 0.4, 1, Delay::Fixed;
    frames60: ["wake", "done"], 1.0, 8, Delay::Fixed;
    frames60_5ms: ["frame"], 1.0, 8, Delay::Fixed;
    frames60_8ms: ["frame"], 1.0, 8, Delay::Fixed;
    frames60_12ms: ["frame"], 1.0, 8, Delay::Fixed;
    game: ["frame"], 1.0, 8, Delay::Fixed;
    game_cg: ["frame"], 1.0, 8, Delay::Fixed;
    game_mt: ["frame"], 1.0, 8, Delay::Fixed;
    game_mt_cg: ["frame"], 1.0, 8, Delay::Fixed;
    game_mt_build: ["frame"], 1.0, 8, Delay::Fixed;
    call: ["audio_wake", "audio_done", "packet"], 1.0, 4, Delay::Fixed;
    browser: ["answer"], 2.0, 8, Delay::Fixed;
    terminal: ["echo"], 1.0, 8, Delay::Fixed;
    cg_sleepers: ["wake", "done"], 0.4, 4, Delay::Fixed;
    frames144: ["wake", "done"], 0.5, 3, Delay::Fixed;
    audio: ["wake", "done"], 0.5, 3, Delay::Fixed;
    pipe: ["trip"], 0.3, 2, Delay::Grows;
    socket: ["trip"], 0.3, 2, Delay::Grows;
    eventfd: ["trip"], 0.3, 2, Delay::Grows;
    futex: ["trip"], 0.3, 2, Delay::Grows;
    fanout: ["trip", "wake"], 0.4, 1, Delay::Fixed;
    pipe_idle: ["trip"], 0.3, 2, Delay::Grows;
    launch: ["launch"], 0.8, 20, Delay::Grows;
    messaging: ["round"], 0.5, 10, Delay::Grows;
    schbench: ["wake"], 0.4, 1, Delay::Fixed;
    idle: ["wake"], 0.6, 2, Delay::Fixed;
    compile: ["job"], 2.0, 200, Delay::Grows;
    pool: ["round"], 0.4, 5, Delay::Grows;
    demo: ["wake"], 0.4, 1, Delay::Fixed;
    build: ["build"], 2.5, 500, Delay::Grows;
    frames_build: ["wake", "done"], 1.0, 8, Delay::Fixed;
}

a_delay_is_found_in_the_gap! {
    fair,
    fair_odd,
    nice,
    flood,
    cheat,
    cg_weights,
    cg_nested,
    cg_live,
}
