/* SPDX-License-Identifier: GPL-2.0 */
/*
 * weight: how much is a task entitled to, beside others?
 *
 * Problem: nice levels and cgroups both say how CPU time is to be divided, in
 * units of their own. The rooms need one number for each task, such that two
 * tasks which have their fair shares got CPU time in the ratio of their
 * weights.
 *
 * How: the unit is the kernel's load weight, WEIGHT_NICE_0 for a task of
 * nice 0 or a cgroup of cpu.weight 100. A nice level is worth a factor of 1.25.
 * p->scx.weight, the same in hundredths, is too coarse: nice 10 is 11 there
 * rather than 10.74.
 *
 * Limits:
 *   - Weights are between WEIGHT_MIN and WEIGHT_MAX, a ratio of 1 : 262144.
 *
 * Not here: which nice level a task has (share.bpf.c).
 */
#ifndef __POLICY_WEIGHT_H
#define __POLICY_WEIGHT_H

#include "types.h"

enum weight_consts {
	WEIGHT_SHIFT = 20,
	WEIGHT_NICE_0 = 1 << WEIGHT_SHIFT,
	/* A task of policy SCHED_IDLE, a cgroup with cpu.idle. */
	WEIGHT_IDLE = 3 << 10,
	WEIGHT_MIN = 1 << 10,
	WEIGHT_MAX = 1 << 28,

	/* Of p->static_prio: that of nice -20, and how many levels. */
	STATIC_PRIO_MIN = 100,
	NR_NICE_LEVELS = 40,

	/* cpu.weight of a cgroup to which nothing was written. */
	CGROUP_WEIGHT_DFL = 100,
};

/* Return @weight, not below WEIGHT_MIN nor above WEIGHT_MAX. */
static inline u32 weight_clamp(u64 weight)
{
	if (weight < WEIGHT_MIN)
		return WEIGHT_MIN;
	return weight > WEIGHT_MAX ? WEIGHT_MAX : weight;
}

/*
 * Return the weight of a task of @static_prio, the kernel's number for nice
 * levels from 100 (nice -20) to 139 (nice 19); others count as nice 0.
 *
 * The numbers are sched_prio_to_weight[] of the kernel, so that a task gets
 * here what it would get there.
 */
static inline u32 weight_of_prio(u32 static_prio)
{
	static const u32 weights[NR_NICE_LEVELS] = {
		88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705,
		14949, 11916, 9548,  7620,  6100,  4904,  3906,	 3121,
		2501,  1991,  1586,  1277,  1024,  820,	  655,	 526,
		423,   335,   272,   215,   172,   137,	  110,	 87,
		70,    56,    45,    36,    29,	   23,	  18,	 15,
	};
	u32 level = static_prio - STATIC_PRIO_MIN;

	if (level >= NR_NICE_LEVELS)
		return WEIGHT_NICE_0;
	return weights[level] << 10;
}

/*
 * Return the weight of a cgroup with @cpu_weight, 1 to 10000, rounded as the
 * kernel does for its own scheduler.
 */
static inline u32 weight_of_cgroup(u32 cpu_weight)
{
	u64 parts = ((u64)cpu_weight << 10) + CGROUP_WEIGHT_DFL / 2;

	return weight_clamp(parts / CGROUP_WEIGHT_DFL << 10);
}

#endif /* __POLICY_WEIGHT_H */
