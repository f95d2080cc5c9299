//! The scx_stats server: which targets a client may ask for, and how the run
//! loop answers.
//!
//! Each client has a thread of the server's, which sends a [`Request`] to the
//! run loop, the only one that reads BPF maps, and gets a [`Response`]. The
//! targets are `top`, the difference to the client's own previous sample, so
//! that several can watch at their own pace (or, if the argument `counts` is
//! `total`, with the counts since the start), `tasks`, those of the moment, and
//! `profile`, which changes it if the argument `set` names another.
//!
//! Not here: what a target holds (stats, tasks, control), clients of ours
//! (monitor, client).

use std::collections::BTreeMap;

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
pub const TOP_TARGET: &str = "top";

/// The argument of that target which says since when events are counted; the
/// word for the start of the scheduler, rather than the client's last question.
pub const COUNTS_ARG: &str = "counts";
pub const COUNTS_TOTAL: &str = "total";

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

        let read: Box<dyn StatsReader<Request, Response>> = Box::new(move |args, channels| {
            let are_totals = wants_totals(args)?;
            let now = ask_counters(channels)?;
            let delta = now.since(&earlier);
            let metrics = if are_totals {
                Metrics::counting(&now, &delta)
            } else {
                Metrics::new(&delta)
            };
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

/// Whether a client wants counts since the start.
fn wants_totals(args: &BTreeMap<String, String>) -> Result<bool> {
    match args.get(COUNTS_ARG).map(String::as_str) {
        None => Ok(false),
        Some(COUNTS_TOTAL) => Ok(true),
        Some(other) => bail!("{COUNTS_ARG} is {COUNTS_TOTAL} or not given, not {other:?}"),
    }
}

fn parse_profile(name: &str) -> Result<Profile> {
    Profile::from_str(name, false).map_err(|_| {
        let names = Profile::value_variants().iter().map(Profile::to_string);
        let names: Vec<String> = names.collect();
        anyhow!("no such profile: {name:?}, there are {}", names.join(", "))
    })
}

/// What each field of what the server offers means.
///
/// # Errors
///
/// If a description is missing.
pub fn describe() -> Result<String> {
    let mut text = Vec::new();
    data().describe_meta(&mut text, Some(&["Metrics", "Tasks"]))?;
    Ok(String::from_utf8(text)?)
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
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::{LazyLock, Mutex};

    use proptest::prelude::*;

    use super::*;
    use crate::fuzz;

    #[test]
    fn counts_are_totals_only_if_asked_for() {
        let wants = |value: Option<&str>| {
            let arg = value.map(|value| (COUNTS_ARG.to_owned(), value.to_owned()));
            wants_totals(&arg.into_iter().collect())
        };
        assert!(!wants(None).unwrap());
        assert!(wants(Some("total")).unwrap());
        assert!(wants(Some("all")).is_err());
    }

    #[test]
    fn an_unknown_profile_is_refused_with_the_choices() {
        for bad in ["", "Gaming", "fast", "auto\0"] {
            let why = parse_profile(bad).unwrap_err().to_string();
            assert!(why.contains("powersave"), "{why}");
        }
        assert_eq!(parse_profile("server").unwrap(), Profile::Server);
    }

    /// What a client may send, and the words of it.
    const GOOD: &str = r#"{"req":"stats","args":{"target":"profile","set":"gaming"}}"#;
    const WORDS: &[&str] = &[
        "top",
        "tasks",
        "stats_meta",
        "null",
        "[[[[",
        "{}",
        "-1",
        "\\u0000",
        "\"target\":",
        "lowlatency",
    ];

    /// A server as clients see it, with a thread that answers, and a client.
    struct Served {
        _server: StatsServer<Request, Response>,
        _dir: tempfile::TempDir,
        path: std::path::PathBuf,
        client: Option<BufReader<UnixStream>>,
    }

    impl Served {
        fn begin() -> Served {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("stats");
            let server = StatsServer::new(data()).set_path(&path).launch().unwrap();
            let (responses, requests) = server.channels();
            std::thread::spawn(move || {
                for request in requests {
                    let response = match request {
                        Request::Counters => Response::Counters(Box::default()),
                        Request::Tasks => Response::Failed("no tasks".to_owned()),
                        Request::Profile(profile) => {
                            Response::Profile(profile.unwrap_or(Profile::Auto))
                        }
                    };
                    responses.send(response).unwrap();
                }
            });
            Served {
                _server: server,
                _dir: dir,
                path,
                client: None,
            }
        }

        /// The answer to a line; none if the server wants no more of this client.
        fn ask(&mut self, line: &[u8]) -> Option<serde_json::Value> {
            let connect = || BufReader::new(UnixStream::connect(&self.path).unwrap());
            let client = self.client.get_or_insert_with(connect);
            client.get_mut().write_all(&[line, b"\n"].concat()).unwrap();
            let mut answer = String::new();
            let nr_read = client.read_line(&mut answer).unwrap_or(0);
            if nr_read == 0 {
                self.client = None;
                return None;
            }
            Some(serde_json::from_str(&answer).unwrap())
        }
    }

    proptest! {
        #![proptest_config(fuzz::config(500))]

        /// Each line gets one answer, and what is no text ends the connection; the
        /// next client is served.
        #[test]
        fn fuzz_requests(damages in fuzz::damages()) {
            static SERVED: LazyLock<Mutex<Served>> =
                LazyLock::new(|| Mutex::new(Served::begin()));
            let mut served = SERVED.lock().unwrap();
            let mut line = fuzz::damaged(GOOD.as_bytes(), WORDS, &damages);
            line.retain(|byte| *byte != b'\n');
            let answer = served.ask(&line);
            prop_assert_eq!(answer.is_some(), str::from_utf8(&line).is_ok());
            let answer = served.ask(GOOD.as_bytes()).unwrap();
            prop_assert_eq!(&answer["args"]["resp"], "gaming");
        }
    }
}
