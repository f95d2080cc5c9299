// SPDX-License-Identifier: GPL-2.0
//! The scheduler under test, and what only tests of this one know of it.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::support::world::Subject;

/// The scheduler under test.
pub const OURS: Subject = Subject {
    program: env!("CARGO_BIN_EXE_scx_pandemonium"),
    program_env: "SCX_PANDEMONIUM_BIN",
    scratch_dir: env!("CARGO_TARGET_TMPDIR"),
    // stop.rs holds the promise for a usual load.
    stop_max_ms: 500,
};

/// The tasks of an answer to `tasks`, the server's or the program's.
pub fn tasks_of(list: &Value) -> Result<&[Value]> {
    let tasks = list["tasks"].as_array().context("no list of tasks")?;
    Ok(tasks)
}
