/* SPDX-License-Identifier: GPL-2.0 */
/*
 * newidle: did a CPU that goes idle miss a task?
 *
 * A task may be queued while a CPU is on its way to idle: that has looked at
 * the queues already, and ops.enqueue() finds no idle CPU to wake. So a task is
 * counted before ops.enqueue() looks for an idle CPU, and ops.update_idle()
 * looks at the counts once the CPU is known to be idle. One sees the other.
 *
 * Not here: what a CPU takes (dispatch), which idle CPU a task gets (idle).
 */
#ifndef __NEWIDLE_BPF_H
#define __NEWIDLE_BPF_H

#include "context.bpf.h"
#include "slice.bpf.h"

enum newidle_consts {
	/* When an idle CPU looks again for a task that is on its way. */
	LOOK_SOON_NS = 100 * NSEC_PER_USEC,
};

/*
 * ops.update_idle(): @cpu goes idle, or is idle no more. A task that was queued
 * while it was on its way there is found now.
 */
void newidle_update_idle(s32 cpu, bool is_idle);

/* The CPU of @cpuc, which goes or stays idle, expects a task. */
static __always_inline void newidle_look_soon(struct cpu_ctx *cpuc)
{
	slice_end_in(cpuc, scx_bpf_now(), LOOK_SOON_NS);
}

#endif /* __NEWIDLE_BPF_H */
