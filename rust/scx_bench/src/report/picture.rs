// SPDX-License-Identifier: GPL-2.0
//! One picture for a front page: how long the frames of a game take on busy CPUs,
//! under the kernel's own scheduler and under the one that the results are about.
//!
//! To the right a frame takes longer, upwards are more of the frames, so a
//! steep line far to the left is good: every frame takes as long as its work.
//! Beyond the dashed line a frame comes too late. The file has its own
//! background and both sets of colours, so it is legible on any page.
//!
//! Not here: the curves of the report (`chart`), which show tails.

use anyhow::{Result, ensure};
use maud::{Markup, PreEscaped, html};

use super::chart::tenth;
use crate::dataset::{Dataset, Sample};
use crate::spec;
use crate::stats::{Summary, median};

/// What is drawn.
const SCENARIO: &str = "game_mt";
const LATENCY: &str = "frame";
const RATE: &str = "fps";
/// CPU time of a frame: of its main thread, and of each other one.
const MAIN_MS: u32 = 7;
const WORKER_MS: u32 = 5;
/// Other tasks for each CPU.
const HOGS_PER_CPU: u32 = 4;
/// A percentile that the frames of all seeds support, at any rate.
const TAIL: f64 = 0.95;
/// From the start of a frame to that of the next.
const DEADLINE_MS: f64 = 1000.0 / 60.0;

/// Size in its own units, and the edges of the plot.
const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 798.0;
const TOP: f64 = 162.0;
const BOTTOM: f64 = 388.0;

/// Where the columns of figures end, and their heads.
const COLUMNS: [(f64, &str); 3] = [
    (430.0, "half done within"),
    (610.0, "95% done within"),
    (RIGHT, "frames per second"),
];

/// Labels of the time axis stand this far apart.
const TICK_MS: u32 = 4;

const STYLE: &str = "\
text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;fill:#1b1e23}\
.page{fill:#fff}.title{font-size:21px;font-weight:700}.soft{fill:#5a6270}.small{font-size:12px;fill:#5a6270}\
.name{font-weight:700}.late{fill:#c2410c;opacity:.08}.grid{stroke:#e4e7ec}\
.deadline{stroke:#b3261e;stroke-width:1.5;stroke-dasharray:6 4}.due{fill:#b3261e;font-weight:600}\
.curve{fill:none;stroke-width:3.5;stroke-linejoin:round}.c0{stroke:#d97706}.c1{stroke:#0b57c2}\
@media (prefers-color-scheme:dark){text{fill:#e7eaee}.page{fill:#14171b}.soft,.small{fill:#9ba5b2}\
.late{fill:#ff8a5c;opacity:.12}.grid{stroke:#2a3038}.deadline{stroke:#ff897d}.due{fill:#ff897d}\
.c0{stroke:#f0a63c}.c1{stroke:#6aaaff}}";

/// The frames under one scheduler, all seeds together.
struct Frames<'a> {
    name: String,
    summaries: Vec<&'a Summary>,
    per_second: f64,
}

/// The picture as SVG.
pub fn svg(dataset: &Dataset) -> Result<String> {
    let (subject, (topology, cpus)) = dataset.front()?;
    let frames = |name: &str| Frames::of(dataset, topology, name);
    let both = [frames(spec::DEFAULT)?, frames(subject)?];
    let longest_ns = both.iter().flat_map(|one| &one.summaries).map(|s| s.max_ns);
    let longest_ms = ms(longest_ns.max().unwrap_or(0)).max(DEADLINE_MS);
    let end_ms = ((longest_ms * 1.05) as u32 / TICK_MS + 1) * TICK_MS;
    let nr_workers = (cpus - 1).max(1);
    let where_run = match dataset.qemu.as_str() {
        "" => "on this machine",
        _ => "in a guest whose clock counts instructions",
    };
    let what = format!(
        "Linux {}, {cpus} CPUs, {} {}s, {where_run}",
        dataset.kernel,
        both[1].summaries.len(),
        dataset.repetition(),
    );
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}"))
            role="img" aria-label="How long frames of a game take while every CPU is busy"
        {
            style { (PreEscaped(STYLE)) }
            rect .page width=(WIDTH) height=(HEIGHT) rx="8" {}
            (text(24.0, 36.0, "start", "title", "A game of 60 frames a second while every CPU is busy"))
            (text(24.0, 60.0, "start", "soft", &format!(
                "Each frame needs {} ms of CPU time in {} threads; {} other tasks on the {cpus} CPUs never sleep.",
                MAIN_MS + WORKER_MS * nr_workers,
                1 + nr_workers,
                HOGS_PER_CPU * cpus
            )))
            (key(&both))
            (axes(end_ms))
            @for (index, one) in both.iter().enumerate() {
                polyline class=(format!("curve c{index}")) points=(one.points(end_ms)) {}
            }
            (text((LEFT + RIGHT) / 2.0, BOTTOM + 42.0, "middle", "",
                "time from the start of a frame until it is done, in ms (further left is better)"))
            (text(24.0, HEIGHT - 14.0, "start", "small", &what))
        }
    };
    Ok(markup.into_string() + "\n")
}

