// SPDX-License-Identifier: GPL-2.0
//! Ctrl-C at any time: what was started ends, temporary files go, exit 130.
//!
//! The terminal sends SIGINT to the whole process group, but a plain `kill`
//! reaches only xtask, and a guest may be in a group of its own. So the first
//! signal is passed on to every descendant; the command then fails in the
//! ordinary way, destructors run, and [`finish`] ends what is left. A second
//! signal does not wait.
//!
//! apt is left alone: it knows when it can stop, and hears of Ctrl-C from the
//! terminal. A package that is half unpacked would outlive the command.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The shell's convention for a command ended by SIGINT.
pub const EXIT_CODE: u8 = 130;

/// How long descendants may take to end by themselves.
const GRACE: Duration = Duration::from_secs(4);

/// Programs that are left to end by themselves, with all they started.
const LEFT_ALONE: [&str; 3] = ["apt-get", "dpkg", "sudo"];

static IS_PRESSED: AtomicBool = AtomicBool::new(false);

/// Install the handler and adopt orphans, so that [`finish`] can find a
/// grandchild whose parent has gone.
pub fn install() -> Result<()> {
    nix::sys::prctl::set_child_subreaper(true).context("adopting orphaned processes")?;
    ctrlc::set_handler(on_signal).context("installing the Ctrl-C handler")
}

/// Whether the user has asked to stop.
pub fn is_pressed() -> bool {
    IS_PRESSED.load(Ordering::SeqCst)
}

/// Fail if the user has asked to stop; called between the steps of a command.
pub fn check() -> Result<()> {
    anyhow::ensure!(!is_pressed(), "interrupted");
    Ok(())
}

/// End whatever is left of what was started.
pub fn finish() {
    signal_descendants(Signal::SIGKILL);
}

/// Pass the first signal on and start the clock; the second ends everything.
fn on_signal() {
    if IS_PRESSED.swap(true, Ordering::SeqCst) {
        finish();
        std::process::exit(EXIT_CODE.into());
    }
    signal_descendants(Signal::SIGINT);
    thread::spawn(|| {
        thread::sleep(GRACE);
        signal_descendants(Signal::SIGTERM);
        thread::sleep(GRACE);
        signal_descendants(Signal::SIGKILL);
    });
}

/// Send `signal` to every descendant, but for [`LEFT_ALONE`].
fn signal_descendants(signal: Signal) {
    for pid in descendants(&processes(), std::process::id() as i32) {
        // It may have ended since it was listed, or belong to root: both are fine.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// What the walk needs to know of a process.
struct Process {
    parent: i32,
    name: String,
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

/// The name and parent in a line of `/proc/PID/stat`. The name stands in
/// parentheses and may hold spaces and parentheses itself.
fn parse_stat(stat: &str) -> Option<Process> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let name = stat.get(open + 1..close)?.to_string();
    let parent = stat
        .get(close + 1..)?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    Some(Process { parent, name })
}

/// The pids below `root`, but for [`LEFT_ALONE`] and what is below them.
fn descendants(processes: &HashMap<i32, Process>, root: i32) -> HashSet<i32> {
    let mut found = HashSet::new();
    let mut frontier = vec![root];
    while let Some(parent) = frontier.pop() {
        for (&pid, process) in processes {
            let is_wanted =
                process.parent == parent && !LEFT_ALONE.contains(&process.name.as_str());
            if is_wanted && found.insert(pid) {
                frontier.push(pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(rows: &[(i32, i32, &str)]) -> HashMap<i32, Process> {
        rows.iter()
            .map(|&(pid, parent, name)| {
                (
                    pid,
                    Process {
                        parent,
                        name: name.to_string(),
                    },
                )
            })
            .collect()
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        let process = parse_stat("17 (a (b) c) S 5 17 17 0 -1").expect("a stat line");
        assert_eq!((process.parent, process.name.as_str()), (5, "a (b) c"));
        assert!(parse_stat("17 cut").is_none());
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_others_are_not() {
        let tree = tree(&[
            (2, 1, "cargo"),
            (3, 2, "test"),
            (4, 3, "qemu"),
            (9, 8, "other"),
        ]);
        assert_eq!(descendants(&tree, 1), HashSet::from([2, 3, 4]));
    }

    #[test]
    fn what_a_package_manager_started_is_left_alone() {
        let tree = tree(&[
            (2, 1, "apt-get"),
            (3, 2, "dpkg"),
            (4, 3, "sh"),
            (5, 1, "qemu"),
        ]);
        assert_eq!(descendants(&tree, 1), HashSet::from([5]));
    }
}
