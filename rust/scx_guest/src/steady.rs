// SPDX-License-Identifier: GPL-2.0
//! QEMU on a busy host, made as repeatable as on a quiet one.
//!
//! One thread of QEMU emulates all CPUs and runs the timers of their clock as
//! they are due. QEMU's main thread may run such a timer too, if it is awake at
//! that moment, and then the CPUs take their turns a little differently from
//! there on. Whether it is awake depends on what else the host does. So the two
//! share one core of the host, where the main thread runs only while the other
//! has nothing to do (SCHED_IDLE), such as at the very end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Part of the name of QEMU's thread that emulates the CPUs.
const VCPU_THREAD: &str = "TCG";

/// What that thread uses at the most before the CPUs run.
const RAN_MIN_NS: u64 = 5_000_000;

/// A core of the host that no other guest of this user runs on.
#[derive(Debug)]
pub(crate) struct Core {
    set: CpuSet,
    /// Locked; the system lets go of it when this process ends, however it ends.
    _lock: File,
}

impl Core {
    /// A core that this process may use and no other guest has. `None` if there
    /// is none left, or if the locks below `dir` cannot be made: the guest then
    /// runs wherever the host likes.
    pub(crate) fn claim(dir: &Path) -> Option<Core> {
        let allowed = sched_getaffinity(None).ok()?;
        fs::create_dir_all(dir).ok()?;
        (0..CpuSet::MAX_CPU)
            .filter(|cpu| allowed.is_set(*cpu))
            .find_map(|cpu| {
                let lock = try_lock(&dir.join(format!("core-{cpu}.lock")))?;
                let mut set = CpuSet::new();
                set.set(cpu);
                Some(Core { set, _lock: lock })
            })
    }

    /// Move the calling thread, and what it starts, to the core. Makes one
    /// system call, so that it may be called between fork and exec.
    pub(crate) fn enter(set: &CpuSet) -> io::Result<()> {
        Ok(sched_setaffinity(None, set)?)
    }

    /// What to [`Core::enter`].
    pub(crate) fn set(&self) -> CpuSet {
        self.set
    }
}

fn try_lock(path: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Let the main thread of QEMU process `pid` step back. Returns whether there is
/// nothing left to do: until its CPUs run it may not, since they would inherit that, and
/// since it is the one that loads a machine that was kept.
pub(crate) fn quiet_main_thread(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let cpus = threads.flatten().find(|thread| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.contains(VCPU_THREAD))
    });
    let Some(cpus) = cpus else {
        return false;
    };
    // Its first number is the time that a thread ran, in ns.
    let times = fs::read_to_string(cpus.path().join("schedstat")).unwrap_or_default();
    let ran_ns = times.split(' ').next().and_then(|word| word.parse().ok());
    if ran_ns.is_some_and(|ran_ns: u64| ran_ns < RAN_MIN_NS) {
        return false;
    }
    set_policy(pid, libc::SCHED_IDLE);
    true
}

/// Let the main thread of QEMU process `pid`, whose CPUs are stopped, be as others again.
pub(crate) fn hurry_main_thread(pid: u32) {
    set_policy(pid, libc::SCHED_OTHER);
}

/// Give the main thread of process `pid` another scheduling policy.
fn set_policy(pid: u32, policy: libc::c_int) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    // SAFETY: all zeroes is a valid parameter, and the only one of these policies.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: a system call with a pointer to a value that lives across it. Of
    // a process it changes the thread that has its id, the main thread.
    let code = unsafe { libc::sched_setscheduler(pid.as_raw_nonzero().get(), policy, &param) };
    if code != 0 {
        log::warn!(
            "QEMU's main thread does not change its policy: {}",
            io::Error::last_os_error()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_claimed_once_and_free_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let mut cores: Vec<Core> = std::iter::from_fn(|| Core::claim(dir.path())).collect();
        let allowed = sched_getaffinity(None).unwrap();
        assert_eq!(cores.len(), allowed.count() as usize);
        assert!(cores.pop().is_some());
        assert!(Core::claim(dir.path()).is_some());
    }

    #[test]
    fn a_process_that_is_gone_needs_nothing() {
        assert!(quiet_main_thread(u32::MAX));
    }
}
