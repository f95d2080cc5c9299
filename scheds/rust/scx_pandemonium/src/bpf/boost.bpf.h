/* SPDX-License-Identifier: GPL-2.0 */
/*
 * boost: may a task have more than its equal share?
 *
 * One that sleeps by itself may, as a thread that draws frames does: its weight
 * is multiplied by a factor of policy/boost.h. Batch work keeps a guaranteed
 * part of each domain, so all factors of a domain shrink while it gets less.
 *
 * Not here: what its nice level and its cgroup entitle it to (share, group).
 */
#ifndef __BOOST_BPF_H
#define __BOOST_BPF_H

#include "context.bpf.h"

/* ops.init(): every factor counts as it is. Return 0 or an error. */
s32 boost_init(void);

/*
 * The task of @taskc becomes runnable in @llcc: decide its factor, until it
 * does so again. None has a task
 *
 *   1. of the batch tier, or niced down;
 *   2. that woke fewer than two times: its averages mean nothing yet;
 *   3. that batch work woke and feeds: it is a part of that.
 */
void boost_become_runnable(struct task_ctx *taskc, const struct llc_ctx *llcc);

/*
 * Return @weight, that of the task of @taskc, with its factor, which it loses
 * when a long burst makes it batch work.
 */
u32 boost_weight(const struct task_ctx *taskc, u32 weight);

/* The task of @taskc ran for @ran_ns in @llcc until @now. */
void boost_count(const struct task_ctx *taskc, struct llc_ctx *llcc, u64 ran_ns,
		 u64 now);

#endif /* __BOOST_BPF_H */
