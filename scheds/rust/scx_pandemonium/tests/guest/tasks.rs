// SPDX-License-Identifier: GPL-2.0
//! `tasks` lists every task of the scheduler, and each is what it behaves like.

use std::time::Duration;

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::{OURS, tasks_of};
use crate::roles::{FRESH_HOG_MAX, PAIR, ROLES};
use crate::support::kernels;
use crate::support::told::Told;

/// CPUs enough that no role waits long for one: what they use is about four.
const NR_CPUS: u32 = 6;

/// Asked when the averages have settled; a terminal wakes seven times a second.
const SCRIPT: &str = "\
fact nobody_code $(\"$SCHEDULER\" tasks 2>/tmp/nobody; echo $?)
fact nobody $(cat /tmp/nobody)
fact nobody_lines $(wc -l </tmp/nobody)
begin
agent roles 2.2 &
roles=$!
usleep 1500000
fact list \"$(\"$SCHEDULER\" tasks --json)\"
\"$SCHEDULER\" tasks >/tmp/table
fact table_code $?
\"$SCHEDULER\" tasks --watch 0.1 --json >/tmp/watch &
watch=$!
{ \"$SCHEDULER\" tasks --watch 0.1; echo $? >/tmp/closed; } | head -n 1 >/dev/null
usleep 200000
kill $watch
wait $watch 2>/dev/null
fact watch_lines $(wc -l </tmp/watch)
fact closed_code $(cat /tmp/closed)
wait $roles || give_up 'the roles failed'
while IFS= read -r line; do
	fact table \"$line\"
done </tmp/table
agent fresh-hog >/tmp/hog || give_up 'the hog failed'
while read -r line; do
	fact hog $line
done </tmp/hog
stop INT
";

/// Tiers from the lowest up.
const TIERS: &[&str] = &["batch", "interactive", "lat_critical"];

/// How late, in CPU time of the fresh hog, the second look may be: a look takes
/// some milliseconds.
const LOOK_MAX: Duration = Duration::from_millis(5);

fn rank(told: &Told, tier: &str) -> Result<usize> {
    let rank = TIERS.iter().position(|name| *name == tier);
    told.check(rank.is_some(), || format!("no such tier: {tier}"))?;
    Ok(rank.unwrap_or_default())
}

/// The task called `name`, of which there is one.
fn find<'a>(told: &Told, tasks: &'a [Value], name: &str) -> Result<&'a Value> {
    let mut found = tasks.iter().filter(|task| task["comm"] == name);
    let task = found.next();
    told.check(task.is_some() && found.next().is_none(), || {
        format!("not exactly one task is called {name}")
    })?;
    task.context("no task")
}

/// Each role has a tier that it may have.
fn check_roles(told: &Told, tasks: &[Value]) -> Result<()> {
    let pair = PAIR.map(|name| (name, ("lat_critical", "lat_critical")));
    let roles = ROLES.iter().map(|role| (role.name, role.tiers));
    let mut wrong = Vec::new();
    for (name, (low, high)) in roles.chain(pair) {
        let task = find(told, tasks, name)?;
        println!("{task}");
        let tier = task["tier"].as_str().context("a task without a tier")?;
        let range = rank(told, low)?..=rank(told, high)?;
        if !range.contains(&rank(told, tier)?) {
            wrong.push(format!("{name} is {tier}, not {low}..{high}"));
        }
    }
    told.check(wrong.is_empty(), || wrong.join("; "))
}

/// The list is in order, and the table shows the same.
fn check_order(told: &Told, tasks: &[Value]) -> Result<()> {
    let mut before = (usize::MAX, u64::MAX);
    for task in tasks {
        let tier = rank(told, task["tier"].as_str().unwrap_or_default())?;
        let score = task["score"].as_u64().context("a task without a score")?;
        told.check((tier, score) <= before, || {
            format!("{task} stands below what is less critical")
        })?;
        before = (tier, score);
    }
    told.check_eq("exit code of the table", told.one("table_code")?, 0)?;
    let table: Vec<String> = told.all("table")?;
    for line in &table {
        println!("{line}");
    }
    // Some tasks come and go between the two.
    let nr_rows = table.len() - 1;
    told.check(nr_rows.abs_diff(tasks.len()) <= tasks.len() / 4, || {
        format!("the table has {nr_rows} rows, the list {}", tasks.len())
    })
}

/// A task that only works is batch work in time, and is not at once.
fn check_fresh_hog(told: &Told) -> Result<()> {
    let looks: Vec<String> = told.all("hog")?;
    told.check_eq("looks", looks.len(), 2)?;
    for (look, expected) in looks.iter().zip(["interactive", "batch"]) {
        println!("fresh hog: {look}");
        let (cpu_us, tier) = look.split_once(' ').context("not a look")?;
        told.check(tier == expected, || {
            format!("a hog is {tier} after {cpu_us} us")
        })?;
        let cpu = Duration::from_micros(cpu_us.parse()?);
        told.check(cpu <= FRESH_HOG_MAX + LOOK_MAX, || {
            format!("the look was late: {cpu_us} us")
        })?;
    }
    Ok(())
}

fn lists(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(SCRIPT)?;
    told.check_eq("exit code without a scheduler", told.one("nobody_code")?, 1)?;
    told.check_eq("lines without a scheduler", told.one("nobody_lines")?, 1)?;
    let nobody: String = told.one("nobody")?;
    told.check(nobody.contains("no scx_pandemonium is running"), || {
        format!("without a scheduler it says: {nobody}")
    })?;

    let nr_watched: u64 = told.one("watch_lines")?;
    told.check(nr_watched >= 2, || {
        format!("{nr_watched} lists were watched")
    })?;
    told.check_eq(
        "exit code once the reader has gone",
        told.one("closed_code")?,
        0,
    )?;

    let list: Value = told.one("list")?;
    let tasks = tasks_of(&list)?;
    check_roles(&told, tasks)?;
    check_order(&told, tasks)?;
    check_fresh_hog(&told)?;
    told.check_stops()
}

#[test]
fn every_task_is_what_it_behaves_like() -> Result<()> {
    lists(&kernels::first()?)
}

#[test]
fn every_task_is_what_it_behaves_like_on_the_second_kernel() -> Result<()> {
    kernels::on_second(lists)
}
