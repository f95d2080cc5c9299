/* SPDX-License-Identifier: GPL-2.0 */
/*
 * group: what does its cgroup entitle a task to?
 *
 * cpu.weight is honoured through the whole hierarchy. For each cgroup and LLC
 * domain there is the sum of the weights of what is runnable there: its tasks,
 * and its child cgroups that have runnable tasks themselves. A sum is changed
 * by atomic additions. Only if it comes from zero or gets there, the sum of the
 * parent changes, and so on upwards.
 *
 *   task wakes, sleeps, moves, is niced	sum of its cgroup
 *   a sum comes from or to zero		sum of the parent
 *   cpu.weight is written, a cgroup goes	sum of the parent
 *
 * A cgroup has an index in an array; a task keeps that of its own. There are
 * MAX_GROUPS of them: one beyond those, or below GROUP_DEPTH_MAX levels, is
 * taken for a part of its parent.
 *
 * Not here: the arithmetic (policy/hierarchy.h), what a weight does (share).
 * cpu.max is not honoured.
 */
#ifndef __GROUP_BPF_H
#define __GROUP_BPF_H

#include "context.bpf.h"

/* ops.cgroup_init(): @cgrp exists, with @cpu_weight. Return 0 or an error. */
s32 group_cgroup_init(struct cgroup *cgrp, u32 cpu_weight);

/* ops.cgroup_exit(): @cgrp goes away. */
void group_cgroup_exit(struct cgroup *cgrp);

/* ops.cgroup_set_weight(): @cgrp has another weight. */
void group_cgroup_set_weight(struct cgroup *cgrp, u32 cpu_weight);

/* The task of @taskc, which is not runnable yet, is in @cgrp. */
void group_init_task(struct task_ctx *taskc, struct cgroup *cgrp);

/* ops.cgroup_move(): @p is in @cgrp from now on. */
void group_move_task(struct task_struct *p, struct cgroup *cgrp);

/*
 * The task of @taskc is runnable in @llcc with @weight, that of its nice level;
 * with another one if it has been so already.
 */
void group_join(struct task_ctx *taskc, struct llc_ctx *llcc, u32 weight);

/* It is not runnable any more, or elsewhere than in @llcc. */
void group_leave(struct task_ctx *taskc, struct llc_ctx *llcc);

/* Return the weight of a runnable task of @weight in @llcc, by its cgroup. */
u32 group_weight(const struct task_ctx *taskc, struct llc_ctx *llcc,
		 u32 weight);

#endif /* __GROUP_BPF_H */
