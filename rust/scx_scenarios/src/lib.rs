// SPDX-License-Identifier: GPL-2.0
//! What runs while a CPU scheduler is measured.
//!
//! A scheduler is known only by its command line, or not at all: a scenario
//! measures whatever schedules it, on real hardware or in a guest.
//!
//! - `scenario` says what runs and what is measured, `probe` and `load` are
//!   what it is made of, `tool` a program of another project.
//! - `session` is the timetable of one run; `clock` and `work` are its units.
//! - `result` is what a run found, `stats` what is computed from it.
//! - `run` runs scenarios here, under the scheduler that is active or one that
//!   `scheduler` starts.
//!
//! Three names to tell apart: `result` is of one boot, `table` prints a line or a
//! value on the terminal, `shared` is the memory that processes share.
//!
//! Committed results of `scx_bench` go by a digest of these files, by the packages
//! and by the compiler ([`SOURCES`], [`PACKAGES`], [`BUILD`]).
//!
//! Not here: what judges results (`scx_bench`).

pub mod cgroup;
pub mod clock;
pub mod cost;
pub mod events;
pub mod interrupt;
mod last_words;
pub mod load;
pub mod probe;
pub mod process;
pub mod result;
pub mod run;
pub mod scenario;
pub mod scheduler;
pub mod session;
pub mod shared;
pub mod stats;
pub mod system;
pub mod table;
pub mod thread;
pub mod token;
pub mod tool;
pub mod work;

/// Digest of the sources of this package, in hex.
pub const SOURCES: &str = env!("SCX_SCENARIOS_SOURCES");

/// Digest of the packages that this one depends on, as `Cargo.lock` has them, in hex;
/// words without one.
pub const PACKAGES: &str = env!("SCX_SCENARIOS_PACKAGES");

/// The profile and the compiler that this package was built with, in words.
pub const BUILD: &str = env!("SCX_SCENARIOS_BUILD");
