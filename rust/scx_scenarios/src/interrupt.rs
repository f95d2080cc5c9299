// SPDX-License-Identifier: GPL-2.0
//! Ctrl-C at any time: what was started ends, what was changed is put back.
//!
//!   1. Whatever else this process still has to say goes nowhere: a command
//!      that is being ended must not report failures.
//!   2. Every descendant gets SIGINT, and SIGKILL if that does not end it.
//!   3. Everything that was noted with [`undo_later`] is undone, last first,
//!      and a file that is being written is finished ([`hold`]).
//!   4. Exit with 130.
//!
//! The same happens on SIGTERM and SIGHUP. On SIGKILL, descendants get a signal
//! from the kernel; what has to be put back even then needs a process of its
//! own (`host::hotplug`).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The shell's convention for a command ended by SIGINT.
pub const EXIT_CODE: u8 = 130;

/// How long descendants may take to end by themselves, and to be reaped when
/// they were made to.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at whether they have.
const POLL: Duration = Duration::from_millis(20);

static IS_PRESSED: AtomicBool = AtomicBool::new(false);
static UNDO: Mutex<Undone> = Mutex::new(Undone {
    next: 0,
    actions: Vec::new(),
});
static WRITING: Mutex<()> = Mutex::new(());
/// A process that is not ended; 0 for none.
static SPARED: AtomicI32 = AtomicI32::new(0);

type Action = Box<dyn FnOnce() + Send>;

struct Undone {
    next: u64,
    actions: Vec<(u64, Action)>,
}

/// Undoes something when it is dropped, or when the user interrupts.
#[derive(Debug)]
#[must_use]
pub struct Undo {
    id: u64,
}

/// Install the handler, and adopt orphans so that it finds them.
pub fn install() -> Result<()> {
    nix::sys::prctl::set_child_subreaper(true).context("adopting orphaned processes")?;
    ctrlc::set_handler(on_signal).context("installing the Ctrl-C handler")
}

/// Has the user asked to stop?
pub fn is_pressed() -> bool {
    IS_PRESSED.load(Ordering::SeqCst)
}

/// Wait for the end if the user has asked for it; otherwise return at once.
pub fn end_here_if_pressed() {
    while is_pressed() {
        thread::sleep(GRACE);
    }
}

/// Have `action` done once: when the guard is dropped, or on an interrupt.
pub fn undo_later(action: impl FnOnce() + Send + 'static) -> Undo {
    let mut undo = lock(&UNDO);
    let id = undo.next;
    undo.next += 1;
    undo.actions.push((id, Box::new(action)));
    Undo { id }
}

/// Leave this process alone from now on: it ends when this one does. One at a
/// time.
pub fn spare(pid: Pid) {
    SPARED.store(pid.as_raw(), Ordering::SeqCst);
}

/// While the guard lives, an interrupt waits: for writing a file as a whole.
pub fn hold() -> MutexGuard<'static, ()> {
    lock(&WRITING)
}

impl Drop for Undo {
    fn drop(&mut self) {
        let mut undo = lock(&UNDO);
        let index = undo.actions.iter().position(|&(id, _)| id == self.id);
        let action = index.map(|index| undo.actions.remove(index).1);
        drop(undo);
        if let Some(action) = action {
            action();
        }
    }
}

fn on_signal() {
    IS_PRESSED.store(true, Ordering::SeqCst);
    let mut stderr = take_outputs();
    end_descendants();
    let _whole = lock(&WRITING);
    let actions = std::mem::take(&mut lock(&UNDO).actions);
    actions.into_iter().rev().for_each(|(_, action)| action());
    if let Some(stderr) = &mut stderr {
        // Nobody is left to hear that this failed.
        let _ = writeln!(stderr, "\nscx_bench: interrupted");
    }
    std::process::exit(EXIT_CODE.into());
}

/// Send what other threads write to nowhere; the error output as it was.
fn take_outputs() -> Option<File> {
    let stderr = nix::unistd::dup(std::io::stderr()).ok().map(File::from);
    let nowhere = OpenOptions::new().write(true).open("/dev/null").ok()?;
    for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: both descriptors are open; dup2 replaces one as a whole.
        unsafe { libc::dup2(nowhere.as_raw_fd(), fd) };
    }
    stderr
}

/// Ask every descendant to end; make those that do not.
fn end_descendants() {
    let me = std::process::id() as i32;
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let limit = Instant::now() + GRACE;
        let mut told = HashSet::new();
        while Instant::now() < limit {
            let mut living = descendants(&processes(), me);
            living.remove(&SPARED.load(Ordering::SeqCst));
            if living.is_empty() {
                return;
            }
            // One that was started meanwhile has not been told yet.
            for pid in living.difference(&told.clone()) {
                // It may have ended since it was listed.
                let _ = kill(Pid::from_raw(*pid), signal);
                told.insert(*pid);
            }
            thread::sleep(POLL);
        }
    }
}

/// What the walk needs to know of a process.
struct Process {
    parent: i32,
    is_dead: bool,
}

/// All processes of the machine, by pid.
fn processes() -> HashMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return HashMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parse_stat(&stat)?))
        })
        .collect()
}

/// State and parent in a line of `/proc/PID/stat`, after the name, which stands
/// in parentheses and may hold some itself.
fn parse_stat(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    Some(Process {
        is_dead: matches!(words.next()?, "Z" | "X"),
        parent: words.next()?.parse().ok()?,
    })
}

/// The living below `root`.
fn descendants(processes: &HashMap<i32, Process>, root: i32) -> HashSet<i32> {
    let mut found = HashSet::new();
    let mut frontier = vec![root];
    while let Some(parent) = frontier.pop() {
        for (&pid, process) in processes {
            if process.parent == parent && !process.is_dead && found.insert(pid) {
                frontier.push(pid);
            }
        }
    }
    found
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn an_action_is_done_once_when_its_guard_is_dropped() {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let undo = undo_later(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(count.load(Ordering::SeqCst), 0);
        drop(undo);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_name_with_parentheses_hides_neither_state_nor_parent() {
        let process = parse_stat("17 (a (b) c) S 5 17 17 0 -1").unwrap();
        assert_eq!((process.parent, process.is_dead), (5, false));
        assert!(parse_stat("17 (gone) Z 5 17").unwrap().is_dead);
        assert!(parse_stat("17 cut").is_none());
    }

    #[test]
    fn the_living_at_any_depth_are_found_and_the_dead_are_not() {
        let process = |parent, is_dead| Process { parent, is_dead };
        let tree = HashMap::from([
            (2, process(1, false)),
            (3, process(2, false)),
            (4, process(1, true)),
            (9, process(8, false)),
        ]);
        assert_eq!(descendants(&tree, 1), HashSet::from([2, 3]));
    }
}
