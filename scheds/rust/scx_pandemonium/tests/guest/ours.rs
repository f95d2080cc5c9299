// SPDX-License-Identifier: GPL-2.0
//! The scheduler under test, and what only tests of this one know of it.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::support::told::Told;
use crate::support::world::Subject;

/// The scheduler under test.
pub const OURS: Subject = Subject {
    program: env!("CARGO_BIN_EXE_scx_pandemonium"),
    program_env: "SCX_PANDEMONIUM_BIN",
    scratch_dir: env!("CARGO_TARGET_TMPDIR"),
    // stop.rs holds the promise for a usual load.
    stop_max_ms: 500,
};

/// Of so many preemptions one may be of an equal, by a race.
const PREEMPTS_FOR_ONE_RACE: u64 = 10_000;

/// The tasks of an answer to `tasks`, the server's or the program's.
pub fn tasks_of(list: &Value) -> Result<&[Value]> {
    let tasks = list["tasks"].as_array().context("no list of tasks")?;
    Ok(tasks)
}

/// Checks that only tasks of a lower tier were preempted, but for the odd wakeup
/// that found a CPU on offer which was just switching to its equal.
pub fn check_victims(told: &Told, nr_equal: u64, nr_preempt: u64) -> Result<()> {
    println!("preemptions {nr_preempt}, of equals {nr_equal}");
    told.check(nr_equal <= 1 + nr_preempt / PREEMPTS_FOR_ONE_RACE, || {
        format!("{nr_equal} of {nr_preempt} preemptions were of equals")
    })
}
