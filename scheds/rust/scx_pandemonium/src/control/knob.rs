//! The table of knobs: what each decides, its unit, its range, who sets it.
//!
//! `--help-knobs` prints it, and docs/REFERENCE.md has it. The values are those
//! of the BPF half and of the profiles, so that none stands in two places.
//!
//! Not here: where a value comes from (docs/DESIGN.md).

use std::mem::size_of;

use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::bpf_intf::{intf_consts_NSEC_PER_MSEC, knobs};
use crate::cli::Affinity;
use crate::control::profile::{ONE, Profile};

const NSEC_PER_MSEC: u64 = intf_consts_NSEC_PER_MSEC as u64;

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Milliseconds; held in nanoseconds.
    Ms,
    /// A score of `policy/classify.h`.
    Score,
    /// A factor; held in 1/1024.
    Times,
    /// A part in percent; held in 1/1024.
    Percent,
    /// A mode of `--affinity`.
    Affinity,
    /// 0 or 1.
    YesNo,
    /// A number of CPUs.
    Cpus,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Ms => "ms",
            Unit::Score => "score",
            Unit::Times => "times",
            Unit::Percent => "%",
            Unit::Affinity => "mode",
            Unit::YesNo => "yes/no",
            Unit::Cpus => "CPUs",
        }
    }

    /// `value` in this unit.
    fn show(self, value: u64) -> String {
        match self {
            Unit::Ms => (value as f64 / NSEC_PER_MSEC as f64).to_string(),
            Unit::Score | Unit::Cpus => value.to_string(),
            Unit::Times => (value as f64 / ONE as f64).to_string(),
            Unit::Percent => (value * 100).div_ceil(ONE).to_string(),
            Unit::Affinity => {
                let modes = Affinity::value_variants().iter();
                let mut mode = modes.filter(|mode| u64::from(mode.mode()) == value);
                let name = mode.next().and_then(ValueEnum::to_possible_value);
                name.map_or_else(|| value.to_string(), |name| name.get_name().to_owned())
            }
            Unit::YesNo => if value == 0 { "no" } else { "yes" }.to_owned(),
        }
    }
}

/// One knob.
pub struct Knob {
    /// Its name in `struct knobs` of `intf.h`.
    pub name: &'static str,
    unit: Unit,
    /// The least value that makes sense, and the greatest.
    pub least: u64,
    /// See `least`.
    pub most: u64,
    set_by: &'static str,
    effect: &'static str,
    field: fn(&mut knobs) -> &mut u64,
}

impl Knob {
    /// Its value in `knobs`.
    pub fn get(&self, knobs: &knobs) -> u64 {
        let mut copy = *knobs;
        *(self.field)(&mut copy)
    }

    /// Give it this value in `knobs`.
    pub fn set(&self, knobs: &mut knobs, value: u64) {
        *(self.field)(knobs) = value;
    }

    /// Its cells in the table of knobs, where its default is that of `defaults`.
    fn cells(&self, defaults: knobs) -> Vec<String> {
        let range = match self.unit {
            Unit::YesNo => "no, yes".to_owned(),
            Unit::Affinity => {
                let modes: Vec<String> = (self.least..=self.most)
                    .map(|mode| self.unit.show(mode))
                    .collect();
                modes.join(", ")
            }
            unit => format!("{} to {}", unit.show(self.least), unit.show(self.most)),
        };
        let values = Profile::value_variants().iter().map(|profile| {
            let value = self.get(&profile.knobs(defaults));
            if *profile != Profile::Auto && value == self.get(&defaults) {
                return String::new();
            }
            self.unit.show(value)
        });
        let before = [self.name.to_owned(), self.unit.name().to_owned(), range];
        let after = [self.set_by.to_owned(), self.effect.to_owned()];
        before.into_iter().chain(values).chain(after).collect()
    }
}

/// A [`Knob`] of the field of that name.
macro_rules! knob {
    ($field:ident, $unit:expr, $least:expr, $most:expr, $set_by:expr, $effect:expr) => {
        Knob {
            name: stringify!($field),
            unit: $unit,
            least: $least,
            most: $most,
            set_by: $set_by,
            effect: $effect,
            field: |knobs| &mut knobs.$field,
        }
    };
}

const BY_PROFILE: &str = "`--profile`";
const BY_TURNS: &str = "`--profile`, `--adaptive-turns`";
const BY_NONE: &str = "-";
const MS: u64 = NSEC_PER_MSEC;

