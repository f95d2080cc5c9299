// SPDX-License-Identifier: GPL-2.0
//! The text for a report of a problem, of a scheduler that runs, and what the kernel's
//! log says of it.

use anyhow::Result;

use crate::ours::OURS;
use crate::support::told::Told;

/// Names that a report must not have: of the machine, of a user, of a task.
const HOST: &str = "secretbox";
const USER: &str = "secretuser";
const COMM: &str = "secrettask";

const SCRIPT: &str = "\
echo secretbox >/proc/sys/kernel/hostname
mkdir -p /home/secretuser
begin --procdb /home/secretuser/memory --profile gaming
start_hog secrettask
task=$!
usleep 200000
\"$SCHEDULER\" report >/tmp/report
fact code $?
tell line /tmp/report
\"$SCHEDULER\" report --no-names --output /tmp/nameless
fact code $?
tell nameless /tmp/nameless
kill -KILL $task
stop INT
\"$SCHEDULER\" report >/tmp/after
fact code $?
tell after /tmp/after
\"$SCHEDULER\" dmesg >/tmp/dmesg
fact dmesg_code $?
tell dmesg /tmp/dmesg
echo 1 >/proc/sys/kernel/dmesg_restrict
chmod 644 /dev/kmsg
su -s /bin/sh nobody -c \"$SCHEDULER dmesg\" >/tmp/nobody 2>&1
fact dmesg_code $?
tell nobody /tmp/nobody
";

/// What a report says while the scheduler runs. The shell makes one space of many.
const SAID: &[&str] = &[
    "state enabled",
    "--procdb /home/USER/memory --profile gaming",
    "sched_ext: BPF scheduler \"pandemonium",
    "\"profile\": \"gaming\"",
    "PID COMMAND",
    "kernel 6.",
];

fn check(told: &Told, key: &str, words: &[&str]) -> Result<String> {
    let lines: Vec<String> = told.all(key)?;
    let text = lines.join("\n");
    for word in words {
        told.check(text.contains(word), || {
            format!("{key} does not say {word:?}: {text}")
        })?;
    }
    for name in [HOST, USER] {
        told.check(!text.contains(name), || {
            format!("{key} names {name}: {text}")
        })?;
    }
    Ok(text)
}

invariant!(
    a_report_has_what_is_asked_for_first_and_no_names_of_users,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
        told.check_eq("exit codes", told.all::<i32>("code")?, vec![0, 0, 0])?;
        let report = check(&told, "line", SAID)?;
        told.check(report.contains(COMM), || {
            format!("no task {COMM}: {report}")
        })?;
        let nameless = check(&told, "nameless", SAID)?;
        told.check(!nameless.contains(COMM), || {
            format!("a task is named: {nameless}")
        })?;
        let none = "not known: no scx_pandemonium is running";
        check(&told, "after", &["state disabled", none])?;
        told.check_eq("dmesg", told.all::<i32>("dmesg_code")?, vec![0, 1])?;
        let enabled = "sched_ext: BPF scheduler \"pandemonium";
        let log = check(&told, "dmesg", &[enabled, "unregistered from user space"])?;
        told.check(log.lines().all(|line| line.starts_with('[')), || {
            log.clone()
        })?;
        check(
            &told,
            "nobody",
            &["scx_pandemonium: reading the kernel's log needs root"],
        )?;
        told.check_stops()
    }
);
