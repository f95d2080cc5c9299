// SPDX-License-Identifier: GPL-2.0
//! What figures were, and whether they have become worse.
//!
//! A guest run is exact, but only for the same bytes of scheduler, workload,
//! kernel and QEMU: the same sources built elsewhere shift a load by
//! microseconds and show another sample of the same chaos, as another seed
//! does. So a figure counts as worse when its median over a few seeds is worse
//! than the baseline's median by more than the largest of
//!
//!   1. the spread: the distance of the best and the worst of the baseline's seeds,
//!   2. a quarter of the median,
//!   3. a floor for its unit, for figures that are next to nothing (`tolerance`).
//!
//! A single seed that is far outside fails as well, however good the median is: a
//! scheduler that goes wrong once in a while shows there.
//!
//! A figure with a goal is judged by its distance to the goal, in the same way.
//!
//! Not here: how it is measured (`gate`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::compare;
use crate::dataset::{Dataset, Sample};
use crate::gate_plan::GatePlan;
use crate::result::Better;
use crate::stats::Spread;
use crate::store::thin;
use crate::table;
use crate::text;
use crate::tolerance;

/// Part of the median that a figure may be worse by. Guess: a tenth is a tie in
/// comparisons, and other builds moved no median by more than a fifth.
const MARGIN: f64 = 0.25;

/// Part of its goal that a figure may be further from it.
const MARGIN_OF_GOAL: f64 = 0.10;

/// A single seed is wild if it is worse by this many times what the median may
/// be.
const WILD: f64 = 4.0;

/// Digits of a value that are written.
const DIGITS: i32 = 4;

/// One figure of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Shape of the machine; where the file does not say, the plan's main one.
    #[serde(default)]
    pub topology: String,
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is good.
    pub better: Better,
    /// Value for each seed of the baseline, in `unit`.
    pub values: Vec<f64>,
}

/// The committed file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// How it was measured and is checked.
    pub plan: GatePlan,
    /// Kernel that it was measured on.
    pub kernel: String,
    /// QEMU that it was measured in.
    pub qemu: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// What became of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within what is allowed.
    Same,
    /// Better by more than what is allowed the other way.
    Better,
    /// Worse than what is allowed.
    Worse,
    /// Within what is allowed, but for one seed.
    Wild,
    /// Not measured, or not by every seed.
    Missing,
    /// Measured, and not in the baseline, which was taken before it joined.
    New,
}

/// One figure now and then.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The figure of the baseline; of a new one, what it is now.
    pub figure: Figure,
    /// Its median now.
    pub now: Option<f64>,
    /// What became of it.
    pub verdict: Verdict,
    /// (seed, value) of the worst seed, if that is far worse than the median
    /// may be.
    pub wild: Option<(u64, f64)>,
}

impl Baseline {
    /// The baseline of these results, which have one scheduler only.
    pub fn of(dataset: &Dataset, plan: GatePlan) -> Self {
        Self {
            figures: figures(dataset, &plan),
            plan,
            kernel: dataset.kernel.clone(),
            qemu: dataset.qemu.clone(),
        }
    }

    /// Read the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "reading the baseline {} (--update measures and writes it)",
                path.display()
            )
        })?;
        let parsed = serde_json::from_str(&text);
        let mut baseline: Self =
            parsed.with_context(|| format!("{} is no baseline", path.display()))?;
        let main = baseline.plan.main_topology();
        let unsaid = baseline.figures.iter_mut();
        unsaid
            .filter(|figure| figure.topology.is_empty())
            .for_each(|figure| figure.topology.clone_from(&main));
        Ok(baseline)
    }

    /// Write the file, a line for each figure.
    pub fn write(&self, path: &Path) -> Result<()> {
        let json = |value: serde_json::Result<String>| value.context("writing JSON");
        let figures: Vec<String> = self
            .figures
            .iter()
            .map(|figure| json(serde_json::to_string(figure)))
            .collect::<Result<_>>()?;
        let text = format!(
            "{{\n\"plan\": {},\n\"kernel\": {},\n\"qemu\": {},\n\"figures\": [\n{}\n]\n}}\n",
            json(serde_json::to_string(&self.plan))?,
            json(serde_json::to_string(&self.kernel))?,
            json(serde_json::to_string(&self.qemu))?,
            figures.join(",\n")
        );
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Hold `results` against it: a check for each figure of the baseline, then one
    /// for each that is new.
    pub fn check(&self, dataset: &Dataset) -> Vec<Check> {
        let known = self.figures.iter().map(|figure| figure.check(dataset));
        let is_new = |now: &Figure| !self.figures.iter().any(|figure| figure.is_same_as(now));
        let new = figures(dataset, &self.plan).into_iter().filter(is_new);
        let new = new.map(|figure| Check {
            now: Spread::of(&figure.values).map(|spread| spread.median),
            verdict: Verdict::New,
            wild: None,
            figure,
        });
        known.chain(new).collect()
    }
}

