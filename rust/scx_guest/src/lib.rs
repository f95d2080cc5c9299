// SPDX-License-Identifier: GPL-2.0
//! Boots a sched_ext kernel in QEMU and runs programs in it.
//!
//! *How do I see what a scheduler does, on any machine, and see the same thing
//! again?* Boot a real kernel whose clock counts instructions. No root, no KVM
//! and no disk image are needed, and two runs with the same inputs give the
//! same output byte for byte.
//!
//! ```no_run
//! use scx_guest::{Guest, Kernel};
//!
//! # fn main() -> Result<(), scx_guest::Error> {
//! let kernel = Kernel::find(None)?;
//! let outcome = Guest::new(&kernel)
//!     .cpus(4)
//!     .seed(1)
//!     .program("target/release/some_program")
//!     .run("some_program --flag && cat /proc/loadavg", &mut |line| println!("{line}"))?;
//! assert_eq!(outcome.exit_code, 0);
//! # Ok(())
//! # }
//! ```
//!
//! 1. [`Kernel`] finds an image or fetches Debian's ([`debian`]).
//! 2. [`Guest`] collects programs, files, [`Topology`] and [`Clock`].
//! 3. [`Guest::run`] builds a root image in memory, starts QEMU, streams the
//!    console and returns an [`Outcome`], or an [`Error`] in one line.
//! 4. Where many runs begin alike, [`Guest::prepare`] does that once, and
//!    [`Prepared::run`] goes on from there.
//!
//! Nothing here knows any scheduler: what a guest runs is the caller's affair.
//!
//! # What deterministic means
//!
//! Virtual time is the number of instructions that all virtual CPUs executed
//! together, one nanosecond each. Latencies, context switches and instructions
//! per operation are exact and comparable. Throughput over CPU counts is not:
//! N busy CPUs each run at 1/N of the speed.
//!
//! # Caches
//!
//! An emulated CPU has no caches. [`Guest::caches`] lets each access go through a model
//! of some as well, without a difference for the guest, and [`Outcome::caches`] says what
//! it met there: in spans that a script begins and ends by `guest-count`, by CPU, for user
//! programs, the kernel and BPF programs apart. A run takes several times as long.
//!
//! # What is booted
//!
//! The kernel as it was built, entered without the code that unpacks it where it
//! allows that (CONFIG_PVH). Then two bytes of its start-up code are others: a CPU
//! that waits for a tenth of a second to calibrate its timer does not say PAUSE,
//! at which an emulated CPU gives way to each other one. That was half of a boot.

mod caches;
mod console;
mod error;
mod guest;
mod image;
mod initramfs;
mod kernel;
mod plugin;
mod prepared;
mod progress;
mod qemu;
mod qmp;
mod shell;
mod spans;
mod steady;
mod topology;

pub mod debian;

pub use caches::{CACHE_PRESETS, Caches, Level};
pub use error::{Error, Failure, Result};
pub use guest::{Clock, Guest, Outcome, describe_setup};
pub use initramfs::{find_program, has_applet};
pub use kernel::{
    HOST, Kernel, built_kernels_dir, default_cache_dir, published_dir, published_program,
    selftests_dir,
};
pub use prepared::Prepared;
pub use shell::quote;
pub use spans::{Address, ByKind, Counts, Kind, Line, Meeting, Site, Span};
pub use topology::{NR_CPUS_MAX, PRESETS, Topology};
