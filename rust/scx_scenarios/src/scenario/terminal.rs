// SPDX-License-Identifier: GPL-2.0
//! Typing into a terminal in which a build prints.
//!
//! A key goes the way it goes on a desktop: the terminal writes it into the
//! master of a pty, the shell reads it from the slave and echoes it, the
//! terminal reads the echo among whatever else was printed, draws and tells
//! the compositor, which shows it with the next refresh.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use super::{Scenario, WARMUP_NS, add_hogs, measure};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_USEC};
use crate::load::{Hogs, Screen};
use crate::process::Process;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::system::{Account, Usage};
use crate::thread;
use crate::work;

/// Keys in a terminal.
pub const TERMINAL: Scenario = Scenario {
    id: "terminal",
    about: "4N hogs beside a terminal. A process prints 200 lines of 80 characters a second into a \
            pty, 0.1 ms of CPU each. Every 90 to 110 ms, drawn from the seed, a key is written to \
            its master; another process, the shell, reads it from the slave, uses 0.2 ms and \
            echoes it; a thread of the terminal reads all that is printed, uses 0.5 ms for each \
            read and at an echo wakes a compositor, which waits for the next refresh (60 Hz) and \
            uses 2 ms. Echo: from when the key is due to the end of the composition, of some 50 \
            keys.",
    seconds: 5.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_terminal,
};

/// Hogs for each CPU.
const HOGS_PER_CPU: usize = 4;

/// Bounds of the time between two keys, in nanoseconds. Fixed 100 ms would be
/// six refreshes, so that all keys met the same moment of one.
const KEY_PAUSE_NS: (u64, u64) = (90 * NSEC_PER_MSEC, 110 * NSEC_PER_MSEC);
/// CPU time of the shell for a key in nanoseconds.
const SHELL_NS: u64 = 200 * NSEC_PER_USEC;
/// From one line of the build to the next, in nanoseconds.
const LINE_PERIOD_NS: u64 = 5 * NSEC_PER_MSEC;
/// CPU time of the build for a line in nanoseconds.
const LINE_NS: u64 = 100 * NSEC_PER_USEC;
/// CPU time of the terminal for what one read brings, in nanoseconds.
const DRAW_NS: u64 = 500 * NSEC_PER_USEC;

/// A key as it is typed and echoed.
const KEY: u8 = b'K';
/// The key that ends the shell.
const LAST_KEY: u8 = b'Q';
/// A line of the build: nothing in it looks like a key.
const LINE: &[u8; 80] =
    b"cc -c -o object.o source.c: compiled without a word of complaint as they all do\n";

/// Keys that have been typed and not been seen: when each was due.
type Typed = Arc<Mutex<VecDeque<u64>>>;

