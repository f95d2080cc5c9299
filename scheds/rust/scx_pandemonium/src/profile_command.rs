//! `scx_pandemonium profile`: shows or changes the profile of the running
//! scheduler.
//!
//! Not here: what a profile is (control::profile), who changes it (server).

use anyhow::Result;

use crate::client::Client;
use crate::control::profile::Profile;
use crate::output;
use crate::server::{PROFILE_TARGET, SET_ARG};

/// Change to `profile`, if one is given, and print which one is in use.
///
/// # Errors
///
/// If no scheduler of ours runs, or it refuses.
pub fn run(profile: Option<Profile>) -> Result<()> {
    let name = profile.map(|profile| profile.to_string());
    let args = name.as_ref().map(|name| (SET_ARG, name.as_str()));
    let args: Vec<(&str, &str)> = args.into_iter().collect();
    let now: String = Client::connect()?.ask(PROFILE_TARGET, &args)?;
    output::print(&format!("{now}\n"))
}
