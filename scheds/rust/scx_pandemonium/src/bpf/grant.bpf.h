/* SPDX-License-Identifier: GPL-2.0 */
/*
 * grant: is a task on its way to a CPU?
 *
 * One task at a time: a CPU that was given to a task is no idle CPU and no
 * victim to others until that has begun to run. The idle mask and the offers
 * (preempt) do not say so. A CPU that goes idle is in the mask before
 * ops.update_idle() can take it off, and on offer until that has withdrawn it;
 * one that is woken and finds nothing yet is put back into the mask; a tick
 * offers a CPU again that was claimed just before.
 *
 * Not here: which CPU a task gets (idle, pack, preempt).
 */
#ifndef __GRANT_BPF_H
#define __GRANT_BPF_H

#include "context.bpf.h"
#include "policy/grant.h"

/*
 * Give the CPU of @cpuc to @p at @now. Return false if another task is on its
 * way there.
 */
bool grant_to(const struct task_struct *p, const struct task_ctx *taskc,
	      struct cpu_ctx *cpuc, u64 now);

/*
 * The same for @cpu, claimed as idle, unless that is negative. Return it, or
 * -EBUSY if another task is on its way there or one of ours runs there.
 */
s32 grant_idle_to(const struct task_struct *p, const struct task_ctx *taskc,
		  s32 cpu, u64 now);

/* @p runs on the CPU of @cpuc at @now, or came back since that was taken. */
void grant_end(const struct task_struct *p, struct cpu_ctx *cpuc, u64 now);

/* Take the CPU of @cpuc back: no task is on its way there. */
static __always_inline void grant_revoke(struct cpu_ctx *cpuc)
{
	WRITE_ONCE(cpuc->grant.word, 0);
}

/* Return whether a task is on its way to the CPU of @cpuc at @now. */
static __always_inline bool grant_is_given(const struct cpu_ctx *cpuc, u64 now)
{
	return grant_is_pending(READ_ONCE(cpuc->grant.word), now);
}

/* Return whether one is that will not need that CPU for long. */
static __always_inline bool grant_is_given_briefly(const struct cpu_ctx *cpuc)
{
	u64 word = READ_ONCE(cpuc->grant.word);

	return grant_is_brief(word) && grant_is_pending(word, scx_bpf_now());
}

#endif /* __GRANT_BPF_H */
