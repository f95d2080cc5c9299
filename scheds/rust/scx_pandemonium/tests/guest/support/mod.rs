// SPDX-License-Identifier: GPL-2.0
//! The kit of which tests of a sched_ext scheduler in a guest are made.
//!
//! A test boots a kernel with the scheduler and the test program in it, runs a
//! shell script there, and checks what the script told. Nothing here knows which
//! scheduler that is: a [`world::Subject`] says what its program is. To use the
//! kit for another scheduler, copy this directory to `tests/guest/support/` of
//! its crate, add the dev-dependencies `anyhow`, `libbpf-rs`, `libc`,
//! `scx_guest`, `scx_stats` and `serde_json`, and write `tests/guest/main.rs`:
//!
//! ```ignore
//! // Tests need not use all of the kit.
//! #[allow(dead_code)]
//! #[macro_use]
//! mod support;
//!
//! use support::world::Subject;
//!
//! const SUBJECT: Subject = Subject {
//!     program: env!("CARGO_BIN_EXE_scx_example"),
//!     program_env: "SCX_EXAMPLE_BIN",
//!     scratch_dir: env!("CARGO_TARGET_TMPDIR"),
//!     stop_max_ms: 500,
//! };
//!
//! mod agent {
//!     // What the guest runs, under this name; other requests may be added.
//!     #[test]
//!     fn in_a_guest() -> std::process::ExitCode {
//!         crate::support::agent::main(|_words| None)
//!     }
//! }
//!
//! figure!(no_task_is_left_behind, [lts, newest], |kernel| {
//!     let told = SUBJECT
//!         .flat(kernel, 4)?
//!         .run("begin --an-option\nload 3\nstop INT\n")?;
//!     told.check_load(1000)?;
//!     told.check_stops()
//! });
//! ```
//!
//! 1. `prelude.sh`: the words of a script: `begin` and `stop` the scheduler,
//!    `fact` to tell something, `load`, `crowd`, `agent` to ask the test program.
//! 2. `trials`: what kind of promise a test keeps, and on which [`kernels`]; [`world`]
//!    boots the machine, [`draws`] how often, before a figure is said not to hold.
//! 3. [`told`]: what the script told, and checks of it. A failure says how to
//!    repeat the very same run from a shell.
//! 4. [`agent`]: the test program as a program of the guest, with [`load`] and
//!    [`crowd`] made of [`work`], [`build`], what make and a compiler are given,
//!    [`telemetry`] of an scx_stats server, [`trace`] of the kernel to compare that
//!    with, and [`idle_waits`], how long tasks wait while a CPU is idle.
//!
//! # Limits
//!
//! The telemetry requests need a scheduler with an scx_stats server; what does
//! without them runs with any. A guest runs one instruction after the other, so
//! there are no races of two CPUs within one instruction, but for a world that is
//! `in_parallel()`, whose times say nothing; and there are no caches.

use std::env;
use std::fmt::Display;
use std::io::Write;
use std::str::FromStr;
use std::thread;

use anyhow::{Error, Result};

#[macro_use]
pub mod trials;

pub mod agent;
pub mod build;
pub mod crowd;
pub mod draws;
pub mod idle_waits;
pub mod kernels;
pub mod load;
pub mod telemetry;
pub mod told;
pub mod trace;
pub mod work;
pub mod world;

/// The number that environment variable `name` says, or `default` if it is not set.
pub fn number_of_env<T>(name: &str, default: T) -> Result<T>
where
    T: FromStr,
    T::Err: Display,
{
    match env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|err| Error::msg(format!("{name}={text}: {err}"))),
        Err(_) => Ok(default),
    }
}

/// Say that this test does not test anything here, and `why`.
///
/// The line is shown though the test passes: the harness hides what a macro
/// prints, not what is written to a stream.
pub fn skip(why: &str) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("a test");
    let line = format!("skipped: {name}: {why}\n");
    // In one piece, since other tests write as well. A stream that is closed has
    // no reader to miss the line.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
