// SPDX-License-Identifier: GPL-2.0
//! The acceptance test of the scx project: hogs and forkers whose affinity
//! changes all the time, beside the scheduler under `timeout`.

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::kernels;

/// Seconds of the load and of the scheduler around it, by the guest's clock. The
/// recipe has 31 and 45; a tenth of it sees the same and takes a tenth of the
/// time, of which an emulated machine needs several times as much.
const LOAD_SEC: u64 = 6;
const SCHEDULER_SEC: u64 = 12;

/// `stress-ng` ends by itself before the scheduler does.
const SCRIPT: &str = "\
/bin/timeout --preserve-status $SCHEDULER_SEC \"$SCHEDULER\" -v >/tmp/out 2>&1 &
timeout=$!
wait_state enabled $timeout || give_up \"$(tail -n 1 /tmp/out)\"
stress-ng -t $LOAD_SEC --aggressive -M -c $NR_CPUS --cpu-method int64 -f $NR_CPUS --affinity 1 \\
	--affinity-delay 1 --affinity-pin >/tmp/stress 2>&1
fact load_code $?
grep -q enabled $STATE || give_up \"$(tail -n 1 /tmp/out)\"
wait $timeout
fact code $?
fact kernel_lines $(dmesg | grep -cE 'sched_ext: .* disabled \\(|BUG|WARNING')
fact normal_ends $(dmesg | grep -c 'sched_ext: .* disabled (unregistered from')
fact forked $(grep -c fork /tmp/stress)
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
    told.check_eq("exit code of the scheduler", told.one("code")?, 0)?;
    told.check_eq("lines of the kernel", told.one("kernel_lines")?, 1)?;
    told.check_eq("normal ends", told.one("normal_ends")?, 1)
}

#[test]
fn stress_with_changing_affinity_is_survived_on_2_cpus() -> Result<()> {
    passes(&kernels::first()?, 2)
}

#[test]
fn stress_with_changing_affinity_is_survived_on_4_cpus() -> Result<()> {
    passes(&kernels::first()?, 4)
}

#[test]
fn stress_with_changing_affinity_is_survived_on_the_second_kernel() -> Result<()> {
    kernels::on_second(|kernel| passes(kernel, 4))
}
