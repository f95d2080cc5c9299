// SPDX-License-Identifier: GPL-2.0
//! The kernel's grace periods end soon in a crowd: a task that is preempted in an RCU
//! reader holds up all of them, and does not wait behind the batch work of the machine.
//!
//! - `grace-periods SECONDS NR`: so many threads work, and look up a file by a long path
//!   now and then, which is a reader of RCU for the most part; a real-time thread waits
//!   for one grace period after the other. The answer: how many ended, and how long all of
//!   them took, in us.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::work::{join, set_real_time, spawn, work};

const NR_CPUS: u32 = 2;

/// All of them have had a turn by then.
const WARM_UP: Duration = Duration::from_secs(1);

/// CPU time between two looks for the file.
const BURST: Duration = Duration::from_micros(200);

/// Between two grace periods.
const PAUSE: Duration = Duration::from_millis(1);

/// `MEMBARRIER_CMD_GLOBAL`: returns after a grace period.
const MEMBARRIER_GLOBAL: libc::c_int = 1;

/// The directories of the path.
const DEPTH: usize = 60;

const SCRIPT: &str = "\
begin
fact grace $(agent grace-periods 4 200)
stop INT
";

/// What a grace period may take on average. With 100 tasks for each CPU the turn of one
/// comes after 200 ms, which is what it took when a reader waited for that. Now one waits
/// for 10 to 20 ms, several are served one after the other, 1 ms each, and the threads of
/// RCU take some ticks.
const GRACE_MEAN_MAX_US: u64 = 50_000;

/// The request of that name.
pub fn grace_periods(words: &[&str]) -> Result<String> {
    let [seconds, nr_threads] = words else {
        bail!("grace-periods SECONDS NR");
    };
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    let dir = format!("/tmp{}", "/d".repeat(DEPTH));
    fs::create_dir_all(&dir)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Result<Vec<_>> = (0..nr_threads.parse()?)
        .map(|_| {
            let (dir, is_over) = (dir.clone(), Arc::clone(&is_over));
            spawn("reader", move || {
                while !is_over.load(Ordering::Relaxed) {
                    work(BURST);
                    let _ = Path::new(&dir).exists();
                }
                Ok(())
            })
        })
        .collect();
    let readers = readers?;
    sleep(WARM_UP);
    let found = join(spawn("grace", move || wait_for_grace_periods(seconds))?);
    is_over.store(true, Ordering::Relaxed);
    readers.into_iter().try_for_each(join)?;
    let (nr, total) = found?;
    Ok(format!("{nr} {}", total.as_micros()))
}

/// How many ended in that time, and how long all of them took.
fn wait_for_grace_periods(seconds: Duration) -> Result<(u64, Duration)> {
    set_real_time(true)?;
    let began_at = Instant::now();
    let (mut nr, mut total) = (0, Duration::ZERO);
    while began_at.elapsed() < seconds {
        let asked_at = Instant::now();
        // SAFETY: a call without pointers.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) };
        let error = std::io::Error::last_os_error();
        ensure!(result == 0, "membarrier: {error}");
        total += asked_at.elapsed();
        nr += 1;
        sleep(PAUSE);
    }
    Ok((nr, total))
}

fn grace_periods_end_soon(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(SCRIPT)?;
    let line: String = told.one("grace")?;
    println!("grace periods, time of all in us: {line}");
    let (nr, total_us) = line.split_once(' ').context("not an answer")?;
    let (nr, total_us): (u64, u64) = (nr.parse()?, total_us.parse()?);
    let mean_us = total_us / nr.max(1);
    told.check(nr > 0 && mean_us <= GRACE_MEAN_MAX_US, || {
        format!("{nr} grace periods took {mean_us} us each")
    })?;
    told.check_stops()
}

figure!(
    no_grace_period_waits_for_batch_work,
    [lts, newest],
    grace_periods_end_soon
);
