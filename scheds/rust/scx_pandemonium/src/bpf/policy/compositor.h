/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compositor: is this task part of the program that draws the screen?
 *
 * Everything that a user sees goes through the compositor, so it is the one
 * program that is known by name. Its main thread, which answers input and
 * submits frames, is latency critical at least; its other threads, which it
 * waits for, are interactive at least.
 *
 * A name is compared as two words under a mask: the mask of a whole name covers
 * its final 0, that of a prefix ends with its last byte.
 *
 * Not here: which names there are (compositor.rs in the loader), what keeps a
 * hog of such a name in its place (classify_served_tier()).
 */
#ifndef __POLICY_COMPOSITOR_H
#define __POLICY_COMPOSITOR_H

#include "types.h"

enum compositor_consts {
	/*
	 * A name is looked at on so many first wakeups, since a new process has
	 * the name of its parent until it calls exec ...
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

/* Return whether a name, as the words @head and @tail, is what @pattern says. */
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
