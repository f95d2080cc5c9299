// SPDX-License-Identifier: GPL-2.0
//! Threads of a scenario.

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
            // there is nobody to tell here.
            let _ = clock::set_timer_slack_1ns();
            body()
        })
        .with_context(|| format!("starting thread {name}"))
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
