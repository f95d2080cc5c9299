/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dispatch: what does a CPU run next?
 *
 * Called when the local DSQ of a CPU is empty and its task sleeps or has used
 * up its slice. Takes from the queues in the order given at the function.
 *
 * Not here: where tasks enter the queues (place).
 */
#ifndef __DISPATCH_BPF_H
#define __DISPATCH_BPF_H

#include "context.bpf.h"

/* ops.dispatch(). */
void dispatch_cpu(s32 cpu, struct task_struct *prev);

/*
 * @taskc begins a run on the CPU of @cpuc: bound it if others wait. If its slice
 * is used up, its turn is over with that.
 */
void dispatch_bound_run(struct task_ctx *taskc, struct cpu_ctx *cpuc,
			struct llc_ctx *llcc, u64 now);

/*
 * A task begins to wait while another runs on @cpuc's CPU that nobody waited for
 * so far: bound that run now, not at the next tick.
 */
void dispatch_bound_other(struct cpu_ctx *cpuc, struct llc_ctx *llcc);

/* Return whether a task was queued since @cpu, now idle, looked for work. */
bool dispatch_missed_work(s32 cpu);

#endif /* __DISPATCH_BPF_H */
