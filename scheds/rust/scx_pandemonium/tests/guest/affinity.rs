// SPDX-License-Identifier: GPL-2.0
//! Tasks whose affinity changes a thousand times a second are never lost, and those
//! that keep to some CPUs cost the others little.

use std::time::Duration;

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::crowd;

const SCRIPT: &str = "\
begin
load 2 churn
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

figure!(
    no_task_is_left_behind_while_affinities_change,
    [lts, oldest, newest],
    survives
);

/// Hogs that keep to two of eight CPUs, and on each other one a task that sleeps.
/// `sum` tells how often the scheduler's programs were called, and for how many ns.
const RESTRICTED_SCRIPT: &str = "\
sum() {
	cat /proc/$pid/fdinfo/* | awk '
		/^run_time_ns/ { time = $2 }
		/^run_cnt/ { nr = $2 }
		/^prog_id/ { times[$2] = time; nrs[$2] = nr }
		END { for (id in nrs) { n += nrs[id]; t += times[id] }; print n, t }'
}
begin
taskset -p 3 $$ >/dev/null
start_hogs $NR_RESTRICTED
taskset -p fc $$ >/dev/null
usleep 300000
echo 1 >/proc/sys/kernel/bpf_stats_enabled
fact calls $(sum)
crowd sleepers 1 brief*1@2 brief*1@3 brief*1@4 brief*1@5 brief*1@6 brief*1@7
fact calls $(sum)
kill -KILL $hogs
wait $hogs
usleep 300000
stop INT
";

const NR_RESTRICTED: u32 = 300;

/// Calls without which the test says nothing.
const NR_CALLS_MIN: u64 = 5_000;

/// The mean time of a call, in ns. It is 6 us with ten hogs, and 41 us if each CPU
/// that goes idle looks at all of 300.
const CALL_MAX_NS: u64 = 20_000;

/// The longest that a task waits that is alone on its CPU but for the script.
const SLEEPER_WAIT_MAX: Duration = Duration::from_millis(10);

fn restricted_hogs_cost_little(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 8)?.run(&format!(
        "NR_RESTRICTED={NR_RESTRICTED}\n{RESTRICTED_SCRIPT}"
    ))?;
    let [nr_before, ns_before, nr_after, ns_after] = told.numbers("calls")?;
    let (nr_calls, ns) = (nr_after - nr_before, ns_after - ns_before);
    println!("{nr_calls} calls of {} ns", ns / nr_calls.max(1));
    told.check(nr_calls >= NR_CALLS_MIN, || {
        format!("{nr_calls} calls show nothing")
    })?;
    told.check(ns / nr_calls <= CALL_MAX_NS, || {
        format!("{nr_calls} calls took {ns} ns, while hogs wait for other CPUs")
    })?;
    crowd::check(&told, "sleepers", SLEEPER_WAIT_MAX)?;
    told.check_stops()
}

figure!(
    hogs_that_keep_to_some_cpus_cost_the_others_little,
    restricted_hogs_cost_little
);