impl<'a> Frames<'a> {
    fn of(dataset: &'a Dataset, topology: &str, scheduler: &str) -> Result<Self> {
        let is_meant =
            |sample: &Sample| sample.topology == topology && sample.scheduler == scheduler;
        let samples = dataset.samples.iter().filter(|&sample| is_meant(sample));
        let results = samples.flat_map(|sample| &sample.result.scenarios);
        let results = results.filter(|result| result.scenario == SCENARIO);
        let summaries: Vec<&Summary> = results.filter_map(|found| found.latency(LATENCY)).collect();
        let rates = dataset.values(SCENARIO, RATE, is_meant);
        ensure!(
            !summaries.is_empty(),
            "{SCENARIO} was not measured under {scheduler}"
        );
        Ok(Self {
            name: dataset.label(scheduler),
            summaries,
            per_second: median(&rates).unwrap_or(0.0),
        })
    }

    /// A percentile in words: the median over the seeds.
    fn percentile(&self, get: fn(&Summary) -> u64) -> String {
        let values: Vec<f64> = self.summaries.iter().map(|s| ms(get(s))).collect();
        let value = median(&values).unwrap_or(0.0);
        format!("{value:.1} ms")
    }

    /// How long the first 95% of all frames took, in words: where the curve is.
    fn tail(&self) -> String {
        let points = self.summaries.iter().flat_map(|s| &s.distribution);
        let mut values_ns: Vec<u64> = points.map(|point| point.0).collect();
        values_ns.sort_unstable();
        let at = values_ns.partition_point(|&ns| self.part_done(ns) < TAIL);
        let last_ns = values_ns.last().copied().unwrap_or(0);
        format!(
            "{:.1} ms",
            ms(values_ns.get(at).copied().unwrap_or(last_ns))
        )
    }

    /// Part of all frames that are done within `ns`.
    fn part_done(&self, ns: u64) -> f64 {
        let count: u64 = self.summaries.iter().map(|s| s.count).sum();
        let done = self
            .summaries
            .iter()
            .map(|s| part_below(s, ns) * s.count as f64);
        done.sum::<f64>() / count.max(1) as f64
    }

    /// The line from the lower left to the upper right corner.
    fn points(&self, end_ms: u32) -> String {
        let points = self.summaries.iter().flat_map(|s| &s.distribution);
        let mut values_ns: Vec<u64> = points.map(|point| point.0).collect();
        values_ns.sort_unstable();
        values_ns.dedup();
        let first = values_ns.first().map(|&ns| (ms(ns), 0.0));
        let curve = values_ns.iter().map(|&ns| (ms(ns), self.part_done(ns)));
        let ends = [(0.0, 0.0), (f64::from(end_ms), 1.0)];
        let all = ends
            .into_iter()
            .take(1)
            .chain(first)
            .chain(curve)
            .chain(ends.into_iter().skip(1));
        let words: Vec<String> = all
            .map(|(at_ms, part)| format!("{},{}", tenth(x(at_ms, end_ms)), tenth(y(part))))
            .collect();
        words.join(" ")
    }
}

