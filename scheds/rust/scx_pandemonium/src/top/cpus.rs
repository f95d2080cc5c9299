//! How busy each CPU is, as the kernel counts it.

use anyhow::{Context, Result};
use procfs::{CpuTime, CurrentSI, KernelStats};

/// The times of each CPU when they were read last.
#[derive(Default)]
pub struct Cpus(Vec<Times>);

/// Ticks of a CPU since boot.
#[derive(Clone, Copy, Default)]
struct Times {
    idle: u64,
    all: u64,
}

impl Cpus {
    /// Part of the time since the last call that each online CPU was busy, 0 to 1.
    /// The first call takes the time since boot.
    ///
    /// # Errors
    ///
    /// If `/proc/stat` cannot be read.
    pub fn busy(&mut self) -> Result<Vec<f64>> {
        let stats = KernelStats::current().context("reading /proc/stat")?;
        Ok(self.advance(stats.cpu_time.iter().map(Times::of).collect()))
    }

    fn advance(&mut self, now: Vec<Times>) -> Vec<f64> {
        // Another number of CPUs: it is not known which one came or went.
        if self.0.len() != now.len() {
            self.0 = vec![Times::default(); now.len()];
        }
        let busy = now.iter().zip(&self.0).map(|(now, before)| {
            let idle = now.idle.saturating_sub(before.idle);
            match now.all.saturating_sub(before.all) {
                0 => 0.0,
                all => 1.0 - idle.min(all) as f64 / all as f64,
            }
        });
        let busy = busy.collect();
        self.0 = now;
        busy
    }
}

impl Times {
    fn of(time: &CpuTime) -> Times {
        let idle = time.idle + time.iowait.unwrap_or(0);
        let others = [time.irq, time.softirq, time.steal];
        let others: u64 = others.iter().flatten().sum();
        Times {
            idle,
            all: idle + time.user + time.nice + time.system + others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_as_busy_as_it_was_not_idle_since_the_last_call() {
        let mut cpus = Cpus::default();
        let times = |idle, all| Times { idle, all };
        assert_eq!(
            cpus.advance(vec![times(50, 100), times(0, 0)]),
            vec![0.5, 0.0]
        );
        assert_eq!(
            cpus.advance(vec![times(50, 110), times(30, 40)]),
            vec![1.0, 0.25]
        );
        // One is offline; a clock that goes back is no load.
        assert_eq!(cpus.advance(vec![times(100, 200)]), vec![0.5]);
        assert_eq!(cpus.advance(vec![times(90, 190)]), vec![0.0]);
    }
}
