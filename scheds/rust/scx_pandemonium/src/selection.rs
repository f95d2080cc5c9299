//! Which of the tasks are listed, and in which order.
//!
//! Not here: what is known of a task (tasks).

use std::cmp::Ordering;

use clap::{Args, ValueEnum};

use crate::hint::Tier;
use crate::rules::pattern::Pattern;
use crate::tasks::Task;

/// Which tasks, and in which order. A task has to be all that is asked for.
#[derive(Args, Clone, Debug)]
pub struct Selection {
    /// What comes first: the largest of a number, names and ids in their order.
    #[clap(long, value_enum, value_name = "COLUMN", default_value_t = Column::Tier)]
    pub sort: Column,

    /// List tasks of that NAME only, the COMMAND. A `*` at the end stands for
    /// anything.
    #[clap(long, value_name = "NAME", value_parser = parse_pattern)]
    pub name: Option<Pattern>,

    /// List tasks of that tier only. May be repeated.
    #[clap(long = "tier", value_enum, value_name = "TIER")]
    tiers: Vec<Tier>,

    /// List the threads of that process, or that thread, only. May be repeated.
    #[clap(long = "pid", value_name = "PID", value_parser = clap::value_parser!(i64).range(1..))]
    pids: Vec<i64>,
}

/// What tasks are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// The tier, then the score.
    Tier,
    /// How latency critical it is.
    Score,
    /// Average CPU time between two sleeps.
    Run,
    /// CPU time since the last wakeup.
    Burst,
    /// Wakeups a second.
    Wakes,
    /// The slice of the last turn.
    Slice,
    /// The last wait for a CPU.
    Wait,
    /// What its cgroup makes of its weight.
    Group,
    /// Its name.
    Name,
    /// Its id.
    Pid,
}

impl Column {
    /// The one after this, in the order above, and the first after the last.
    pub fn next(self) -> Column {
        let columns = Column::value_variants();
        let at = columns.iter().position(|column| *column == self);
        columns[at.map_or(0, |at| (at + 1) % columns.len())]
    }

    /// The one from which [`Column::next`] leads here.
    pub fn previous(self) -> Column {
        let mut columns = Column::value_variants().iter().copied();
        columns.find(|column| column.next() == self).unwrap_or(self)
    }

    /// The one whose heading in a table of tasks is `heading`.
    pub fn of_heading(heading: &str) -> Option<Column> {
        Some(match heading {
            "PID" => Column::Pid,
            "COMMAND" => Column::Name,
            "TIER" => Column::Tier,
            "GROUP" => Column::Group,
            "SCORE" => Column::Score,
            "RUN" => Column::Run,
            "BURST" => Column::Burst,
            "WAKES/S" => Column::Wakes,
            "SLICE" => Column::Slice,
            "WAIT" => Column::Wait,
            _ => return None,
        })
    }

    /// How `a` and `b` stand in a list that is sorted by this.
    fn compare(self, a: &Task, b: &Task) -> Ordering {
        match self {
            // So they come.
            Column::Tier => Ordering::Equal,
            Column::Score => b.score.cmp(&a.score),
            Column::Run => b.avg_runtime_ns.cmp(&a.avg_runtime_ns),
            Column::Burst => b.burst_ns.cmp(&a.burst_ns),
            Column::Wakes => b.wake_rate_hz.total_cmp(&a.wake_rate_hz),
            Column::Slice => b.slice_ns.cmp(&a.slice_ns),
            Column::Wait => b.last_wait_ns.cmp(&a.last_wait_ns),
            Column::Group => b.group_pct.total_cmp(&a.group_pct),
            Column::Name => a.comm.cmp(&b.comm),
            Column::Pid => a.pid.cmp(&b.pid),
        }
    }
}

impl Selection {
    /// Leave of `tasks`, the most latency critical first, what is wanted.
    pub fn apply(&self, tasks: &mut Vec<Task>) {
        tasks.retain(|task| self.wants(task));
        tasks.sort_by(|a, b| self.sort.compare(a, b));
    }

