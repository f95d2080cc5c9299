/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slice: how long may a task run before the scheduler decides again?
 *
 * Problem: a frame or an audio period should end in one go, and a task that
 * waits should get its turn in time.
 *
 * How: without waiters a slice follows the tier: 1.5 times the average run of a
 * latency-critical task, twice that of an interactive one, a fixed long one for
 * batch work. While tasks wait, the latency target is divided among those that
 * wait and run. It never falls below a least slice; from where the target is
 * out of reach it rises again, towards twice that, since shorter slices would
 * only add switches. A niced-down task gets shorter slices that come more
 * often.
 *
 *	Runnable tasks of a CPU, with a target of 8 ms and a least slice of
 *	1 ms, all of nice 0:
 *
 *	tasks	slice	until each has had its turn
 *	    2	4 ms	 8 ms
 *	    4	2 ms	 8 ms
 *	    8	1 ms	 8 ms
 *	   16	1.5 ms	24 ms
 *	   40	1.8 ms	72 ms
 *
 * Limits:
 *   - With more runnable tasks for each CPU than the target has least
 *     slices, here eight, it is missed.
 *   - All waiting tasks are taken to be served by all CPUs of the domain. Tasks
 *     that only some of these may run wait longer; for those of one CPU alone
 *     the caller divides once more.
 *   - At the least slice a niced-down task gets no shorter one. One of nice 19
 *     is 68 ms of vtime behind after it and waits accordingly.
 *   - A run goes on for SLICE_LEFT_MIN_NS at least, so a turn that preemption
 *     cuts in pieces may be longer than its slice by that.
 *
 * Not here: what ends a slice between two ticks (slice.bpf.c).
 */
#ifndef __POLICY_SLICE_H
#define __POLICY_SLICE_H

#include "types.h"
#include "weight.h"

enum slice_consts {
	/* A run that was preempted goes on for this long at least. */
	SLICE_LEFT_MIN_NS = 100 * NSEC_PER_USEC,
};

/* Return @value, not below @low nor above @high. */
static inline u64 slice_clamp(u64 value, u64 low, u64 high)
{
	if (value < low)
		return low;
	return value > high ? high : value;
}

/*
 * Return the slice of a task of @tier.
 *
 * A latency-critical task gets 1.5 times its average run, an interactive one
 * twice that: enough to finish as usual, so that running on is news. Both stay
 * between @min_ns and @slice_ns. A batch task gets @batch_slice_ns.
 */
static inline u64 slice_for_tier(enum tier tier, u64 avg_runtime_ns, u64 min_ns,
				 u64 slice_ns, u64 batch_slice_ns)
{
	if (tier == TIER_BATCH)
		return batch_slice_ns;
	if (tier == TIER_LAT_CRITICAL)
		return slice_clamp(avg_runtime_ns + avg_runtime_ns / 2, min_ns,
				   slice_ns);
	return slice_clamp(avg_runtime_ns * 2, min_ns, slice_ns);
}

/*
 * Return how long a batch task may run on while @nr_waiting others wait for
 * @nr_cpus CPUs, so that each gets a turn within about @target_ns.
 *
 * That falls to @min_ns as more wait. Where still more do, the target is out of
 * reach whatever the slice is, and switches would only be what is left of short
 * ones: it rises again, from @crowd_ns towards twice that.
 *
 * @crowd_ns	@min_ns, or more: turns that were shortened for the sake of a
 *		few that wait are of no use to a crowd
 */
static inline u64 slice_contended(u64 nr_waiting, u32 nr_cpus, u64 target_ns,
				  u64 min_ns, u64 crowd_ns)
{
	u64 nr_turns = nr_waiting + nr_cpus, slice_ns;

	if (!nr_cpus || !min_ns)
		return min_ns;
	slice_ns = target_ns * nr_cpus / nr_turns;
	if (slice_ns >= min_ns)
		return slice_ns;
	return 2 * crowd_ns - slice_ns * crowd_ns / min_ns;
}

/*
 * Return @slice_ns for a task of @weight, while others wait.
 *
 * A niced-down task is charged many times what it uses, so a full slice puts it
 * far behind and its next turn is long in coming. It gets shorter turns that
 * come more often, down to @min_ns.
 */
static inline u64 slice_for_weight(u64 slice_ns, u32 weight, u64 min_ns)
{
	if (weight >= WEIGHT_NICE_0)
		return slice_ns;
	return slice_clamp((slice_ns * weight) >> WEIGHT_SHIFT, min_ns,
			   slice_ns);
}

/*
 * Return what is left of @slice_ns after @used_ns, at least SLICE_LEFT_MIN_NS:
 * to switch to a task and away again at once would only cost.
 */
static inline u64 slice_left(u64 slice_ns, u64 used_ns)
{
	if (used_ns + SLICE_LEFT_MIN_NS >= slice_ns)
		return SLICE_LEFT_MIN_NS;
	return slice_ns - used_ns;
}

#endif /* __POLICY_SLICE_H */
