//! Which task a CPU prefers for its cache's sake.

use super::*;

const MSEC: i64 = 1_000_000;
const LEFT_NS: i64 = hot_consts_HOT_LEFT_NS as i64;
const DUE_NS: i64 = hot_consts_HOT_DUE_NS as i64;

fn kind(is_near: bool, is_open: bool, waited_ns: i64) -> hot_kind {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { hot_kind(is_near, is_open, waited_ns) }
}

fn goes_before(a: hot_kind, a_since: u64, b: hot_kind, b_since: u64) -> bool {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { hot_goes_before(a, a_since, b, b_since) }
}

#[test]
fn a_preempted_task_is_left_to_its_cpu_for_a_while() {
    assert_eq!(kind(false, true, 0), hot_kind_HOT_LEFT);
    assert_eq!(kind(false, true, LEFT_NS - 1), hot_kind_HOT_LEFT);
    assert_eq!(kind(false, true, LEFT_NS), hot_kind_HOT_FAR);
    // By the clock of another CPU it waits since later.
    assert_eq!(kind(false, true, -MSEC), hot_kind_HOT_LEFT);
    // Its own CPU takes it whenever it can.
    assert_eq!(kind(true, true, 0), hot_kind_HOT_OPEN);
}

#[test]
fn a_task_whose_turn_is_over_is_left_to_no_cpu() {
    assert_eq!(kind(false, false, 0), hot_kind_HOT_FAR);
    assert_eq!(kind(true, false, 0), hot_kind_HOT_NEAR);
}

#[test]
fn a_task_that_waits_for_long_is_for_any_cpu() {
    for (is_near, is_open) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(kind(is_near, is_open, DUE_NS + 1), hot_kind_HOT_DUE);
        assert_ne!(kind(is_near, is_open, DUE_NS), hot_kind_HOT_DUE);
    }
    // What is left to a CPU is so for less than that.
    assert!(LEFT_NS < DUE_NS);
}

#[test]
fn kinds_are_ordered_and_equals_go_by_their_wait() {
    let kinds = [
        hot_kind_HOT_LEFT,
        hot_kind_HOT_FAR,
        hot_kind_HOT_NEAR,
        hot_kind_HOT_OPEN,
        hot_kind_HOT_DUE,
    ];
    for (i, &a) in kinds.iter().enumerate() {
        for &b in &kinds[..i] {
            assert!(goes_before(a, 9, b, 1) && !goes_before(b, 1, a, 9));
        }
        assert!(goes_before(a, 1, a, 2));
        assert!(!goes_before(a, 2, a, 2) && !goes_before(a, 3, a, 2));
        // Across a wrap of the clock.
        assert!(goes_before(a, u64::MAX, a, 0) && !goes_before(a, 0, a, u64::MAX));
    }
}
