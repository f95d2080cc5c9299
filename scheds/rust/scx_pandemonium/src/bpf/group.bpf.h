/* SPDX-License-Identifier: GPL-2.0 */
/*
 * group: what does its cgroup entitle a task to?
 *
 * cpu.weight is honoured through the whole hierarchy. For each cgroup there is
 * the sum of the weights of what is runnable there: its tasks, added up for
 * each LLC domain, and its child cgroups that have runnable tasks themselves. A
 * sum is changed by atomic additions. Only if it comes from zero or gets there,
 * the sum of the parent changes, and so on upwards.
 *
 *   task wakes, sleeps, moves, is niced	sum of its cgroup
 *   a sum comes from or to zero		sum of the parent
 *   cpu.weight is written, a cgroup goes	sum of the parent
 *   cpu.idle is written			sum of the parent
 *
 * A weight is a part of all domains. So it does not matter where the tasks of a
 * cgroup are, as long as the domains have as much to do for each CPU: the load
 * of a domain is the sum of what its tasks weigh so, of each no more than
 * one CPU can serve.
 *
 * A cgroup with cpu.idle makes all that is in it batch work.
 *
 * Not here: which cgroups there are (cgroup), what is runnable in all domains
 * (total), the arithmetic (policy/hierarchy.h), what a weight does (share).
 */
#ifndef __GROUP_BPF_H
#define __GROUP_BPF_H

#include "total.bpf.h"

enum group_consts {
	/* Index of the root cgroup, and of what is taken for a part of it. */
	GROUP_ROOT = TOTAL_ROOT,
	GROUP_DEPTH_MAX = 16,
};

/* Return how many levels below the root group @idx is. */
u32 group_depth(u32 idx);

/* Return what group @idx itself weighs, as it was set. */
u32 group_own_weight(u32 idx);

/* Group @idx is a child of group @parent from now on. It weighs nothing yet. */
void group_place(u32 idx, u32 parent);

/* Give group @idx a weight, 0 if it goes away; all in it is idle if it is. */
void group_set_weight(u32 idx, u32 weight, bool is_idle);

/* The task of @taskc, which is not runnable yet, is in group @idx. */
void group_init_task(struct task_ctx *taskc, u32 idx);

/* The task of @taskc, of @llcc, is in group @idx from now on. */
void group_move_task(struct task_ctx *taskc, struct llc_ctx *llcc, u32 idx);

/*
 * The task of @taskc is runnable in @llcc with @weight, that of its nice level;
 * with another one if it has been so already.
 */
void group_join(struct task_ctx *taskc, struct llc_ctx *llcc, u32 weight);

/* It is not runnable any more, or elsewhere than in @llcc. */
void group_leave(struct task_ctx *taskc, struct llc_ctx *llcc);

/*
 * Return the weight of the runnable task of @taskc, by its cgroup, and note
 * whether that is idle. By its nice level the weight is @weight.
 */
u32 group_weight(struct task_ctx *taskc, u32 weight);

/* The runnable task of @taskc, of @llcc, weighs @weight from @now on. */
void group_count_load(struct task_ctx *taskc, struct llc_ctx *llcc, u32 weight,
		      u64 now);

#endif /* __GROUP_BPF_H */
