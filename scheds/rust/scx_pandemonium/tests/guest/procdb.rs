// SPDX-License-Identifier: GPL-2.0
//! A program that was seen before begins as what it was seen to be, after the
//! scheduler was started anew; what has the same names and is another program
//! does not.
//!
//! - `begin-hogs NAME`: a thread of that name makes processes that work for a
//!   moment and sleep. The answer: for each tier, source and tier of service how
//!   many of them have it, as `COUNT TIER SOURCE SERVED`, and their average
//!   runtime in us.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::{OURS, tasks_of};
use crate::rules::{NR_STARTERS, starters};
use crate::support::telemetry::Stats;
use crate::support::told::Told;
use crate::support::work::{fork, join, spawn, wait_for, work};

/// Processes of `begin-hogs`: more than the gate has tokens for.
const NR_HOGS: usize = 16;

/// What each of them works: less than what shows a hog by itself.
const FIRST_WORK: Duration = Duration::from_millis(4);

/// How long they stay to be looked at.
const STAY: Duration = Duration::from_secs(2);

/// What `begin-hogs` asks for.
pub fn begin_hogs(words: &[&str]) -> Result<String> {
    let [name] = words else {
        bail!("begin-hogs NAME");
    };
    let mut stats = Stats::connect()?;
    // The first answer takes longer.
    stats.ask("tasks")?;
    let parent = spawn(name, || {
        let live = || {
            work(FIRST_WORK);
            thread::sleep(STAY);
            Ok(())
        };
        (0..NR_HOGS).map(|_| fork(live)).collect::<Result<Vec<_>>>()
    })?;
    let pids = join(parent)?;
    thread::sleep(STAY / 2);
    let list = stats.ask("tasks")?;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for task in tasks_of(&list)? {
        if pids.iter().any(|pid| task["pid"] == *pid) {
            let text = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
            let kind = [text("tier"), text("hint"), text("served_tier")].join(" ");
            *kinds.entry(kind).or_default() += 1;
        }
    }
    for pid in pids {
        wait_for(pid)?;
    }
    let kinds = kinds.iter().map(|(kind, nr)| format!("{nr} {kind}"));
    Ok(kinds.collect::<Vec<_>>().join(", "))
}

/// The second run differs from the first in nothing but what is remembered. A game
/// under Wine is another program than the next one, though both run the same file;
/// so is a copy of a program, though all names are the same.
const SCRIPT: &str = r#"
OURS="$AGENT"
cp $(which "$OURS") /tmp/other
cp $(which "$OURS") /tmp/wine64-preloader
DB=/tmp/cache/procdb
# beside_hogs SECONDS: load every CPU for so long.
beside_hogs() {
	agent crowd $1 'hog*8' >/dev/null &
	crowd=$!
	usleep 500000
}
# run KEY: what becomes of a program's threads that sleep once, beside hogs, and
# of processes that a hog makes.
run() {
	beside_hogs 2
	agent stats-of-ms 1300 >/tmp/stats &
	stats=$!
	fact $1_same $(agent as game starts)
	wait $stats
	fact $1_stats "$(cat /tmp/stats)"
	wait $crowd || give_up 'the crowd failed'
	fact $1_hogs "$(agent as make begin-hogs job)"
}
# run_others KEY: the same of other programs that have some of its names.
run_others() {
	beside_hogs 3
	AGENT=/tmp/other
	fact $1_other $(agent as game starts)
	AGENT=/tmp/wine64-preloader
	fact $1_wine $(agent as 'Z:\games\Mine.exe' starts)
	fact $1_wine_other $(agent as 'Z:\games\Next.exe' starts)
	AGENT=$OURS
	wait $crowd || give_up 'the crowd failed'
}
crash() {
	kill -KILL $pid
	wait $pid
	until read -r state <$STATE && [ "$state" = disabled ]; do usleep 10000; done
}

