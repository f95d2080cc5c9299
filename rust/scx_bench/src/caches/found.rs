// SPDX-License-Identifier: GPL-2.0
//! What was found with caches: units of work, and what was counted meanwhile.
//!
//! Pure: the program in the guest says the units, the model the counts, and figures are
//! counts for each unit. Several seeds are pooled: all their counts by all their units.
//!
//! Not here: what a machine would need for them (`weights`), how they are shown
//! (`table`).

use std::collections::BTreeMap;

use scx_guest::{ByKind, Span};
use serde::{Deserialize, Serialize};

use super::weights::{self, Difference, Weights};
use crate::clock::NSEC_PER_SEC;

/// Roles did as much if their units are no further apart than this part of them, or than so many.
const SAME_WORK_PART: f64 = 0.1;
const SAME_WORK_UNITS: f64 = 2.0;

/// What the processes of one role did together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// What such a process is called.
    pub name: String,
    /// What its unit of work is called.
    pub unit: String,
    /// How many processes.
    pub nr_processes: u64,
    /// Units that ended in the span.
    pub units: u64,
    /// Of these, how many ended on another CPU than the one before.
    pub moves: u64,
}

/// What the program in the guest found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units {
    /// Of which scenario.
    pub scenario: String,
    /// CPUs that its loads were sized for.
    pub cpus: u64,
    /// Its roles; costs are for each unit of the first one.
    pub roles: Vec<Role>,
}

/// One run of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Shape of the machine.
    pub topology: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// Why there is nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<Units>,
    /// What was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// Names of the addresses in it, where they have some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

/// All that was found, and in what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Release of the kernel.
    pub kernel: String,
    /// Version of QEMU.
    pub qemu: String,
    /// What to type to get the same again.
    pub command: String,
    /// The caches.
    pub caches: String,
    /// What modelled time is made of.
    #[serde(default)]
    pub weights: Weights,
    /// (name, version or command line), in the order of the columns.
    pub schedulers: Vec<(String, String)>,
    /// Shapes of machines.
    pub topologies: Vec<String>,
    /// (name, what runs), in the order of the table.
    pub scenarios: Vec<(String, String)>,
    /// Each run.
    pub samples: Vec<Sample>,
    /// What follows from them.
    #[serde(default, skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figures>,
}

/// The figures of one scenario under one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Shape of the machine.
    pub topology: String,
    /// Name of the scenario.
    pub scenario: String,
    /// How many seeds have a result.
    pub nr_seeds: u64,
    /// The guest's time of their spans together.
    pub duration_ns: u64,
    /// What its roles did, all seeds together.
    pub roles: Vec<Role>,
    /// What was counted, all seeds together.
    pub total: ByKind,
    /// Modelled time of a unit in nanoseconds; 0 if none ended.
    pub modelled_ns: f64,
    /// How much longer that is than under the first scheduler, over the sweep and each
    /// seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_first: Option<Difference>,
    /// Whether that has a sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

impl Figures {
    /// Units of the role that costs are divided by.
    pub fn units(&self) -> u64 {
        self.roles.first().map_or(0, |role| role.units)
    }

    /// How many of `count` there are in a second of the guest.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * NSEC_PER_SEC as f64 / self.duration_ns.max(1) as f64
    }
}

impl Sample {
    /// Is it of the same scheduler, machine, scenario and seed?
    pub fn is_same_run(&self, other: &Self) -> bool {
        let run = |of: &Self| {
            let names = [&of.scheduler, &of.topology, &of.scenario];
            (names.map(String::clone), of.seed)
        };
        run(self) == run(other)
    }

    fn units(&self) -> Option<u64> {
        let units = self.units.as_ref()?.roles.first()?.units;
        (units > 0).then_some(units)
    }

    /// Did each role but the first as much as that of `other`, in all or for each unit of the
    /// first one?
    fn did_the_work_of(&self, other: &Self) -> Option<bool> {
        let (these, others) = (&self.units.as_ref()?.roles, &other.units.as_ref()?.roles);
        let factor = other.units()? as f64 / self.units()? as f64;
        let mut pairs = these.iter().zip(others).skip(1);
        Some(pairs.all(|(this, other)| {
            let (this, other) = (this.units as f64, other.units as f64);
            is_as_much(this, other) || is_as_much(this * factor, other)
        }))
    }

    fn amounts(&self) -> Option<weights::Amounts> {
        Some(weights::amounts(&self.span.as_ref()?.total, self.units()?))
    }
}

impl Dataset {
    /// Has every run a result?
    pub fn is_whole(&self) -> bool {
        self.samples.iter().all(|sample| sample.failure.is_none())
    }

    /// Compute the figures.
    pub fn compute(&mut self) {
        let mut figures = Vec::new();
        for topology in &self.topologies {
            for (scenario, _) in &self.scenarios {
                for (scheduler, _) in &self.schedulers {
                    figures.extend(self.figures_of(topology, scenario, scheduler));
                }
            }
        }
        self.figures = figures;
    }

