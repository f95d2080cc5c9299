/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hist: which bucket does a duration fall into?
 *
 * Problem: percentiles of millions of waits, from 1 us to seconds, for one
 * addition at each wakeup and a few KiB for each CPU.
 *
 * How: buckets are log-linear, eight to an octave, so that each is at most an
 * eighth as wide as the shortest duration in it is long. The loader adds up
 * those of all CPUs and interpolates.
 *
 * Limits:
 *   - A percentile is off by the width of a bucket at most, 12.5%, whatever the
 *     durations are; by some 6% as a rule.
 *   - All below 256 ns share the first bucket, all above some 3.8 s the last.
 *   - Sleeps have four buckets, enough to tell I/O from rest and no more.
 *
 * Not here: percentiles (src/hist.rs), what is recorded (stats.bpf.c).
 */
#ifndef __POLICY_HIST_H
#define __POLICY_HIST_H

#include "types.h"

/* Return the position of the highest bit of @value, which is not 0. */
static inline u32 hist_log2(u64 value)
{
	u32 log2 = 0;

	if (value >> 32) {
		value >>= 32;
		log2 += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log2 += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log2 += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log2 += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log2 += 2;
	}
	return log2 + (value >> 1);
}

/* Return the latency bucket of @ns, 0..NR_HIST_BUCKETS-1. */
static inline u32 hist_bucket(u64 ns)
{
	u32 log2, bucket;

	if (ns < (1ULL << HIST_MIN_SHIFT))
		return 0;
	log2 = hist_log2(ns);
	bucket = 1 + ((log2 - HIST_MIN_SHIFT) << HIST_SUB_SHIFT) +
		 ((ns >> (log2 - HIST_SUB_SHIFT)) &
		  ((1U << HIST_SUB_SHIFT) - 1));
	return bucket < NR_HIST_BUCKETS ? bucket : NR_HIST_BUCKETS - 1;
}

/* Return the shortest duration, in ns, that falls into @bucket. */
static inline u64 hist_bucket_low_ns(u32 bucket)
{
	u32 octave, sub;

	if (!bucket)
		return 0;
	octave = (bucket - 1) >> HIST_SUB_SHIFT;
	sub = (bucket - 1) & ((1U << HIST_SUB_SHIFT) - 1);
	return (1ULL << (octave + HIST_MIN_SHIFT)) +
	       ((u64)sub << (octave + HIST_MIN_SHIFT - HIST_SUB_SHIFT));
}

/*
 * Return the bucket of a sleep: up to 1 ms, up to 10 ms, up to 100 ms, longer.
 */
static inline u32 hist_sleep_bucket(u64 sleep_ns)
{
	if (sleep_ns <= 1ULL * NSEC_PER_MSEC)
		return 0;
	if (sleep_ns <= 10ULL * NSEC_PER_MSEC)
		return 1;
	if (sleep_ns <= 100ULL * NSEC_PER_MSEC)
		return 2;
	return 3;
}

#endif /* __POLICY_HIST_H */
