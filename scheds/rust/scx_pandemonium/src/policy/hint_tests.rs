//! Properties of what a hint makes of a tier and a weight.

use proptest::prelude::*;

use super::*;
use crate::bpf_intf::intf_consts_HINT_FACTOR_ONE as ONE;

const LOWEST: tier = tier_TIER_BATCH;
const HIGHEST: tier = tier_TIER_LAT_CRITICAL;

fn bound(tier: tier, least: tier, greatest: tier, is_long: bool) -> tier {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { hint_bound_tier(tier, least, greatest, is_long) }
}

fn scale(weight: u32, factor: u32) -> u32 {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { hint_scale_weight(weight, factor) }
}

#[test]
fn a_hint_brings_a_tier_between_its_bounds_and_leaves_it_there() {
    for tier in LOWEST..=HIGHEST {
        assert_eq!(bound(tier, LOWEST, HIGHEST, false), tier);
        assert_eq!(bound(tier, LOWEST, HIGHEST, true), tier);
        for greatest in LOWEST..=HIGHEST {
            for least in LOWEST..=greatest {
                let bounded = bound(tier, least, greatest, false);
                assert_eq!(bounded, tier.clamp(least, greatest));
            }
        }
    }
}

#[test]
fn what_works_for_long_is_not_latency_critical_by_a_hint() {
    let interactive = tier_TIER_INTERACTIVE;
    assert_eq!(bound(LOWEST, HIGHEST, HIGHEST, true), interactive);
    assert_eq!(bound(LOWEST, HIGHEST, HIGHEST, false), HIGHEST);
    // What it has shown by itself stays.
    assert_eq!(bound(HIGHEST, HIGHEST, HIGHEST, true), HIGHEST);
    assert_eq!(bound(LOWEST, interactive, HIGHEST, true), interactive);
}

#[test]
fn a_nice_level_counts_unless_what_is_known_ignores_it() {
    let nice_0 = weight_consts_WEIGHT_NICE_0;
    // SAFETY: pure arithmetic on its arguments.
    let weight = |weight, ignores: bool| unsafe { hint_nice_weight(weight, ignores.into()) };
    for own in [weight_consts_WEIGHT_IDLE, nice_0 / 2, nice_0, 2 * nice_0] {
        assert_eq!(weight(own, false), own);
        assert_eq!(weight(own, true), own.max(nice_0));
    }
}

proptest! {
    #[test]
    fn a_factor_scales_a_weight_within_the_bounds_of_weights(
        weight in weight_consts_WEIGHT_MIN..=weight_consts_WEIGHT_MAX,
        factor in ONE / 10..=ONE * 10,
    ) {
        let scaled = scale(weight, factor);
        prop_assert_eq!(scale(weight, ONE), weight);
        prop_assert!(scaled >= weight_consts_WEIGHT_MIN);
        prop_assert!(scaled <= weight_consts_WEIGHT_MAX);
        let due = f64::from(weight) * f64::from(factor) / f64::from(ONE);
        let due = due.clamp(
            f64::from(weight_consts_WEIGHT_MIN),
            f64::from(weight_consts_WEIGHT_MAX),
        );
        prop_assert!((f64::from(scaled) - due).abs() <= 1.0);
    }
}
