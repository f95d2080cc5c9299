// SPDX-License-Identifier: GPL-2.0
//! One run of one scenario: its parameters and its timetable.
//!
//! Every instant of a run is fixed before the first thread exists, so threads
//! need no start signal and no stop flag, only the clock:
//!
//! ```text
//! now      t0            from                      to        load_to
//!  | set up | loads start | what happens here counts | 10 ms more |
//! ```
//!
//! Loads run 10 ms longer than the measurement, so that the last events
//! measured still meet the full load. A seed shifts the start of every load by
//! up to 20 ms and decides what a load draws; nothing else in a run is random.

use std::cell::Cell;
use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::clock::{NSEC_PER_MSEC, NSEC_PER_SEC, now_ns};
use crate::system::CpuMap;

/// Bound of the shift that a seed gives to the start of a load, in nanoseconds:
/// two ticks at the slowest tick rate of 100 Hz, five at 250 Hz. So a few seeds
/// are samples of how a load can meet the tick and the other loads, and not of
/// one corner of a tick.
const PHASE_MAX_NS: u64 = 20 * NSEC_PER_MSEC;

/// Time to raise threads and processes before the first load, in nanoseconds.
/// Most of it is for a process that has run other scenarios: to fork it and lock
/// its memory takes 75 ms in an emulated guest, to enter a cgroup 40.
const SETUP_NS: u64 = 180 * NSEC_PER_MSEC;
/// The same, for each CPU: the number of threads grows with it.
const SETUP_PER_CPU_NS: u64 = 15 * NSEC_PER_MSEC;

/// Starts lie on multiples of this, in nanoseconds: whole ticks at any tick rate,
/// so that only the seed decides how a load meets the tick.
const START_GRID_NS: u64 = 20 * NSEC_PER_MSEC;

/// Shifts that one process may draw, so that those of two never meet.
const PHASES_PER_PROCESS: u64 = 1 << 16;

/// How long loads outlast the measurement, in nanoseconds.
const LOAD_TAIL_NS: u64 = 10 * NSEC_PER_MSEC;

/// What a user can choose about a run.
#[derive(Debug, Clone)]
pub struct Params {
    /// CPUs that the loads are sized for.
    pub cpus: usize,
    /// Length of the measurement in seconds; `None` for the scenario's own.
    pub seconds: Option<f64>,
    /// Shifts the start of every load; each seed is one sample.
    pub seed: u64,
    /// Delay put between the event and its time stamp, in nanoseconds. It must
    /// show in the result; this is how the bench is tested.
    pub inject_ns: u64,
    /// Leave out the background load, so that an injected delay stands alone.
    pub no_load: bool,
    /// Count what the scheduler's callbacks cost.
    pub with_cost: bool,
    /// Measured threads run in SCHED_FIFO.
    pub fifo: bool,
}

/// The timetable of a run; all instants in nanoseconds of the monotonic clock.
#[derive(Debug, Clone)]
pub struct Session {
    /// CPUs that the loads are sized for.
    pub cpus: usize,
    /// Delay put between event and time stamp, in nanoseconds.
    pub inject_ns: u64,
    /// Without background load.
    pub no_load: bool,
    /// Count what the scheduler's callbacks cost.
    pub with_cost: bool,
    /// Measured threads run in SCHED_FIFO.
    pub fifo: bool,
    /// Earliest start of a load.
    pub t0_ns: u64,
    /// Start of the measurement.
    pub from_ns: u64,
    /// End of the measurement.
    pub to_ns: u64,
    /// End of the loads.
    pub load_to_ns: u64,
    /// Which CPU shares what with which.
    pub map: Arc<CpuMap>,
    seed: u64,
    nr_phases: Cell<u64>,
}

impl Session {
    /// Fix the timetable: `warmup_ns` of load, then `seconds` of measurement.
    pub fn new(params: &Params, map: Arc<CpuMap>, warmup_ns: u64, seconds: f64) -> Self {
        let ready_ns = now_ns() + SETUP_NS + SETUP_PER_CPU_NS * params.cpus as u64;
        let t0_ns = ready_ns.next_multiple_of(START_GRID_NS);
        let from_ns = t0_ns + warmup_ns;
        let to_ns = from_ns + (seconds * NSEC_PER_SEC as f64) as u64;
        Self {
            cpus: params.cpus,
            inject_ns: params.inject_ns,
            no_load: params.no_load,
            with_cost: params.with_cost,
            fifo: params.fifo,
            t0_ns,
            from_ns,
            to_ns,
            load_to_ns: to_ns + LOAD_TAIL_NS,
            map,
            seed: params.seed,
            nr_phases: Cell::new(0),
        }
    }

