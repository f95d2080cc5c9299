//! The command line: which options there are and what each accepts.
//!
//! What is written of an option here is its documentation: the help text and the
//! table of options in docs/REFERENCE.md are made from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use scx_utils::libbpf_clap_opts::LibbpfOpts;

use crate::bpf_intf::{
    affinity_mode, affinity_mode_AFFINITY_OFF, affinity_mode_AFFINITY_STRONG,
    affinity_mode_AFFINITY_WEAK,
};
use crate::compositor::CommPattern;
use crate::control::profile::Profile;
use crate::libbpf;
use crate::monitor::{MonitorOpts, TELEMETRY_GROUP};
use crate::probe::ProbeOpts;
use crate::procdb::ProcdbOpts;
use crate::procdb::command::ProcdbCommand;
use crate::rules::RulesOpts;
use crate::rules::command::RulesCommand;
use crate::selection::Selection;

/// Longest interval between two telemetry lines, in seconds.
const INTERVAL_MAX_SEC: f64 = 3600.0;

/// CPUs that the kernel can have at most, `NR_CPUS` with `MAXSMP`.
const NR_CPUS_MAX: i64 = 8192;

/// A sched_ext scheduler that keeps a desktop smooth while the machine is
/// saturated.
///
/// Tasks that wake often, sleep by themselves and need little CPU each time are
/// served first and may take a CPU from batch work, which keeps a quarter of the
/// machine, or its equal share where that is less. CPU time is shared by nice level
/// and cpu.weight; cpu.max is not honoured. Runs until it gets SIGINT, SIGTERM or
/// SIGHUP, which returns the machine to the kernel's default scheduler.
#[derive(Debug, Parser)]
#[command(
    name = "scx_pandemonium",
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    group = ArgGroup::new(TELEMETRY_GROUP).multiple(true),
    mut_args(libbpf::describe)
)]
pub struct Opts {
    /// What to do instead of scheduling.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print telemetry every SEC seconds while scheduling. If that is into a pipe, stop
    /// when its reader has gone.
    #[clap(
        long,
        value_name = "SEC",
        value_parser = parse_interval,
        allow_negative_numbers = true,
        group = TELEMETRY_GROUP
    )]
    pub stats: Option<Duration>,

    /// Print telemetry every SEC seconds of a scheduler that already runs. No
    /// scheduler is started.
    #[clap(
        long,
        value_name = "SEC",
        value_parser = parse_interval,
        allow_negative_numbers = true,
        group = TELEMETRY_GROUP
    )]
    pub monitor: Option<Duration>,

    /// How telemetry is printed, and where to.
    #[clap(flatten)]
    pub telemetry: MonitorOpts,

    /// Describe each field of the telemetry and exit.
    #[clap(long)]
    pub help_stats: bool,

    /// Print the table of knobs, with their values in each profile, and exit.
    #[clap(long)]
    pub help_knobs: bool,

    /// Do not adapt knobs to the load; those of the profile stay as they are.
    #[clap(long)]
    pub no_adaptive: bool,

    /// Shorten turns while tasks that slept wait for long on a busy machine: a pool
    /// of threads answers sooner, and shares by nice level are less exact.
    #[clap(long, conflicts_with = "no_adaptive")]
    pub adaptive_turns: bool,

    /// What the machine is used for: a set of knobs. `scx_pandemonium profile`
    /// changes it while the scheduler runs.
    #[clap(
        long,
        value_enum,
        value_name = "PROFILE",
        default_value_t = Profile::Auto
    )]
    pub profile: Profile,

    /// Treat the program NAME as a compositor as well: a task of it that wakes does
    /// not count as batch work however long it runs. A `*` at the end stands for
    /// anything; known ones such as kwin_wayland need not be given. May be
    /// repeated.
    #[clap(long = "compositor", value_name = "NAME")]
    pub compositors: Vec<CommPattern>,

    /// Where the rules of programs are.
    #[clap(flatten)]
    pub rules: RulesOpts,

    /// Where the memory of programs is.
    #[clap(flatten)]
    pub procdb: ProcdbOpts,

    /// How much it is worth to run a task near the CPU where it ran last. Makes
    /// no difference where all CPUs share one cache and are of one size. Default:
    /// that of the profile.
    #[clap(long, value_enum, value_name = "MODE")]
    pub affinity: Option<Affinity>,

    /// Whether CPUs ask the kernel for a frequency, by how busy they are. Only the
    /// governor schedutil listens.
    #[clap(long, value_enum, value_name = "MODE", default_value_t = Cpufreq::Auto)]
    pub cpufreq: Cpufreq,

    /// Scale what grows with the number of CPUs as if there were N: how many new
    /// tasks may go before batch work at once, what counts as a surge of them, how
    /// long turns are while tasks wait, how often others go before batch work. To
    /// try on a small machine what a large one does, or in a virtual machine that
    /// has less than its CPUs. All CPUs are used, and shares stay as they are.
    #[clap(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=NR_CPUS_MAX))]
    pub nr_cpus: Option<u32>,

    /// Length of the dump printed after an error, in bytes; 0 is the kernel's
    /// default of 32 KiB.
    #[clap(long, value_name = "BYTES", default_value_t = 0)]
    pub exit_dump_len: u32,

    /// Log more, including what libbpf says; given twice, what the libraries trace as
    /// well.
    #[clap(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

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
    /// The same, but a task waits up to a millisecond for the CPUs that share
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
    /// is what makes its tier, if that is not what it does: `rule`, `compositor`,
    /// `kernel`, or `memory` of its program while it is new. GROUP is what its
    /// cgroup makes of its weight, in percent.
    Tasks(TasksOpts),

    /// Show the running scheduler on a live screen: waits by tier, CPUs, tasks.
    ///
    /// Keys: `q` ends, `s` and `S` sort by the next and the previous column, `/`
    /// chooses tasks by the beginning of their name, `p` changes the profile, arrows
    /// and page keys scroll.
    Top(TopOpts),

    /// Print the profile of the running scheduler, or change it.
    ///
    /// It is changed at once and until the scheduler ends. What was given on its
    /// command line for a single knob, as by --affinity, stays.
    Profile {
        /// The profile to change to.
        #[clap(value_enum, value_name = "PROFILE")]
        profile: Option<Profile>,
    },

    /// Check whether this machine can run the scheduler.
    ///
    /// One line for each thing that is looked at: ok, a note, or a problem with what
    /// to do about it. Ends with 1 if there is a problem.
    Check,

    /// Measure how long tasks wait for a CPU under the scheduler that runs now.
    ///
    /// That may be any scheduler, also the kernel's own, and it needs no permission.
    /// Three kinds of tasks are measured: `timer` sleeps until an instant each 2 ms and
    /// waits from then on; `message` waits for another thread, which wakes it each 3 ms;
    /// `frame` computes 4 ms for each frame of 60 Hz, and what it waits before and in
    /// it is counted. To compare two schedulers: measure one with --save FILE, change
    /// to the other, and measure that with --against FILE.
    Probe(ProbeOpts),

    /// Print a text for a report of a problem.
    ///
    /// Versions, the machine, what `check` finds, the kernel's words on sched_ext, and
    /// telemetry and tasks of the running scheduler. It runs no other program. The
    /// names of the machine and of its users are taken out; look through it all the
    /// same before you publish it.
    Report(ReportOpts),

    /// Print what the kernel's log says of sched_ext.
    ///
    /// Which schedulers came and went, and why one was refused or thrown out, with the
    /// seconds from the start of the machine. Older lines go away as the log grows.
    Dmesg,

    /// Check the rules of programs, or explain what they say of a process.
    #[command(subcommand)]
    Rules(RulesCommand),

    /// Show or clear the memory of programs: what they were seen to be.
    #[command(subcommand)]
    Procdb(ProcdbCommand),

    /// Print what completes this command line in a shell.
    Completions {
        /// The shell.
        #[clap(value_enum, value_name = "SHELL")]
        shell: Shell,
    },

    /// Print the manual page, or write it and those of the subcommands to a directory.
    Man {
        /// Write a page for each subcommand as well, all of them to DIR, which must exist.
        #[clap(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
}

