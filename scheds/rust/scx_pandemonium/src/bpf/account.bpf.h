/* SPDX-License-Identifier: GPL-2.0 */
/*
 * account: which task uses how much CPU time, and how long did it wait?
 *
 * A run begins when a task gets a CPU or another slice on it, and ends when it
 * leaves the CPU or the slice is over. Each run ends once, in ops.dispatch(),
 * in ops.tick() or in ops.stopping(); it is charged to the vtime of the task,
 * its slice and its burst. The CPU's context says meanwhile what runs.
 *
 * A wait begins when a task becomes runnable or loses its CPU, and ends with
 * the run that follows.
 *
 * Not here: averages and tiers (classify), what ends a run (slice, preempt),
 * what the charge means (share).
 */
#ifndef __ACCOUNT_BPF_H
#define __ACCOUNT_BPF_H

#include "context.bpf.h"

/* ops.init_task(): remember @p from now on. Return 0 or -ENOMEM. */
s32 account_init_task(struct task_struct *p, struct scx_init_task_args *args);

/* ops.enable(): @p joins the class. */
void account_enable(struct task_struct *p);

/* ops.disable(): @p leaves the class, perhaps while it waits or runs. */
void account_disable(struct task_struct *p);

/* The task of @taskc begins to wait for a CPU at @now. */
void account_begin_wait(struct task_ctx *taskc, u64 now);

/* @p, served in its served tier, begins a run on the CPU of @cpuc at @now. */
void account_begin_run(const struct task_struct *p, struct task_ctx *taskc,
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

/* ops.yield(): @p, which runs here, lets others go first. */
void account_yield(struct task_struct *p);

/*
 * ops.stopping(): @p leaves its CPU; @is_runnable if not of its own will. If it
 * sleeps, this is the last callback until it wakes: ops.quiescent() would tell
 * what is known already, and a callback costs.
 */
void account_stopping(struct task_struct *p, bool is_runnable);

#endif /* __ACCOUNT_BPF_H */
