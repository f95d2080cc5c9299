// SPDX-License-Identifier: GPL-2.0
//! A task that cannot run ends the scheduler with an error and a report that a
//! person can read.

use anyhow::Result;

use crate::ours::OURS;
use crate::support::kernels;

/// Real-time work that never ends holds CPU 1, and nothing takes its bandwidth
/// away; a normal task that may run nowhere else waits behind it. The kernel's
/// watchdog is made impatient, so that it does not take 30 s.
const SCRIPT: &str = "\
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
export SCX_TIMEOUT_MS=1000
begin
sleep 0.2
chrt -f 50 taskset 2 guest-hog &
hog=$!
sleep 0.1
taskset 2 guest-hog &
victim=$!
wait $pid
fact code $?
fact state $(cat $STATE)
kill -KILL $hog $victim
while read -r line; do
	fact line $line
done <$LOG
";

/// What the report must hold: the kernel's reason, the depths of the queues, the
/// CPU that is gone, the task that waits and what is known of it, and the last
/// line.
const WANTED: &[&[&str]] = &[
    &["runnable task stall"],
    &["LLC 0:", "interactive", "batch"],
    &["own 1", "taken"],
    &["tier", "score", "LLC 0"],
    &["waits for"],
];

/// How an error of the program begins; there is one such line, the last.
const LAST: &str = "scx_pandemonium: ";

#[test]
fn a_stall_ends_with_an_error_and_a_readable_dump() -> Result<()> {
    let told = OURS
        .flat(&kernels::first()?, 2)?
        .with_program("chrt")?
        .allow_scx_error()
        .run(SCRIPT)?;
    told.check_eq("exit code after a stall", told.one("code")?, 1)?;
    told.check_eq("sched_ext", told.one("state")?, "disabled".to_owned())?;
    let lines: Vec<String> = told.all("line")?;
    for words in WANTED {
        told.check(
            lines
                .iter()
                .any(|line| words.iter().all(|word| line.contains(word))),
            || format!("no line of the report has all of {words:?}"),
        )?;
    }
    let last = lines.last().map_or("", String::as_str);
    told.check(last.starts_with(LAST) && last.contains("stall"), || {
        format!("the last line does not say why: {last}")
    })
}
