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
/// nothing left to do: until its CPUs are there it may not, since they would
/// inherit that.
pub(crate) fn quiet_main_thread(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let has_cpus = threads.flatten().any(|thread| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.contains(VCPU_THREAD))
    });
    if !has_cpus {
        return false;
    }
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return true;
    };
    // SAFETY: all zeroes is a valid parameter, and the only one of SCHED_IDLE.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: a system call with a pointer to a value that lives across it. Of
    // a process it changes the thread that has its id, the main thread.
    let code =
        unsafe { libc::sched_setscheduler(pid.as_raw_nonzero().get(), libc::SCHED_IDLE, &param) };
    if code != 0 {
        log::warn!(
            "QEMU's main thread does not step back: {}",
            io::Error::last_os_error()
        );
    }
    true
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
