/* SPDX-License-Identifier: GPL-2.0 */
/* rescue: which task has waited too long? See rescue.bpf.h. */
#include "rescue.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "policy/wait_age.h"
#include "policy/vtime.h"

enum rescue_consts {
	/* Tasks of a queue that one rescue looks at. */
	RESCUE_SCAN_MAX = 32,
	/* How long a rescued task keeps its CPU, if others wait for it. */
	RESCUE_RUN_NS = 1 * NSEC_PER_MSEC,
	/*
	 * A task this far ahead of the clock, about a turn, had its share and
	 * waits with good reason: to rescue it would be to ignore its nice
	 * level.
	 */
	RESCUE_AHEAD_MAX_NS = 4 * NSEC_PER_MSEC,
};

/*
 * Move one of the tasks that wait longest in @dsq_id to @cpuc's local DSQ. The
 * search begins with the last: what keeps a task waiting too long is its rank.
 */
static bool rescue_one(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
		       const struct waiters *w, u64 dsq_id)
{
	u32 group = wait_age_old(w), nr = 0;
	struct task_struct *p;
	struct task_ctx *taskc;

	bpf_for_each(scx_dsq, p, dsq_id, SCX_DSQ_ITER_REV) {
		if (++nr > RESCUE_SCAN_MAX)
			break;
		taskc = try_lookup_task(p);
		if (!taskc || taskc->queue.group != group ||
		    !vtime_is_eligible(taskc->share.vtime,
				       llcc->share.clock.avg_vruntime,
				       RESCUE_AHEAD_MAX_NS) ||
		    !bpf_cpumask_test_cpu(cpuc->topo.cpu, p->cpus_ptr))
			continue;
		taskc->rescue.is_rescued = 1;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
		/* Another CPU was faster. */
		taskc->rescue.is_rescued = 0;
	}
	return false;
}

/* The same for any queue with the count @nr, if a task there is overdue. */
static bool rescue_from(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u32 nr,
			u64 dsq_id, u64 now)
{
	struct waiters *w;

	if (!nr)
		return false;
	w = queue_waiters(dsq_id);
	if (!w || !queue_is_overdue(w, now))
		return false;
	if (rescue_one(cpuc, llcc, w, dsq_id)) {
		stat_inc(cpuc, STAT_SERVE_RESCUED);
		return true;
	}
	queue_defer_overdue(w, now);
	return false;
}

__hidden bool rescue_overdue(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			     u64 now)
{
	return rescue_from(cpuc, llcc, queue_nr_own(cpuc),
			   queue_own(cpuc->topo.cpu), now) ||
	       rescue_from(cpuc, llcc, queue_nr_batch(llcc),
			   queue_batch(llcc->topo.idx), now) ||
	       rescue_from(cpuc, llcc, queue_nr_interactive(llcc),
			   queue_interactive(llcc->topo.idx), now);
}

__hidden bool rescue_protect_run(struct task_ctx *taskc, struct cpu_ctx *cpuc,
				 struct llc_ctx *llcc, u64 now)
{
	if (!taskc->rescue.is_rescued)
		return false;
	preempt_withdraw(cpuc, llcc);
	slice_end_in(cpuc, now, RESCUE_RUN_NS);
	return true;
}

__hidden void rescue_end_run(struct task_ctx *taskc)
{
	taskc->rescue.is_rescued = 0;
}
