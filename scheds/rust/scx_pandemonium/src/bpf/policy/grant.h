/* SPDX-License-Identifier: GPL-2.0 */
/*
 * grant: is a task on its way to a CPU that was given to it?
 *
 * Problem: between the moment in which a wakeup chooses a CPU and that in which
 * its task begins to run there, the CPU looks free to others, in one way or
 * another. A second task that is given it waits for all that the first one
 * does.
 *
 * How: a grant says to which task a CPU was given, when, and whether that task
 * will be brief, in one word: so one compare-and-swap takes the CPU. It ends
 * when the task begins to run, or GRANT_MAX_NS later: the task may have gone
 * elsewhere.
 *
 * Limits:
 *   - Times are in units of 1.024 us, so a grant may end that much sooner.
 *   - An age of more than 13 days is taken for one of the future.
 *
 * Not here: who grants (preempt.bpf.h).
 */
#ifndef __POLICY_GRANT_H
#define __POLICY_GRANT_H

#include "types.h"

enum grant_consts {
	/* How long a task may be on its way. */
	GRANT_MAX_NS = 200 * NSEC_PER_USEC,
	/* The bits of the word, from the lowest: pid, is_brief, time. */
	GRANT_PID_BITS = 22, /* what the kernel's PID_MAX_LIMIT takes */
	GRANT_TIME_SHIFT = GRANT_PID_BITS + 1,
	GRANT_UNIT_SHIFT = 10, /* of ns to a unit of time */
};

/* Return a grant to the task of @pid at @now; 0 is none. */
static inline u64 grant_word(u32 pid, bool is_brief, u64 now)
{
	return (now >> GRANT_UNIT_SHIFT) << GRANT_TIME_SHIFT |
	       (u64)is_brief << GRANT_PID_BITS | pid;
}

/* Return whether @grant is one to the task of @pid. */
static inline bool grant_is_to(u64 grant, u32 pid)
{
	return (grant & ((1ULL << GRANT_PID_BITS) - 1)) == pid;
}

/* Return whether @grant is one to a task that will be brief. */
static inline bool grant_is_brief(u64 grant)
{
	return grant & (1ULL << GRANT_PID_BITS);
}

/*
 * Return whether the task of @grant may be on its way at @now, which may be of
 * a clock that is behind.
 */
static inline bool grant_is_pending(u64 grant, u64 now)
{
	const u64 time_mask = ~0ULL << GRANT_TIME_SHIFT;
	s64 age = grant_word(0, false, now) - (grant & time_mask);

	return grant && age < (s64)grant_word(0, false, GRANT_MAX_NS);
}

#endif /* __POLICY_GRANT_H */
