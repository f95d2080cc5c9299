/* SPDX-License-Identifier: GPL-2.0 */
/*
 * deficit: how often may others go before batch work?
 *
 * Problem: rank bounds the CPU time by which tasks of a higher tier go before
 * batch work, not the number of turns that they take in a row.
 *
 * How: deficit round robin (Shreedhar and Varghese 1996) with a quantum of one
 * task. After a budget of services of others while batch work waited, the next
 * is batch work's: at least one service in budget + 1. The budget is
 * DEFICIT_PER_CPU for each CPU of the domain, DEFICIT_MIN at least.
 *
 * Limits:
 *   - It counts services, not time: one may last for 20 us or for 20 ms.
 *   - Only what ops.dispatch() chooses by rank counts: a task of the domain's
 *     queues, or the one that runs on. Tasks that go straight to a CPU as they
 *     wake, those of an own queue and those that are stolen do not.
 *   - The budget grows with the number of CPUs, and so does the longest row of
 *     others: 256 services on 64 CPUs.
 *   - Which batch task is served is a matter of rank, of those near the CPU (or
 *     of affinity, if the CPU may not run the first).
 *   - Batch work that waits with the interactive tasks is served by its rank,
 *     and gets no turn by this.
 *
 * Not here: what counts as a service (dispatch.bpf.c).
 */
#ifndef __POLICY_DEFICIT_H
#define __POLICY_DEFICIT_H

#include "types.h"

enum deficit_consts {
	DEFICIT_PER_CPU = 4,
	DEFICIT_MIN = 8,
};

/* Return how many services in a row a domain of @nr_cpus gives to others. */
static inline u32 deficit_budget(u32 nr_cpus)
{
	u32 budget = nr_cpus * DEFICIT_PER_CPU;

	return budget > DEFICIT_MIN ? budget : DEFICIT_MIN;
}

/*
 * Return the deficit after one service more: of batch work if @is_batch, or if
 * none of it waits as long as the service is chosen.
 */
static inline u32 deficit_next(u32 deficit, bool is_batch)
{
	if (is_batch)
		return 0;
	return deficit < ~0U ? deficit + 1 : deficit;
}

/* Return whether the next service is batch work's. */
static inline bool deficit_is_due(u32 deficit, u32 nr_cpus)
{
	return deficit >= deficit_budget(nr_cpus);
}

#endif /* __POLICY_DEFICIT_H */