    /// The start of the next load: `t0_ns` and the seed's shift for it.
    pub fn next_start_ns(&self) -> u64 {
        let nth = self.nr_phases.get();
        self.nr_phases.set(nth + 1);
        self.t0_ns + phase_ns(self.seed, nth)
    }

    /// The same timetable for a process that is about to be forked: it draws
    /// shifts of its own.
    pub fn for_process(&self) -> Self {
        let nth = self.nr_phases.get();
        self.nr_phases.set(nth + 1);
        Self {
            nr_phases: Cell::new((nth + 1) * PHASES_PER_PROCESS),
            ..self.clone()
        }
    }

    /// Numbers for a load that is to be irregular, the same for the same seed.
    pub fn draws(&self) -> Draws {
        let nth = self.nr_phases.get();
        self.nr_phases.set(nth + 1);
        Draws {
            seed: mix(self.seed, nth),
            nth: 0,
        }
    }

    /// Does an event of this instant count?
    pub fn counts(&self, at_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&at_ns)
    }

    /// Length of the measurement in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Fail if the measurement has begun: threads that start only now would work
    /// off what they missed, and all their events would be late.
    pub fn ensure_set_up(&self) -> Result<()> {
        let late_ns = now_ns().saturating_sub(self.from_ns);
        ensure!(
            late_ns == 0,
            "not all threads were there when the measurement began, but {} ms later; is the \
             machine busy with something else?",
            late_ns.div_ceil(NSEC_PER_MSEC)
        );
        Ok(())
    }

    /// Number of background tasks: `count`, or none without load.
    pub fn nr_load(&self, count: usize) -> usize {
        if self.no_load { 0 } else { count }
    }
}

/// A sequence of numbers without a pattern that a seed decides.
#[derive(Debug, Clone)]
pub struct Draws {
    seed: u64,
    nth: u64,
}

impl Draws {
    /// The next number, from `least` to below `bound`, which must be larger.
    pub fn between(&mut self, least: u64, bound: u64) -> u64 {
        self.nth += 1;
        least + mix(self.seed, self.nth) % (bound - least)
    }
}

/// Shift of the `nth` load under `seed`, in nanoseconds below `PHASE_MAX_NS`.
fn phase_ns(seed: u64, nth: u64) -> u64 {
    mix(seed, nth) % PHASE_MAX_NS
}

/// SplitMix64: neighbouring seeds and loads give unrelated numbers.
fn mix(seed: u64, nth: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(nth << 32 | nth);
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second on one CPU, without time for the loads before it.
    fn session() -> Session {
        let params = Params {
            cpus: 1,
            seconds: None,
            seed: 3,
            inject_ns: 0,
            no_load: false,
            with_cost: false,
            fifo: false,
        };
        Session::new(&params, Arc::default(), 0, 1.0)
    }

    #[test]
    fn a_seed_always_gives_the_same_shifts() {
        let shifts = |seed| (0..16).map(|nth| phase_ns(seed, nth)).collect::<Vec<_>>();
        assert_eq!(shifts(7), shifts(7));
        assert_ne!(shifts(7), shifts(8));
    }

    #[test]
    fn shifts_differ_and_stay_below_the_bound() {
        let mut all: Vec<u64> = (0..8)
            .flat_map(|s| (0..8).map(move |n| phase_ns(s, n)))
            .collect();
        assert!(all.iter().all(|&shift| shift < PHASE_MAX_NS));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 64);
    }

    /// Of a tick of 4 ms each quarter is met by some of so few seeds.
    #[test]
    fn five_seeds_meet_a_tick_all_over() {
        for nth in 0..4 {
            let mut quarters = [false; 4];
            for seed in 1..=5 {
                quarters[(phase_ns(seed, nth) / NSEC_PER_MSEC % 4) as usize] = true;
            }
            let met = quarters.iter().filter(|&&is_met| is_met).count();
            assert!(met >= 3, "load {nth}: {quarters:?}");
        }
    }

    #[test]
    fn a_set_up_that_ends_after_the_measurement_began_is_an_error() {
        let mut session = session();
        session.ensure_set_up().unwrap();
        session.from_ns = now_ns() - NSEC_PER_MSEC;
        let error = session.ensure_set_up().unwrap_err().to_string();
        assert!(error.contains(" ms later"), "{error}");
    }

    #[test]
    fn draws_stay_between_their_bounds_and_differ_by_load() {
        let session = session();
        let mut first = session.draws();
        let mut second = session.for_process().draws();
        let numbers: Vec<u64> = (0..100).map(|_| first.between(50, 150)).collect();
        assert!(numbers.iter().all(|number| (50..150).contains(number)));
        assert!(numbers.iter().any(|&number| number != numbers[0]));
        let others: Vec<u64> = (0..100).map(|_| second.between(50, 150)).collect();
        assert_ne!(numbers, others);
    }
}
