// SPDX-License-Identifier: GPL-2.0
//! Curves and bars.
//!
//! A curve is the distribution of a latency: to the right it takes longer (a
//! logarithmic scale), upwards are ever rarer waits, so that the tail, which is
//! what people feel, takes most of the room: 90%, 99% and 99.9% are equally far
//! apart. Further left is better. Bars are plain boxes with text beside them,
//! which stay legible on a narrow screen.
//!
//! Not here: the picture for a front page (`picture`).

use maud::{Markup, html};

use super::model::{Curve, Latency, View};
use crate::compare::Row;
use crate::result::Better;
use crate::table;

/// Size of a picture in its own units, and room for the labels of its axes.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;

/// Height of the upper edge, where the longest latencies are, in powers of ten
/// of the distance to 100%.
const NINES_MAX: f64 = 3.5;

/// Labels of the upward axis: (fraction, text).
const FRACTIONS: [(f64, &str); 5] = [
    (0.0, "0%"),
    (0.5, "50%"),
    (0.9, "90%"),
    (0.99, "99%"),
    (0.999, "99.9%"),
];

/// Shortest latency that a scale tells apart, in nanoseconds.
const SCALE_MIN_NS: f64 = 1_000.0;

/// A logarithmic scale of latencies.
struct Scale {
    /// Exponents of ten at its ends.
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale that has room for all of `latency`.
    fn of(latency: &Latency) -> Self {
        let curves = latency.curves.iter().flatten();
        let all = curves.flat_map(|curve| {
            let points = curve.points.iter().map(|point| point.0);
            points.chain(curve.percentiles_ns.into_iter().filter(|&ns| ns > 0))
        });
        let all: Vec<f64> = all.map(|ns| (ns as f64).max(SCALE_MIN_NS)).collect();
        let shortest = all.iter().copied().fold(f64::INFINITY, f64::min);
        let longest = all.iter().copied().fold(SCALE_MIN_NS, f64::max);
        let from = shortest.min(longest).log10();
        // At least one power of ten, whose ends need not be round.
        let to = longest.log10().max(from + 1.0);
        Self {
            from: (from * 4.0).floor() / 4.0,
            to: (to * 4.0).ceil() / 4.0,
        }
    }

