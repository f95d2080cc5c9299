//! What CPUs ask for: fast enough up, steady, and down again.

use proptest::prelude::*;

use super::*;

const MSEC: u64 = 1_000_000;
const ONE: u32 = frequency_consts_FREQUENCY_ONE;
const STEP: u32 = frequency_consts_FREQUENCY_STEP;
const WINDOW_NS: u64 = frequency_consts_FREQUENCY_WINDOW_NS as u64;

/// A CPU whose windows end every `tick_ns`, or later.
struct Cpu {
    util: u32,
    asked: u32,
    nr_asked: u32,
}

impl Cpu {
    /// One that was idle for long.
    fn idle() -> Self {
        Cpu {
            util: 0,
            asked: 0,
            nr_asked: 0,
        }
    }

    fn window(&mut self, busy_ns: u64, len_ns: u64, is_urgent: bool) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            self.util = frequency_util(self.util, busy_ns, len_ns, is_urgent);
            let target = frequency_target(self.util, self.asked);
            self.nr_asked += u32::from(target != self.asked);
            self.asked = target;
        }
    }

    /// Time until it asks for all it has, if it is always busy from now on and
    /// the first tick comes `phase_ns` later.
    fn time_to_full_ns(&mut self, tick_ns: u64, phase_ns: u64, is_urgent: bool) -> u64 {
        let (mut began_at, mut now) = (0, phase_ns);
        while self.asked < ONE {
            if now - began_at >= WINDOW_NS {
                self.window(now - began_at, now - began_at, is_urgent);
                began_at = now;
            }
            now += tick_ns;
            assert!(now < 1_000 * MSEC, "it never asks for all");
        }
        now - tick_ns
    }
}

#[test]
fn a_load_step_reaches_all_within_20_ms_and_sooner_if_it_is_waited_for() {
    for (hz, urgent_max_ms, batch_max_ms) in [(1000, 4, 13), (250, 7, 15), (300, 7, 15)] {
        let tick_ns = 1_000 * MSEC / hz;
        for phase_ns in (0..tick_ns).step_by(100_000) {
            for (is_urgent, max_ms) in [(true, urgent_max_ms), (false, batch_max_ms)] {
                let full_ns = Cpu::idle().time_to_full_ns(tick_ns, phase_ns, is_urgent);
                assert!(
                    full_ns <= max_ms * MSEC,
                    "{hz} Hz, phase {phase_ns}, urgent {is_urgent}: {full_ns}"
                );
            }
        }
    }
}

#[test]
fn a_frame_of_12_ms_in_each_16_7_asks_for_all_and_asks_once() {
    let mut cpu = Cpu::idle();
    for _ in 0..600 {
        for _ in 0..3 {
            cpu.window(4 * MSEC, 4 * MSEC, true);
        }
        cpu.window(0, 4_700_000, true);
    }
    assert_eq!((cpu.asked, cpu.nr_asked), (ONE, 1));
}

#[test]
fn a_short_task_now_and_then_asks_for_nothing() {
    let mut cpu = Cpu::idle();
    for _ in 0..600 {
        cpu.window(MSEC / 2, 100 * MSEC, true);
    }
    assert_eq!((cpu.asked, cpu.nr_asked), (0, 0));
}

#[test]
fn a_steady_load_asks_for_its_part_and_falls_silent() {
    for part in [10, 25, 40, 60] {
        let mut cpu = Cpu::idle();
        let window = |cpu: &mut Cpu| cpu.window(part * MSEC / 10, 10 * MSEC, false);
        (0..50).for_each(|_| window(&mut cpu));
        let settled = cpu.nr_asked;
        (0..1_000).for_each(|_| window(&mut cpu));
        assert_eq!(cpu.nr_asked, settled, "{part} percent");
        let wanted = ONE * u32::try_from(part).unwrap() / 100;
        assert!(
            cpu.asked.abs_diff(wanted) <= STEP,
            "{part} percent: {}",
            cpu.asked
        );
    }
}

#[test]
fn an_idle_cpu_asks_for_less_and_less_and_soon_for_nothing() {
    let mut cpu = Cpu {
        util: ONE,
        asked: ONE,
        nr_asked: 0,
    };
    let mut before = ONE;
    for _ in 0..6 {
        cpu.window(0, 32 * MSEC, false);
        assert!(cpu.asked <= before && cpu.asked <= ONE / 2, "{before}");
        before = cpu.asked;
    }
    assert_eq!(cpu.asked, 0);
    cpu.util = ONE;
    cpu.window(0, 1_000 * MSEC, false);
    assert_eq!(cpu.asked, 0, "after a second at once");
}

proptest! {
    #[test]
    fn what_is_asked_for_is_in_range(
        util in 0..=ONE, asked in 0..=ONE, busy_ns: u64, len_ns: u64, is_urgent: bool,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let (util, target) = unsafe {
            let util = frequency_util(util, busy_ns, len_ns, is_urgent);
            (util, frequency_target(util, asked))
        };
        prop_assert!(util <= ONE);
        prop_assert!(target <= ONE);
    }

    #[test]
    fn an_average_lies_between_what_it_was_and_the_window(
        util in 0..=ONE, part in 0..=u64::from(ONE), len_ns in WINDOW_NS..500 * MSEC,
        is_urgent: bool,
    ) {
        let busy_ns = len_ns * part / u64::from(ONE);
        // SAFETY: pure arithmetic on its arguments.
        let new = unsafe { frequency_util(util, busy_ns, len_ns, is_urgent) };
        let part = part as u32;
        // Both divisions round down.
        prop_assert!(new + 1 >= util.min(part) && new <= util.max(part));
    }

    #[test]
    fn asking_again_with_the_same_average_changes_nothing(util in 0..=ONE, asked in 0..=ONE) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            let target = frequency_target(util, asked);
            prop_assert_eq!(frequency_target(util, target), target);
        }
    }

    #[test]
    fn all_is_asked_for_until_the_average_is_a_step_lower(noise in 0..STEP) {
        let full = frequency_consts_FREQUENCY_FULL;
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            prop_assert_eq!(frequency_target(full, 0), ONE);
            prop_assert_eq!(frequency_target(full - noise, ONE), ONE);
        }
    }
}
