/* SPDX-License-Identifier: GPL-2.0 */
/*
 * total: what is runnable in all domains together?
 *
 * Each domain adds up its own, by atomic additions. To read the sums of all
 * others takes a cache miss for each, since they change at each wakeup there.
 * For a weight that is what it takes: it is a part of a whole, and both have to
 * be of the same moment. For the load, which says where a task is better off, a
 * domain knows exactly what it has itself, and reads all others once a
 * millisecond for all of its CPUs.
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

/* Return sum @idx of all domains. */
s64 total_of_all(u32 idx);

/* Return the load of all domains at @now, where we are in @llcc. */
s64 total_load(struct llc_ctx *llcc, u64 now);

/* Return the load of @llcc alone. */
static __always_inline u64 total_load_of(const struct llc_ctx *llcc)
{
	s64 load = READ_ONCE(llcc->total.load);

	return load > 0 ? load : 0;
}

#endif /* __TOTAL_BPF_H */
