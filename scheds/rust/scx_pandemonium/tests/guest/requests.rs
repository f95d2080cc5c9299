// SPDX-License-Identifier: GPL-2.0
//! A task of brief bursts goes before tasks whose bursts are much longer, whatever
//! the tiers of both.
//!
//! - `brief-among-long CPUS PHASE`: a hog for every second CPU, a thread for each that
//!   works for 8 ms and sleeps for 4, and one that works for 0.2 ms every 4 ms, which
//!   begins PHASE steps later. The answer: the p99 and the longest of its waits, in us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::work::{hog, join, sleep_until, spawn, work};

const LONG_WORK: Duration = Duration::from_millis(8);
const LONG_SLEEP: Duration = Duration::from_millis(4);
const BRIEF_WORK: Duration = Duration::from_micros(200);
const BRIEF_PERIOD: Duration = Duration::from_millis(4);

/// A tenth of what the long ones take from one wakeup to the next.
const PHASE_STEP: Duration = Duration::from_micros(1200);
const NR_PHASES: u32 = 10;

/// Until all are known for what they are.
const WARM_UP: Duration = Duration::from_millis(300);
const NR_WAKEUPS: u32 = 200;

/// The p99 of the waits in each phase, in us.
const P99_MAX_US: u64 = 200;

/// The same with eight CPUs: the interrupt of the timer and the one to the CPU that makes
/// room each wait up to 100 us (p99) there for the turns of the other emulated CPUs.
const P99_MAX_OF_8_US: u64 = 400;

/// The request of that name.
pub fn brief_among_long(words: &[&str]) -> Result<String> {
    let [nr_cpus, phase] = words else {
        bail!("brief-among-long CPUS PHASE");
    };
    let (nr_cpus, phase): (u32, u32) = (nr_cpus.parse()?, phase.parse()?);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = Vec::new();
    for _ in 0..nr_cpus / 2 {
        let is_over = Arc::clone(&is_over);
        others.push(spawn("hog", move || {
            hog(&is_over);
            Ok(())
        })?);
    }
    for _ in 0..nr_cpus {
        let is_over = Arc::clone(&is_over);
        others.push(spawn("long", move || {
            while !is_over.load(Ordering::Relaxed) {
                work(LONG_WORK);
                std::thread::sleep(LONG_SLEEP);
            }
            Ok(())
        })?);
    }
    let begins_at = Instant::now() + PHASE_STEP * phase;
    let nr_first = (WARM_UP.as_micros() / BRIEF_PERIOD.as_micros()) as u32;
    let mut waits_us = Vec::new();
    for round in 0..nr_first + NR_WAKEUPS {
        let wakes_at = begins_at + BRIEF_PERIOD * round;
        if wakes_at < Instant::now() {
            continue;
        }
        sleep_until(wakes_at);
        if round >= nr_first {
            waits_us.push(wakes_at.elapsed().as_micros() as u64);
        }
        work(BRIEF_WORK);
    }
    is_over.store(true, Ordering::Relaxed);
    others.into_iter().try_for_each(join)?;
    waits_us.sort_unstable();
    let (Some(most), nr) = (waits_us.last(), waits_us.len()) else {
        bail!("it never slept");
    };
    Ok(format!("{} {most} {nr}", waits_us[(nr - 1) * 99 / 100]))
}

fn brief_goes_before_long(kernel: &Kernel, nr_cpus: u32, p99_max_us: u64) -> Result<()> {
    let told = OURS.flat(kernel, nr_cpus)?.run(&format!(
        "begin\n\
         for phase in $(seq 0 {}); do\n\
         \tfact waits $(agent brief-among-long $NR_CPUS $phase)\n\
         done\n\
         stop INT\n",
        NR_PHASES - 1
    ))?;
    let phases: Vec<String> = told.all("waits")?;
    println!("{nr_cpus} CPUs, p99 and most in us, wakeups: {phases:?}");
    told.check_eq("phases", phases.len(), NR_PHASES as usize)?;
    for waits in &phases {
        let p99_us: u64 = waits.split(' ').next().unwrap_or_default().parse()?;
        told.check(p99_us <= p99_max_us, || {
            format!("bursts of 0.2 ms waited {p99_us} us (p99) for bursts of 8 ms")
        })?;
    }
    told.check_stops()
}

figure!(brief_bursts_go_before_long_ones_on_2_cpus, |kernel| {
    brief_goes_before_long(kernel, 2, P99_MAX_US)
});

figure!(brief_bursts_go_before_long_ones_on_4_cpus, |kernel| {
    brief_goes_before_long(kernel, 4, P99_MAX_US)
});

figure!(brief_bursts_go_before_long_ones_on_8_cpus, |kernel| {
    brief_goes_before_long(kernel, 8, P99_MAX_OF_8_US)
});
