// SPDX-License-Identifier: GPL-2.0
//! Which CPU a latency-critical task takes that wakes where another one runs.
//!
//! - `latecomer ROUNDS PERIOD_US WORK_US`: in each period a task works for so long on CPU
//!   0, and 100 us after it began another wakes that ran there last, and may run anywhere.
//!   The answer: how many rounds that began on each CPU.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use scx_guest::Kernel;

use crate::idle::{ALL_CPUS, check_share, this_cpu};
use crate::ours::OURS;
use crate::support::work::{join, set_affinity, sleep_until, spawn, spin_until};

/// The period of the task that works first, and its work in each: so that it is latency
/// critical, and so that it is interactive. Out of step with the kernel's timers, whose
/// work would be there in each round else.
const LAT_CRITICAL: &str = "4100 500";
const INTERACTIVE: &str = "16100 6000";

const LATER: Duration = Duration::from_micros(100);
const LATER_WORK: Duration = Duration::from_micros(50);

/// The CPU of the first task, and the mask of it.
const FIRST: usize = 0;
const FIRST_CPU: u64 = 1 << FIRST;

/// Rounds in which both get to be known for what they are.
const NR_FIRST_ROUNDS: u32 = 20;

/// What the words after `latecomer` ask for.
pub fn latecomer(words: &[&str]) -> Result<String> {
    let [nr_rounds, period_us, work_us] = words else {
        bail!("latecomer ROUNDS PERIOD_US WORK_US");
    };
    let nr_rounds = NR_FIRST_ROUNDS + nr_rounds.parse::<u32>()?;
    let period = Duration::from_micros(period_us.parse()?);
    let work = Duration::from_micros(work_us.parse()?);
    let begun = Instant::now() + period;
    let first = spawn("first", move || {
        set_affinity(0, FIRST_CPU)?;
        for round in 0..nr_rounds {
            sleep_until(begun + period * round);
            spin_until(Instant::now() + work);
        }
        Ok(())
    })?;
    let latecomer = spawn("latecomer", move || {
        let mut rounds = [0u64; ALL_CPUS.count_ones() as usize];
        for round in 0..nr_rounds {
            set_affinity(0, ALL_CPUS)?;
            let due_at = begun + period * round + LATER;
            sleep_until(due_at);
            let late = due_at.elapsed();
            let cpu = this_cpu()?;
            if cpu == FIRST && round >= NR_FIRST_ROUNDS {
                eprintln!("round {round} began where the first task runs, {late:?} late");
            }
            rounds[cpu] += u64::from(round >= NR_FIRST_ROUNDS);
            spin_until(Instant::now() + LATER_WORK);
            set_affinity(0, FIRST_CPU)?;
            // That CPU is free again then.
            sleep_until(begun + period * round + period / 2);
        }
        Ok(rounds)
    })?;
    join(first)?;
    let rounds = join(latecomer)?.map(|nr| nr.to_string());
    Ok(rounds.join(" "))
}

/// Run it on `topology` beside a hog on each of the CPUs `hogs` and a task that works
/// `first`, the scheduler with `args`. It then is on CPUs `of`.
fn goes_to(
    kernel: &Kernel,
    topology: &str,
    args: &str,
    first: &str,
    hogs: &[u32],
    of: &[usize],
) -> Result<()> {
    let hogs: String = hogs
        .iter()
        .map(|cpu| format!("taskset {:x} guest-hog &\nhogs=\"$hogs $!\"\n", 1 << cpu))
        .collect();
    let told = OURS
        .world(kernel, topology)?
        .with_program("taskset")?
        .run(&format!(
            "begin {args}\nhogs=\n{hogs}fact rounds $(agent latecomer 100 {first})\nkill $hogs\nstop INT\n"
        ))?;
    check_share(&told, "rounds", of)?;
    told.check_stops()
}

// Two cores of two threads.
figure!(
    the_victim_is_not_on_a_core_that_serves_latency_critical_work,
    |kernel| goes_to(kernel, "1x1x2x2", "", LAT_CRITICAL, &[1, 2, 3], &[2, 3])
);

// Two CPUs, of which the last one of the task that wakes runs a frame.
figure!(the_victim_is_batch_work_wherever_it_runs, |kernel| goes_to(
    kernel,
    "1x1x2x1",
    "",
    INTERACTIVE,
    &[1],
    &[1]
));

// Two domains of one CPU.
figure!(a_victim_is_found_in_another_domain, |kernel| goes_to(
    kernel,
    "1x2x1x1",
    "",
    LAT_CRITICAL,
    &[1],
    &[1]
));

// Two domains of two CPUs; those of the other are idle.
figure!(
    no_latency_critical_task_waits_for_its_llc,
    |kernel| goes_to(
        kernel,
        "1x2x2x1",
        "--affinity strong",
        LAT_CRITICAL,
        &[1],
        &[2, 3]
    )
);
