// SPDX-License-Identifier: GPL-2.0
//! A task that a waker hands its CPU to does not wait for a waker that goes on.
//!
//! - `goes-on ROUNDS NICE WORK_US HOGS`: in each round a task of that nice level
//!   sleeps 20 times, as one does that a CPU is taken over from, works for
//!   WORK_US, writes into a pipe and works for another 30 ms; with `fifo` for a
//!   nice level it does these as real-time work. The answer: median and most time,
//!   in us, from the write until the reader ran. So many hogs run beside them.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::work::{hog, join, set_nice, set_real_time, spawn, work};

/// What makes the waker known as one that soon sleeps.
const NR_SLEEPS: u32 = 20;
const SLEEP: Duration = Duration::from_millis(1);

/// How long it goes on all the same.
const GOES_ON: Duration = Duration::from_millis(30);

/// Rounds that do not count: a reader that just came is served as batch work.
const NR_FIRST_ROUNDS: usize = 3;

/// The longest time that the reader may wait, in us.
const WAIT_MAX_US: u64 = 1_000;

/// What is tried: name, nice level of the waker, its CPU time before the wakeup in
/// us, hogs beside it.
const CASES: [(&str, &str, u32, u32); 5] = [
    ("idle", "0", 0, 0),
    ("niced", "5", 0, 0),
    ("worked", "0", 5_000, 0),
    ("beside_hogs", "0", 0, 2),
    ("real_time", "fifo", 0, 0),
];

/// The request of that name.
pub fn goes_on(words: &[&str]) -> Result<String> {
    let [nr_rounds, nice, work_us, nr_hogs] = words else {
        bail!("goes-on ROUNDS NICE WORK_US HOGS");
    };
    let nr_rounds = NR_FIRST_ROUNDS + nr_rounds.parse::<usize>().context("rounds")?;
    let is_real_time = *nice == "fifo";
    let nice: i32 = match is_real_time {
        true => 0,
        false => nice.parse().context("nice")?,
    };
    let burst = Duration::from_micros(work_us.parse().context("us")?);
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut ear, mut mouth) = std::io::pipe().context("making a pipe")?;
    let begun = Instant::now();

    let mut hogs = Vec::new();
    for _ in 0..nr_hogs.parse::<u32>().context("hogs")? {
        let is_over = Arc::clone(&is_over);
        hogs.push(spawn("hog", move || {
            hog(&is_over);
            Ok(())
        })?);
    }
    let reader = spawn("reader", move || {
        let mut waits_us: Vec<u64> = Vec::new();
        let mut sent_ns = [0; 8];
        while waits_us.len() < nr_rounds {
            ear.read_exact(&mut sent_ns)?;
            let sent_at = Duration::from_nanos(u64::from_ne_bytes(sent_ns));
            waits_us.push((begun.elapsed() - sent_at).as_micros() as u64);
        }
        Ok(waits_us)
    })?;
    let writer = spawn("writer", move || {
        set_nice(nice)?;
        for _ in 0..nr_rounds {
            for _ in 0..NR_SLEEPS {
                sleep(SLEEP);
            }
            set_real_time(is_real_time)?;
            work(burst);
            mouth.write_all(&(begun.elapsed().as_nanos() as u64).to_ne_bytes())?;
            work(GOES_ON);
            set_real_time(false)?;
        }
        Ok(())
    })?;

    join(writer)?;
    let mut waits_us: Vec<u64> = join(reader)?.split_off(NR_FIRST_ROUNDS);
    is_over.store(true, Ordering::Relaxed);
    hogs.into_iter().try_for_each(join)?;
    waits_us.sort_unstable();
    let most = waits_us.last().context("no round")?;
    Ok(format!("{} {most}", waits_us[waits_us.len() / 2]))
}

fn waits(kernel: &Kernel) -> Result<()> {
    let mut script = String::from("begin\n");
    for (name, nice, work_us, nr_hogs) in CASES {
        script += &format!("fact {name} $(agent goes-on 4 {nice} {work_us} {nr_hogs})\n");
    }
    let told = OURS.flat(kernel, 2)?.run(&(script + "stop INT\n"))?;
    let mut most_us = Vec::new();
    for (name, ..) in CASES {
        let [median, most] = told.numbers(name)?;
        println!("{name}: the reader waits, median and most in us: {median} {most}");
        most_us.push((name, most));
    }
    for (name, most_us) in most_us {
        told.check(most_us <= WAIT_MAX_US, || {
            format!("{name}: a task waited {most_us} us behind a waker that goes on")
        })?;
    }
    told.check_stops()
}

figure!(
    a_wakee_does_not_wait_for_a_waker_that_goes_on,
    [lts, oldest, newest],
    waits
);
