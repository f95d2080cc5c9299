// SPDX-License-Identifier: GPL-2.0
//! However the scheduler ends, the kernel is back on its own at once.

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::kernels;

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
kill -KILL $pid
now
killed_at=$now_ms
wait $pid
fact kill_code $?
until read -r state <$STATE && [ $state = disabled ]; do
	now
	[ $((now_ms - killed_at)) -lt 5000 ] || give_up 'still scheduling after kill -9'
	usleep 10000
done
now
fact kill_ms $((now_ms - killed_at))
";

/// What is promised, idle and with every CPU busy.
const STOP_MAX_MS: u64 = 200;

/// What a shell says of a process that SIGKILL ended.
const KILLED: i32 = 128 + 9;

/// The kernel's own cleaning up after a process takes no longer than a stop.
const KILL_MAX_MS: u64 = 500;

fn ends_well(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
    told.check_eq("exit code of an early stop", told.one("early_code")?, 0)?;
    told.check_eq("schedulers enabled by it", told.one("early_enabled")?, 0)?;
    let stops_ms: Vec<u64> = told.all("stop_ms")?;
    println!("stops took {stops_ms:?} ms");
    told.check(stops_ms.iter().all(|ms| *ms <= STOP_MAX_MS), || {
        format!("stops took {stops_ms:?} ms, one more than {STOP_MAX_MS}")
    })?;
    told.check_stops()?;
    told.check_eq("exit code after SIGKILL", told.one("kill_code")?, KILLED)?;
    let kill_ms: u64 = told.one("kill_ms")?;
    told.check(kill_ms <= KILL_MAX_MS, || {
        format!("the kernel was back on its default {kill_ms} ms after SIGKILL")
    })
}

#[test]
fn sigint_sigterm_and_sigkill_give_the_kernel_back() -> Result<()> {
    ends_well(&kernels::first()?)
}

#[test]
fn sigint_sigterm_and_sigkill_give_the_second_kernel_back() -> Result<()> {
    kernels::on_second(ends_well)
}
