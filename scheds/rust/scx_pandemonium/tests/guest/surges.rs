// SPDX-License-Identifier: GPL-2.0
//! A storm of new tasks is noticed and they have to show more than usual; a
//! machine that has little to do raises no alarm.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;

const SCRIPT: &str = "\
begin
sleep 1
fact calm $(agent stats-of-ms 1000)
fact young_in_calm $(agent young)
stress-ng -t 3 -f $NR_CPUS >/tmp/stress 2>&1 &
storm=$!
fact storm $(agent stats-of-ms 1000)
fact young_in_storm $(agent young)
wait $storm
sleep 1
fact young_afterwards $(agent young)
stop INT
";

fn notices(kernel: &Kernel) -> Result<()> {
    let told = OURS
        .flat(kernel, 4)?
        .with_program("stress-ng")?
        .run(SCRIPT)?;
    let count = |key: &str, name: &str| -> Result<u64> {
        let found: Value = told.one(key)?;
        let count = found[name].as_u64().context("a counter")?;
        println!("{key} {name}: {count}");
        Ok(count)
    };
    told.check_eq("surges in a calm second", count("calm", "nr_surges")?, 0)?;
    count("storm", "nr_placed")?;
    told.check_eq("surges in a storm", count("storm", "nr_surges")?, 1)?;

    for (key, expected) in [
        ("young_in_calm", "interactive"),
        ("young_in_storm", "batch"),
        ("young_afterwards", "interactive"),
    ] {
        let tiers: String = told.one(key)?;
        println!("{key}: {tiers}");
        let tiers: Vec<&str> = tiers.split_whitespace().collect();
        told.check(
            !tiers.is_empty() && tiers.iter().all(|tier| *tier == expected),
            || format!("{key}: served as {tiers:?}, not {expected}"),
        )?;
    }
    told.check_stops()
}

figure!(
    a_fork_storm_is_a_surge_and_what_woke_twice_in_it_is_batch,
    notices
);