/// Names and figures of both.
fn key(both: &[Frames]) -> Markup {
    html! {
        @for (end, head) in COLUMNS { (text(end, 92.0, "end", "small", head)) }
        @for (index, one) in both.iter().rev().enumerate() {
            @let y = 114.0 + 22.0 * index as f64;
            @let colour = both.len() - 1 - index;
            line class=(format!("curve c{colour}")) x1="24" x2="52" y1=(y - 5.0) y2=(y - 5.0) {}
            (text(62.0, y, "start", "name", &one.name))
            @let rate = format!("{:.1}", one.per_second);
            @let figures = [one.percentile(|s| s.p50_ns), one.tail(), rate];
            @for ((end, _), figure) in COLUMNS.iter().zip(figures) { (text(*end, y, "end", "", &figure)) }
        }
    }
}

fn axes(end_ms: u32) -> Markup {
    let due = x(DEADLINE_MS, end_ms);
    html! {
        rect .late x=(tenth(due)) y=(TOP) width=(tenth(RIGHT - due)) height=(BOTTOM - TOP) {}
        @for percent in [0, 25, 50, 75, 100] {
            @let at = tenth(y(f64::from(percent) / 100.0));
            line .grid x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) {}
            (text(LEFT - 8.0, y(f64::from(percent) / 100.0) + 5.0, "end", "soft", &format!("{percent}%")))
        }
        @for tick in (0..=end_ms).step_by(TICK_MS as usize) {
            @let at = x(f64::from(tick), end_ms);
            line .grid x1=(tenth(at)) x2=(tenth(at)) y1=(TOP) y2=(BOTTOM) {}
            (text(at, BOTTOM + 20.0, "middle", "soft", &tick.to_string()))
        }
        line .deadline x1=(tenth(due)) x2=(tenth(due)) y1=(TOP) y2=(BOTTOM) {}
        (text(due + 8.0, TOP + 28.0, "start", "due", "16.7 ms: the next"))
        (text(due + 8.0, TOP + 46.0, "start", "due", "refresh is missed"))
        text x="0" y="0" text-anchor="middle"
            transform=(format!("translate(24 {}) rotate(-90)", (TOP + BOTTOM) / 2.0)) { "frames done" }
    }
}

fn text(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> Markup {
    html! {
        text class=[(!class.is_empty()).then_some(class)] x=(tenth(x)) y=(tenth(y))
            text-anchor=(anchor) { (text) }
    }
}

fn x(at_ms: f64, end_ms: u32) -> f64 {
    LEFT + at_ms / f64::from(end_ms) * (RIGHT - LEFT)
}

fn y(part: f64) -> f64 {
    BOTTOM - part * (BOTTOM - TOP)
}

fn ms(ns: u64) -> f64 {
    ns as f64 / crate::clock::NSEC_PER_MSEC as f64
}

/// Part of the samples that are not above `ns`, on a straight line between two
/// points of the distribution.
fn part_below(summary: &Summary, ns: u64) -> f64 {
    let points = &summary.distribution;
    let next = points.partition_point(|point| point.0 <= ns);
    match (
        next.checked_sub(1).and_then(|last| points.get(last)),
        points.get(next),
    ) {
        (None, _) => 0.0,
        (Some(last), None) => last.1,
        (Some(last), Some(next)) => {
            last.1 + (next.1 - last.1) * (ns - last.0) as f64 / (next.0 - last.0) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use crate::testing;

    #[test]
    fn the_work_of_a_frame_is_what_the_scenario_says() {
        let scenarios = scenario::select(SCENARIO).unwrap();
        let text = scenarios[0].about;
        for words in [
            format!("{HOGS_PER_CPU}N hogs"),
            format!("use {WORKER_MS} ms of CPU each, uses {MAIN_MS} ms itself"),
        ] {
            assert!(text.contains(&words), "{words} is not in: {text}");
        }
    }

    #[test]
    fn a_part_lies_on_the_line_between_two_points() {
        let mut summary = testing::latency("done", 1_000).summary;
        summary.distribution = vec![(10, 0.0), (20, 0.5), (40, 1.0)];
        let parts = [5, 10, 15, 30, 40, 50].map(|ns| part_below(&summary, ns));
        assert_eq!(parts, [0.0, 0.0, 0.25, 0.75, 1.0, 1.0]);
    }
}
