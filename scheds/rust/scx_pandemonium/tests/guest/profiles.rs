// SPDX-License-Identifier: GPL-2.0
//! Profiles: what `--profile` says at the start, what `profile` changes while the
//! scheduler runs, and that it makes a difference.
//!
//! - `unprivileged PROGRAM ARGS`: runs that as a user without privileges. The
//!   answer: its exit code, and what it wrote to standard error.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::told::Told;

/// A user that has no privileges.
const USER_ID: u32 = 1000;

/// What the words after `unprivileged` ask for.
pub fn unprivileged(words: &[&str]) -> Result<String> {
    let [program, args @ ..] = words else {
        bail!("unprivileged PROGRAM ARGS");
    };
    let output = Command::new(program).args(args).uid(USER_ID).output();
    let output = output.with_context(|| format!("running {program}"))?;
    let code = output.status.code().context("killed by a signal")?;
    let why = String::from_utf8(output.stderr)?;
    Ok(format!("{code} {}", why.trim()))
}

/// The shell is the hog, two for each CPU. The umask is the worst there is.
const SCRIPT: &str = "\
# tell_run KEY COMMAND: its exit code and what it wrote.
tell_run() {
	key=$1
	shift
	\"$@\" >/tmp/said 2>&1
	fact $key $? $(cat /tmp/said)
}
# begin_to_answer ARGS: as begin, but the stats server is there as well.
begin_to_answer() {
	begin \"$@\"
	for i in $(seq 100); do
		\"$SCHEDULER\" profile >/dev/null 2>&1 && return
		usleep 20000
	done
}
tell_run nobody \"$SCHEDULER\" profile gaming
umask 0
begin_to_answer --profile server
tell_run at_start \"$SCHEDULER\" profile
start_hogs $((2 * NR_CPUS))
usleep 200000
fact metrics \"$(agent stats-of-ms 1000)\"
tell_run changed \"$SCHEDULER\" profile lowlatency
usleep 50000
fact metrics \"$(agent stats-of-ms 1000)\"
kill $hogs
tell_run unknown \"$SCHEDULER\" profile fast
fact unprivileged $(agent unprivileged \"$SCHEDULER\" profile gaming)
tell_run at_end \"$SCHEDULER\" profile
stop INT
for profile in auto gaming powersave; do
	begin_to_answer --profile $profile
	tell_run began \"$SCHEDULER\" profile
	stop INT
done
";

/// By how many times a turn of `server` is longer than one of `lowlatency` at
/// least. Two hogs of a CPU get 12 and 2 ms each.
const TURN_RATIO_MIN: u64 = 4;

/// Checks what a command ended with and that it said this.
fn check_run(told: &Told, key: &str, code: i32, says: &str) -> Result<()> {
    let run: String = told.one(key)?;
    println!("{key}: {run}");
    told.check(
        run.starts_with(&format!("{code} ")) && run.contains(says),
        || format!("{key}: {run:?}, not {code} and {says:?}"),
    )
}

fn changes(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
    check_run(&told, "nobody", 1, "no scx_pandemonium is running")?;
    check_run(&told, "at_start", 0, "server")?;
    check_run(&told, "changed", 0, "lowlatency")?;
    check_run(&told, "unknown", 2, "powersave")?;
    check_run(&told, "unprivileged", 1, "needs root")?;
    check_run(&told, "at_end", 0, "lowlatency")?;
    let began: Vec<String> = told.all("began")?;
    told.check_eq(
        "profiles",
        began,
        ["0 auto", "0 gaming", "0 powersave"]
            .map(str::to_owned)
            .into(),
    )?;

    let metrics: Vec<Value> = told.all("metrics")?;
    let mut nr_turns = Vec::new();
    for (metrics, profile) in metrics.iter().zip(["server", "lowlatency"]) {
        told.check(metrics["profile"] == profile, || {
            format!("the telemetry says {}, not {profile}", metrics["profile"])
        })?;
        let nr = metrics["nr_serve_batch"].as_u64().context("no count")?;
        println!("{profile}: {nr} turns of hogs in a second");
        nr_turns.push(nr);
    }
    told.check_eq("intervals", nr_turns.len(), 2)?;
    told.check(nr_turns[1] >= nr_turns[0] * TURN_RATIO_MIN, || {
        format!("turns of hogs in a second, with server and lowlatency: {nr_turns:?}")
    })?;
    told.check_stops()
}

figure!(a_profile_is_changed_while_the_scheduler_runs, changes);

#[test]
fn the_table_of_knobs_is_printed_without_a_scheduler() -> Result<()> {
    let output = Command::new(OURS.program()).arg("--help-knobs").output()?;
    ensure!(output.status.success(), "{}", output.status);
    let table = String::from_utf8(output.stdout)?;
    for word in ["latency_target_ns", "lowlatency", "--affinity"] {
        ensure!(table.contains(word), "{word} is not in it:\n{table}");
    }
    Ok(())
}
