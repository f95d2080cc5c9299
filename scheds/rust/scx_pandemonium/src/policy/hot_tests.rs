//! Which task a CPU prefers for its cache's sake.

use super::*;

const MSEC: i64 = 1_000_000;
const LEFT_NS: i64 = hot_consts_HOT_LEFT_NS as i64;
const DUE_NS: i64 = hot_consts_HOT_DUE_NS as i64;

fn kind(is_near: bool, is_open: bool, waited_ns: i64) -> hot_kind {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { hot_kind(is_near, is_open, false, waited_ns) }
}

fn score(kind: hot_kind, waited_ns: i64) -> u64 {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { hot_score(kind, waited_ns) }
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
    // SAFETY: pure arithmetic on its arguments.
    let of_a_game = unsafe { hot_kind(false, true, true, 0) };
    assert_eq!(of_a_game, hot_kind_HOT_DUE);
    // What is left to a CPU is so for less than that.
    assert!(LEFT_NS < DUE_NS);
}

#[test]
fn kinds_are_ordered_and_equals_go_by_their_wait() {
    // By the clock of another CPU; not at all; until the watchdog's end and beyond.
    let waits_ns = [-MSEC, 0, 1, MSEC, 100_000 * MSEC];
    let kinds = [
        hot_kind_HOT_FAR,
        hot_kind_HOT_NEAR,
        hot_kind_HOT_OPEN,
        hot_kind_HOT_DUE,
    ];
    let mut last = 0;
    for kind in kinds {
        for waited_ns in waits_ns {
            let score = score(kind, waited_ns);
            assert!(score > last, "kind {kind}, {waited_ns} ns");
            // SAFETY: pure arithmetic on its argument.
            assert_eq!(unsafe { hot_kind_of(score) }, kind);
            last = score;
        }
    }
}

#[test]
fn what_is_left_to_another_cpu_is_not_taken() {
    assert_eq!(score(hot_kind_HOT_LEFT, LEFT_NS - 1), 0);
}

#[test]
fn a_rank_that_is_a_turn_later_is_not_as_good() {
    // SAFETY: pure arithmetic on its argument.
    let near_ns = |turn_ns| unsafe { hot_near_ns(turn_ns) };
    assert_eq!(near_ns(4_000_000), 3_000_000);
    assert_eq!(near_ns(0), 0);
}
