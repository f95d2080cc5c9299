// SPDX-License-Identifier: GPL-2.0
//! How long it takes to start a program.

use anyhow::Result;
use nix::sys::wait::waitpid;

use super::{Scenario, WARMUP_NS, add_hogs, measure};
use crate::clock::{self, NSEC_PER_MSEC, now_ns};
use crate::load::Hogs;
use crate::result::Findings;
use crate::session::Session;
use crate::shared::{Command, Helper};
use crate::stats::Recorder;
use crate::thread;

/// Pause between two launches, in nanoseconds.
const PAUSE_NS: u64 = 2 * NSEC_PER_MSEC;

/// Fork, exec and exit under load.
pub const LAUNCH: Scenario = Scenario {
    id: "launch",
    about: "N hogs. A process forks and execs a program that exits at once, waits for it, pauses \
            2 ms and starts again. Launch: from before the fork to after the wait.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_launch,
};

fn run_launch(session: &Session) -> Result<Findings> {
    let launcher = start_launcher(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus), 0)?;
    let mut findings = measure(session)?;
    let mut launches = Recorder::new();
    launcher
        .join()?
        .into_iter()
        .for_each(|time_ns| launches.record(time_ns));
    findings.latency("launch", &launches, &["mean", "p95"]);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

fn start_launcher(session: &Session) -> Result<Helper> {
    let start_ns = session.next_start_ns();
    let child = Command::new("launch", 0, 1, 0)?;
    let session = session.clone();
    Helper::start(move |log| {
        let _ = clock::set_timer_slack_1ns();
        thread::be_measured(session.fifo);
        clock::sleep_until_ns(start_ns);
        loop {
            let forked_ns = now_ns();
            if forked_ns >= session.to_ns {
                return;
            }
            let Ok(pid) = child.spawn() else { return };
            let _ = waitpid(pid, None);
            clock::spin_for_ns(session.inject_ns);
            if session.counts(forked_ns) {
                log.push(now_ns() - forked_ns);
            }
            clock::sleep_ns(PAUSE_NS);
        }
    })
}
