// SPDX-License-Identifier: GPL-2.0
//! What a scheduler's callbacks cost, counted by the kernel.
//!
//! With `kernel.bpf_stats_enabled` the kernel counts calls of every BPF
//! program and the time in them. In the deterministic guest a nanosecond is an
//! instruction, so the time of a callback is its length, kernel helpers that
//! it calls included, as long as no other CPU is busy: they share the clock,
//! and on average a callback among N busy CPUs seems N times as long. Counting
//! costs some itself, so it is asked for and never mixed with figures that
//! were measured without.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

const STATS_SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

const BPF_PROG_GET_NEXT_ID: libc::c_int = 11;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
/// Type of the programs behind a sched_ext scheduler's callbacks.
const BPF_PROG_TYPE_STRUCT_OPS: u32 = 27;

/// Length of `struct bpf_prog_info` up to `run_cnt`, in words of 8 bytes; the
/// kernel fills as much as it is given room for.
const INFO_WORDS: usize = 26;
/// Words of that structure that hold what is read here.
const INFO_NAME: usize = 8;
const INFO_RUN_TIME: usize = 24;
const INFO_RUN_CNT: usize = 25;

/// One callback, over some time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// Name of the program, cut by the kernel after 15 characters.
    pub name: String,
    /// Times it was called.
    pub calls: u64,
    /// Time in it, in nanoseconds: instructions in the deterministic guest.
    pub time_ns: u64,
}

/// Calls and time of every callback since it was loaded, by name.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    by_name: BTreeMap<String, (u64, u64)>,
}

/// Have the kernel count from now on.
pub fn enable() -> Result<()> {
    fs::write(STATS_SWITCH, "1").with_context(|| format!("writing {STATS_SWITCH}"))
}

impl Counters {
    /// Read them now.
    pub fn read() -> Result<Self> {
        let mut counters = Self::default();
        let mut id = 0;
        while let Some(next) = next_program(id)? {
            id = next;
            // It may have been unloaded in between.
            let Ok(info) = program_info(id) else { continue };
            if info[0] as u32 != BPF_PROG_TYPE_STRUCT_OPS {
                continue;
            }
            let sum = counters.by_name.entry(name_of(&info)).or_default();
            sum.0 += info[INFO_RUN_CNT];
            sum.1 += info[INFO_RUN_TIME];
        }
        Ok(counters)
    }

    /// What was called between `earlier` and `self`, most time first.
    pub fn since(&self, earlier: &Self) -> Vec<Callback> {
        let mut callbacks: Vec<Callback> = self
            .by_name
            .iter()
            .map(|(name, &(calls, time_ns))| {
                let (before, before_ns) = earlier.by_name.get(name).copied().unwrap_or_default();
                Callback {
                    name: name.clone(),
                    calls: calls.saturating_sub(before),
                    time_ns: time_ns.saturating_sub(before_ns),
                }
            })
            .filter(|callback| callback.calls > 0)
            .collect();
        callbacks.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
        callbacks
    }
}

fn name_of(info: &[u64; INFO_WORDS]) -> String {
    let bytes: Vec<u8> = info[INFO_NAME..INFO_NAME + 2]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first program above `id`; `None` after the last.
fn next_program(id: u32) -> Result<Option<u32>> {
    let mut attr = [id, 0, 0, 0];
    match bpf(BPF_PROG_GET_NEXT_ID, &mut attr) {
        Ok(_) => Ok(Some(attr[1])),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error).context("listing BPF programs"),
    }
}

fn program_info(id: u32) -> io::Result<[u64; INFO_WORDS]> {
    let fd = bpf(BPF_PROG_GET_FD_BY_ID, &mut [id, 0, 0, 0])?;
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = [0u64; INFO_WORDS];
    let address = info.as_mut_ptr() as u64;
    let (low, high) = (address as u32, (address >> 32) as u32);
    let mut attr = [fd.as_raw_fd() as u32, size_of_val(&info) as u32, low, high];
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info)
}

/// The system call with the first 16 bytes of its argument; the kernel takes
/// the rest as zero. `attr` holds pointers in two little-endian halves.
fn bpf(command: libc::c_int, attr: &mut [u32; 4]) -> io::Result<i32> {
    // SAFETY: `attr` is valid for reading and writing for its whole size, and
    // a pointer in it is one to a live buffer of the length given beside it.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(rc as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(entries: &[(&str, u64, u64)]) -> Counters {
        let by_name = entries
            .iter()
            .map(|&(name, calls, ns)| (name.to_string(), (calls, ns)))
            .collect();
        Counters { by_name }
    }

    #[test]
    fn differences_are_sorted_by_time_and_leave_out_what_was_not_called() {
        let before = counters(&[("enqueue", 10, 1_000), ("init", 1, 50)]);
        let after = counters(&[
            ("enqueue", 30, 5_000),
            ("init", 1, 50),
            ("select", 5, 9_000),
        ]);
        let callbacks = after.since(&before);
        let shown: Vec<(&str, u64, u64)> = callbacks
            .iter()
            .map(|c| (c.name.as_str(), c.calls, c.time_ns))
            .collect();
        assert_eq!(shown, [("select", 5, 9_000), ("enqueue", 20, 4_000)]);
    }

    #[test]
    fn a_name_ends_at_its_zero_or_after_16_bytes() {
        let mut info = [0u64; INFO_WORDS];
        info[INFO_NAME] = u64::from_ne_bytes(*b"enqueue\0");
        assert_eq!(name_of(&info), "enqueue");
    }
}
