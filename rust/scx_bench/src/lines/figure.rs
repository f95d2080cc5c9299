// SPDX-License-Identifier: GPL-2.0
//! What was measured and what came out, for a table and for JSON.
//!
//! Not here: how it is measured (`caches`, `pair`).

use std::fmt;

use serde::{Serialize, Serializer};

use super::quantiles::Quantiles;
use super::topology::{Pair, Relation};
use crate::stats;

/// What is measured, for one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A load that finds its line in the cache of this level.
    Cache(u32),
    /// A load that finds it in memory only.
    Memory,
    /// A load of a line that the other CPU has written.
    ReadWritten,
    /// A write of a line that both have read since it was written.
    WriteShared,
    /// The same write of a line that no other CPU has.
    WriteOwn,
    /// A line that both write in turn, until it is back.
    RoundTrip,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    pub what: What,
    /// The CPU whose time it is, then the other one.
    pub cpus: Vec<u32>,
    /// What the two share.
    pub relation: Option<Relation>,
    /// How many lines it goes around.
    pub lines: usize,
    /// In nanoseconds.
    pub ns: Quantiles,
    /// In cycles of the first CPU at its median speed.
    pub cycles: Option<Quantiles>,
    /// That speed, in cycles for each nanosecond.
    pub clock_ghz: Option<f64>,
}

/// What the runs of one figure found.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    ns: Vec<f64>,
    ghz: Vec<f64>,
}

impl What {
    /// Its name in JSON.
    fn id(self) -> String {
        match self {
            Self::Cache(level) => format!("l{level}"),
            Self::Memory => "memory".to_string(),
            Self::ReadWritten => "read_written".to_string(),
            Self::WriteShared => "write_shared".to_string(),
            Self::WriteOwn => "write_own".to_string(),
            Self::RoundTrip => "round_trip".to_string(),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Cache(level) => write!(formatter, "load from L{level}"),
            Self::Memory => formatter.write_str("load from memory"),
            Self::ReadWritten => formatter.write_str("load of a line the other wrote"),
            Self::WriteShared => formatter.write_str("write of a line both have"),
            Self::WriteOwn => formatter.write_str("write of a line of its own"),
            Self::RoundTrip => formatter.write_str("round trip of a line"),
        }
    }
}

impl Serialize for What {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id())
    }
}

impl Runs {
    /// Add a run of `count` lines or trips that took `took_ns`, at `ghz`.
    pub fn add(&mut self, took_ns: f64, count: usize, ghz: Option<f64>) {
        self.ns.push(took_ns / count as f64);
        self.ghz.extend(ghz);
    }

    /// The figure, of CPU `cpu` alone or of `pair`; `None` without a run.
    pub fn figure(&self, what: What, cpu: u32, pair: Option<Pair>, lines: usize) -> Option<Figure> {
        let ns = Quantiles::of(&self.ns)?;
        let clock_ghz = stats::median(&self.ghz);
        Some(Figure {
            what,
            cpus: [cpu]
                .into_iter()
                .chain(pair.map(|pair| pair.there))
                .collect(),
            relation: pair.map(|pair| pair.relation),
            lines,
            ns,
            cycles: clock_ghz.map(|ghz| ns.scaled(ghz)),
            clock_ghz,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_for_one_line_and_its_cycles_go_by_the_usual_speed() {
        let mut runs = Runs::default();
        for (took_ns, ghz) in [(100.0, 3.0), (200.0, 2.0), (900.0, 0.1)] {
            runs.add(took_ns, 10, Some(ghz));
        }
        let pair = Pair {
            here: 4,
            there: 2,
            relation: Relation::L3,
        };
        let figure = runs
            .figure(What::RoundTrip, pair.here, Some(pair), 1)
            .unwrap();
        assert_eq!(figure.cpus, [4, 2]);
        assert_eq!(figure.ns.median, 20.0);
        assert_eq!(figure.cycles.unwrap().median, 40.0);
        let json = serde_json::to_value(&figure).unwrap();
        assert_eq!(json["what"], "round_trip");
        assert_eq!(json["relation"], "l3");
        assert_eq!(json["ns"]["p90"], 90.0);
    }

    #[test]
    fn without_a_clock_there_are_no_cycles_and_without_runs_no_figure() {
        let mut runs = Runs::default();
        assert_eq!(runs.figure(What::Memory, 0, None, 1), None);
        runs.add(8.0, 4, None);
        let figure = runs.figure(What::Memory, 0, None, 1).unwrap();
        assert_eq!((figure.ns.median, figure.cycles), (2.0, None));
    }
}
