// SPDX-License-Identifier: GPL-2.0
//! A sched_ext scheduler as a running program: started, watched, stopped.
//!
//! Whether it schedules is asked of the kernel, never of the program: a result
//! counts only if sched_ext was enabled before and after it was measured.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, now_ns};
use crate::last_words;
use crate::shared::die_with_parent;

const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";

/// How long a scheduler may take to be enabled; large ones are verified for
/// many seconds on a slow machine.
const ENABLE_LIMIT_NS: u64 = 120 * NSEC_PER_SEC;
/// How long it may take to go when asked to.
const STOP_LIMIT_NS: u64 = 10 * NSEC_PER_SEC;
/// Between two looks at the state.
const POLL_NS: u64 = 20 * NSEC_PER_MSEC;

/// The end of its output in which its last words are looked for.
const QUOTED_BYTES: usize = 4096;

/// A scheduler that was enabled by a program started here.
#[derive(Debug)]
pub struct Scheduler {
    process: Child,
    /// What it wrote, in a file without a name.
    log: File,
}

impl Scheduler {
    /// Start `words` (a program and its arguments) and wait until the kernel
    /// says that a scheduler is enabled. An error quotes the program's output.
    pub fn start(words: &[String]) -> Result<Self> {
        let Some((program, args)) = words.split_first() else {
            bail!("an empty command line is no scheduler");
        };
        if is_enabled() {
            bail!("a sched_ext scheduler is already running: {}", active());
        }
        let log = tempfile::tempfile().context("opening the scheduler's log")?;
        let output = |log: &File| log.try_clone().context("sharing the scheduler's log");
        let parent = Pid::this();
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.stdout(output(&log)?).stderr(output(&log)?);
        // SAFETY: the closure only makes two system calls.
        unsafe {
            command.pre_exec(move || {
                die_with_parent(parent);
                Ok(())
            });
        }
        let process = command
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let mut scheduler = Self { process, log };
        scheduler.wait_until_enabled()?;
        Ok(scheduler)
    }

    /// An error, with its last words, unless it still schedules.
    pub fn check(&mut self) -> Result<()> {
        match self.exit_status()? {
            Some(status) => bail!("the scheduler ended ({status}): {}", self.last_words()),
            None if !is_enabled() => {
                bail!("the kernel disabled the scheduler: {}", self.last_words())
            }
            None => Ok(()),
        }
    }

    /// Ask it to end and wait until it has, and sched_ext is disabled.
    pub fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.process.id() as i32);
        // It may have ended by itself.
        let _ = kill(pid, Signal::SIGINT);
        let limit_ns = now_ns() + STOP_LIMIT_NS;
        while now_ns() < limit_ns {
            if self.exit_status()?.is_some() && !is_enabled() {
                return Ok(());
            }
            clock::sleep_ns(POLL_NS);
        }
        bail!("the scheduler does not end when asked to")
    }

    fn wait_until_enabled(&mut self) -> Result<()> {
        let limit_ns = now_ns() + ENABLE_LIMIT_NS;
        while now_ns() < limit_ns {
            if let Some(status) = self.exit_status()? {
                bail!("it did not load ({status}): {}", self.last_words());
            }
            if is_enabled() {
                return Ok(());
            }
            clock::sleep_ns(POLL_NS);
        }
        let seconds = ENABLE_LIMIT_NS / NSEC_PER_SEC;
        bail!(
            "it was not enabled within {seconds} s: {}",
            self.last_words()
        )
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.process.try_wait().context("waiting for the scheduler")
    }

    fn last_words(&self) -> String {
        // Reading at an offset leaves the place where it writes alone.
        let mut text = vec![0; QUOTED_BYTES];
        let length = self.log.metadata().map_or(0, |data| data.len());
        let from = length.saturating_sub(QUOTED_BYTES as u64);
        let count = self.log.read_at(&mut text, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..count]);
        last_words::quote(text.lines())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Without effect where it has ended; the kernel detaches it otherwise.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Can this kernel run sched_ext schedulers?
pub fn is_supported() -> bool {
    Path::new(STATE).exists()
}

/// Is a sched_ext scheduler enabled now?
pub fn is_enabled() -> bool {
    read_line(Path::new(STATE)) == "enabled"
}

/// Name of the enabled sched_ext scheduler; empty for none.
pub fn active() -> String {
    read_line(Path::new(OPS))
}

fn read_line(path: &Path) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}
