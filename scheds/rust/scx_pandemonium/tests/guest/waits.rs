// SPDX-License-Identifier: GPL-2.0
//! No task that can run waits long, whatever else wants the CPUs.

use std::time::Duration;

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::crowd;
use crate::support::kernels;

const NR_CPUS: u32 = 4;

/// Pinned batch work of two kinds on each CPU, and what all CPUs share.
const PINNED_SCRIPT: &str = "\
begin
groups=
for cpu in $(seq 0 $((NR_CPUS - 1))); do
	groups=\"$groups hog*1@$cpu builder*1@$cpu\"
done
crowd pinned 3 $groups
crowd mixed 3 $groups hog*$((3 * NR_CPUS))
stop INT
";

/// Sleepers that all have the most credit there is, and wake at once.
const FLOOD_SCRIPT: &str = "\
begin
crowd flood 3 wave*$((12 * NR_CPUS)) hog*$NR_CPUS
stop INT
";

/// What is promised to any task.
const WAIT_MAX: Duration = Duration::from_millis(100);

fn waits(kernel: &Kernel, script: &str, crowds: &[&str]) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(script)?;
    for name in crowds {
        crowd::check(&told, name, WAIT_MAX)?;
    }
    told.check_stops()
}

#[test]
fn pinned_batch_work_does_not_wait_long() -> Result<()> {
    waits(&kernels::first()?, PINNED_SCRIPT, &["pinned", "mixed"])
}

#[test]
fn a_flood_of_credit_does_not_make_batch_work_wait_long() -> Result<()> {
    waits(&kernels::first()?, FLOOD_SCRIPT, &["flood"])
}

#[test]
fn a_flood_of_credit_does_not_make_batch_work_wait_long_on_the_second_kernel() -> Result<()> {
    kernels::on_second(|kernel| waits(kernel, FLOOD_SCRIPT, &["flood"]))
}
