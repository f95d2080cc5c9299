// SPDX-License-Identifier: GPL-2.0
//! A task that cannot run ends the scheduler with an error and a report that a
//! person can read.

use crate::ours::OURS;

/// Real-time work that never ends holds CPU 1, and nothing takes its bandwidth
/// away; a normal task that may run nowhere else waits behind it. The kernel's
/// watchdog is made impatient, so that it does not take 30 s.
const SCRIPT: &str = "\
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
export SCX_TIMEOUT_MS=1000
# stall ARGS: the scheduler, until that ends it. Its report is in $LOG alone.
stall() {
	: >$LOG
	begin \"$@\"
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
	fact bytes $(wc -c <$LOG)
}
stall --exit-dump-len $DUMP_LEN
stall
while read -r line; do
	fact line $line
done <$LOG
";

/// Bytes of a short report, and how many there may be about it.
const DUMP_LEN: u64 = 500;
const LOG_MAX: u64 = 1_000;

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

invariant!(a_stall_ends_with_an_error_and_a_readable_dump, |kernel| {
    let told = OURS
        .flat(kernel, 2)?
        .with_program("chrt")?
        .allow_scx_error()
        .run(&format!("DUMP_LEN={DUMP_LEN}\n{SCRIPT}"))?;
    told.check_eq("exit codes after stalls", told.all("code")?, vec![1, 1])?;
    let states: Vec<String> = told.all("state")?;
    told.check_eq("sched_ext", states, vec!["disabled".to_owned(); 2])?;
    let bytes: Vec<u64> = told.all("bytes")?;
    println!("bytes of the log with a short report, and with one of the usual length: {bytes:?}");
    told.check(bytes[0] < DUMP_LEN + LOG_MAX && bytes[1] > bytes[0], || {
        format!("--exit-dump-len {DUMP_LEN} gives a log of {bytes:?} bytes")
    })?;
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
});
