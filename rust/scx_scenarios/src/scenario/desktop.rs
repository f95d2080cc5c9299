// SPDX-License-Identifier: GPL-2.0
//! What people do while a machine compiles: a call, a browser.
//!
//! Each is made of a few threads with work of known size that wake each other;
//! 4N hogs run beside it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use super::{Scenario, WARMUP_NS, add_hogs, measure};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC, now_ns};
use crate::load::{Game, Hogs, Screen, Team};
use crate::probe::Probe;
use crate::result::{Better, Findings};
use crate::session::{Draws, Session};
use crate::stats::Recorder;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work;

/// Hogs for each CPU.
const HOGS_PER_CPU: usize = 4;

/// A video call.
pub const CALL: Scenario = Scenario {
    id: "call",
    about: "4N hogs beside a call. An audio thread wakes every 10 ms and uses 1 ms of CPU; missed: \
            periods done later than 10 ms after their start, of 300 in 3 s. A film of 30 frames \
            per second: its main thread wakes 4 decoders together, which use 3 ms each; frames and \
            their times as in game_mt. Every 20 ms a thread sends a packet through a Unix socket, \
            and one that waits there uses 0.2 ms for it; packet: from when it is due to the end of \
            that work.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_call,
};

/// A browser that answers input.
pub const BROWSER: Scenario = Scenario {
    id: "browser",
    about: "4N hogs beside a browser. Input every 50 to 150 ms, drawn from the seed, comes through \
            a Unix socket to its main thread, which uses 4 to 30 ms of CPU for it, drawn as well, \
            then wakes 2 painters together, which use 3 ms each, and when they are done a \
            compositor, which waits for the next refresh (60 Hz) and uses 2 ms. Answer: from when \
            the input is due to the main thread's first instruction; shown: to the end of the \
            composition; of some 50 inputs.",
    seconds: 5.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_browser,
};

/// From one packet to the next, in nanoseconds.
const PACKET_PERIOD_NS: u64 = 20 * NSEC_PER_MSEC;
/// CPU time for a packet in nanoseconds.
const PACKET_NS: u64 = 200 * NSEC_PER_USEC;

/// Bounds of the time between two inputs, in nanoseconds.
const INPUT_PAUSE_NS: (u64, u64) = (50 * NSEC_PER_MSEC, 150 * NSEC_PER_MSEC);
/// Bounds of the CPU time of the main thread for one input, in nanoseconds.
const BURST_NS: (u64, u64) = (4 * NSEC_PER_MSEC, 30 * NSEC_PER_MSEC);
/// Painters of a page.
const PAINTERS: usize = 2;
/// CPU time of a painter in nanoseconds.
const PAINT_NS: u64 = 3 * NSEC_PER_MSEC;

