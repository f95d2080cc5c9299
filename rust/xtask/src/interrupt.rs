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
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::all_processes;

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

/// All processes of the machine, by pid; none if it does not tell.
fn processes() -> HashMap<i32, Process> {
    let Ok(processes) = all_processes() else {
        return HashMap::new();
    };
    processes
        .filter_map(|process| {
            // One that has ended meanwhile has no state.
            let stat = process.ok()?.stat().ok()?;
            let (parent, name) = (stat.ppid, stat.comm);
            Some((stat.pid, Process { parent, name }))
        })
        .collect()
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
    use std::process::Command;

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
    fn a_child_is_among_the_processes_of_the_machine() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a child");
        let processes = processes();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let found = processes.get(&(child.id() as i32)).expect("it is listed");
        assert_eq!(found.parent, std::process::id() as i32);
        assert_eq!(found.name, "sleep");
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
