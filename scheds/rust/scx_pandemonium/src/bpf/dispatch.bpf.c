/* SPDX-License-Identifier: GPL-2.0 */
/* dispatch: what does a CPU run next? See dispatch.bpf.h. */
#include "dispatch.bpf.h"
#include "account.bpf.h"
#include "classify.bpf.h"
#include "idle.bpf.h"
#include "pack.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"
#include "share.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "policy/deficit.h"
#include "policy/vtime.h"

enum dispatch_consts {
	/* How often a CPU looks whether another domain has more to do. */
	BALANCE_INTERVAL_NS = 4 * NSEC_PER_MSEC,
};

/* Take the first task of @dsq_id that @cpuc's CPU may run; count it as @id. */
static bool serve(struct cpu_ctx *cpuc, u64 dsq_id, enum stat_id id)
{
	if (!scx_bpf_dsq_move_to_local(dsq_id, 0))
		return false;
	stat_inc(cpuc, id);
	return true;
}

/* Take a task of @dsq_id of another domain, if it has waited long enough. */
static bool serve_far(struct cpu_ctx *cpuc, u32 llc_idx, u64 dsq_id, u64 now)
{
	return idle_may_take(dsq_id, llc_idx, now) &&
	       serve(cpuc, dsq_id, STAT_SERVE_STOLEN);
}

/* Take a task of another domain, the nearest first, interactive first. */
static bool steal(struct cpu_ctx *cpuc, u64 now)
{
	const struct llc_topo *topo;
	u32 i, victim_idx;

	if (nr_llcs == 1)
		return false;
	topo = try_lookup_llc_topo(cpuc->topo.llc_idx);
	if (!topo)
		return false;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		victim_idx = topo->neighbours[i];
		if (serve_far(cpuc, victim_idx, queue_interactive(victim_idx),
			      now) ||
		    serve_far(cpuc, victim_idx, queue_batch(victim_idx), now))
			return true;
	}
	return false;
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
	if (has_rival && (!queue_peek(dsq_id, &rank) ||
			  (best->dsq_id && !vtime_before(rank, best->rank))))
		return;
	best->dsq_id = dsq_id;
	best->rank = rank;
	best->stat = stat;
}

/* Serve the queues of @cpuc's CPU and its domain in a fixed order. */
static bool serve_any(struct cpu_ctx *cpuc)
{
	return serve(cpuc, queue_interactive(cpuc->topo.llc_idx),
		     STAT_SERVE_INTERACTIVE) ||
	       serve(cpuc, queue_own(cpuc->topo.cpu), STAT_SERVE_OWN) ||
	       serve(cpuc, queue_batch(cpuc->topo.llc_idx), STAT_SERVE_BATCH);
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
	account_begin_run(prevc, cpuc, llcc, now);
}

/*
 * Return the weight of what is runnable in @llcc. The clock leaves out what has
 * credit, the sum of the cgroups what a task's demand adds.
 */
static u64 runnable_weight(const struct llc_ctx *llcc)
{
	u64 counted = READ_ONCE(llcc->share.clock.weight_sum);
	u64 all = READ_ONCE(llcc->group.runnable_weight);

	return counted > all ? counted : all;
}

/*
 * Return whether the first batch task of @other is better off in @llcc: the
 * weights of the two, for each CPU, are further apart than what it weighs.
 * Anything less would only send tasks to and fro.
 */
static bool is_better_here(const struct llc_ctx *llcc,
			   const struct llc_ctx *other)
{
	u64 there = runnable_weight(other) * llcc->topo.nr_cpus;
	u64 here = runnable_weight(llcc);
	u32 weight;

	if (there <= here * other->topo.nr_cpus || !queue_nr_batch(other))
		return false;
	weight = queue_peek_weight(queue_batch(other->topo.idx));
	return weight && there > (here + weight) * other->topo.nr_cpus;
}

/*
 * Take a batch task from a domain that is busier than this one.
 *
 * A CPU looks beyond its domain once in BALANCE_INTERVAL_NS, so that tasks of
 * an overloaded domain are not left to its own CPUs while those of others have
 * less to do, and so that the common case pays one comparison.
 */
static bool balance(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	const struct llc_topo *topo;
	struct llc_ctx *other;
	u32 i;

	if (nr_llcs == 1 || vtime_before(now, cpuc->dispatch.balance_at))
		return false;
	cpuc->dispatch.balance_at = now + BALANCE_INTERVAL_NS;
	topo = try_lookup_llc_topo(llcc->topo.idx);
	if (!topo)
		return false;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		other = lookup_llc(topo->neighbours[i]);
		if (!other)
			break;
		if (is_better_here(llcc, other) &&
		    serve_far(cpuc, other->topo.idx,
			      queue_batch(other->topo.idx), now))
			return true;
	}
	return false;
}

/* One more task was chosen: a batch task, or before one that waits. */
static void count_service(struct llc_ctx *llcc, bool is_batch)
{
	llcc->dispatch.deficit = deficit_next(llcc->dispatch.deficit, is_batch);
}

/* Serve a batch task if others have had as many turns as they may in a row. */
static bool serve_deficit(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			  u32 nr_batch)
{
	if (!nr_batch ||
	    !deficit_is_due(llcc->dispatch.deficit, llcc->topo.nr_scale_cpus) ||
	    !serve(cpuc, queue_batch(llcc->topo.idx), STAT_SERVE_DEFICIT))
		return false;
	count_service(llcc, true);
	return true;
}

/* How many tasks wait in the queues that a CPU serves first. */
struct backlog {
	u32 interactive;
	u32 own;
	u32 batch;
};

