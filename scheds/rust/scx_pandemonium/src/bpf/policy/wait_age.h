/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wait_age: has a task waited in a queue for too long?
 *
 * Problem: a queue is ordered by rank, so its first task is not the one that
 * waits longest, and a stamp of when the queue became busy says nothing of
 * tasks that came later. To stamp and search all of them is too costly.
 *
 * How: the waiting tasks are counted in two groups, an older one that no task
 * joins any more which begins to wait, and a younger one. Once the older one is
 * empty the younger takes its place and a new one opens: the next generation.
 * All tasks of a group had begun to wait when it closed. If some of them are
 * there @thresh_ns after that, they have waited for at least as long. This is
 * CoDel's idea of a standing queue (Nichols and Jacobson 2012): not how many
 * wait counts, but how long.
 *
 * A change of its nice level, class, affinity or cgroup takes a waiting task
 * out of its queue and back. It keeps its age: its group is the older one if it
 * began to wait before that closed.
 *
 * Limits:
 *   - It is never wrong, but late: a task may have waited up to twice the
 *     threshold when it is noticed.
 *   - It says that a task of the older group waits too long, not which one.
 *   - While tasks of the older group are passed over (rescue.bpf.c does that
 *     with those that had their share, for a while), the younger group is not
 *     looked at and the factor of two is that of the longer threshold.
 *   - Tasks are counted until they run: one that is on its way in a local DSQ
 *     still counts.
 *   - A task that moves to another queue is noticed there @thresh_ns after
 *     that one's older group closed: one that moves on sooner each time is not.
 *   - It is arithmetic, no alarm: a wait is noticed when a CPU looks.
 *
 * Not here: which task of the older group is served (rescue.bpf.c).
 */
#ifndef __POLICY_WAIT_AGE_H
#define __POLICY_WAIT_AGE_H

#include "types.h"

/* Return how many tasks wait in a queue. */
static inline u32 wait_age_nr(const struct waiters *w)
{
	return w->nr[0] + w->nr[1];
}

/* Return the group of a task that begins to wait now: 0 or 1. */
static inline u32 wait_age_young(const struct waiters *w)
{
	return w->generation & 1;
}

/* Return the group of those that have waited longer. */
static inline u32 wait_age_old(const struct waiters *w)
{
	return !(w->generation & 1);
}

/*
 * Return the group of a task that is queued now and began to wait at @since.
 *
 * The older one takes it back also when it is empty: it may have been the last.
 */
static inline u32 wait_age_group(const struct waiters *w, u64 since)
{
	bool is_old = (s64)(since - w->closed_at) <= 0;

	return is_old ? wait_age_old(w) : wait_age_young(w);
}

/* Return whether the younger group should take the place of the older. */
static inline bool wait_age_must_advance(const struct waiters *w)
{
	return !w->nr[wait_age_old(w)] && w->nr[wait_age_young(w)];
}

/*
 * Return whether a task of the older group has waited for @thresh_ns.
 *
 * The clocks of two CPUs may be apart, so @now may be before the stamp.
 */
static inline bool wait_age_is_over(const struct waiters *w, u64 now,
				    u64 thresh_ns)
{
	return w->nr[wait_age_old(w)] &&
	       (s64)(now - w->closed_at) > (s64)thresh_ns;
}

/*
 * Return whether the older group was looked at in vain and is to be left alone.
 */
static inline bool wait_age_is_deferred(const struct waiters *w, u64 now)
{
	return (s64)(now - w->closed_at) < (s64)w->look_after_ns;
}

/*
 * Return how long after the older group was closed it is to be looked at again,
 * in @pause_ns: what wait_age_is_deferred() takes for look_after_ns.
 */
static inline u32 wait_age_look_after_ns(const struct waiters *w, u64 now,
					 u64 pause_ns)
{
	s64 after_ns = now - w->closed_at + pause_ns;

	if (after_ns < 0)
		return 0;
	return after_ns < (s64)(u32)-1 ? after_ns : (u32)-1;
}

#endif /* __POLICY_WAIT_AGE_H */
