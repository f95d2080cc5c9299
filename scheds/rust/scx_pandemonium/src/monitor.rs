//! The telemetry line: what `--stats` and `--monitor` print.
//!
//! A client of the stats server like any other: it reads [`Metrics`] of one
//! interval after the other and prints each as one line.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::stats::Metrics;

/// Print a line every `interval` until `shutdown` is set. Waits for a scheduler
/// to appear if none runs.
///
/// # Errors
///
/// If the server answers with something else than [`Metrics`], or standard
/// output is closed.
pub fn monitor(interval: Duration, shutdown: Arc<AtomicBool>) -> Result<()> {
    scx_utils::monitor_stats::<Metrics>(
        &[],
        interval,
        || shutdown.load(Ordering::Relaxed),
        |metrics| print(&metrics, &mut std::io::stdout()),
    )
}

/// Print the line of one interval.
fn print(metrics: &Metrics, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "[pandemonium] placed {:>6} idle {:>3.0}% handoff {} preempt {} queued {}+{} own {} | \
         keep {} timer {} rescued {} surge {} | mig {} L2 hit {:.0}/{:.0}/{:.0}% | \
         cpufreq {} to {} | wake p99 us: critical {} interactive {} batch {} | worst wait {} us",
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
        metrics.lat_critical_p99_us,
        metrics.interactive_p99_us,
        metrics.batch_p99_us,
        metrics.max_wait_us,
    )?;
    out.flush()?;
    Ok(())
}
