/* SPDX-License-Identifier: GPL-2.0 */
/*
 * total: what is runnable in all domains together?
 *
 * Each domain adds up its own. To read the sums of all others takes a cache
 * miss for each, since they change at each wakeup there: a domain does so once
 * a millisecond for all of its CPUs, and what it has itself it knows exactly.
 *
 * Not here: what a sum is for (group, steal).
 */
#ifndef __TOTAL_BPF_H
#define __TOTAL_BPF_H

#include "context.bpf.h"

/* What there are sums of: the tasks of a cgroup, by its index, and of all. */
enum total_idx {
	TOTAL_ROOT = 0,
	TOTAL_RUNNABLE = MAX_GROUPS,
	TOTAL_LOAD,
};

/* Add @delta to @sum; return whether it came from zero or got there. */
static __always_inline bool total_add_to(s64 *sum, s64 delta)
{
	s64 old = __sync_fetch_and_add(sum, delta);

	return !old != !(old + delta);
}

/* The same for sum @idx of @llcc. */
bool total_add(u32 idx, struct llc_ctx *llcc, s64 delta);

/* Return sum @idx of all domains at @now, where we are in @llcc. */
s64 total_of_all(u32 idx, struct llc_ctx *llcc, u64 now);

/* Return the load of @llcc alone. */
u64 total_load(const struct llc_ctx *llcc);

#endif /* __TOTAL_BPF_H */
