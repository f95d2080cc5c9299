/* SPDX-License-Identifier: GPL-2.0 */
/* See rescue.bpf.h for the purpose. */
#include "rescue.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "stats.bpf.h"
#include "policy/sojourn.h"
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
 * Return whether somebody in the queue of @w waits for too long. Let the younger
 * group take the place of the older if that is gone.
 */
static bool is_overdue(struct waiters *w, u64 now)
{
	u64 turn = READ_ONCE(w->turn);

	if (sojourn_must_turn(w)) {
		if (__sync_bool_compare_and_swap(&w->turn, turn, turn + 1))
			WRITE_ONCE(w->turned_at, now);
		return false;
	}
	return sojourn_is_over(w, now, knobs.sojourn_thresh_ns);
}

/*
 * Move one of those that wait longest in @dsq_id to @cpuc's local DSQ. The search
 * begins with the last: who waits too long is kept waiting by its rank.
 */
static bool rescue_one(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
		       const struct waiters *w, u64 dsq_id)
{
	u32 group = sojourn_old(w), nr = 0;
	struct task_struct *p;
	struct task_ctx *taskc;

	bpf_for_each(scx_dsq, p, dsq_id, SCX_DSQ_ITER_REV) {
		if (++nr > RESCUE_SCAN_MAX)
			break;
		taskc = try_lookup_task(p);
		if (!taskc || taskc->waits_group != group ||
		    !vtime_has_credit(taskc->vtime, llcc->clock.at,
				      RESCUE_AHEAD_MAX_NS) ||
		    !bpf_cpumask_test_cpu(cpuc->cpu, p->cpus_ptr))
			continue;
		taskc->is_rescued = 1;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
		/* Another CPU was faster. */
		taskc->is_rescued = 0;
	}
	return false;
}

static bool rescue_from(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			struct waiters *w, u64 dsq_id, u64 now)
{
	if (!sojourn_nr(w) || !is_overdue(w, now))
		return false;
	if (rescue_one(cpuc, llcc, w, dsq_id)) {
		stat_inc(cpuc, STAT_SERVE_RESCUED);
		return true;
	}
	/* All of them had their share; some time must pass until one has not. */
	WRITE_ONCE(w->turned_at, now - knobs.sojourn_thresh_ns / 2);
	return false;
}

__hidden bool rescue_overdue(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			     u64 now)
{
	return rescue_from(cpuc, llcc, &cpuc->own, queue_own(cpuc->cpu), now) ||
	       rescue_from(cpuc, llcc, &llcc->batch, queue_batch(llcc->idx),
			   now) ||
	       rescue_from(cpuc, llcc, &llcc->interactive,
			   queue_interactive(llcc->idx), now);
}

__hidden bool rescue_protect_run(struct task_ctx *taskc, struct cpu_ctx *cpuc,
				 struct llc_ctx *llcc, u64 now)
{
	if (!taskc->is_rescued)
		return false;
	preempt_withdraw(cpuc, llcc);
	preempt_end_slice_in(cpuc, now, RESCUE_RUN_NS);
	return true;
}

__hidden void rescue_end_run(struct task_ctx *taskc)
{
	taskc->is_rescued = 0;
}
