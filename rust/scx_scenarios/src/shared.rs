// SPDX-License-Identifier: GPL-2.0
//! Processes that a scenario starts, and what they hand back.
//!
//! Forks and execs are driven from a process of their own. The bench itself
//! has many threads, and a fork there would interrupt every CPU one of them
//! runs on to change page tables: a cost of the bench, not of the scheduler.
//!
//! Every process started here gets a signal when its parent ends, so nothing
//! is left running, however the bench ends.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

use crate::clock::NSEC_PER_USEC;

/// Values that a [`Log`] can hold; more than any scenario makes.
const LOG_VALUES: usize = 64 * 1024;

/// A list of numbers in memory shared with processes forked later: one writer,
/// and one reader after the writer has ended.
#[derive(Debug)]
pub struct Log {
    words: NonNull<AtomicU64>,
}

// SAFETY: the memory is only ever accessed through atomics.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    /// An empty list, its memory present.
    pub fn new() -> Result<Self> {
        // SAFETY: a new anonymous mapping, placed by the kernel.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("mapping shared memory");
        }
        let words = NonNull::new(address.cast()).context("mapping shared memory at null")?;
        Ok(Self { words })
    }

    /// Append a number; dropped when the list is full.
    pub fn push(&self, value: u64) {
        let len = self.word(0).load(Ordering::Relaxed) as usize;
        if len < LOG_VALUES {
            self.word(len + 1).store(value, Ordering::Relaxed);
            self.word(0).store(len as u64 + 1, Ordering::Release);
        }
    }

    /// The numbers so far, in order.
    pub fn values(&self) -> Vec<u64> {
        let len = (self.word(0).load(Ordering::Acquire) as usize).min(LOG_VALUES);
        (1..=len)
            .map(|index| self.word(index).load(Ordering::Relaxed))
            .collect()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index <= LOG_VALUES);
        // SAFETY: the mapping holds LOG_VALUES + 1 words and lives as long as
        // `self`; any bit pattern is a valid AtomicU64.
        unsafe { self.words.add(index).as_ref() }
    }

    const fn bytes() -> usize {
        (LOG_VALUES + 1) * size_of::<u64>()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no
        // reference to it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), Self::bytes()) };
    }
}

/// A forked copy of the bench that runs one function and reports in a [`Log`].
#[derive(Debug)]
pub struct Helper {
    pid: Option<Pid>,
    log: Log,
}

impl Helper {
    /// Run `body` in a new process. To be called before the scenario's threads
    /// exist, so that the fork interrupts nobody.
    pub fn start(body: impl FnOnce(&Log)) -> Result<Self> {
        let log = Log::new()?;
        let parent = Pid::this();
        // SAFETY: the scenario has no other threads yet; the child runs `body`
        // and leaves by _exit, without unwinding into the parent's frames.
        match unsafe { fork() }.context("forking a load process")? {
            ForkResult::Parent { child } => Ok(Self {
                pid: Some(child),
                log,
            }),
            ForkResult::Child => {
                die_with_parent(parent);
                body(&log);
                // SAFETY: ends the child at once; nothing of it is needed.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Wait for the process to end and take its log.
    pub fn join(mut self) -> Result<Vec<u64>> {
        let Some(pid) = self.pid.take() else {
            bail!("load process joined twice")
        };
        match waitpid(pid, None).context("waiting for a load process")? {
            WaitStatus::Exited(_, 0) => Ok(self.log.values()),
            status => bail!("a load process failed: {status:?}"),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(pid) = self.pid.take() {
            // It may have ended by itself; then there is only a zombie to reap.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

/// The short program that fork loads run; see `child/child.c`.
const CHILD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/child"));

/// A child's command line, ready for exec: between fork and exec there are
/// only a few system calls.
#[derive(Debug)]
pub struct Command {
    /// Holds the program; closed on exec.
    _program: OwnedFd,
    path: CString,
    args: Vec<CString>,
}

impl Command {
    /// A child named `name` that uses `cpu_ns` of CPU `runs` times and sleeps
    /// `sleep_ns` in between.
    pub fn new(name: &str, cpu_ns: u64, runs: u64, sleep_ns: u64) -> Result<Self> {
        let program = child_program()?;
        let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?;
        let args = [
            name.to_string(),
            (cpu_ns / NSEC_PER_USEC).to_string(),
            runs.to_string(),
            (sleep_ns / NSEC_PER_USEC).to_string(),
        ];
        let args = args
            .into_iter()
            .map(CString::new)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            _program: program,
            path,
            args,
        })
    }

    /// Fork and exec it. The child dies with the calling thread.
    pub fn spawn(&self) -> Result<Pid> {
        let parent = Pid::this();
        let mut argv: Vec<*const libc::c_char> = self.args.iter().map(|arg| arg.as_ptr()).collect();
        argv.push(std::ptr::null());
        // SAFETY: the child only makes system calls before exec.
        match unsafe { fork() }.context("forking")? {
            ForkResult::Parent { child } => Ok(child),
            ForkResult::Child => {
                die_with_parent(parent);
                // SAFETY: argv is a null-terminated array of C strings that
                // live in `self`; _exit ends the child if exec fails.
                unsafe {
                    libc::execv(self.path.as_ptr(), argv.as_ptr());
                    libc::_exit(127)
                }
            }
        }
    }
}

/// The child's program in a file without a name, which vanishes with the bench.
fn child_program() -> Result<OwnedFd> {
    // SAFETY: the name is a C string; the flags are valid.
    let fd = unsafe { libc::memfd_create(c"child".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error()).context("making a file for the child");
    }
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(CHILD)
        .context("writing the child's program")?;
    // A file that is open for writing cannot be executed.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let program = File::open(path).context("opening the child's program")?;
    Ok(program.into())
}

/// Get SIGKILL when `parent` ends, also if it just has.
pub fn die_with_parent(parent: Pid) {
    // SAFETY: PR_SET_PDEATHSIG takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    if getppid() != parent {
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_hands_back_what_it_logged() {
        let helper = Helper::start(|log| (0..1000).for_each(|value| log.push(value * 3)));
        let values = helper.unwrap().join().unwrap();
        assert_eq!(values.len(), 1000);
        assert_eq!(values[999], 2997);
    }

    #[test]
    fn a_full_log_drops_what_is_too_much() {
        let log = Log::new().unwrap();
        (0..LOG_VALUES as u64 + 10).for_each(|value| log.push(value));
        assert_eq!(log.values().len(), LOG_VALUES);
    }

    #[test]
    fn a_dropped_helper_is_killed_and_reaped() {
        let helper = Helper::start(|_| std::thread::sleep(std::time::Duration::from_secs(600)));
        let helper = helper.unwrap();
        let pid = helper.pid.unwrap();
        drop(helper);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn a_child_uses_its_cpu_time_and_exits_with_0() {
        let before_ns = children_cpu_ns();
        let command = Command::new("child", 20_000_000, 2, 1_000_000).unwrap();
        let pid = command.spawn().unwrap();
        assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Exited(_, 0))));
        assert!(children_cpu_ns() - before_ns >= 40_000_000);
    }

    fn children_cpu_ns() -> i64 {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
        let usage = usage.unwrap();
        let time_ns =
            |time: nix::sys::time::TimeVal| (time.tv_sec() * 1_000_000 + time.tv_usec()) * 1_000;
        time_ns(usage.user_time()) + time_ns(usage.system_time())
    }
}
