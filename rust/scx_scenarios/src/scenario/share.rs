// SPDX-License-Identifier: GPL-2.0
//! Who gets how much CPU, and how long the others wait for theirs.

use anyhow::Result;

use super::{Scenario, WARMUP_NS, add_hogs, measure, share_pct};
use crate::clock::NSEC_PER_MSEC;
use crate::load::hog::HogsSeen;
use crate::load::{Cycle, Hogs, Turn};
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::stats::jain_index;

/// Nice value of the lesser half in the nice scenario.
const NICE_LESSER: i32 = 10;
/// What the kernel's weights make of it: 1024 to 110.
const NICE_RATIO: f64 = 1024.0 / 110.0;

/// Equal hogs that divide evenly.
pub const FAIR: Scenario = Scenario {
    id: "fair",
    about: "2N equal hogs. Spread: CPU time of the luckiest minus the unluckiest, in percent of \
            the mean; Jain's index of their CPU times; gap: longest time between two looks at the \
            clock of any hog, which it takes every 20000 instructions.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_equal(session, 2 * session.cpus),
};

/// Equal hogs that do not divide evenly.
pub const FAIR_ODD: Scenario = Scenario {
    id: "fair_odd",
    about: "N+1 equal hogs, which only changing places can share fairly. Figures as in fair.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_equal(session, session.cpus + 1),
};

/// Hogs of two nice values.
pub const NICE: Scenario = Scenario {
    id: "nice",
    about: "N hogs of nice 0 and N hogs of nice 10. Ratio of the CPU times of the two groups; the \
            kernel's weights say 9.3.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_nice,
};

/// Hogs among many sleepers.
pub const FLOOD: Scenario = Scenario {
    id: "flood",
    about: "N hogs beside 4N tasks that want half a CPU each (1 ms of CPU, 1 ms of sleep). Gap: \
            longest time between two looks at the clock of any hog; share: CPU of all hogs in \
            percent of the machine, where a fair fifth is 20.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_flood,
};

/// Hogs beside some that cheat.
pub const CHEAT: Scenario = Scenario {
    id: "cheat",
    about: "N hogs beside N that sleep for 1 ms in each 10 ms of wall time, to look interactive. \
            Gain: CPU time of a cheat to that of an honest hog, 1 by the weights; share: CPU of \
            the honest in percent of the machine, half of it by the weights; gap: longest time \
            between two looks at the clock of any honest hog.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_cheat,
};

fn run_equal(session: &Session, count: usize) -> Result<Findings> {
    let hogs = Hogs::spawn(session, count, 0)?;
    let mut findings = measure(session)?;
    let hogs = hogs.join()?;
    let cpu_ns = hogs.cpu_ns();
    let most = cpu_ns.iter().copied().fold(0.0, f64::max);
    let least = cpu_ns.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = cpu_ns.iter().sum::<f64>() / cpu_ns.len() as f64;
    findings.headline("spread", 100.0 * (most - least) / mean, "%", Better::Lower);
    findings.detail("jain", jain_index(&cpu_ns), "", Better::Higher);
    add_gap(&mut findings, &hogs);
    add_hogs(session, &mut findings, &hogs);
    Ok(findings)
}

fn run_nice(session: &Session) -> Result<Findings> {
    let greater = Hogs::spawn(session, session.cpus, 0)?;
    let lesser = Hogs::spawn(session, session.cpus, NICE_LESSER)?;
    let mut findings = measure(session)?;
    let (greater, lesser) = (greater.join()?, lesser.join()?);
    let ratio = greater.usage().cpu_ns as f64 / lesser.usage().cpu_ns.max(1) as f64;
    findings.headline("ratio", ratio, "", Better::Near(NICE_RATIO));
    add_gap(&mut findings, &lesser);
    add_hogs(session, &mut findings, &greater);
    findings.group("niced", lesser.usage());
    Ok(findings)
}

fn run_flood(session: &Session) -> Result<Findings> {
    let flood = Cycle {
        name: "flood",
        run: Turn::Cpu(NSEC_PER_MSEC),
        sleep_ns: NSEC_PER_MSEC,
    };
    let hogs = Hogs::spawn(session, session.cpus, 0)?;
    let flood = flood.spawn(session, session.nr_load(4 * session.cpus))?;
    let mut findings = measure(session)?;
    let hogs = hogs.join()?;
    add_gap(&mut findings, &hogs);
    let share = share_pct(session, hogs.usage().cpu_ns);
    findings.headline("share", share, "%", Better::Near(20.0));
    add_hogs(session, &mut findings, &hogs);
    findings.group("flood", flood.join()?);
    Ok(findings)
}

fn run_cheat(session: &Session) -> Result<Findings> {
    let cheat = Cycle {
        name: "cheat",
        run: Turn::Wall(9 * NSEC_PER_MSEC),
        sleep_ns: NSEC_PER_MSEC,
    };
    let hogs = Hogs::spawn(session, session.cpus, 0)?;
    let cheats = cheat.spawn(session, session.nr_load(session.cpus))?;
    let mut findings = measure(session)?;
    let (hogs, cheats) = (hogs.join()?, cheats.join()?);
    let gain = cheats.cpu_ns as f64 / hogs.usage().cpu_ns.max(1) as f64;
    findings.headline("gain", gain, "", Better::Lower);
    add_gap(&mut findings, &hogs);
    let share = share_pct(session, hogs.usage().cpu_ns);
    findings.headline("share", share, "%", Better::Higher);
    add_hogs(session, &mut findings, &hogs);
    findings.group("cheats", cheats);
    Ok(findings)
}

fn add_gap(findings: &mut Findings, hogs: &HogsSeen) {
    let gap_ms = hogs.gap_max_ns() as f64 / NSEC_PER_MSEC as f64;
    findings.headline("gap", gap_ms, "ms", Better::Lower);
}