fn run_call(session: &Session) -> Result<Findings> {
    let audio = Probe {
        name: "audio",
        period_ns: 10 * NSEC_PER_MSEC,
        work_ns: NSEC_PER_MSEC,
    }
    .spawn(session)?;
    let film = Game {
        name: "film",
        worker_name: "decoder",
        period_ns: NSEC_PER_SEC / 30,
        main_ns: 0,
        workers: 4,
        worker_ns: 3 * NSEC_PER_MSEC,
    }
    .spawn(session)?;
    let (sender, receiver) = UnixStream::pair().context("opening a socket pair")?;
    let receiver = start_receiver(session, receiver)?;
    let start_ns = session.next_start_ns();
    let packets = std::iter::successors(Some(start_ns), |due_ns| Some(due_ns + PACKET_PERIOD_NS));
    let sender = start_sender(session, "net", packets, sender)?;
    let hogs = start_hogs(session)?;
    let mut findings = measure(session)?;

    let audio = thread::join(audio)?;
    findings.headline("audio_missed", audio.missed as f64, "", Better::Lower);
    findings.latency("audio_done", &audio.done, &["p99"]);
    findings.latency("audio_wake", &audio.wake, &[]);
    findings.group("audio", audio.usage);
    thread::join(film)??.add_to(session, &mut findings);
    thread::join(sender)??;
    let (packets, usage) = thread::join(receiver)??;
    findings.latency("packet", &packets, &["p95"]);
    findings.group("packets", usage);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

fn run_browser(session: &Session) -> Result<Findings> {
    let (screen, compositor) = Screen::spawn(session)?;
    let painters = Team::spawn(session, "painter", PAINTERS, PAINT_NS)?;
    let (input, events) = UnixStream::pair().context("opening a socket pair")?;
    let bursts = session.draws();
    let main = start_main(session, events, bursts, painters, screen.clone())?;
    let start_ns = session.next_start_ns();
    let mut pauses = session.draws();
    let inputs = std::iter::successors(Some(start_ns), move |due_ns| {
        Some(due_ns + pauses.between(INPUT_PAUSE_NS.0, INPUT_PAUSE_NS.1))
    });
    let input = start_sender(session, "input", inputs, input)?;
    let hogs = start_hogs(session)?;
    let mut findings = measure(session)?;

    thread::join(input)??;
    let (answer, usage) = thread::join(main)??;
    screen.end();
    let seen = thread::join(compositor)?;
    findings.latency("shown", &seen.shown, &["p50", "p90"]);
    findings.latency("answer", &answer, &[]);
    findings.detail("inputs", seen.shown.count() as f64, "", Better::Neither);
    findings.group("browser", usage);
    findings.group("compositor", seen.usage);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

fn start_hogs(session: &Session) -> Result<Hogs> {
    Hogs::spawn(session, session.nr_load(HOGS_PER_CPU * session.cpus), 0)
}

/// Start a thread that writes each of these instants to `socket` when it is
/// due, until the end of the measurement; then it closes the socket.
fn start_sender(
    session: &Session,
    name: &str,
    due_ns: impl Iterator<Item = u64> + Send + 'static,
    mut socket: UnixStream,
) -> Result<JoinHandle<Result<()>>> {
    let to_ns = session.to_ns;
    thread::spawn_measured(session.fifo, name, move || {
        for due_ns in due_ns.take_while(|&due_ns| due_ns < to_ns) {
            clock::sleep_until_ns(due_ns);
            socket
                .write_all(&due_ns.to_ne_bytes())
                .context("sending an event")?;
        }
        socket.shutdown(Shutdown::Write).context("closing a socket")
    })
}

/// The next instant that a sender wrote; `None` when it has ended.
fn receive(socket: &mut UnixStream) -> Result<Option<u64>> {
    let mut bytes = [0; size_of::<u64>()];
    match socket.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(u64::from_ne_bytes(bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error).context("receiving an event"),
    }
}

fn start_receiver(
    session: &Session,
    mut socket: UnixStream,
) -> Result<JoinHandle<Result<(Recorder, Usage)>>> {
    let session = session.clone();
    let mut packets = Recorder::new();
    thread::spawn_measured(session.fifo, "packets", move || {
        let mut account = Account::new();
        while let Some(due_ns) = receive(&mut socket)? {
            clock::spin_for_ns(session.inject_ns);
            if session.counts(due_ns) && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            work::burn_cpu_ns(PACKET_NS);
            if session.counts(due_ns) {
                packets.record(now_ns() - due_ns);
            }
        }
        Ok((packets, account.close()))
    })
}

/// The browser's main thread; it hands back how late it began with inputs, and
/// what it and the painters used.
fn start_main(
    session: &Session,
    mut events: UnixStream,
    mut bursts: Draws,
    painters: Team,
    screen: Screen,
) -> Result<JoinHandle<Result<(Recorder, Usage)>>> {
    let session = session.clone();
    let mut answer = Recorder::new();
    thread::spawn_measured(session.fifo, "browser", move || {
        let mut account = Account::new();
        while let Some(due_ns) = receive(&mut events)? {
            clock::spin_for_ns(session.inject_ns);
            if session.counts(due_ns) {
                answer.record(now_ns() - due_ns);
            }
            if session.counts(due_ns) && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            work::burn_cpu_ns(bursts.between(BURST_NS.0, BURST_NS.1));
            painters.wake();
            painters.wait();
            screen.show(due_ns);
        }
        let mut usage = account.close();
        usage.add(&painters.join()?);
        Ok((answer, usage))
    })
}
