// SPDX-License-Identifier: GPL-2.0
//! A CPU that another scheduling class holds serves no task of ours: what waits for it,
//! or for its domain, goes elsewhere.

use std::time::Duration;

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::crowd;

/// Two LLC domains, CPUs 0 and 1, and 2 and 3.
const TOPOLOGY: &str = "2x1x2x1";

/// Eight hogs are everywhere, two of which keep to one CPU of each domain, before the
/// CPUs of $HELD are taken from them for much longer than any may wait. What has to stay
/// on a held CPU, as its kworkers, waits as long.
const SCRIPT: &str = "\
export SCX_TIMEOUT_MS=20000
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
begin
agent crowd 4 hog*6 hog*2@1,3 >/tmp/hogs &
hogs=$!
usleep 1000000
holders=
for cpu in $HELD; do
	holders=\"$holders hog*1@$cpu^fifo\"
done
crowd holders 2 $holders
wait $hogs || give_up 'the hogs failed'
tell hogs /tmp/hogs
stop INT
";

/// The longest wait of a task that another CPU may run.
const WAIT_MAX: Duration = Duration::from_millis(300);

fn held_cpus_keep_no_task(kernel: &Kernel, held: &str) -> Result<()> {
    let told = OURS
        .world(kernel, TOPOLOGY)?
        .run(&format!("HELD='{held}'\n{SCRIPT}"))?;
    crowd::check(&told, "holders", WAIT_MAX)?;
    crowd::check(&told, "hogs", WAIT_MAX)?;
    told.check_stops()
}

figure!(
    tasks_leave_a_domain_that_real_time_work_holds,
    [lts, oldest],
    |kernel| held_cpus_keep_no_task(kernel, "2 3")
);

figure!(
    tasks_leave_the_first_domain_that_real_time_work_holds,
    |kernel| held_cpus_keep_no_task(kernel, "0 1")
);

figure!(tasks_leave_a_cpu_that_real_time_work_holds, |kernel| {
    held_cpus_keep_no_task(kernel, "3")
});
