// SPDX-License-Identifier: GPL-2.0
//! The tab *Caches*: what schedulers cost in a guest that follows every access.
//!
//! 1. What the model is, and what it leaves out.
//! 2. Where the subject loses: comparisons of modelled time whose sign holds for all weights
//!    of the sweep and all seeds. Others are no claim.
//! 3. A table for each machine and scenario.
//!
//! Not here: what is counted and computed (`crate::caches`).

use maud::{Markup, html};

use super::page::plural;
use super::tables;
use crate::caches::found::{Dataset, Figures};
use crate::caches::kept::nr_cpus;
use crate::caches::table as terminal;
use crate::caches::weights::{self, Difference, SWEEP};
use crate::clock::NSEC_PER_USEC;
use crate::compare::Score;
use crate::table::value;

/// L2 misses are listed if another scheduler has fewer by this factor and by so many.
const MISSES_FACTOR_MIN: f64 = 1.1;
const MISSES_MIN: f64 = 1.0;

/// Counts of caches, and what is shown of them.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// The counts.
    pub dataset: &'a Dataset,
    /// The scheduler that the page is about, if it was measured.
    pub subject: Option<&'a str>,
    /// What a scheduler is called.
    pub label: &'a dyn Fn(&str) -> String,
}

/// The subject and another scheduler in one scenario on one machine.
#[derive(Debug, Clone)]
struct Duel {
    topology: String,
    scenario: String,
    other: String,
    /// How much longer a unit takes under the subject.
    difference: Difference,
}

impl Duel {
    fn is_lost(&self) -> bool {
        self.difference.holds() && self.difference.pct > 0.0
    }

    fn is_won(&self) -> bool {
        self.difference.holds() && self.difference.pct < 0.0
    }
}

/// All of it.
pub fn section(page: Page) -> Markup {
    let dataset = page.dataset;
    html! {
        h2 .machine-title {
            "Caches"
            small { "Linux " (dataset.kernel) ", " (dataset.caches) }
        }
        (notes(dataset))
        @if let Some(subject) = page.subject { (overview(page, subject)) }
        @for topology in &dataset.topologies {
            @let seeds = nr_seeds(dataset, topology);
            h3 { (plural(nr_cpus(topology) as usize, "CPU")) ", " (plural(seeds, "seed")) }
            @for (scenario, about) in &dataset.scenarios {
                h4 { (scenario) }
                p .about { (about) }
                (table(page, topology, scenario))
            }
        }
        @let failures = terminal::failures(dataset);
        @if !failures.is_empty() {
            h3 { "Without a result" }
            ul .failures { @for line in failures { li { (line) } } }
        }
        p { "The same again:" }
        @for command in dataset.command.lines() { pre { code { (command) } } }
    }
}

fn notes(dataset: &Dataset) -> Markup {
    html! {
        p .note {
            "Each access of the guest goes through a model of caches. Counts are for each unit of \
             the scenario's work, all seeds together, and repeat. The model leaves out: \
             prefetching, how long a miss takes and how many overlap, TLBs, SMT siblings that \
             share a cache, and the associativity and inclusion of real L3 caches."
        }
        p .note {
            "Modelled time is a sum of " (dataset.weights) " ns. Beside it stands what it is with \
             all weights but that of an instruction divided and multiplied by " (SWEEP) ". A \
             difference is followed by its range over the sweep, each weight by itself, under each \
             seed; where that has both signs it is marked with ? and is no claim. The machine's \
             clock counts instructions, so a unit of busy hogs also pays for what the others do: \
             where another role did more or less by a tenth, in all and for each unit, there is no \
             claim either."
        }
    }
}

fn nr_seeds(dataset: &Dataset, topology: &str) -> usize {
    let here = dataset.figures.iter().filter(|of| of.topology == topology);
    here.map(|of| of.nr_seeds as usize).max().unwrap_or(0)
}

fn duels(dataset: &Dataset, subject: &str) -> Vec<Duel> {
    let mut duels = Vec::new();
    for topology in &dataset.topologies {
        for (scenario, _) in &dataset.scenarios {
            let others = dataset
                .schedulers
                .iter()
                .filter(|(name, _)| name != subject);
            duels.extend(others.filter_map(|(other, _)| {
                Some(Duel {
                    topology: topology.clone(),
                    scenario: scenario.clone(),
                    other: other.clone(),
                    difference: dataset.difference(topology, scenario, subject, other)?,
                })
            }));
        }
    }
    duels
}

