// SPDX-License-Identifier: GPL-2.0
//! Threads that stay on one CPU.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::sched::{self, CpuSet};
use nix::unistd::Pid;

/// The caller, as the kernel's calls name it.
const SELF: Pid = Pid::from_raw(0);

/// The CPUs that this process may use.
pub(super) fn usable() -> Result<BTreeSet<u32>> {
    let set = sched::sched_getaffinity(SELF).context("asking which CPUs may be used")?;
    let is_set = |&cpu: &usize| set.is_set(cpu).unwrap_or(false);
    let cpus = (0..CpuSet::count()).filter(is_set);
    Ok(cpus.map(|cpu| cpu as u32).collect())
}

/// Keep the calling thread on `cpu`.
///
/// # Errors
///
/// If the kernel refuses that, as for a CPU that is offline or in another cpuset.
pub(super) fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)
        .and_then(|()| sched::sched_setaffinity(SELF, &set))
        .with_context(|| format!("keeping a thread on CPU {cpu}"))
}

/// What `body` returns, run by a thread of its own on `cpu`.
pub(super) fn on_cpu<T: Send>(cpu: u32, body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lines".to_string());
        let thread = thread.spawn_scoped(scope, || {
            pin(cpu)?;
            body()
        });
        let outcome = thread.context("starting a thread")?.join();
        outcome.map_err(|_| anyhow!("the thread on CPU {cpu} panicked"))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system;

    #[test]
    fn a_thread_is_where_it_was_put_and_the_caller_stays_free() {
        let usable = usable().unwrap();
        for &cpu in &usable {
            assert_eq!(
                on_cpu(cpu, || Ok(system::current_cpu())).unwrap(),
                cpu as i32
            );
        }
        assert_eq!(super::usable().unwrap(), usable);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_that_names_it() {
        let missing = CpuSet::count() as u32 - 1;
        for cpu in [missing, u32::MAX] {
            let refused = on_cpu(cpu, || Ok(())).unwrap_err().to_string();
            assert!(refused.contains(&format!("CPU {cpu}")), "{refused}");
        }
    }
}
