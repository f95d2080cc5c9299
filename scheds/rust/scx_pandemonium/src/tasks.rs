//! What the scheduler thinks of each task, and the table of it.
//!
//! A [`Task`] is one row of what BPF writes, in the words and units that are
//! reported; [`Tasks`] is the list at one moment.
//!
//! Not here: how a row is read (scheduler), how a client gets the list (server),
//! the subcommand that prints it (tasks_command), how a tier is found
//! (`src/bpf/policy/classify.h`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

use crate::bpf_intf::{
    hint_source_HINT_MEMORY, hint_source_HINT_RULE, intf_consts_NSEC_PER_SEC, task_row, tier,
    tier_NR_TIERS, tier_TIER_BATCH, tier_TIER_INTERACTIVE, tier_reason_REASON_COMPOSITOR,
    tier_reason_REASON_KERNEL, tier_reason_REASON_MEMORY, tier_reason_REASON_RULE,
};
use crate::held::Held;
use crate::text::printable;

/// One task.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
pub struct Task {
    #[stat(desc = "Id of the thread")]
    pub pid: i64,
    #[stat(desc = "Id of its process")]
    pub tgid: i64,
    #[stat(desc = "Name of the thread")]
    pub comm: String,
    #[stat(desc = "What it has shown itself to be: lat_critical, interactive or batch")]
    pub tier: String,
    #[stat(desc = "The tier in which it was served last, which is not above")]
    pub served_tier: String,
    #[stat(
        desc = "The tier that it does not fall below: above batch for a compositor, or by a rule"
    )]
    pub tier_floor: String,
    #[stat(desc = "The tier that it does not rise above")]
    pub tier_ceiling: String,
    #[stat(desc = "What its program is known by: rule, memory, or none")]
    pub hint: String,
    #[stat(
        desc = "What its tier goes by: behaviour, what it does; memory, what its program did; kernel or compositor, a part of these is not below; rule, rules bound it"
    )]
    pub tier_by: String,
    #[stat(
        desc = "What keeps it in batch whatever its tier is: nice, a nice level above 0; sched_idle, its policy; cgroup, cpu.idle; none"
    )]
    pub held_by: String,
    #[stat(desc = "Latency-criticality score, in wakeups/s * switches/s / ms")]
    pub score: u64,
    #[stat(desc = "Wakeups seen, up to the number from which the averages are trusted")]
    pub age: u64,
    #[stat(desc = "Weight; 100 is that of nice 0")]
    pub weight: u64,
    #[stat(
        desc = "What its cgroup makes of its weight beside what runs elsewhere, in percent, since it was queued or ran last; 100 without cgroups"
    )]
    pub group_pct: f64,
    #[stat(desc = "What sleeping by itself makes of that, in percent; 100 for batch work")]
    pub boost_pct: f64,
    #[stat(desc = "Average CPU time between two sleeps, in ns; 0 before the first")]
    pub avg_runtime_ns: u64,
    #[stat(desc = "CPU time since the last wakeup, in ns")]
    pub burst_ns: u64,
    #[stat(desc = "Wakeups per second, as a moving average; 0 before the second")]
    pub wake_rate_hz: f64,
    #[stat(desc = "Slice granted for the last turn, in ns")]
    pub slice_ns: u64,
    #[stat(desc = "Wait from ready to running before the last run, in ns")]
    pub last_wait_ns: u64,
}