/// Of each scenario and machine with a loss the worst one, the furthest first, and how many
/// there are.
fn losses(duels: &[Duel]) -> Vec<(&Duel, usize)> {
    let mut losses: Vec<(&Duel, usize)> = Vec::new();
    for duel in duels.iter().filter(|duel| duel.is_lost()) {
        let is_same = |(other, _): &&mut (&Duel, usize)| {
            (&other.topology, &other.scenario) == (&duel.topology, &duel.scenario)
        };
        match losses.iter_mut().find(is_same) {
            Some((worst, count)) => {
                *count += 1;
                if duel.difference.pct > worst.difference.pct {
                    *worst = duel;
                }
            }
            None => losses.push((duel, 1)),
        }
    }
    losses.sort_by(|(a, _), (b, _)| b.difference.pct.total_cmp(&a.difference.pct));
    losses
}

fn overview(page: Page, subject: &str) -> Markup {
    let duels = duels(page.dataset, subject);
    let losses = losses(&duels);
    let name = (page.label)(subject);
    html! {
        h3 { "Where " (name) " loses" }
        @if losses.is_empty() {
            p { "Nowhere: no scheduler has less modelled time by all weights and seeds." }
        } @else {
            p .note {
                "Each scenario in which another scheduler has less modelled time by all weights \
                 and seeds, the furthest first, with the one that has least."
            }
            div .scroll {
                table .losses {
                    thead {
                        tr {
                            th scope="col" { "scenario" }
                            th scope="col" .number { "CPUs" }
                            th scope="col" .number { (name) " us" }
                            th scope="col" .number { "best us" }
                            th scope="col" { "by" }
                            th scope="col" .number { "more %" }
                            th scope="col" .number { "loses to" }
                        }
                    }
                    tbody {
                        @for (duel, count) in losses { (loss_line(page, subject, duel, count)) }
                    }
                }
            }
        }
        (misses_table(page, subject))
        h3 { (name) " against each" }
        div .duels {
            @for (other, _) in page.dataset.schedulers.iter().filter(|(name, _)| name != subject) {
                (tables::duel(&(page.label)(other), &score(&duels, other)))
            }
        }
        p .key {
            span .win { "less modelled time" } " " span .tie { "no claim" } " "
            span .loss { "more" }
        }
    }
}

/// Where user code misses the L2 more often under the subject than under another scheduler.
struct Misses<'a> {
    topology: &'a str,
    scenario: &'a str,
    /// For each unit under the subject.
    own: f64,
    /// Under the one that has least.
    least: f64,
    by: &'a str,
}

/// Each scenario and machine with more misses than the best by a tenth and by one, the furthest
/// first. No weight is in it.
fn misses<'a>(dataset: &'a Dataset, subject: &str) -> Vec<Misses<'a>> {
    let per_unit = |of: &Figures| of.total.user.l2_misses as f64 / of.units().max(1) as f64;
    let mut found = Vec::new();
    for topology in &dataset.topologies {
        for (scenario, _) in &dataset.scenarios {
            let Some(own) = dataset.find(topology, scenario, subject).map(per_unit) else {
                continue;
            };
            let others = dataset.schedulers.iter().filter_map(|(name, _)| {
                let of = dataset.find(topology, scenario, name)?;
                Some((name, per_unit(of)))
            });
            let best = others.min_by(|(_, a), (_, b)| a.total_cmp(b));
            let Some((by, least)) = best else { continue };
            if own > least * MISSES_FACTOR_MIN && own > least + MISSES_MIN {
                found.push(Misses {
                    topology,
                    scenario,
                    own,
                    least,
                    by,
                });
            }
        }
    }
    found.sort_by(|a, b| (b.own - b.least).total_cmp(&(a.own - a.least)));
    found
}

