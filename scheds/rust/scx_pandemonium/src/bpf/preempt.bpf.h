/* SPDX-License-Identifier: GPL-2.0 */
/*
 * preempt: who has to make room, and when does a slice end?
 *
 * Keeps, for each domain, the CPUs that run a batch task and those that run an
 * interactive one, so that a victim is found by one cpumask operation however
 * many CPUs there are. A CPU is taken off the masks the moment it is chosen:
 * two wakeups in the same microsecond never choose the same one.
 *
 * Slices that somebody waits for are ended by a timer, since the kernel looks
 * at them only at ticks, up to 4 ms late at HZ=250.
 *
 * Not here: whether an idle CPU would do (place).
 */
#ifndef __PREEMPT_BPF_H
#define __PREEMPT_BPF_H

#include "context.bpf.h"

/* Make the timers. Return 0 or a negative error. */
s32 preempt_init(void);

/*
 * Choose a CPU that @p may take from what runs there. Only a task of a lower
 * tier makes room, and only if it is not owed more than the tier is worth.
 *
 *   1. @prev_cpu: what the task left in its caches may still be there.
 *   2. A CPU of @llcc that runs a batch task.
 *   3. One that runs an interactive task, if @p is above that.
 *   4. The same in the other domains, nearest first, within a budget, unless
 *	@p keeps to its own.
 *
 * Return the CPU, claimed for @p, or -EBUSY if nobody has to make room. The
 * caller inserts @p into its local DSQ with SCX_ENQ_PREEMPT.
 */
s32 preempt_claim_cpu(struct task_struct *p, struct task_ctx *taskc,
		      s32 prev_cpu, struct llc_ctx *llcc);

/* Claim @cpu itself for @p. Return whether what runs there makes room. */
bool preempt_claim_this(struct task_struct *p, struct task_ctx *taskc, s32 cpu);

/*
 * Return whether the CPU of @cpuc was just given to a task that has not begun to
 * run and will not need it for long.
 */
bool preempt_is_briefly_granted(const struct cpu_ctx *cpuc);

/* A task of @tier begins to run on @cpuc's CPU: offer it to those above it. */
void preempt_offer(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u32 tier);

/* The CPU of @cpuc was taken by another class: nobody may choose it. */
void preempt_withdraw(struct cpu_ctx *cpuc, struct llc_ctx *llcc);

/*
 * The CPU of @cpuc goes offline: nobody may choose it, and the tasks that are
 * still on its runqueue may leave.
 */
void preempt_leave(struct cpu_ctx *cpuc, struct llc_ctx *llcc);

/*
 * @cpu goes idle, or is idle no more. If somebody waits whom it may run and is
 * not asked for, since it is about to go offline, a timer sees to that.
 */
void preempt_update_idle(s32 cpu, bool is_idle);

/*
 * What runs on this CPU, that of @cpuc, goes on and leaves a task at @vtime
 * waiting. If that is owed much more, end the run once it has lasted a while.
 */
void preempt_hurry(struct cpu_ctx *cpuc, u64 vtime);

/*
 * End what runs on the CPU of @cpuc @left_ns after @now, between two ticks if
 * need be, unless it was to end before that already.
 */
void preempt_end_slice_in(struct cpu_ctx *cpuc, u64 now, u64 left_ns);

#endif /* __PREEMPT_BPF_H */
