/* SPDX-License-Identifier: GPL-2.0 */
/*
 * steal: what does a CPU take from another domain?
 *
 * A CPU that has nothing to run takes any task that may leave its domain. One
 * that has takes batch work now and then where that evens the domains out. If
 * one task is too much for that, it is in both by turns: what a domain has less
 * to do than the one that has most is added up, until it is what that task is
 * in a while.
 *
 * Not here: how long a task waits for its own cache (idle), what a CPU takes
 * from its own (dispatch).
 */
#ifndef __STEAL_BPF_H
#define __STEAL_BPF_H

#include "context.bpf.h"

/*
 * Move a task of another domain than @llcc to the local DSQ of this CPU, that
 * of @cpuc, the nearest first, interactive first. Return whether there was one.
 */
bool steal_any(struct cpu_ctx *cpuc, const struct llc_ctx *llcc, u64 now);

/*
 * The same for a batch task of a domain that is busier than @llcc, that of this
 * CPU, or was so for long.
 *
 * A CPU looks beyond its domain once in BALANCE_INTERVAL_NS, so that tasks of
 * an overloaded domain are not left to its own CPUs while those of others have
 * less to do, and so that the common case pays one comparison.
 */
bool steal_balance(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now);

#endif /* __STEAL_BPF_H */
