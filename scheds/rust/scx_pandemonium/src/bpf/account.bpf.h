/* SPDX-License-Identifier: GPL-2.0 */
/*
 * account: who uses how much CPU time, and who waited for it?
 *
 * A run begins when a task gets a CPU or another slice on it, and ends when it
 * leaves the CPU or the slice is over. Each run is charged to the vtime of the
 * task and added to its burst; the CPU's context says meanwhile what runs.
 *
 * A turn is one slice, in as many runs as preemption cuts it into: the place in
 * the queue is kept until the turn is over.
 *
 * Not here: averages and tiers (classify), what ends a run (preempt, dispatch).
 */
#ifndef __ACCOUNT_BPF_H
#define __ACCOUNT_BPF_H

#include "context.bpf.h"

/* @p, served in taskc->served_tier, begins a run on the CPU of @cpuc. */
void account_begin_run(struct task_struct *p, struct task_ctx *taskc,
		       struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now);

/* The run of @p ends at @now, and @p may go on: its served tier is renewed. */
void account_end_run(struct task_struct *p, struct task_ctx *taskc,
		     struct llc_ctx *llcc, u64 now);

/* ops.running(): @p got the CPU that it is on. */
void account_running(struct task_struct *p);

/*
 * ops.tick(): settle the run of @p so far and go on with the next, so that the
 * clock and the tier of a task that never stops are right as well.
 */
void account_tick(struct task_struct *p);

/*
 * ops.stopping(): @p leaves its CPU; @is_runnable if not of its own will. If it
 * sleeps, this is all that is heard of it until it wakes: what ops.quiescent()
 * would tell is known already, and to be called costs.
 */
void account_stopping(struct task_struct *p, bool is_runnable);

#endif /* __ACCOUNT_BPF_H */
