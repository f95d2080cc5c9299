/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hot: which of the tasks that wait should a CPU run, for its cache's sake?
 *
 * Problem: all CPUs of a domain serve one queue of batch work. Taken strictly
 * by rank, most tasks would go on elsewhere after a preemption and after a
 * turn, where nothing of theirs is in the cache.
 *
 * How: ranks that are no more than a turn apart are as good as equal, and among
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
 *   - A task may be passed over for as long as its rank is within a turn of
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
};

enum hot_kind {
	HOT_LEFT,
	HOT_FAR,
	HOT_NEAR,
	HOT_OPEN,
	HOT_DUE,
};

/*
 * Return what a task is to a CPU, if it @is_near, that is if it ran there last.
 * It has waited for @waited_ns, and lost its CPU before its turn was over if
 * @is_open. The clocks of two CPUs may be apart, so it may wait since later.
 */
static inline enum hot_kind hot_kind(bool is_near, bool is_open, s64 waited_ns)
{
	if (waited_ns > HOT_DUE_NS)
		return HOT_DUE;
	if (is_near)
		return is_open ? HOT_OPEN : HOT_NEAR;
	return is_open && waited_ns < HOT_LEFT_NS ? HOT_LEFT : HOT_FAR;
}

/*
 * Return whether a task of kind @a that waits since @a_since goes before one of
 * kind @b that waits since @b_since.
 */
static inline bool hot_goes_before(enum hot_kind a, u64 a_since,
				   enum hot_kind b, u64 b_since)
{
	return a == b ? (s64)(a_since - b_since) < 0 : a > b;
}

#endif /* __POLICY_HOT_H */
