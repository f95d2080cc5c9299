// SPDX-License-Identifier: GPL-2.0
//! Threads of a scenario.

use std::io;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::clock;

/// Stack of a workload thread in bytes: it is locked in memory, and there may
/// be hundreds of them.
const STACK_BYTES: usize = 128 * 1024;

/// Start a thread with exact timers. Its name is what schedulers see.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new()
        .name(name.to_string())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // Without it the latencies are 50 us longer, which the report shows;
            // there is no one to tell here.
            let _ = clock::set_timer_slack_1ns();
            body()
        })
        .with_context(|| format!("starting thread {name}"))
}

/// The same for a thread that is measured: in SCHED_FIFO if `fifo`, which is the
/// session's when the limit is looked for. Its children are then in that class as
/// well.
pub fn spawn_measured<T: Send + 'static>(
    fifo: bool,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    spawn(name, move || {
        be_measured(fifo);
        body()
    })
}

/// The calling thread is measured: put it, and its children to come, into
/// SCHED_FIFO if `fifo`.
pub fn be_measured(fifo: bool) {
    if fifo {
        // Refused only without root, which was asked for at the start.
        let _ = enter_fifo();
    }
}

/// Put the calling thread into the lowest priority of SCHED_FIFO.
fn enter_fifo() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is a valid parameter for the whole call; 0 is the caller.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Wait for a thread and take its result.
pub fn join<T>(handle: JoinHandle<T>) -> Result<T> {
    handle
        .join()
        .map_err(|_| anyhow!("a workload thread panicked"))
}

/// Wait for all of `handles`, in their order.
pub fn join_all<T>(handles: Vec<JoinHandle<T>>) -> Result<Vec<T>> {
    handles.into_iter().map(join).collect()
}
