/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hierarchy: how much of the machine is a cgroup entitled to?
 *
 * Problem: cpu.weight divides CPU time between the children of a cgroup, level
 * by level, however many tasks each of them has. Queues know tasks only.
 *
 * How: on each level the part of a task, or of a cgroup, is its weight over the
 * sum of the weights of all that are runnable beside it. A cgroup is runnable
 * while anything in it is. The product over the levels is the task's part of
 * the whole, and the parts of all runnable tasks add up to one. Its weight is
 * that part of the weight that all runnable tasks have by their nice levels
 * together. So where no cgroup has runnable tasks but the root, the weight is
 * that of the nice level.
 *
 *	4 hogs in A, 16 in B, both of cpu.weight 100, all of nice 0:
 *	each in A 1/2 * 1/4 * 20 = 2.5, each in B 1/2 * 1/16 * 20 = 0.625
 *	times the weight of nice 0
 *
 * Limits:
 *   - A part is a multiple of 1/2^24: less than that counts as WEIGHT_MIN.
 *   - A weight that falls to a tenth has got there after four runs.
 *   - A cgroup whose runnable tasks are too few to use its part leaves the rest
 *     to all others by their weights, not first to those near to it in the
 *     hierarchy.
 *
 * Not here: the sums, the weights of cgroups (cgroup.bpf.c).
 */
#ifndef __POLICY_HIERARCHY_H
#define __POLICY_HIERARCHY_H

#include "types.h"
#include "weight.h"

enum hierarchy_consts {
	/* A part of the whole, as a fixed-point number. */
	PART_SHIFT = 32,
	/* Bits of it that remain beside a sum of weights. */
	PART_FINE_SHIFT = 24,
};

/* Return the part of what is entitled to all there is. */
static inline u64 part_whole(void)
{
	return 1ULL << PART_SHIFT;
}

/*
 * Return what remains of @part on a level where @weight stands beside others,
 * @sum in all with it. A @sum that does not contain it yet counts as if it did.
 */
static inline u64 part_of(u64 part, u32 weight, s64 sum)
{
	u64 all = sum > (s64)weight ? sum : weight;

	return all ? part * weight / all : part;
}

/* Return the weight of a task with @part of @runnable_weight. */
static inline u32 part_weight(u64 part, s64 runnable_weight)
{
	u64 fine = part >> (PART_SHIFT - PART_FINE_SHIFT);

	if (runnable_weight <= 0)
		return WEIGHT_MIN;
	return weight_clamp((fine * (u64)runnable_weight) >> PART_FINE_SHIFT);
}

/*
 * Return the weight by which a task is charged for a run, at the end of which
 * it is entitled to @weight. At the end of the run before it was @last; 0 if
 * there is none.
 *
 * The sums are those of the moment. What wakes for a moment with a great weight
 * in another cgroup, such as a kworker of nice -20, makes a part small just
 * when it preempts; the run before it would cost ten times what it should. So a
 * weight falls by no more than half at a time. It rises to anything. That of a
 * wakeup does not count: of many tasks that wake together the first is entitled
 * to all, for a moment.
 */
static inline u32 part_charged_weight(u32 last, u32 weight)
{
	return weight < last / 2 ? last / 2 : weight;
}

#endif /* __POLICY_HIERARCHY_H */