    /// The figures of these, if there is a result.
    pub fn find(&self, topology: &str, scenario: &str, scheduler: &str) -> Option<&Figures> {
        self.figures.iter().find(|of| {
            (
                of.topology.as_str(),
                of.scenario.as_str(),
                of.scheduler.as_str(),
            ) == (topology, scenario, scheduler)
        })
    }

    fn samples_of(&self, topology: &str, scenario: &str, scheduler: &str) -> Vec<&Sample> {
        let samples = self.samples.iter().filter(|of| {
            (
                of.topology.as_str(),
                of.scenario.as_str(),
                of.scheduler.as_str(),
            ) == (topology, scenario, scheduler)
        });
        samples.collect()
    }

    fn figures_of(&self, topology: &str, scenario: &str, scheduler: &str) -> Option<Figures> {
        let samples = self.samples_of(topology, scenario, scheduler);
        let mut figures = Figures {
            scheduler: scheduler.to_string(),
            topology: topology.to_string(),
            scenario: scenario.to_string(),
            nr_seeds: 0,
            duration_ns: 0,
            roles: Vec::new(),
            total: ByKind::default(),
            modelled_ns: 0.0,
            against_first: None,
            holds: None,
        };
        for (units, span) in samples
            .iter()
            .filter_map(|sample| Some((sample.units.as_ref()?, sample.span.as_ref()?)))
        {
            figures.nr_seeds += 1;
            figures.duration_ns += span.duration_ns;
            figures.total += span.total;
            add_roles(&mut figures.roles, &units.roles);
        }
        if figures.nr_seeds == 0 {
            return None;
        }
        if figures.units() > 0 {
            let amounts = weights::amounts(&figures.total, figures.units());
            figures.modelled_ns = self.weights.time_ns(&amounts);
        }
        let (first, _) = self.schedulers.first()?;
        if first != scheduler {
            figures.against_first = self.difference(topology, scenario, scheduler, first);
            figures.holds = figures.against_first.map(|difference| difference.holds());
        }
        Some(figures)
    }

    /// How much longer a unit of `scenario` takes under `this` scheduler than under the
    /// `other` one, seed by seed. Seeds that only one of them has been run with do not count;
    /// nothing if there is no other, or if one has no result.
    pub fn difference(
        &self,
        topology: &str,
        scenario: &str,
        this: &str,
        other: &str,
    ) -> Option<Difference> {
        let these = self.samples_of(topology, scenario, this);
        let others = self.samples_of(topology, scenario, other);
        let mut joined: Option<Difference> = None;
        let (mut this_sum, mut other_sum) = (0.0, 0.0);
        for this in these {
            let Some(other) = others.iter().find(|other| other.seed == this.seed) else {
                continue;
            };
            let is_same_work = this.did_the_work_of(other)?;
            let (this, other) = (this.amounts()?, other.amounts()?);
            let difference = Difference {
                is_same_work,
                ..self.weights.difference(&this, &other)
            };
            this_sum += self.weights.time_ns(&this);
            other_sum += self.weights.time_ns(&other);
            joined = Some(joined.map_or(difference, |before| before.join(difference)));
        }
        // Of all seeds together, not of the first one.
        let pct = (this_sum / other_sum - 1.0) * 100.0;
        joined.map(|difference| Difference { pct, ..difference })
    }
}

fn is_as_much(this: f64, other: f64) -> bool {
    (this - other).abs() <= (SAME_WORK_PART * this.max(other)).max(SAME_WORK_UNITS)
}

