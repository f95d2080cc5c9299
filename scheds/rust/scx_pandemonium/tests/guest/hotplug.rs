// SPDX-License-Identifier: GPL-2.0
//! CPUs go off and come back under a load, and no task is left behind; what is
//! promised is promised of those that are online.

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::share::{FLOOD_SHARE_MIN_PCT, bench, metric};

/// How often every CPU but the first goes off and comes back.
const NR_CYCLES: u64 = 3;

/// The workers of a CPU that goes off are pinned to it; the kernel lets them run
/// elsewhere then. The load begins on all CPUs.
const SCRIPT: &str = "\
begin
agent load 4 $NR_CPUS >/tmp/load &
load=$!
sleep 0.3
cycle=0
while [ $cycle -lt $NR_CYCLES ]; do
	cycle_cpus
	is_running $load || give_up 'the load ended before the cycles'
	cycle=$((cycle + 1))
done
wait $load || give_up 'the load failed'
tell load /tmp/load
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
stop INT
";

/// The longest that a worker may wait, in ms. At times all of them share one
/// CPU, and stopping the machine takes some time of every task.
const GAP_MAX_MS: u64 = 1500;

fn survives(kernel: &Kernel) -> Result<()> {
    let script = format!("NR_CYCLES={NR_CYCLES}\n{SCRIPT}");
    let told = OURS.flat(kernel, 4)?.run(&script)?;
    // Attached once: it did not leave and come back either.
    told.check_eq("schedulers enabled", told.one("enabled")?, 1)?;
    told.check_load(GAP_MAX_MS)?;
    told.check_stops()
}

invariant!(
    no_task_is_left_behind_while_cpus_come_and_go,
    [lts, oldest, newest],
    survives
);

/// One of four CPUs goes off, and sleepers want more than the others have.
const OFFLINE: &str = "echo 0 >/sys/devices/system/cpu/cpu3/online\n";

figure!(
    batch_work_keeps_its_part_of_the_cpus_that_are_left,
    |kernel| {
        let told = bench(kernel, "1x1x4x1", OFFLINE, "flood")?;
        let share_pct = metric(&told, "flood", "share")?;
        println!("hogs have {share_pct:.1}% of three CPUs");
        told.check(share_pct >= FLOOD_SHARE_MIN_PCT, || {
            format!("hogs have {share_pct:.1}%, less than {FLOOD_SHARE_MIN_PCT}")
        })?;
        told.check_stops()
    }
);
