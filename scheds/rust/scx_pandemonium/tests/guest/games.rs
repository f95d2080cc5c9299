// SPDX-License-Identifier: GPL-2.0
//! A game beside four hogs for each CPU has its frames, the hogs keep their
//! part, and a hog that sleeps a little gains nothing by that. A game that was
//! late is on time again once it may be, also beside sixteen hogs for each CPU,
//! and with frames of 20 ms beside four.
//!
//! - `late-game RATE WORK HOGS`: a thread that works for so many ms in each of so
//!   many frames a second, beside hogs that have nice -20 at first and 0 then.
//!   The answer: frames that it drew in the last second with nice -20, and in the
//!   last 2 s with nice 0.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::share::{bench, metric};
use crate::support::told::Told;
use crate::support::work::{join, set_nice, sleep_until, spawn, spin_until, work};

/// Of 60.
const FPS_MIN: f64 = 58.0;

/// What a frame takes with the machine to itself, in ms: that of threads that
/// work side by side, and that of one.
const FRAME_MT_MS: f64 = 7.1;
const FRAME_MS: f64 = 12.1;

/// Beside a build it may take a quarter longer and 1 ms.
const LONGER: f64 = 1.25;
const LONGER_MS: f64 = 1.0;

/// How long a hog may be without a CPU, in ms: nobody sees a compiler wait for that.
const GAP_MAX_MS: f64 = 25.0;

/// CPU time of hogs that sleep 1 ms in each 10 to that of honest ones.
const GAIN_MAX: f64 = 1.5;

/// How long hogs keep it from being on time, and how long it may be so then.
const LATE: Duration = Duration::from_secs(3);
const FREE: Duration = Duration::from_secs(4);

/// What the words after `late-game` ask for.
pub fn late_game(words: &[&str]) -> Result<String> {
    let [rate_hz, work_ms, nr_hogs] = words else {
        bail!("late-game RATE WORK HOGS");
    };
    let rate_hz: u32 = rate_hz.parse().context("rate")?;
    let frame_work = Duration::from_millis(work_ms.parse().context("work")?);
    let refresh = Duration::from_secs(1) / rate_hz;
    let nr_hogs: usize = nr_hogs.parse().context("hogs")?;
    let started_at = Instant::now();
    let (free_at, ends_at) = (started_at + LATE, started_at + LATE + FREE);
    let hogs = (0..nr_hogs)
        .map(|_| {
            spawn("hog", move || {
                set_nice(-20)?;
                spin_until(free_at);
                set_nice(0)?;
                spin_until(ends_at);
                Ok(())
            })
        })
        .collect::<Result<Vec<_>>>()?;

    let (mut nr_late, mut nr_free) = (0, 0);
    let mut refresh_at = started_at;
    while refresh_at < ends_at {
        sleep_until(refresh_at);
        work(frame_work);
        let now = Instant::now();
        nr_late += u32::from(now + Duration::from_secs(1) >= free_at && now < free_at);
        nr_free += u32::from(now + Duration::from_secs(2) >= ends_at && now < ends_at);
        while refresh_at <= now {
            refresh_at += refresh;
        }
    }
    hogs.into_iter().try_for_each(join)?;
    Ok(format!("{nr_late} {nr_free}"))
}

fn check_frames(told: &Told, scenario: &str, frame_ms: f64) -> Result<()> {
    let fps = metric(told, scenario, "fps")?;
    let p95_ms = metric(told, scenario, "frame_p95")?;
    told.check(fps >= FPS_MIN, || {
        format!("{scenario}: {fps} frames a second")
    })?;
    told.check(p95_ms <= frame_ms * LONGER + LONGER_MS, || {
        format!("{scenario}: frames take {p95_ms} ms (p95), alone {frame_ms}")
    })
}

fn check_game(told: &Told, scenario: &str, frame_ms: f64) -> Result<()> {
    check_frames(told, scenario, frame_ms)?;
    let gap_ms = metric(told, scenario, "gap")?;
    told.check(gap_ms <= GAP_MAX_MS, || {
        format!("{scenario}: a hog was without a CPU for {gap_ms} ms")
    })
}

fn games(kernel: &Kernel) -> Result<()> {
    let told = bench(kernel, "1x1x4x1", "", "game_mt,game,cheat")?;
    check_game(&told, "game_mt", FRAME_MT_MS)?;
    check_game(&told, "game", FRAME_MS)?;
    let gain = metric(&told, "cheat", "gain")?;
    told.check(gain <= GAIN_MAX, || {
        format!("a hog that sleeps 1 ms in each 10 gained by a factor of {gain}")
    })?;
    told.check_stops()
}

figure!(a_game_has_its_frames_beside_a_build, games);

// The fewest CPUs that the threads of a game share with a build. With cgroups the game
// is due half of the machine.
figure!(
    a_game_has_its_frames_on_2_cpus_with_and_without_cgroups,
    |kernel| {
        let told = bench(
            kernel,
            "1x1x2x1",
            "",
            "game_mt,game_mt_cg,game_cg,frames60_12ms",
        )?;
        check_game(&told, "game_mt", FRAME_MT_MS)?;
        check_frames(&told, "game_mt_cg", FRAME_MT_MS)?;
        check_frames(&told, "game_cg", FRAME_MS)?;
        check_frames(&told, "frames60_12ms", FRAME_MS)?;
        told.check_stops()
    }
);

figure!(a_game_that_was_late_is_on_time_again, |kernel| {
    let told = OURS.flat(kernel, 4)?.run(
        "begin\n\
         fact many-hogs $(agent late-game 60 12 64)\n\
         fact long-frames $(agent late-game 30 20 16)\n\
         stop INT\n",
    )?;
    for (game, rate_hz) in [("many-hogs", 60.0), ("long-frames", 30.0)] {
        let frames: String = told.one(game)?;
        println!("{game}: {frames} frames");
        let counts: Vec<f64> = frames
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [late, free] = counts[..] else {
            bail!("{game}: {frames:?} is not two numbers");
        };
        told.check(late < rate_hz / 2.0, || {
            format!("{game}: {late} frames in a second: it was not late at all")
        })?;
        told.check(free / 2.0 >= rate_hz * FPS_MIN / 60.0, || {
            format!("{game}: {free} frames in 2 s: it stays late")
        })?;
    }
    told.check_stops()
});