/// All figures of `dataset` that count: headlines, and details that `plan` names.
fn figures(dataset: &Dataset, plan: &GatePlan) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (topology, _) in dataset.machines() {
        let is_here = |sample: &Sample| sample.topology == topology;
        let details = plan.details.iter().map(String::as_str);
        let counted = dataset.figures(is_here, &details.collect::<Vec<_>>());
        let counted = counted
            .into_iter()
            .filter(|(_, metric)| metric.better != Better::Neither);
        figures.extend(counted.map(|(scenario, metric)| {
            Figure {
                values: dataset
                    .values(&scenario, &metric.name, is_here)
                    .into_iter()
                    .map(|value| thin::round(value, DIGITS))
                    .collect(),
                topology: topology.to_string(),
                scenario,
                metric: metric.name,
                unit: metric.unit,
                better: metric.better,
            }
        }));
    }
    figures
}

impl Figure {
    fn is_same_as(&self, other: &Self) -> bool {
        (&self.topology, &self.scenario, &self.metric)
            == (&other.topology, &other.scenario, &other.metric)
    }

    fn check(&self, dataset: &Dataset) -> Check {
        let is_here = |sample: &Sample| sample.topology == self.topology;
        let values = dataset.values(&self.scenario, &self.metric, is_here);
        let nr_samples = dataset.samples.iter().filter(|one| is_here(one)).count();
        let is_whole = !values.is_empty() && values.len() == nr_samples;
        let now = Spread::of(&values).filter(|_| is_whole).map(|s| s.median);
        let wild = self.wild(dataset);
        let verdict = match now.map_or(Verdict::Missing, |now| self.judge(now)) {
            Verdict::Same | Verdict::Better if wild.is_some() => Verdict::Wild,
            verdict => verdict,
        };
        Check {
            figure: self.clone(),
            now,
            verdict,
            wild,
        }
    }

    /// How bad a value is: the smaller, the better.
    fn badness(&self, value: f64) -> f64 {
        compare::badness(self.better, value).unwrap_or(value)
    }

    /// Median and spread of the baseline, as badness.
    fn spread(&self) -> Option<Spread> {
        let badness: Vec<f64> = self.values.iter().map(|&v| self.badness(v)).collect();
        Spread::of(&badness)
    }

    /// What a median may be worse by.
    fn allowance(&self, spread: &Spread) -> f64 {
        let margin = match self.better {
            Better::Near(goal) => (goal * MARGIN_OF_GOAL).abs(),
            _ => (spread.median * MARGIN).abs().max(self.floor()),
        };
        margin.max(spread.max - spread.min)
    }

    fn floor(&self) -> f64 {
        tolerance::floor(&self.metric, &self.unit)
    }

    fn judge(&self, now: f64) -> Verdict {
        let Some(spread) = self.spread() else {
            return Verdict::Missing;
        };
        let (allowance, now) = (self.allowance(&spread), self.badness(now));
        match now - spread.median {
            // Whatever explains others is neither good nor bad.
            _ if self.better == Better::Neither => Verdict::Same,
            worse if worse > allowance => Verdict::Worse,
            worse if -worse > allowance => Verdict::Better,
            _ => Verdict::Same,
        }
    }

    /// The worst seed of `results`, if it is wild.
    fn wild(&self, dataset: &Dataset) -> Option<(u64, f64)> {
        let spread = self.spread()?;
        let limit = spread.median + WILD * self.allowance(&spread);
        let value = |sample: &Sample| {
            let value = sample.value(&self.scenario, &self.metric)?;
            Some((sample.seed, value))
        };
        let worst = dataset
            .samples
            .iter()
            .filter(|sample| sample.topology == self.topology)
            .filter_map(value)
            .max_by(|a, b| self.badness(a.1).total_cmp(&self.badness(b.1)));
        worst.filter(|&(_, value)| self.better != Better::Neither && self.badness(value) > limit)
    }

    fn title(&self) -> String {
        let title = format!("{} {}", self.metric, self.unit);
        title.trim().to_string()
    }

    /// The values that are allowed, in words.
    fn allowed(&self) -> String {
        let Some(spread) = self.spread() else {
            return "-".to_string();
        };
        let limit = spread.median + self.allowance(&spread);
        match self.better {
            Better::Lower => format!("<= {}", table::value(limit)),
            Better::Higher => format!(">= {}", table::value(-limit)),
            Better::Near(goal) => format!(
                "{}..{}",
                table::value(goal - limit),
                table::value(goal + limit)
            ),
            Better::Neither => "any".to_string(),
        }
    }
}

