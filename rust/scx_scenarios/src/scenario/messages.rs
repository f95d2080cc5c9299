// SPDX-License-Identifier: GPL-2.0
//! Many threads that send each other messages: the hackbench and the schbench
//! pattern.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::{Scenario, WARMUP_NS, measure};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC, now_ns};
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::Recorder;
use crate::thread;
use crate::token::Token;
use crate::work;

/// Senders of a group, and receivers of a group.
const GROUP_SIZE: usize = 5;
/// Messages that each sender sends to each receiver in one round.
const ROUND_MESSAGES: usize = 4;
/// Length of a message in bytes, that of hackbench.
const MESSAGE_BYTES: usize = 100;

/// Messengers of the schbench pattern.
const MESSENGERS: u64 = 2;
/// From one call to the workers to the next, in nanoseconds.
const CALL_PERIOD_NS: u64 = 2 * NSEC_PER_MSEC;
/// CPU time of a request in nanoseconds.
const REQUEST_NS: u64 = 500 * NSEC_PER_USEC;

/// hackbench.
pub const MESSAGING: Scenario = Scenario {
    id: "messaging",
    about: "The hackbench pattern: N groups of 5 senders and 5 receivers, each receiver with a Unix \
            socket pair; in a round every sender sends every receiver of its group 4 messages of \
            100 bytes. Rounds follow each other without a pause. Round: from the go to the last \
            message read.",
    seconds: 2.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: run_messaging,
};

/// schbench.
pub const SCHBENCH: Scenario = Scenario {
    id: "schbench",
    about: "The schbench pattern: 2 messengers with N workers each. Every 2 ms a messenger wakes \
            those of its workers that wait, 1 ms after the other one did; a worker uses 0.5 ms of \
            CPU for the request and waits again. Wake: from before the wakeup to the worker's \
            first instruction; request: from there to the end of its work.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: run_schbench,
};

fn run_messaging(session: &Session) -> Result<Findings> {
    let nr_groups = session.cpus;
    let nr_threads = nr_groups * 2 * GROUP_SIZE;
    // The leader and everybody else meet at the start and the end of a round.
    let barrier = Arc::new(Barrier::new(nr_threads + 1));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut handles = Vec::with_capacity(nr_threads);
    for _ in 0..nr_groups {
        let mut sockets = Vec::with_capacity(GROUP_SIZE);
        for _ in 0..GROUP_SIZE {
            let (send, receive) = socketpair(
                AddressFamily::Unix,
                SockType::Stream,
                None,
                SockFlag::empty(),
            )
            .context("opening a socket pair")?;
            sockets.push(send);
            handles.push(start_receiver(receive, &barrier, &is_over)?);
        }
        let sockets = Arc::new(sockets);
        for _ in 0..GROUP_SIZE {
            handles.push(start_sender(&sockets, &barrier, &is_over)?);
        }
    }
    let leader = start_leader(session, barrier, is_over)?;
    let mut findings = measure(session)?;
    let rounds = thread::join(leader)?;
    thread::join_all(handles)?;
    findings.latency("round", &rounds, &["p50", "p95"]);
    let messages = nr_groups * GROUP_SIZE * GROUP_SIZE * ROUND_MESSAGES;
    let per_second =
        rounds.count() as f64 * messages as f64 * NSEC_PER_SEC as f64 / session.length_ns() as f64;
    findings.detail("messages", per_second, "1/s", Better::Higher);
    Ok(findings)
}

fn start_leader(
    session: &Session,
    barrier: Arc<Barrier>,
    is_over: Arc<AtomicBool>,
) -> Result<JoinHandle<Recorder>> {
    let start_ns = session.next_start_ns();
    let session = session.clone();
    let mut rounds = Recorder::new();
    thread::spawn("leader", move || {
        clock::sleep_until_ns(start_ns);
        loop {
            let go_ns = now_ns();
            if go_ns >= session.to_ns {
                is_over.store(true, Ordering::Release);
                barrier.wait();
                return rounds;
            }
            barrier.wait();
            barrier.wait();
            clock::spin_for_ns(session.inject_ns);
            if session.counts(go_ns) {
                rounds.record(now_ns() - go_ns);
            }
        }
    })
}

