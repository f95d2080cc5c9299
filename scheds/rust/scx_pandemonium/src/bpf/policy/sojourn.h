/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sojourn: has somebody waited in a queue for too long?
 *
 * A queue is ordered by rank, so its first task is not the one that waits
 * longest, and a stamp of when the queue became busy says nothing of those that
 * came later. The tasks that wait are counted in two groups instead: an older
 * one that nobody joins any more, and a younger one. Once the older one is
 * empty the younger takes its place and a new one opens.
 *
 * When a group closed, all of it had come. If some of it is there a while after
 * that, they have waited at least as long: this is never wrong, and never
 * later than twice that after they came.
 *
 * The threshold is CoDel's idea of a standing queue (Nichols and Jacobson 2012):
 * not how many wait counts, but how long.
 *
 * Not here: whom of the older group to serve (rescue.bpf.c).
 */
#ifndef __POLICY_SOJOURN_H
#define __POLICY_SOJOURN_H

#include "types.h"

/* Return how many tasks wait in a queue. */
static inline u32 sojourn_nr(const struct waiters *w)
{
	return w->nr[0] + w->nr[1];
}

/* Return the group that a task joins which begins to wait: 0 or 1. */
static inline u32 sojourn_young(const struct waiters *w)
{
	return w->turn & 1;
}

/* Return the group of those that have waited longer. */
static inline u32 sojourn_old(const struct waiters *w)
{
	return !(w->turn & 1);
}

/* Return whether the younger group should take the place of the older. */
static inline bool sojourn_must_turn(const struct waiters *w)
{
	return !w->nr[sojourn_old(w)] && w->nr[sojourn_young(w)];
}

/*
 * Return whether somebody of the older group has waited for @thresh_ns.
 *
 * The clocks of two CPUs may be apart, so @now may be before the stamp.
 */
static inline bool sojourn_is_over(const struct waiters *w, u64 now,
				   u64 thresh_ns)
{
	return w->nr[sojourn_old(w)] &&
	       (s64)(now - w->turned_at) > (s64)thresh_ns;
}

#endif /* __POLICY_SOJOURN_H */
