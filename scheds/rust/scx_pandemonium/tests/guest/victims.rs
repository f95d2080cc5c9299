// SPDX-License-Identifier: GPL-2.0
//! Which CPU a latency-critical task takes that wakes where another one runs.
//!
//! - `latecomer ROUNDS`: every 4 ms a task works for 500 us on CPU 0, and 100 us after it
//!   began another wakes that ran there last, and may run anywhere. The answer: how many
//!   rounds that began on each CPU.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::idle::{ALL_CPUS, check_share, this_cpu};
use crate::ours::OURS;
use crate::support::kernels;
use crate::support::work::{join, set_affinity, sleep_until, spawn, spin_until};

const PERIOD: Duration = Duration::from_millis(4);
const FIRST_WORK: Duration = Duration::from_micros(500);
const LATER: Duration = Duration::from_micros(100);
const LATER_WORK: Duration = Duration::from_micros(50);

/// When CPU 0 is free again for the one that came later.
const GOES_BACK: Duration = Duration::from_millis(2);

const FIRST_CPU: u64 = 1;

/// Rounds in which both get to be known for what they are.
const NR_FIRST_ROUNDS: u32 = 20;

/// What the word after `latecomer` asks for.
pub fn latecomer(words: &[&str]) -> Result<String> {
    let [nr_rounds] = words else {
        bail!("latecomer ROUNDS");
    };
    let nr_rounds = NR_FIRST_ROUNDS + nr_rounds.parse::<u32>()?;
    let begun = Instant::now() + PERIOD;
    let first = spawn("first", move || {
        set_affinity(0, FIRST_CPU)?;
        for round in 0..nr_rounds {
            sleep_until(begun + PERIOD * round);
            spin_until(Instant::now() + FIRST_WORK);
        }
        Ok(())
    })?;
    let latecomer = spawn("latecomer", move || {
        let mut rounds = [0u64; ALL_CPUS.count_ones() as usize];
        for round in 0..nr_rounds {
            set_affinity(0, ALL_CPUS)?;
            sleep_until(begun + PERIOD * round + LATER);
            let cpu = this_cpu()?;
            rounds[cpu] += u64::from(round >= NR_FIRST_ROUNDS);
            spin_until(Instant::now() + LATER_WORK);
            set_affinity(0, FIRST_CPU)?;
            sleep_until(begun + PERIOD * round + GOES_BACK);
        }
        Ok(rounds)
    })?;
    join(first)?;
    let rounds = join(latecomer)?.map(|nr| nr.to_string());
    Ok(rounds.join(" "))
}

/// Run it on `topology` beside a hog on each of the CPUs `hogs`, the scheduler with
/// `args`. It then is on CPUs `of`.
fn goes_to(topology: &str, args: &str, hogs: &[u32], of: &[usize]) -> Result<()> {
    let hogs: String = hogs
        .iter()
        .map(|cpu| format!("taskset {:x} guest-hog &\nhogs=\"$hogs $!\"\n", 1 << cpu))
        .collect();
    let told = OURS
        .world(&kernels::first()?, topology)?
        .with_program("taskset")?
        .run(&format!(
            "begin {args}\nhogs=\n{hogs}fact rounds $(agent latecomer 100)\nkill $hogs\nstop INT\n"
        ))?;
    check_share(&told, "rounds", of)?;
    told.check_stops()
}

/// Two cores of two threads.
#[test]
fn the_victim_is_not_on_a_core_that_serves_latency_critical_work() -> Result<()> {
    goes_to("1x1x2x2", "", &[1, 2, 3], &[2, 3])
}

/// Two domains of one CPU.
#[test]
fn a_victim_is_found_in_another_domain() -> Result<()> {
    goes_to("1x2x1x1", "", &[1], &[1])
}

/// Two domains of two CPUs; those of the other are idle.
#[test]
fn no_latency_critical_task_waits_for_its_llc() -> Result<()> {
    goes_to("1x2x2x1", "--affinity strong", &[1], &[2, 3])
}