    fn wants(&self, task: &Task) -> bool {
        let is_of = |tier: &Tier| tier.to_string() == task.tier;
        let is_one = |pid: &i64| *pid == task.pid || *pid == task.tgid;
        let is_named = |name: &Pattern| name.matches(&task.comm);
        self.name.as_ref().is_none_or(is_named)
            && (self.tiers.is_empty() || self.tiers.iter().any(is_of))
            && (self.pids.is_empty() || self.pids.iter().any(is_one))
    }
}

/// Read what `--name` is given.
///
/// # Errors
///
/// If it is no pattern.
pub fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::try_from(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::tasks::HEADING;

    #[derive(Parser)]
    struct Words {
        #[clap(flatten)]
        selection: Selection,
    }

    /// The ids of what `words` leave of three tasks, in order.
    fn selected(words: &[&str]) -> Vec<i64> {
        let task = |pid, tgid, comm: &str, tier: Tier, number: u32| Task {
            pid,
            tgid,
            comm: comm.to_owned(),
            tier: tier.to_string(),
            score: number.into(),
            avg_runtime_ns: (10 - number).into(),
            burst_ns: (number * 7 % 4).into(),
            wake_rate_hz: f64::from(number) / 2.0,
            slice_ns: (number % 3).into(),
            last_wait_ns: ((number + 1) % 3).into(),
            group_pct: f64::from((number + 2) % 3),
            ..Task::default()
        };
        let mut tasks = vec![
            task(30, 30, "pipewire", Tier::LatCritical, 3),
            task(20, 10, "game-audio", Tier::Interactive, 1),
            task(10, 10, "game", Tier::Batch, 2),
        ];
        let words = [&["tasks"], words].concat();
        Words::parse_from(words).selection.apply(&mut tasks);
        tasks.iter().map(|task| task.pid).collect()
    }

    #[test]
    fn columns_go_round_in_both_directions_and_each_is_of_a_heading() {
        let columns = Column::value_variants();
        for (column, next) in columns.iter().zip(columns.iter().cycle().skip(1)) {
            assert_eq!(column.next(), *next);
            assert_eq!(next.previous(), *column);
        }
        let headed = HEADING
            .iter()
            .filter_map(|(heading, _)| Column::of_heading(heading));
        assert_eq!(headed.count(), columns.len());
    }

    #[test]
    fn a_column_puts_the_largest_first_and_names_in_order() {
        for (column, expected) in [
            ("tier", [30, 20, 10]),
            ("score", [30, 10, 20]),
            ("run", [20, 10, 30]),
            ("burst", [20, 10, 30]),
            ("wakes", [30, 10, 20]),
            ("slice", [10, 20, 30]),
            ("wait", [20, 30, 10]),
            ("group", [30, 10, 20]),
            ("name", [10, 20, 30]),
            ("pid", [10, 20, 30]),
        ] {
            assert_eq!(selected(&["--sort", column]), expected, "{column}");
        }
    }

    #[test]
    fn a_task_has_to_be_all_that_is_asked_for() {
        for (words, expected) in [
            (&["--name", "game"][..], &[10][..]),
            (&["--name", "game*"], &[20, 10]),
            (&["--tier", "batch"], &[10]),
            (&["--tier", "batch", "--tier", "lat_critical"], &[30, 10]),
            (&["--pid", "10"], &[20, 10]),
            (&["--pid", "20", "--pid", "30"], &[30, 20]),
            (&["--pid", "10", "--tier", "interactive"], &[20]),
            (&["--pid", "30", "--name", "game*"], &[]),
        ] {
            assert_eq!(selected(words), expected, "{words:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_choices() {
        for (words, said) in [
            (["--sort", "colour"], "score"),
            (["--tier", "best"], "lat_critical"),
            (["--pid", "0"], "1.."),
            (["--name", "*"], "everything"),
        ] {
            let words = [&["tasks"], &words[..]].concat();
            let why = Words::try_parse_from(words).err().unwrap().to_string();
            assert!(why.contains(said), "{why}");
        }
    }
}
