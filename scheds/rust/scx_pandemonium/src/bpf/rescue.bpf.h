/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rescue: which task has waited too long?
 *
 * Rank decides which task is next, and a head start is bounded for each task,
 * but not for all of them together: fifty tasks that wake at once with all the
 * credit there is keep batch work out for as long as they use it. A task that
 * waits past a threshold and has not had its share yet is served next, before
 * the own queue of the CPU, and keeps the CPU long enough to get something
 * done.
 *
 * One that had its share waits for what weights and ranks say, but not for
 * ever: kernel threads no longer than others, and any task 2 s of real time at
 * the very most, where fewer than about 100 wait that long for each CPU.
 *
 * A CPU looks at the queues of other domains too, now and then. There a task
 * that is due waits for long only if the CPUs that may run it are held by
 * another class.
 *
 * Locks that a task holds are not known: the kernel does not show them.
 *
 * Not here: the age of waits (queue, policy/wait_age.h).
 */
#ifndef __RESCUE_BPF_H
#define __RESCUE_BPF_H

#include "context.bpf.h"
#include "policy/vtime.h"

/*
 * Move a task of the queues that @cpuc's CPU serves to its local DSQ if it has
 * waited too long; with @starved_only, if it has waited for so long that what
 * it had does not count. Return whether there was one.
 */
bool rescue_overdue(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now,
		    bool starved_only);

/*
 * What is left of rescue_other() where there is another domain and it is time
 * to look, for the CPU with the number @cpu. The verifier sees it once.
 */
bool rescue_from_others(s32 cpu, u64 now);

/* As rescue_overdue(), for a task that is stranded in another domain. */
static __always_inline bool rescue_other(const struct cpu_ctx *cpuc, u64 now)
{
	return nr_llcs > 1 &&
	       !vtime_before(now, cpuc->rescue.look_at_others_at) &&
	       rescue_from_others(cpuc->topo.cpu, now);
}

/*
 * Return whether the task of @taskc was rescued: others may not preempt its
 * run, for a while.
 */
bool rescue_is_protected(const struct task_ctx *taskc);

/* The task of @taskc begins a run on @cpuc's CPU: say how long it may last. */
void rescue_begin_run(const struct task_ctx *taskc, struct cpu_ctx *cpuc,
		      u64 now);

/* The run of the task of @taskc is over. */
void rescue_end_run(struct task_ctx *taskc);

/*
 * Return whether others wait for what @p does: a kernel thread, one that was
 * preempted in an RCU reader, one that ends or was killed.
 */
bool rescue_is_awaited(struct task_struct *p);

#endif /* __RESCUE_BPF_H */
