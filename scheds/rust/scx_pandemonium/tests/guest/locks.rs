// SPDX-License-Identifier: GPL-2.0
//! A mutex that a game shares with batch work makes no frame late.
//!
//! - `shared-mutex HOGS`: a thread of 180 frames at 60 Hz, which needs a mutex for part
//!   of each, a hog that holds it half of the time, and HOGS others. The answer: how
//!   many frames were done after their time, and the longest, in us.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::work::{hog, join, sleep_until, spawn, work};

/// Until all are known for what they are.
const WARM_UP: Duration = Duration::from_millis(500);

const REFRESH: Duration = Duration::from_micros(16_667);
const NR_FRAMES: u32 = 180;

/// What a frame takes of a CPU without the mutex, and with it.
const FRAME_WORK: Duration = Duration::from_millis(3);
const FRAME_HOLD: Duration = Duration::from_micros(500);

/// How long the hog goes without the mutex, and holds it.
const HOG_WORK: Duration = Duration::from_millis(1);
const HOG_HOLD: Duration = Duration::from_millis(1);

const NR_CPUS: u32 = 4;
const NR_HOGS: u32 = 4 * NR_CPUS;

/// The request of that name.
pub fn shared_mutex(words: &[&str]) -> Result<String> {
    let [nr_hogs] = words else {
        bail!("shared-mutex HOGS");
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let mutex = Arc::new(Mutex::new(()));
    let hold = |mutex: &Mutex<()>, amount| {
        let _held = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        work(amount);
    };
    let mut others = Vec::new();
    for _ in 0..nr_hogs.parse()? {
        let is_over = Arc::clone(&is_over);
        others.push(spawn("hog", move || {
            hog(&is_over);
            Ok(())
        })?);
    }
    {
        let (is_over, mutex) = (Arc::clone(&is_over), Arc::clone(&mutex));
        others.push(spawn("holder", move || {
            while !is_over.load(Ordering::Relaxed) {
                work(HOG_WORK);
                hold(&mutex, HOG_HOLD);
            }
            Ok(())
        })?);
    }
    let starts_at = Instant::now() + WARM_UP;
    let (mut nr_late, mut longest) = (0, Duration::ZERO);
    let mut refresh_at = Instant::now();
    let mut nr_drawn = 0;
    while nr_drawn < NR_FRAMES {
        sleep_until(refresh_at);
        work(FRAME_WORK);
        hold(&mutex, FRAME_HOLD);
        let took = refresh_at.elapsed();
        if refresh_at >= starts_at {
            nr_drawn += 1;
            nr_late += u32::from(took > REFRESH);
            longest = longest.max(took);
        }
        while refresh_at <= Instant::now() {
            refresh_at += REFRESH;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    others.into_iter().try_for_each(join)?;
    Ok(format!("{nr_late} {}", longest.as_micros()))
}

fn no_frame_is_late(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(&format!(
        "fact default $(agent shared-mutex {NR_HOGS})\n\
         begin\n\
         fact ours $(agent shared-mutex {NR_HOGS})\n\
         stop INT\n"
    ))?;
    for who in ["default", "ours"] {
        let frames: String = told.one(who)?;
        println!("{who}, late of {NR_FRAMES} frames, longest in us: {frames}");
    }
    let late = |who| -> Result<u32> {
        let frames: String = told.one(who)?;
        Ok(frames.split(' ').next().unwrap_or_default().parse()?)
    };
    let (by_default, by_ours) = (late("default")?, late("ours")?);
    told.check(by_default > NR_FRAMES / 4, || {
        format!("by default {by_default} frames were late, which makes this no test")
    })?;
    told.check(by_ours == 0, || {
        format!("{by_ours} frames were late for a mutex that a hog held")
    })?;
    told.check_stops()
}

figure!(
    no_frame_is_late_for_a_mutex_that_a_hog_shares,
    [lts, oldest, newest],
    no_frame_is_late
);
