// SPDX-License-Identifier: GPL-2.0
//! Workloads that measure how CPU schedulers compare.
//!
//! A scheduler is known only by its command line, or not at all: a scenario
//! measures whatever schedules it, on real hardware or in a guest.
//!
//! - `scenario` says what runs and what is measured, `probe` and `load` are
//!   what it is made of, `tool` a program of another project.
//! - `session` is the timetable of one run; `clock` and `work` are its units.
//! - `result` is what a run found, `stats` what is computed from it.
//! - `run` runs scenarios here; `guest` in a guest (`boots`) and `host` on a real
//!   machine, under each scheduler of a list (`spec`, `peers`, `candidate`);
//!   `store` keeps exact results.
//! - `dataset` is everything that was measured; `compare` computes from it (`tolerance`
//!   is what may differ), `text`
//!   shows that as tables, `report` as a page, `prometheus` for machines (`output`
//!   is what a command writes); `gate` runs a `gate_plan` and holds it
//!   against a `baseline`.
//!
//! Three names to tell apart: `result` is of one boot, `table` prints a line or a
//! value on the terminal, `shared` is the memory that processes share. Committed
//! results go by a digest of these files, names included, so they stay.
//!
//! Not here: any scheduler's name. The published ones are data (`peers.json`).

pub mod baseline;
pub mod boots;
pub mod candidate;
pub mod cgroup;
pub mod clock;
pub mod compare;
pub mod cost;
pub mod dataset;
pub mod events;
pub mod gate;
pub mod gate_plan;
pub mod guest;
pub mod host;
pub mod interrupt;
mod last_words;
pub mod load;
pub mod output;
pub mod peers;
pub mod probe;
pub mod process;
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
pub mod store;
pub mod system;
pub mod table;
pub mod text;
pub mod thread;
pub mod token;
pub mod tolerance;
pub mod tool;
pub mod work;

#[cfg(test)]
mod testing;
