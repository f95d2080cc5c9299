// SPDX-License-Identifier: GPL-2.0
//! Batch work goes on where its data is: on the CPU where it was, unless that would
//! cost it its share.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;

/// What is counted, and what of it is a move.
const INTERVAL_MS: u32 = 500;

/// Moves for each preemption, at most, those of the brief tasks among them: 0.20 to 0.30 in
/// 12 draws, with one queue for all CPUs 0.6 to 0.8.
const MOVES_MAX: f64 = 0.4;

/// Two hogs for each CPU, and one task that wakes up and preempts them. Then one hog
/// for each CPU and one more: if none moves, two of them have half as much as the others.
const SCRIPT: &str = "\
begin
count() {
	agent crowd 1 $2 >/dev/null &
	load=$!
	usleep 300000
	fact $1 $(agent stats-of-ms $INTERVAL_MS)
	wait $load || give_up 'the load failed'
}
count even 'hog*8 worker*4'
count odd 'hog*5'
stop INT
";

fn moves(kernel: &Kernel) -> Result<()> {
    let script = format!("INTERVAL_MS={INTERVAL_MS}\n{SCRIPT}");
    let told = OURS.flat(kernel, 4)?.run(&script)?;
    let count = |load: &str, counter: &str| -> Result<f64> {
        let stats: Value = told.one(load)?;
        let count = stats[counter].as_f64();
        count.with_context(|| format!("no {counter} in {stats}"))
    };
    let preempted = count("even", "nr_preempted")?;
    let moved = count("even", "nr_migrate")?;
    let pulled = count("odd", "nr_serve_pulled")?;
    println!("{preempted} preempted, {moved} moved; {pulled} pulled of an odd number");
    told.check(preempted >= 200.0, || format!("{preempted} were preempted"))?;
    told.check(moved <= MOVES_MAX * preempted, || {
        format!("{moved} moves for {preempted} preemptions")
    })?;
    told.check(pulled >= 20.0, || format!("{pulled} were pulled"))?;
    told.check_stops()
}

figure!(batch_work_stays_on_its_cpu_within_its_share, moves);
