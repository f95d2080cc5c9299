// SPDX-License-Identifier: GPL-2.0
//! Loads made of short processes: fork, exec, a little work, exit.
//!
//! They are started by a process of their own, as a shell starts its commands.

use anyhow::Result;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_USEC, now_ns};
use crate::session::Session;
use crate::shared::{Command, Helper, Log};
use crate::stats::Recorder;

/// CPU time of a storm's child after its exec, in nanoseconds.
const STORM_CHILD_NS: u64 = 2 * NSEC_PER_MSEC;
/// From the start of one burst to the next, in nanoseconds; longer if a burst
/// takes longer.
const STORM_PERIOD_NS: u64 = 100 * NSEC_PER_MSEC;
/// Children in a burst for each CPU.
const STORM_CHILDREN_PER_CPU: usize = 4;

/// CPU time that a compile job uses between two waits for a file.
const JOB_RUN_NS: u64 = 50 * NSEC_PER_MSEC;
/// Length of such a wait.
const JOB_SLEEP_NS: u64 = 2 * NSEC_PER_MSEC;
/// Runs of one job.
const JOB_RUNS: u64 = 2;

/// A fork storm: bursts of 4 x CPUs processes at once, each exec'ing and using
/// 2 ms of CPU; a burst every 100 ms, or as soon as the last has ended.
#[derive(Debug)]
pub struct Storm {
    helper: Helper,
}

/// What a fork load did.
#[derive(Debug, Default)]
pub struct ForksSeen {
    /// From the start of a burst or job to the end of its last process.
    pub time: Recorder,
    /// Processes that ended.
    pub children: u64,
}

impl Storm {
    /// Start the storm at `from_ns`, which the seed shifts; `until_ns` is when the
    /// last burst may begin.
    pub fn start(session: &Session, from_ns: u64, until_ns: u64) -> Result<Self> {
        let start_ns = from_ns + (session.next_start_ns() - session.t0_ns);
        let child = Command::new("storm", STORM_CHILD_NS, 1, 0)?;
        let nr_children = session.nr_load(session.cpus * STORM_CHILDREN_PER_CPU);
        let session = session.clone();
        let helper = Helper::start(move |log| {
            let mut next_ns = start_ns;
            while next_ns < until_ns && nr_children > 0 {
                clock::sleep_until_ns(next_ns);
                let burst_ns = now_ns();
                let pids: Vec<Pid> = (0..nr_children)
                    .filter_map(|_| child.spawn().ok())
                    .collect();
                for pid in pids {
                    let _ = waitpid(pid, None);
                }
                let ended_ns = now_ns();
                if session.counts(burst_ns) {
                    log.push(ended_ns - burst_ns);
                }
                next_ns = (next_ns + STORM_PERIOD_NS).max(ended_ns);
            }
        })?;
        Ok(Self { helper })
    }

    /// Wait for its end; the times are those of whole bursts.
    pub fn join(self, session: &Session) -> Result<ForksSeen> {
        let mut seen = ForksSeen::default();
        for time_ns in self.helper.join()? {
            seen.time.record(time_ns);
            seen.children += session.nr_load(session.cpus * STORM_CHILDREN_PER_CPU) as u64;
        }
        Ok(seen)
    }
}

/// What `make -jN` looks like to a scheduler: always the same number of jobs,
/// each fork, exec, 50 ms of CPU, 2 ms of waiting for a file, 50 ms of CPU.
#[derive(Debug)]
pub struct Jobs {
    helper: Helper,
}

/// What the jobs did in the measurement.
#[derive(Debug, Default)]
pub struct JobsSeen {
    /// From fork to exit of the jobs that ended in the measurement.
    pub time: Recorder,
    /// CPU time of these jobs in nanoseconds.
    pub cpu_ns: u64,
}

impl Jobs {
    /// Keep `parallel` jobs going until the loads end.
    pub fn start(session: &Session, parallel: usize) -> Result<Self> {
        let start_ns = session.next_start_ns();
        let job = Command::new("job", JOB_RUN_NS, JOB_RUNS, JOB_SLEEP_NS)?;
        let session = session.clone();
        let helper = Helper::start(move |log| run_jobs(&session, log, &job, parallel, start_ns))?;
        Ok(Self { helper })
    }

    /// Wait for the last job to end.
    pub fn join(self) -> Result<JobsSeen> {
        let mut seen = JobsSeen::default();
        for pair in self.helper.join()?.chunks_exact(2) {
            seen.time.record(pair[0]);
            seen.cpu_ns += pair[1];
        }
        Ok(seen)
    }
}

fn run_jobs(session: &Session, log: &Log, job: &Command, parallel: usize, start_ns: u64) {
    let mut running: Vec<(Pid, u64)> = Vec::with_capacity(parallel);
    clock::sleep_until_ns(start_ns);
    loop {
        while running.len() < parallel && now_ns() < session.load_to_ns {
            let forked_ns = now_ns();
            let Ok(pid) = job.spawn() else { break };
            running.push((pid, forked_ns));
        }
        if running.is_empty() {
            return;
        }
        let Some((pid, cpu_ns)) = wait_any() else {
            return;
        };
        clock::spin_for_ns(session.inject_ns);
        let ended_ns = now_ns();
        let Some(index) = running.iter().position(|&(other, _)| other == pid) else {
            continue;
        };
        let (_, forked_ns) = running.swap_remove(index);
        if session.counts(ended_ns) {
            log.push(ended_ns - forked_ns);
            log.push(cpu_ns);
        }
    }
}

/// Wait for any child; its pid and the CPU time it used in nanoseconds.
fn wait_any() -> Option<(Pid, u64)> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writing, and all-zero is a valid
    // rusage if the call should fail.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &mut status, 0, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    if pid <= 0 {
        return None;
    }
    let time_ns = |time: libc::timeval| {
        time.tv_sec as u64 * clock::NSEC_PER_SEC + time.tv_usec as u64 * NSEC_PER_USEC
    };
    Some((
        Pid::from_raw(pid),
        time_ns(usage.ru_utime) + time_ns(usage.ru_stime),
    ))
}
