// SPDX-License-Identifier: GPL-2.0
//! Work whose time as a whole matters: builds and thread pools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

use anyhow::Result;

use super::wake::PLAIN_PROBE;
use super::{Scenario, WARMUP_NS, add_hogs, measure, share_pct};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC, now_ns};
use crate::load::forks::JobsSeen;
use crate::load::{Hogs, Jobs};
use crate::probe::Probe;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::Recorder;
use crate::thread;
use crate::work;

/// CPU time of a pool's worker in one round, in nanoseconds.
const POOL_WORK_NS: u64 = NSEC_PER_MSEC;

/// A build beside a probe.
pub const COMPILE: Scenario = Scenario {
    id: "compile",
    about: "A synthetic make -jN: always N jobs, each fork, exec, 50 ms of CPU, 2 ms of sleep, \
            50 ms of CPU, exit. A probe wakes every 2 ms and uses 0.1 ms of CPU. Job: from before \
            the fork to after the exit, of jobs that end in the measurement; wake latency of the \
            probe.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: run_compile,
};

/// A thread pool with a barrier.
pub const POOL: Scenario = Scenario {
    id: "pool",
    about: "N hogs. N threads use 1 ms of CPU each, meet at a barrier and start again without a \
            pause. Round: from one meeting to the next.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_pool,
};

/// A bit of everything, to look at.
pub const DEMO: Scenario = Scenario {
    id: "demo",
    about: "N hogs, a synthetic make -jN (as in compile) and a probe that wakes every 2 ms and \
            uses 0.1 ms of CPU. Wake latency of the probe; share of the machine that hogs, jobs \
            and probe got, the jobs' by those that ended in the measurement.",
    seconds: 5.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_demo,
};

fn working_probe() -> Probe {
    Probe {
        work_ns: 100 * NSEC_PER_USEC,
        ..PLAIN_PROBE
    }
}

fn run_compile(session: &Session) -> Result<Findings> {
    let jobs = Jobs::start(session, session.cpus)?;
    // A delay that shows in a job of 100 ms would hold up the probe for ever;
    // the other scenarios test it.
    let mut undelayed = session.clone();
    undelayed.inject_ns = 0;
    let probe = working_probe().spawn(&undelayed)?;
    let mut findings = measure(session)?;
    let probe = thread::join(probe)?;
    let jobs = jobs.join()?;
    findings.latency("wake", &probe.wake, &["p99"]);
    add_jobs(session, &mut findings, &jobs);
    findings.group("probe", probe.usage);
    Ok(findings)
}

fn run_demo(session: &Session) -> Result<Findings> {
    let jobs = Jobs::start(session, session.nr_load(session.cpus))?;
    let probe = working_probe().spawn(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus), 0)?;
    let mut findings = measure(session)?;
    let probe = thread::join(probe)?;
    let hogs = hogs.join()?;
    let jobs = jobs.join()?;
    findings.latency("wake", &probe.wake, &["p50", "p99", "max"]);
    let shares = [
        ("hogs_cpu", hogs.usage().cpu_ns),
        ("jobs_cpu", jobs.cpu_ns),
        ("probe_cpu", probe.usage.cpu_ns),
    ];
    for (name, cpu_ns) in shares {
        findings.headline(name, share_pct(session, cpu_ns), "%", Better::Neither);
    }
    add_jobs(session, &mut findings, &jobs);
    findings.group("probe", probe.usage);
    add_hogs(session, &mut findings, &hogs);
    Ok(findings)
}

fn add_jobs(session: &Session, findings: &mut Findings, jobs: &JobsSeen) {
    let seconds = session.length_ns() as f64 / NSEC_PER_SEC as f64;
    findings.latency("job", &jobs.time, &["mean"]);
    findings.detail(
        "jobs",
        jobs.time.count() as f64 / seconds,
        "1/s",
        Better::Higher,
    );
}

fn run_pool(session: &Session) -> Result<Findings> {
    let barrier = Arc::new(Barrier::new(session.cpus));
    let last_round = Arc::new(AtomicU64::new(u64::MAX));
    let workers = (0..session.cpus)
        .map(|index| start_pool_worker(session, index == 0, &barrier, &last_round))
        .collect::<Result<Vec<_>>>()?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus), 0)?;
    let mut findings = measure(session)?;
    let mut rounds = Recorder::new();
    thread::join_all(workers)?
        .iter()
        .for_each(|samples| rounds.merge(samples));
    findings.latency("round", &rounds, &["p50", "p99"]);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

/// The leader also keeps time and says which round is the last. It names the
/// round, since others may still be about to ask whether the one before was.
fn start_pool_worker(
    session: &Session,
    is_leader: bool,
    barrier: &Arc<Barrier>,
    last_round: &Arc<AtomicU64>,
) -> Result<JoinHandle<Recorder>> {
    let start_ns = session.next_start_ns();
    let session = session.clone();
    let (barrier, last_round) = (Arc::clone(barrier), Arc::clone(last_round));
    let mut rounds = Recorder::new();
    thread::spawn("pool", move || {
        clock::sleep_until_ns(start_ns);
        barrier.wait();
        for round in 0u64.. {
            let met_ns = now_ns();
            work::burn_cpu_ns(POOL_WORK_NS);
            if is_leader {
                clock::spin_for_ns(session.inject_ns);
                if now_ns() >= session.to_ns {
                    last_round.store(round, Ordering::Release);
                }
            }
            barrier.wait();
            if is_leader && session.counts(met_ns) {
                rounds.record(now_ns() - met_ns);
            }
            if round >= last_round.load(Ordering::Acquire) {
                break;
            }
        }
        rounds
    })
}
