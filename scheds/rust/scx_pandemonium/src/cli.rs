//! The command line: which options there are and what each accepts.
//!
//! Every option is documented here and nowhere else; the help text, and later
//! the man page, are made from it.

use std::time::Duration;

use clap::Parser;
use scx_utils::libbpf_clap_opts::LibbpfOpts;

/// Longest interval between two telemetry lines, in seconds.
const INTERVAL_MAX_SEC: f64 = 3600.0;

/// A sched_ext scheduler that keeps a desktop smooth while the machine is
/// saturated.
///
/// Tasks that wake often, sleep by themselves and need little CPU each time are
/// served first and may take a CPU from batch work; batch work shares the rest
/// by weight. Runs until it gets SIGINT or SIGTERM, which returns the machine to
/// the kernel's default scheduler.
#[derive(Debug, Parser)]
#[command(name = "scx_pandemonium", disable_version_flag = true)]
pub struct Opts {
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
    fn an_interval_is_finite_positive_and_at_most_an_hour() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "3601", "1e300", "", "one"] {
            assert!(parse_interval(bad).is_err(), "{bad} was accepted");
        }
    }
}