/// Is any figure worse, if only under one seed, or gone?
pub fn is_worse(checks: &[Check]) -> bool {
    use Verdict::{Missing, Wild, Worse};
    let is_bad = |check: &Check| matches!(check.verdict, Worse | Wild | Missing);
    checks.iter().any(is_bad)
}

/// All checks as a table.
pub fn table(checks: &[Check]) -> String {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let mut lines: Vec<Vec<String>> = vec![words(&[
        "machine", "scenario", "figure", "baseline", "of seeds", "now", "allowed", "",
    ])];
    for check in checks {
        let figure = &check.figure;
        let Some(spread) = Spread::of(&figure.values) else {
            continue;
        };
        let verdict = match check.verdict {
            Verdict::Same => "",
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Wild => "WILD",
            Verdict::Missing => "MISSING",
            Verdict::New => {
                lines.push(new_line(check));
                continue;
            }
        };
        lines.push(vec![
            figure.topology.clone(),
            figure.scenario.clone(),
            figure.title(),
            table::value(spread.median),
            format!("{}..{}", table::value(spread.min), table::value(spread.max)),
            check.now.map_or("-".to_string(), table::value),
            figure.allowed(),
            match check.wild {
                Some((seed, value)) => format!("{verdict} (seed {seed}: {})", table::value(value)),
                None => verdict.to_string(),
            },
        ]);
    }
    text::align(&lines)
}

