//! The telemetry as `--stats` and `--monitor` print it.
//!
//! A client of the stats server like any other: it reads [`Metrics`] of one
//! interval after the other and prints each, in one of several formats.
//!
//! Not here: what a metric means (stats), the format of monitoring systems
//! (exposition), where it goes (output).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use crossbeam::channel::{Receiver, bounded, select};

use crate::exposition::exposition;
use crate::output::{self, File};
use crate::server::{COUNTS_ARG, COUNTS_TOTAL};
use crate::stats::Metrics;

/// The group of options that ask for telemetry.
pub const TELEMETRY_GROUP: &str = "telemetry";

/// How long what is being printed may take to its end after a stop.
const PRINTING_PATIENCE: Duration = Duration::from_millis(200);

/// How telemetry is printed, and where to.
#[derive(Args, Debug)]
pub struct MonitorOpts {
    /// How --stats and --monitor print telemetry.
    #[clap(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t = Format::Line,
        requires = TELEMETRY_GROUP
    )]
    monitor_format: Format,

    /// Write the telemetry of --stats or --monitor to FILE, which holds the last
    /// interval only and is always whole: it is replaced, not written to.
    #[clap(long, value_name = "FILE", requires = TELEMETRY_GROUP)]
    monitor_output: Option<PathBuf>,
}

/// How an interval is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for people.
    Line,
    /// An object a line, with the fields of --help-stats.
    Json,
    /// An exposition of OpenMetrics, with counters since the scheduler's start.
    #[value(name = "openmetrics")]
    OpenMetrics,
}

/// Prints telemetry.
pub struct Monitor {
    format: Format,
    file: Option<File>,
}

impl Monitor {
    /// Print as `opts` say.
    ///
    /// # Errors
    ///
    /// If there is a file to write to which is none.
    pub fn new(opts: &MonitorOpts) -> Result<Monitor> {
        let file = opts.monitor_output.as_deref().map(File::new).transpose();
        Ok(Monitor {
            format: opts.monitor_format,
            file: file.context("--monitor-output")?,
        })
    }

    /// Print what happened every `interval` until `shutdown` is set. Waits for a
    /// scheduler to appear if none runs.
    ///
    /// # Errors
    ///
    /// If the server answers with something else than [`Metrics`], or nothing can
    /// be printed any more.
    pub fn run(&self, interval: Duration, shutdown: &Arc<AtomicBool>) -> Result<()> {
        let totals = (COUNTS_ARG.to_owned(), COUNTS_TOTAL.to_owned());
        let args = match self.format {
            Format::OpenMetrics => &[totals][..],
            Format::Line | Format::Json => &[],
        };
        scx_utils::monitor_stats::<Metrics>(
            args,
            interval,
            || shutdown.load(Ordering::Relaxed),
            |metrics| self.print(&metrics),
        )
    }

    /// The same until `stopped` has a message, however long the interval is; then
    /// `shutdown` is set.
    ///
    /// # Errors
    ///
    /// As above, and if there are too many threads.
    pub fn run_until_stopped(
        self,
        interval: Duration,
        shutdown: Arc<AtomicBool>,
        stopped: &Receiver<()>,
    ) -> Result<()> {
        let (sender, ended) = bounded(1);
        thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || sender.send(self.run(interval, &shutdown)))
            .context("starting the thread that prints")?;
        select! {
            recv(ended) -> result => return result.context("the monitor is gone")?,
            recv(stopped) -> _ => {}
        }
        // What is being printed is not torn; the sleep until the next time is.
        ended.recv_timeout(PRINTING_PATIENCE).unwrap_or(Ok(()))
    }

    /// Print one interval.
    fn print(&self, metrics: &Metrics) -> Result<()> {
        let text = match self.format {
            Format::Line => line(metrics),
            Format::Json => serde_json::to_string(metrics).context("writing JSON")? + "\n",
            Format::OpenMetrics => exposition(metrics)?,
        };
        match &self.file {
            Some(file) => file.replace(&text),
            None => output::print(&text),
        }
    }
}

/// The line of one interval.
fn line(metrics: &Metrics) -> String {
    format!(
        "[pandemonium] {} {} target {} us placed {:>6} idle {:>3.0}% handoff {} preempt {} queued {}+{} own {} | \
         keep {} timer {} rescued {} surge {} | mig {} L2 hit {:.0}/{:.0}/{:.0}% | \
         cpufreq {} to {} | procdb {}/{} used {} | wake p99 us: critical {} interactive {} batch {} | worst wait {} us\n",
        metrics.profile,
        metrics.regime,
        metrics.latency_target_us,
        metrics.nr_placed,
        metrics.idle_pct,
        metrics.nr_handoff,
        metrics.nr_preempt,
        metrics.nr_interactive,
        metrics.nr_batch,
        metrics.nr_own,
        metrics.nr_keep_running,
        metrics.nr_slice_timer,
        metrics.nr_serve_rescued,
        metrics.nr_surges,
        metrics.nr_migrate,
        metrics.lat_critical_l2_hit_pct,
        metrics.interactive_l2_hit_pct,
        metrics.batch_l2_hit_pct,
        metrics.nr_cpuperf_set,
        metrics.cpuperf_target,
        metrics.nr_procdb_known,
        metrics.nr_procdb,
        metrics.nr_recalls,
        metrics.lat_critical_p99_us,
        metrics.interactive_p99_us,
        metrics.batch_p99_us,
        metrics.max_wait_us,
    )
}
