/* SPDX-License-Identifier: GPL-2.0 */
/*
 * place: which CPU does a ready task go to?
 *
 * Straight to a CPU that can run it now, if there is one: idle, handed over by
 * the waker, or taken from a task of a lower tier. Otherwise to a queue.
 *
 * Every insertion of the scheduler is made here, and each tests that the task
 * may run where it goes.
 *
 * Not here: the queues (queue), the choice of a victim (preempt), what a CPU
 * takes next (dispatch).
 */
#ifndef __PLACE_BPF_H
#define __PLACE_BPF_H

#include "context.bpf.h"

/* ops.select_cpu(): see the numbered list at the function. */
s32 place_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags);

/* ops.enqueue(): see the numbered list at the function. */
void place_enqueue(struct task_struct *p, u64 enq_flags);

#endif /* __PLACE_BPF_H */
