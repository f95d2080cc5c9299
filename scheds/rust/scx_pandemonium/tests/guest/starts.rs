// SPDX-License-Identifier: GPL-2.0
//! Whatever ends it, and how often: a scheduler that is gone leaves nothing in the kernel.
//!
//! `SCX_STARTS=400 cargo test --release starts` starts and ends it so often; each takes
//! about ten seconds.

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::ours::OURS;
use crate::stop;
use crate::support::number_of_env;

/// How many starts; the least of them sees each kind of end.
const STARTS_ENV: &str = "SCX_STARTS";
const STARTS_DFL: u32 = 6;
const STARTS_MIN: u32 = 3;

/// Each fourth time it starts beside its load, else the load comes once it schedules.
/// What is forked while the kernel disables the scheduler is of the fair class, and takes
/// CPUs from tasks that are not yet: ops.cpu_release().
/// What is held is counted after a third, when the kernel's caches are filled, and at the end.
const SCRIPT: &str = "\
start_load() {
	start_hogs $NR_CPUS
	(while :; do busybox true; done) &
	hogs=\"$hogs $!\"
}
held() {
	usleep 500000
	fact objects $(agent bpf-objects)
	fact kernel_kib $(awk '/^(SUnreclaim|Percpu|VmallocUsed):/ { kib += $2 }
		END { print kib }' /proc/meminfo)
}
nr=0
while [ $nr -lt $STARTS ]; do
	way=$((nr % 4))
	[ $way != 3 ] || start_load
	begin
	[ $way = 3 ] || start_load
	usleep 50000
	case $way in
	0) stop INT ;;
	1) stop TERM ;;
	*) kill_9 ;;
	esac
	kill $hogs
	# Shown if the next one fails.
	tail -n 50 $LOG >/tmp/tail
	cat /tmp/tail >$LOG
	nr=$((nr + 1))
	[ $nr != $((STARTS / 3)) ] || held
done
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
held
";

/// Wall time for each start, on a machine that is busy.
const WALL: Duration = Duration::from_secs(40);

/// What the kernel holds may grow by so much: its caches fill.
const GROWTH_MAX_KIB: u64 = 1024;

figure!(many_starts_and_ends_leave_nothing_behind, |kernel| {
    let nr_starts = number_of_env(STARTS_ENV, STARTS_DFL)?;
    ensure!(
        nr_starts >= STARTS_MIN,
        "{STARTS_ENV}={nr_starts}: at least {STARTS_MIN} see each kind of end"
    );
    let told = OURS
        .flat(kernel, 2)?
        .with_more_time(WALL * nr_starts)
        .run(&format!("STARTS={nr_starts}\n{SCRIPT}"))?;
    told.check_eq("schedulers enabled", told.one("enabled")?, nr_starts)?;
    stop::check_stops(&told)?;
    stop::check_kills(&told)?;
    let objects: Vec<String> = told.all("objects")?;
    let kernel_kib: Vec<u64> = told.all("kernel_kib")?;
    println!("BPF objects {objects:?}, memory of the kernel in KiB {kernel_kib:?}");
    // A BTF may go later than what it describes.
    let but_btfs = |objects: &String| objects.rsplit_once(' ').map(|(most, _)| most.to_owned());
    let (first, last) = (objects.first(), objects.last());
    told.check_eq(
        "programs, maps and links",
        last.and_then(but_btfs).context("no objects")?,
        first.and_then(but_btfs).context("no objects")?,
    )?;
    told.check(
        kernel_kib.last() <= kernel_kib.first().map(|kib| kib + GROWTH_MAX_KIB).as_ref(),
        || format!("the kernel's memory grew: {kernel_kib:?} KiB"),
    )
});