/// Add what the roles of one seed did to the same roles of others.
fn add_roles(sums: &mut Vec<Role>, roles: &[Role]) {
    for role in roles {
        match sums.iter_mut().find(|sum| sum.name == role.name) {
            Some(sum) => {
                sum.units += role.units;
                sum.moves += role.moves;
            }
            None => sums.push(role.clone()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::caches::weights::tests::ROUND;

    /// Counts of one kind: so many instructions, misses of the L2 that all went to
    /// memory, and nothing else.
    fn total(instructions: u64, misses: u64) -> ByKind {
        let mut total = ByKind::default();
        total.user.instructions = instructions;
        total.user.accesses = misses;
        total.user.l1_misses = misses;
        total.user.l2_misses = misses;
        total.user.memory = misses;
        total
    }

    fn role(name: &str, unit: &str, units: u64, moves: u64) -> Role {
        Role {
            name: name.into(),
            unit: unit.into(),
            nr_processes: 2,
            units,
            moves,
        }
    }

    /// A run under `scheduler` with so many passes, instructions and misses.
    fn sample(scheduler: &str, seed: u64, counts: (u64, u64, u64)) -> Sample {
        let (passes, instructions, misses) = counts;
        let units = Units {
            scenario: "walk".into(),
            cpus: 4,
            roles: vec![
                role("walker", "pass", passes, seed),
                role("timer", "run", 5, 0),
            ],
        };
        Sample {
            scheduler: scheduler.into(),
            topology: "1x1x4x1".into(),
            scenario: "walk".into(),
            seed,
            failure: None,
            units: Some(units),
            span: Some(span(total(instructions, misses))),
            names: BTreeMap::new(),
        }
    }

    /// A span that counted so much.
    fn span(total: ByKind) -> Span {
        let total = serde_json::to_string(&total).unwrap();
        let text = format!(
            "{{\"name\":\"walk\",\"duration_ns\":1000,\"total\":{total},\"cpus\":[{total}],\
             \"sites\":[],\"lines\":[]}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Two schedulers, two seeds, one scenario.
    pub fn dataset(counts: [(u64, u64, u64); 4]) -> Dataset {
        let [a1, a2, b1, b2] = counts;
        let name = |name: &str| (name.to_string(), name.to_string());
        let mut dataset = Dataset {
            kernel: "6.18".into(),
            qemu: String::new(),
            command: "scx_bench guest --caches sketch".into(),
            caches: "sketch".into(),
            weights: ROUND,
            schedulers: vec![name("a"), name("b")],
            topologies: vec!["1x1x4x1".into()],
            scenarios: vec![name("walk")],
            samples: vec![
                sample("a", 1, a1),
                sample("a", 2, a2),
                sample("b", 1, b1),
                sample("b", 2, b2),
            ],
            figures: Vec::new(),
        };
        dataset.compute();
        dataset
    }

    #[test]
    fn seeds_are_pooled_and_the_first_role_is_the_unit() {
        let dataset = dataset([(10, 1000, 1), (30, 3000, 3), (10, 1000, 2), (10, 1000, 2)]);
        let figures = dataset.find("1x1x4x1", "walk", "a").unwrap();
        assert_eq!((figures.nr_seeds, figures.units()), (2, 40));
        assert_eq!(figures.roles[0].moves, 3);
        assert_eq!(figures.roles[1].units, 10);
        // 100 instructions and a tenth of a line.
        assert_eq!(figures.modelled_ns, 110.0);
        assert_eq!((figures.against_first, figures.holds), (None, None));
    }

    #[test]
    fn a_claim_needs_every_seed_and_all_weights() {
        let of = |counts| {
            let dataset = dataset(counts);
            let found = dataset.find("1x1x4x1", "walk", "b").unwrap().clone();
            (found.against_first.unwrap(), found.holds.unwrap())
        };
        let (more, holds) = of([(10, 1000, 1), (10, 1000, 1), (10, 1000, 2), (10, 1000, 3)]);
        assert!(holds && more.least_pct > 0.0, "{more:?}");
        assert!((more.pct - (1250.0 / 1100.0 - 1.0) * 100.0).abs() < 1e-9);
        let (_, holds) = of([(10, 1000, 1), (10, 1000, 1), (10, 1000, 2), (10, 1000, 0)]);
        assert!(!holds);
        // A seed is compared with the same one.
        let (more, holds) = of([(10, 2000, 0), (10, 1000, 0), (10, 2200, 0), (10, 1100, 0)]);
        assert!(holds && (more.most_pct - 10.0).abs() < 1e-9, "{more:?}");
    }

    #[test]
    fn a_claim_needs_the_same_work_of_other_roles() {
        let of = |passes: u64, timers: u64| {
            let counts = (passes, 1000 * passes, 9);
            let mut dataset = dataset([(10, 1000, 1), (10, 1000, 1), counts, counts]);
            for sample in &mut dataset.samples {
                let roles = &mut sample.units.as_mut().unwrap().roles;
                roles[1].units = if sample.scheduler == "b" { timers } else { 100 };
            }
            dataset.compute();
            dataset.find("1x1x4x1", "walk", "b").unwrap().holds.unwrap()
        };
        // As much, in all or for each pass, or nearly.
        assert!(of(10, 100) && of(20, 200) && of(20, 100) && of(10, 91));
        assert!(!of(10, 50) && !of(20, 60) && !of(10, 0));
        assert!(is_as_much(0.0, 2.0) && !is_as_much(0.0, 3.0));
    }

    #[test]
    fn without_a_unit_or_a_seed_there_is_no_comparison() {
        let mut dataset = dataset([(10, 9, 1), (10, 9, 1), (0, 9, 2), (10, 9, 3)]);
        let found = dataset.find("1x1x4x1", "walk", "b").unwrap();
        assert_eq!(found.against_first, None);
        dataset.samples[0].span = None;
        dataset.samples[0].failure = Some("it did not load".into());
        dataset.samples[2] = dataset.samples[3].clone();
        dataset.samples[2].seed = 1;
        dataset.compute();
        let found = dataset.find("1x1x4x1", "walk", "b").unwrap();
        assert_eq!(found.against_first, None);
        assert!(!dataset.is_whole());
        // A seed that only one was run with does not count.
        dataset.samples[0] = dataset.samples[1].clone();
        dataset.samples[0].seed = 3;
        dataset.compute();
        let found = dataset.find("1x1x4x1", "walk", "b").unwrap();
        let expected = (30.9 / 10.9 - 1.0) * 100.0;
        assert!((found.against_first.unwrap().pct - expected).abs() < 1e-9);
        dataset.samples.truncate(1);
        dataset.samples[0].units = None;
        dataset.compute();
        assert!(dataset.figures.is_empty());
    }
}