/// Every knob, in the order of `struct knobs`.
pub const KNOBS: &[Knob] = &[
    knob!(
        slice_min_ns,
        Unit::Ms,
        MS / 4,
        10 * MS,
        BY_PROFILE,
        "shortest slice of a crowd, and of a niced-down task"
    ),
    knob!(
        turn_min_ns,
        Unit::Ms,
        MS / 4,
        10 * MS,
        BY_TURNS,
        "to what a slice falls while tasks wait, as long as the latency target is in reach"
    ),
    knob!(
        slice_ns,
        Unit::Ms,
        MS,
        20 * MS,
        BY_PROFILE,
        "longest slice of an interactive or latency-critical task"
    ),
    knob!(
        batch_slice_ns,
        Unit::Ms,
        MS,
        100 * MS,
        BY_PROFILE,
        "slice of a batch task while no other task waits"
    ),
    knob!(
        latency_target_ns,
        Unit::Ms,
        MS,
        100 * MS,
        BY_TURNS,
        "time within which each task that waits should get its turn; a slice is this divided \
         by the tasks of a CPU, but the shortest slice at least"
    ),
    knob!(
        cpu_bound_thresh_ns,
        Unit::Ms,
        MS,
        100 * MS,
        BY_NONE,
        "CPU time between two sleeps from which a task is batch work; twice that if it sleeps for \
         a quarter of its time"
    ),
    knob!(
        lag_max_ns,
        Unit::Ms,
        MS,
        100 * MS,
        BY_NONE,
        "how far a task may be behind its share, or ahead of it"
    ),
    knob!(
        sojourn_thresh_ns,
        Unit::Ms,
        5 * MS,
        100 * MS,
        BY_PROFILE,
        "wait from which a task is served before any other, unless it is ahead of its share"
    ),
    knob!(
        batch_lag_max_ns,
        Unit::Ms,
        0,
        20 * MS,
        BY_NONE,
        "how far a batch task that slept, or a new one, may be behind its share"
    ),
    knob!(
        lat_cri_thresh_high,
        Unit::Score,
        1,
        1_000_000,
        BY_NONE,
        "score from which a task is latency critical"
    ),
    knob!(
        lat_cri_thresh_low,
        Unit::Score,
        1,
        1_000_000,
        BY_PROFILE,
        "score from which a task is interactive"
    ),
    knob!(
        boost_max,
        Unit::Times,
        ONE,
        32 * ONE,
        BY_PROFILE,
        "by what the weight of a task that sleeps by itself is multiplied at most"
    ),
    knob!(
        batch_guarantee,
        Unit::Percent,
        0,
        ONE,
        BY_NONE,
        "part of the CPU time that batch work keeps beside tasks whose weight is multiplied"
    ),
    knob!(
        affinity_mode,
        Unit::Affinity,
        0,
        2,
        "`--affinity`, else `--profile`",
        "how much it is worth to run a task near its last CPU"
    ),
    knob!(
        is_cpufreq_on,
        Unit::YesNo,
        0,
        1,
        "`--cpufreq`, and the governor",
        "whether CPUs ask for a frequency"
    ),
    knob!(
        nr_packed_cpus,
        Unit::Cpus,
        0,
        8192,
        "the load, in `powersave`",
        "how many CPUs work keeps to, the small ones first; 0: all"
    ),
    knob!(
        nr_confined_cpus,
        Unit::Cpus,
        0,
        8192,
        "what tasks use that a rule confines",
        "how many CPUs such tasks keep to, the small ones first; 0: all"
    ),
];

// None is missing: all of them are of one size, and no two have one name.
const _: () = assert!(KNOBS.len() * size_of::<u64>() == size_of::<knobs>());

/// Spaces between two columns.
const COLUMN_GAP: u16 = 2;

/// The titles of the columns of [`rows`].
pub fn heading() -> Vec<String> {
    let profiles = Profile::value_variants().iter().map(Profile::to_string);
    let before = ["knob", "unit", "range"].map(str::to_owned).into_iter();
    let after = ["set by", "decides"].map(str::to_owned);
    before.chain(profiles).chain(after).collect()
}

/// The table of knobs, one row for each. Where a profile changes nothing its cell
/// is empty; those of `auto` are the defaults.
pub fn rows(defaults: knobs) -> Vec<Vec<String>> {
    KNOBS.iter().map(|knob| knob.cells(defaults)).collect()
}

/// The table of knobs for a terminal of `width` columns.
pub fn table(defaults: knobs, width: u16) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(heading())
        .add_rows(rows(defaults));
    for column in table.column_iter_mut() {
        column.set_padding((0, COLUMN_GAP));
    }
    // Names stay whole.
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect::<String>().replace('`', "")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scheduler::default_knobs;

    #[test]
    fn every_field_is_in_the_table() {
        let names: BTreeSet<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        assert_eq!(names.len(), KNOBS.len());
    }

    #[test]
    fn what_a_profile_changes_is_said_to_be_set_by_it() {
        let defaults = default_knobs().unwrap();
        for knob in KNOBS {
            let profiles = Profile::value_variants().iter();
            let mut values = profiles.map(|profile| knob.get(&profile.knobs(defaults)));
            let is_changed = values.any(|value| value != knob.get(&defaults));
            assert_eq!(
                knob.set_by.contains(BY_PROFILE),
                is_changed,
                "{}",
                knob.name
            );
        }
    }

    #[test]
    fn every_value_of_every_profile_is_in_range() {
        let defaults = default_knobs().unwrap();
        for profile in Profile::value_variants() {
            let knobs = profile.knobs(defaults);
            for knob in KNOBS {
                let value = knob.get(&knobs);
                let range = knob.least..=knob.most;
                assert!(range.contains(&value), "{profile}: {} {value}", knob.name);
            }
            assert!(knobs.lat_cri_thresh_low <= knobs.lat_cri_thresh_high);
            assert!(knobs.batch_lag_max_ns <= knobs.lag_max_ns);
            assert!(knobs.slice_min_ns <= knobs.slice_ns);
            assert!(knobs.turn_min_ns <= knobs.slice_min_ns);
            assert!(knobs.slice_ns <= knobs.batch_slice_ns);
            assert!(knobs.latency_target_ns <= knobs.sojourn_thresh_ns);
        }
    }

    #[test]
    fn values_are_shown_in_the_unit_of_their_column() {
        assert_eq!(Unit::Ms.show(2_500_000), "2.5");
        assert_eq!(Unit::Times.show(6 * ONE), "6");
        assert_eq!(Unit::Percent.show(ONE / 4), "25");
        assert_eq!(Unit::Affinity.show(2), "strong");
        assert_eq!(Unit::YesNo.show(1), "yes");
    }

    #[test]
    fn the_table_fits_a_terminal_and_holds_each_knob() {
        let table = table(default_knobs().unwrap(), 120);
        assert!(table.lines().all(|line| line.chars().count() <= 120));
        for knob in KNOBS {
            assert!(
                table.contains(knob.name),
                "{} is missing:\n{table}",
                knob.name
            );
        }
    }
}
