// SPDX-License-Identifier: GPL-2.0
//! Round trips between two threads that wake each other.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::{Scenario, WARMUP_NS, add_hogs, measure};
use crate::clock::{self, NSEC_PER_MSEC, now_ns};
use crate::load::Hogs;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::Recorder;
use crate::system::{Account, Usage};
use crate::thread;
use crate::token::Token;

/// From one fan-out to the next, in nanoseconds.
const FANOUT_PERIOD_NS: u64 = 5 * NSEC_PER_MSEC;

/// Pipe under load.
pub const PIPE: Scenario = Scenario {
    id: "pipe",
    about: "N hogs. Two threads pass 8 bytes back and forth through two pipes without a pause. \
            Round trip: from before the write to after the answer is read.",
    seconds: 2.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_pair(session, pipe_pair()?, 1),
};

/// Unix socket under load.
pub const SOCKET: Scenario = Scenario {
    id: "socket",
    about: "As pipe, through a pair of Unix stream sockets.",
    seconds: 2.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_pair(session, socket_pair()?, 1),
};

/// Eventfd under load.
pub const EVENTFD: Scenario = Scenario {
    id: "eventfd",
    about: "As pipe, through two eventfds.",
    seconds: 2.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_pair(session, eventfd_pair()?, 1),
};

/// Futex under load.
pub const FUTEX: Scenario = Scenario {
    id: "futex",
    about: "As pipe, through two futexes.",
    seconds: 2.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_pair(session, futex_pair(), 1),
};

/// Pipe on an idle machine.
pub const PIPE_IDLE: Scenario = Scenario {
    id: "pipe_idle",
    about: "As pipe, with nothing else running.",
    seconds: 1.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: |session| run_pair(session, pipe_pair()?, 0),
};

/// One waker, N answers.
pub const FANOUT: Scenario = Scenario {
    id: "fanout",
    about: "N hogs. Every 5 ms a thread wakes N others by futex, one after the other; each answers \
            at once. A round that is late begins as soon as the one before it has ended. Round \
            trip: from the instant at which the round is due to after the last answer, of all 400 \
            rounds in 2 s; wake: from before the wakeup of a thread to its first instruction; \
            late: rounds not begun when the time was over.",
    seconds: 2.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_fanout,
};

/// One end of a channel between two threads.
enum End {
    /// Reads and writes 8 bytes.
    Fds { read: OwnedFd, write: OwnedFd },
    /// Takes and posts tokens.
    Futex {
        mine: Arc<Token>,
        theirs: Arc<Token>,
    },
}

impl End {
    fn send(&self) {
        match self {
            End::Fds { write, .. } => {
                let one = 1u64;
                // SAFETY: the buffer is 8 bytes of a live integer.
                unsafe {
                    libc::write(
                        write.as_raw_fd(),
                        (&raw const one).cast(),
                        size_of_val(&one),
                    )
                };
            }
            End::Futex { theirs, .. } => theirs.post(),
        }
    }

    fn receive(&self) {
        match self {
            End::Fds { read, .. } => {
                let mut value = 0u64;
                let bytes = size_of_val(&value);
                // SAFETY: the buffer is 8 bytes of a live integer.
                unsafe { libc::read(read.as_raw_fd(), (&raw mut value).cast(), bytes) };
            }
            End::Futex { mine, .. } => mine.wait(),
        }
    }
}

fn pipe_pair() -> Result<(End, End)> {
    let (there_read, there_write) = nix::unistd::pipe().context("opening a pipe")?;
    let (back_read, back_write) = nix::unistd::pipe().context("opening a pipe")?;
    Ok((
        End::Fds {
            read: back_read,
            write: there_write,
        },
        End::Fds {
            read: there_read,
            write: back_write,
        },
    ))
}

fn socket_pair() -> Result<(End, End)> {
    let (a, b) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::empty(),
    )
    .context("opening a socket pair")?;
    let end = |socket: OwnedFd| -> Result<End> {
        let read = socket.try_clone().context("duplicating a socket")?;
        Ok(End::Fds {
            read,
            write: socket,
        })
    };
    Ok((end(a)?, end(b)?))
}

fn eventfd_pair() -> Result<(End, End)> {
    let there: OwnedFd = EventFd::new().context("opening an eventfd")?.into();
    let back: OwnedFd = EventFd::new().context("opening an eventfd")?.into();
    let copy = |fd: &OwnedFd| fd.try_clone().context("duplicating an eventfd");
    let near = End::Fds {
        read: copy(&back)?,
        write: copy(&there)?,
    };
    Ok((
        near,
        End::Fds {
            read: there,
            write: back,
        },
    ))
}

fn futex_pair() -> (End, End) {
    let (there, back) = (Arc::new(Token::new()), Arc::new(Token::new()));
    (
        End::Futex {
            mine: Arc::clone(&back),
            theirs: Arc::clone(&there),
        },
        End::Futex {
            mine: there,
            theirs: back,
        },
    )
}

