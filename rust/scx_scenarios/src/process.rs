// SPDX-License-Identifier: GPL-2.0
//! A load in a process of its own, as every application is.
//!
//! The process is a forked copy of the bench. It runs one function, which may
//! start threads, and hands back what that found: in a file without a name, as
//! JSON, which is read when the process has ended. Its pages are made present
//! and locked before the function begins.
//!
//! Not here: loads that log numbers while they run (`shared`).

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::shared::die_with_parent;
use crate::system;

/// A process that is to find a `T`. Killed if it is dropped before its end.
#[derive(Debug)]
pub struct Process<T> {
    pid: Option<Pid>,
    answer: File,
    finds: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Process<T> {
    /// Run `body` in a new process. To be called before the scenario's threads
    /// exist: a fork of many threads interrupts every CPU that one runs on.
    pub fn start(body: impl FnOnce() -> Result<T>) -> Result<Self> {
        let answer = memfd_create(c"answer", MFdFlags::MFD_CLOEXEC)
            .context("making a file for what a process finds")?;
        let mut answer = File::from(answer);
        let parent = Pid::this();
        // SAFETY: the scenario has no other threads yet; the child runs `body`
        // and leaves by _exit, without unwinding into the parent's frames.
        match unsafe { fork() }.context("forking a load process")? {
            ForkResult::Parent { child } => Ok(Self {
                pid: Some(child),
                answer,
                finds: PhantomData,
            }),
            ForkResult::Child => {
                die_with_parent(parent);
                system::lock_memory();
                let is_told = catch_unwind(AssertUnwindSafe(|| {
                    let found = body().map_err(|error| format!("{error:#}"));
                    tell(&mut answer, &found).is_ok()
                }));
                let status = i32::from(!is_told.unwrap_or(false));
                // SAFETY: ends the child at once; nothing of it is needed.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// Wait for the process to end; what it found, or its error.
    pub fn join(mut self) -> Result<T> {
        let Some(pid) = self.pid.take() else {
            bail!("load process joined twice")
        };
        match waitpid(pid, None).context("waiting for a load process")? {
            WaitStatus::Exited(_, 0) => {}
            status => bail!("a load process failed: {status:?}"),
        }
        let mut text = String::new();
        self.answer
            .rewind()
            .and_then(|()| self.answer.read_to_string(&mut text))
            .context("reading what a process found")?;
        let found: Result<T, String> =
            serde_json::from_str(&text).context("reading what a process found")?;
        found.map_err(|message| anyhow!(message))
    }
}

fn tell<T: Serialize>(answer: &mut File, found: &Result<T, String>) -> Result<()> {
    let text = serde_json::to_vec(found).context("writing what a process found")?;
    answer
        .write_all(&text)
        .context("writing what a process found")
}

impl<T> Drop for Process<T> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid.take() {
            // It may have ended by itself; then there is only a zombie to reap.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_hands_back_what_its_threads_found() {
        let process = Process::start(|| {
            let threads: Vec<_> = (0..4u64)
                .map(|nth| std::thread::spawn(move || nth * 10))
                .collect();
            Ok(threads.into_iter().map(|one| one.join().unwrap()).collect())
        });
        let found: Vec<u64> = process.unwrap().join().unwrap();
        assert_eq!(found, [0, 10, 20, 30]);
    }

    #[test]
    fn its_error_and_its_panic_are_errors_here() {
        let process: Process<u64> = Process::start(|| bail!("no such thing")).unwrap();
        assert_eq!(process.join().unwrap_err().to_string(), "no such thing");
        let process: Process<u64> = Process::start(|| panic!("on purpose")).unwrap();
        assert!(process.join().unwrap_err().to_string().contains("failed"));
    }

    #[test]
    fn a_dropped_process_is_killed_and_reaped() {
        let process: Process<u64> = Process::start(|| {
            std::thread::sleep(std::time::Duration::from_secs(600));
            Ok(0)
        })
        .unwrap();
        let pid = process.pid.unwrap();
        drop(process);
        assert!(kill(pid, None).is_err());
    }
}
