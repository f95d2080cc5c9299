// SPDX-License-Identifier: GPL-2.0
//! Tasks whose affinity changes a thousand times a second are never lost.

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::kernels;

const SCRIPT: &str = "\
begin
load 3 churn
stop TERM
";

/// The longest that a worker may wait, in ms. Several may be sent to one CPU at
/// once and share it.
const GAP_MAX_MS: u64 = 400;

fn survives(kernel: &Kernel) -> Result<()> {
    // Two domains, so that moves cross a border.
    let told = OURS.world(kernel, "1x2x2x1")?.run(SCRIPT)?;
    told.check_load(GAP_MAX_MS)?;
    told.check_stops()
}

#[test]
fn no_task_is_left_behind_while_affinities_change() -> Result<()> {
    survives(&kernels::first()?)
}

#[test]
fn no_task_is_left_behind_while_affinities_change_on_the_second_kernel() -> Result<()> {
    kernels::on_second(survives)
}
