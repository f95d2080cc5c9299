// SPDX-License-Identifier: GPL-2.0
//! Wake latency of a periodic task beside every kind of load.

use anyhow::Result;

use super::{Scenario, WARMUP_NS, add_hogs, measure};
use crate::clock::{NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC};
use crate::load::{Cycle, Hogs, Storm, Turn};
use crate::probe::{Probe, Seen};
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::Recorder;
use crate::thread;

/// What a plain wakeup probe does: wake, look at the clock, sleep.
pub const PLAIN_PROBE: Probe = Probe {
    name: "probe",
    period_ns: 2 * NSEC_PER_MSEC,
    work_ns: 0,
};

/// N hogs and a plain probe.
pub const SATURATION: Scenario = Scenario {
    id: "saturation",
    about: "N hogs (tasks that never sleep). A probe wakes every 2 ms and does nothing. \
            Wake latency: from its absolute deadline to its first instruction.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| beside_hogs(session, 1, PLAIN_PROBE),
};

/// 2N hogs and a probe that works.
pub const DOUBLE: Scenario = Scenario {
    id: "double",
    about: "2N hogs. A probe wakes every 3 ms and uses 0.1 ms of CPU. Wake latency as in \
            saturation; done: from the deadline to the end of the work.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| {
        let period_ns = 3 * NSEC_PER_MSEC;
        beside_hogs(
            session,
            2,
            Probe {
                name: "probe",
                period_ns,
                work_ns: 100 * NSEC_PER_USEC,
            },
        )
    },
};

/// Hogs, a fork storm and a probe.
pub const STORM: Scenario = Scenario {
    id: "storm",
    about: "N hogs and a fork storm: every 100 ms 4N processes at once are forked and exec'ed, \
            each using 2 ms of CPU. A probe wakes every 2 ms. Wake latency of the probe; burst: \
            from the first fork to the last exit.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_storm,
};

/// A probe before, during and after a storm.
pub const RECOVERY: Scenario = Scenario {
    id: "recovery",
    about: "N hogs; in the middle third of the time a fork storm as in storm. A probe wakes every \
            2 ms. Wake latency in each third by itself; back: from the end of the storm to the \
            last wakeup later than the p99 before it.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_recovery,
};

/// Hogs that have run for long.
pub const LONGRUN: Scenario = Scenario {
    id: "longrun",
    about: "N hogs that have run for a second already. A probe wakes every 5 ms and uses 0.3 ms \
            of CPU. Wake latency and done as in double.",
    seconds: 3.0,
    warmup_ns: NSEC_PER_SEC,
    saturates: true,
    run: |session| {
        let period_ns = 5 * NSEC_PER_MSEC;
        beside_hogs(
            session,
            1,
            Probe {
                name: "probe",
                period_ns,
                work_ns: 300 * NSEC_PER_USEC,
            },
        )
    },
};

/// Batch tasks that sleep now and then.
pub const MIXED: Scenario = Scenario {
    id: "mixed",
    about: "Batch tasks that sleep: N use 50 ms of CPU between sleeps of 1 ms, N use 30 ms between \
            sleeps of 20 ms. A probe wakes every 2 ms and uses 0.1 ms of CPU. Wake latency and \
            done as in double.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: run_mixed,
};

fn beside_hogs(session: &Session, hogs_per_cpu: usize, probe: Probe) -> Result<Findings> {
    let probe_handle = probe.spawn(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus * hogs_per_cpu), 0)?;
    let mut findings = measure(session)?;
    add_probe(
        &mut findings,
        &thread::join(probe_handle)?,
        probe.work_ns > 0,
    );
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

fn run_storm(session: &Session) -> Result<Findings> {
    let storm = Storm::start(session, session.t0_ns, session.load_to_ns)?;
    let probe = PLAIN_PROBE.spawn(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus), 0)?;
    let mut findings = measure(session)?;
    add_probe(&mut findings, &thread::join(probe)?, false);
    add_hogs(session, &mut findings, &hogs.join()?);
    let storm = storm.join(session)?;
    findings.latency("burst", &storm.time, &[]);
    findings.detail("children", storm.children as f64, "", Better::Neither);
    Ok(findings)
}

fn run_recovery(session: &Session) -> Result<Findings> {
    let third_ns = session.length_ns() / 3;
    let (storm_from_ns, storm_to_ns) = (session.from_ns + third_ns, session.to_ns - third_ns);
    let storm = Storm::start(session, storm_from_ns, storm_to_ns)?;
    let probe = PLAIN_PROBE.spawn(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(session.cpus), 0)?;
    let mut findings = measure(session)?;

    let probe = thread::join(probe)?;
    let mut thirds = [Recorder::new(), Recorder::new(), Recorder::new()];
    for event in &probe.events {
        thirds[((event.at_ns / third_ns) as usize).min(2)].record(event.wake_ns);
    }
    let normal_ns = thirds[0].percentile_ns(99.0);
    let last_late = probe
        .events
        .iter()
        .rev()
        .find(|event| event.wake_ns > normal_ns);
    let back_ns = last_late.map_or(0, |event| event.at_ns.saturating_sub(2 * third_ns));
    for (name, samples) in ["before", "during", "after"].into_iter().zip(&thirds) {
        findings.latency(name, samples, &["p99"]);
    }
    findings.detail(
        "back",
        back_ns as f64 / NSEC_PER_MSEC as f64,
        "ms",
        Better::Lower,
    );
    findings.group("probe", probe.usage);
    add_hogs(session, &mut findings, &hogs.join()?);
    storm.join(session)?;
    Ok(findings)
}

fn run_mixed(session: &Session) -> Result<Findings> {
    let busy = Cycle {
        name: "batch",
        run: Turn::Cpu(50 * NSEC_PER_MSEC),
        sleep_ns: NSEC_PER_MSEC,
    };
    let backup = Cycle {
        name: "backup",
        run: Turn::Cpu(30 * NSEC_PER_MSEC),
        sleep_ns: 20 * NSEC_PER_MSEC,
    };
    let probe = Probe {
        work_ns: 100 * NSEC_PER_USEC,
        ..PLAIN_PROBE
    }
    .spawn(session)?;
    let busy = busy.spawn(session, session.nr_load(session.cpus))?;
    let backup = backup.spawn(session, session.nr_load(session.cpus))?;
    let mut findings = measure(session)?;
    add_probe(&mut findings, &thread::join(probe)?, true);
    findings.group("batch", busy.join()?);
    findings.group("backup", backup.join()?);
    Ok(findings)
}

fn add_probe(findings: &mut Findings, seen: &Seen, works: bool) {
    findings.latency("wake", &seen.wake, &["p99"]);
    if works {
        findings.latency("done", &seen.done, &[]);
    }
    findings.group("probe", seen.usage);
}
