// SPDX-License-Identifier: GPL-2.0
//! The page from top to bottom: what was measured, the tables of each machine,
//! each scenario with its pictures, and how to repeat it.
//!
//! A page of several machines shows one at a time, chosen at the top; a browser
//! that cannot do that shows all of them.
//!
//! Not here: what it says (`model`).

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart;
use super::model::{Model, Scenario, View, is_about};
use super::tables;
use crate::compare::Row;
use crate::result::Better;
use crate::table;

const STYLE: &str = include_str!("style.css");

/// The whole page, with `data` as JSON inside, and with a tab of caches if there is one.
pub fn page(model: &Model, data: &str, caches: Option<Markup>) -> Markup {
    let tabs = Tabs {
        model,
        has_caches: caches.is_some(),
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Schedulers compared" }
                style { (PreEscaped(STYLE)) (PreEscaped(tabs.style())) }
            }
            body {
                main {
                    (header(model))
                    (tabs.choice())
                    @for (index, machine) in model.machines.iter().enumerate() {
                        section .machine id=(format!("machine{index}")) {
                            (machine_section(View { model, machine }))
                        }
                    }
                    @if let Some(caches) = caches {
                        section .machine #caches { (caches) }
                    }
                    (failures(model))
                    (how(model))
                }
                script id="data" type="application/json" { (PreEscaped(data)) }
            }
        }
    }
}

fn header(model: &Model) -> Markup {
    let seeds = model.machines.iter().flat_map(|m| m.seeds.iter().copied());
    let seeds = seeds.max().unwrap_or(0);
    html! {
        header {
            h1 { "Schedulers compared" }
            p .lead {
                "Linux " (model.kernel)
                @if model.qemu.is_empty() { ", this machine" } @else { ", deterministic guest" }
                ", median of " (plural(seeds, model.repetition))
            }
        }
    }
}

/// What can be chosen at the top: a machine, or caches.
struct Tabs<'a> {
    model: &'a Model,
    has_caches: bool,
}

impl Tabs<'_> {
    fn are_shown(&self) -> bool {
        self.model.machines.len() + usize::from(self.has_caches) > 1
    }

    fn choice(&self) -> Markup {
        let machines = &self.model.machines;
        html! {
            @if self.are_shown() {
                div .tabs role="group" aria-label="Machine" {
                    @for (index, machine) in machines.iter().enumerate() {
                        input type="radio" name="machine" id=(format!("tab{index}"))
                            checked[Some(index) == self.model.main_machine];
                        label for=(format!("tab{index}")) { (plural(machine.cpus as usize, "CPU")) }
                    }
                    @if self.has_caches {
                        input type="radio" name="machine" id="tab-caches";
                        label for="tab-caches" { "Caches" }
                    }
                }
            }
        }
    }

    /// Rules that show only what is chosen.
    fn style(&self) -> String {
        if !self.are_shown() {
            return String::new();
        }
        let rule = |tab: &str, section: &str| {
            format!("body:has(#{tab}:checked) #{section}{{display:block}}")
        };
        let indices = 0..self.model.machines.len();
        let mut rules: Vec<String> = indices
            .map(|index| rule(&format!("tab{index}"), &format!("machine{index}")))
            .collect();
        if self.has_caches {
            rules.push(rule("tab-caches", "caches"));
        }
        format!(
            "@supports selector(:has(a)){{@media screen{{.machine{{display:none}}{}}}}}",
            rules.concat()
        )
    }
}

fn machine_section(view: View) -> Markup {
    let machine = view.machine;
    html! {
        h2 .machine-title {
            (plural(machine.cpus as usize, "CPU"))
            @if !machine.topology.is_empty() {
                small { (topology_words(&machine.topology)) }
            }
        }
        @if machine.columns.len() > 1 { (tables::overview(view)) }
        @if let Some(subject) = view.subject() {
            @if machine.columns.len() > 1 { (tables::losses(view, subject)) }
        }
        (tables::figures(view))
        (legend(view))
        div .cards {
            @for scenario in &machine.scenarios { (scenario_card(view, scenario)) }
        }
    }
}

