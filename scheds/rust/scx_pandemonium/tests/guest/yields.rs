// SPDX-License-Identifier: GPL-2.0
//! A task that calls sched_yield() goes behind others that wait.
//!
//! - `hogs-and-yielders NR`: NR hogs beside NR tasks that yield all the time, for 2 s. The
//!   answer: CPU time of the hogs and of the others, in ms.
//! - `job-beside-yielders`: a job that works for 5 ms in each 16.7, beside a hog and two
//!   tasks that yield all the time, for 2 s. The answer: how many of its rounds were done
//!   later than the next began, and how many there were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::told::Told;
use crate::support::work::{cpu_time, hog, join, sleep_until, spawn, work};

const LENGTH: Duration = Duration::from_secs(2);
const JOB_PERIOD: Duration = Duration::from_micros(16_667);
const JOB_WORK: Duration = Duration::from_millis(5);

/// Of what hogs get under the kernel's default scheduler, as a part.
const HOGS_MIN: f64 = 0.8;

type CpuTime = JoinHandle<Result<Duration>>;

fn start_hog(is_over: &Arc<AtomicBool>) -> Result<CpuTime> {
    let is_over = Arc::clone(is_over);
    spawn("hog", move || {
        hog(&is_over);
        Ok(cpu_time())
    })
}

fn start_yielder(is_over: &Arc<AtomicBool>) -> Result<CpuTime> {
    let is_over = Arc::clone(is_over);
    spawn("yielder", move || {
        while !is_over.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Ok(cpu_time())
    })
}

fn sum_ms(tasks: Vec<CpuTime>) -> Result<u128> {
    let times = tasks.into_iter().map(join).collect::<Result<Vec<_>>>()?;
    Ok(times.iter().sum::<Duration>().as_millis())
}

/// The request of that name.
pub fn hogs_and_yielders(words: &[&str]) -> Result<String> {
    let [nr] = words else {
        bail!("hogs-and-yielders NR");
    };
    let nr: u32 = nr.parse()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let hogs = (0..nr).map(|_| start_hog(&is_over));
    let hogs = hogs.collect::<Result<Vec<_>>>()?;
    let yielders = (0..nr).map(|_| start_yielder(&is_over));
    let yielders = yielders.collect::<Result<Vec<_>>>()?;
    std::thread::sleep(LENGTH);
    is_over.store(true, Ordering::Relaxed);
    Ok(format!("{} {}", sum_ms(hogs)?, sum_ms(yielders)?))
}

/// The request of that name.
pub fn job_beside_yielders() -> Result<String> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = vec![start_hog(&is_over)?];
    for _ in 0..2 {
        others.push(start_yielder(&is_over)?);
    }
    let begun = Instant::now();
    let nr_rounds = (LENGTH.as_micros() / JOB_PERIOD.as_micros()) as u32;
    let mut nr_late = 0;
    for round in 0..nr_rounds {
        sleep_until(begun + JOB_PERIOD * round);
        work(JOB_WORK);
        nr_late += u32::from(Instant::now() > begun + JOB_PERIOD * (round + 1));
    }
    is_over.store(true, Ordering::Relaxed);
    sum_ms(others)?;
    Ok(format!("{nr_late} {nr_rounds}"))
}

/// The first number of what was told as `key`, under the default scheduler and ours.
fn first_numbers(told: &Told, key: &str) -> Result<(f64, f64)> {
    let all: Vec<String> = told.all(key)?;
    println!("{key}, default and ours: {all:?}");
    let numbers = all.iter().map(|text| {
        let first = text.split(' ').next().context("no number")?;
        Ok(first.parse::<f64>()?)
    });
    match numbers.collect::<Result<Vec<_>>>()?[..] {
        [default, ours] => Ok((default, ours)),
        _ => bail!("{key}: not told once for each scheduler"),
    }
}

fn yielders_let_others_go_first(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 4)?.run(
        "fact hogs $(agent hogs-and-yielders 4)\n\
         begin\n\
         fact hogs $(agent hogs-and-yielders 4)\n\
         stop INT\n",
    )?;
    let (default, ours) = first_numbers(&told, "hogs")?;
    told.check(ours >= HOGS_MIN * default, || {
        format!("hogs beside yielders got {ours} ms, by default {default}")
    })?;
    told.check_stops()
}

figure!(
    hogs_have_what_yielders_leave,
    [lts, oldest],
    yielders_let_others_go_first
);

figure!(
    a_job_beside_yielders_is_no_later_than_by_default,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(
            "fact late $(agent job-beside-yielders)\n\
         begin\n\
         fact late $(agent job-beside-yielders)\n\
         stop INT\n",
        )?;
        let (default, ours) = first_numbers(&told, "late")?;
        told.check(ours <= default, || {
            format!("{ours} rounds were late, by default {default}")
        })?;
        told.check_stops()
    }
);
