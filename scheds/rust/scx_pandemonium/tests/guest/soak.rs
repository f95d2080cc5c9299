// SPDX-License-Identifier: GPL-2.0
//! Everything that shakes a scheduler at once, for as long as one likes: the
//! acceptance load of the scx project with its fork storm, tasks of all kinds
//! whose affinity changes, and CPUs that come and go.
//!
//! `SCX_SOAK_SECONDS=600 cargo test --release soak` shakes it for ten minutes of
//! the guest, which take more than an hour: an emulated second takes six or seven.

use std::time::Duration;

use crate::ours::OURS;
use crate::stats::Found;
use crate::support::number_of_env;

/// How long, by the guest's clock.
const SECONDS_ENV: &str = "SCX_SOAK_SECONDS";
const SECONDS_DFL: u32 = 5;

const NR_CPUS: u32 = 4;

/// What the kernel says is collected all the time, since its buffer is not
/// endless. The telemetry is of an interval within the load. Some other methods
/// of hogs end at an instruction that the emulated CPU does not have.
const SCRIPT: &str = "\
kernel_says() {
	dmesg -c | grep -E 'BUG|WARNING|[Ss]tall|sched_ext: .* disabled' >>/tmp/kernel
}
memory() {
	sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/$pid/status
}
begin
agent load $SECONDS $NR_CPUS churn >/tmp/load &
load=$!
stress-ng -t $SECONDS --aggressive -M -c $NR_CPUS --cpu-method int64 \\
	-f $NR_CPUS --affinity 1 --affinity-delay 1 --affinity-pin >/tmp/stress 2>&1 &
stress=$!
usleep 500000
{ agent stats-of-load $((SECONDS - 2)) >/tmp/books; } &
books=$!
nr_cycles=0
while is_running $load; do
	cycle_cpus
	kernel_says
	nr_cycles=$((nr_cycles + 1))
	[ $nr_cycles = 3 ] && fact memory_kib $(memory)
done
wait $load || give_up 'the load failed'
wait $books || give_up 'the telemetry failed'
wait $stress
fact stress_code $?
fact nr_forks $(bogo_ops fork)
tell stress /tmp/stress
tell load /tmp/load
fact books $(cat /tmp/books)
fact nr_cycles $nr_cycles
fact memory_kib $(memory)
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
stop INT
kernel_says
tell kernel /tmp/kernel
";

/// The longest that a worker may wait, in ms. At times all of them, 45 tasks with
/// the load of stress-ng, share one CPU; in ten minutes 265 ms were the longest.
const GAP_MAX_MS: u64 = 500;

/// Wall time for each second of the guest, on a machine that is busy.
const WALL_FACTOR: u32 = 20;

/// Tasks that may wait at a time: those of the load and of stress-ng.
const NR_TASKS_MAX: u64 = 9 * NR_CPUS as u64 + 100;

/// Forks of stress-ng in each second, at least.
const NR_FORKS_MIN: u64 = 50;

/// The scheduler's memory may grow by so much while it schedules.
const GROWTH_MAX_KIB: u64 = 1024;

figure!(soak_of_stress_forks_affinities_and_hotplug, |kernel| {
    let seconds = number_of_env(SECONDS_ENV, SECONDS_DFL)?;
    let told = OURS
        .flat(kernel, NR_CPUS)?
        .with_program("stress-ng")?
        .with_more_time(Duration::from_secs(1) * seconds * WALL_FACTOR)
        .run(&format!("SECONDS={seconds}\n{SCRIPT}"))?;

    let nr_cycles: u64 = told.one("nr_cycles")?;
    println!("{nr_cycles} cycles");
    for line in told.all::<String>("stress")? {
        println!("{line}");
    }
    told.check_eq("exit code of stress-ng", told.one("stress_code")?, 0)?;
    let nr_forks: u64 = told.one("nr_forks")?;
    println!("{nr_forks} forks");
    let nr_forks_min = NR_FORKS_MIN * u64::from(seconds);
    told.check(nr_forks >= nr_forks_min, || {
        format!("stress-ng came to {nr_forks} forks, not {nr_forks_min}")
    })?;
    // Attached once: it did not leave and come back either.
    told.check_eq("schedulers enabled", told.one("enabled")?, 1)?;
    told.check_load(GAP_MAX_MS)?;
    let found = told.one("books")?;
    let found = Found { told: &told, found };
    found.check_books(NR_CPUS.into(), NR_TASKS_MAX)?;
    let memory_kib: Vec<u64> = told.all("memory_kib")?;
    println!("memory of the scheduler in KiB: {memory_kib:?}");
    told.check(
        memory_kib.last() <= memory_kib.first().map(|kib| kib + GROWTH_MAX_KIB).as_ref(),
        || format!("the scheduler's memory grew: {memory_kib:?} KiB"),
    )?;
    told.check_stops()?;
    told.check_kernel_said_no_more()
});
