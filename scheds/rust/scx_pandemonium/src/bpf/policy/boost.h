/* SPDX-License-Identifier: GPL-2.0 */
/*
 * boost: how much more than an equal share may a task have?
 *
 * Problem: a frame of a game takes more CPU time than an equal share beside a
 * build of four jobs for each CPU: with an equal share it shows 20 frames a
 * second.
 *
 * How: the weight of a task that sleeps by itself is multiplied. The factor
 * depends on its demand, the part of a CPU that it would use if it had one to
 * itself: CPU time over CPU time and sleep, by moving averages. The time that
 * it waits for a CPU does not count, so a frame that comes late does not look
 * like a hog; nor does a sleep in which other tasks worked and woke each other
 * until they woke it (classify.bpf.c). Up to DEMAND_FULL the factor is the
 * largest, from DEMAND_NONE on it is one. If the largest is 16:
 *
 *	7 ms of each 16.7 ms			demand 0.42	factor 16
 *	12 ms of each 16.7 ms			demand 0.72	factor 16
 *	14 ms of each 16.7 ms			demand 0.84	factor 3.4
 *	a hog that sleeps 1 ms of each 10	demand 0.90	factor 1
 *
 * In return batch work has a guarantee, a part of the CPU time of its domain.
 * CPU time is counted in windows of BOOST_WINDOW_NS. After a window in which
 * all CPUs were busy and batch work got less than that, all factors of the
 * domain shrink towards one, and after any other they grow again.
 *
 * Limits:
 *   - The guarantee holds on average over some windows, not within each.
 *   - Factors are the same for all tasks of a demand: two games that together
 *     need more than the guarantee leaves shrink alike.
 *
 * Not here: which tasks have a factor at all (share.bpf.c).
 */
#ifndef __POLICY_BOOST_H
#define __POLICY_BOOST_H

#include "types.h"

enum boost_consts {
	/* Demands, factors, scales and parts are fixed-point numbers. */
	BOOST_SHIFT = 10,
	BOOST_ONE = 1 << BOOST_SHIFT,

	DEMAND_FULL = 740,
	DEMAND_NONE = 880,

	BOOST_WINDOW_NS = 32 * NSEC_PER_MSEC,
	/* How much the scale grows after a window, see boost_next_scale(). */
	BOOST_STEP = BOOST_ONE / 8,
	/* CPUs count as busy if no more than this part of a window was idle. */
	BOOST_IDLE_MAX = BOOST_ONE / 5,
};

/* Return the demand of a task, 0 to BOOST_ONE. */
static inline u32 boost_demand(u64 runtime_ns, u64 sleep_ns)
{
	u64 all_ns = runtime_ns + sleep_ns;

	return all_ns ? (runtime_ns << BOOST_SHIFT) / all_ns : 0;
}

/*
 * Return the factor of a task of @demand, from BOOST_ONE to @max. @scale, 0 to
 * BOOST_ONE, is how much of it counts.
 */
static inline u32 boost_factor(u32 demand, u32 max, u32 scale)
{
	u64 more = max > BOOST_ONE ? max - BOOST_ONE : 0;

	if (demand >= DEMAND_NONE)
		return BOOST_ONE;
	if (demand > DEMAND_FULL)
		more = more * (DEMAND_NONE - demand) /
		       (DEMAND_NONE - DEMAND_FULL);
	return BOOST_ONE + ((more * scale) >> BOOST_SHIFT);
}

/*
 * Return the scale after a window of @window_ns on @nr_cpus CPUs in which batch
 * work used @batch_ns and other work @other_ns. @guarantee is the part of the
 * CPU time that batch work may have.
 *
 * It shrinks by twice the step that it grows by, and by four times while batch
 * work has less than half of its guarantee: many tasks with a factor leave it
 * next to nothing.
 */
static inline u32 boost_next_scale(u32 scale, u64 batch_ns, u64 other_ns,
				   u64 window_ns, u32 nr_cpus, u32 guarantee)
{
	u64 all_ns = batch_ns + other_ns, due_ns = all_ns * guarantee;
	bool is_full = all_ns << BOOST_SHIFT >=
		       window_ns * nr_cpus * (BOOST_ONE - BOOST_IDLE_MAX);
	u32 step = 2 * BOOST_STEP;

	batch_ns <<= BOOST_SHIFT;
	if (!is_full || batch_ns >= due_ns)
		return scale + BOOST_STEP < BOOST_ONE ? scale + BOOST_STEP
						      : BOOST_ONE;
	if (2 * batch_ns < due_ns)
		step = 4 * BOOST_STEP;
	return scale > step ? scale - step : 0;
}

#endif /* __POLICY_BOOST_H */
