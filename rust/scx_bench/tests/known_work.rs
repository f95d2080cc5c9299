// SPDX-License-Identifier: GPL-2.0
//! Scenarios that measure shares and rates find those that are known.
//!
//! Known are the kernel's own weights where everything shares one CPU, the
//! amount of work in a round, and how often a request is made. Other work on
//! the machine takes from all alike; there are a few attempts nevertheless.
//! (The shares in flood have no exact known value; its gap is in
//! injected_delay.rs.) Under a sched_ext scheduler that follows other rules they do not hold.

#![allow(clippy::expect_used)]

mod common;

use common::Bench;
use scx_bench::cgroup::Tree;
use scx_bench::result::ScenarioResult;

const ATTEMPTS: usize = 8;
const TOLERANCE: f64 = 0.05;

fn value(result: &ScenarioResult, name: &str) -> f64 {
    result.metric(name).expect("the scenario has it").value
}

fn cpu_ns(result: &ScenarioResult, group: &str) -> f64 {
    let group = result.groups.iter().find(|one| one.name == group);
    group.expect("the scenario has it").usage.cpu_ns as f64
}

/// `measure` gives what was found and what is known.
fn is_found(name: &str, measure: impl Fn() -> (f64, f64)) {
    let _machine = common::take_machine();
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let (found, known) = measure();
        if (found - known).abs() <= TOLERANCE * known {
            return;
        }
        last = format!("{name}: found {found}, which is {known}");
        println!("{last}");
    }
    panic!("{last}");
}

/// One of two hogs sleeps for half of the time: so much longer runs the other.
fn a_spread_is_found(scenario: &str) {
    is_found(scenario, || {
        let result = Bench::new(scenario)
            .seconds(2.0)
            .inject_ns(1_000_000_000)
            .run();
        let mean_ns = cpu_ns(&result, "hogs") / 2.0;
        (value(&result, "spread") / 100.0 * mean_ns, 1e9)
    });
}

#[test]
fn fair_finds_who_got_less() {
    a_spread_is_found("fair");
}

#[test]
fn fair_odd_finds_who_got_less() {
    a_spread_is_found("fair_odd");
}

#[test]
fn nice_finds_the_kernels_weights() {
    is_found("nice", || {
        let result = Bench::new("nice").seconds(4.0).pinned().run();
        (value(&result, "ratio"), 1024.0 / 110.0)
    });
}

/// Without control groups nothing can be said.
fn has_groups() -> bool {
    let missing = Tree::new().err();
    if let Some(error) = &missing {
        println!("not tested: {error:#}");
    }
    missing.is_none()
}

#[test]
fn cg_weights_finds_the_kernels_weights() {
    if !has_groups() {
        return;
    }
    is_found("cg_weights", || {
        let result = Bench::new("cg_weights").seconds(4.0).pinned().run();
        (value(&result, "ratio"), 3.0)
    });
}

#[test]
fn cg_nested_finds_the_kernels_weights() {
    if !has_groups() {
        return;
    }
    for (name, due_pct) in [("whole", 50.0), ("lesser", 12.5), ("greater", 37.5)] {
        is_found("cg_nested", || {
            let result = Bench::new("cg_nested").seconds(4.0).pinned().run();
            (value(&result, name), due_pct)
        });
    }
}

#[test]
fn cg_live_finds_the_weights_before_and_after() {
    if !has_groups() {
        return;
    }
    for (name, ratio) in [("before", 1.0), ("after", 3.0)] {
        is_found("cg_live", || {
            let result = Bench::new("cg_live").seconds(6.0).pinned().run();
            (value(&result, name), ratio)
        });
    }
}

/// Each refresh of the screen shows a new frame or counts as missed, also where
/// every second one is missed.
#[test]
fn game_accounts_for_every_refresh() {
    for delay_ns in [0, 8_000_000] {
        is_found("game", || {
            let bench = Bench::new("game").seconds(1.0).inject_ns(delay_ns);
            let result = bench.no_load().run();
            (value(&result, "fps") + value(&result, "missed"), 60.0)
        });
    }
}

#[test]
fn messaging_counts_every_message() {
    is_found("messaging", || {
        let result = Bench::new("messaging").seconds(1.0).run();
        let round_s = value(&result, "round_mean") / 1e3;
        (value(&result, "messages") * round_s, 100.0)
    });
}

#[test]
fn schbench_serves_every_call() {
    is_found("schbench", || {
        let result = Bench::new("schbench").seconds(1.0).run();
        (value(&result, "requests"), 1000.0)
    });
}

#[test]
fn a_pair_makes_as_many_trips_as_fit() {
    for scenario in ["pipe", "socket", "eventfd", "futex", "pipe_idle"] {
        is_found(scenario, || {
            let result = Bench::new(scenario).seconds(0.5).no_load().run();
            let trip_s = value(&result, "trip_mean") / 1e3;
            (value(&result, "trips") * trip_s, 0.5)
        });
    }
}