impl Task {
    fn new(row: &task_row) -> Task {
        // The first interval ends with the second wakeup.
        let wake_rate_hz = if row.age < 2 {
            0.0
        } else {
            f64::from(intf_consts_NSEC_PER_SEC) / row.wake_interval_ns.max(1) as f64
        };
        Task {
            pid: row.pid.into(),
            tgid: row.tgid.into(),
            comm: comm(&row.comm),
            tier: tier_name(row.tier).to_owned(),
            served_tier: tier_name(row.served_tier).to_owned(),
            tier_floor: tier_name(row.tier_floor).to_owned(),
            tier_ceiling: tier_name(row.tier_ceiling).to_owned(),
            hint: hint_name(row.hint_source).to_owned(),
            tier_by: reason_name(row.tier_reason).to_owned(),
            held_by: held_name(row.held_by).to_owned(),
            score: row.score,
            age: row.age.into(),
            weight: row.weight.into(),
            group_pct: percent(row.plain_weight, row.own_weight),
            boost_pct: percent(row.charged_weight, row.plain_weight),
            avg_runtime_ns: row.avg_runtime_ns,
            burst_ns: row.burst_ns,
            wake_rate_hz,
            slice_ns: row.slice_ns,
            last_wait_ns: row.last_wait_ns,
        }
    }

    /// The cells of its line, in the order of [`HEADING`].
    pub fn cells(&self) -> [String; NR_COLUMNS] {
        [
            self.pid.to_string(),
            self.comm.clone(),
            self.tier.clone(),
            self.served_tier.clone(),
            unless(self.tier_by == BEHAVIOUR, self.tier_by.clone()),
            format!("{:.0}", self.group_pct),
            self.score.to_string(),
            unless(self.avg_runtime_ns == 0, ms(self.avg_runtime_ns)),
            ms(self.burst_ns),
            unless(
                self.wake_rate_hz == 0.0,
                format!("{:.1}", self.wake_rate_hz),
            ),
            ms(self.slice_ns),
            ms(self.last_wait_ns),
        ]
    }
}

/// The tasks of the scheduler at one moment.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
pub struct Tasks {
    #[stat(desc = "Each task, the most latency-critical first")]
    pub tasks: Vec<Task>,
}

impl Tasks {
    /// Put what BPF wrote in order: by tier, then by score.
    pub fn new(rows: &[task_row]) -> Tasks {
        let mut rows: Vec<&task_row> = rows.iter().collect();
        rows.sort_by_key(|row| (Reverse(row.tier), Reverse(row.score), row.pid));
        Tasks {
            tasks: rows.into_iter().map(Task::new).collect(),
        }
    }

    /// What to know about processes of the list that are held in batch though their
    /// name or a rule says that they are more, a line for each.
    pub fn notes(&self) -> Vec<String> {
        let mut by_process: BTreeMap<i64, &Task> = BTreeMap::new();
        let known = self.tasks.iter().filter(|task| task.tier_floor != BATCH);
        for task in known.filter(|task| Held::of_name(&task.held_by).is_some()) {
            let found = by_process.entry(task.tgid).or_insert(task);
            // A process is called as its main thread is.
            if task.pid == task.tgid {
                *found = task;
            }
        }
        let notes = by_process.into_iter().filter_map(|(tgid, task)| {
            let held = Held::of_name(&task.held_by)?;
            Some(held.note(&task.comm, tgid))
        });
        notes.take(NR_NOTES_MAX).collect()
    }

    /// The list as a table of at most `nr_tasks_max` tasks, below a heading of
    /// one line.
    pub fn table(&self, nr_tasks_max: usize) -> String {
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_header(HEADING.map(|(title, _)| title))
            .add_rows(self.tasks.iter().take(nr_tasks_max).map(Task::cells));
        for (column, (_, align)) in table.column_iter_mut().zip(HEADING) {
            column.set_cell_alignment(align);
            column.set_padding((0, COLUMN_GAP));
        }
        let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }
}

/// Notes that are told with a table.
const NR_NOTES_MAX: usize = 8;

/// Spaces between two columns.
const COLUMN_GAP: u16 = 2;

/// Columns of the table.
pub const NR_COLUMNS: usize = 12;

