// SPDX-License-Identifier: GPL-2.0
//! What other projects' programs print, as figures.
//!
//! Each function takes the whole output and returns what is in it, or `None`
//! when something is missing: a tool that prints something else than expected
//! gives no result.

/// Latencies in microseconds, as cyclictest and jitterdebugger count them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latencies {
    /// Smallest of any thread.
    pub min_us: f64,
    /// Mean over the threads of their means.
    pub mean_us: f64,
    /// Largest of any thread.
    pub max_us: f64,
}

/// cyclictest's histogram over all threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Extremes and mean, which count samples beyond the histogram too.
    pub latencies: Latencies,
    /// Samples in all.
    pub count: u64,
    /// (latency in microseconds, samples), where there are any.
    buckets: Vec<(u64, u64)>,
}

/// What `sysbench threads` counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sysbench {
    /// Events per second.
    pub events_per_s: f64,
    /// Mean time of an event in milliseconds.
    pub mean_ms: f64,
    /// 95th percentile of it.
    pub p95_ms: f64,
    /// Longest event.
    pub max_ms: f64,
}

impl Histogram {
    /// The latency in microseconds that `pct` percent of all samples do not
    /// exceed. Where that lies beyond the histogram it is the largest seen.
    pub fn percentile_us(&self, pct: f64) -> f64 {
        let wanted = (self.count as f64 * pct / 100.0).ceil() as u64;
        let mut seen = 0;
        for &(us, count) in &self.buckets {
            seen += count;
            if seen >= wanted.max(1) {
                return us as f64;
            }
        }
        self.latencies.max_us
    }
}

/// The seconds of hackbench's `Time: 0.030`.
pub fn hackbench_seconds(text: &str) -> Option<f64> {
    number_after(text, "Time:")
}

/// The seconds of perf bench's `Total time: 0.056 [sec]`.
pub fn perf_seconds(text: &str) -> Option<f64> {
    number_after(text, "Total time:")
}

