// SPDX-License-Identifier: GPL-2.0
//! Our headline figures on several kernels: `scx_bench scorecard`, with our bounds.
//!
//! *Does what README promises hold on this kernel too?* A kernel may load the
//! scheduler and pass the guest tests, and still show half of a game's frames.
//!
//! Not here: what is measured and how it is judged (`scx_bench`, and the bounds
//! beside the scheduler's sources).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::bench;
use crate::process;
use crate::setup::Tools;
use crate::workspace::Workspace;

/// The bounds, in the directory of our package.
const BOUNDS: &str = "bench-bounds.json";

/// The figures of all kernels, as `scx_bench` writes them.
#[derive(Debug, Default, Deserialize)]
pub struct Scorecard {
    pub columns: Vec<Column>,
    /// In the order of the kernels that were named.
    pub rows: Vec<Figures>,
}

/// A figure and its bound.
#[derive(Debug, Deserialize)]
pub struct Column {
    pub scenario: String,
    pub figure: String,
    pub unit: String,
    pub allowed: String,
}

/// The figures of one kernel.
#[derive(Debug, Default, Deserialize)]
pub struct Figures {
    pub kernel: String,
    pub cells: Vec<Cell>,
    /// What has no result, and why.
    pub failures: Vec<String>,
}

/// One figure of one kernel.
#[derive(Debug, Deserialize)]
pub struct Cell {
    pub text: String,
    pub is_held: bool,
}

impl Figures {
    /// Is each figure within its bound?
    pub fn are_held(&self) -> bool {
        self.failures.is_empty() && self.cells.iter().all(|cell| cell.is_held)
    }
}

impl Scorecard {
    /// Releases of the kernels on which a figure is out of its bound.
    pub fn broken(&self) -> Vec<&str> {
        let broken = self.rows.iter().filter(|row| !row.are_held());
        broken.map(|row| row.kernel.as_str()).collect()
    }
}

/// Measure our scheduler on the kernels of `images`, one guest for each core, and print the table.
///
/// # Errors
///
/// If there is no table. One with figures out of their bounds is no error.
pub fn measure(workspace: &Workspace, tools: &Tools, images: &[&Path]) -> Result<Scorecard> {
    workspace.build_all(tools)?;
    let holder = tempfile::tempdir().context("making a directory")?;
    let json = holder.path().join("scorecard.json");
    let result = process::run(&mut command(workspace, images, &json));
    // It fails as well if a figure is out of its bound.
    match (fs::read_to_string(&json), result) {
        (Ok(text), _) => serde_json::from_str(&text).context("reading the scorecard"),
        (Err(_), Err(error)) => Err(error),
        (Err(error), Ok(())) => Err(error).context("reading the scorecard"),
    }
}

fn command(workspace: &Workspace, images: &[&Path], json: &Path) -> Command {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new(workspace.binary("scx_bench"));
    command
        .arg("scorecard")
        .args(["--sched", &bench::ours(workspace)])
        .arg("--bounds")
        .arg(bench::package_dir(workspace).join(BOUNDS))
        .args(["--jobs", &cores.to_string()])
        .arg("--json")
        .arg(json);
    for image in images {
        command.arg("--kernel").arg(image);
    }
    command
}