fn run_terminal(session: &Session) -> Result<Findings> {
    let (master, slave) = open_pty()?;
    let shell = start_shell(session, &slave)?;
    let build = start_build(session, &slave)?;
    // The terminal ends when the last process has closed the slave.
    drop(slave);
    let typed = Typed::default();
    let (screen, compositor) = Screen::spawn(session)?;
    let keys = master.try_clone().context("duplicating a pty")?;
    let drawer = start_drawer(session, master, &typed, screen.clone())?;
    let typist = start_typist(session, keys, typed)?;
    let hogs = Hogs::spawn(session, session.nr_load(HOGS_PER_CPU * session.cpus), 0)?;
    let mut findings = measure(session)?;

    thread::join(typist)??;
    let (shell, (lines, build)) = (shell.join()?, build.join()?);
    let drawer = thread::join(drawer)?;
    screen.end();
    let seen = thread::join(compositor)?;
    findings.latency("echo", &seen.shown, &["p50", "p90"]);
    findings.detail("keys", seen.shown.count() as f64, "", Better::Neither);
    findings.detail("lines", lines as f64, "", Better::Higher);
    for (name, usage) in [
        ("shell", shell),
        ("printer", build),
        ("terminal", drawer),
        ("compositor", seen.usage),
    ] {
        findings.group(name, usage);
    }
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

/// A pty that changes no byte on its way: master and slave.
fn open_pty() -> Result<(File, File)> {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: both integers live across the call, which fills them; the other
    // pointers may be null. A termios is plain integers, valid as all-zero, and
    // filled before it is used.
    unsafe {
        let nothing = std::ptr::null_mut();
        let rc = libc::openpty(
            &mut master,
            &mut slave,
            nothing,
            std::ptr::null(),
            std::ptr::null(),
        );
        if rc != 0 {
            return Err(std::io::Error::last_os_error()).context("opening a pty");
        }
        let mut modes: libc::termios = std::mem::zeroed();
        libc::tcgetattr(slave, &mut modes);
        libc::cfmakeraw(&mut modes);
        if libc::tcsetattr(slave, libc::TCSANOW, &modes) != 0 {
            return Err(std::io::Error::last_os_error()).context("setting up a pty");
        }
        // Both were just opened and belong to no other.
        Ok((File::from_raw_fd(master), File::from_raw_fd(slave)))
    }
}

/// A shell that echoes keys until the last; what it used.
fn start_shell(session: &Session, slave: &File) -> Result<Process<Usage>> {
    Process::start(|| {
        let _ = clock::set_timer_slack_1ns();
        let mut account = Account::new();
        let mut pty = slave;
        loop {
            let mut key = [0];
            pty.read_exact(&mut key).context("reading a key")?;
            if session.counts(clock::now_ns()) && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            if key[0] == LAST_KEY {
                return Ok(account.close());
            }
            work::burn_cpu_ns(SHELL_NS);
            pty.write_all(&key).context("echoing a key")?;
        }
    })
}

/// A process that prints; lines in the measurement, and what it used.
fn start_build(session: &Session, slave: &File) -> Result<Process<(u64, Usage)>> {
    let start_ns = session.next_start_ns();
    Process::start(|| {
        let _ = clock::set_timer_slack_1ns();
        let mut account = Account::new();
        let mut pty = slave;
        let mut lines = 0;
        let mut due_ns = start_ns;
        while due_ns < session.to_ns {
            clock::sleep_until_ns(due_ns);
            let counts = session.counts(due_ns);
            if counts && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            work::burn_cpu_ns(LINE_NS);
            pty.write_all(LINE).context("printing a line")?;
            lines += u64::from(counts);
            due_ns += LINE_PERIOD_NS;
        }
        Ok((lines, account.close()))
    })
}

fn start_typist(
    session: &Session,
    mut master: File,
    typed: Typed,
) -> Result<JoinHandle<Result<()>>> {
    let start_ns = session.next_start_ns();
    let mut pauses = session.draws();
    let session = session.clone();
    thread::spawn_measured(session.fifo, "keyboard", move || {
        let mut due_ns = start_ns;
        while due_ns < session.to_ns {
            clock::sleep_until_ns(due_ns);
            lock(&typed).push_back(due_ns);
            master.write_all(&[KEY]).context("typing a key")?;
            due_ns += pauses.between(KEY_PAUSE_NS.0, KEY_PAUSE_NS.1);
        }
        master.write_all(&[LAST_KEY]).context("typing the last key")
    })
}

/// The terminal's own thread; what it used.
fn start_drawer(
    session: &Session,
    mut master: File,
    typed: &Typed,
    screen: Screen,
) -> Result<JoinHandle<Usage>> {
    let typed = Arc::clone(typed);
    let session = session.clone();
    thread::spawn_measured(session.fifo, "terminal", move || {
        let mut account = Account::new();
        let mut text = [0; 4096];
        // With the last process gone, reading is an error.
        while let Ok(length) = master.read(&mut text) {
            if session.counts(clock::now_ns()) && !account.is_open() {
                account.open();
            }
            account.look(&session.map);
            work::burn_cpu_ns(DRAW_NS);
            for _ in text[..length].iter().filter(|&&byte| byte == KEY) {
                if let Some(due_ns) = lock(&typed).pop_front() {
                    screen.show(due_ns);
                }
            }
        }
        account.close()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pty_hands_on_every_byte_as_it_is() {
        let (mut master, mut slave) = open_pty().unwrap();
        slave.write_all(LINE).unwrap();
        let mut text = [0; LINE.len()];
        master.read_exact(&mut text).unwrap();
        assert_eq!(&text, LINE);
        master.write_all(&[KEY]).unwrap();
        let mut key = [0];
        slave.read_exact(&mut key).unwrap();
        assert_eq!(key[0], KEY);
    }

    #[test]
    fn a_line_holds_no_key() {
        assert!(!LINE.contains(&KEY) && !LINE.contains(&LAST_KEY));
    }
}
