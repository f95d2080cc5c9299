//! A client of the stats server of the running scheduler: what the subcommands
//! ask with.
//!
//! Not here: what may be asked for (server).

use std::io::ErrorKind;

use anyhow::{Result, anyhow};
use scx_stats::prelude::StatsClient;
use serde::de::DeserializeOwned;

/// How long the scheduler may take to answer, in ms.
const ANSWER_LIMIT_MS: u64 = 5000;

/// A connection to the running scheduler.
pub struct Client(StatsClient);

impl Client {
    /// Connect to the running scheduler.
    ///
    /// # Errors
    ///
    /// If no scheduler of ours runs, or the user may not ask it.
    pub fn connect() -> Result<Client> {
        let client = StatsClient::new().connect(Some(ANSWER_LIMIT_MS));
        client.map(Client).map_err(|err| {
            let kind = err.downcast_ref().map(std::io::Error::kind);
            match kind {
                Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                    anyhow!("no scx_pandemonium is running: start it first")
                }
                Some(ErrorKind::PermissionDenied) => {
                    anyhow!("asking the scheduler needs root: use sudo")
                }
                _ => err.context("connecting to the scheduler"),
            }
        })
    }

    /// What the server says of `target`, with these further arguments.
    ///
    /// # Errors
    ///
    /// If the server refuses, ends, or is that of another scheduler.
    pub fn ask<T: DeserializeOwned>(&mut self, target: &str, args: &[(&str, &str)]) -> Result<T> {
        let args = [("target", target)].into_iter().chain(args.iter().copied());
        let args = args.map(|(key, value)| (key.to_string(), value.to_string()));
        let answer = self.0.request("stats", args.collect());
        answer.map_err(explain_refusal)
    }
}

/// Make one line of what the server said no with.
fn explain_refusal(err: anyhow::Error) -> anyhow::Error {
    let why = err.root_cause().to_string();
    if why.contains("unknown stat target") {
        return anyhow!("the running scheduler is not scx_pandemonium, or is older");
    }
    let why = why.lines().next().unwrap_or_default().to_owned();
    anyhow!("the scheduler did not answer: {why}")
}
