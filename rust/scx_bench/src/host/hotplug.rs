// SPDX-License-Identifier: GPL-2.0
//! Fewer CPUs for a while: the others are taken offline, and come back.
//!
//! They come back whatever happens. The guard brings them online when it is
//! dropped, by a panic or an error too; an interrupt does the same; and a
//! keeper, a process that does nothing but wait for this one to be gone, does
//! it if this one was killed.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe};

use crate::interrupt::{self, Undo};

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Told to the keeper when there is nothing left to do for it.
const ALL_BACK: u8 = b'q';
/// How long the keeper waits before it acts, in microseconds: a scheduler that
/// was killed too should be gone by then.
const KEEPER_DELAY_US: u32 = 500_000;

/// CPUs are offline while this lives.
#[derive(Debug)]
#[must_use]
pub struct Offline {
    _undo: Undo,
}

/// The CPUs that are online now, in order.
pub fn online() -> Result<BTreeSet<u32>> {
    let text = fs::read_to_string(ONLINE).with_context(|| format!("reading {ONLINE}"))?;
    parse_list(&text).with_context(|| format!("{ONLINE} holds `{}`", text.trim()))
}

/// Can `nr_cpus` be left online? An error says why not.
pub fn check(nr_cpus: usize) -> Result<()> {
    for &cpu in &surplus(&online()?, nr_cpus)? {
        if fs::metadata(switch(cpu)).is_err() {
            bail!("CPU {cpu} cannot be taken offline on this machine, so --cpus {nr_cpus} cannot");
        }
    }
    Ok(())
}

/// Leave the first `nr_cpus` online and take the others offline.
pub fn leave(nr_cpus: usize) -> Result<Offline> {
    let surplus = surplus(&online()?, nr_cpus)?;
    let keeper = Keeper::start(&surplus)?;
    let offline = Offline {
        _undo: {
            let cpus = surplus.clone();
            interrupt::undo_later(move || {
                if bring_back(&cpus) {
                    keeper.dismiss();
                }
            })
        },
    };
    // From here on, an error on the way brings back what has gone.
    for &cpu in surplus.iter().rev() {
        fs::write(switch(cpu), "0").with_context(|| format!("taking CPU {cpu} offline"))?;
    }
    Ok(offline)
}

/// The CPUs of `online` that are too many.
fn surplus(online: &BTreeSet<u32>, nr_cpus: usize) -> Result<Vec<u32>> {
    if nr_cpus == 0 || nr_cpus > online.len() {
        bail!("--cpus {nr_cpus}: there are {} CPUs online", online.len());
    }
    Ok(online.iter().copied().skip(nr_cpus).collect())
}

/// Online again; false if that failed for one, which is then said.
fn bring_back(cpus: &[u32]) -> bool {
    let mut is_whole = true;
    for &cpu in cpus {
        if let Err(error) = fs::write(switch(cpu), "1") {
            eprintln!("scx_bench: CPU {cpu} stays offline: {error}");
            is_whole = false;
        }
    }
    is_whole
}

/// The file that switches a CPU; there is none for a CPU that always runs.
fn switch(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// The CPUs of a list such as `0-3,6`.
fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// The process that brings CPUs back when this one is gone.
#[derive(Debug)]
struct Keeper {
    pid: Pid,
    line: OwnedFd,
}

impl Keeper {
    fn start(cpus: &[u32]) -> Result<Self> {
        // All memory is made here: the child only makes system calls.
        let switches = cpus
            .iter()
            .map(|&cpu| CString::new(switch(cpu)))
            .collect::<Result<Vec<_>, _>>()?;
        let (theirs, ours) = pipe().context("opening the keeper's pipe")?;
        // SAFETY: until it exits, the child only makes system calls.
        match unsafe { fork() }.context("forking the keeper")? {
            ForkResult::Parent { child } => {
                interrupt::spare(child);
                let keeper = Self {
                    pid: child,
                    line: ours,
                };
                keeper.keep_line_to_itself()?;
                Ok(keeper)
            }
            ForkResult::Child => {
                drop(ours);
                keep(theirs, &switches)
            }
        }
    }

    /// Programs started later must not hold the pipe open.
    fn keep_line_to_itself(&self) -> Result<()> {
        // SAFETY: sets a flag of a descriptor that is open.
        let rc = unsafe { libc::fcntl(self.line.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        if rc != 0 {
            return Err(std::io::Error::last_os_error()).context("setting up the keeper's pipe");
        }
        Ok(())
    }

    /// There is nothing left to bring back.
    fn dismiss(self) {
        // If this fails, the keeper brings online what is online.
        let _ = nix::unistd::write(&self.line, &[ALL_BACK]);
        drop(self.line);
        let _ = waitpid(self.pid, None);
    }
}

/// The keeper's whole life.
fn keep(line: OwnedFd, switches: &[CString]) -> ! {
    let line = line.into_raw_fd();
    // SAFETY: system calls on buffers and strings that live for as long as the
    // process does.
    unsafe {
        // Neither a terminal's nor a session's end is meant for it.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"scx_bench-keep".as_ptr());
        let mut word = 0u8;
        let count = loop {
            let count = libc::read(line, (&raw mut word).cast(), 1);
            if count >= 0 || *libc::__errno_location() != libc::EINTR {
                break count;
            }
        };
        if count != 1 || word != ALL_BACK {
            libc::usleep(KEEPER_DELAY_US);
            for path in switches {
                let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if fd >= 0 {
                    libc::write(fd, c"1".as_ptr().cast(), 1);
                    libc::close(fd);
                }
            }
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        let list = |text: &str| parse_list(text).map(|cpus| cpus.into_iter().collect::<Vec<_>>());
        assert_eq!(list("0-3,6\n"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(list("0"), Some(vec![0]));
        assert_eq!(list(""), None);
        assert_eq!(list("0-x"), None);
    }

    #[test]
    fn the_first_cpus_stay_and_impossible_numbers_are_refused() {
        let online = BTreeSet::from([0, 1, 4, 5]);
        assert_eq!(surplus(&online, 2).unwrap(), [4, 5]);
        assert!(surplus(&online, 4).unwrap().is_empty());
        assert!(
            surplus(&online, 5)
                .unwrap_err()
                .to_string()
                .contains("4 CPUs")
        );
        assert!(surplus(&online, 0).is_err());
    }
}
