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
#include "policy/vtime.h"

/*
 * What is left of steal_any() and steal_balance() where there is another domain
 * and it is time to look, for the CPU with the number @cpu. The verifier sees
 * each once, and not all that may come before it.
 */
bool steal_from_any(s32 cpu, u64 now);
bool steal_to_even_out(s32 cpu, u64 now);

/*
 * Move a task of another domain to the local DSQ of this CPU, that of @cpuc,
 * the nearest first, interactive first. Return whether there was one.
 */
static __always_inline bool steal_any(const struct cpu_ctx *cpuc, u64 now)
{
	return nr_llcs > 1 && steal_from_any(cpuc->topo.cpu, now);
}

/*
 * The same for a batch task of a domain that is busier than that of this CPU,
 * or was so for long.
 *
 * A CPU looks beyond its domain once in BALANCE_INTERVAL_NS, so that tasks of
 * an overloaded domain are not left to its own CPUs while those of others have
 * less to do, and so that the common case pays one comparison.
 */
static __always_inline bool steal_balance(const struct cpu_ctx *cpuc, u64 now)
{
	return nr_llcs > 1 && !vtime_before(now, cpuc->steal.balance_at) &&
	       steal_to_even_out(cpuc->topo.cpu, now);
}

#endif /* __STEAL_BPF_H */
