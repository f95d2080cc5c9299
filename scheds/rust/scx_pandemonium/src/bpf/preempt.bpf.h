/* SPDX-License-Identifier: GPL-2.0 */
/*
 * preempt: which CPU has to make room?
 *
 * Keeps, for each domain, the CPUs that run a batch task and those that run an
 * interactive one, so that a victim is found by one cpumask operation however
 * many CPUs there are. The masks are where to look; who gets a CPU is decided
 * by one word of it, see policy/claim.h: two wakeups never get the same one,
 * and none gets one that has said meanwhile that it offers something else.
 *
 * A CPU is granted to one task at a time, whether it was idle or has to make
 * room: to others it is neither until that task has begun to run there. The
 * idle mask does not say so. A CPU that goes idle is in the mask before
 * ops.update_idle() can take it off; one that is woken and finds nothing yet is
 * put back into the mask.
 *
 * Not here: which idle CPU would do (idle), what ends a slice (slice).
 */
#ifndef __PREEMPT_BPF_H
#define __PREEMPT_BPF_H

#include "context.bpf.h"
#include "policy/claim.h"

/* Make the masks. Return 0 or a negative error. */
s32 preempt_init(void);

/*
 * Return the vtime that the task of @taskc would have on the CPU of @cpuc, by
 * the clock of that domain, which may be another than its own.
 */
u64 preempt_vtime_on(const struct task_ctx *taskc, const struct cpu_ctx *cpuc);

/*
 * Choose a CPU that @p may take from what runs there. Only a task of a lower
 * tier makes room, and only if it is not owed more than the tier is worth.
 *
 *   1. A CPU of domain @llc_idx that runs a batch task: @prev_cpu, where what
 *	the task left in its caches may still be, else any.
 *   2. The same of those that run a task above batch that @p goes before.
 *   3. The same in the other domains, nearest first, within a budget; in
 *	those of its cache if @p keeps to that.
 *
 * Return the CPU, claimed for @p, or -EBUSY if no CPU has to make room. The
 * caller inserts @p into its local DSQ with SCX_ENQ_PREEMPT.
 */
s32 preempt_claim_cpu(struct task_struct *p, struct task_ctx *taskc,
		      s32 prev_cpu, u32 llc_idx);

/*
 * Let the CPU that preempt_claim_cpu() finds for @p, which waits in a queue of
 * the domain, look there at once.
 */
void preempt_kick_cpu(struct task_struct *p, struct task_ctx *taskc,
		      s32 prev_cpu, u32 llc_idx);

/* Claim @cpu itself for @p. Return whether what runs there makes room. */
bool preempt_claim_this(struct task_struct *p, struct task_ctx *taskc, s32 cpu);

/*
 * @p, which is what cpuc->account says, runs on the CPU of @cpuc at @now: offer
 * that to those that go before it, unless it @is_protected, and end its grant.
 */
void preempt_offer(const struct task_struct *p, struct cpu_ctx *cpuc,
		   struct llc_ctx *llcc, bool is_protected, u64 now);

/* What runs on the CPU of @cpuc makes room for none until it is offered. */
void preempt_withdraw(struct cpu_ctx *cpuc, struct llc_ctx *llcc);

/* No task of ours runs on the CPU of @cpuc. */
void preempt_set_idle(struct cpu_ctx *cpuc, struct llc_ctx *llcc);

/*
 * Grant @p the CPU @cpu, claimed as idle, at @now, unless that is negative.
 * Return it, or -EBUSY if another task is on its way there, or if it does not
 * say that it is idle.
 */
s32 preempt_grant_idle(const struct task_struct *p,
		       const struct task_ctx *taskc, s32 cpu, u64 now);

/* @p does not come to the CPU of @cpuc that it was granted, if it was. */
void preempt_end_grant(const struct task_struct *p, struct cpu_ctx *cpuc);

/* Return whether a task is on its way to the CPU of @cpuc at @now. */
static __always_inline bool preempt_is_granted(const struct cpu_ctx *cpuc,
					       u64 now)
{
	return claim_is_pending(READ_ONCE(cpuc->preempt.claim), now);
}

/* Return whether one is that will not need that CPU for long. */
static __always_inline bool
preempt_is_granted_briefly(const struct cpu_ctx *cpuc)
{
	u64 word = READ_ONCE(cpuc->preempt.claim);

	return claim_is_brief(word) && claim_is_pending(word, scx_bpf_now());
}

/*
 * ops.cpu_release(): a higher scheduling class took @cpu for as long as it
 * likes. What waits in its local DSQ is enqueued again.
 */
void preempt_cpu_release(s32 cpu);

/*
 * @p, which remains runnable, stops on the CPU of @cpuc. If it has slice left,
 * a higher class took the CPU: the same follows, on kernels since Linux 6.19,
 * which let it follow from here and warn of ops.cpu_release().
 */
void preempt_stopping(const struct task_struct *p, struct cpu_ctx *cpuc,
		      struct llc_ctx *llcc);

#endif /* __PREEMPT_BPF_H */
