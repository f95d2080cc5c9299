//! The tasks that are measured: what they do, and how long they wait for a CPU.

use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use nix::sys::prctl;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Time between two wakeups by a timer, and between two messages.
const TIMER_PERIOD: Duration = Duration::from_millis(2);
const MESSAGE_PERIOD: Duration = Duration::from_millis(3);

/// A frame of 60 Hz, and the CPU time that it takes.
const FRAME_PERIOD: Duration = Duration::from_micros(16_667);
const FRAME_WORK: Duration = Duration::from_millis(4);

/// How late the kernel may let a sleep end, in ns. Its default of 50 us is no
/// wait for a CPU.
const TIMER_SLACK_NS: u64 = 1;

/// Fewer samples have no 99th percentile that says anything.
const P99_SAMPLES_MIN: u64 = 300;

/// Digits that the histogram keeps.
const DIGITS: u8 = 3;

/// How long one kind of task waited.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Waits {
    /// What was measured: `timer`, `message` or `frame`.
    pub name: String,
    /// Number of waits.
    pub nr_samples: u64,
    /// Half of the waits are not longer, in us; none without waits.
    pub p50_us: Option<f64>,
    /// 99 of 100 are not longer, in us; none of fewer than 300.
    pub p99_us: Option<f64>,
    /// The longest, in us.
    pub max_us: Option<f64>,
    /// Waits below 1 us, then below 2, 4, 8 and so on.
    pub below_us: Vec<u64>,
}

impl Waits {
    /// Those of `name`, each in ns.
    ///
    /// # Errors
    ///
    /// If the histogram cannot be made.
    pub fn of(name: &str, waits_ns: &[u64]) -> Result<Waits> {
        let mut histogram = Histogram::<u64>::new(DIGITS).context("making a histogram")?;
        let mut below_us = Vec::new();
        for &wait_ns in waits_ns {
            histogram.record(wait_ns).context("counting a wait")?;
            let octave = (wait_ns / 1000).checked_ilog2().map_or(0, |log| log + 1) as usize;
            if below_us.len() <= octave {
                below_us.resize(octave + 1, 0);
            }
            below_us[octave] += 1;
        }
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        let nr_samples = histogram.len();
        Ok(Waits {
            name: name.to_owned(),
            nr_samples,
            p50_us: (nr_samples > 0).then(|| us(0.5)),
            p99_us: (nr_samples >= P99_SAMPLES_MIN).then(|| us(0.99)),
            max_us: waits_ns.iter().max().map(|max_ns| *max_ns as f64 / 1000.0),
            below_us,
        })
    }
}

/// Measure for `length` what tasks of each kind wait.
///
/// # Errors
///
/// If a thread cannot be started, or the kernel refuses what it needs.
pub fn measure(length: Duration) -> Result<Vec<Waits>> {
    let end = Instant::now() + length;
    let kinds = [
        ("timer", start("probe-timer", move || timer(end))?),
        ("message", start("probe-message", move || messages(end))?),
        ("frame", start("probe-frame", move || frames(end))?),
    ];
    let mut waits = Vec::new();
    for (name, kind) in kinds {
        let waits_ns = kind.join().map_err(|_| anyhow!("a thread panicked"))??;
        waits.push(Waits::of(name, &waits_ns)?);
    }
    Ok(waits)
}

type Measured = Result<Vec<u64>>;

fn start(
    name: &str,
    what: impl FnOnce() -> Measured + Send + 'static,
) -> Result<JoinHandle<Measured>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(what)
        .context("starting a thread")
}

/// Call `at` at each instant that is due until `end`, as soon as the thread runs.
/// One that has passed already is left out, so that each time the thread slept.
fn each(period: Duration, end: Instant, mut at: impl FnMut(Instant) -> Result<()>) -> Result<()> {
    prctl::set_timerslack(TIMER_SLACK_NS).context("setting the timer slack")?;
    let mut due = Instant::now() + period;
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        at(due)?;
        let late = Instant::now().saturating_duration_since(due);
        due += period * (late.as_nanos() / period.as_nanos() + 1) as u32;
    }
    Ok(())
}

fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}

/// From the instant at which a sleep was to end until the thread runs.
fn timer(end: Instant) -> Measured {
    let mut waits = Vec::new();
    each(TIMER_PERIOD, end, |due| {
        waits.push(nanos(due.elapsed()));
        Ok(())
    })?;
    Ok(waits)
}

/// From the instant at which another thread sent a message until the one that
/// waits for it runs.
fn messages(end: Instant) -> Measured {
    let (sender, receiver) = sync_channel::<Instant>(1);
    let receives = start("probe-receive", move || {
        Ok(receiver.iter().map(|sent| nanos(sent.elapsed())).collect())
    })?;
    each(MESSAGE_PERIOD, end, |_due| {
        sender
            .send(Instant::now())
            .context("the thread that receives has ended")
    })?;
    drop(sender);
    receives.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// From the instant at which a frame was due until it is done, without the CPU
/// time that it took: waits before it and within it.
fn frames(end: Instant) -> Measured {
    let mut waits = Vec::new();
    each(FRAME_PERIOD, end, |due| {
        let start = cpu_time()?;
        let mut used = Duration::ZERO;
        while used < FRAME_WORK {
            used = cpu_time()?.saturating_sub(start);
        }
        waits.push(nanos(due.elapsed().saturating_sub(used)));
        Ok(())
    })?;
    Ok(waits)
}

fn cpu_time() -> Result<Duration> {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("reading the CPU time")?;
    Ok(now.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_waits_have_no_p99_and_none_has_no_figure() {
        let none = Waits::of("timer", &[]).unwrap();
        assert_eq!((none.p50_us, none.p99_us, none.max_us), (None, None, None));
        let few = Waits::of("timer", &[5_000; 299]).unwrap();
        assert_eq!((few.p99_us, few.max_us), (None, Some(5.0)));
        let enough: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let waits = Waits::of("timer", &enough).unwrap();
        let p99 = waits.p99_us.unwrap();
        assert!((985.0..=995.0).contains(&p99), "{p99}");
    }

    #[test]
    fn a_wait_is_counted_below_the_next_power_of_two() {
        let waits = Waits::of("timer", &[0, 999, 1_000, 1_999, 2_000, 9_000]).unwrap();
        assert_eq!(waits.below_us, [2, 2, 1, 0, 1]);
    }

    #[test]
    fn an_instant_that_has_passed_is_left_out() {
        let end = Instant::now() + Duration::from_millis(40);
        let mut dues = Vec::new();
        each(Duration::from_millis(10), end, |due| {
            dues.push(due);
            thread::sleep(Duration::from_millis(12));
            Ok(())
        })
        .unwrap();
        assert!(!dues.is_empty() && dues.len() <= 2, "{dues:?}");
    }
}