fn misses_table(page: Page, subject: &str) -> Markup {
    let found = misses(page.dataset, subject);
    html! {
        @if !found.is_empty() {
            p .note {
                "L2 misses of user code for each unit, where another scheduler has fewer by a tenth \
                 and by one. What they cost is in modelled time, under the weights of the sweep."
            }
            div .scroll {
                table .losses {
                    thead {
                        tr {
                            th scope="col" { "scenario" }
                            th scope="col" .number { "CPUs" }
                            th scope="col" .number { ((page.label)(subject)) }
                            th scope="col" .number { "fewest" }
                            th scope="col" { "by" }
                        }
                    }
                    tbody {
                        @for of in found {
                            tr {
                                th scope="row" { (of.scenario) }
                                td .number { (nr_cpus(of.topology)) }
                                td .number { (value(of.own)) }
                                td .number { (value(of.least)) }
                                td { ((page.label)(of.by)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn score(duels: &[Duel], other: &str) -> Score {
    let count = |is: fn(&Duel) -> bool| {
        let duels = duels.iter().filter(|duel| duel.other == other);
        duels.filter(|duel| is(duel)).count()
    };
    Score {
        wins: count(Duel::is_won),
        ties: count(|duel| !duel.difference.holds()),
        losses: count(Duel::is_lost),
    }
}

fn loss_line(page: Page, subject: &str, duel: &Duel, count: usize) -> Markup {
    let time = |scheduler: &str| {
        let found = page.dataset.find(&duel.topology, &duel.scenario, scheduler);
        found.map_or("–".to_string(), |of| us(of.modelled_ns))
    };
    html! {
        tr {
            th scope="row" { (duel.scenario) }
            td .number { (nr_cpus(&duel.topology)) }
            td .number { (time(subject)) }
            td .number { (time(&duel.other)) }
            td { ((page.label)(&duel.other)) }
            td .number { (difference_text(&duel.difference)) }
            td .number { (count) }
        }
    }
}

/// All schedulers in one scenario on one machine.
fn table(page: Page, topology: &str, scenario: &str) -> Markup {
    let dataset = page.dataset;
    let found: Vec<&Figures> = dataset
        .schedulers
        .iter()
        .filter_map(|(name, _)| dataset.find(topology, scenario, name))
        .collect();
    let roles = found.first().map_or(&[][..], |of| &of.roles);
    html! {
        div .scroll {
            table .heat {
                thead {
                    tr {
                        th scope="col" { "scheduler" }
                        @for role in roles {
                            th scope="col" .number { (role.unit) " 1/s" small { (role.name) } }
                        }
                        th scope="col" .number { "moves 1/s" small { "first role" } }
                        th scope="col" .number { "instructions" small { "user" } }
                        th scope="col" .number { "instructions" small { "kernel + BPF" } }
                        th scope="col" .number { "L2 misses" small { "user" } }
                        th scope="col" .number { "lines of other cores" small { "kernel + BPF" } }
                        th scope="col" .number { "modelled us" small { "[sweep]" } }
                        @if let Some(subject) = page.subject {
                            th scope="col" .number {
                                "% more than" small { ((page.label)(subject)) " [sweep]" }
                            }
                        }
                    }
                }
                tbody { @for of in found { (line(page, of, nr_seeds(dataset, topology))) } }
            }
        }
    }
}

/// A line of it; the number of seeds is told where it is not `nr_seeds`.
fn line(page: Page, of: &Figures, nr_seeds: usize) -> Markup {
    let units = of.units().max(1);
    let per_unit = |count: u64| value(count as f64 / units as f64);
    let (user, mut others) = (&of.total.user, of.total.kernel);
    others += of.total.bpf;
    let amounts = weights::amounts(&of.total, units);
    let [least, most] = page.dataset.weights.range_ns(&amounts);
    let is_subject = page.subject == Some(of.scheduler.as_str());
    let difference = page.subject.filter(|_| !is_subject).and_then(|subject| {
        page.dataset
            .difference(&of.topology, &of.scenario, &of.scheduler, subject)
    });
    html! {
        tr {
            th scope="row" .subject[is_subject] {
                ((page.label)(&of.scheduler))
                @if of.nr_seeds as usize != nr_seeds {
                    small { " " (plural(of.nr_seeds as usize, "seed")) }
                }
            }
            @for role in &of.roles { td .number { (value(of.per_second(role.units))) } }
            td .number {
                (of.roles.first().map_or(0.0, |role| of.per_second(role.moves)).round())
            }
            td .number { (per_unit(user.instructions)) }
            td .number { (per_unit(others.instructions)) }
            td .number { (per_unit(user.l2_misses)) }
            td .number { (per_unit(others.remote + others.far)) }
            td .number { (us(of.modelled_ns)) small { " [" (us(least)) ".." (us(most)) "]" } }
            @if page.subject.is_some() {
                td .number { (difference.map_or("–".to_string(), |of| difference_text(&of))) }
            }
        }
    }
}

fn us(ns: f64) -> String {
    value(ns / NSEC_PER_USEC as f64)
}

fn difference_text(of: &Difference) -> String {
    let mark = if of.holds() { "" } else { "?" };
    let (pct, least, most) = (of.pct, of.least_pct, of.most_pct);
    format!("{pct:+.1}{mark} [{least:+.1}..{most:+.1}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::found::tests::dataset;

    fn text(counts: [(u64, u64, u64); 4], subject: Option<&str>) -> String {
        let dataset = dataset(counts);
        let page = Page {
            dataset: &dataset,
            subject,
            label: &|name| format!("<{name}>"),
        };
        section(page).into_string()
    }

    #[test]
    fn a_loss_is_told_first_and_only_where_it_holds() {
        let of = |counts| text(counts, Some("b"));
        let lost = of([(10, 1000, 1), (10, 1000, 1), (10, 1000, 2), (10, 1000, 3)]);
        let (before, after) = lost.split_once("4 CPUs, 2 seeds").unwrap();
        assert!(before.contains("loses to") && !after.contains("loses"));
        // 110 and 125 ns.
        assert!(
            lost.contains(">0.125<") && lost.contains("+13.6 [+"),
            "{lost}"
        );
        let won = of([(10, 1000, 2), (10, 1000, 3), (10, 1000, 1), (10, 1000, 1)]);
        assert!(won.contains("Nowhere"), "{won}");
        // Sign depends on the seed.
        let open = of([(10, 1000, 1), (10, 1000, 1), (10, 1000, 2), (10, 1000, 0)]);
        assert!(open.contains("Nowhere") && open.contains("? ["), "{open}");
    }

    #[test]
    fn of_several_losses_the_worst_is_shown() {
        let duel = |other: &str, pct: f64, scenario: &str| Duel {
            topology: "1x1x4x1".into(),
            scenario: scenario.into(),
            other: other.into(),
            difference: Difference {
                pct,
                least_pct: pct - 5.0,
                most_pct: pct + 5.0,
                is_same_work: true,
            },
        };
        let all = [
            duel("a", 10.0, "walk"),
            duel("b", 20.0, "walk"),
            duel("a", -10.0, "game"),
            duel("b", 3.0, "game"),
            duel("a", 90.0, "make"),
        ];
        let found = losses(&all);
        let found: Vec<(&str, &str, usize)> = found
            .iter()
            .map(|(duel, count)| (duel.scenario.as_str(), duel.other.as_str(), *count))
            .collect();
        assert_eq!(found, [("make", "a", 1), ("walk", "b", 2)]);
        let of_a = score(&all, "a");
        assert_eq!((of_a.wins, of_a.ties, of_a.losses), (1, 0, 2));
        assert_eq!(score(&all, "b").ties, 1);
    }

    #[test]
    fn fewer_seeds_than_others_have_are_told() {
        let mut dataset = dataset([(10, 1000, 1); 4]);
        let page = |dataset: &Dataset| {
            let page = Page {
                dataset,
                subject: None,
                label: &|name| name.to_string(),
            };
            section(page).into_string()
        };
        assert!(!page(&dataset).contains("1 seed"));
        assert!(!page(&dataset).contains("Without a result"));
        dataset.samples[3].failure = Some("it <stalled>".into());
        let failed = "<li>b, 1x1x4x1, walk, seed 2: it &lt;stalled&gt;</li>";
        assert!(page(&dataset).contains(failed));
        dataset.samples.truncate(3);
        dataset.compute();
        assert_eq!(page(&dataset).matches("b<small> 1 seed</small>").count(), 1);
    }

    #[test]
    fn more_misses_are_listed_without_any_weight() {
        let of = |counts| -> Vec<(f64, f64, String)> {
            let dataset = dataset(counts);
            let found = misses(&dataset, "b");
            let found = found.iter();
            found
                .map(|of| (of.own, of.least, of.by.to_string()))
                .collect()
        };
        let more = of([(10, 1000, 5), (10, 1000, 15), (10, 900, 30), (10, 900, 50)]);
        assert_eq!(more, [(4.0, 1.0, "a".to_string())]);
        // Less than one, less than a tenth, fewer.
        assert!(of([(10, 9, 1), (10, 9, 1), (10, 9, 8), (10, 9, 8)]).is_empty());
        assert!(of([(1, 9, 50), (1, 9, 50), (1, 9, 52), (1, 9, 54)]).is_empty());
        assert!(of([(10, 9, 90), (10, 9, 90), (10, 9, 8), (10, 9, 8)]).is_empty());
    }

    #[test]
    fn names_are_text_and_without_a_subject_there_is_no_loss() {
        let page = text([(10, 1000, 1); 4], None);
        assert!(!page.contains("loses") && !page.contains("% more"));
        assert!(page.contains("&lt;a&gt;") && !page.contains("<a>"));
        for word in ["prefetching", "TLBs", "memory=100"] {
            assert!(page.contains(word), "{word}");
        }
    }
}
