/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compositor: is this task part of the program that draws the screen?
 *
 * Problem: everything that a user sees goes through the compositor. When it has
 * more to do than usual its bursts look like batch work, and it would be served
 * last just when its picture is late already.
 *
 * How: it is the one program that is known by name. Its main thread, which
 * answers input and submits frames, is latency critical at least; its other
 * threads, which the main thread waits for, are interactive at least. A name is
 * compared as two words under a mask: the mask of a whole name covers its final
 * 0, that of a prefix ends with its last byte.
 *
 * Limits:
 *   - Only names that the loader knows or was given (--compositor). A kernel
 *     name has 15 bytes; what is longer is compared up to there.
 *   - A process may call itself anything. The name raises the tier and nothing
 *     else: CPU time is charged as always, the head start of a tier is bounded,
 *     and a task that is ahead of the clock, niced down or too young is served
 *     as batch (classify_served_tier()).
 *   - A name that changes after the first wakeups is noticed at a wakeup
 *     LOOK_INTERVAL_NS after the last look or later: a task that never sleeps
 *     keeps what it had.
 *   - A helper process of a compositor has a name of its own and counts for
 *     what it does.
 *
 * Not here: which names there are (src/compositor.rs).
 */
#ifndef __POLICY_COMPOSITOR_H
#define __POLICY_COMPOSITOR_H

#include "types.h"

enum compositor_consts {
	/*
	 * A name is looked at until a task has woken so many times, and at the
	 * wakeup after that, since a new process has the name of its parent
	 * until it calls exec ...
	 */
	NR_FIRST_LOOKS = 4,
	/* ... and this often later, since a program may change its name. */
	LOOK_INTERVAL_NS = 1 * NSEC_PER_SEC,
};

/*
 * Return whether a task that woke @age times and was looked at @since_ns ago is
 * to be looked at again.
 */
static inline bool compositor_is_due(u32 age, u64 since_ns)
{
	return age <= NR_FIRST_LOOKS || since_ns >= (u64)LOOK_INTERVAL_NS;
}

/*
 * Return whether a name, as the words @head and @tail, is what @pattern says.
 */
static inline bool compositor_matches(const struct comm_pattern *pattern,
				      u64 head, u64 tail)
{
	return (head & pattern->mask[0]) == pattern->value[0] &&
	       (tail & pattern->mask[1]) == pattern->value[1];
}

/* Return the tier that a task of a compositor does not fall below. */
static inline enum tier compositor_floor(bool is_main_thread)
{
	return is_main_thread ? TIER_LAT_CRITICAL : TIER_INTERACTIVE;
}

/*
 * Return @tier, raised to @floor.
 *
 * A long burst does not lower the floor, as it lowers the tier of any other
 * task: a compositor that has worked for longer than a frame is late with the
 * picture that the user waits for, and batch work in front of it would make it
 * later. What bounds it is its share of the CPU, not the length of its burst.
 */
static inline enum tier compositor_raise(enum tier tier, enum tier floor)
{
	return tier > floor ? tier : floor;
}

#endif /* __POLICY_COMPOSITOR_H */
