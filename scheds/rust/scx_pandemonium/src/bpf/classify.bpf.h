/* SPDX-License-Identifier: GPL-2.0 */
/*
 * classify: what kind of task is this?
 *
 * Follows a task from wakeup to sleep. The wakeup gives the interval between
 * wakeups, each stop adds to the open burst, the sleep closes the burst and
 * gives the interval between voluntary switches. These averages give the tier;
 * it is renewed at every sleep, and at the end of a run once the open burst is
 * long, so that a hog is seen at once.
 *
 * The tier that a task is served in may be a lower one, for now: the gate, the
 * waker and the task's share decide that.
 *
 * Not here: the formulas (policy/classify.h), how long a task waited (account).
 */
#ifndef __CLASSIFY_BPF_H
#define __CLASSIFY_BPF_H

#include "context.bpf.h"
#include "policy/classify.h"

/* A task without history: as if it woke at 20 Hz and ran 1 ms each time. */
void classify_init_task(struct task_ctx *taskc);

/* The task of @taskc begins anew, with what is remembered of its program. */
void classify_recall(struct task_ctx *taskc);

/*
 * The task of @taskc wakes at @now. @wakerc, NULL for an interrupt, is the task
 * that woke it, which runs on the CPU that we are on, that of @cpuc.
 */
void classify_wakeup(struct task_ctx *taskc, const struct task_ctx *wakerc,
		     struct cpu_ctx *cpuc, u64 now);

/* It got a CPU: one more wakeup that it has been seen to answer. */
void classify_woken(struct task_ctx *taskc);

/* The task of @taskc wakes; @is_batch if batch work woke it and goes on. */
void classify_set_waker(struct task_ctx *taskc, bool is_batch);

/* Its tier does not fall below that of its compositor, from now on. */
void classify_raise_tier(struct task_ctx *taskc);

/* A task was placed in @llcc, by @cpuc's CPU: see if a surge begins. */
void classify_enqueued(struct cpu_ctx *cpuc, struct llc_ctx *llcc);

/*
 * The task of @taskc is new and its parent is @parentc: let it through the gate
 * if the parent is served before batch work and the gate has a token left.
 */
void classify_admit(struct task_ctx *taskc, const struct task_ctx *parentc,
		    struct llc_ctx *llcc, u64 now);

/* The task of @taskc ran for @ran_ns. */
void classify_stopping(struct task_ctx *taskc, u64 ran_ns);

/* @p went to sleep at @now, by its own will. */
void classify_sleep(struct task_struct *p, struct task_ctx *taskc, u64 now);

/*
 * Decide the tier in which @p is to be served now, which is not above the one
 * that it was classified into:
 *
 *   1. niced down, unless by an own rule, or in an idle cgroup: batch;
 *   2. too young: batch, since a storm of new tasks all look interactive,
 *	unless it was let through the gate or its program is known to be
 *	more than that; in a surge the gate asks for more
 *	wakeups of tasks that are not latency critical;
 *   3. woken by batch work that goes on: batch, since it is a part of that;
 *   4. ahead of the clock: batch, since it has used its share and would
 *	otherwise take that of others. One that came through the gate may use a
 *	first run above its share.
 *
 * Return it; it stays in taskc->classify.served_tier until the next call.
 */
u32 classify_served_tier(struct task_struct *p, struct task_ctx *taskc,
			 struct llc_ctx *llcc);

/*
 * @p begins to run: renew its served tier if that may have changed. What a task
 * is owed changes while it waits in a queue, and this wakeup may take a young
 * one through the gate.
 */
void classify_running(struct task_struct *p, struct task_ctx *taskc,
		      struct llc_ctx *llcc, bool has_waited);

/* Return the CPU time between two sleeps above which @taskc is batch work. */
static inline u64 classify_burst_max_ns(const struct task_ctx *taskc)
{
	return classify_burst_max(
		taskc->classify.age, taskc->classify.avg_runtime_ns,
		taskc->classify.avg_sleep_ns, knobs.cpu_bound_thresh_ns);
}

/* Return whether @taskc works for longer than that, now or on average. */
static inline bool classify_is_long(const struct task_ctx *taskc)
{
	u64 most_ns = classify_burst_max_ns(taskc);

	return taskc->classify.burst_ns > most_ns ||
	       taskc->classify.avg_runtime_ns > most_ns;
}

/*
 * Return whether the task of @taskc has shown what it is: by enough wakeups, or
 * since it works for long at present.
 */
static inline bool classify_is_proven(const struct task_ctx *taskc)
{
	return taskc->classify.age >= AGE_MATURE ||
	       taskc->classify.burst_ns > knobs.cpu_bound_thresh_ns;
}

/* Return the slice of a task in the tier that it is served in, in ns. */
u64 classify_slice_ns(const struct task_ctx *taskc);

#endif /* __CLASSIFY_BPF_H */