/// The microseconds of perf bench's `64.29 usecs/op`.
pub fn perf_us_per_op(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("usecs/op"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The report of `sysbench threads`.
pub fn sysbench(text: &str) -> Option<Sysbench> {
    let events = number_after(text, "total number of events:")?;
    let seconds = number_after(text, "total time:")?;
    Some(Sysbench {
        events_per_s: events / seconds,
        mean_ms: number_after(text, "avg:")?,
        p95_ms: number_after(text, "95th percentile:")?,
        max_ms: number_after(text, "max:")?,
    })
}

/// The last line of each thread in a live report: `T: 0 ... Min: 12 Avg: 55.01
/// Max: 6180`, cursor movements in between.
pub fn thread_lines(text: &str) -> Option<Latencies> {
    let mut threads = std::collections::BTreeMap::new();
    for line in text.split(['\n', '\r']) {
        let Some((_, line)) = line.split_once("T:") else {
            continue;
        };
        let thread: u32 = line.split_whitespace().next()?.parse().ok()?;
        let figures = [
            number_after(line, "Min:")?,
            number_after(line, "Avg:")?,
            number_after(line, "Max:")?,
        ];
        threads.insert(thread, figures);
    }
    let column = |nth: usize| threads.values().map(move |figures| figures[nth]);
    merge(&[
        column(0).collect(),
        column(1).collect(),
        column(2).collect(),
    ])
}

/// The output of `cyclictest -q -h`.
pub fn cyclictest(text: &str) -> Option<Histogram> {
    let row = |name: &str| -> Option<Vec<f64>> {
        let (_, rest) = text.split_once(name)?;
        let line = rest.lines().next()?;
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    };
    let rows = [
        row("# Min Latencies:")?,
        row("# Avg Latencies:")?,
        row("# Max Latencies:")?,
    ];
    let inside: f64 = row("# Total:")?.iter().sum();
    let beyond: f64 = row("# Histogram Overflows:")?.iter().sum();
    let mut buckets = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(Ok(us)) = words.next().map(str::parse::<u64>) else {
            continue;
        };
        let count: u64 = words.filter_map(|word| word.parse::<u64>().ok()).sum();
        if count > 0 {
            buckets.push((us, count));
        }
    }
    Some(Histogram {
        latencies: merge(&rows)?,
        count: (inside + beyond) as u64,
        buckets,
    })
}

/// Threads' minima, means and maxima as one; `None` without threads.
fn merge([minima, means, maxima]: &[Vec<f64>; 3]) -> Option<Latencies> {
    if means.is_empty() {
        return None;
    }
    Some(Latencies {
        min_us: minima.iter().copied().fold(f64::INFINITY, f64::min),
        mean_us: means.iter().sum::<f64>() / means.len() as f64,
        max_us: maxima.iter().copied().fold(0.0, f64::max),
    })
}

/// The number after the first `name`, whatever unit follows it.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hackbench_and_perf_tell_their_times() {
        let text = "Running in process mode with 1 groups using 40 file descriptors each\n\
                    Each sender will pass 10 messages of 100 bytes\nTime: 0.030\n";
        assert_eq!(hackbench_seconds(text), Some(0.030));
        let text = "# Running 'sched/pipe' benchmark:\n# Executed 1000 pipe operations\n\n     \
                    Total time: 0.064 [sec]\n\n      64.290000 usecs/op\n          15554 ops/sec\n";
        assert_eq!(perf_seconds(text), Some(0.064));
        assert_eq!(perf_us_per_op(text), Some(64.29));
    }

    #[test]
    fn an_output_without_the_figure_is_none() {
        for text in ["", "Time:", "Time: soon", "hackbench: fork failed"] {
            assert_eq!(hackbench_seconds(text), None, "{text}");
        }
        assert_eq!(sysbench("total time: 1.0s\n"), None);
        assert_eq!(thread_lines("nothing"), None);
        assert_eq!(cyclictest("# Histogram\n000001 000002\n"), None);
    }

    #[test]
    fn sysbench_is_read_from_its_report() {
        let text = "General statistics:\n    total time:                          2.0000s\n    \
                    total number of events:              665\n\nLatency (ms):\n         min:    \
                    0.49\n         avg:        6.03\n         max:       16.44\n         \
                    95th percentile:                       10.65\n";
        let expected = Sysbench {
            events_per_s: 332.5,
            mean_ms: 6.03,
            p95_ms: 10.65,
            max_ms: 16.44,
        };
        assert_eq!(sysbench(text), Some(expected));
    }

    #[test]
    fn the_last_line_of_each_thread_counts() {
        let text = "T: 0 (1) A: 0 C: 3 Min: 9 Avg: 80.00 Max: 90 \x1b[K\n\
                    T: 1 (2) A: 1 C: 3 Min: 8 Avg: 20.00 Max: 30 \x1b[K\n\x1b[2A\
                    T: 0 (1) A: 0 C: 993 Min: 7 Avg: 50.00 Max: 6180 \x1b[K\n\
                    T: 1 (2) A: 1 C: 993 Min: 8 Avg: 30.00 Max: 127 \x1b[K\n";
        let expected = Latencies {
            min_us: 7.0,
            mean_us: 40.0,
            max_us: 6180.0,
        };
        assert_eq!(thread_lines(text), Some(expected));
    }

    #[test]
    fn cyclictests_histogram_gives_percentiles_and_counts_what_lies_beyond() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\t000000\n\
                    000010 000050\t000045\n000100 000002\t000001\n# Total: 000000052 000000046\n\
                    # Min Latencies: 00010 00010\n# Avg Latencies: 00014 00012\n\
                    # Max Latencies: 00100 25000\n# Histogram Overflows: 00000 00002\n\
                    # Histogram Overflow at cycle number:\n# Thread 0:\n# Thread 1: 00017 00030\n";
        let histogram = cyclictest(text).unwrap();
        assert_eq!(histogram.count, 100);
        assert_eq!(histogram.percentile_us(50.0), 10.0);
        assert_eq!(histogram.percentile_us(98.0), 100.0);
        assert_eq!(histogram.percentile_us(99.0), 25000.0);
        assert_eq!(histogram.latencies.mean_us, 13.0);
    }
}
