// SPDX-License-Identifier: GPL-2.0
//! Workloads that measure how CPU schedulers compare.
//!
//! A scheduler is known only by its command line, or not at all: a scenario
//! measures whatever schedules it, on real hardware or in a guest.
//!
//! - What runs and is measured is a package of its own, `scx_scenarios`; its modules
//!   are to be found here as well.
//! - `run` runs scenarios here; `guest` in a guest (`boots`) and `host` on a real
//!   machine, under each scheduler of a list (`spec`, `peers`, `candidate`);
//!   `store` keeps exact results; `caches` counts in a guest with caches instead.
//! - `dataset` is everything that was measured; `compare` computes from it (`tolerance`
//!   is what may differ), `text`
//!   shows that as tables, `report` as a page, `prometheus` for machines (`output`
//!   is what a command writes); `gate` runs a `gate_plan` and holds it
//!   against a `baseline`, `scorecard` holds several kernels to the same `bounds`.
//! - `lines` measures no scheduler but the CPU: what a cache line costs. `cpu_list` reads
//!   the kernel's lists of CPUs.
//!
//! Not here: any scheduler's name. The published ones are data (`peers.json`).

pub use scx_scenarios::{
    cgroup, clock, cost, events, interrupt, load, probe, process, result, run, scenario, scheduler,
    session, shared, stats, system, table, thread, token, tool, work,
};

pub mod baseline;
pub mod boots;
pub mod bounds;
pub mod caches;
pub mod candidate;
pub mod compare;
pub(crate) mod cpu_list;
pub mod dataset;
pub mod gate;
pub mod gate_plan;
pub mod guest;
pub mod host;
pub mod lines;
pub mod output;
pub mod peers;
pub mod prometheus;
pub mod repeat;
pub mod report;
pub mod scorecard;
pub mod spec;
pub mod store;
pub mod text;
pub mod tolerance;

#[cfg(test)]
mod testing;