fn start_sender(
    sockets: &Arc<Vec<OwnedFd>>,
    barrier: &Arc<Barrier>,
    is_over: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let (sockets, barrier, is_over) = (
        Arc::clone(sockets),
        Arc::clone(barrier),
        Arc::clone(is_over),
    );
    thread::spawn("sender", move || {
        let message = [7u8; MESSAGE_BYTES];
        loop {
            barrier.wait();
            if is_over.load(Ordering::Acquire) {
                return;
            }
            for _ in 0..ROUND_MESSAGES {
                for socket in sockets.iter() {
                    // SAFETY: the buffer lives across the call.
                    unsafe {
                        libc::write(socket.as_raw_fd(), message.as_ptr().cast(), message.len())
                    };
                }
            }
            barrier.wait();
        }
    })
}

fn start_receiver(
    socket: OwnedFd,
    barrier: &Arc<Barrier>,
    is_over: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let (barrier, is_over) = (Arc::clone(barrier), Arc::clone(is_over));
    thread::spawn("receiver", move || {
        let mut message = [0u8; MESSAGE_BYTES];
        loop {
            barrier.wait();
            if is_over.load(Ordering::Acquire) {
                return;
            }
            let mut missing = GROUP_SIZE * ROUND_MESSAGES * MESSAGE_BYTES;
            while missing > 0 {
                let len = missing.min(message.len());
                // SAFETY: `len` is within the buffer, which lives across the call.
                let got =
                    unsafe { libc::read(socket.as_raw_fd(), message.as_mut_ptr().cast(), len) };
                // The senders hold their ends open for as long as this runs.
                missing -= usize::try_from(got).unwrap_or(0);
            }
            barrier.wait();
        }
    })
}

/// What a messenger shares with one of its workers.
#[derive(Debug, Default)]
struct Desk {
    call: Token,
    is_waiting: AtomicBool,
    called_at_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct WorkerSeen {
    wake: Recorder,
    request: Recorder,
}

fn run_schbench(session: &Session) -> Result<Findings> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    let mut messengers = Vec::new();
    // In turns: if two call at once, it is chance which of the second's wait for
    // it and which for the workers of the first, and only the latter is seen.
    let start_ns = session.next_start_ns();
    for nth in 0..MESSENGERS {
        let desks: Vec<Arc<Desk>> = (0..session.cpus).map(|_| Arc::default()).collect();
        for desk in &desks {
            workers.push(start_worker(session, desk, &is_over)?);
        }
        let start_ns = start_ns + nth * CALL_PERIOD_NS / MESSENGERS;
        messengers.push(start_messenger(session, start_ns, desks, &is_over)?);
    }
    let mut findings = measure(session)?;
    thread::join_all(messengers)?;
    let (mut wake, mut request) = (Recorder::new(), Recorder::new());
    for seen in thread::join_all(workers)? {
        wake.merge(&seen.wake);
        request.merge(&seen.request);
    }
    findings.latency("wake", &wake, &["p99"]);
    findings.latency("request", &request, &["p99"]);
    let per_second = request.count() as f64 * NSEC_PER_SEC as f64 / session.length_ns() as f64;
    findings.detail("requests", per_second, "1/s", Better::Higher);
    Ok(findings)
}

fn start_messenger(
    session: &Session,
    start_ns: u64,
    desks: Vec<Arc<Desk>>,
    is_over: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let session = session.clone();
    let is_over = Arc::clone(is_over);
    thread::spawn_measured(session.fifo, "messenger", move || {
        let mut next_ns = start_ns;
        while next_ns < session.to_ns {
            clock::sleep_until_ns(next_ns);
            for desk in &desks {
                if desk.is_waiting.swap(false, Ordering::AcqRel) {
                    desk.called_at_ns.store(now_ns(), Ordering::Relaxed);
                    desk.call.post();
                }
            }
            next_ns += CALL_PERIOD_NS;
        }
        is_over.store(true, Ordering::Release);
        desks.iter().for_each(|desk| desk.call.post());
    })
}

fn start_worker(
    session: &Session,
    desk: &Arc<Desk>,
    is_over: &Arc<AtomicBool>,
) -> Result<JoinHandle<WorkerSeen>> {
    let session = session.clone();
    let (desk, is_over) = (Arc::clone(desk), Arc::clone(is_over));
    let mut seen = WorkerSeen::default();
    thread::spawn_measured(session.fifo, "worker", move || {
        loop {
            desk.is_waiting.store(true, Ordering::Release);
            desk.call.wait();
            if is_over.load(Ordering::Acquire) {
                return seen;
            }
            clock::spin_for_ns(session.inject_ns);
            let woke_ns = now_ns();
            let called_ns = desk.called_at_ns.load(Ordering::Relaxed);
            work::burn_cpu_ns(REQUEST_NS);
            if session.counts(called_ns) {
                seen.wake.record(woke_ns - called_ns);
                seen.request.record(now_ns() - woke_ns);
            }
        }
    })
}
