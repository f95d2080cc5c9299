// SPDX-License-Identifier: GPL-2.0
//! How near to each other two figures are next to the same.
//!
//! A part of a figure says little where the figure is next to nothing: 0.04 ms
//! and 0.08 ms are both one turn of an emulated CPU. So each kind of figure has a
//! floor, for comparisons (`compare`) and for the gate (`baseline`) alike.

/// How long one emulated CPU can hold up the others, in milliseconds: latencies of
/// this size tell as much of the emulator as of a scheduler.
pub const TURN_MS: f64 = 0.05;

/// Latencies no further apart than this count as equal, in milliseconds: two
/// turns. Figures of 0.07 ms cannot triple unseen; other builds moved the medians
/// of such tails by half.
const FLOOR_MS: f64 = 2.0 * TURN_MS;

/// Shares no further apart than this, in percent.
const FLOOR_PCT: f64 = 3.0;

/// Thousandths of a CPU no further apart than this.
const FLOOR_PERMILLE: f64 = 1.0;

/// Missed periods no further apart than this.
const FLOOR_MISSED: f64 = 2.0;

/// Migrations for each preemption no further apart than this.
const FLOOR_MIGRATIONS: f64 = 0.1;

/// What two values of `metric`, which has this unit, may differ by and be the same,
/// in that unit. None for rates, and for ratios that are no counts.
pub fn floor(metric: &str, unit: &str) -> f64 {
    match unit {
        "ms" => FLOOR_MS,
        "%" => FLOOR_PCT,
        "1/1000" => FLOOR_PERMILLE,
        "" if metric.ends_with("missed") => FLOOR_MISSED,
        "" if metric == "migrations_per_preemption" => FLOOR_MIGRATIONS,
        _ => 0.0,
    }
}

/// Is this figure of a guest so small that the emulator's turns show in it?
pub fn is_near_turn(value: f64, unit: &str) -> bool {
    unit == "ms" && value < 2.0 * TURN_MS
}

/// The floors in words.
pub fn floors() -> String {
    format!(
        "{FLOOR_MS} ms, {FLOOR_PCT} percentage points, {FLOOR_PERMILLE} thousandth of a CPU or \
         {FLOOR_MISSED} missed periods"
    )
}

/// What is said of figures for which [`is_near_turn`].
pub fn near_turn_note() -> String {
    format!(
        "~ is below {} ms, near the emulator's turn of {} us",
        2.0 * TURN_MS,
        TURN_MS * 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_floor_and_ratios_have_none() {
        assert_eq!(floor("audio_missed", ""), 2.0);
        assert_eq!(floor("gain", ""), 0.0);
        assert_eq!(floor("fps", "1/s"), 0.0);
        assert!(floor("wake_p99", "ms") > TURN_MS);
    }
}
