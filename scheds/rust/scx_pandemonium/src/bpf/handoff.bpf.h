/* SPDX-License-Identifier: GPL-2.0 */
/*
 * handoff: does the waker give its CPU to the wakee?
 *
 * Two tasks that talk to each other wait for each other, not for a CPU: if the
 * waker is about to sleep, the wakee runs soonest where the waker runs. It goes
 * to the local DSQ there, and no queue is looked at. So while other tasks wait
 * a CPU may be handed on for a while only.
 *
 * Not here: where the wakee goes else (place).
 */
#ifndef __HANDOFF_BPF_H
#define __HANDOFF_BPF_H

#include "context.bpf.h"

/*
 * Return whether the waker, the task of @wakerc that runs on @cpuc's CPU,
 * should hand that to the task of @taskc, which may run there. @is_sync if the
 * waker said that it will sleep.
 *
 *   1. The waker is known to sleep soon, and the wakee usually runs briefly; a
 *	sync hint alone is often a lie, and then the wakee would wait behind a
 *	hog.
 *   2. No task waits in the local DSQ or for this CPU alone.
 *   3. No task waits for a CPU of the waker's domain; or the wakee is to go
 *	before batch work anyway, and the CPU was not handed on for too long
 *	since it asked ops.dispatch() which task should have it.
 */
bool handoff_is_due(const struct task_ctx *taskc, const struct task_ctx *wakerc,
		    struct cpu_ctx *cpuc, bool is_sync);

/*
 * @cpuc's CPU, that we are on, is handed over at @now. If the waker goes on all
 * the same, its run ends in time.
 */
void handoff_begin(struct cpu_ctx *cpuc, u64 now);

/*
 * The wakee may preempt the waker, which runs on @cpuc's CPU. If that has only
 * just begun to run it may go on for a moment, until it sleeps. Return whether
 * it does; its run ends in time then.
 *
 * A task that is preempted by each task that it wakes never gets to sleep. It
 * would pass for one that works all the time, be served as that, and the two of
 * them would get less than their share.
 */
bool handoff_let_finish(struct cpu_ctx *cpuc, u64 now);

#endif /* __HANDOFF_BPF_H */
