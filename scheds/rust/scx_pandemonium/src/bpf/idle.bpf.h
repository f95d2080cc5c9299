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
 * Work may be packed: a task that wakes keeps to the first knobs.nr_packed_cpus
 * of the machine, in the order of the loader, and waits there for a while
 * before it goes elsewhere. Tasks that a rule confines keep to the first
 * knobs.nr_confined_cpus, in the own queue of one of them.
 *
 * Not here: what to do if no CPU is idle (place, preempt), what a CPU without
 * work takes (dispatch, steal), how many CPUs work is packed onto
 * (control/pack.rs).
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

/* Return whether the kernel takes one of @cpus for idle. */
bool idle_is_any(const struct cpumask *cpus);

/* Return whether the machine and the mode leave a choice to this room. */
static __always_inline bool idle_chooses(void)
{
	return has_idle_choice() && knobs.affinity_mode != AFFINITY_OFF;
}

/* Return whether @p may use all of the first @nr CPUs; there are that many. */
bool idle_fits(struct task_struct *p, u32 nr);

/*
 * Claim an idle one of the first @nr CPUs for @p, @prev_cpu if it is one.
 * Return it, -EBUSY, or -EINVAL if @p may not use all of them.
 */
s32 idle_claim_first(struct task_struct *p, u32 nr, s32 prev_cpu);

/*
 * Return the CPU in whose own queue confined @p is to wait: an idle one, which
 * is woken, else the less crowded of two. -EBUSY if that went offline, -EINVAL
 * if @p may not use all CPUs that it should keep to.
 */
s32 idle_confined_cpu(struct task_struct *p, s32 prev_cpu);

/* Return a packed CPU, in whose domain @p waits: @prev_cpu if it is one. */
s32 idle_wait_cpu(struct task_struct *p, s32 prev_cpu);

/*
 * Claim an idle one of @cpus for a task that has waited for long: among twice
 * as many as work keeps to, then any. So what is too much for these stays
 * together too.
 */
s32 idle_claim_beyond(const struct cpumask *cpus);

/*
 * Claim an idle one of the CPUs that work is packed onto for @p, @cpu if it is
 * one. Return it, -EBUSY, or -EINVAL if @p goes anywhere.
 */
static __always_inline s32 idle_claim_packed(struct task_struct *p, s32 cpu)
{
	u32 nr = knobs.nr_packed_cpus;

	return nr ? idle_claim_first(p, nr, cpu) : -EINVAL;
}

/*
 * ops.select_cpu(): claim an idle CPU for @p, one of those that work is packed
 * onto if it may use all of these. Return it, or -EBUSY.
 */
static __always_inline s32 idle_select_cpu(struct task_struct *p, s32 prev_cpu)
{
	s32 cpu = idle_claim_packed(p, prev_cpu);
	bool is_idle = false;

	if (cpu != -EINVAL)
		return cpu;
	if (idle_chooses())
		return idle_claim_nearest(p, prev_cpu);
	/* Told of a sync wakeup it would call the waker's CPU idle. */
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, 0, &is_idle);
	return is_idle ? cpu : -EBUSY;
}

/*
 * @p is queued, on @cpu: claim a CPU that went idle meanwhile, to be woken for
 * it: only @cpu, or if it @is_movable a packed one, @cpu, or the nearest.
 * Return it, or -EBUSY.
 */
static __always_inline s32 idle_pick_cpu(struct task_struct *p, s32 cpu,
					 bool is_movable)
{
	s32 target = is_movable ? idle_claim_packed(p, cpu) : -EINVAL;

	if (target != -EINVAL)
		return target;
	if (scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	if (!is_movable)
		return -EBUSY;
	return idle_chooses() ? idle_claim_nearest(p, cpu)
			      : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

/* Return whether the task of @taskc should keep to few CPUs by a rule. */
static __always_inline bool idle_confines(const struct task_ctx *taskc)
{
	return taskc->hint.known.is_confined && knobs.nr_confined_cpus;
}

/* Return whether @p, which runs on @cpu, keeps to other CPUs by a rule. */
static __always_inline bool idle_expels(struct task_struct *p,
					const struct task_ctx *taskc, s32 cpu)
{
	const struct cpu_topo *topo;

	if (!idle_confines(taskc) || !idle_fits(p, knobs.nr_confined_cpus))
		return false;
	topo = try_lookup_cpu_topo(cpu);
	return topo && topo->pack_rank >= knobs.nr_confined_cpus;
}

#endif /* __IDLE_BPF_H */
