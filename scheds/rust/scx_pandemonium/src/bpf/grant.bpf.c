/* SPDX-License-Identifier: GPL-2.0 */
/* grant: is a task on its way to a CPU? See grant.bpf.h. */
#include "grant.bpf.h"

enum grant_room_consts {
	/* A task that usually runs for less is soon out of the way again. */
	BRIEF_GRANT_NS = 500 * NSEC_PER_USEC,
};

__hidden bool grant_to(const struct task_struct *p,
		       const struct task_ctx *taskc, struct cpu_ctx *cpuc,
		       u64 now)
{
	u64 old = READ_ONCE(cpuc->grant.word);
	u64 runtime_ns = taskc->classify.avg_runtime_ns;
	bool is_brief = runtime_ns && runtime_ns < BRIEF_GRANT_NS;

	return !grant_is_pending(old, now) &&
	       __sync_bool_compare_and_swap(&cpuc->grant.word, old,
					    grant_word(p->pid, is_brief, now));
}

/*
 * The task that was on its way may run there already: it says so before it ends
 * its grant.
 *
 * A CPU that is refused was claimed in vain: it looks for work, after which it
 * is in the idle mask again.
 */
__hidden s32 grant_idle_to(const struct task_struct *p,
			   const struct task_ctx *taskc, s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = cpu >= 0 ? lookup_cpu(cpu) : NULL;

	if (!cpuc)
		return cpu;
	if (grant_to(p, taskc, cpuc, now)) {
		if (!READ_ONCE(cpuc->account.is_busy))
			return cpu;
		grant_revoke(cpuc);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return -EBUSY;
}

__hidden void grant_end(const struct task_struct *p, struct cpu_ctx *cpuc,
			u64 now)
{
	u64 word = READ_ONCE(cpuc->grant.word);

	/* Of another task it stays: that is to come. */
	if (word && (grant_is_to(word, p->pid) || !grant_is_pending(word, now)))
		grant_revoke(cpuc);
}
