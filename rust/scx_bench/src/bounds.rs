// SPDX-License-Identifier: GPL-2.0
//! Bounds of figures: what a scheduler promises on every kernel.
//!
//! A baseline (`baseline`) holds one kernel to what was measured there. Bounds are
//! numbers that somebody wrote down with a reason: they are the same on each kernel.
//! Every seed is held, and the worst one is the figure.
//!
//! Not here: how it is measured and shown (`scorecard`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::dataset::{Dataset, Sample};
use crate::scenario::{self, Scenario};

/// The committed file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// CPUs of the guest, all below one cache.
    pub cpus: u32,
    /// Length of each measurement in seconds.
    pub seconds: f64,
    /// Seeds 1 to this are run.
    pub seeds: u64,
    /// The bounds; their scenarios are run in this order.
    pub bounds: Vec<Bound>,
}

/// What one figure has to be.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the figure, as its result has it.
    pub figure: String,
    /// Its unit, for tables.
    #[serde(default)]
    pub unit: String,
    /// The smallest value that is allowed.
    pub least: Option<f64>,
    /// The largest value that is allowed.
    pub most: Option<f64>,
    /// Where the bound comes from.
    pub from: String,
}

impl Bounds {
    /// Read the file and check what it says.
    pub fn read(path: &Path) -> Result<Self> {
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).with_context(reading)?;
        Self::parse(&text).with_context(|| format!("{} holds no bounds", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let bounds: Self = serde_json::from_str(text)?;
        ensure!(bounds.cpus > 0 && bounds.seeds > 0, "nothing is to be run");
        ensure!(!bounds.bounds.is_empty(), "the list is empty");
        for bound in &bounds.bounds {
            let title = bound.title();
            ensure!(
                bound.least.is_some() || bound.most.is_some(),
                "{title} has neither `least` nor `most`"
            );
            ensure!(!bound.from.is_empty(), "{title} has no `from`");
        }
        bounds.scenarios()?;
        Ok(bounds)
    }

    /// The scenarios that the bounds are about, each once.
    pub fn scenarios(&self) -> Result<Vec<&'static Scenario>> {
        let mut ids: Vec<&str> = Vec::new();
        for bound in &self.bounds {
            if !ids.contains(&bound.scenario.as_str()) {
                ids.push(&bound.scenario);
            }
        }
        scenario::select(&ids.join(","))
    }
}

impl Bound {
    /// The figure's name in tables.
    pub fn title(&self) -> String {
        let title = format!("{} {} {}", self.scenario, self.figure, self.unit);
        title.trim_end().to_string()
    }

    /// The values that are allowed.
    pub fn allowed(&self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!(">= {least}"),
            (None, Some(most)) => format!("<= {most}"),
            (None, None) => String::new(),
        }
    }

    /// The worst seed's value; nothing unless each sample of `dataset` has one.
    pub fn worst(&self, dataset: &Dataset) -> Option<f64> {
        let values = dataset.values(&self.scenario, &self.figure, |_: &Sample| true);
        let is_whole = values.len() == dataset.samples.len();
        let values = values.into_iter().filter(|_| is_whole);
        values.max_by(|&a, &b| self.excess(a).total_cmp(&self.excess(b)))
    }

    /// Is this value allowed?
    pub fn holds(&self, value: f64) -> bool {
        self.excess(value) <= 0.0
    }

    /// How far a value is beyond the bound; negative where it is within.
    fn excess(&self, value: f64) -> f64 {
        let below = self.least.map(|least| least - value);
        let above = self.most.map(|most| value - most);
        let both = below.into_iter().chain(above);
        both.fold(f64::NEG_INFINITY, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn bound(least: Option<f64>, most: Option<f64>) -> Bound {
        Bound {
            scenario: "saturation".into(),
            figure: "wake_p99".into(),
            unit: "ms".into(),
            least,
            most,
            from: "a test".into(),
        }
    }

    fn file(bound: &str) -> String {
        format!(r#"{{"cpus": 4, "seconds": 1.5, "seeds": 2, "bounds": [{bound}]}}"#)
    }

    #[test]
    fn the_worst_seed_is_the_figure_on_either_side() {
        let dataset = testing::dataset(&[("a", &[1.0, 3.0, 2.0])]);
        for (least, most, worst, holds) in [
            (None, Some(3.0), 3.0, true),
            (None, Some(2.9), 3.0, false),
            (Some(1.0), None, 1.0, true),
            (Some(1.1), None, 1.0, false),
            (Some(0.9), Some(4.0), 1.0, true),
            (Some(0.0), Some(3.0), 3.0, true),
        ] {
            let bound = bound(least, most);
            assert_eq!(bound.worst(&dataset), Some(worst), "{least:?} {most:?}");
            assert_eq!(bound.holds(worst), holds, "{least:?} {most:?}");
        }
    }

    #[test]
    fn a_seed_without_the_figure_leaves_no_figure() {
        let mut dataset = testing::dataset(&[("a", &[1.0, 1.0])]);
        let bound = bound(None, Some(3.0));
        assert!(bound.worst(&dataset).is_some());
        dataset.samples[1].result.scenarios.clear();
        assert_eq!(bound.worst(&dataset), None);
        dataset.samples.clear();
        assert_eq!(bound.worst(&dataset), None);
    }

    #[test]
    fn a_file_is_read_and_its_mistakes_are_named() {
        let line =
            r#"{"scenario": "nice", "figure": "ratio", "least": 9, "most": 9.5, "from": "x"}"#;
        let bounds = Bounds::parse(&file(line)).unwrap();
        let bound = &bounds.bounds[0];
        assert_eq!(
            (bound.title(), bound.allowed()),
            ("nice ratio".into(), "9 to 9.5".into())
        );
        assert_eq!(bounds.scenarios().unwrap()[0].id, "nice");
        for (from, to, words) in [
            ("nice", "nonsense", "nonsense"),
            ("\"from\": \"x\"", "\"from\": \"\"", "no `from`"),
            ("\"least\": 9, \"most\": 9.5, ", "", "neither"),
            ("least", "at_least", "at_least"),
        ] {
            let error = Bounds::parse(&file(&line.replace(from, to))).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(
            Bounds::parse(&file(""))
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
    }

    #[test]
    fn a_scenario_of_several_bounds_is_run_once() {
        let line = |scenario: &str, figure: &str| {
            format!(
                r#"{{"scenario": "{scenario}", "figure": "{figure}", "least": 1, "from": "x"}}"#
            )
        };
        let lines = [
            line("flood", "gap"),
            line("nice", "ratio"),
            line("flood", "share"),
        ];
        let bounds = Bounds::parse(&file(&lines.join(","))).unwrap();
        let ids: Vec<&str> = bounds
            .scenarios()
            .unwrap()
            .iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(ids, ["flood", "nice"]);
    }
}
