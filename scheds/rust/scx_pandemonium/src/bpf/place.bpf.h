/* SPDX-License-Identifier: GPL-2.0 */
/*
 * place: which CPU does a ready task go to?
 *
 * Straight to a CPU that can run it now, if there is one: idle, handed over by
 * the waker, or taken from a task of a lower tier. Otherwise to a queue.
 *
 * A waker is a task, not an interrupt that came while it ran.
 *
 * Insertions into local DSQs are made here, only into that of the CPU that
 * ops.select_cpu() returns or of the CPU that the task is on, and only where
 * the task may run.
 *
 * Not here: insertions into queues (queue), moves from there to a CPU
 * (dispatch, rescue), the choice of an idle CPU (idle) or of a victim
 * (preempt).
 */
#ifndef __PLACE_BPF_H
#define __PLACE_BPF_H

#include "context.bpf.h"

/* ops.select_cpu(): see the numbered list at the function. */
s32 place_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags);

/* ops.enqueue(): see the numbered list at the function. */
void place_enqueue(struct task_struct *p, u64 enq_flags);

#endif /* __PLACE_BPF_H */
