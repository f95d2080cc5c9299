// SPDX-License-Identifier: GPL-2.0
//! The tables of the page: duels, losses and all figures.
//!
//! Not here: curves and bars (`chart`).

use maud::{Markup, html};

use super::chart;
use super::model::{Loss, View};
use super::page::{card_id, figure_name, plural};
use crate::compare::{self, Row, Score};
use crate::result::Better;
use crate::spec;
use crate::table;
use crate::tolerance;

/// Who beats whom: the subject against each peer, and everybody in a table.
pub fn overview(view: View) -> Markup {
    let machine = view.machine;
    html! {
        @if let Some(subject) = view.subject() {
            @let judged = machine.nr_judged(subject);
            h3 { (view.name(subject)) " against each" }
            p {
                b { (judged - machine.losses.len()) " of " (judged) }
                " figures are the best or as good. " (compare::rule(view.model.repetition))
            }
            div .duels {
                @for (column, score) in machine.scores[subject].iter().enumerate() {
                    @if column != subject { (duel(view.name(column), score)) }
                }
            }
            p .key {
                span .win { "better" } " " span .tie { "as good" } " " span .loss { "worse" }
            }
        }
        details open[view.subject().is_none()] {
            summary { "Everybody against everybody" }
            p .note { "Figures in which the scheduler of the line is better, as good, worse." }
            (matrix(view))
        }
    }
}

/// A bar of how often one of two is better, as good, worse.
pub fn duel(name: &str, score: &Score) -> Markup {
    let all = (score.wins + score.ties + score.losses).max(1);
    let parts = [
        ("win", score.wins),
        ("tie", score.ties),
        ("loss", score.losses),
    ];
    html! {
        div .name { (name) }
        div .stack role="img" aria-label=(format!(
            "{} better, {} as good, {} worse", score.wins, score.ties, score.losses
        )) {
            @for (class, count) in parts {
                @if count > 0 {
                    div .(class) style=(format!("width:{:.1}%", 100.0 * count as f64 / all as f64)) {
                        (count)
                    }
                }
            }
        }
    }
}

