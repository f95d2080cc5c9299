/* SPDX-License-Identifier: GPL-2.0 */
/* dispatch: what does a CPU run next? See dispatch.bpf.h. */
#include "dispatch.bpf.h"
#include "account.bpf.h"
#include "classify.bpf.h"
#include "idle.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"
#include "share.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "steal.bpf.h"
#include "policy/deficit.h"
#include "policy/vtime.h"

/* Take the first task of @dsq_id that @cpuc's CPU may run; count it as @id. */
static bool serve(struct cpu_ctx *cpuc, u64 dsq_id, enum stat_id id)
{
	if (queue_is_shared(dsq_id) ? !queue_take(dsq_id, cpuc->topo.cpu)
				    : !scx_bpf_dsq_move_to_local(dsq_id, 0))
		return false;
	stat_inc(cpuc, id);
	return true;
}

/* A queue that a CPU may serve, and the rank of its first task. */
struct candidate {
	u64 dsq_id;
	u64 rank;
	enum stat_id stat;
};

/*
 * Make queue @dsq_id, where @nr tasks wait, the @best candidate if its first
 * task goes before that. Without a @has_rival there is nothing to compare.
 */
static void consider(struct candidate *best, u64 dsq_id, u32 nr, bool has_rival,
		     enum stat_id stat)
{
	u64 rank = 0;

	if (!nr)
		return;
	if (has_rival && (!queue_peek(dsq_id, false, &rank) ||
			  (best->dsq_id && !vtime_before(rank, best->rank))))
		return;
	best->dsq_id = dsq_id;
	best->rank = rank;
	best->stat = stat;
}

/* Serve the batch queue: the part near @cpuc's CPU first. */
static __noinline bool serve_batch(struct cpu_ctx *cpuc, enum stat_id id)
{
	return (queue_nr_near(cpuc) &&
		serve(cpuc, queue_near(cpuc->topo.cpu), id)) ||
	       serve(cpuc, queue_batch(cpuc->topo.llc_idx),
		     id == STAT_SERVE_BATCH ? STAT_SERVE_PULLED : id);
}

/* Serve the queues of @cpuc's CPU and its domain in a fixed order. */
static bool serve_any(struct cpu_ctx *cpuc)
{
	return serve(cpuc, queue_interactive(cpuc->topo.llc_idx),
		     STAT_SERVE_INTERACTIVE) ||
	       serve(cpuc, queue_own(cpuc->topo.cpu), STAT_SERVE_OWN) ||
	       serve_batch(cpuc, STAT_SERVE_BATCH);
}

/* Let @prev run on with a fresh slice. The kernel calls no callback for it. */
static void keep_running(struct task_struct *prev, struct task_ctx *prevc,
			 struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	stat_inc(cpuc, STAT_KEEP_RUNNING);
	rescue_end_run(prevc);
	slice_grant(prevc, classify_slice_ns(prevc));
	slice_clear_end(cpuc);
	scx_bpf_task_set_slice(prev, prevc->slice.granted_ns);
	account_begin_run(prev, prevc, cpuc, llcc, now);
}

/* One more task was chosen: a batch task, or before one that waits. */
static void count_service(struct llc_ctx *llcc, bool is_batch)
{
	u32 deficit = READ_ONCE(llcc->dispatch.deficit);
	u32 next = deficit_next(deficit, is_batch);

	/* All CPUs of the domain read it. */
	if (next != deficit)
		WRITE_ONCE(llcc->dispatch.deficit, next);
}

/* Serve a batch task if others have had as many turns as they may in a row. */
static bool serve_deficit(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			  u32 nr_batch)
{
	if (!nr_batch ||
	    !deficit_is_due(llcc->dispatch.deficit, llcc->topo.nr_scale_cpus) ||
	    !serve_batch(cpuc, STAT_SERVE_DEFICIT))
		return false;
	count_service(llcc, true);
	return true;
}

/* How many tasks wait in the queues that a CPU serves first. */
struct backlog {
	u32 interactive;
	u32 own;
	u32 batch;
	u32 near; /* of those the ones near the CPU */
};

/*
 * Serve what goes before any rank.
 *
 *   1. A task that has waited too long. In the middle of a burst of @prevc, the
 *	task that runs and was served above batch, only one that is starved: a
 *	frame that stops at the end of each slice is late.
 *   2. A batch task, if others went before batch work too often.
 *   3. Now and then, a task that is stranded in another domain, or a batch task
 *	of one that has more to do.
 */
static bool serve_first(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			const struct backlog *nr, const struct task_ctx *prevc,
			u64 now)
{
	bool in_burst = prevc && prevc->classify.served_tier > TIER_BATCH;

	return rescue_overdue(cpuc, llcc, now, in_burst) ||
	       serve_deficit(cpuc, llcc, nr->batch) ||
	       rescue_other(cpuc, now) || steal_balance(cpuc, now);
}

/*
 * Choose the queue whose first task has the earliest rank: what a task is owed
 * and what its tier is worth. No queue, if all are empty. Of the batch queue
 * only the part near the CPU counts, see pull().
 */
static void choose(struct candidate *best, struct cpu_ctx *cpuc,
		   const struct backlog *nr, bool has_prev)
{
	bool has_rival = has_prev || nr->batch > nr->near ||
			 !!nr->interactive + !!nr->own + !!nr->near > 1;

	consider(best, queue_interactive(cpuc->topo.llc_idx), nr->interactive,
		 has_rival, STAT_SERVE_INTERACTIVE);
	consider(best, queue_own(cpuc->topo.cpu), nr->own, has_rival,
		 STAT_SERVE_OWN);
	consider(best, queue_near(cpuc->topo.cpu), nr->near, has_rival,
		 STAT_SERVE_BATCH);
}