begin --procdb $DB
agent as game lives starter 5 5000 500 >/dev/null &
lives=$!
agent as make lives job 5 0 0 >/dev/null &
lives="$lives $!"
AGENT=/tmp/wine64-preloader
agent as 'Z:\games\Mine.exe' lives starter 5 5000 500 >/dev/null &
lives="$lives $!"
AGENT=$OURS
wait $lives
stop INT
fact entries "$("$SCHEDULER" procdb show --file $DB | grep -c '^\*.*\(starter\|job\)')"
fact shown "$("$SCHEDULER" procdb show --file $DB | tr '\n' ';')"

begin --procdb $DB
run known
run_others known
fact clear_running $("$SCHEDULER" procdb clear --file $DB 2>/dev/null; echo $?)
# Nothing is written by one that is killed: the memory is that of before.
fact sum $(md5sum <$DB)
for i in 1 2; do
	crash
	fact sum $(md5sum <$DB)
	begin --procdb $DB
done
run still
stop INT
begin --no-procdb
run unknown
stop INT
fact clear "$("$SCHEDULER" procdb clear --file $DB)"
fact files $(ls /tmp/cache | wc -l)
"#;

/// Checks what became of threads of a program that `is_known`.
fn check_starters(told: &Told, key: &str, is_known: bool) -> Result<()> {
    let found = starters(told, key)?;
    let nr = NR_STARTERS as u64;
    if is_known {
        return told.check_eq(&format!("{key}: threads ahead"), found.nr_ahead, nr);
    }
    // Those of a stranger that go ahead have a token of the gate.
    told.check(found.nr_new_ahead <= nr / 2, || {
        format!("{key}: a stranger's threads went before batch work")
    })
}

/// How many of the processes that a hog made are of `kind`.
fn hogs(told: &Told, key: &str, kind: &str) -> Result<usize> {
    let line: String = told.one(key)?;
    println!("{key}: {line}");
    let counts = line.split(", ").filter_map(|part| part.split_once(' '));
    // Some of a kind may have a token of the gate, and be served by that.
    let counts = counts.filter(|(_, found)| found.starts_with(kind));
    counts
        .map(|(nr, _)| nr.parse::<usize>().context("no count"))
        .sum()
}

fn a_program_is_remembered(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 4)?.run(SCRIPT)?;
    println!("{}", told.one::<String>("shown")?.replace(';', "\n"));
    told.check_eq("entries that are known", told.one("entries")?, 3)?;
    for run in ["known", "still"] {
        check_starters(&told, &format!("{run}_same"), true)?;
        let nr = hogs(&told, &format!("{run}_hogs"), "batch memory batch")?;
        told.check_eq("jobs that began as batch work", nr, NR_HOGS)?;
        let stats: Value = told.one(&format!("{run}_stats"))?;
        let nr_known = stats["nr_procdb_known"].as_u64().unwrap_or(0);
        let nr_recalls = stats["nr_recalls"].as_u64().unwrap_or(0);
        println!("{run}: {nr_known} known, {nr_recalls} used");
        told.check(nr_known >= 3 && nr_recalls >= NR_STARTERS as u64, || {
            format!("{run}: {nr_known} known, {nr_recalls} used")
        })?;
    }
    check_starters(&told, "known_wine", true)?;
    for key in ["known_other", "known_wine_other", "unknown_same"] {
        check_starters(&told, key, false)?;
    }
    let nr = hogs(&told, "unknown_hogs", "interactive none")?;
    told.check_eq("jobs of which nothing is known", nr, NR_HOGS)?;
    let sums: Vec<String> = told.all("sum")?;
    told.check(
        sums.len() == 3 && sums.iter().all(|sum| *sum == sums[0]),
        || format!("the file changed by crashes: {sums:?}"),
    )?;
    told.check_eq("exit of a clear", told.one("clear_running")?, 1)?;
    let cleared: String = told.one("clear")?;
    ensure!(cleared.ends_with("deleted"), "{cleared}");
    told.check_eq("files that are left", told.one("files")?, 0)?;
    told.check_stops()
}

figure!(
    a_program_begins_as_what_it_was_seen_to_be,
    a_program_is_remembered
);
