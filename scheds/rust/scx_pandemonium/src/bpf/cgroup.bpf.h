/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cgroup: which cgroups are there, and how much do they weigh?
 *
 * A cgroup has an index in the arrays of the room group; a task keeps that of
 * its own. There are MAX_GROUPS of them: a cgroup beyond those, or below
 * GROUP_DEPTH_MAX levels, is taken for a part of its parent. The index of one
 * that is gone is used again.
 *
 * cpu.weight says how much it weighs. With cpu.idle it weighs what a task of
 * SCHED_IDLE does.
 *
 * Not here: what a weight entitles a task to (group). cpu.max is not honoured.
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

#endif /* __CGROUP_BPF_H */
