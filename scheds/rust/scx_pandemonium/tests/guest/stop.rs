// SPDX-License-Identifier: GPL-2.0
//! However the scheduler ends, the kernel is back on its own at once.

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::told::Told;

/// The first is stopped while it loads. The hogs keep every CPU busy while the second stop has to be done.
const SCRIPT: &str = "\
\"$SCHEDULER\" 2>>$LOG &
pid=$!
# It has opened the BPF half, and the verifier looks at that.
until grep -q 'scheduler flags' $LOG; do
	usleep 10000
done
kill -INT $pid
wait $pid
fact early_code $?
fact early_enabled $(cat /sys/kernel/sched_ext/enable_seq)
begin
sleep 0.5
stop INT
begin
start_hogs $((2 * NR_CPUS))
sleep 0.5
stop TERM
kill $hogs
begin
sleep 0.5
kill_9
";

/// What is promised, idle and with every CPU busy; after a SIGKILL too.
const STOP_MAX_MS: u64 = 200;

/// What a shell says of a process that SIGKILL ended.
const KILLED: i32 = 128 + 9;

fn ends_well(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
    told.check_eq("exit code of an early stop", told.one("early_code")?, 0)?;
    told.check_eq("schedulers enabled by it", told.one("early_enabled")?, 0)?;
    check_stops(&told)?;
    check_kills(&told)
}

/// Checks that every stop that was told ended the scheduler, in the time that is promised.
pub fn check_stops(told: &Told) -> Result<()> {
    let stops_ms: Vec<u64> = told.all("stop_ms")?;
    println!("stops took {stops_ms:?} ms");
    told.check(stops_ms.iter().all(|ms| *ms <= STOP_MAX_MS), || {
        format!("stops took {stops_ms:?} ms, one more than {STOP_MAX_MS}")
    })?;
    told.check_stops()
}

/// Checks that every SIGKILL that was told ended the scheduler, in time.
pub fn check_kills(told: &Told) -> Result<()> {
    let codes: Vec<i32> = told.all("kill_code")?;
    told.always(codes.iter().all(|code| *code == KILLED), || {
        format!("exit codes after SIGKILL: {codes:?}")
    })?;
    let kills_ms: Vec<u64> = told.all("kill_ms")?;
    println!("after SIGKILL the kernel took {kills_ms:?} ms");
    told.check(kills_ms.iter().all(|ms| *ms <= STOP_MAX_MS), || {
        format!("after SIGKILL the kernel took {kills_ms:?} ms, once more than {STOP_MAX_MS}")
    })
}

figure!(
    sigint_sigterm_and_sigkill_give_the_kernel_back,
    [lts, oldest, newest],
    ends_well
);
