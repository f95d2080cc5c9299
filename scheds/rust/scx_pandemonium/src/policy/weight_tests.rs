//! Properties of what tasks are entitled to: by nice level, cgroup and demand.

use proptest::prelude::*;

use super::*;

const NICE_0: u32 = weight_consts_WEIGHT_NICE_0;
const ONE: u32 = boost_consts_BOOST_ONE;
const MSEC: u64 = 1_000_000;

fn of_nice(nice: i32) -> f64 {
    // SAFETY: pure arithmetic on its argument.
    unsafe { weight_of_prio((120 + nice).cast_unsigned()) }.into()
}

#[test]
fn a_nice_level_is_worth_a_quarter() {
    assert_eq!(of_nice(0), f64::from(NICE_0));
    for nice in -20..=19 {
        let due = 1.25f64.powi(-nice);
        let ratio = of_nice(nice) / of_nice(0);
        // The kernel's table is rounded to whole numbers, of which 15 is the last.
        assert!((ratio / due - 1.0).abs() < 0.03, "nice {nice}: {ratio}");
    }
    assert!((of_nice(0) / of_nice(10) - 9.31).abs() < 0.01);
}

#[test]
fn what_is_no_nice_level_counts_as_nice_0() {
    for prio in [0, 99, 140, u32::MAX] {
        // SAFETY: pure arithmetic on its argument.
        assert_eq!(unsafe { weight_of_prio(prio) }, NICE_0);
    }
}

#[test]
fn a_cgroup_of_weight_100_weighs_as_much_as_a_task_of_nice_0() {
    // SAFETY: pure arithmetic on its argument.
    let weight = |cpu_weight| unsafe { weight_of_cgroup(cpu_weight) };
    assert_eq!(weight(100), NICE_0);
    assert_eq!(weight(300), 3 * NICE_0);
    assert_eq!(weight(10_000), 100 * NICE_0);
    assert!(weight(1) > 0 && weight(1) <= NICE_0 / 100);
}

/// The weights of tasks in groups of these weights, each `(weight, tasks)`, two
/// levels deep: the first `in_first` are in a group of weight 100.
fn weights_of(groups: &[(u32, u32)], in_first: usize) -> Vec<u32> {
    let all: i64 = groups.iter().map(|(_, nr)| i64::from(nr * NICE_0)).sum();
    let sum = |groups: &[(u32, u32)]| -> i64 { groups.iter().map(|(w, _)| i64::from(*w)).sum() };
    let (inner, outer) = groups.split_at(in_first);
    let inner_part = u32::from(in_first > 0) * NICE_0;
    let outer_sum = sum(outer) + i64::from(inner_part);
    let of_task = |part, nr: u32| {
        // SAFETY: pure arithmetic on its arguments.
        unsafe { part_weight(part_of(part, NICE_0, i64::from(nr * NICE_0)), all) }
    };
    let mut weights = Vec::new();
    // SAFETY: pure arithmetic on its arguments.
    unsafe {
        for (weight, nr) in inner {
            let part = part_of(
                part_of(part_whole(), inner_part, outer_sum),
                *weight,
                sum(inner),
            );
            weights.push(of_task(part, *nr));
        }
        for (weight, nr) in outer {
            weights.push(of_task(part_of(part_whole(), *weight, outer_sum), *nr));
        }
    }
    weights
}

/// A task of ten hogs in a cgroup, and a task of nice -20 in the root that runs for a
/// moment: the run that ends just then costs twice as much as it should, not nine times.
#[test]
fn a_moment_of_great_weight_is_not_charged_for_a_whole_run() {
    let of_hog = |in_root: u32| {
        let (hogs, outer) = (
            10 * i64::from(NICE_0),
            i64::from(NICE_0) + i64::from(in_root),
        );
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            let part = part_of(part_of(part_whole(), NICE_0, outer), NICE_0, hogs);
            part_weight(part, hogs + i64::from(in_root))
        }
    };
    let charged = |last, weight| {
        // SAFETY: pure arithmetic on its arguments.
        unsafe { part_charged_weight(last, weight) }
    };
    let heavy = of_nice(-20) as u32;
    let (alone, beside) = (of_hog(0), of_hog(heavy));
    assert!(beside < alone / 8, "{beside} of {alone}");
    assert_eq!(charged(alone, beside), alone / 2);
    // It has what it had at the end of the next run.
    assert_eq!(charged(alone / 2, alone), alone);
    // A change that stays counts in full after four.
    let last = (0..4).fold(alone, |last, _| charged(last, beside));
    assert_eq!(last, beside);
    // The first run has none before it.
    assert_eq!(charged(0, beside), beside);
}

/// [`weight_consts_WEIGHT_MIN`], as a float.
const WEIGHT_LEAST: f64 = weight_consts_WEIGHT_MIN as f64;

/// The part of the whole that each task of these groups is due.
fn parts_of(groups: &[(u32, u32)], in_first: usize) -> Vec<f64> {
    let sum = |groups: &[(u32, u32)]| -> f64 { groups.iter().map(|(w, _)| f64::from(*w)).sum() };
    let (inner, outer) = groups.split_at(in_first);
    let inner_weight = if in_first > 0 { f64::from(NICE_0) } else { 0.0 };
    let all = sum(outer) + inner_weight;
    let inner = inner
        .iter()
        .map(|(w, nr)| inner_weight / all * f64::from(*w) / sum(inner) / f64::from(*nr));
    let outer = outer
        .iter()
        .map(|(w, nr)| f64::from(*w) / all / f64::from(*nr));
    inner.chain(outer).collect()
}

