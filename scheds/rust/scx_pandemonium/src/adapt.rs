//! Looks at the load once a second and adapts the knobs to it.
//!
//! Part of the run loop, which wakes up twice a second anyway. The counters
//! of the BPF half are read only if a knob follows from them, and if nothing has
//! changed for some time, the load is looked at every other second.
//!
//! Not here: what follows from a load (control).

use std::mem;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use log::{debug, warn};
use procfs::{CurrentSI, KernelStats};

use crate::control::{Control, Load};
use crate::scheduler::Scheduler;
use crate::stats::Sample;

/// How often to look at the load, and how often if nothing changes.
const INTERVAL: Duration = Duration::from_secs(1);
const CALM_INTERVAL: Duration = Duration::from_secs(2);

/// Looks in a row at which nothing changed until they become fewer.
const NR_CALM: u32 = 10;

/// Wakeups of a tier that a p99 is taken from at least.
const NR_WAKEUPS_LEAST: u64 = 20;

/// What was seen before.
pub struct Observer {
    looked_at: Instant,
    nr_calm: u32,
    cpu_time: Option<CpuTime>,
    sample: Option<Sample>,
}

/// CPU time since the machine started, in ticks.
#[derive(Clone, Copy)]
struct CpuTime {
    idle: u64,
    all: u64,
    nr_cpus: u32,
}

impl CpuTime {
    /// As the kernel counts it.
    fn read() -> Result<CpuTime> {
        let stats = KernelStats::current().context("reading CPU time")?;
        let total = stats.total;
        let idle = total.idle + total.iowait.unwrap_or(0);
        let busy = [total.user, total.nice, total.system].iter().sum::<u64>();
        let others = [total.irq, total.softirq, total.steal];
        let others: u64 = others.into_iter().flatten().sum();
        Ok(CpuTime {
            idle,
            all: idle + busy + others,
            nr_cpus: u32::try_from(stats.cpu_time.len())?,
        })
    }

    /// Share of the time since `earlier` that was idle, in percent; `None` if no
    /// time has passed. Counts of a CPU that went away may go back.
    fn idle_pct(self, earlier: CpuTime) -> Option<f64> {
        let idle = self.idle.saturating_sub(earlier.idle);
        let all = self.all.saturating_sub(earlier.all);
        (all > 0).then(|| 100.0 * idle.min(all) as f64 / all as f64)
    }
}

impl Observer {
    /// Begin to look.
    pub fn new() -> Observer {
        Observer {
            looked_at: Instant::now(),
            nr_calm: 0,
            cpu_time: None,
            sample: None,
        }
    }

    /// If it is time to, look at the load and adapt the knobs. What cannot be looked
    /// at is not adapted to any more.
    pub fn adapt(&mut self, scheduler: &mut Scheduler<'_>, control: &mut Control) {
        let interval = if self.nr_calm < NR_CALM {
            INTERVAL
        } else {
            CALM_INTERVAL
        };
        if control.adaptation.is_none() || self.looked_at.elapsed() < interval {
            return;
        }
        let now = Instant::now();
        let elapsed = now - mem::replace(&mut self.looked_at, now);
        if let Err(err) = self.look(scheduler, control, elapsed) {
            warn!("the knobs are not adapted to the load any more: {err:#}");
            control.adaptation = None;
            // Nothing is left packed or confined by what was adapted to last.
            if let Err(err) = scheduler.set_knobs(control) {
                warn!("{err:#}");
            }
        }
    }

    /// Look at the load, `elapsed` after the last time.
    fn look(
        &mut self,
        scheduler: &mut Scheduler<'_>,
        control: &mut Control,
        elapsed: Duration,
    ) -> Result<()> {
        let Some(before) = control.adaptation else {
            return Ok(());
        };
        let cpu_time = CpuTime::read()?;
        let earlier = self.cpu_time.replace(cpu_time);
        let Some(idle_pct) = earlier.and_then(|earlier| cpu_time.idle_pct(earlier)) else {
            return Ok(());
        };
        let needs_waits = before.needs_waits(idle_pct);
        let delta = if needs_waits || before.confines() {
            let sample = scheduler.sample()?;
            let delta = self.sample.as_ref().map(|earlier| sample.since(earlier));
            self.sample = Some(sample);
            delta
        } else {
            self.sample = None;
            None
        };
        let delta = delta.as_ref();
        let confined_ns = delta.map_or(0, Sample::confined_ns);

        let load = Load {
            idle_pct,
            nr_cpus: cpu_time.nr_cpus,
            wait_p99_ns: delta
                .filter(|_| needs_waits)
                .and_then(|delta| delta.longest_wake_p99_ns(NR_WAKEUPS_LEAST)),
            confined_pct: 100.0 * confined_ns as f64 / elapsed.as_nanos().max(1) as f64,
        };
        let after = before.next(load);
        debug!("{load:?}: regime {}", after.regime());
        self.nr_calm = if after == before { self.nr_calm + 1 } else { 0 };
        control.adaptation = Some(after);
        scheduler.set_knobs(control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_share_is_that_of_the_time_in_between() {
        let earlier = CpuTime {
            idle: 100,
            all: 200,
            nr_cpus: 1,
        };
        let now = CpuTime {
            idle: 125,
            all: 300,
            nr_cpus: 1,
        };
        assert_eq!(now.idle_pct(earlier), Some(25.0));
        assert_eq!(now.idle_pct(now), None);
        let went_back = CpuTime { idle: 90, ..now };
        assert_eq!(went_back.idle_pct(earlier), Some(0.0));
    }

    #[test]
    fn this_machine_says_how_much_cpu_time_it_used() {
        let now = CpuTime::read().unwrap();
        assert!(now.all >= now.idle && now.all > 0 && now.nr_cpus > 0);
    }
}
