// SPDX-License-Identifier: GPL-2.0
//! The scheduler in a real kernel: one boot for each promise that only a boot
//! can keep, one file for each kind of promise.
//!
//! A guest's clock counts instructions, so a run repeats to the byte; the message of
//! one that fails holds the command. Tests are of two kinds, see `support/trials.rs`:
//! `figure!` is judged over several draws, `invariant!` holds in each. What boots no guest
//! is a plain `#[test]`. Variables:
//!
//! - `SCX_GUEST_KERNEL`, `SCX_GUEST_KERNEL_2`, `SCX_GUEST_KERNELS`: images to boot,
//!   see `scx_guest::Kernel`. Tests of the oldest kernel are skipped without one.
//! - `SCX_GUEST_SEED`: shifts the phases of every run.
//! - `SCX_GUEST_DRAWS`: so many draws of a figure at most, instead of five.
//! - `SCX_PANDEMONIUM_BIN`: the program under test, such as one that was broken
//!   on purpose to see a test fail.
//! - `SCX_SOAK_SECONDS`: length of the soak by the guest's clock, see soak.rs.
//! - `SCX_RACES_SECONDS`, `SCX_RACES_TOPOLOGY`: length and machine of races.rs.
//! - `SCX_STARTS`: how often starts.rs starts and ends the scheduler.

#[macro_use]
mod support;

mod acceptance;
mod affinity;
mod agent;
mod attach;
mod check;
mod classes;
mod compositors;
mod constants;
mod counters;
mod desktop;
mod domains;
mod environments;
mod faults;
mod formats;
mod frequency;
mod games;
mod gate;
mod grace;
mod groups;
mod handoffs;
mod held;
mod hotplug;
mod idle;
mod input;
mod kicks;
mod loader;
mod locks;
mod near;
mod ours;
mod packing;
mod pairs;
mod probe;
mod procdb;
mod profiles;
mod races;
mod regimes;
mod repeat;
mod report;
mod requests;
mod rival;
mod roles;
mod rules;
mod sandbox;
mod scaling;
mod scarcity;
mod selftests;
mod service;
mod share;
mod soak;
mod stall;
mod starts;
mod stats;
mod stop;
mod surges;
mod tasks;
mod top;
mod victims;
mod waits;
mod yields;