fn matrix(view: View) -> Markup {
    let columns = 0..view.machine.columns.len();
    html! {
        div .scroll {
            table .matrix {
                thead {
                    tr {
                        th {}
                        @for column in columns.clone() { th scope="col" { (view.name(column)) } }
                    }
                }
                tbody {
                    @for line in columns.clone() {
                        tr {
                            th scope="row" .subject[view.is_subject(line)] { (view.name(line)) }
                            @for column in columns.clone() {
                                @let score = &view.machine.scores[line][column];
                                @if line == column {
                                    td .self {}
                                } @else {
                                    td .(score_class(score)) {
                                        (score.wins) "–" (score.ties) "–" (score.losses)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn score_class(score: &Score) -> &'static str {
    match score.wins.cmp(&score.losses) {
        std::cmp::Ordering::Greater => "win",
        std::cmp::Ordering::Equal => "tie",
        std::cmp::Ordering::Less => "loss",
    }
}

/// Every figure in which the subject is not among the best.
pub fn losses(view: View, subject: usize) -> Markup {
    let losses = &view.machine.losses;
    html! {
        h3 { "Where " (view.name(subject)) " loses" }
        @if losses.is_empty() {
            p { "In no figure: it is the best or as good in all of them." }
        } @else {
            p .note { "Each figure that is neither the best nor as good, the furthest first. " (compare::rule(view.model.repetition)) }
            div .scroll {
                table .losses {
                    thead {
                        tr {
                            th scope="col" { "figure" }
                            th scope="col" .number { (view.name(subject)) }
                            th scope="col" .number { "best" }
                            th scope="col" { "by" }
                            th scope="col" .number { "factor" }
                        }
                    }
                    tbody { @for loss in losses { (loss_line(view, subject, loss)) } }
                }
            }
        }
    }
}

fn loss_line(view: View, subject: usize, loss: &Loss) -> Markup {
    let row = &view.machine.rows[loss.row];
    let value = |column: usize| match &row.cells[column] {
        Some(cell) => {
            let near = chart::near_mark(row, cell.median).to_string();
            near + &chart::with_unit(cell.median, &row.unit)
        }
        None => "–".to_string(),
    };
    html! {
        tr {
            th scope="row" {
                a href=(format!("#{}", card_id(view, &row.scenario))) { (row.scenario) }
                " " (figure_name(row))
            }
            td .number { (value(subject)) }
            td .number { (value(loss.winner)) }
            td { (view.name(loss.winner)) }
            td .number {
                @if let Some(factor) = loss.factor { (table::value(factor)) "×" } @else { "–" }
            }
        }
    }
}

/// All headline figures, shaded by how far they are from the best.
pub fn figures(view: View) -> Markup {
    let machine = view.machine;
    let scenarios = machine.scenarios.iter();
    let has_limit = machine.rows.iter().any(|row| row.limit.is_some());
    html! {
        details .figures open {
            summary { "All figures" }
            p .note {
                "Median over the " (view.model.repetition) "s; " (chart::best_mark()) " is the best of a line or as \
                 good; the darker, the further away. Hover or tap for the range. "
                (compare::rule(view.model.repetition))
                @if !view.model.qemu.is_empty() { " " (tolerance::near_turn_note()) "." }
                @if machine.rows.iter().any(|row| row.of_max.contains(&true)) {
                    " ^ is the largest sample, where there are too few for the percentile."
                }
                @if has_limit {
                    " The limit is what the measured threads find in SCHED_FIFO under the kernel's \
                     own scheduler, where no wait is due to a scheduler. It is not compared."
                }
            }
            div .scroll {
                table .heat {
                    thead {
                        tr {
                            th scope="col" { "scenario, figure" }
                            @for column in 0..machine.columns.len() {
                                th scope="col" .number.subject[view.is_subject(column)] {
                                    (view.name(column))
                                    @if machine.seeds[column] != *machine.seeds.iter().max().unwrap_or(&0) {
                                        small { (plural(machine.seeds[column], view.model.repetition)) }
                                    }
                                }
                            }
                            @if has_limit {
                                th scope="col" .number { (spec::LIMIT) }
                                @if let Some(subject) = view.subject() {
                                    th scope="col" .number { (view.name(subject)) " / limit" }
                                }
                            }
                        }
                    }
                    tbody {
                        @for index in scenarios.flat_map(|scenario| &scenario.rows) {
                            (figure_line(view, &machine.rows[*index], has_limit))
                        }
                    }
                }
            }
        }
    }
}

fn figure_line(view: View, row: &Row, has_limit: bool) -> Markup {
    let winners = row.winners();
    html! {
        tr {
            th scope="row" {
                a href=(format!("#{}", card_id(view, &row.scenario))) { (row.scenario) }
                " " (figure_name(row))
                @if !row.unit.is_empty() { small { " " (row.unit) } }
            }
            @for (column, cell) in row.cells.iter().enumerate() {
                @if let Some(cell) = cell {
                    td .number.(heat_class(row, column)).subject[view.is_subject(column)]
                        title=(format!(
                            "{}: {} to {} over {}", view.name(column), table::value(cell.min),
                            table::value(cell.max), plural(cell.count, view.model.repetition)
                        ))
                    {
                        (chart::near_mark(row, cell.median)) (table::value(cell.median))
                        @if row.of_max.get(column) == Some(&true) { "^" }
                        @if winners[column] { (chart::best_mark()) }
                    }
                } @else {
                    td .number.none { "–" }
                }
            }
            @if has_limit { (limit_cells(view, row)) }
        }
    }
}

/// The limit of a figure, and how many times that the subject is.
fn limit_cells(view: View, row: &Row) -> Markup {
    let limit = row.limit.map(|limit| limit.median);
    html! {
        td .number { (limit.map_or_else(|| "–".to_string(), table::value)) }
        @if let Some(subject) = view.subject() {
            @let own = row.cells[subject].map(|cell| cell.median);
            @let factor = own.zip(limit).filter(|(_, limit)| *limit > 0.0);
            td .number {
                @match (factor, row.better) {
                    (Some((own, limit)), Better::Lower) => { (table::value(own / limit)) "×" }
                    _ => "–"
                }
            }
        }
    }
}

/// How far a cell is from the best of its row, in steps.
fn heat_class(row: &Row, column: usize) -> &'static str {
    let (Some(own), Some((_, best))) = (row.badness(column), row.best()) else {
        return "h-none";
    };
    if row.winners()[column] {
        return "h0";
    }
    let factor = match row.better {
        Better::Lower => own / best,
        Better::Higher => best / own,
        Better::Near(goal) => 1.0 + (own - best) / goal.abs() * 2.0,
        Better::Neither => return "h-none",
    };
    match factor {
        factor if factor < 1.5 => "h1",
        factor if factor < 3.0 => "h2",
        factor if factor < 10.0 => "h3",
        _ => "h4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    #[test]
    fn cells_are_shaded_by_their_distance_from_the_best() {
        let row = |better, values: &[f64]| Row {
            scenario: "x".into(),
            metric: "y".into(),
            unit: String::new(),
            better,
            cells: values.iter().map(|&value| Spread::of(&[value])).collect(),
            limit: None,
            in_guest: false,
            of_max: Vec::new(),
        };
        let classes = |row: &Row| -> Vec<&str> {
            (0..row.cells.len())
                .map(|column| heat_class(row, column))
                .collect()
        };
        let lower = row(Better::Lower, &[1.0, 1.05, 1.2, 2.0, 5.0, 50.0]);
        assert_eq!(classes(&lower), ["h0", "h0", "h1", "h2", "h3", "h4"]);
        let zero = row(Better::Lower, &[0.0, 3.0]);
        assert_eq!(classes(&zero), ["h0", "h4"]);
        let higher = row(Better::Higher, &[10.0, 4.0]);
        assert_eq!(classes(&higher), ["h0", "h2"]);
        let near = row(Better::Near(10.0), &[10.0, 4.0, 8.0]);
        assert_eq!(classes(&near), ["h0", "h2", "h1"]);
    }
}