/// Options of `report`.
#[derive(Args, Debug)]
pub struct ReportOpts {
    /// Leave out the names of tasks as well.
    #[clap(long)]
    pub no_names: bool,

    /// Write it to FILE.
    #[clap(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `tasks`.
#[derive(Args, Debug)]
pub struct TasksOpts {
    /// Which tasks, and in which order.
    #[clap(flatten)]
    pub selection: Selection,

    /// List them again every SEC seconds (1 if not given), until interrupted.
    #[clap(
        long,
        value_name = "SEC",
        value_parser = parse_interval,
        allow_negative_numbers = true,
        num_args = 0..=1,
        default_missing_value = "1"
    )]
    pub watch: Option<Duration>,

    /// Print JSON, one line for each list.
    #[clap(long)]
    pub json: bool,
}

/// Options of `top`.
#[derive(Args, Debug)]
pub struct TopOpts {
    /// Which tasks, and in which order.
    #[clap(flatten)]
    pub selection: Selection,

    /// Show what happened every SEC seconds.
    #[clap(
        long,
        value_name = "SEC",
        value_parser = parse_interval,
        allow_negative_numbers = true,
        default_value = "1"
    )]
    pub interval: Duration,
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
    use proptest::prelude::*;

    use super::*;
    use crate::fuzz;

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
    fn a_flag_that_is_repeated_counts_or_the_last_one_wins() {
        let parse = |words: &[&str]| {
            let words = [&["scx_pandemonium"], words].concat();
            Opts::try_parse_from(&words).unwrap_or_else(|err| panic!("{words:?}: {err}"))
        };
        for (words, verbose) in [
            (&[][..], 0),
            (&["-v"], 1),
            (&["-v", "-v"], 2),
            (&["-vv", "--verbose"], 3),
        ] {
            assert_eq!(parse(words).verbose, verbose, "{words:?}");
        }
        let opts = parse(&[
            "--stats",
            "1",
            "--stats",
            "2",
            "--no-adaptive",
            "--no-adaptive",
        ]);
        assert_eq!(opts.stats, Some(Duration::from_secs(2)));
        let opts = parse(&["--profile", "gaming", "--profile=server"]);
        assert_eq!(opts.profile, Profile::Server);
        let opts = parse(&[
            "--compositor",
            "a",
            "--compositor",
            "b",
            "--rules",
            "a",
            "--rules",
            "b",
        ]);
        assert_eq!((opts.compositors.len(), opts.rules.dirs.len()), (2, 2));
        let Some(Command::Tasks(opts)) = parse(&["tasks", "--watch", "1", "--watch", "2"]).command
        else {
            panic!("no tasks");
        };
        assert_eq!(opts.watch, Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_number_of_cpus_is_one_that_a_kernel_may_have() {
        let parse = |nr| Opts::try_parse_from(["scx_pandemonium", "--nr-cpus", nr]);
        for nr_cpus in ["1", "64", "8192"] {
            let opts = parse(nr_cpus).unwrap();
            assert_eq!(opts.nr_cpus, nr_cpus.parse().ok());
        }
        for bad in ["0", "8193", "-1", "many", "1.5", ""] {
            assert!(parse(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn a_format_is_one_of_a_list_and_needs_telemetry() {
        let parse = |words: &[&str]| Opts::try_parse_from([&["scx_pandemonium"], words].concat());
        for words in [
            &["--stats", "1", "--monitor-format", "json"][..],
            &["--monitor", "1", "--monitor-format", "openmetrics"],
            &["--stats", "1", "--monitor", "1", "--monitor-output", "x"],
            &[],
        ] {
            assert!(parse(words).is_ok(), "{words:?}");
        }
        for (words, said) in [
            (&["--monitor-format", "json"][..], "--stats"),
            (&["--monitor-output", "x"], "--monitor"),
            (&["--stats", "1", "--monitor-format", "xml"], "openmetrics"),
        ] {
            let why = parse(words).unwrap_err().to_string();
            assert!(why.contains(said), "{words:?}: {why}");
        }
    }

    #[test]
    fn a_profile_is_one_of_a_list_for_both_the_flag_and_the_subcommand() {
        let parse = |words: &[&str]| Opts::try_parse_from([&["scx_pandemonium"], words].concat());
        assert_eq!(parse(&[]).unwrap().profile, Profile::Auto);
        let gaming = parse(&["--profile", "gaming"]).unwrap();
        assert_eq!(gaming.profile, Profile::Gaming);
        for (words, expected) in [
            (&["profile"][..], None),
            (&["profile", "lowlatency"], Some(Profile::Lowlatency)),
        ] {
            let Some(Command::Profile { profile }) = parse(words).unwrap().command else {
                panic!("{words:?} asks for no profile");
            };
            assert_eq!(profile, expected);
        }
        for words in [&["--profile", "fast"][..], &["profile", "fast"]] {
            let why = parse(words).unwrap_err().to_string();
            assert!(why.contains("powersave"), "{words:?}: {why}");
        }
    }

    #[test]
    fn an_interval_is_finite_positive_and_at_most_an_hour() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "3601", "1e300", "", "one"] {
            assert!(parse_interval(bad).is_err(), "{bad} was accepted");
        }
    }

    proptest! {
        #![proptest_config(fuzz::config(2000))]

        #[test]
        fn fuzz_an_interval_of_anything(text in "[-+0-9.eEnaif\\PC]{0,12}") {
            if let Ok(interval) = parse_interval(&text) {
                prop_assert!(interval <= Duration::from_secs_f64(INTERVAL_MAX_SEC));
            }
        }
    }
}