/*
 * Serve what goes before any rank.
 *
 *   1. A task that has waited too long. In the middle of a burst of @prevc, the
 *	task that runs and was served above batch, only one that is starved: a
 *	frame that stops at the end of each slice is late.
 *   2. A batch task, if others went before batch work too often.
 *   3. Now and then, a batch task of a domain that has more to do.
 */
static bool serve_first(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			const struct backlog *nr, const struct task_ctx *prevc,
			u64 now)
{
	bool in_burst = prevc && prevc->classify.served_tier > TIER_BATCH;

	return rescue_overdue(cpuc, llcc, now, in_burst) ||
	       serve_deficit(cpuc, llcc, nr->batch) || balance(cpuc, llcc, now);
}

/*
 * Choose the queue whose first task has the earliest rank: what a task is owed
 * and what its tier is worth. No queue, if all are empty.
 */
static void choose(struct candidate *best, struct cpu_ctx *cpuc,
		   const struct backlog *nr, bool has_prev)
{
	bool has_rival =
		has_prev || !!nr->interactive + !!nr->own + !!nr->batch > 1;

	consider(best, queue_interactive(cpuc->topo.llc_idx), nr->interactive,
		 has_rival, STAT_SERVE_INTERACTIVE);
	consider(best, queue_own(cpuc->topo.cpu), nr->own, has_rival,
		 STAT_SERVE_OWN);
	consider(best, queue_batch(cpuc->topo.llc_idx), nr->batch, has_rival,
		 STAT_SERVE_BATCH);
}

/* Serve the queue that was chosen; any of the three, if its task is gone. */
static bool serve_chosen(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			 const struct candidate *best, u32 nr_batch)
{
	if (!best->dsq_id)
		return false;
	if (!serve(cpuc, best->dsq_id, best->stat))
		return serve_any(cpuc);
	if (best->stat != STAT_SERVE_OWN)
		count_service(llcc,
			      !nr_batch || best->stat == STAT_SERVE_BATCH);
	return true;
}

/*
 * Find the next task of @cpu.
 *
 *   1. What goes before any rank, see serve_first().
 *   2. The first task of the interactive, the own or the batch queue, whichever
 *	has the earliest rank.
 *   3. @prev again, if its rank is earlier than that: no switch. Not if a rule
 *	keeps it to other CPUs: ops.enqueue() sees to it then.
 *   4. Any task of these queues, if this CPU may not run the first.
 *   5. Other domains, near before far: no CPU stays idle while a task waits
 *	that may leave its own.
 *   6. @prev again, since no other task waits at all.
 */
__hidden void dispatch_cpu(s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	struct candidate best = {};
	struct task_ctx *prevc = NULL;
	struct backlog nr;
	bool may_stay = true;
	u64 now = scx_bpf_now();

	if (!llcc)
		return;
	cpuc->dispatch.asked_at = now;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		prevc = try_lookup_task(prev);
	/* Before the queues: what comes in between is seen as new then. */
	if (!prevc)
		cpuc->dispatch.seen_inserts = queue_nr_inserts();
	nr.interactive = queue_nr_interactive(llcc);
	nr.own = queue_nr_own(cpuc);
	nr.batch = queue_nr_batch(llcc);

	if (prevc) {
		account_end_run(prev, prevc, llcc, now);
		slice_end_turn(prevc);
		may_stay = !pack_expels(prev, prevc, cpu);
	}
	if (serve_first(cpuc, llcc, &nr, prevc, now))
		return;

	choose(&best, cpuc, &nr, prevc);
	if (prevc && may_stay && best.dsq_id &&
	    vtime_before(share_rank(prevc), best.rank)) {
		count_service(llcc, prevc->classify.served_tier == TIER_BATCH);
		keep_running(prev, prevc, cpuc, llcc, now);
		return;
	}
	if (serve_chosen(cpuc, llcc, &best, nr.batch) || steal(cpuc, now))
		return;

	if (prevc && may_stay)
		keep_running(prev, prevc, cpuc, llcc, now);
	else
		stat_inc(cpuc, STAT_DISPATCH_EMPTY);
}

/*
 * Return whether a task was queued since @cpuc's CPU, now idle, looked for
 * work.
 *
 * Not every task that waits is work for this CPU: it may not be allowed here.
 * What was there when the CPU looked is no reason to look again, else it would
 * never get to rest. So two answers are needed: the count of the own queue,
 * which is always work for this CPU, and for the domains the number of tasks
 * that were ever queued there, which says what is new.
 */
static bool missed_work(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	if (queue_nr_own(cpuc) &&
	    scx_bpf_dsq_nr_queued(queue_own(cpuc->topo.cpu)))
		return true;
	if (nr_llcs == 1 && !queue_nr_interactive(llcc) &&
	    !queue_nr_batch(llcc))
		return false;
	return queue_nr_inserts() != cpuc->dispatch.seen_inserts;
}

/*
 * The kernel has updated the idle mask: a task that is queued after this finds
 * the CPU idle and kicks it, and what was queued before is seen here.
 *
 * NOTE: a CPU that dies must not kick, not even itself: the interrupt that
 * carries out its kicks is gone already, the kick would stay pending, and with
 * it every later one of that CPU once it is back.
 */
__hidden void dispatch_update_idle(s32 cpu, bool is_idle)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	if (!llcc)
		return;
	slice_update_idle(cpuc, llcc, is_idle);
	/*
	 * A task that took what ran here last for a victim would get before the
	 * one to which this CPU is given next, or real-time work.
	 */
	if (is_idle)
		preempt_withdraw(cpuc, llcc);
	if (is_idle && !cpuc->slice.is_offline && missed_work(cpuc, llcc))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}
