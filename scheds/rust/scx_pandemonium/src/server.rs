//! The scx_stats server: which targets a client may ask for, and how the run
//! loop answers.
//!
//! Each client has a thread of the server's, which sends a [`Request`] to the
//! run loop, the only one that reads BPF maps, and gets a [`Response`]. The
//! targets are `top`, the difference to the client's own previous sample, so
//! that several can watch at their own pace, and `tasks`, those of the moment.
//!
//! Not here: what a target holds (stats, tasks), clients of ours (monitor,
//! tasks_command).

use std::io::Write;

use anyhow::{Result, bail};
use crossbeam::channel::{Receiver, Sender};
use scx_stats::prelude::*;

use crate::stats::{Metrics, Sample};
use crate::tasks::{Task, Tasks};

/// The target that gives the [`Metrics`] since it was asked for last; what
/// clients of scx_stats ask for by default.
const TOP_TARGET: &str = "top";

/// The target that gives the [`Tasks`].
pub const TASKS_TARGET: &str = "tasks";

/// What a client of the stats server may ask the run loop for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The counters of all CPUs.
    Counters,
    /// Every task.
    Tasks,
}

/// What the run loop answers.
#[derive(Debug)]
pub enum Response {
    /// To [`Request::Counters`].
    Counters(Box<Sample>),
    /// To [`Request::Tasks`], the most latency-critical first.
    Tasks(Tasks),
    /// To either: why there is no answer.
    Failed(String),
}

/// The channels on which a client asks the run loop.
type Channels<'a> = (&'a Sender<Request>, &'a Receiver<Response>);

/// What the server offers, for [`StatsServer`].
pub fn data() -> StatsServerData<Request, Response> {
    let open: Box<dyn StatsOpener<Request, Response>> = Box::new(move |channels| {
        let mut earlier = ask_counters(channels)?;

        let read: Box<dyn StatsReader<Request, Response>> = Box::new(move |_args, channels| {
            let now = ask_counters(channels)?;
            let metrics = Metrics::new(&now.since(&earlier));
            earlier = now;
            metrics.to_json()
        });
        Ok(read)
    });

    StatsServerData::new()
        .add_meta(Metrics::meta())
        .add_ops(TOP_TARGET, StatsOps { open, close: None })
        .add_meta(Tasks::meta())
        .add_meta(Task::meta())
        .add_stats(
            TASKS_TARGET,
            Box::new(|_args, channels| ask_tasks(channels)?.to_json()),
        )
}

/// Describe each field of what the server offers.
///
/// # Errors
///
/// If `out` is closed.
pub fn describe(out: &mut impl Write) -> Result<()> {
    data().describe_meta(out, Some(&["Metrics", "Tasks"]))
}

/// Ask the run loop for the counters.
fn ask_counters((requests, responses): Channels<'_>) -> Result<Sample> {
    requests.send(Request::Counters)?;
    match responses.recv()? {
        Response::Counters(sample) => Ok(*sample),
        Response::Failed(why) => bail!(why),
        Response::Tasks(_) => bail!("asked for counters, got tasks"),
    }
}

/// Ask the run loop for the tasks.
fn ask_tasks((requests, responses): Channels<'_>) -> Result<Tasks> {
    requests.send(Request::Tasks)?;
    match responses.recv()? {
        Response::Tasks(tasks) => Ok(tasks),
        Response::Failed(why) => bail!(why),
        Response::Counters(_) => bail!("asked for tasks, got counters"),
    }
}