fn run_pair(session: &Session, ends: (End, End), hogs_per_cpu: usize) -> Result<Findings> {
    let (near, far) = ends;
    let is_over = Arc::new(AtomicBool::new(false));
    let pong = start_pong(session, far, &is_over)?;
    let ping = start_ping(session, near, is_over)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus * hogs_per_cpu), 0)?;
    let mut findings = measure(session)?;
    let (trips, mut usage) = thread::join(ping)?;
    usage.add(&thread::join(pong)?);
    let headline = if hogs_per_cpu > 0 { "p99" } else { "p50" };
    findings.latency("trip", &trips, &[headline]);
    findings.detail("trips", trips.count() as f64, "", Better::Higher);
    findings.group("pair", usage);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

fn start_ping(
    session: &Session,
    end: End,
    is_over: Arc<AtomicBool>,
) -> Result<JoinHandle<(Recorder, Usage)>> {
    let start_ns = session.next_start_ns();
    let session = session.clone();
    let mut trips = Recorder::new();
    thread::spawn_measured(session.fifo, "ping", move || {
        let mut account = Account::new();
        clock::sleep_until_ns(start_ns);
        loop {
            let sent_ns = now_ns();
            if sent_ns >= session.to_ns {
                break;
            }
            let counts = session.counts(sent_ns);
            if counts && !account.is_open() {
                account.open();
            }
            // The account's own system calls are not part of the trip.
            let sent_ns = now_ns();
            end.send();
            end.receive();
            if counts {
                trips.record(now_ns() - sent_ns);
                account.look(&session.map);
            }
        }
        is_over.store(true, Ordering::Release);
        end.send();
        (trips, account.close())
    })
}

fn start_pong(session: &Session, end: End, is_over: &Arc<AtomicBool>) -> Result<JoinHandle<Usage>> {
    let is_over = Arc::clone(is_over);
    let session = session.clone();
    thread::spawn_measured(session.fifo, "pong", move || {
        let mut account = Account::new();
        loop {
            end.receive();
            if is_over.load(Ordering::Acquire) {
                return account.close();
            }
            if !account.is_open() && session.counts(now_ns()) {
                account.open();
            }
            account.look(&session.map);
            clock::spin_for_ns(session.inject_ns);
            end.send();
        }
    })
}

/// What the waker of a fan-out shares with one of those it wakes.
#[derive(Default)]
struct Line {
    wake: Token,
    woken_at_ns: std::sync::atomic::AtomicU64,
}

fn run_fanout(session: &Session) -> Result<Findings> {
    let is_over = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(Token::new());
    let lines: Vec<Arc<Line>> = (0..session.cpus).map(|_| Arc::default()).collect();
    let answerers = lines
        .iter()
        .map(|line| start_answerer(session, line, &answers, &is_over))
        .collect::<Result<Vec<_>>>()?;
    let waker = start_fanout_waker(session, lines, answers, is_over)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus), 0)?;
    let mut findings = measure(session)?;

    let mut wakes = Recorder::new();
    let (trips, late) = thread::join(waker)?;
    thread::join_all(answerers)?
        .iter()
        .for_each(|samples| wakes.merge(samples));
    findings.latency("trip", &trips, &["p99"]);
    findings.latency("wake", &wakes, &["p99"]);
    findings.detail("late", late as f64, "", Better::Lower);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

/// It hands back the trips, and how many rounds began after the measurement.
fn start_fanout_waker(
    session: &Session,
    lines: Vec<Arc<Line>>,
    answers: Arc<Token>,
    is_over: Arc<AtomicBool>,
) -> Result<JoinHandle<(Recorder, u64)>> {
    let start_ns = session.next_start_ns();
    let session = session.clone();
    let mut trips = Recorder::new();
    let mut late = 0;
    thread::spawn_measured(session.fifo, "fanout", move || {
        let wake_all = || {
            for line in &lines {
                line.woken_at_ns.store(now_ns(), Ordering::Relaxed);
                line.wake.post();
            }
        };
        let mut due_ns = start_ns;
        while due_ns < session.to_ns {
            clock::sleep_until_ns(due_ns);
            late += u64::from(now_ns() >= session.to_ns);
            wake_all();
            lines.iter().for_each(|_| answers.wait());
            if session.counts(due_ns) {
                trips.record(now_ns() - due_ns);
            }
            due_ns += FANOUT_PERIOD_NS;
        }
        is_over.store(true, Ordering::Release);
        wake_all();
        (trips, late)
    })
}

fn start_answerer(
    session: &Session,
    line: &Arc<Line>,
    answers: &Arc<Token>,
    is_over: &Arc<AtomicBool>,
) -> Result<JoinHandle<Recorder>> {
    let (line, answers, is_over) = (Arc::clone(line), Arc::clone(answers), Arc::clone(is_over));
    let session = session.clone();
    let mut wakes = Recorder::new();
    thread::spawn_measured(session.fifo, "answer", move || {
        loop {
            line.wake.wait();
            if is_over.load(Ordering::Acquire) {
                return wakes;
            }
            clock::spin_for_ns(session.inject_ns);
            let woke_ns = now_ns();
            let sent_ns = line.woken_at_ns.load(Ordering::Relaxed);
            if session.counts(sent_ns) {
                wakes.record(woke_ns - sent_ns);
            }
            answers.post();
        }
    })
}
