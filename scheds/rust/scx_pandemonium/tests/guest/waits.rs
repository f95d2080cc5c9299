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

/// Weights as far apart as they can be: alone a task of the least would have its
/// turn after minutes.
const STARVED_SCRIPT: &str = "\
begin
crowd starved 3 hog*40^-20 hog*1^idle
stop INT
";

/// The same, and every 0.1 s the one of the least gets another nice level, for which the
/// kernel queues it anew.
const CHANGED_SCRIPT: &str = "\
begin
cat >/tmp/change <<'end'
i=0
while :; do
	i=$((1 - i))
	for task in /proc/[0-9]*/task/[0-9]*; do
		read -r words <$task/stat || continue
		set -- ${words##*) }
		[ ${39} = 5 ] && renice -n $i -p ${task##*/} && echo ${task##*/} >>/tmp/changed
	done
	usleep 100000
done
end
chrt -f 1 sh /tmp/change >/dev/null 2>/tmp/err &
change=$!
crowd starved 4 hog*40^-20 hog*1^idle
kill $change; cat /tmp/err
fact nr_changed $(wc -l </tmp/changed)
stop INT
";

/// Each of them reaches all tasks that wait; without any the test says nothing.
const CHANGED_MIN: u32 = 10;

/// The same where two pairs of the most weight hand the CPUs to each other and no
/// CPU looks at a queue by itself.
const STARVED_BY_PAIRS_SCRIPT: &str = "\
begin
crowd starved 3 pipe*2^-20 hog*2^idle
stop INT
";

/// What is promised to a task whatever its weight.
pub const STARVED_MAX: Duration = Duration::from_secs(2);

/// What is promised to any task that has had less than its share.
const WAIT_MAX: Duration = Duration::from_millis(100);

fn waits(kernel: &Kernel, script: &str, crowds: &[&str]) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(script)?;
    for name in crowds {
        crowd::check(&told, name, WAIT_MAX)?;
    }
    told.check_stops()
}

fn no_weight_starves(kernel: &Kernel, nr_cpus: u32, script: &str) -> Result<()> {
    let told = OURS.flat(kernel, nr_cpus)?.run(script)?;
    crowd::check(&told, "starved", STARVED_MAX)?;
    told.check_stops()
}

#[test]
fn no_task_is_starved_by_weights() -> Result<()> {
    no_weight_starves(&kernels::first()?, 1, STARVED_SCRIPT)
}

#[test]
fn no_task_is_starved_by_weights_on_the_second_kernel() -> Result<()> {
    kernels::on_second(|kernel| no_weight_starves(kernel, 1, STARVED_SCRIPT))
}

#[test]
fn no_task_is_starved_while_its_nice_level_changes() -> Result<()> {
    let told = OURS
        .flat(&kernels::first()?, 1)?
        .with_program("chrt")?
        .run(CHANGED_SCRIPT)?;
    let nr_changed: u32 = told.one("nr_changed")?;
    println!("changes: {nr_changed}");
    told.check(nr_changed >= CHANGED_MIN, || {
        format!("{nr_changed} changes make no difference")
    })?;
    crowd::check(&told, "starved", STARVED_MAX)?;
    told.check_stops()
}

#[test]
fn no_task_is_starved_by_pairs_that_hand_the_cpus_over() -> Result<()> {
    no_weight_starves(&kernels::first()?, 2, STARVED_BY_PAIRS_SCRIPT)
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