/// Titles of the columns, and to which side of its column a cell goes.
pub const HEADING: [(&str, CellAlignment); NR_COLUMNS] = [
    ("PID", CellAlignment::Right),
    ("COMMAND", CellAlignment::Left),
    ("TIER", CellAlignment::Left),
    ("NOW", CellAlignment::Left),
    ("BY", CellAlignment::Left),
    ("GROUP", CellAlignment::Right),
    ("SCORE", CellAlignment::Right),
    ("RUN", CellAlignment::Right),
    ("BURST", CellAlignment::Right),
    ("WAKES/S", CellAlignment::Right),
    ("SLICE", CellAlignment::Right),
    ("WAIT", CellAlignment::Right),
];

/// Names of the tiers, indexed by `enum tier`.
const TIER_NAMES: [&str; tier_NR_TIERS as usize] = ["batch", "interactive", "lat_critical"];
const _: () = assert!(tier_TIER_BATCH == 0 && tier_TIER_INTERACTIVE == 1);

/// The lowest tier's.
const BATCH: &str = TIER_NAMES[tier_TIER_BATCH as usize];

/// What a tier of the BPF half is called.
pub fn tier_name(tier: tier) -> &'static str {
    TIER_NAMES.get(tier as usize).copied().unwrap_or("unknown")
}

/// Said of a program that is known by what its tasks do only, and of a task that
/// nothing keeps in batch.
const NO_HINT: &str = "none";

fn held_name(held_by: u32) -> &'static str {
    Held::from_bpf(held_by).map_or(NO_HINT, Held::name)
}

const RULE: u32 = hint_source_HINT_RULE;
const MEMORY: u32 = hint_source_HINT_MEMORY;

fn hint_name(source: u32) -> &'static str {
    match source {
        RULE => "rule",
        MEMORY => "memory",
        _ => NO_HINT,
    }
}

/// Said of a task whose tier is what it shows itself to be.
const BEHAVIOUR: &str = "behaviour";

fn reason_name(reason: u32) -> &'static str {
    #[allow(non_upper_case_globals)]
    match reason {
        tier_reason_REASON_RULE => "rule",
        tier_reason_REASON_COMPOSITOR => "compositor",
        tier_reason_REASON_KERNEL => "kernel",
        tier_reason_REASON_MEMORY => "memory",
        _ => BEHAVIOUR,
    }
}

/// How much of `whole` a `part` is, in percent.
fn percent(part: u32, whole: u32) -> f64 {
    100.0 * f64::from(part) / f64::from(whole.max(1))
}

/// The text of a task's name.
fn comm(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0);
    printable(&String::from_utf8_lossy(
        &bytes[..len.unwrap_or(bytes.len())],
    ))
}

/// `cell`, or a dash if that `is_unknown`.
fn unless(is_unknown: bool, cell: String) -> String {
    if is_unknown { "-".to_owned() } else { cell }
}

