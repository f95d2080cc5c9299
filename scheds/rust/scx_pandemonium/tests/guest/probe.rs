// SPDX-License-Identifier: GPL-2.0
//! `scx_pandemonium probe` measures whichever scheduler runs, with and without
//! permission, and says so when that changes meanwhile.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::ours::OURS;
use crate::support::told::Told;

const NR_CPUS: u32 = 2;
const NR_JOBS: u64 = 6;

/// Half of the wakeups that are due in 3 s: 1500, 1000 and 180.
const NR_SAMPLES_MIN: [(&str, f64); 3] = [("timer", 750.0), ("message", 500.0), ("frame", 90.0)];

/// The kernel's own scheduler as a user, with a count of the jobs; then ours beside
/// it; a change meanwhile; a reader that leaves.
const SCRIPT: &str = "\
su -s /bin/sh nobody -c \"$SCHEDULER probe --seconds 3 --load 6 --save /tmp/default.json\" \\
	>/tmp/out 2>/tmp/err &
measures=$!
sleep 1.5
fact jobs $(grep -l '^probe-job$' /proc/[0-9]*/comm | wc -l)
wait $measures
fact code $?
fact error $(cat /tmp/err)
fact drawn $(grep -c '#' /tmp/out)
begin
\"$SCHEDULER\" probe --seconds 3 --load 6 --against /tmp/default.json --save /tmp/ours.json \\
	>/tmp/out 2>/tmp/err
fact code $?
tell drawing /tmp/out
fact headings $(grep -c '^[AB]: ' /tmp/out)
\"$SCHEDULER\" probe --seconds 1 | head -n 1 >/dev/null
\"$SCHEDULER\" probe --seconds 5 >/tmp/out 2>/tmp/err &
measures=$!
sleep 1
stop INT
wait $measures
fact code $?
fact error $(cat /tmp/err)
fact run $(cat /tmp/default.json)
fact run $(cat /tmp/ours.json)
";

figure!(a_probe_tells_two_schedulers_apart, |kernel| {
    let told = OURS.flat(kernel, NR_CPUS)?.run(SCRIPT)?;
    told.check_eq("exit codes", told.all::<i32>("code")?, vec![0, 0, 1])?;
    // A job that has ended or is about to be one is not there.
    let nr_jobs: u64 = told.one("jobs")?;
    told.check((NR_JOBS - 2..=NR_JOBS).contains(&nr_jobs), || {
        format!("{nr_jobs} jobs run")
    })?;
    told.check_eq("headings", told.one("headings")?, 2)?;
    let errors: Vec<String> = told.all("error")?;
    told.check(errors[1].contains("has changed from pandemonium_6"), || {
        errors[1].clone()
    })?;
    let runs: Vec<Value> = told.all("run")?;
    let [default, ours] = &runs[..] else {
        bail!("{} runs", runs.len());
    };
    println!("{default}\n{ours}");
    told.check_eq("the first", default["scheduler"].as_str(), Some("default"))?;
    let name = ours["scheduler"].as_str().unwrap_or_default();
    told.check(name.starts_with("pandemonium_6"), || name.to_owned())?;
    for line in told.all::<String>("drawing")? {
        println!("{line}");
    }
    for run in &runs {
        told.check_eq("jobs told", run["nr_jobs"].as_u64(), Some(NR_JOBS))?;
    }
    compare(&told, default, ours)
});

/// A figure of one kind of task.
fn figure(run: &Value, kind: &str, figure: &str) -> Result<f64> {
    let kinds = run["waits"].as_array().context("no waits")?;
    let waits = kinds.iter().find(|waits| waits["name"] == kind);
    let figure = waits.and_then(|waits| waits[figure].as_f64());
    figure.with_context(|| format!("no {kind}"))
}

fn compare(told: &Told, default: &Value, ours: &Value) -> Result<()> {
    for run in [default, ours] {
        for (kind, nr_samples_min) in NR_SAMPLES_MIN {
            let nr_samples = figure(run, kind, "nr_samples")?;
            told.check(nr_samples >= nr_samples_min, || {
                format!("{kind} slept {nr_samples} times: {run}")
            })?;
        }
    }
    // Turns of a few ms in which a frame waits for the jobs, several times; ours
    // serves it first.
    for (run, (least_us, most_us)) in [(default, (4000.0, 40_000.0)), (ours, (0.0, 1000.0))] {
        let frame_us = figure(run, "frame", "p50_us")?;
        told.check((least_us..most_us).contains(&frame_us), || {
            format!("half of the frames waited {frame_us} us: {run}")
        })?;
    }
    let [default_us, ours_us] = [default, ours].map(|run| figure(run, "timer", "p99_us"));
    let (default_us, ours_us) = (default_us?, ours_us?);
    told.check(ours_us * 5.0 < default_us, || {
        format!("p99 of the timer: {ours_us} us, default {default_us} us")
    })?;
    told.check_stops()
}
