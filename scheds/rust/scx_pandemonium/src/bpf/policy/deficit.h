/* SPDX-License-Identifier: GPL-2.0 */
/*
 * deficit: how often may others go before batch work?
 *
 * Counted in services, as in deficit round robin (Shreedhar and Varghese 1996)
 * with a quantum of one task: after so many of others while batch work waited,
 * one batch task is served. So it gets at least one service in budget + 1,
 * whatever their ranks are.
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
