// SPDX-License-Identifier: GPL-2.0
//! The scenarios: each a load, a question and the figures that answer it.
//!
//! A scenario is one function that starts its processes, then its probes, then
//! its loads, waits for the measurement to pass and collects what they saw.
//! N stands for the number of CPUs throughout. "Latency" is always from the
//! instant something became due to the first instruction that deals with it.

mod batch;
mod build;
mod deadline;
mod desktop;
mod external;
mod game;
mod group;
mod idle;
mod ipc;
mod launch;
mod messages;
mod share;
mod terminal;
mod wake;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use crate::cgroup::Tree;
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC};
use crate::cost::Counters;
use crate::events::Events;
use crate::load::hog::HogsSeen;
use crate::result::{Better, Findings, Group, ScenarioResult};
use crate::session::{Params, Session};
use crate::system::{CpuMap, MachineCounters, Usage};
use crate::tool::Tool;

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

/// Groups of tasks that never sleep.
const HOG_GROUPS: [&str; 2] = ["hogs", "niced"];

/// All scenarios, in the order they are run and shown.
pub static SCENARIOS: &[Scenario] = &[
    game::GAME_MT,
    game::GAME_MT_CG,
    game::GAME,
    game::GAME_CG,
    wake::SATURATION,
    wake::DOUBLE,
    wake::STORM,
    wake::RECOVERY,
    wake::LONGRUN,
    wake::MIXED,
    deadline::FRAMES60,
    deadline::FRAMES60_5MS,
    deadline::FRAMES60_8MS,
    deadline::FRAMES60_12MS,
    deadline::FRAMES144,
    deadline::AUDIO,
    desktop::CALL,
    desktop::BROWSER,
    terminal::TERMINAL,
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
    share::CHEAT,
    group::CG_WEIGHTS,
    group::CG_NESTED,
    group::CG_LIVE,
    group::CG_SLEEPERS,
    idle::IDLE,
    batch::COMPILE,
    batch::POOL,
];

/// Scenarios that are run only by name; those with [`Scenario::tools`] also as
/// `external`.
pub static EXTRA_SCENARIOS: &[Scenario] = &[
    batch::DEMO,
    build::BUILD,
    build::FRAMES_BUILD,
    game::GAME_MT_BUILD,
    external::HACKBENCH,
    external::CYCLICTEST,
    external::STRESS,
    external::JITTER,
    external::SYSBENCH,
    external::PERF_MESSAGING,
    external::PERF_PIPE,
];

/// The scenarios of a comma-separated list; `all` or an empty list means every
/// one of [`SCENARIOS`], `external` those whose programs are installed here.
pub fn select(list: &str) -> Result<Vec<&'static Scenario>> {
    let mut chosen = Vec::new();
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        if id == "all" {
            chosen.extend(SCENARIOS);
            continue;
        }
        if id == "external" {
            chosen.extend(installed()?);
            continue;
        }
        let Some(scenario) = SCENARIOS.iter().chain(EXTRA_SCENARIOS).find(|s| s.id == id) else {
            let known: Vec<&str> = SCENARIOS
                .iter()
                .chain(EXTRA_SCENARIOS)
                .map(|scenario| scenario.id)
                .collect();
            bail!(
                "no scenario `{id}`; known: all, external, {}",
                known.join(", ")
            );
        };
        chosen.push(scenario);
    }
    if chosen.is_empty() {
        chosen.extend(SCENARIOS);
    }
    Ok(chosen)
}

/// The programs of other projects that `scenarios` start, each once; an error
/// that names the package if one is not installed.
pub fn programs(scenarios: &[&Scenario]) -> Result<BTreeSet<PathBuf>> {
    let mut programs = BTreeSet::new();
    for scenario in scenarios {
        scenario.check_tools()?;
        for tool in scenario.tools() {
            programs.insert(tool.find()?);
        }
    }
    Ok(programs)
}

