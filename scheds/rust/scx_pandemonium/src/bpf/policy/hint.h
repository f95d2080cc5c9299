/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hint: what is a task, by what is known of its program?
 *
 * Problem: what a task does shows what it is only after some wakeups, and shows
 * it wrong for an indexer that sleeps after each file. The user, or what was
 * seen of the program before, knows better.
 *
 * How: a hint has a least and a greatest tier, and a factor of the weight. The
 * tier that a task has shown itself to be is brought between the two; by what
 * is remembered of its program only until it has shown itself (classify.bpf.c).
 *
 * Limits:
 *   - A task that works for long is not latency critical by a hint: it is
 *     interactive then, so that a hog of a well-known name does not go before
 *     what is waited for at every moment.
 *   - Like every tier it is worth a bounded head start, within the share of the
 *     task: one that is ahead of the clock or niced down is served as batch
 *     (classify_served_tier()). Only a rule of the user's own that names the
 *     program goes before its nice level: the task counts as of nice 0 then,
 *     with that share.
 *
 * Not here: where hints come from (src/rules/, src/procdb/), when they reach
 * a task (hint.bpf.c).
 */
#ifndef __POLICY_HINT_H
#define __POLICY_HINT_H

#include "types.h"
#include "weight.h"

/*
 * Return @tier as a hint of tiers from @least to @greatest makes it; @is_long
 * if the task works for longer between two sleeps than an interactive one.
 */
static inline enum tier hint_bound_tier(enum tier tier, u32 least, u32 greatest,
					bool is_long)
{
	if (is_long && least > TIER_INTERACTIVE)
		least = TIER_INTERACTIVE;
	if (tier < least)
		tier = (enum tier)least;
	return tier > greatest ? (enum tier)greatest : tier;
}

/*
 * Return @weight, that of a nice level; that of nice 0 at least if what is
 * known of the program @ignores_nice.
 */
static inline u32 hint_nice_weight(u32 weight, u32 ignores_nice)
{
	return ignores_nice && weight < WEIGHT_NICE_0 ? WEIGHT_NICE_0 : weight;
}

/* Return @weight, multiplied by @factor in 1/HINT_FACTOR_ONE. */
static inline u32 hint_scale_weight(u32 weight, u32 factor)
{
	return weight_clamp((u64)weight * factor / HINT_FACTOR_ONE);
}

#endif /* __POLICY_HINT_H */
