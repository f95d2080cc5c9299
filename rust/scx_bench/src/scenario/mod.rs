// SPDX-License-Identifier: GPL-2.0
//! The scenarios: each a load, a question and the figures that answer it.
//!
//! A scenario is one function that starts its processes, then its probes, then
//! its loads, waits for the measurement to pass and collects what they saw.
//! N stands for the number of CPUs throughout. "Latency" is always from the
//! instant something became due to the first instruction that deals with it.

mod batch;
mod deadline;
mod idle;
mod ipc;
mod launch;
mod messages;
mod share;
mod wake;

use std::sync::Arc;

use anyhow::{Result, bail};

use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC};
use crate::cost::Counters;
use crate::load::hog::HogsSeen;
use crate::result::{Better, Findings, ScenarioResult};
use crate::session::{Params, Session};
use crate::system::{CpuMap, MachineCounters};

/// A scenario of the bench.
#[derive(Debug)]
pub struct Scenario {
    /// Name on the command line and in results.
    pub id: &'static str,
    /// What runs, with which period and work, and what is measured from where
    /// to where.
    pub about: &'static str,
    /// Default length of the measurement in seconds.
    pub seconds: f64,
    /// Load before the measurement, in nanoseconds.
    warmup_ns: u64,
    /// More tasks want CPUs than there are, all the time: then no CPU may idle.
    saturates: bool,
    run: fn(&Session) -> Result<Findings>,
}

/// Load before the measurement where a scenario has no reason for more.
const WARMUP_NS: u64 = 300 * NSEC_PER_MSEC;

/// All scenarios, in the order they are run and shown.
pub static SCENARIOS: &[Scenario] = &[
    wake::SATURATION,
    wake::DOUBLE,
    wake::STORM,
    wake::RECOVERY,
    wake::LONGRUN,
    wake::MIXED,
    deadline::FRAMES60,
    deadline::FRAMES144,
    deadline::AUDIO,
    ipc::PIPE,
    ipc::SOCKET,
    ipc::EVENTFD,
    ipc::FUTEX,
    ipc::FANOUT,
    ipc::PIPE_IDLE,
    launch::LAUNCH,
    messages::MESSAGING,
    messages::SCHBENCH,
    share::FAIR,
    share::FAIR_ODD,
    share::NICE,
    share::FLOOD,
    idle::IDLE,
    batch::COMPILE,
    batch::POOL,
];

/// Scenarios that are run only by name.
pub static EXTRA_SCENARIOS: &[Scenario] = &[batch::DEMO];

/// The scenarios of a comma-separated list; `all` or an empty list means every
/// one of [`SCENARIOS`].
pub fn select(list: &str) -> Result<Vec<&'static Scenario>> {
    let mut chosen = Vec::new();
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        if id == "all" {
            chosen.extend(SCENARIOS);
            continue;
        }
        let Some(scenario) = SCENARIOS.iter().chain(EXTRA_SCENARIOS).find(|s| s.id == id) else {
            let known: Vec<&str> = SCENARIOS
                .iter()
                .chain(EXTRA_SCENARIOS)
                .map(|scenario| scenario.id)
                .collect();
            bail!("no scenario `{id}`; known: all, {}", known.join(", "));
        };
        chosen.push(scenario);
    }
    if chosen.is_empty() {
        chosen.extend(SCENARIOS);
    }
    Ok(chosen)
}

impl Scenario {
    /// Run it here and now.
    pub fn run(&self, params: &Params) -> Result<ScenarioResult> {
        let seconds = params.seconds.unwrap_or(self.seconds);
        let map = Arc::new(CpuMap::read());
        let session = Session::new(params, map, self.warmup_ns, seconds);
        let mut findings = (self.run)(&session)?;
        self.add_machine_figures(&session, &mut findings);
        findings.metrics.sort_by_key(|metric| !metric.headline);
        Ok(ScenarioResult {
            scenario: self.id.to_string(),
            cpus: params.cpus,
            seed: params.seed,
            seconds,
            metrics: findings.metrics,
            latencies: findings.latencies,
            groups: findings.groups,
            machine: findings.machine,
            callbacks: findings.callbacks,
        })
    }

    /// Figures that every scenario has.
    fn add_machine_figures(&self, session: &Session, findings: &mut Findings) {
        let machine = findings.machine;
        let seconds = session.length_ns() as f64 / NSEC_PER_SEC as f64;
        let capacity_ns = session.length_ns() as f64 * session.cpus as f64;
        let idle_pct = 100.0 * machine.idle_ns as f64 / capacity_ns;
        let better = if self.saturates {
            Better::Lower
        } else {
            Better::Neither
        };
        findings.detail("idle", idle_pct, "%", better);
        findings.detail(
            "switches",
            machine.switches as f64 / seconds,
            "1/s",
            Better::Neither,
        );
        let migrations: u64 = findings
            .groups
            .iter()
            .map(|group| group.usage.migrations.total())
            .sum();
        findings.detail(
            "migrations",
            migrations as f64 / seconds,
            "1/s",
            Better::Neither,
        );
    }
}

/// Wait until the measurement has passed; findings with what the machine did
/// meanwhile.
fn measure(session: &Session) -> Result<Findings> {
    let callbacks = || match session.with_cost {
        true => Counters::read(),
        false => Ok(Counters::default()),
    };
    clock::sleep_until_ns(session.from_ns);
    let (machine, calls) = (MachineCounters::read()?, callbacks()?);
    clock::sleep_until_ns(session.to_ns);
    let machine = MachineCounters::read()?.since(&machine);
    Ok(Findings::new(machine, callbacks()?.since(&calls)))
}

/// Add what every scenario with hogs tells of them.
fn add_hogs(session: &Session, findings: &mut Findings, hogs: &HogsSeen) {
    if hogs.each.is_empty() {
        return;
    }
    let usage = hogs.usage();
    let chunks: u64 = hogs.each.iter().map(|hog| hog.chunks).sum();
    let gap_ms = hogs.gap_max_ns() as f64 / NSEC_PER_MSEC as f64;
    findings.detail("hog_gap_max", gap_ms, "ms", Better::Lower);
    findings.detail(
        "hog_share",
        share_pct(session, usage.cpu_ns),
        "%",
        Better::Neither,
    );
    findings.detail("hog_chunks", chunks as f64, "", Better::Higher);
    findings.group("hogs", usage);
}

/// `cpu_ns` as percent of what all CPUs had to give during the measurement.
fn share_pct(session: &Session, cpu_ns: u64) -> f64 {
    100.0 * cpu_ns as f64 / (session.length_ns() as f64 * session.cpus as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_found_and_none_is_there_twice() {
        for scenario in SCENARIOS.iter().chain(EXTRA_SCENARIOS) {
            let chosen = select(scenario.id).unwrap();
            assert_eq!(chosen.len(), 1);
            assert_eq!(chosen[0].about, scenario.about);
        }
    }

    #[test]
    fn a_wrong_name_is_refused_and_the_right_ones_are_named() {
        let error = select("saturation,nonsense").unwrap_err().to_string();
        assert!(
            error.contains("nonsense") && error.contains("pipe_idle"),
            "{error}"
        );
    }

    #[test]
    fn an_empty_list_means_all() {
        assert_eq!(select("").unwrap().len(), SCENARIOS.len());
        assert_eq!(select("all").unwrap().len(), SCENARIOS.len());
    }
}
