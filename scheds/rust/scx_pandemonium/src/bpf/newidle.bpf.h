/* SPDX-License-Identifier: GPL-2.0 */
/*
 * newidle: is a CPU idle while a task waits in a queue of a domain?
 *
 * A task may be queued while a CPU is on its way to idle: that has looked at
 * the queues already, and ops.enqueue() finds no idle CPU to wake. Each of the
 * two says what it does, has a full barrier, and looks for the other:
 *
 *   ops.enqueue()		ops.update_idle()
 *   count the task		say that the CPU is idle
 *   wake an idle CPU		a task is counted: look again
 *   a CPU is idle: arm		and arm
 *
 *	      ops.running(): the task is counted no more
 *
 * So at least one sees the other. What they do at once may be in vain: the
 * kernel inserts a task after ops.enqueue(), drops a kick for a CPU that runs
 * something, and has a CPU that was claimed for another task in its idle mask
 * again without a callback. So the one that saw the other arms a timer of the
 * domain. That wakes an idle CPU for each task in the queues, and goes on for
 * as long as a task waits that a CPU which says that it is idle may run.
 *
 * The crate idle_model visits all interleavings of these steps; each is needed.
 *
 * Not here: what a CPU takes (dispatch), which idle CPU a task gets (idle), the
 * own queue of a CPU (slice: no other CPU may take what waits there).
 */
#ifndef __NEWIDLE_BPF_H
#define __NEWIDLE_BPF_H

#include "context.bpf.h"

/* Make the mask and the timers. Return 0 or a negative error. */
s32 newidle_init(void);

/* ops.update_idle(): @cpu goes idle, or is idle no more. */
void newidle_update_idle(s32 cpu, bool is_idle);

/* A task begins to run on @cpuc's CPU, before slice_begin_run(). */
void newidle_begin_run(const struct cpu_ctx *cpuc);

/*
 * @p was queued in @llcc, and an idle CPU was woken for it if there was one.
 * Seen by the verifier once, not at each call.
 */
int newidle_queued(struct task_struct *p, u32 llc_idx);

#endif /* __NEWIDLE_BPF_H */
