// SPDX-License-Identifier: GPL-2.0
//! No CPU is idle while a task waits: one that begins to wait without a wakeup
//! has an idle CPU woken for it.
//!
//! - `freed ROUNDS`: two hogs share CPU 0, all others are idle; then one of them
//!   may run anywhere. It is taken off its CPU when its slice ends. The answer:
//!   median and most time, in us, until it ran elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::kernels;
use crate::support::work::{join, set_affinity, spawn, work};

const ALL_CPUS: u64 = 0xf;

/// How long both share the CPU before one is freed.
const SHARED: Duration = Duration::from_millis(20);

/// For so long it is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// Until it runs elsewhere, in us. A hog has slices of 4 ms beside one other. It
/// leaves when its slice is over and the other one goes first: now and then it is
/// owed more, and has another slice before that.
const FREED_MAX_US: u64 = 9_000;

const SCRIPT: &str = "\
begin
fact freed $(agent freed 20)
stop INT
";

fn cpu() -> Result<i32> {
    // SAFETY: takes nothing and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    ensure!(cpu >= 0, "sched_getcpu failed");
    Ok(cpu)
}

/// The request of that name.
pub fn freed(words: &[&str]) -> Result<String> {
    let nr_rounds: usize = words.first().context("freed ROUNDS")?.parse()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let is_over_too = Arc::clone(&is_over);
    let hog = spawn("hog", move || {
        set_affinity(0, 1)?;
        while !is_over_too.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    })?;
    let freed = spawn("freed", move || {
        let mut waits_us = Vec::new();
        for _ in 0..nr_rounds {
            set_affinity(0, 1)?;
            work(SHARED / 2);
            set_affinity(0, ALL_CPUS)?;
            let freed_at = Instant::now();
            while cpu()? == 0 && freed_at.elapsed() < PATIENCE {
                std::hint::spin_loop();
            }
            waits_us.push(freed_at.elapsed().as_micros() as u64);
        }
        is_over.store(true, Ordering::Relaxed);
        Ok(waits_us)
    })?;
    let mut waits_us: Vec<u64> = join(freed)?;
    join(hog)?;
    waits_us.sort_unstable();
    let most = waits_us.last().context("no round")?;
    Ok(format!("{} {most}", waits_us[waits_us.len() / 2]))
}

fn kicks(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 4)?.run(SCRIPT)?;
    let freed: String = told.one("freed")?;
    println!("us until a freed hog ran elsewhere, median and most: {freed}");
    let most: u64 = freed.split(' ').nth(1).context("two numbers")?.parse()?;
    told.check(most <= FREED_MAX_US, || {
        format!("a CPU was idle for {most} us while a task waited")
    })?;
    told.check_stops()
}

#[test]
fn an_idle_cpu_is_woken_for_a_task_that_may_leave_another() -> Result<()> {
    kicks(&kernels::first()?)
}

#[test]
fn an_idle_cpu_is_woken_on_the_second_kernel() -> Result<()> {
    kernels::on_second(kicks)
}
