/* SPDX-License-Identifier: GPL-2.0 */
/*
 * idle: which idle CPU does a task get?
 *
 * The nearest one, by what its last CPU shares with it: the core, the L2
 * cache, the LLC, the NUMA node. The kernel's own choice knows no L2 domains
 * and no sizes of cores, so it is left to the kernel where there is nothing to
 * know: one LLC, an L2 cache for each core, cores of one size.
 *
 * knobs.affinity_mode says how much a near CPU is worth:
 *
 *   OFF	the kernel's choice.
 *   WEAK	nearest first, but any idle CPU at once.
 *   STRONG	a task waits a while for its LLC before it goes to another; the
 *		timer of newidle then wakes a CPU there.
 *
 * Not here: what to do if no CPU is idle (place, preempt), what a CPU without
 * work takes (dispatch, steal).
 */
#ifndef __IDLE_BPF_H
#define __IDLE_BPF_H

#include "context.bpf.h"

/*
 * Functions without __hidden are seen by the verifier once, not at each call:
 * what they search is too much to be followed together with the caller's loops.
 */

/* Make the masks. Return 0 or a negative error. */
s32 idle_init(void);

/*
 * Claim for @p the idle CPU nearest to @prev_cpu; see the numbered list at the
 * function. Return it, or -EBUSY.
 */
s32 idle_claim_nearest(struct task_struct *p, s32 prev_cpu);

/*
 * Return whether @p waits for a CPU of @llcc though one of another LLC may be
 * idle. For a while only, see idle_may_take().
 */
bool idle_keeps_llc(struct task_struct *p, struct task_ctx *taskc,
		    struct llc_ctx *llcc);

/*
 * Return whether a CPU of another LLC may take what waits in @dsq_id, a queue
 * of domain @llc_idx, or comes too early.
 */
bool idle_may_take(u64 dsq_id, u32 llc_idx, u64 now);

/* Return whether the machine and the mode leave a choice to this room. */
static __always_inline bool idle_chooses(void)
{
	return has_idle_choice() && knobs.affinity_mode != AFFINITY_OFF;
}

/* ops.select_cpu(): claim an idle CPU for @p. Return it, or -EBUSY. */
static __always_inline s32 idle_select_cpu(struct task_struct *p, s32 prev_cpu)
{
	bool is_idle = false;
	s32 cpu;

	if (idle_chooses())
		return idle_claim_nearest(p, prev_cpu);
	/* Told of a sync wakeup it would call the waker's CPU idle. */
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, 0, &is_idle);
	return is_idle ? cpu : -EBUSY;
}

/* @p is queued: claim an idle CPU to be woken for it, or return -EBUSY. */
static __always_inline s32 idle_pick_cpu(struct task_struct *p, s32 prev_cpu)
{
	if (idle_chooses())
		return idle_claim_nearest(p, prev_cpu);
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

#endif /* __IDLE_BPF_H */
