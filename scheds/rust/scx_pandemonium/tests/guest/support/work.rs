// SPDX-License-Identifier: GPL-2.0
//! What the threads and processes of a load do: work for so long, have a name, be
//! pinned, end well.

use std::arch::asm;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Start a thread of that name.
pub fn spawn<T: Send + 'static>(
    name: &str,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<thread::JoinHandle<Result<T>>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(act)
        .with_context(|| format!("starting {name}"))
}

/// Wait for a thread, and give what it gave.
pub fn join<T>(thread: thread::JoinHandle<Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}

/// Wake every `period` and use `burst` of CPU time, until `ends_at`. A wakeup
/// that comes too late moves those after it.
pub fn act(period: Duration, burst: Duration, ends_at: Instant) -> Result<()> {
    let mut wakes_at = Instant::now();
    while Instant::now() < ends_at {
        if period.is_zero() {
            work(Duration::from_millis(1));
            continue;
        }
        work(burst);
        wakes_at = Instant::now().max(wakes_at + period);
        sleep_until(wakes_at);
    }
    Ok(())
}

/// Rounds of [`chunk`], of 128 instructions each.
const CHUNK_ROUNDS: u32 = 16;

/// Work that takes 2 us of a guest's CPU, between two looks at something.
///
/// An emulated CPU pays for jumps, memory and system calls rather than for
/// instructions, and for a block without jumps in which its turn ends. Here are few of
/// these; nor is there PAUSE, at which it gives way.
pub fn chunk() {
    for _ in 0..CHUNK_ROUNDS {
        // SAFETY: changes nothing.
        unsafe {
            asm!(
                ".rept 126",
                "nop",
                ".endr",
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}

/// Use a CPU until `is_over`.
pub fn hog(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        chunk();
    }
}

/// Use a CPU until `time`, by the clock.
pub fn spin_until(time: Instant) {
    while Instant::now() < time {
        chunk();
    }
}

/// Sleep until `time`, by the clock.
pub fn sleep_until(time: Instant) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
}

/// Use `amount` of CPU time.
pub fn work(amount: Duration) {
    let ends_at = cpu_time() + amount;
    while cpu_time() < ends_at {
        chunk();
    }
}

/// CPU time of this thread.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a struct that lives here; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Let thread `tid` (0 is the caller) run on the CPUs of `mask` only.
pub fn set_affinity(tid: i32, mask: u64) -> Result<()> {
    // SAFETY: the mask lives during the call, and its size is told.
    let result =
        unsafe { libc::sched_setaffinity(tid, size_of::<u64>(), std::ptr::from_ref(&mask).cast()) };
    ensure!(
        result == 0,
        "setting an affinity: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Give this thread, and those that it starts, priority `nice`.
pub fn set_nice(nice: i32) -> Result<()> {
    // SAFETY: takes and gives numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    ensure!(result == 0, "no priority {nice}");
    Ok(())
}

/// Let this thread be real-time work, or a normal one again.
pub fn set_real_time(is_real_time: bool) -> Result<()> {
    match is_real_time {
        true => set_policy(0, libc::SCHED_FIFO, 1),
        false => set_policy(0, libc::SCHED_OTHER, 0),
    }
}

/// Give this thread the least weight there is.
pub fn set_idle() -> Result<()> {
    set_policy(0, libc::SCHED_IDLE, 0)
}

/// Give thread `tid` (0 is the caller) another scheduling class.
pub fn set_policy(tid: i32, policy: i32, sched_priority: i32) -> Result<()> {
    let param = libc::sched_param { sched_priority };
    // SAFETY: the struct lives during the call.
    let result = unsafe { libc::sched_setscheduler(tid, policy, &raw const param) };
    ensure!(
        result == 0,
        "setting a scheduling class: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Start a process that does `life` and ends.
pub fn fork(life: impl FnOnce() -> Result<()>) -> Result<libc::pid_t> {
    // SAFETY: the child has this thread only. The other one waits for it and
    // holds no lock that the child needs.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("forking"),
        0 => {
            let code = i32::from(life().is_err());
            // SAFETY: ends the process without what the harness has to say.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(pid),
    }
}

/// Wait for a process, which must end well.
pub fn wait_for(pid: libc::pid_t) -> Result<()> {
    let mut status = 0;
    // SAFETY: writes to an integer that lives here.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    ensure!(waited == pid && status == 0, "process {pid}: {status:#x}");
    Ok(())
}

/// Give this thread a name; that of the first one is that of the process.
pub fn set_name(name: &str) -> Result<()> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the text lives during the call and ends with a 0.
    let result = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    ensure!(result == 0, "prctl: {}", std::io::Error::last_os_error());
    Ok(())
}

/// CPU time of the processes that were waited for.
pub fn cpu_time_of_children() -> Result<Duration> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a struct that lives here.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    ensure!(
        result == 0,
        "getrusage: {}",
        std::io::Error::last_os_error()
    );
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(duration(usage.ru_utime) + duration(usage.ru_stime))
}
