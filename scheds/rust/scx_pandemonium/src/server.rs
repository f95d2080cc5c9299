//! The scx_stats server: which targets a client may ask for, and how the run
//! loop answers.
//!
//! Each client has a thread of the server's, which sends a [`Request`] to the
//! run loop, the only one that reads BPF maps, and gets a [`Response`]. The
//! targets are `top`, the difference to the client's own previous sample, so
//! that several can watch at their own pace, `tasks`, those of the moment, and
//! `profile`, which changes it if the argument `set` names another.
//!
//! Not here: what a target holds (stats, tasks, control), clients of ours
//! (monitor, client).

use std::io::Write;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use crossbeam::channel::{Receiver, Sender};
use nix::sys::stat::{Mode, umask};
use scx_stats::prelude::*;

use crate::control::profile::Profile;
use crate::stats::{Metrics, Sample};
use crate::tasks::{Task, Tasks};

/// The target that gives the [`Metrics`] since it was asked for last; what
/// clients of scx_stats ask for by default.
const TOP_TARGET: &str = "top";

/// The target that gives the [`Tasks`].
pub const TASKS_TARGET: &str = "tasks";

/// The target that gives the name of the profile.
pub const PROFILE_TARGET: &str = "profile";

/// The argument of that target which names the profile to change to.
pub const SET_ARG: &str = "set";

/// What a client of the stats server may ask the run loop for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The counters of all CPUs.
    Counters,
    /// Every task.
    Tasks,
    /// The profile, after it was changed to this one, if any.
    Profile(Option<Profile>),
}

/// What the run loop answers.
#[derive(Debug)]
pub enum Response {
    /// To [`Request::Counters`].
    Counters(Box<Sample>),
    /// To [`Request::Tasks`], the most latency-critical first.
    Tasks(Tasks),
    /// To [`Request::Profile`].
    Profile(Profile),
    /// To any: why there is no answer.
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
        .add_stats(
            PROFILE_TARGET,
            Box::new(|args, channels| {
                let wanted = args.get(SET_ARG).map(|name| parse_profile(name));
                let profile = ask_profile(wanted.transpose()?, channels)?;
                Ok(profile.to_string().into())
            }),
        )
}

/// Start the server. Only its owner may write to its socket, whatever the umask
/// is: a client may change how the machine is scheduled.
///
/// # Errors
///
/// If the socket cannot be made.
pub fn launch() -> Result<StatsServer<Request, Response>> {
    let before = umask(Mode::empty());
    umask(before | Mode::S_IWGRP | Mode::S_IWOTH);
    let server = StatsServer::new(data()).launch();
    umask(before);
    server
}

fn parse_profile(name: &str) -> Result<Profile> {
    Profile::from_str(name, false).map_err(|_| {
        let names = Profile::value_variants().iter().map(Profile::to_string);
        let names: Vec<String> = names.collect();
        anyhow!("no such profile: {name:?}, there are {}", names.join(", "))
    })
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
        other => bail!("asked for counters, got {other:?}"),
    }
}

/// Ask the run loop for the tasks.
fn ask_tasks((requests, responses): Channels<'_>) -> Result<Tasks> {
    requests.send(Request::Tasks)?;
    match responses.recv()? {
        Response::Tasks(tasks) => Ok(tasks),
        Response::Failed(why) => bail!(why),
        other => bail!("asked for tasks, got {other:?}"),
    }
}

/// Ask the run loop for the profile, and to change it to `wanted` before.
fn ask_profile(wanted: Option<Profile>, (requests, responses): Channels<'_>) -> Result<Profile> {
    requests.send(Request::Profile(wanted))?;
    match responses.recv()? {
        Response::Profile(profile) => Ok(profile),
        Response::Failed(why) => bail!(why),
        other => bail!("asked for the profile, got {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_profile_is_refused_with_the_choices() {
        for bad in ["", "Gaming", "fast", "auto\0"] {
            let why = parse_profile(bad).unwrap_err().to_string();
            assert!(why.contains("powersave"), "{why}");
        }
        assert_eq!(parse_profile("server").unwrap(), Profile::Server);
    }
}
