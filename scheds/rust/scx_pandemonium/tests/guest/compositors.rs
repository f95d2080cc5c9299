// SPDX-License-Identifier: GPL-2.0
//! A compositor is known by its name and is not batch work whatever it does,
//! and another task of such a name gets no more than a fair share by it.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::ours::{OURS, tasks_of};
use crate::support::told::Told;

/// What the processes are called, and whether they are compositors in the end.
const PROCESSES: &[(&str, &str, bool)] = &[
    ("kwin_wayland", "kwin_wayland", true),
    ("compiler", "compiler", false),
    ("mine-at-home", "mine-at-home", true),
    ("a-long-name-of-", "a-long-name-of-", true),
    ("shell>sway", "sway", true),
    ("weston>editor", "editor", false),
];

/// Six processes of two threads use less than three CPUs.
const NAMES_SCRIPT: &str = "\
begin --compositor 'mine-*' --compositor a-long-name-of-mine
agent processes 2.4 $NAMES &
processes=$!
usleep 2100000
fact list \"$(\"$SCHEDULER\" tasks --json)\"
wait $processes || give_up 'the processes failed'
fact nr_notes $(grep -c 'a-long-name-of-mine: the kernel keeps 15 bytes' $LOG)
stop INT
";

figure!(a_compositor_is_known_by_its_name, |kernel| {
    let names: Vec<&str> = PROCESSES.iter().map(|(name, _, _)| *name).collect();
    let script = format!("NAMES='{}'\n{NAMES_SCRIPT}", names.join(" "));
    let told = OURS.flat(kernel, 4)?.run(&script)?;
    let list: Value = told.one("list")?;
    let tasks = tasks_of(&list)?;
    for (_, name, is_compositor) in PROCESSES {
        let main = tasks
            .iter()
            .find(|task| task["comm"] == *name && task["pid"] == task["tgid"])
            .with_context(|| format!("no process is called {name}"))?;
        let painter = tasks
            .iter()
            .find(|task| task["comm"] == "painter" && task["tgid"] == main["tgid"])
            .with_context(|| format!("{name} has no second thread"))?;
        println!("{main}\n{painter}");
        let expected = if *is_compositor {
            ("lat_critical", "interactive")
        } else {
            ("batch", "batch")
        };
        let found = (
            main["tier"].as_str().unwrap_or_default(),
            painter["tier"].as_str().unwrap_or_default(),
        );
        told.check_eq(&format!("tiers of {name}"), found, expected)?;
        let reason = if *is_compositor {
            "compositor"
        } else {
            "behaviour"
        };
        for task in [main, painter] {
            let what = format!("reason of the tier of {name}");
            told.check_eq(&what, &task["tier_by"], &reason.into())?;
        }
    }
    told.check_eq("notes about a long name", told.one("nr_notes")?, 1)?;
    told.check_stops()
});

const NR_CPUS: u32 = 4;
/// Two for each CPU.
const NR_HOGS: u32 = 2 * NR_CPUS;
const SECONDS: u32 = 3;

/// The same process beside the same hogs under two names.
///
/// The hogs' share is looked at first, then frames are drawn.
const RIVALS_SCRIPT: &str = "\
begin
for name in nobody kwin_wayland; do
	agent rivals $SECONDS $name $NR_HOGS >/tmp/rivals &
	rivals=$!
	usleep 1500000
	fact list_$name \"$(\"$SCHEDULER\" tasks --json)\"
	wait $rivals || give_up 'the rivals failed'
	fact $name $(cat /tmp/rivals)
	fact frames_$name $(agent frames $SECONDS $name $NR_HOGS)
done
stop INT
";

/// How much more than its fair share a rival may get, in percent: it sleeps a
/// little, so by rights it gets less.
const EXCESS_MAX_PCT: u64 = 10;

/// The longest time that a hog may be kept waiting, in ms. Ten tasks share four
/// CPUs in turns of some milliseconds.
const GAP_MAX_MS: u64 = 50;

/// The mean time of a frame of a compositor that stays within its share, in us.
/// It needs 36 ms of CPU time, which makes batch work of any other task.
const FRAME_MEAN_MAX_US: u64 = 40_000;

fn frame_mean_us(told: &Told, name: &str) -> Result<u64> {
    let [mean_us, longest_us] = told.numbers(&format!("frames_{name}"))?;
    println!("{name}: mean and longest time of a frame in us: {mean_us} {longest_us}");
    Ok(mean_us)
}

/// What became of a process beside hogs, times in ms.
struct Outcome {
    cpu_ms: u64,
    gap_max_ms: u64,
}

fn outcome(told: &Told, name: &str) -> Result<Outcome> {
    let numbers: [u64; 4] = told.numbers(name)?;
    println!("{name}: CPU, least and most of a hog, longest gap of a hog, in ms: {numbers:?}");
    let [cpu_ms, _, _, gap_max_ms] = numbers;
    Ok(Outcome { cpu_ms, gap_max_ms })
}

figure!(
    a_compositor_is_served_at_once_within_its_share_and_a_hog_of_its_name_gets_no_more,
    |kernel| {
        let script = format!("NR_HOGS={NR_HOGS}\nSECONDS={SECONDS}\n{RIVALS_SCRIPT}");
        let told = OURS.flat(kernel, NR_CPUS)?.run(&script)?;
        let fair_ms = u64::from(SECONDS * 1000 * NR_CPUS * 2 / (NR_HOGS + 2));
        println!("fair: {fair_ms} ms");
        for (name, tier) in [("nobody", "batch"), ("kwin_wayland", "lat_critical")] {
            let list: Value = told.one(&format!("list_{name}"))?;
            let tasks = tasks_of(&list)?;
            let main = tasks.iter().find(|task| task["comm"] == name);
            let main = main.with_context(|| format!("{name} is not listed"))?;
            println!("{main}");
            told.check_eq(name, main["tier"].as_str(), Some(tier))?;

            let outcome = outcome(&told, name)?;
            told.check(
                outcome.cpu_ms * 100 <= fair_ms * (100 + EXCESS_MAX_PCT),
                || format!("{name} got {} ms, fair are {fair_ms}", outcome.cpu_ms),
            )?;
            told.check(outcome.gap_max_ms <= GAP_MAX_MS, || {
                format!("a hog beside {name} waited {} ms", outcome.gap_max_ms)
            })?;
        }
        let others = frame_mean_us(&told, "nobody")?;
        let ours = frame_mean_us(&told, "kwin_wayland")?;
        told.check(ours <= FRAME_MEAN_MAX_US && ours < others, || {
            format!("frames of a compositor took {ours} us, those of another {others}")
        })?;
        told.check_stops()
    }
);
