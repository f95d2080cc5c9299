/* SPDX-License-Identifier: GPL-2.0 */
/*
 * preempt: is a waking task worth more than the one that runs?
 *
 * Problem. A tier says how soon a task wants to run after a wakeup, not for how
 * long. Two threads that each work for 8 ms and sleep for 4 are as latency
 * critical, by their wakeups, as one that works for 0.2 ms each 4 ms. If an
 * equal tier never makes room, the brief one waits for the end of such a run.
 *
 * How it works. Of two tasks above batch the one whose bursts are LONGER times
 * as long makes room, whatever the tiers of the two, and whatever it is owed:
 * the other is within its share, and delays it by a tenth of its own burst.
 * This is what PREEMPT_SHORT does in EEVDF. Otherwise the higher tier goes
 * first, if it is also the earlier by its rank (vtime.h).
 *
 *	is_short = v >= LONGER * r, both above batch
 *	is_above = is_short or tier > victim_tier
 *
 * for the average bursts r of the waking task and v of the running one.
 *
 * Limits. The averages are those of bursts that are over: a task that has just
 * changed its ways is judged by what it did before.
 *
 * Not here: which of the two is owed more CPU time (vtime.h).
 */
#ifndef __POLICY_PREEMPT_H
#define __POLICY_PREEMPT_H

#include "classify.h"
#include "types.h"

enum preempt_policy_consts {
	/* A guess: the delay of the longer burst is a tenth of it. */
	LONGER = 10,
	/* LONGER times the shortest burst that needs an answer this soon. */
	LONG_BURST_NS = LONGER * 100 * NSEC_PER_USEC,
};

/*
 * Return whether a task of @tier with bursts of @burst_ns, on average, is short
 * next to one of @victim_tier with bursts of @victim_burst_ns that runs.
 */
static inline bool preempt_is_short(u32 tier, u64 burst_ns, u32 victim_tier,
				    u64 victim_burst_ns)
{
	return tier > TIER_BATCH && victim_tier > TIER_BATCH &&
	       victim_burst_ns >= LONG_BURST_NS &&
	       victim_burst_ns / LONGER >= burst_ns;
}

/* Return whether that task may take the CPU of the other one. */
static inline bool preempt_is_above(u32 tier, u64 burst_ns, u32 victim_tier,
				    u64 victim_burst_ns)
{
	return tier > victim_tier ||
	       preempt_is_short(tier, burst_ns, victim_tier, victim_burst_ns);
}

/*
 * Return whether no waking task goes before one of @tier with bursts of
 * @burst_ns on average.
 */
static inline bool preempt_is_above_all(u32 tier, u64 burst_ns)
{
	return tier >= TIER_LAT_CRITICAL && burst_ns < LONG_BURST_NS;
}

#endif /* __POLICY_PREEMPT_H */
