/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slice: how long does a run last, and what ends it?
 *
 * A turn is one slice, in as many runs as preemption cuts it into; a task keeps
 * its place in the queue until its turn is over. While other tasks wait, the
 * slice is shorter than the one that was granted, and a timer of the CPU ends
 * it: the kernel looks at slices only at ticks, up to 4 ms late at HZ=250.
 *
 * The same timer sees to a CPU that is not asked for work: one that is idle
 * while tasks wait in its own queue, which looks again after a while, and one
 * that goes offline, which the tasks on its runqueue may leave.
 *
 * Not here: the arithmetic (policy/slice.h), how long the slice of a tier is
 * (classify), what runs next (dispatch).
 */
#ifndef __SLICE_BPF_H
#define __SLICE_BPF_H

#include "context.bpf.h"

/* Make the timers. Return 0 or a negative error. */
s32 slice_init(void);

/* The task of @taskc got a slice of @slice_ns. */
void slice_grant(struct task_ctx *taskc, u64 slice_ns);

/* Its turn is over: it queues anew. */
void slice_end_turn(struct task_ctx *taskc);

/*
 * The task of @taskc begins a run on @cpuc's CPU, and a turn if the last one is
 * over. While others wait the run is bounded; with the slice the turn is over.
 */
void slice_begin_run(struct task_ctx *taskc, struct cpu_ctx *cpuc,
		     struct llc_ctx *llcc, u64 now);

/* It used @ran_ns of its slice. */
void slice_use(struct task_ctx *taskc, u64 ran_ns);

/* What ran on @cpuc's CPU is off it, or has a new slice: nothing ends it. */
void slice_clear_end(struct cpu_ctx *cpuc);

/*
 * The first task begins to wait while another runs on @cpuc's CPU: bound that
 * run now. If it @is_given the CPU, and so in no queue, batch work ends sooner.
 */
void slice_bound_other(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
		       bool is_given);

/* End what runs on the CPU of @cpuc @left_ns after @now, if not before. */
void slice_end_in(struct cpu_ctx *cpuc, u64 now, u64 left_ns);

/*
 * The waker, on @cpuc's CPU, goes on beside a task at @vtime. If that is owed
 * much more, end the waker's run once it has lasted a while.
 */
void slice_hurry_waker(struct cpu_ctx *cpuc, u64 vtime);

/*
 * A task was counted in the own queue of @cpuc's CPU. If that is idle, it looks
 * there after a while: it may have looked before the kernel inserted the task.
 */
void slice_bound_idle(struct cpu_ctx *cpuc);

/*
 * The CPU of @cpuc goes idle, or is idle no more, before all that is read after
 * this. If it is not asked for what waits in its own queue, since it is about
 * to go offline, the timer sees to that.
 */
void slice_update_idle(struct cpu_ctx *cpuc, bool is_idle);

/* ops.cpu_online() and ops.cpu_offline() */
void slice_cpu_online(s32 cpu);
void slice_cpu_offline(s32 cpu);

#endif /* __SLICE_BPF_H */
