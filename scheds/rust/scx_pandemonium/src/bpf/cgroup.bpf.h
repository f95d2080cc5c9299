/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cgroup: what does its cgroup entitle a task to?
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
 * With cpu.idle a cgroup weighs what a task of SCHED_IDLE does, and all that is
 * in it is batch work. cpu.max is not honoured.
 *
 * Not here: the arithmetic (policy/hierarchy.h), what a weight does (share),
 * what follows from the load (steal).
 */
#ifndef __CGROUP_BPF_H
#define __CGROUP_BPF_H

#include "context.bpf.h"

/* ops.cgroup_init(): @cgrp exists, with @cpu_weight. Return 0 or an error. */
s32 cgroup_init(struct cgroup *cgrp, u32 cpu_weight);

/* ops.cgroup_exit(): @cgrp goes away. */
void cgroup_exit(struct cgroup *cgrp);

/* ops.cgroup_set_weight(): @cgrp has another weight. */
void cgroup_set_weight(struct cgroup *cgrp, u32 cpu_weight);

/* ops.cgroup_set_idle(), since 6.19: cpu.idle of @cgrp was written. */
void cgroup_set_idle(struct cgroup *cgrp);

/* The task of @taskc, which is not runnable yet, is in @cgrp. */
void cgroup_init_task(struct task_ctx *taskc, struct cgroup *cgrp);

/* ops.cgroup_move(): @p is in @cgrp from now on. */
void cgroup_move_task(struct task_struct *p, struct cgroup *cgrp);

/* Return the load of @llcc alone. */
static __always_inline u64 cgroup_load_of(const struct llc_ctx *llcc)
{
	s64 load = READ_ONCE(llcc->cgroup.load);

	return load > 0 ? load : 0;
}

/*
 * The task of @taskc is runnable in @llcc with @weight, that of its nice level;
 * with another one if it has been so already.
 */
void cgroup_join(struct task_ctx *taskc, struct llc_ctx *llcc, u32 weight);

/* It is not runnable any more, or elsewhere than in @llcc. */
void cgroup_leave(struct task_ctx *taskc, struct llc_ctx *llcc);

/*
 * Return the weight of the runnable task of @taskc, by its cgroup, and note
 * whether that is idle. By its nice level the weight is @weight.
 */
u32 cgroup_weight(struct task_ctx *taskc, u32 weight);

/* The runnable task of @taskc, of @llcc, weighs @weight from @now on. */
void cgroup_count_load(struct task_ctx *taskc, struct llc_ctx *llcc, u32 weight,
		       u64 now);

#endif /* __CGROUP_BPF_H */
