// SPDX-License-Identifier: GPL-2.0
//! What a scheduler costs when there is nothing to schedule.

use anyhow::Result;

use super::{Scenario, WARMUP_NS, measure};
use crate::clock::{NSEC_PER_MSEC, NSEC_PER_SEC};
use crate::probe::Probe;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::thread;

/// Nothing runs but a probe now and then.
pub const IDLE: Scenario = Scenario {
    id: "idle",
    about: "Nothing runs but a probe that wakes every 20 ms. Wake latency of the probe; busy: time \
            in which any task held a CPU, in thousandths of a CPU; switches and interrupts of the \
            whole machine per second, those of the legacy timer (IRQ 0) apart.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: |session| run_idle(session),
};

fn run_idle(session: &Session) -> Result<Findings> {
    let probe = Probe {
        name: "probe",
        period_ns: 20 * NSEC_PER_MSEC,
        work_ns: 0,
    }
    .spawn(session)?;
    let mut findings = measure(session)?;
    let machine = findings.machine;
    let probe = thread::join(probe)?;
    let seconds = session.length_ns() as f64 / NSEC_PER_SEC as f64;
    let held = 1000.0 * machine.held_ns as f64 / session.length_ns() as f64;

    findings.latency("wake", &probe.wake, &["p50"]);
    findings.headline("busy", held, "1/1000", Better::Lower);
    findings.headline(
        "interrupts",
        machine.interrupts as f64 / seconds,
        "1/s",
        Better::Lower,
    );
    findings.group("probe", probe.usage);
    Ok(findings)
}
