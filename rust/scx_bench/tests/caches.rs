// SPDX-License-Identifier: GPL-2.0
//! What is counted with caches, for each unit of work, against known answers; and the
//! same again.

#![allow(clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Lines of the set that a hog walks.
const LINES: f64 = 4096.0;

/// What `walk` and `pipes_half` count on two CPUs, and what is shown.
fn count(json: &Path) -> (Vec<u8>, String) {
    let words = "guest --caches l1=32K/8,l2=1M/8,l3=16M/16,top=2 --cpus 2 --seeds 1 --jobs 1 \
                 --scenario walk,pipes_half --seconds 0.05 --json";
    let output = Command::new(env!("CARGO_BIN_EXE_scx_bench"))
        .args(words.split_whitespace())
        .arg(json)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    (fs::read(json).expect("it has written"), shown)
}

/// A count of `kind` for each unit of a scenario.
fn per_unit(found: &Value, scenario: usize, kind: &str, count: &str) -> f64 {
    let figures = &found["figures"][scenario];
    let units = figures["roles"][0]["units"].as_f64().expect("units");
    let count = figures["total"][kind][count].as_f64().expect("a count");
    count / units
}

#[test]
fn a_unit_costs_what_it_does_and_the_same_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, shown) = count(&dir.path().join("first"));
    let (second, shown_again) = count(&dir.path().join("second"));
    assert_eq!(shown, shown_again);
    assert!(first == second, "two runs differ");

    println!("{shown}");
    let found: Value = serde_json::from_slice(&first).expect("JSON");
    // A pass reads each line of a set that no L1 holds, and writes every fourth. Passes that
    // were begun before the span and those that are not over at its end need not be as many.
    let misses = per_unit(&found, 0, "user", "l1_misses");
    let instructions = per_unit(&found, 0, "user", "instructions");
    assert!((LINES * 0.98..LINES * 1.02).contains(&misses), "{misses}");
    let per_line = instructions / LINES;
    assert!((4.5..8.0).contains(&per_line), "{per_line}");
    // A round trip is four system calls, and sleeps twice.
    let instructions = per_unit(&found, 1, "kernel", "instructions");
    assert!((5e3..5e4).contains(&instructions), "{instructions}");
    assert_eq!(per_unit(&found, 1, "bpf", "instructions"), 0.0);
    // Whoever meets whom in the kernel has a name.
    assert!(
        shown.contains("lines of pipes_half under default"),
        "{shown}"
    );
    assert!(shown.contains(" at ") && shown.contains("+0x"), "{shown}");
}
