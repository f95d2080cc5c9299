// SPDX-License-Identifier: GPL-2.0
//! Time as the workloads see it.
//!
//! Three clocks are used and never mixed: the monotonic clock says when
//! something happens, the thread's CPU clock says how much work was done, and
//! a deadline is always an absolute instant of the monotonic clock. All values
//! are nanoseconds in a `u64`.

use std::io;
use std::thread;

/// Nanoseconds in a microsecond.
pub const NSEC_PER_USEC: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const NSEC_PER_MSEC: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const NSEC_PER_SEC: u64 = 1_000_000_000;

/// The monotonic clock in nanoseconds; no system call where the vDSO can read it.
#[inline]
pub fn now_ns() -> u64 {
    read_clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time the calling thread has used, in nanoseconds. A system call.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    read_clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleep until the monotonic clock reads `deadline_ns`.
///
/// Does not sleep at all when the deadline has passed: the kernel would arm a
/// timer and let the caller be woken by it, so that one who is late would have
/// to wait for its turn again with every event and never catch up.
pub fn sleep_until_ns(deadline_ns: u64) {
    if now_ns() >= deadline_ns {
        return;
    }
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / NSEC_PER_SEC) as libc::time_t,
        tv_nsec: (deadline_ns % NSEC_PER_SEC) as libc::c_long,
    };
    loop {
        // SAFETY: `deadline` is a valid timespec for the whole call, and with
        // TIMER_ABSTIME the kernel does not write the remaining time.
        let error = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &deadline,
                std::ptr::null_mut(),
            )
        };
        if error != libc::EINTR {
            return;
        }
    }
}

/// Sleep for `duration_ns` from now.
pub fn sleep_ns(duration_ns: u64) {
    sleep_until_ns(now_ns() + duration_ns);
}

/// Let the calling thread's timers fire when they are due.
///
/// The default slack of 50 us would be the floor of every latency measured.
pub fn set_timer_slack_1ns() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    let rc = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Stay on the CPU for `duration_ns` of wall time: the delay that tests inject.
pub fn spin_for_ns(duration_ns: u64) {
    if duration_ns == 0 {
        return;
    }
    let until_ns = now_ns() + duration_ns;
    while now_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// The name of the calling thread as the kernel shows it, for error texts.
pub fn thread_name() -> String {
    thread::current().name().unwrap_or("main").to_string()
}

fn read_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec that the call fills.
    let rc = unsafe { libc::clock_gettime(clock, &mut now) };
    debug_assert_eq!(rc, 0, "both clocks exist on every Linux");
    now.tv_sec as u64 * NSEC_PER_SEC + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_never_ends_early() {
        let deadline_ns = now_ns() + 3 * NSEC_PER_MSEC;
        sleep_until_ns(deadline_ns);
        assert!(now_ns() >= deadline_ns);
    }

    #[test]
    fn a_deadline_in_the_past_does_not_sleep() {
        let voluntary = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt"))
                .unwrap();
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        let before = voluntary();
        (0..1000).for_each(|_| sleep_until_ns(1));
        assert!(voluntary() - before < 100);
    }

    #[test]
    fn spinning_lasts_at_least_as_long_as_asked() {
        let start_ns = now_ns();
        spin_for_ns(NSEC_PER_MSEC);
        assert!(now_ns() - start_ns >= NSEC_PER_MSEC);
    }
}