/// The scenarios that need other projects' programs and have them here. What is
/// missing for the others is said; an error if there is none at all.
fn installed() -> Result<Vec<&'static Scenario>> {
    let mut chosen = Vec::new();
    for scenario in EXTRA_SCENARIOS.iter().filter(|s| !s.tools().is_empty()) {
        match scenario.check_tools() {
            Ok(()) => chosen.push(scenario),
            Err(error) => eprintln!("left out: {error:#}"),
        }
    }
    if chosen.is_empty() {
        bail!("none of the programs that `external` runs is installed");
    }
    Ok(chosen)
}

impl Scenario {
    /// The programs of other projects that it starts.
    pub fn tools(&self) -> &'static [Tool] {
        match self.id {
            "build" | "frames_build" | "game_mt_build" => &[build::MAKE_TOOL, build::TCC_TOOL],
            id => external::tools(id),
        }
    }

    /// Is it more than a program of another project?
    fn has_own_tasks(&self) -> bool {
        external::tools(self.id).is_empty()
    }

    /// An error that names the package if one of its programs is missing.
    pub fn check_tools(&self) -> Result<()> {
        let needs = || format!("{} cannot run", self.id);
        self.tools()
            .iter()
            .try_for_each(|tool| tool.find().map(drop))
            .with_context(needs)
    }

    /// An error if it needs control groups and none can be made here.
    pub fn check_groups(&self) -> Result<()> {
        let needs_groups = self.id.starts_with("cg_") || self.id.ends_with("_cg");
        match needs_groups {
            true => Tree::new().map(drop),
            false => Ok(()),
        }
    }

    /// Run it here and now.
    pub fn run(&self, params: &Params) -> Result<ScenarioResult> {
        self.check_tools()?;
        let seconds = params.seconds.unwrap_or(self.seconds);
        let map = Arc::new(CpuMap::read());
        let session = Session::new(params, map, self.warmup_ns, seconds);
        let mut findings = (self.run)(&session)?;
        let length_ns = findings.length_ns.unwrap_or(session.length_ns());
        self.add_machine_figures(&session, length_ns, &mut findings);
        findings.metrics.sort_by_key(|metric| !metric.headline);
        Ok(ScenarioResult {
            scenario: self.id.to_string(),
            cpus: params.cpus,
            seed: params.seed,
            seconds: length_ns as f64 / NSEC_PER_SEC as f64,
            metrics: findings.metrics,
            latencies: findings.latencies,
            groups: findings.groups,
            machine: findings.machine,
            callbacks: findings.callbacks,
        })
    }

    /// Figures that every scenario has, of a measurement of `length_ns`.
    fn add_machine_figures(&self, session: &Session, length_ns: u64, findings: &mut Findings) {
        let machine = findings.machine;
        let seconds = length_ns.max(1) as f64 / NSEC_PER_SEC as f64;
        let capacity_ns = length_ns.max(1) as f64 * session.cpus as f64;
        let mut usage = Usage::default();
        findings
            .groups
            .iter()
            .for_each(|group| usage.add(&group.usage));

        // While more tasks want CPUs than there are, every idle moment is one
        // in which work waits.
        let better = if self.saturates {
            Better::Lower
        } else {
            Better::Neither
        };
        let idle_pct = 100.0 * machine.idle_ns as f64 / capacity_ns;
        findings.detail("idle", idle_pct, "%", better);
        // Without scheduler statistics no run is counted.
        if machine.runs > 0 {
            let waited_pct = 100.0 * machine.waited_ns as f64 / capacity_ns;
            findings.detail("waited", waited_pct, "%", Better::Neither);
        }

        let moved = usage.migrations;
        let levels = [
            ("migrations_smt", moved.smt),
            ("migrations_core", moved.core),
            ("migrations_llc", moved.llc),
            ("migrations_node", moved.node),
        ];
        let mut rate = |name: &str, count: u64| {
            findings.detail(name, count as f64 / seconds, "1/s", Better::Neither);
        };
        rate("switches", machine.switches);
        rate("kicks", machine.kicks);
        if usage.tasks > 0 {
            rate("preemptions", usage.involuntary);
        }
        // Only tasks of our own look where they are.
        if usage.tasks == 0 || !self.has_own_tasks() {
            return;
        }
        rate("migrations", moved.total());
        for ((name, count), exists) in levels.into_iter().zip(session.map.has_levels()) {
            if exists {
                rate(name, count);
            }
        }
        let per_preemption = migrations_per_preemption(&findings.groups);
        let name = "migrations_per_preemption";
        findings.detail(name, per_preemption, "", Better::Lower);
    }
}

