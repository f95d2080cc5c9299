// SPDX-License-Identifier: GPL-2.0
//! The acceptance test of the scx project: hogs and forkers whose affinity
//! changes all the time, beside the scheduler under `timeout`. soak.rs has the same
//! load on 4 CPUs of the first kernel.

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;

/// Seconds of the load and of the scheduler around it, by the guest's clock. The
/// recipe has 31 and 45; a tenth of it sees the same and takes a tenth of the
/// time, of which an emulated machine needs several times as much.
const LOAD_SEC: u64 = 6;
const SCHEDULER_SEC: u64 = 12;

/// The least number of forks, and of rounds of hogs, that are a load: less than half
/// of what comes of it on 2 CPUs, 531 and 390.
const NR_FORKS_MIN: u64 = 200;
const NR_HOG_ROUNDS_MIN: u64 = 150;

/// `stress-ng` ends by itself before the scheduler does.
const SCRIPT: &str = "\
/bin/timeout --preserve-status $SCHEDULER_SEC \"$SCHEDULER\" -v >>$LOG 2>&1 &
timeout=$!
wait_state enabled $timeout || give_up \"$(tail -n 1 $LOG)\"
stress-ng -t $LOAD_SEC --aggressive -M -c $NR_CPUS --cpu-method int64 -f $NR_CPUS --affinity 1 \\
	--affinity-delay 1 --affinity-pin >/tmp/stress 2>&1
fact load_code $?
grep -q enabled $STATE || give_up \"$(tail -n 1 $LOG)\"
wait $timeout
fact code $?
fact kernel_lines $(dmesg | grep -cE 'sched_ext: .* disabled \\(|BUG|WARNING')
fact normal_ends $(dmesg | grep -c 'sched_ext: .* disabled (unregistered from')
fact nr_forks $(bogo_ops fork)
fact nr_hog_rounds $(bogo_ops cpu)
";

fn passes(kernel: &Kernel, nr_cpus: u32) -> Result<()> {
    let script = format!("LOAD_SEC={LOAD_SEC}\nSCHEDULER_SEC={SCHEDULER_SEC}\n{SCRIPT}");
    let told = OURS
        .flat(kernel, nr_cpus)?
        .with_program("stress-ng")?
        // Called by its path: the shell's own has no --preserve-status.
        .with_program("timeout")?
        .run(&script)?;
    told.check_eq("exit code of stress-ng", told.one("load_code")?, 0)?;
    let (nr_forks, nr_hog_rounds): (u64, u64) = (told.one("nr_forks")?, told.one("nr_hog_rounds")?);
    println!("{nr_forks} forks, {nr_hog_rounds} rounds of hogs");
    told.check(
        nr_forks >= NR_FORKS_MIN && nr_hog_rounds >= NR_HOG_ROUNDS_MIN,
        || format!("stress-ng came to {nr_forks} forks and {nr_hog_rounds} rounds of hogs"),
    )?;
    told.check_eq("exit code of the scheduler", told.one("code")?, 0)?;
    told.check_eq("lines of the kernel", told.one("kernel_lines")?, 1)?;
    told.check_eq("normal ends", told.one("normal_ends")?, 1)
}

figure!(
    stress_with_changing_affinity_is_survived_on_2_cpus,
    |kernel| passes(kernel, 2)
);