fn legend(view: View) -> Markup {
    html! {
        h3 { "Scenarios" }
        p .note {
            "Curves show how late the slowest part of all events was: further left is better, and \
             the upper end is the worst of them. Bars run from the median to the percentile that is \
             named beside them, with a mark at p90 and a dot at the worst, on the same scale. A p99 is \
             only told of at least 300 events, a p90 of 30."
        }
        ul .legend {
            @for column in 0..view.machine.columns.len() {
                li .(view.colour(column)).subject[view.is_subject(column)] { (view.name(column)) }
            }
        }
    }
}

fn scenario_card(view: View, scenario: &Scenario) -> Markup {
    let is_latency = |row: &Row| {
        scenario
            .latencies
            .iter()
            .any(|latency| is_about(row, &latency.name))
    };
    let rows = scenario.rows.iter().map(|&index| &view.machine.rows[index]);
    let others: Vec<&Row> = rows.filter(|row| !is_latency(row)).collect();
    html! {
        article .card id=(card_id(view, &scenario.id)) {
            h4 { (scenario.id) }
            p .about { (scenario.about) }
            @for latency in &scenario.latencies {
                @let tail = latency.tail.name();
                @let figure = format!("{}_{tail}", latency.name);
                @let row = scenario.rows.iter().map(|&index| &view.machine.rows[index]);
                h5 { (latency.name) " latency" small { (tail) " at the right" } }
                (chart::curves(view, latency, &format!("{} {}", scenario.id, latency.name)))
                (chart::percentile_bars(view, latency, row.clone().find(|row| row.metric == figure)))
            }
            @for row in others {
                h5 { (figure_name(row)) small { (direction(row.better)) } }
                (chart::figure_bars(view, row))
            }
        }
    }
}

fn failures(model: &Model) -> Markup {
    html! {
        @if !model.failures.is_empty() {
            section {
                h2 { "Without a result" }
                ul .failures { @for line in &model.failures { li { (line) } } }
            }
        }
    }
}

/// What was measured in what, and how to repeat it.
fn how(model: &Model) -> Markup {
    html! {
        section {
            h2 { "How this was measured" }
            dl {
                dt { "kernel" } dd { (model.kernel) }
                @if !model.qemu.is_empty() { dt { "guest" } dd { (model.qemu) } }
                @for machine in &model.machines {
                    @let seeds = machine.seeds.iter().copied();
                    dt { (plural(machine.cpus as usize, "CPU")) }
                    dd {
                        (plural(machine.columns.len(), "scheduler")) ", "
                        (range(seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0), model.repetition))
                    }
                }
                @for scheduler in &model.schedulers {
                    dt { (scheduler.name) } dd { (scheduler.version) }
                }
            }
            @if !model.qemu.is_empty() {
                p {
                    "The guest's clock counts instructions, so the same programs give the same \
                     figures again. A seed shifts the start of each load by up to 20 ms: the spread over \
                     seeds is what chance does. Throughput and power cannot be measured this way."
                }
            }
            @if !model.commands.is_empty() {
                p { "The same again:" }
                @for command in &model.commands { pre { code { (command) } } }
            }
        }
    }
}

/// Where a scenario is on the page.
pub fn card_id(view: View, scenario: &str) -> String {
    format!("c{}-{scenario}", view.machine.cpus)
}

/// Words for a figure's name: `wake_p99` is "wake p99".
pub fn figure_name(row: &Row) -> String {
    row.metric.replace('_', " ")
}

fn direction(better: Better) -> String {
    match better {
        Better::Lower => "less is better".to_string(),
        Better::Higher => "more is better".to_string(),
        Better::Near(goal) => format!("{} is right", table::value(goal)),
        Better::Neither => String::new(),
    }
}

fn topology_words(topology: &str) -> String {
    let names = ["node", "LLC", "core", "thread"];
    let words: Vec<String> = topology
        .split('x')
        .zip(names)
        .filter_map(|(count, name)| Some(plural(count.parse().ok()?, name)))
        .collect();
    words.join(" × ")
}

fn range(from: usize, to: usize, name: &str) -> String {
    match from == to {
        true => plural(to, name),
        false => format!("{from} to {to} {name}s"),
    }
}

/// A number with its noun.
pub fn plural(count: usize, name: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {name}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_told_in_words() {
        assert_eq!(
            topology_words("1x2x4x1"),
            "1 node × 2 LLCs × 4 cores × 1 thread"
        );
    }
}
