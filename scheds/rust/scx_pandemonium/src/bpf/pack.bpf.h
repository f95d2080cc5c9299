/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pack: which CPUs does work keep to?
 *
 * The first knobs.nr_packed_cpus of the machine, in the order of the loader:
 * small cores before big ones, the CPUs of a core together, then those of an
 * LLC. A task that wakes gets an idle CPU among these, preempts what runs on
 * any CPU, or waits. Once it has waited for 0.5 to 1 ms a timer (newidle) wakes
 * another CPU for it, the next ones in that order first. 0 packs nothing.
 *
 * The loader sets the number once a second by how busy the machine is. Until it
 * has, the wait is all that a task pays.
 *
 * Tasks that a rule confines keep to the first knobs.nr_confined_cpus in the
 * same order, which the loader sets by what these tasks use. They wait in the
 * own queue of one of these CPUs, and leave any other at the end of a slice.
 *
 * Limits:
 *   - Only wakeups are packed. A task that never sleeps stays where it is,
 *	unless it is confined.
 *   - A task that may not use all of these CPUs goes anywhere.
 *   - A CPU that went offline after the start keeps its place in the order.
 *   - A confined task waits until the CPU that it was queued for ends what it
 *	runs, though another of these may be idle by then.
 *
 * Not here: how many CPUs (control/pack.rs), which of them a task gets that is
 * not packed (idle).
 */
#ifndef __PACK_BPF_H
#define __PACK_BPF_H

#include "context.bpf.h"

/*
 * Functions without __hidden are seen by the verifier once, not at each call.
 */

/* Make the masks. Return 0 or a negative error. */
s32 pack_init(void);

/* Return whether @p may use all of the first @nr CPUs; there are that many. */
bool pack_fits(struct task_struct *p, u32 nr);

/*
 * Claim an idle one of the first @nr CPUs for @p, @prev_cpu if it is one.
 * Return it, -EBUSY, or -EINVAL if @p may not use all of them.
 */
s32 pack_claim_cpu(struct task_struct *p, u32 nr, s32 prev_cpu);

/*
 * Return the CPU in whose own queue confined @p is to wait: an idle one, which
 * is woken, else the less crowded of two. -EBUSY if that went offline, -EINVAL
 * if @p may not use all CPUs that it should keep to.
 */
s32 pack_confined_cpu(struct task_struct *p, s32 prev_cpu);

/* Return a packed CPU, in whose domain @p waits: @prev_cpu if it is one. */
s32 pack_wait_cpu(struct task_struct *p, s32 prev_cpu);

/*
 * Claim an idle CPU for @p, which has waited for long: among twice as many as
 * work keeps to, then any. So what is too much for these stays together too.
 */
s32 pack_claim_beyond(struct task_struct *p);

/* Claim an idle packed CPU for @p. -EINVAL if it does not keep to them. */
static __always_inline s32 pack_claim_packed(struct task_struct *p,
					     s32 prev_cpu)
{
	if (!knobs.nr_packed_cpus)
		return -EINVAL;
	return pack_claim_cpu(p, knobs.nr_packed_cpus, prev_cpu);
}

/* Return whether the task of @taskc should keep to few CPUs by a rule. */
static __always_inline bool pack_confines(const struct task_ctx *taskc)
{
	return taskc->hint.known.is_confined && knobs.nr_confined_cpus;
}

/* Return whether @p, which runs on @cpu, keeps to other CPUs by a rule. */
static __always_inline bool pack_expels(struct task_struct *p,
					const struct task_ctx *taskc, s32 cpu)
{
	const struct cpu_topo *topo;

	if (!pack_confines(taskc) || !pack_fits(p, knobs.nr_confined_cpus))
		return false;
	topo = try_lookup_cpu_topo(cpu);
	return topo && topo->pack_rank >= knobs.nr_confined_cpus;
}

#endif /* __PACK_BPF_H */
