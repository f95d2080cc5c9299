// SPDX-License-Identifier: GPL-2.0
//! `--nr-cpus` scales what grows with the number of CPUs, and nothing else.

use anyhow::Context;
use serde_json::Value;

use crate::ours::OURS;

/// Two hogs for each of two CPUs, each time under a scheduler that takes these for
/// another number.
const SCRIPT: &str = "\
cpus=$(sed -n 's/^cpu\\([0-9]\\).*/\\1/p' /proc/stat | wc -l)
fact cpus $cpus
for scale in small plain large; do
	case $scale in
	small) begin --no-adaptive --nr-cpus 1 ;;
	plain) begin --no-adaptive ;;
	large) begin --no-adaptive --nr-cpus 64 ;;
	esac
	start_hogs 4
	usleep 500000
	fact $scale $(agent stats-of-ms 2000)
	kill $hogs
	wait $hogs 2>/dev/null
	stop INT
done
";

/// A turn of two who wait for two CPUs is half of the target; for one CPU it is a
/// third, for 64 nearly all of it.
const TURNS_RATIO_MIN: f64 = 1.3;

figure!(
    a_number_of_cpus_scales_turns_and_leaves_the_cpus,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
        let mut turns = Vec::new();
        for scale in ["small", "plain", "large"] {
            let found: Value = told.one(scale)?;
            let count = |name: &str| found[name].as_f64().context("a counter");
            let nr_turns = count("nr_slice_timer")?;
            println!(
                "{scale}: {nr_turns} turns ended, {} CPUs",
                count("nr_cpus")?
            );
            told.check_eq("CPUs in use", count("nr_cpus")?, told.one("cpus")?)?;
            turns.push(nr_turns);
        }
        for pair in turns.windows(2) {
            told.check(pair[0] >= pair[1] * TURNS_RATIO_MIN, || {
                format!("turns for fewer and for more CPUs: {turns:?}")
            })?;
        }
        told.check_stops()
    }
);
