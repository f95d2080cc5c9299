//! The command line: which options there are and what each accepts.
//!
//! What is written of an option here is its documentation: the help text and the
//! table of options in the README are made from it.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use scx_utils::libbpf_clap_opts::LibbpfOpts;

use crate::bpf_intf::{
    affinity_mode, affinity_mode_AFFINITY_OFF, affinity_mode_AFFINITY_STRONG,
    affinity_mode_AFFINITY_WEAK,
};
use crate::compositor::CommPattern;
use crate::rules::RulesOpts;
use crate::rules::command::RulesCommand;

/// Longest interval between two telemetry lines, in seconds.
const INTERVAL_MAX_SEC: f64 = 3600.0;

/// A sched_ext scheduler that keeps a desktop smooth while the machine is
/// saturated.
///
/// Tasks that wake often, sleep by themselves and need little CPU each time are
/// served first and may take a CPU from batch work, which keeps a quarter of the
/// machine. CPU time is shared by nice level and cpu.weight; cpu.max is not
/// honoured. Runs until it gets SIGINT or SIGTERM, which returns the machine to
/// the kernel's default scheduler.
#[derive(Debug, Parser)]
#[command(
    name = "scx_pandemonium",
    disable_version_flag = true,
    args_conflicts_with_subcommands = true
)]
pub struct Opts {
    /// What to do instead of scheduling.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print a line of telemetry every SEC seconds while scheduling.
    #[clap(long, value_name = "SEC", value_parser = parse_interval)]
    pub stats: Option<Duration>,

    /// Print a line of telemetry every SEC seconds of a scheduler that already
    /// runs. No scheduler is started.
    #[clap(long, value_name = "SEC", value_parser = parse_interval)]
    pub monitor: Option<Duration>,

    /// Describe each field of the telemetry and exit.
    #[clap(long)]
    pub help_stats: bool,

    /// Treat the program NAME as a compositor as well: a task of it does not
    /// count as batch work however long it runs. A `*` at the end stands for
    /// anything; known ones such as kwin_wayland need not be given. May be
    /// repeated.
    #[clap(long = "compositor", value_name = "NAME")]
    pub compositors: Vec<CommPattern>,

    /// Where the rules of programs are.
    #[clap(flatten)]
    pub rules: RulesOpts,

    /// How much it is worth to run a task near the CPU where it ran last. Makes
    /// no difference where all CPUs share one cache and are of one size.
    #[clap(long, value_enum, value_name = "MODE", default_value_t = Affinity::Weak)]
    pub affinity: Affinity,

    /// Whether CPUs ask the kernel for a frequency, by how busy they are. Only the
    /// governor schedutil listens.
    #[clap(long, value_enum, value_name = "MODE", default_value_t = Cpufreq::Auto)]
    pub cpufreq: Cpufreq,

    /// Length of the dump printed after an error, in bytes; 0 is the kernel's
    /// default of 32 KiB.
    #[clap(long, value_name = "BYTES", default_value_t = 0)]
    pub exit_dump_len: u32,

    /// Log more, including what libbpf says.
    #[clap(short = 'v', long)]
    pub verbose: bool,

    /// Print the version and exit.
    #[clap(short = 'V', long)]
    pub version: bool,

    /// Options handed to libbpf.
    #[clap(flatten, next_help_heading = "Libbpf Options")]
    pub libbpf: LibbpfOpts,
}

/// How an idle CPU is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Affinity {
    /// By the kernel, which knows no L2 domains and no sizes of cores.
    Off,
    /// The nearest one, big cores first; any at once rather than none.
    Weak,
    /// The same, but a task waits half a millisecond for the CPUs that share
    /// its last-level cache before it goes to others.
    Strong,
}

impl Affinity {
    /// What the BPF half calls it.
    pub fn mode(self) -> affinity_mode {
        match self {
            Affinity::Off => affinity_mode_AFFINITY_OFF,
            Affinity::Weak => affinity_mode_AFFINITY_WEAK,
            Affinity::Strong => affinity_mode_AFFINITY_STRONG,
        }
    }
}

/// When CPUs ask for a frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cpufreq {
    /// While a CPU has the governor schedutil, which may change at any time.
    Auto,
    /// Always.
    On,
    /// Never: schedutil then takes all CPUs to need their highest frequency.
    Off,
}

/// What the program does besides scheduling.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tasks of the running scheduler, the most latency-critical first.
    ///
    /// Times are in milliseconds. RUN is the average CPU time between two
    /// sleeps, BURST that since the last wakeup, WAIT how long the task waited
    /// for a CPU last. NOW is the tier in which the task is served: one that has
    /// used more than its share is served as batch work whatever its tier is. BY
    /// is `rule` if rules say something of its program.
    Tasks(TasksOpts),

    /// Check the rules of programs, or explain what they say of a process.
    #[command(subcommand)]
    Rules(RulesCommand),
}

/// Options of `tasks`.
#[derive(Args, Debug)]
pub struct TasksOpts {
    /// List them again every SEC seconds (1 if not given), until interrupted.
    #[clap(
        long,
        value_name = "SEC",
        value_parser = parse_interval,
        num_args = 0..=1,
        default_missing_value = "1"
    )]
    pub watch: Option<Duration>,

    /// Print JSON, one line for each list.
    #[clap(long)]
    pub json: bool,
}

/// Read an interval in seconds: finite, above 0 and at most an hour.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_string())?;
    if !(seconds > 0.0 && seconds <= INTERVAL_MAX_SEC) {
        return Err(format!("must be above 0 and at most {INTERVAL_MAX_SEC}"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_option_table_is_consistent() {
        Opts::command().debug_assert();
    }

    #[test]
    fn a_subcommand_stands_alone_and_flags_need_none() {
        let parse = |words: &[&str]| Opts::try_parse_from([&["scx_pandemonium"], words].concat());
        assert!(parse(&["--stats", "1", "-v"]).unwrap().command.is_none());
        assert!(parse(&["--stats", "1", "tasks"]).is_err());
        for (words, watch) in [
            (&["tasks"][..], None),
            (&["tasks", "--watch"], Some(Duration::from_secs(1))),
            (
                &["tasks", "--watch", "0.5"],
                Some(Duration::from_millis(500)),
            ),
        ] {
            let Some(Command::Tasks(opts)) = parse(words).unwrap().command else {
                panic!("{words:?} asks for no tasks");
            };
            assert_eq!(opts.watch, watch);
        }
    }

    #[test]
    fn an_interval_is_finite_positive_and_at_most_an_hour() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "3601", "1e300", "", "one"] {
            assert!(parse_interval(bad).is_err(), "{bad} was accepted");
        }
    }
}