    /// Where `ns` lies, from 0 to 1.
    fn at(&self, ns: f64) -> f64 {
        ((ns.max(SCALE_MIN_NS).log10() - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Powers of ten within it, in nanoseconds.
    fn decades(&self) -> Vec<f64> {
        let (from, to) = (self.from.ceil() as i32, self.to.floor() as i32);
        (from..=to).map(|exponent| 10f64.powi(exponent)).collect()
    }
}

/// The curves of one kind of latency.
pub fn curves(view: View, latency: &Latency, title: &str) -> Markup {
    let scale = Scale::of(latency);
    let x = |ns: f64| LEFT + scale.at(ns) * (WIDTH - LEFT - RIGHT);
    let points = |curve: &Curve| {
        let points = curve.points.iter();
        let words: Vec<String> = points
            .map(|&(ns, fraction)| format!("{},{}", tenth(x(ns as f64)), tenth(y(fraction))))
            .collect();
        words.join(" ")
    };
    // The subject last, so that it lies above the others.
    let mut order: Vec<usize> = (0..latency.curves.len()).collect();
    order.sort_by_key(|&column| view.is_subject(column));
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
            @for (fraction, text) in FRACTIONS {
                (grid_line([LEFT, y(fraction), WIDTH - RIGHT, y(fraction)]))
                (label(LEFT - 6.0, y(fraction) + 4.0, "end", text))
            }
            (label(LEFT - 6.0, TOP + 4.0, "end", "max"))
            @for ns in scale.decades() {
                (grid_line([x(ns), TOP, x(ns), HEIGHT - BOTTOM]))
                (label(x(ns), HEIGHT - BOTTOM + 16.0, "middle", &duration(ns)))
            }
            @for column in order {
                @if let Some(curve) = &latency.curves[column] {
                    g .curve.subject[view.is_subject(column)].(view.colour(column)) {
                        polyline .line points=(points(curve)) {}
                        polyline .hit points=(points(curve)) {}
                        title { (curve_title(view.name(column), curve)) }
                    }
                }
            }
        }
    }
}

/// Where a fraction of the samples lies in a picture.
fn y(fraction: f64) -> f64 {
    let rest = (1.0 - fraction).max(f64::MIN_POSITIVE);
    let height = (-rest.log10()).clamp(0.0, NINES_MAX) / NINES_MAX;
    HEIGHT - BOTTOM - height * (HEIGHT - TOP - BOTTOM)
}

fn grid_line([x1, y1, x2, y2]: [f64; 4]) -> Markup {
    html! {
        line .grid x1=(tenth(x1)) y1=(tenth(y1)) x2=(tenth(x2)) y2=(tenth(y2)) {}
    }
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> Markup {
    html! {
        text .axis x=(tenth(x)) y=(tenth(y)) text-anchor=(anchor) { (text) }
    }
}

fn curve_title(name: &str, curve: &Curve) -> String {
    let named = ["p50", "p90", "p99", "max"]
        .into_iter()
        .zip(curve.percentiles_ns);
    // What too few samples do not tell is 0.
    let words = named.filter(|(name, ns)| *ns > 0 || *name == "p50");
    let words = words.map(|(name, ns)| format!("{name} {}", duration(ns as f64)));
    let words: Vec<String> = words.collect();
    format!("{name}: {}", words.join(", "))
}

/// Bars from p50 to the tail of one kind of latency, with ticks at p90 and max. The
/// best are those of the row that is about that tail, if there is one.
pub fn percentile_bars(view: View, latency: &Latency, row: Option<&Row>) -> Markup {
    let scale = Scale::of(latency);
    let percent = |ns: u64| format!("{:.1}%", 100.0 * scale.at(ns as f64));
    let winners = row.map_or_else(Vec::new, Row::winners);
    let is_best = |column: usize| winners.get(column) == Some(&true);
    let width = |from: u64, to: u64| {
        let width = 100.0 * (scale.at(to as f64) - scale.at(from as f64));
        format!("{width:.1}%")
    };
    html! {
        div .bars {
            @for (column, curve) in latency.curves.iter().enumerate() {
                div .name.subject[view.is_subject(column)] { (view.name(column)) }
                @if let Some(curve) = curve {
                    @let [p50, p90, _, max] = curve.percentiles_ns;
                    @let tail = latency.tail.of_curve(curve);
                    div .track.(view.colour(column)) title=(curve_title(view.name(column), curve)) {
                        div .box style=(format!("left:{};width:{}", percent(p50), width(p50, tail))) {}
                        @if p90 > 0 { div .tick style=(format!("left:{}", percent(p90))) {} }
                        div .dot style=(format!("left:{}", percent(max))) {}
                    }
                    div .value { (duration(tail as f64)) @if is_best(column) { (best_mark()) } }
                } @else {
                    div .track {}
                    div .value { "no result" }
                }
            }
        }
    }
}

/// Bars of a figure from 0, with a line at its goal if it has one and a
/// whisker over the seeds.
pub fn figure_bars(view: View, row: &Row) -> Markup {
    let goal = match row.better {
        Better::Near(goal) => Some(goal),
        _ => None,
    };
    let largest = row.cells.iter().flatten().map(|cell| cell.max);
    let top = largest.chain(goal).fold(0.0, f64::max);
    let percent = |value: f64| {
        let part = if top > 0.0 { value.max(0.0) / top } else { 0.0 };
        format!("{:.1}%", 100.0 * part)
    };
    let winners = row.winners();
    html! {
        div .bars {
            @for (column, cell) in row.cells.iter().enumerate() {
                div .name.subject[view.is_subject(column)] { (view.name(column)) }
                @if let Some(cell) = cell {
                    div .track.(view.colour(column)) {
                        div .box style=(format!("left:0;width:{}", percent(cell.median))) {}
                        @if cell.count > 1 {
                            div .whisker style=(format!(
                                "left:{};width:{}", percent(cell.min), percent(cell.max - cell.min)
                            )) {}
                        }
                        @if let Some(goal) = goal {
                            div .goal style=(format!("left:{}", percent(goal))) {}
                        }
                    }
                    div .value {
                        (near_mark(row, cell.median)) (with_unit(cell.median, &row.unit))
                        @if winners[column] { (best_mark()) }
                    }
                } @else {
                    div .track {}
                    div .value { "no result" }
                }
            }
        }
    }
}

/// What marks the best of a row.
pub fn best_mark() -> Markup {
    html! { span .best title="best, or as good" { "\u{2605}" } }
}

/// What stands before a value that is near the emulator's turn.
pub fn near_mark(row: &Row, value: f64) -> &'static str {
    if row.is_near_turn(value) { "~" } else { "" }
}

/// A value with its unit, as text.
pub fn with_unit(value: f64, unit: &str) -> String {
    let value = table::value(value);
    match unit {
        "" => value,
        "%" => format!("{value}%"),
        "1/1000" => format!("{value}\u{2030}"),
        _ => format!("{value}\u{202f}{unit}"),
    }
}

/// A time in the unit that suits it.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5e3 => (ns / 1e3, "\u{b5}s"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    // 1 rather than 1.00 where an axis is labelled.
    let text = match value.fract() == 0.0 {
        true => format!("{value}"),
        false => table::value(value),
    };
    format!("{text}\u{202f}{unit}")
}

/// A coordinate: a tenth is finer than anything seen.
pub fn tenth(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::super::model::Tail;
    use super::*;

    fn latency(values_ns: &[u64]) -> Latency {
        let points = values_ns.iter().map(|&ns| (ns, 0.5)).collect();
        let curve = Curve {
            percentiles_ns: [values_ns[0]; 4],
            count: 1000,
            points,
        };
        Latency {
            name: "wake".into(),
            tail: Tail::P99,
            curves: vec![Some(curve), None],
        }
    }

    #[test]
    fn a_scale_has_room_for_all_and_a_decade_at_least() {
        let scale = Scale::of(&latency(&[20_000, 4_000_000]));
        assert!(scale.at(20_000.0) >= 0.0 && scale.at(20_000.0) < 0.15);
        assert!(scale.at(4e6) > 0.85 && scale.at(4e6) <= 1.0);
        assert_eq!(scale.decades(), [1e5, 1e6]);
        let narrow = Scale::of(&latency(&[50_000]));
        assert!(narrow.to - narrow.from >= 1.0);
        assert!(!narrow.decades().is_empty());
    }

    #[test]
    fn each_nine_takes_the_same_room() {
        let (a, b, c) = (y(0.9), y(0.99), y(0.999));
        assert!((a - b - (b - c)).abs() < 1e-6);
        assert_eq!(y(0.0), HEIGHT - BOTTOM);
        assert_eq!(y(1.0), TOP);
    }

    #[test]
    fn times_are_shown_in_the_unit_that_suits_them() {
        let shown = [1e3, 8.04e4, 1e6, 2.5e6, 1.5e9].map(duration);
        let plain = shown.map(|text| text.replace('\u{202f}', " "));
        assert_eq!(
            plain,
            ["1 \u{b5}s", "80.4 \u{b5}s", "1 ms", "2.50 ms", "1.50 s"]
        );
    }
}
