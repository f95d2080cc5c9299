//! Percentiles of the latency histograms that BPF keeps.
//!
//! The buckets are those of `src/bpf/policy/hist.h`; a test holds the two
//! together. No I/O.

use crate::bpf_intf::{
    intf_consts_HIST_MIN_SHIFT, intf_consts_HIST_SUB_SHIFT, intf_consts_NR_HIST_BUCKETS,
};

/// Number of buckets of a latency histogram.
pub const NR_BUCKETS: usize = intf_consts_NR_HIST_BUCKETS as usize;

/// Counts of waits, one for each bucket.
pub type Counts = [u64; NR_BUCKETS];

/// The shortest wait, in ns, that is counted in `bucket`.
pub fn bucket_low_ns(bucket: usize) -> u64 {
    if bucket == 0 {
        return 0;
    }
    let octave = (bucket - 1) >> intf_consts_HIST_SUB_SHIFT;
    let sub = (bucket - 1) & ((1 << intf_consts_HIST_SUB_SHIFT) - 1);
    let base = octave + intf_consts_HIST_MIN_SHIFT as usize;
    (1 << base) + ((sub as u64) << (base - intf_consts_HIST_SUB_SHIFT as usize))
}

/// The wait, in ns, that `percentile` (0..=100) of the counted waits do not
/// exceed, interpolated inside its bucket; `None` if nothing was counted.
pub fn percentile_ns(counts: &Counts, percentile: f64) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = (percentile / 100.0 * total as f64).clamp(0.0, total as f64);
    let mut below = 0;
    for (bucket, count) in counts.iter().enumerate() {
        if *count > 0 && (below + count) as f64 >= rank {
            let low = bucket_low_ns(bucket) as f64;
            let high = bucket_low_ns(bucket + 1) as f64;
            let share = (rank - below as f64) / *count as f64;
            return Some((low + (high - low) * share) as u64);
        }
        below += count;
    }
    Some(bucket_low_ns(NR_BUCKETS))
}

/// The mean wait in ns, taking each as the middle of its bucket; `None` if
/// nothing was counted.
pub fn mean_ns(counts: &Counts) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let sum: f64 = counts
        .iter()
        .enumerate()
        .map(|(bucket, count)| {
            let middle = (bucket_low_ns(bucket) + bucket_low_ns(bucket + 1)) as f64 / 2.0;
            middle * *count as f64
        })
        .sum();
    Some((sum / total as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    fn counted(waits_ns: &[u64]) -> Counts {
        let mut counts = [0; NR_BUCKETS];
        for wait_ns in waits_ns {
            counts[policy::bucket(*wait_ns) as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_buckets_are_those_of_the_bpf_half() {
        for bucket in 0..NR_BUCKETS {
            assert_eq!(
                bucket_low_ns(bucket),
                policy::bucket_low_ns(bucket as u32),
                "bucket {bucket}"
            );
        }
    }

    #[test]
    fn an_interpolated_percentile_is_within_a_tenth() {
        let waits: Vec<u64> = (1..=100_000u64).map(|n| n * 100).collect();
        let counts = counted(&waits);
        for percentile in [10.0, 50.0, 90.0, 99.0] {
            let exact = percentile / 100.0 * 10_000_000.0;
            let estimate = percentile_ns(&counts, percentile).unwrap() as f64;
            assert!(
                (estimate - exact).abs() < exact / 10.0,
                "p{percentile}: {estimate} for {exact}"
            );
        }
    }

    #[test]
    fn nothing_counted_has_no_percentile_and_no_mean() {
        assert_eq!(percentile_ns(&[0; NR_BUCKETS], 99.0), None);
        assert_eq!(mean_ns(&[0; NR_BUCKETS]), None);
    }

    #[test]
    fn the_mean_of_equal_waits_is_that_wait_within_a_bucket() {
        let mean = mean_ns(&counted(&[150_000; 10])).unwrap();
        assert!((mean as i64 - 150_000).unsigned_abs() < 150_000 / 8);
    }
}