proptest! {
    /// What groups get is as their weights, however many tasks they have, and
    /// tasks weigh what they would without groups, all together.
    #[test]
    fn groups_share_by_weight_and_not_by_their_number_of_tasks(
        groups in proptest::collection::vec((1u32..=100, 1u32..=64), 2..8), nested: bool,
    ) {
        let groups: Vec<(u32, u32)> =
            groups.into_iter().map(|(weight, nr)| (weight * NICE_0 / 10, nr)).collect();
        let in_first = if nested { groups.len() / 2 } else { 0 };
        // A part is a multiple of 1/2^24 and no weight is below WEIGHT_MIN.
        let least = parts_of(&groups, in_first).into_iter().fold(1.0, f64::min);
        let nr_tasks: u32 = groups.iter().map(|(_, nr)| nr).sum();
        prop_assume!(least * f64::from(1 << 24) >= 200.0);
        prop_assume!(least * f64::from(nr_tasks) * f64::from(NICE_0) >= WEIGHT_LEAST);
        let weights = weights_of(&groups, in_first);
        let got: Vec<f64> = weights.iter().zip(&groups)
            .map(|(weight, (_, nr))| f64::from(*weight) * f64::from(*nr))
            .collect();
        let all: f64 = groups.iter().map(|(_, nr)| f64::from(nr * NICE_0)).sum();
        prop_assert!((got.iter().sum::<f64>() / all - 1.0).abs() < 0.01);
        for level in [0..in_first, in_first..groups.len()] {
            for idx in level.clone() {
                let due = f64::from(groups[idx].0) / f64::from(groups[level.start].0);
                prop_assert!((got[idx] / got[level.start] / due - 1.0).abs() < 0.01);
            }
        }
    }

    /// Sums that other CPUs change meanwhile give no absurd part.
    #[test]
    fn no_part_is_more_than_the_whole(weight in 1u32..=NICE_0 * 100, sum in any::<i64>()) {
        // SAFETY: pure arithmetic on its arguments.
        let (whole, part) = unsafe { (part_whole(), part_of(part_whole(), weight, sum)) };
        prop_assert!(part <= whole);
        // SAFETY: pure arithmetic on its arguments.
        let least = unsafe { part_weight(part, sum) };
        prop_assert!((weight_consts_WEIGHT_MIN..=weight_consts_WEIGHT_MAX).contains(&least));
    }

    /// A task that needs more of a CPU has a smaller factor, within the range.
    #[test]
    fn a_factor_falls_with_demand_and_with_the_scale(
        demand in 0u32..=ONE, more in 0u32..=ONE, max in ONE..=32 * ONE,
        scale in 0u32..=ONE,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let factor = |demand, scale| unsafe { boost_factor(demand, max, scale) };
        prop_assert!((ONE..=max).contains(&factor(demand, scale)));
        prop_assert!(factor(demand.saturating_add(more), scale) <= factor(demand, scale));
        prop_assert!(factor(demand, scale) <= factor(demand, ONE));
        prop_assert_eq!(factor(demand, 0), ONE);
    }
}

#[test]
fn a_frame_has_a_factor_and_a_hog_that_sleeps_a_little_has_none() {
    // SAFETY: pure arithmetic on its arguments.
    let factor = |run_ms, sleep_ms| unsafe {
        boost_factor(boost_demand(run_ms * MSEC, sleep_ms * MSEC), 16 * ONE, ONE)
    };
    assert_eq!(factor(7, 9), 16 * ONE);
    assert_eq!(factor(120, 47), 16 * ONE);
    assert!((3 * ONE..4 * ONE).contains(&factor(140, 27)));
    assert_eq!(factor(9, 1), ONE);
    assert_eq!(factor(0, 0), 16 * ONE);
}

/// Factors end before batch work has lost its guarantee for long, and come back.
#[test]
fn batch_work_has_its_guarantee_within_four_windows() {
    let window_ns = u64::from(boost_consts_BOOST_WINDOW_NS);
    // SAFETY: pure arithmetic on its arguments.
    let next = |scale, batch_pct: u64, other_pct: u64| unsafe {
        let part = |pct| window_ns * 4 * pct / 100;
        boost_next_scale(
            scale,
            part(batch_pct),
            part(other_pct),
            window_ns,
            4,
            ONE / 4,
        )
    };
    let mut scale = ONE;
    for _ in 0..4 {
        scale = next(scale, 20, 80);
    }
    assert_eq!(scale, 0);
    for _ in 0..8 {
        scale = next(scale, 30, 70);
    }
    assert_eq!(scale, ONE);
    // With next to nothing it does not wait as long.
    assert_eq!(next(ONE, 12, 88), ONE / 2);
    assert_eq!(next(ONE / 2, 12, 88), 0);
    assert_eq!(next(ONE, 13, 87), ONE * 3 / 4);
    // Idle CPUs: batch work has what it wants.
    assert_eq!(next(ONE, 0, 60), ONE);
}