/*
 * Return by how much @cpuc's CPU may be ahead of the clock before it looks at
 * what waits near others: not at all if less batch work waits near it than near
 * a CPU on average, since that has longer turns then.
 */
static u64 slack_ns(const struct llc_ctx *llcc, const struct backlog *nr)
{
	return (nr->near + 1) * llcc->topo.nr_cpus <= nr->batch ? 0
								: NEAR_SLACK_NS;
}

/*
 * @cpuc's CPU would run a task of rank @next. Take batch work that waits near
 * another CPU instead, if that goes before it and this CPU has gone ahead of
 * the domain's clock. Always to run what goes first in the whole domain would
 * be to move batch work at each switch: so CPUs may be slack_ns() apart.
 */
static __noinline bool pull(struct cpu_ctx *cpuc, const struct llc_ctx *llcc,
			    const struct backlog *nr, u64 next)
{
	u64 clock = READ_ONCE(llcc->share.clock.avg_vruntime), first;

	if (nr->batch <= nr->near ||
	    !vtime_before(clock + slack_ns(llcc, nr), next))
		return false;
	first = queue_first(queue_batch(llcc->topo.idx), cpuc->topo.cpu, next,
			    true);
	return first && serve(cpuc, first, STAT_SERVE_PULLED);
}

/*
 * Serve the queue that was chosen; any, if its task is gone. If there was none
 * to choose, batch work that waits near other CPUs.
 */
static bool serve_chosen(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			 const struct candidate *best, u32 nr_batch)
{
	enum stat_id stat = best->dsq_id ? best->stat : STAT_SERVE_BATCH;
	bool is_batch = !nr_batch || stat == STAT_SERVE_BATCH ||
			(stat == STAT_SERVE_INTERACTIVE &&
			 queue_is_batch_first(best->dsq_id));

	if (best->dsq_id && !serve(cpuc, best->dsq_id, stat))
		return serve_any(cpuc);
	if (!best->dsq_id && (!nr_batch || !serve_batch(cpuc, stat)))
		return false;
	if (stat != STAT_SERVE_OWN)
		count_service(llcc, is_batch);
	return true;
}

/*
 * Return whether the task of @prevc, of @llcc, goes before @rank, and still
 * would after one more least slice.
 *
 * Tasks that take turns have used the same once each had its own, but for a few
 * microseconds. These must not give the last one a second turn.
 */
static bool stays_before(const struct task_ctx *prevc,
			 const struct llc_ctx *llcc, u64 rank)
{
	u64 ahead = vtime_charge(knobs.slice_min_ns, prevc->share.weight);

	return vtime_before(share_rank(prevc, llcc) + ahead, rank);
}

/*
 * Find the next task of @cpu.
 *
 *   0. None, if it was given to a task that is on its way.
 *   1. What goes before any rank, see serve_first().
 *   2. The first task of the interactive or the own queue or of the batch work
 *	near this CPU, whichever has the earliest rank.
 *   3. @prev again, if its rank is earlier than that, see stays_before(): no
 *	switch. Not if it yields, and not if a rule keeps it to other CPUs:
 *	ops.enqueue() sees to it then.
 *   4. In place of 2 and 3, batch work near another CPU, see pull().
 *   5. Any task of these queues, if this CPU may not run the first.
 *   6. Other domains, near before far: no CPU stays idle while a task waits
 *	that may leave its own.
 *   7. @prev again, since no other task waits at all.
 */
__hidden void dispatch_cpu(s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	struct candidate best = {};
	struct task_ctx *prevc = NULL;
	struct backlog nr;
	bool may_stay = true, stays;
	u64 now = scx_bpf_now();

	if (!llcc)
		return;
	cpuc->dispatch.asked_at = now;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		prevc = try_lookup_task(prev);
	/*
	 * A task that it takes now would get in front of the one to which it was
	 * given, in the local DSQ, where no other CPU finds it.
	 */
	if (!prevc && preempt_is_granted(cpuc, now))
		return;
	nr.interactive = queue_nr_interactive(llcc);
	nr.own = queue_nr_own(cpuc);
	nr.batch = queue_nr_batch(llcc);
	nr.near = queue_nr_near(cpuc);

	if (prevc) {
		account_end_run(prev, prevc, llcc, now);
		slice_end_turn(prevc);
		may_stay = !idle_expels(prev, prevc, cpu);
	}
	if (serve_first(cpuc, llcc, &nr, prevc, now))
		return;

	choose(&best, cpuc, &nr, prevc);
	stays = prevc && may_stay && !prevc->share.has_yielded &&
		(!best.dsq_id || stays_before(prevc, llcc, best.rank));
	if ((stays || best.dsq_id) &&
	    pull(cpuc, llcc, &nr,
		 stays ? share_rank(prevc, llcc) : best.rank)) {
		count_service(llcc, true);
		return;
	}
	if (stays && (best.dsq_id || nr.batch)) {
		count_service(llcc, !nr.batch || prevc->classify.served_tier ==
							 TIER_BATCH);
		keep_running(prev, prevc, cpuc, llcc, now);
		return;
	}
	if (serve_chosen(cpuc, llcc, &best, nr.batch) || steal_any(cpuc, now))
		return;

	if (prevc && may_stay)
		keep_running(prev, prevc, cpuc, llcc, now);
	else
		stat_inc(cpuc, STAT_DISPATCH_EMPTY);
}
