/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hot: which of the tasks that wait should a CPU run, for its cache's sake?
 *
 * Problem: all CPUs of a domain serve one queue of batch work. Taken strictly
 * by rank, most tasks would go on elsewhere after a preemption and after a
 * turn, where nothing of theirs is in the cache.
 *
 * How: ranks that are less than a turn apart are as good as equal, and among
 * such tasks a CPU goes by what they are to it. From the best to the worst:
 *
 *   HOT_DUE	has waited for so long that any CPU should take it
 *   HOT_OPEN	lost this CPU before its turn was over
 *   HOT_NEAR	ran on this CPU last
 *   HOT_FAR	ran elsewhere
 *   HOT_LEFT	lost another CPU a short while ago: left to that
 *
 * Of two of a kind the one goes first that has waited for longer.
 *
 * Limits:
 *   - "Ran on this CPU last" stands for "is in its cache", however long ago.
 *   - A task may be passed over for as long as its rank is within that of
 *     the others, or until it is due: hogs wait longer beside a game than by
 *     rank alone.
 *
 * Not here: how far apart ranks may be, how many tasks are looked at
 * (hot.bpf.c).
 */
#ifndef __POLICY_HOT_H
#define __POLICY_HOT_H

#include "types.h"

enum hot_consts {
	/*
	 * How long a task that was preempted is left to its CPU. The frames of
	 * a game keep a CPU for some 5 ms, and it is worth that: it would have
	 * waited for about as long for another turn.
	 */
	HOT_LEFT_NS = 8 * NSEC_PER_MSEC,
	/*
	 * After so long a task is due. A turn comes round every 8 ms, the
	 * latency target, and every 12 if a game takes a third of the machine;
	 * with 12 ms half of all tasks were due beside one, and moved.
	 */
	HOT_DUE_NS = 14 * NSEC_PER_MSEC,

	/* A score is a kind, above this bit, and a wait: up to 9 years. */
	HOT_KIND_SHIFT = 58,
	/* More than the clocks of two CPUs may be apart. */
	HOT_SKEW_NS = 1 * NSEC_PER_SEC,
};

enum hot_kind {
	HOT_LEFT,
	HOT_FAR,
	HOT_NEAR,
	HOT_OPEN,
	HOT_DUE,
};

/* Return how far apart ranks may be that are as good as equal. */
static inline u64 hot_near_ns(u64 turn_ns)
{
	return turn_ns / 4 * 3;
}

/*
 * Return what a task is to a CPU, if it @is_near, that is if it ran there last.
 * It has waited for @waited_ns, and lost its CPU before its turn was over if
 * @is_open. With @is_urgent it is no batch work, but ahead of the clock: any
 * CPU should take it. The clocks of two CPUs may be apart, so it may wait since
 * later.
 */
static inline enum hot_kind hot_kind(bool is_near, bool is_open, bool is_urgent,
				     s64 waited_ns)
{
	if (is_urgent || waited_ns > HOT_DUE_NS)
		return HOT_DUE;
	if (is_near)
		return is_open ? HOT_OPEN : HOT_NEAR;
	return is_open && waited_ns < HOT_LEFT_NS ? HOT_LEFT : HOT_FAR;
}

/*
 * Return how good a task of @kind is that has waited for @waited_ns: the more
 * the better, and never 0 but for HOT_LEFT.
 *
 * One number that the verifier knows nothing of: told of the kinds, it would
 * follow each order in which they may come.
 */
static inline u64 hot_score(enum hot_kind kind, s64 waited_ns)
{
	if (kind == HOT_LEFT)
		return 0;
	return ((u64)kind << HOT_KIND_SHIFT) + HOT_SKEW_NS + waited_ns;
}

/* Return the kind of a task with @score. */
static inline enum hot_kind hot_kind_of(u64 score)
{
	return (enum hot_kind)(score >> HOT_KIND_SHIFT);
}

#endif /* __POLICY_HOT_H */
