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
 * Whether the kernel updates the idle mask after ops.update_idle() only. The
 * verifier drops what stands behind this where it does not.
 */
#define MASK_FOLLOWS_CALLBACK (LINUX_KERNEL_VERSION < KERNEL_VERSION(6, 16, 0))

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

/*
 * @p was queued in @llcc, and no idle CPU was found. Return the last CPU there
 * that went idle, if it is still and may run @p, or -EBUSY: it may have looked
 * at the queues before, and not be in the idle mask yet.
 */
static __always_inline s32 newidle_last_cpu(const struct task_struct *p,
					    const struct llc_ctx *llcc)
{
	struct cpu_ctx *cpuc;
	s32 cpu;

	if (!MASK_FOLLOWS_CALLBACK)
		return -EBUSY;
	cpu = READ_ONCE(llcc->newidle.last_cpu);
	cpuc = lookup_cpu(cpu);
	if (!cpuc || !READ_ONCE(cpuc->slice.is_idle) ||
	    cpuc->slice.is_offline || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return -EBUSY;
	return cpu;
}

#endif /* __NEWIDLE_BPF_H */
