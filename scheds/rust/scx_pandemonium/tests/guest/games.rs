// SPDX-License-Identifier: GPL-2.0
//! A game beside four hogs for each CPU has its frames, the hogs keep their
//! part, and a hog that sleeps a little gains nothing by that.

use anyhow::Result;
use scx_guest::Kernel;

use crate::share::{bench, metric};
use crate::support::kernels;
use crate::support::told::Told;

/// Of 60.
const FPS_MIN: f64 = 58.0;

/// What a frame takes with the machine to itself, in ms: that of threads that
/// work side by side, and that of one.
const FRAME_MT_MS: f64 = 7.1;
const FRAME_MS: f64 = 12.1;

/// Beside a build it may take a quarter longer and 1 ms.
const LONGER: f64 = 1.25;
const LONGER_MS: f64 = 1.0;

/// How long a hog may be without a CPU, in ms.
const GAP_MAX_MS: f64 = 20.0;

/// CPU time of hogs that sleep 1 ms in each 10 to that of honest ones.
const GAIN_MAX: f64 = 1.5;

fn check_game(told: &Told, scenario: &str, frame_ms: f64) -> Result<()> {
    let fps = metric(told, scenario, "fps")?;
    let p95_ms = metric(told, scenario, "frame_p95")?;
    let gap_ms = metric(told, scenario, "gap")?;
    told.check(fps >= FPS_MIN, || {
        format!("{scenario}: {fps} frames a second")
    })?;
    told.check(p95_ms <= frame_ms * LONGER + LONGER_MS, || {
        format!("{scenario}: frames take {p95_ms} ms (p95), alone {frame_ms}")
    })?;
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

#[test]
fn a_game_has_its_frames_beside_a_build() -> Result<()> {
    games(&kernels::first()?)
}

#[test]
fn a_game_has_its_frames_on_another_kernel() -> Result<()> {
    kernels::on_second(games)
}
