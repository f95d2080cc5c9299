//! Onto how many CPUs work is packed, by how busy the machine is.
//!
//! As few as it keeps busy for most of the time: more at once when they are busier
//! than [`GROW_PCT`], one fewer with a sample if without it they would be less busy
//! than [`SHRINK_PCT`]. In between nothing changes, so that a steady load keeps its
//! CPUs. The load is that of all CPUs: what found no place among the packed ones
//! ran on others.
//!
//! The same goes for the tasks that a rule confines, by what these use.
//!
//! Not here: which CPUs these are (topology), what a task does that finds them busy
//! (`src/bpf/idle.bpf.c`).

/// Above this part of their time busy, in percent, there are more of them.
const GROW_PCT: f64 = 85.0;

/// Below this part with one CPU fewer, in percent, there is one fewer.
const SHRINK_PCT: f64 = 60.0;

/// How many CPUs, and whether that is all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    nr_packed: u32,
    is_all: bool,
}

impl Default for Pack {
    fn default() -> Self {
        Pack {
            nr_packed: 1,
            is_all: false,
        }
    }
}

impl Pack {
    /// What follows from a sample in which `idle_pct` of the time of `nr_cpus` was
    /// idle.
    pub fn next(self, idle_pct: f64, nr_cpus: u32) -> Pack {
        self.next_for((100.0 - idle_pct) * f64::from(nr_cpus), nr_cpus)
    }

    /// What follows from a sample in which `busy_pct` of the time of a CPU was used,
    /// by all that the CPUs are for.
    pub fn next_for(self, busy_pct: f64, nr_cpus: u32) -> Pack {
        // A float that is too large becomes the largest number.
        let needed = (busy_pct / GROW_PCT).ceil() as u32;
        let fewer = self.nr_packed.saturating_sub(1);
        let nr_packed = if busy_pct < SHRINK_PCT * f64::from(fewer) {
            fewer
        } else {
            self.nr_packed
        };
        let nr_packed = nr_packed.max(needed).min(nr_cpus).max(1);
        Pack {
            nr_packed,
            is_all: nr_packed >= nr_cpus,
        }
    }

    /// The value of the knob: 0 if there is nothing to keep off.
    pub fn knob(self) -> u64 {
        if self.is_all {
            0
        } else {
            self.nr_packed.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The numbers that follow from samples of so many busy CPUs of 8.
    fn knobs(busy_cpus: &[f64]) -> Vec<u64> {
        let mut pack = Pack::default();
        let next = |busy: &f64| {
            pack = pack.next(100.0 - busy * 100.0 / 8.0, 8);
            pack.knob()
        };
        busy_cpus.iter().map(next).collect()
    }

    #[test]
    fn it_grows_at_once_and_shrinks_by_one() {
        assert_eq!(knobs(&[0.0, 0.5, 0.86, 4.0]), [1, 1, 2, 5]);
        assert_eq!(knobs(&[4.0, 0.0, 0.0, 0.0, 0.0, 0.0]), [5, 4, 3, 2, 1, 1]);
        assert_eq!(knobs(&[8.0, 8.0, 0.0]), [0, 0, 7], "all CPUs are no choice");
    }

    #[test]
    fn a_load_between_the_bounds_changes_nothing() {
        assert_eq!(knobs(&[1.6, 0.65, 1.65, 0.65]), [2, 2, 2, 2]);
        assert_eq!(knobs(&[1.6, 0.59]), [2, 1]);
    }

    #[test]
    fn one_cpu_has_nothing_to_pack() {
        assert_eq!(Pack::default().next(50.0, 1).knob(), 0);
    }

    proptest! {
        #[test]
        fn a_steady_load_has_the_cpus_it_needs_and_keeps_them(
            idle_pct in 0.0..=100.0, nr_cpus in 1u32..1024, nr_before in 1u32..1024,
        ) {
            let mut pack = Pack { nr_packed: nr_before, is_all: false };
            for _ in 0..1024 {
                pack = pack.next(idle_pct, nr_cpus);
                let busy_pct = (100.0 - idle_pct) * f64::from(nr_cpus);
                let room_pct = f64::from(pack.nr_packed) * GROW_PCT;
                prop_assert!(pack.nr_packed == nr_cpus || room_pct >= busy_pct - 1e-6);
            }
            prop_assert_eq!(pack, pack.next(idle_pct, nr_cpus));
        }
    }
}