/// A figure that the baseline does not have: it is told and judges nothing.
fn new_line(check: &Check) -> Vec<String> {
    let figure = &check.figure;
    vec![
        figure.topology.clone(),
        figure.scenario.clone(),
        figure.title(),
        "-".to_string(),
        "-".to_string(),
        check.now.map_or("-".to_string(), table::value),
        "any".to_string(),
        "new figure".to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Metric;
    use crate::testing;

    fn plan() -> GatePlan {
        GatePlan {
            scenarios: vec!["saturation".into()],
            seconds: 1.0,
            baseline_seeds: 3,
            seeds: 2,
            ..GatePlan::first(None, &[])
        }
    }

    fn figure(unit: &str, better: Better, values: &[f64]) -> Figure {
        Figure {
            topology: "1x1x4x1".into(),
            scenario: "x".into(),
            metric: "missed".into(),
            unit: unit.into(),
            better,
            values: values.to_vec(),
        }
    }

    #[test]
    fn worse_means_by_more_than_spread_margin_and_floor() {
        use Verdict::{Better as Good, Same, Worse};
        let cases: &[(&str, Better, &[f64], f64, Verdict)] = &[
            // A floor: what is next to nothing may double.
            ("ms", Better::Lower, &[0.08, 0.08, 0.08], 0.17, Same),
            ("ms", Better::Lower, &[0.08, 0.08, 0.08], 0.19, Worse),
            ("", Better::Lower, &[0.0, 0.0, 0.0], 2.0, Same),
            ("", Better::Lower, &[0.0, 0.0, 0.0], 3.0, Worse),
            // A margin: a quarter of the median.
            ("ms", Better::Lower, &[4.0, 4.0, 4.0], 4.9, Same),
            ("ms", Better::Lower, &[4.0, 4.0, 4.0], 5.1, Worse),
            ("ms", Better::Lower, &[4.0, 4.0, 4.0], 2.9, Good),
            // The spread of the seeds.
            ("ms", Better::Lower, &[3.0, 4.0, 6.0], 6.9, Same),
            ("ms", Better::Lower, &[3.0, 4.0, 6.0], 7.1, Worse),
            ("1/s", Better::Higher, &[100.0, 100.0], 76.0, Same),
            ("1/s", Better::Higher, &[100.0, 100.0], 74.0, Worse),
            // Nearness: a tenth of the goal.
            ("", Better::Near(9.3), &[9.1, 9.2], 8.4, Same),
            ("", Better::Near(9.3), &[9.1, 9.2], 1.0, Worse),
            ("", Better::Near(9.3), &[9.1, 9.2], 11.0, Worse),
        ];
        for (unit, better, values, now, expected) in cases {
            let figure = figure(unit, *better, values);
            assert_eq!(figure.judge(*now), *expected, "{values:?} now {now}");
        }
    }

    #[test]
    fn a_baseline_holds_for_what_it_was_made_of() {
        let dataset = testing::dataset(&[("a", &[1.0, 1.2, 1.1])]);
        let baseline = Baseline::of(&dataset, plan());
        let checks = baseline.check(&dataset);
        assert_eq!(checks.len(), 1);
        assert_eq!(checks[0].now, Some(1.1));
        assert!(!is_worse(&checks));
    }

    #[test]
    fn a_worse_and_a_missing_figure_fail() {
        let baseline = Baseline::of(&testing::dataset(&[("a", &[1.0, 1.2, 1.1])]), plan());
        let worse = testing::dataset(&[("a", &[1.5, 1.6])]);
        let checks = baseline.check(&worse);
        assert!(is_worse(&checks));
        let text = table(&checks);
        assert!(text.contains("WORSE") && text.contains("<= 1.38"), "{text}");

        let mut missing = testing::dataset(&[("a", &[1.0, 1.1])]);
        missing.samples[1].result.scenarios.clear();
        let checks = baseline.check(&missing);
        assert_eq!(checks[0].verdict, Verdict::Missing);
        assert!(is_worse(&checks));
    }

    #[test]
    fn a_wild_seed_fails_however_good_the_median_is() {
        let baseline = Baseline::of(&testing::dataset(&[("a", &[1.0, 1.2, 1.1])]), plan());
        let now = testing::dataset(&[("a", &[1.0, 1.1, 9.0])]);
        let checks = baseline.check(&now);
        assert_eq!(checks[0].wild, Some((3, 9.0)));
        assert_eq!(checks[0].now, Some(1.1));
        assert!(is_worse(&checks));
        assert!(table(&checks).contains("WILD (seed 3: 9.00)"));
        let calm = testing::dataset(&[("a", &[1.0, 1.1, 1.9])]);
        let checks = baseline.check(&calm);
        assert_eq!((checks[0].wild, is_worse(&checks)), (None, false));
    }

    /// `dataset` with a detail of this value in each sample.
    fn with_detail(mut dataset: Dataset, name: &str, value: f64) -> Dataset {
        for sample in &mut dataset.samples {
            let detail = Metric {
                headline: false,
                ..testing::metric(name, value, "", Better::Lower)
            };
            sample.result.scenarios[0].metrics.push(detail);
        }
        dataset
    }

    #[test]
    fn details_that_the_plan_names_are_held_and_others_are_not() {
        let data = || testing::dataset(&[("a", &[1.0, 1.2])]);
        let of = |name: &str, value| with_detail(data(), name, value);
        let baseline = Baseline::of(&of("migrations_per_preemption", 0.1), plan());
        assert_eq!(baseline.figures.len(), 2);
        let now = |value| baseline.check(&of("migrations_per_preemption", value));
        assert!(!is_worse(&now(0.19)));
        assert!(is_worse(&now(0.21)));
        assert_eq!(Baseline::of(&of("switches", 0.1), plan()).figures.len(), 1);
    }

    #[test]
    fn a_figure_that_the_baseline_does_not_have_is_told_and_fails_nothing() {
        let data = || testing::dataset(&[("a", &[1.0, 1.2])]);
        let baseline = Baseline::of(&data(), plan());
        let mut now = with_detail(data(), "migrations_per_preemption", 3.0);
        let mut elsewhere = data().samples;
        elsewhere[0].topology = "1x2x2x1".into();
        elsewhere.truncate(1);
        now.samples.extend(elsewhere);
        let checks = baseline.check(&now);
        let verdicts: Vec<Verdict> = checks.iter().map(|check| check.verdict).collect();
        assert_eq!(verdicts, [Verdict::Same, Verdict::New, Verdict::New]);
        assert_eq!(checks[2].figure.topology, "1x2x2x1");
        assert!(!is_worse(&checks));
        assert_eq!(table(&checks).matches("new figure").count(), 2);
    }

    #[test]
    fn each_machine_is_held_against_its_own_baseline() {
        let on = |topology: &str, values: &[f64]| {
            let mut dataset = testing::dataset(&[("a", values)]);
            let samples = dataset.samples.iter_mut();
            samples.for_each(|sample| sample.topology = topology.into());
            dataset
        };
        let both = |one: &[f64], two: &[f64]| {
            Dataset::merge(vec![on("1x1x4x1", one), on("1x2x2x1", two)]).unwrap()
        };
        let baseline = Baseline::of(&both(&[1.0, 1.2], &[4.0, 4.2]), plan());
        let checks = baseline.check(&both(&[1.0, 1.2], &[4.0, 4.2]));
        assert!(checks.len() == 2 && !is_worse(&checks));
        assert!(is_worse(&baseline.check(&both(&[4.0, 4.2], &[4.0, 4.2]))));
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("baseline.json");
        let mut baseline = Baseline::of(&testing::dataset(&[("a", &[1.0, 1.25])]), plan());
        baseline.figures.push(figure("", Better::Near(9.3), &[9.0]));
        baseline.write(&path).unwrap();
        assert_eq!(Baseline::read(&path).unwrap(), baseline);
        assert!(Baseline::read(&dir.path().join("absent")).is_err());
    }
}
