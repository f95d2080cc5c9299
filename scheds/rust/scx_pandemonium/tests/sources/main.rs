// SPDX-License-Identifier: GPL-2.0
//! What a compiler does not miss, held by a look at the sources: no knob without
//! a reader, no counter without a writer and a meaning, no timer that is taken to
//! run though the kernel refused to start it, (in `rooms`) what ARCHITECTURE.md
//! promises of the BPF rooms, and (in `object`) what kernels ask of the BPF object.

use anyhow::{Context, Result, ensure};

use crate::c::places;

mod c;
mod object;
mod rooms;

/// Shows what is set without deciding by it, and sets the defaults.
const NO_READERS: &[&str] = &["debug", "main"];

/// The code of all rooms but those called `except`.
fn code_of_rooms(except: &[&str]) -> Result<String> {
    let rooms = c::rooms()?.into_iter();
    let chosen = rooms.filter(|room| !except.contains(&room.name.as_str()));
    Ok(chosen.map(|room| room.code).collect())
}

fn intf() -> Result<String> {
    Ok(c::without_comments(&c::read(&c::source("bpf/intf.h"))?))
}

#[test]
fn every_knob_is_read_where_something_is_decided() -> Result<()> {
    let code = code_of_rooms(NO_READERS)?;
    let intf = intf()?;
    let knobs = c::fields(&intf, "struct knobs")?;
    ensure!(knobs.len() > 3, "only {knobs:?} were found");
    for (_, knob) in knobs {
        let is_read = places(&code, &knob).any(|(before, _)| before.ends_with("knobs."));
        ensure!(is_read, "nothing reads the knob {knob}");
    }
    Ok(())
}

#[test]
fn every_counter_is_written_and_reported() -> Result<()> {
    let code = code_of_rooms(&[])?;
    let stats = c::read(&c::source("stats.rs"))?;
    let intf = intf()?;
    let body = c::body(&intf, "enum stat_id")?;
    let ids = body.split(',').map(str::trim);
    let ids: Vec<&str> = ids.filter(|id| id.starts_with("STAT_")).collect();
    ensure!(ids.len() > 10, "only {ids:?} were found");
    for id in ids {
        ensure!(places(&code, id).next().is_some(), "nothing counts {id}");
        let in_rust = format!("stat_id_{id}");
        let metrics = stats.split_once("impl Metrics").context("no metrics")?.1;
        let is_reported = places(metrics, &in_rust).any(|(before, _)| before.ends_with("count("));
        ensure!(is_reported, "nothing reports {id}");
    }
    Ok(())
}

/// The kernel may refuse to start a timer. One that is believed to run all the same
/// is not started again.
#[test]
fn every_start_of_a_timer_is_asked_for_its_result() -> Result<()> {
    let mut nr_starts = 0;
    for path in c::files()? {
        let code = c::without_comments(&c::read(&path)?);
        for (before, _) in places(&code, "bpf_timer_start") {
            nr_starts += 1;
            let is_asked = before.ends_with("if (") || before.ends_with("if (!");
            let file = path.display();
            ensure!(is_asked, "{file} ignores what bpf_timer_start() returns");
        }
    }
    ensure!(nr_starts > 1, "only {nr_starts} starts were found");
    Ok(())
}
