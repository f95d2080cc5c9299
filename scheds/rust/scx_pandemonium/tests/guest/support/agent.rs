// SPDX-License-Identifier: GPL-2.0
//! The test program as a program of the guest: what a shell cannot do.
//!
//! The guest runs this very program with `$GUEST_AGENT` set to a request; the
//! answer goes to file descriptor 3, apart from what the test harness prints. So
//! nothing has to be built or found besides the tests. Every scheduler's tests
//! may make these requests; they may add some of their own.
//!
//! - `stats`: the telemetry of the running scheduler since it was asked first,
//!   a tenth of a second ago, by the scx_stats client, as JSON.
//! - `stats-of-ms MS`: the same of so many ms.
//! - `stats-of-sleeper SLEEPS`: the telemetry of a task that sleeps so many
//!   times, with counts of the same by the kernel.
//! - `stats-of-load SECONDS`: the telemetry of so many seconds, with the number
//!   of the kernel's switches to a normal task.
//! - `stats-of-waiters SECONDS NR PERIOD_US BURST_US`: the telemetry of so many seconds
//!   of so many tasks that wake that often and work for so long, beside hogs, with each of
//!   their waits by the kernel's trace.
//! - `rodata`: the constants of the loaded BPF object, as hexadecimal digits.
//! - `load ...`: see load.rs. `crowd ...`: see crowd.rs. `project ...`: see build.rs.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::{build, crowd, load, telemetry};

const REQUEST_ENV: &str = "GUEST_AGENT";

/// Where the shell put the standard output that the harness does not have.
const ANSWER_PATH: &str = "/proc/self/fd/3";

/// Answers a request, if it is one that it knows.
pub type Answer = fn(&[&str]) -> Option<Result<String>>;

/// What the test `agent::in_a_guest` of a test program does: answer the request,
/// by `own` or else by one of those above, and end. Without a request there is
/// nothing to do.
pub fn main(own: Answer) -> ExitCode {
    let Ok(request) = std::env::var(REQUEST_ENV) else {
        return ExitCode::SUCCESS;
    };
    let words: Vec<&str> = request.split_whitespace().collect();
    let answer = own(&words).unwrap_or_else(|| answer(&words));
    let answer = answer.and_then(|answer| {
        let mut file = File::create(ANSWER_PATH).context("opening the answer")?;
        writeln!(file, "{answer}").context("answering")
    });
    match answer {
        // The harness has nothing to say here.
        Ok(()) => std::process::exit(0),
        Err(err) => {
            eprintln!("agent {request}: {err:#}");
            std::process::exit(1)
        }
    }
}

fn answer(words: &[&str]) -> Result<String> {
    match words {
        ["stats"] => telemetry::of_ms(100),
        ["stats-of-ms", ms] => telemetry::of_ms(ms.parse()?),
        ["stats-of-sleeper", nr_sleeps] => telemetry::of_sleeper(nr_sleeps.parse()?),
        ["stats-of-load", seconds] => telemetry::of_load(seconds.parse()?),
        ["stats-of-waiters", seconds, nr, period_us, burst_us] => telemetry::of_waiters(
            seconds.parse()?,
            nr.parse()?,
            period_us.parse()?,
            burst_us.parse()?,
        ),
        ["rodata"] => rodata(),
        ["load", words @ ..] => load::run(words),
        ["crowd", words @ ..] => crowd::run(words),
        ["project", words @ ..] => build::project(words),
        _ => bail!("no such request"),
    }
}

/// The bytes of the one map of constants that is loaded.
fn rodata() -> Result<String> {
    let mut ids = MapInfoIter::default()
        .filter(|map| map.name.to_string_lossy().ends_with(".rodata"))
        .map(|map| map.id);
    let (Some(id), None) = (ids.next(), ids.next()) else {
        bail!("there is not exactly one map of constants");
    };
    let map = MapHandle::from_map_id(id).context("opening the constants")?;
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .context("reading the constants")?
        .context("the constants are absent")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
