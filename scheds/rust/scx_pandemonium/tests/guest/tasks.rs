// SPDX-License-Identifier: GPL-2.0
//! `tasks` lists every task of the scheduler, and each is what it behaves like.

use std::cmp::Reverse;
use std::time::Duration;

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::{OURS, tasks_of};
use crate::roles::{FRESH_HOG_MAX, PAIR, ROLES};
use crate::support::told::Told;

/// CPUs enough that no role waits long for one: what they use is about four.
const NR_CPUS: u32 = 6;

/// Asked when the averages have settled; a terminal wakes seven times a second.
const SCRIPT: &str = "\
fact nobody_code $(\"$SCHEDULER\" tasks 2>/tmp/nobody; echo $?)
fact nobody $(cat /tmp/nobody)
fact nobody_lines $(wc -l </tmp/nobody)
begin
agent roles 3 &
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
hog=$(\"$SCHEDULER\" tasks --name hog | tail -n 1 | { read -r id _; echo $id; })
for what in '--name hog' '--name pair*' '--tier batch' \"--pid $hog\" '--sort pid' \
	'--sort run'; do
	fact selected \"$what:$(\"$SCHEDULER\" tasks --json $what)\"
done
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

/// How far an average may be off what a role does, in percent: it moves.
const AVERAGE_OFF_PCT: f64 = 15.0;

/// Slices of three roles in us: 1.5 times what a latency-critical one works, as much as
/// any gets above batch, and that of batch work.
const SLICES_US: [(&str, u64); 3] = [("audio", 1_050), ("game", 4_000), ("backup", 20_000)];

/// What is said of a role that sleeps is what it does.
fn check_averages(told: &Told, tasks: &[Value]) -> Result<()> {
    let mut wrong = Vec::new();
    for role in ROLES.iter().filter(|role| role.period_us > 0) {
        let task = find(told, tasks, role.name)?;
        for (key, expected) in [
            ("avg_runtime_ns", role.burst_us as f64 * 1e3),
            ("wake_rate_hz", 1e6 / role.period_us as f64),
        ] {
            let said = task[key].as_f64().with_context(|| format!("no {key}"))?;
            println!("{}: {key} {said:.0} of {expected:.0}", role.name);
            if (said - expected).abs() * 100.0 > expected * AVERAGE_OFF_PCT {
                wrong.push(format!("{}: {key} is {said}, not {expected}", role.name));
            }
        }
    }
    for (name, slice_us) in SLICES_US {
        let slice_ns = find(told, tasks, name)?["slice_ns"].as_f64();
        let slice_us = slice_us as f64;
        let said_us = slice_ns.context("no slice_ns")? / 1e3;
        println!("{name}: slice {said_us:.0} of {slice_us} us");
        if (said_us - slice_us).abs() * 100.0 > slice_us * AVERAGE_OFF_PCT {
            wrong.push(format!("{name}: a slice of {said_us} us, not {slice_us}"));
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

/// What each selection leaves is what it asks for, and not nothing.
fn check_selections(told: &Told) -> Result<()> {
    let lists: Vec<String> = told.all("selected")?;
    told.check_eq("selections", lists.len(), 6)?;
    for text in &lists {
        let (what, list) = text.split_once(':').context("no list")?;
        let list: Value = serde_json::from_str(list)?;
        let tasks = tasks_of(&list)?;
        let all = |is_right: &dyn Fn(&Value) -> bool| tasks.iter().all(is_right);
        let is_right = match what {
            "--name pair*" => {
                tasks.len() == PAIR.len()
                    && all(&|task| PAIR.iter().any(|name| task["comm"] == *name))
            }
            "--tier batch" => {
                all(&|task| task["tier"] == "batch")
                    && tasks.iter().any(|task| task["comm"] == "hog")
            }
            "--sort pid" => tasks.is_sorted_by_key(|task| task["pid"].as_i64()),
            "--sort run" => tasks.is_sorted_by_key(|task| Reverse(task["avg_runtime_ns"].as_u64())),
            _ => {
                let is_one = what == "--name hog" || what.starts_with("--pid ");
                is_one && tasks.len() == 1 && tasks[0]["comm"] == "hog"
            }
        };
        told.check(is_right && !tasks.is_empty(), || {
            format!("{what} lists {tasks:?}")
        })?;
    }
    Ok(())
}

/// A kernel thread that does nothing else says why it is interactive.
fn check_reasons(told: &Told, tasks: &[Value]) -> Result<()> {
    let hog = find(told, tasks, "hog")?;
    told.check_eq("reason of the hog", &hog["tier_by"], &"behaviour".into())?;
    let nr_kernel = tasks.iter().filter(|task| task["tier_by"] == "kernel");
    let nr_kernel = nr_kernel.count();
    println!("{nr_kernel} kernel threads by their being that");
    told.check(nr_kernel > 0, || {
        "no kernel thread is known as one".to_owned()
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
    check_averages(&told, tasks)?;
    check_order(&told, tasks)?;
    check_selections(&told)?;
    check_reasons(&told, tasks)?;
    check_fresh_hog(&told)?;
    told.check_stops()
}

figure!(every_task_is_what_it_behaves_like, lists);

/// Two hogs, in cgroups of which one has three times the weight of the other.
const GROUPS_SCRIPT: &str = "\
root=/sys/fs/cgroup
echo +cpu >$root/cgroup.subtree_control
begin
for weight in 100 300; do
	mkdir $root/g$weight
	echo $weight >$root/g$weight/cpu.weight
	sh -c \"echo \\$\\$ >$root/g$weight/cgroup.procs; exec guest-hog\" &
	fact hog_$weight $!
	hogs=\"${hogs:-} $!\"
done
usleep 700000
fact groups \"$(\"$SCHEDULER\" tasks --json --sort group)\"
kill $hogs
wait $hogs 2>/dev/null
stop INT
";

/// Of 4 parts beside each other they have 1 and 3, each beside an equal half: 50%
/// and 150% of their own weight. The more others run, which are in the root, the
/// nearer that comes to their weights beside these, 100% and 300%.
const LESSER_PCT: std::ops::RangeInclusive<f64> = 49.0..=95.0;
const GREATER_PCT: std::ops::RangeInclusive<f64> = 149.0..=285.0;

figure!(the_list_says_what_a_cgroup_makes_of_a_weight, |kernel| {
    let told = OURS.flat(kernel, 2)?.run(GROUPS_SCRIPT)?;
    let list: Value = told.one("groups")?;
    let tasks = tasks_of(&list)?;
    told.check(
        tasks.is_sorted_by(|a, b| a["group_pct"].as_f64() >= b["group_pct"].as_f64()),
        || format!("not in order: {tasks:?}"),
    )?;
    for (key, expected) in [("hog_100", LESSER_PCT), ("hog_300", GREATER_PCT)] {
        let pid: i64 = told.one(key)?;
        let hog = tasks.iter().find(|task| task["pid"] == pid);
        let hog = hog.with_context(|| format!("{key} is not listed"))?;
        println!("{key}: {hog}");
        let group_pct = hog["group_pct"].as_f64().unwrap_or_default();
        told.check(expected.contains(&group_pct), || {
            format!("{key} has {group_pct}% of its weight, not {expected:?}")
        })?;
        told.check_eq("boost of a hog", hog["boost_pct"].as_f64(), Some(100.0))?;
    }
    told.check_stops()
});
