// SPDX-License-Identifier: GPL-2.0
//! Workloads that measure how CPU schedulers compare.
//!
//! A scheduler is known only by its command line, or not at all: a scenario
//! measures whatever schedules it, on real hardware or in a guest.
//!
//! - `scenario` says what runs and what is measured, `probe` and `load` are
//!   what it is made of, `tool` a program of somebody else's.
//! - `session` is the timetable of one run; `clock` and `work` are its units.
//! - `result` is what a run found, `stats` what is computed from it.
//! - `run` runs scenarios here; `guest` in a guest (`boots`) and `host` on a real
//!   machine, under each scheduler of a list (`spec`, `peers`); `cache` keeps
//!   exact results here, `kept` for everybody, made small by `compact`.
//! - `dataset` is everything that was measured; `compare` shows it as text,
//!   `report` as a page, `prometheus` for machines (`output` is what a command
//!   writes); `gate` holds it against a `baseline`.

pub mod baseline;
pub mod boots;
pub mod cache;
pub mod clock;
pub mod compact;
pub mod compare;
pub mod cost;
pub mod dataset;
pub mod events;
pub mod gate;
pub mod guest;
pub mod host;
pub mod interrupt;
pub mod kept;
mod last_words;
pub mod load;
pub mod output;
pub mod peers;
pub mod probe;
pub mod prometheus;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod scheduler;
pub mod session;
pub mod shared;
pub mod spec;
pub mod stats;
pub mod system;
pub mod table;
pub mod thread;
pub mod token;
pub mod tool;
pub mod work;

#[cfg(test)]
mod testing;
