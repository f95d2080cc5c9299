/* SPDX-License-Identifier: GPL-2.0 */
/*
 * share: how much CPU time is a task owed?
 *
 * Each task has a vtime, the CPU time that it used by its weight. Each LLC
 * domain has a clock, the average vtime of its runnable tasks, as the
 * avg_vruntime of EEVDF. A task behind the clock is owed the distance, its lag;
 * one ahead of it has used more than its share.
 *
 *   runnable	it comes to the clock of its domain, with what it is owed,
 *		within bounds; the clock counts it once it has no credit left
 *   runs	it is charged for the run, and the clock moves on
 *   sleeps	it keeps its lag and the clock counts it no more
 *
 * A task that sleeps by itself, as a thread that draws frames does, may have
 * more than its equal share: its weight is multiplied by a factor. Batch work
 * keeps a guaranteed part of each domain, so all factors of a domain shrink
 * while it gets less.
 *
 * Not here: the arithmetic (policy/: vtime.h, clock.h, boost.h), what a cgroup
 * makes of a weight (cgroup), the order of the queues (queue), how long a run
 * lasts (slice).
 */
#ifndef __SHARE_BPF_H
#define __SHARE_BPF_H

#include "context.bpf.h"

/* ops.init(): every factor counts as it is. Return 0 or an error. */
s32 share_init(void);

/* @p joins the class: it is owed nothing and owes nothing. */
void share_enable(struct task_struct *p, struct task_ctx *taskc,
		  const struct llc_ctx *llcc);

/*
 * The task of @taskc begins to wait, at @now, for a CPU of domain @llc_idx:
 * after a sleep, or as a new task. It is owed what it was when it fell asleep
 * and what it gained since, within bounds. Return 0 or a negative error.
 */
int share_become_runnable(struct task_ctx *taskc, u32 llc_idx, u64 now);

/* It was runnable, and waits for a CPU of @llcc again. */
void share_stay_runnable(struct task_ctx *taskc, struct llc_ctx *llcc);

/*
 * It got a CPU of @llcc, perhaps one of another domain than it waited in, and
 * perhaps without ops.select_cpu() and ops.enqueue().
 */
void share_running(struct task_ctx *taskc, struct llc_ctx *llcc);

/*
 * It ran for @ran_ns on a CPU of domain @llc_idx, until @now: it is charged for
 * that, and the clock moves on. What it is still owed above the bound is lost.
 * Unless it @stays runnable, no clock counts it. Return 0 or a negative error.
 */
int share_charge(struct task_ctx *taskc, u32 llc_idx, u64 ran_ns, u64 now,
		 bool stays);

/* The task of @taskc, charged for its run in @llcc, sleeps: it keeps a lag. */
void share_sleep(struct task_ctx *taskc, struct llc_ctx *llcc);

/*
 * The task of @taskc, which runs in @llcc, yields: it gives up what it is owed,
 * as under EEVDF. The clock would stay behind otherwise, with one that always
 * yields, and others would reach the bound of what they may owe.
 */
void share_yield(struct task_ctx *taskc, struct llc_ctx *llcc);

/* Its turn begins: the place that it keeps meanwhile is where it is now. */
void share_begin_turn(struct task_ctx *taskc);

/* The task of @taskc is not ours any more: no clock and no cgroup counts it. */
void share_disable(struct task_ctx *taskc);

/* @p has another weight. That counts from when it is queued or charged on. */
void share_set_weight(struct task_struct *p);

/*
 * Return the rank at which a task of @llcc is queued, policy/vtime.h: that of
 * the place it had if its turn is not over.
 */
u64 share_rank(const struct task_ctx *taskc, const struct llc_ctx *llcc);

/* Return the rank at @now of what runs on @cpuc's CPU. */
u64 share_curr_rank(const struct cpu_ctx *cpuc, u64 now);

#endif /* __SHARE_BPF_H */
