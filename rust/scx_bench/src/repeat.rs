// SPDX-License-Identifier: GPL-2.0
//! The commands that measure committed results again.
//!
//! They are derived from the results, so they name what is there and nothing else.
//!
//! Not here: the command of a run that has just been measured (`output`).

use std::collections::BTreeMap;

use anyhow::Result;
use scx_guest::Topology;

use crate::dataset::{Dataset, Sample};
use crate::peers;
use crate::scenario::SCENARIOS;
use crate::spec;

/// What a line says besides its machines: schedulers, seeds and scenarios.
type Choice = (Vec<String>, u64, String);

/// The commands, one a line.
///
/// A program that is neither the kernel's nor published stands as `NAME=PROGRAM`,
/// since its path means nothing elsewhere. `program` is typed in place of `scx_bench
/// guest`, and adds such programs itself.
///
/// # Errors
///
/// If the list of published schedulers cannot be read.
pub fn commands(dataset: &Dataset, program: Option<&str>) -> Result<String> {
    let published = peers::read(None)?;
    let is_program = |name: &str| spec::is_program(name, &published);
    let mut lines: Vec<(Choice, Vec<&str>)> = Vec::new();
    for (topology, _) in dataset.machines() {
        for choice in choices(dataset, topology) {
            match lines.iter_mut().find(|(other, _)| *other == choice) {
                Some((_, topologies)) => topologies.push(topology),
                None => lines.push((choice, vec![topology])),
            }
        }
    }
    let line = |((schedulers, seeds, scenarios), topologies): &(Choice, Vec<&str>)| {
        let named = schedulers.iter().filter_map(|name| {
            let is_program = is_program(name);
            match program {
                Some(_) if is_program => None,
                None if is_program => Some(format!("{name}=PROGRAM")),
                _ => Some(name.clone()),
            }
        });
        let named: Vec<String> = named.collect();
        let mut command = program.unwrap_or("scx_bench guest").to_string();
        command += &format!(" {} --seeds {seeds}", machines(topologies));
        if !named.is_empty() {
            command += &format!(" --sched {}", named.join(","));
        }
        if !scenarios.is_empty() {
            command += &format!(" --scenario {scenarios}");
        }
        command
    };
    let lines: Vec<String> = lines.iter().map(line).collect();
    Ok(lines.join("\n"))
}

/// What was measured on `topology`: schedulers that have the same seeds and
/// scenarios stand together, in the order of the samples.
fn choices(dataset: &Dataset, topology: &str) -> Vec<Choice> {
    let mut measured: Vec<(String, u64, String)> = Vec::new();
    let samples = dataset.samples.iter();
    for sample in samples.filter(|sample| sample.topology == topology) {
        let scenarios = scenarios(sample);
        let found = measured
            .iter_mut()
            .find(|(name, _, others)| *name == sample.scheduler && *others == scenarios);
        match found {
            Some((_, seeds, _)) => *seeds = sample.seed.max(*seeds),
            None => measured.push((sample.scheduler.clone(), sample.seed, scenarios)),
        }
    }
    let mut choices: BTreeMap<(u64, String), Vec<String>> = BTreeMap::new();
    for (name, seeds, scenarios) in measured {
        choices.entry((seeds, scenarios)).or_default().push(name);
    }
    let choices = choices.into_iter().rev();
    choices
        .map(|((seeds, scenarios), names)| (names, seeds, scenarios))
        .collect()
}

/// The scenarios of a sample; empty if these are all that are run unless some are
/// named.
fn scenarios(sample: &Sample) -> String {
    let found = sample.result.scenarios.iter();
    let found: Vec<&str> = found.map(|result| result.scenario.as_str()).collect();
    let failed = sample.result.failures.iter();
    let failed: Vec<&str> = failed.filter_map(|f| f.scenario.as_deref()).collect();
    let is_found = |id: &str| found.contains(&id) || failed.contains(&id);
    match SCENARIOS.iter().all(|scenario| is_found(scenario.id)) {
        true => String::new(),
        false => found.join(","),
    }
}

/// Machines as an option names them: by their CPUs if they have one cache and no SMT.
fn machines(topologies: &[&str]) -> String {
    let cpus = topologies.iter().map(|text| {
        let topology: Topology = text.parse().ok()?;
        (topology == Topology::flat(topology.nr_cpus())).then(|| topology.nr_cpus().to_string())
    });
    match cpus.collect::<Option<Vec<String>>>() {
        Some(cpus) => format!("--cpus {}", cpus.join(",")),
        None => format!("--topology {}", topologies.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Results of all scenarios, seeds 1 to `seeds` on a machine of `topology`.
    fn add(dataset: &mut Dataset, name: &str, topology: &str, seeds: u64) {
        let all = |seed| {
            let ids = SCENARIOS.iter().map(|scenario| scenario.id);
            ids.map(|id| testing::scenario(id, seed, Vec::new()))
                .collect()
        };
        for seed in 1..=seeds {
            let mut sample = testing::sample(name, seed, all(seed));
            sample.topology = topology.into();
            sample.cpus = topology.parse::<Topology>().unwrap().nr_cpus();
            dataset.samples.push(sample);
        }
    }

    #[test]
    fn a_line_stands_for_all_that_have_the_same_seeds() {
        let mut dataset = Dataset::default();
        for topology in ["1x1x2x1", "1x1x4x1"] {
            for name in ["default", "limit", "mine", "scx_flash"] {
                add(&mut dataset, name, topology, 5);
            }
        }
        add(&mut dataset, "scx_rusty", "1x1x4x1", 1);
        add(&mut dataset, "default", "2x1x4x2", 2);
        assert_eq!(
            commands(&dataset, Some("make bench")).unwrap(),
            "make bench --cpus 2,4 --seeds 5 --sched default,limit,scx_flash\n\
             make bench --cpus 4 --seeds 1 --sched scx_rusty\n\
             make bench --topology 2x1x4x2 --seeds 2 --sched default"
        );
        let own = commands(&dataset, None).unwrap();
        assert!(
            own.starts_with(
                "scx_bench guest --cpus 2,4 --seeds 5 --sched default,limit,mine=PROGRAM,scx_flash"
            ),
            "{own}"
        );
    }

    #[test]
    fn scenarios_are_named_unless_they_are_all() {
        let dataset = testing::dataset(&[("default", &[1.0, 2.0])]);
        assert_eq!(
            commands(&dataset, None).unwrap(),
            "scx_bench guest --cpus 4 --seeds 2 --sched default --scenario saturation"
        );
    }
}