/// How often a task that was preempted ran on elsewhere: migrations to
/// preemptions of the tasks that never sleep, which only preemption moves; of
/// all tasks where there are none of that kind; 0 without a preemption.
fn migrations_per_preemption(groups: &[Group]) -> f64 {
    let sum = |is_meant: &dyn Fn(&Group) -> bool| {
        let mut usage = Usage::default();
        let meant = groups.iter().filter(|group| is_meant(group));
        meant.for_each(|group| usage.add(&group.usage));
        usage
    };
    let hogs = sum(&|group| HOG_GROUPS.contains(&group.name.as_str()));
    let usage = if hogs.tasks > 0 { hogs } else { sum(&|_| true) };
    if usage.involuntary == 0 {
        return 0.0;
    }
    usage.migrations.total() as f64 / usage.involuntary as f64
}

/// The counters of the machine at one instant.
struct Snapshot {
    machine: MachineCounters,
    callbacks: Counters,
    events: Events,
}

fn snapshot(session: &Session) -> Result<Snapshot> {
    Ok(Snapshot {
        callbacks: match session.with_cost {
            true => Counters::read()?,
            false => Counters::default(),
        },
        events: Events::read(),
        machine: MachineCounters::read()?,
    })
}

impl Snapshot {
    /// Findings with what was counted between `earlier` and `self`.
    fn since(&self, earlier: &Self) -> Findings {
        let machine = self.machine.since(&earlier.machine);
        let mut findings = Findings::new(machine, self.callbacks.since(&earlier.callbacks));
        for (name, count) in self.events.since(&earlier.events) {
            findings.detail(&format!("scx_{name}"), count as f64, "", Better::Neither);
        }
        findings
    }
}

/// Wait until the measurement has passed; findings with what the machine did
/// meanwhile.
fn measure(session: &Session) -> Result<Findings> {
    session.ensure_set_up()?;
    clock::sleep_until_ns(session.from_ns);
    let before = snapshot(session)?;
    clock::sleep_until_ns(session.to_ns);
    Ok(snapshot(session)?.since(&before))
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
    use crate::system::Migrations;

    #[test]
    fn every_id_is_found_and_none_is_there_twice() {
        for scenario in SCENARIOS.iter().chain(EXTRA_SCENARIOS) {
            let chosen = select(scenario.id).unwrap();
            assert_eq!(chosen.len(), 1);
            assert_eq!(chosen[0].about, scenario.about);
        }
    }

    #[test]
    fn external_scenarios_and_only_they_name_their_programs() {
        for scenario in SCENARIOS.iter().chain(EXTRA_SCENARIOS) {
            assert_eq!(
                scenario.tools().is_empty(),
                !scenario.id.starts_with("ext_") && !scenario.id.contains("build"),
                "{}",
                scenario.id
            );
        }
    }

    #[test]
    fn only_hogs_tell_how_often_a_preempted_task_moves() {
        let group = |name: &str, involuntary, core| Group {
            name: name.to_string(),
            usage: Usage {
                tasks: 1,
                involuntary,
                migrations: Migrations {
                    core,
                    ..Migrations::default()
                },
                ..Usage::default()
            },
        };
        let probe = group("probe", 1, 50);
        assert_eq!(
            migrations_per_preemption(std::slice::from_ref(&probe)),
            50.0
        );
        assert_eq!(
            migrations_per_preemption(&[probe, group("hogs", 10, 5)]),
            0.5
        );
        assert_eq!(migrations_per_preemption(&[group("hogs", 0, 0)]), 0.0);
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
