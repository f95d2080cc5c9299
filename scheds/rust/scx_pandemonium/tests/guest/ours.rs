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

/// Of so many preemptions one may have been given up since an equal runs there by now.
const PREEMPTS_FOR_ONE_RACE: u64 = 10_000;

/// The tasks of an answer to `tasks`, the server's or the program's.
pub fn tasks_of(list: &Value) -> Result<&[Value]> {
    let tasks = list["tasks"].as_array().context("no list of tasks")?;
    Ok(tasks)
}

/// Checks that a CPU on offer runs a task of a lower tier, but for the odd one that was
/// just switching when a wakeup found it.
pub fn check_victims(told: &Told, nr_equal: u64, nr_preempt: u64) -> Result<()> {
    println!("preemptions {nr_preempt}, given up for an equal {nr_equal}");
    told.check(nr_equal <= 1 + nr_preempt / PREEMPTS_FOR_ONE_RACE, || {
        format!("{nr_equal} of {nr_preempt} preemptions found an equal")
    })
}