/// A time in ms, to the microsecond.
fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf_intf::{
        held_by_HELD_BY_NICE, held_by_HELD_BY_SCHED_IDLE, tier_TIER_LAT_CRITICAL,
    };

    fn row(pid: i32, tier: tier, score: u64, name: &[u8]) -> task_row {
        let mut row = task_row {
            pid,
            tgid: pid,
            tier,
            served_tier: tier_TIER_BATCH,
            age: 8,
            weight: 100,
            score,
            avg_runtime_ns: 700_000,
            burst_ns: 0,
            wake_interval_ns: 5_000_000,
            slice_ns: 1_050_000,
            last_wait_ns: 12_345,
            tier_floor: tier_TIER_BATCH,
            tier_ceiling: tier_TIER_LAT_CRITICAL,
            hint_source: 0,
            tier_reason: 0,
            own_weight: 2048,
            plain_weight: 512,
            charged_weight: 768,
            held_by: 0,
            comm: [0; 16],
        };
        row.comm[..name.len()].copy_from_slice(name);
        row
    }

    #[test]
    fn the_most_latency_critical_task_is_first() {
        let tasks = Tasks::new(&[
            row(1, tier_TIER_BATCH, 500_000, b"hog"),
            row(2, tier_TIER_LAT_CRITICAL, 1_000, b"kwin_wayland"),
            row(3, tier_TIER_LAT_CRITICAL, 50_000, b"pipewire"),
            row(4, tier_TIER_INTERACTIVE, 25, b"bash"),
        ]);
        let names: Vec<&str> = tasks.tasks.iter().map(|task| task.comm.as_str()).collect();
        assert_eq!(names, ["pipewire", "kwin_wayland", "bash", "hog"]);
    }

    #[test]
    fn the_columns_of_the_table_stand_one_below_the_other() {
        let mut ruled = row(123_456, tier_TIER_BATCH, 0, b"a name of 15 ch");
        ruled.tier_reason = tier_reason_REASON_RULE;
        ruled.plain_weight = 2 * ruled.own_weight;
        let tasks = Tasks::new(&[row(7, tier_TIER_LAT_CRITICAL, 50_000, b"pipewire"), ruled]);
        let table = tasks.table(usize::MAX);
        let expected = [
            "   PID  COMMAND          TIER          NOW    BY    GROUP  SCORE    RUN  BURST  WAKES/S  SLICE   WAIT",
            "     7  pipewire         lat_critical  batch  -        25  50000  0.700  0.000    200.0  1.050  0.012",
            "123456  a name of 15 ch  batch         batch  rule    200      0  0.700  0.000    200.0  1.050  0.012",
        ];
        assert_eq!(table.lines().collect::<Vec<_>>(), expected);
        assert_eq!(tasks.table(1).lines().count(), 2);
    }

    #[test]
    fn a_name_cannot_steer_the_terminal_and_may_fill_its_field() {
        assert_eq!(comm(b"\x1b[2Jhello\0junk"), "?[2Jhello");
        assert_eq!(comm(b"0123456789abcdef"), "0123456789abcdef");
        assert_eq!(comm(b"\xff\0"), "\u{fffd}");
    }

    #[test]
    fn what_a_cgroup_and_sleep_make_of_a_weight_is_in_percent() {
        let task = Task::new(&row(1, tier_TIER_INTERACTIVE, 0, b"one"));
        assert_eq!((task.group_pct, task.boost_pct), (25.0, 150.0));
    }

    #[test]
    fn a_process_that_is_held_in_batch_though_it_is_known_is_named_once() {
        let held = |pid, floor, name: &[u8]| task_row {
            tgid: 7,
            tier_floor: floor,
            held_by: held_by_HELD_BY_SCHED_IDLE,
            ..row(pid, floor, 0, name)
        };
        let mut niced = row(20, tier_TIER_BATCH, 0, b"cc1");
        niced.held_by = held_by_HELD_BY_NICE;
        let tasks = Tasks::new(&[
            held(8, tier_TIER_INTERACTIVE, b"painter"),
            held(7, tier_TIER_LAT_CRITICAL, b"weston"),
            held(9, tier_TIER_INTERACTIVE, b"other"),
            row(3, tier_TIER_LAT_CRITICAL, 0, b"kwin_wayland"),
            niced,
        ]);
        let notes = tasks.notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("weston (7) runs in SCHED_IDLE"));
        let by: Vec<&str> = tasks.tasks.iter().map(|task| &*task.held_by).collect();
        let expected = ["none", "sched_idle", "sched_idle", "sched_idle", "nice"];
        assert_eq!(by, expected);
    }

    #[test]
    fn a_reason_of_each_kind_has_a_name() {
        let names: Vec<&str> = (0..5).map(reason_name).collect();
        let expected = ["behaviour", "memory", "kernel", "compositor", "rule"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_rate_needs_two_wakeups() {
        let mut young = row(1, tier_TIER_INTERACTIVE, 0, b"new");
        young.age = 1;
        assert_eq!(Task::new(&young).wake_rate_hz, 0.0);
        assert_eq!(Task::new(&young).cells()[9], "-");
        young.age = 2;
        assert_eq!(Task::new(&young).wake_rate_hz, 200.0);
    }
}
