// SPDX-License-Identifier: GPL-2.0
//! A small machine that is short of all it needs: 256 MiB of memory, so few process
//! ids that they are used again and again, half of the CPUs offline at the start.

use anyhow::{Result, bail};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::told::Told;

const MEMORY_MIB: u32 = 256;

/// Of two LLC domains, the first is online when the kernel has booted.
const TOPOLOGY: &str = "1x2x2x1";
const KERNEL_WORD: &str = "maxcpus=2";

/// The kernel gives no id below 300 a second time.
const NR_IDS: u64 = 212;

/// The scheduler starts anew for each CPU that it does not know. Then tasks are made
/// until ids have come round.
///
/// To go to sleep the kernel takes every task back from the scheduler, and gives it
/// again. First it prepares to hibernate, for as long as its snapshot is open, and idle
/// CPUs get work meanwhile; where there is no hibernation that is left out. Then it is
/// woken while it freezes the tasks.
const SCRIPT: &str = "\
nr_processes() {
	awk '/^processes/ { print $2 }' /proc/stat
}
power=/sys/power
alarm=/sys/class/rtc/rtc0/wakealarm
begin
for cpu in 2 3; do
	echo 1 >/sys/devices/system/cpu/cpu$cpu/online || give_up \"no CPU $cpu\"
done
until grep -q ' 4 CPUs' $LOG && grep -q enabled $STATE; do
	is_running $pid || give_up 'the scheduler is gone'
	usleep 20000
done
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)

before=$(nr_processes)
echo 512 >/proc/sys/kernel/pid_max
stress-ng -t 1 -f 4 --fork-max 40 >/dev/null 2>&1
fact stress_code $?
echo 32768 >/proc/sys/kernel/pid_max
fact nr_processes $(($(nr_processes) - before))

if [ -e /dev/snapshot ]; then
	usleep 400000 </dev/snapshot &
	holder=$!
	usleep 100000
	start_hogs $((2 * NR_CPUS))
	wait $holder
	fact metrics \"$(agent stats-of-ms 500)\"
	kill $hogs
	start_hogs $((2 * NR_CPUS))
	fact metrics \"$(agent stats-of-ms 500)\"
	kill $hogs
fi
agent load 2 $NR_CPUS >/tmp/load &
load=$!
usleep 200000
echo $(cat $power/wakeup_count) >$power/wakeup_count
echo +1 >$alarm
usleep 1100000
echo freeze 2>/dev/null >$power/state && give_up 'the machine slept'
fact suspends $(dmesg | grep -c 'Freezing user space processes aborted')
wait $load || give_up 'the load failed'
tell load /tmp/load
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
stop INT
tell line $LOG
";

/// The longest that a worker may wait, in ms. While the kernel has taken the tasks back
/// it serves them one after the other, 20 ms each, eight to a CPU here.
const GAP_MAX_MS: u64 = 500;

/// Of the ends of slices that CPUs have which were never idle meanwhile.
const TIMERS_MIN_PCT: u64 = 90;

fn check_slices(told: &Told) -> Result<()> {
    let metrics: Vec<Value> = told.all("metrics")?;
    let timers = metrics.iter().map(|metrics| &metrics["nr_slice_timer"]);
    let timers: Vec<u64> = timers.filter_map(Value::as_u64).collect();
    println!("slices that ended in time, after hibernation and later: {timers:?}");
    let [after, later] = timers.as_slice() else {
        bail!("no two numbers of slices: {metrics:?}");
    };
    told.check(*later > 0 && after * 100 >= later * TIMERS_MIN_PCT, || {
        format!("after hibernation {after} slices ended in time, later {later}")
    })
}

fn goes_on(kernel: &Kernel, can_hibernate: bool) -> Result<()> {
    let told = OURS
        .world(kernel, TOPOLOGY)?
        .with_memory_mib(MEMORY_MIB)
        .with_kernel_word(KERNEL_WORD)
        .with_program("stress-ng")?
        .run(SCRIPT)?;
    let lines: Vec<String> = told.all("line")?;
    for words in [
        "2 CPUs, 2 L2 domains, 1 LLC domains",
        "CPU 2 was offline when we started",
        "4 CPUs, 4 L2 domains, 2 LLC domains",
    ] {
        told.check(lines.iter().any(|line| line.contains(words)), || {
            format!("the log says nothing of {words}: {lines:?}")
        })?;
    }
    let enabled: Vec<u64> = told.all("enabled")?;
    told.check(enabled[0] >= 2 && enabled[0] == enabled[1], || {
        format!("schedulers enabled before and after the load: {enabled:?}")
    })?;
    told.check_eq("exit code of stress-ng", told.one("stress_code")?, 0)?;
    let nr_processes: u64 = told.one("nr_processes")?;
    println!("{nr_processes} processes of {NR_IDS} ids");
    told.check(nr_processes > 2 * NR_IDS, || {
        format!("{nr_processes} processes do not use {NR_IDS} ids again")
    })?;
    if can_hibernate {
        check_slices(&told)?;
    }
    told.check_eq("suspends called off", told.one("suspends")?, 1)?;
    told.check_load(GAP_MAX_MS)?;
    told.check_stops()
}

figure!(a_machine_short_of_memory_ids_and_cpus_is_served, |kernel| {
    goes_on(kernel, true)
});
