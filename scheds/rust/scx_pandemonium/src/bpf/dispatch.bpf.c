/* SPDX-License-Identifier: GPL-2.0 */
/* See dispatch.bpf.h for the purpose. */
#include "dispatch.bpf.h"
#include "account.bpf.h"
#include "idle.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"
#include "stats.bpf.h"
#include "policy/deficit.h"
#include "policy/slice.h"
#include "policy/sojourn.h"
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
	topo = try_lookup_llc_topo(cpuc->llc_idx);
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
	return serve(cpuc, queue_interactive(cpuc->llc_idx),
		     STAT_SERVE_INTERACTIVE) ||
	       serve(cpuc, queue_own(cpuc->cpu), STAT_SERVE_OWN) ||
	       serve(cpuc, queue_batch(cpuc->llc_idx), STAT_SERVE_BATCH);
}

/* Let @prev run on with a fresh slice. The kernel calls no callback for it. */
static void keep_running(struct task_struct *prev, struct task_ctx *prevc,
			 struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	stat_inc(cpuc, STAT_KEEP_RUNNING);
	rescue_end_run(prevc);
	prevc->slice_ns = queue_slice_ns(prevc);
	WRITE_ONCE(cpuc->slice_ends_at, 0);
	scx_bpf_task_set_slice(prev, prevc->slice_ns);
	account_begin_run(prev, prevc, cpuc, llcc, now);
}

/*
 * Take a batch task from a domain that is busier than this one.
 *
 * A CPU looks beyond its domain once in BALANCE_INTERVAL_NS, so that tasks of
 * an overloaded domain are not left to its own CPUs while those of others have
 * less to do, and so that the common case pays one comparison. Moving a task
 * pays if the weights are further apart than what is moved; anything less would
 * only send tasks to and fro.
 */
static bool balance(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	const struct llc_topo *topo;
	struct llc_ctx *other;
	u64 weight_after;
	u32 i;

	if (nr_llcs == 1 || vtime_before(now, cpuc->balance_at))
		return false;
	cpuc->balance_at = now + BALANCE_INTERVAL_NS;
	topo = try_lookup_llc_topo(llcc->idx);
	if (!topo)
		return false;
	weight_after = llcc->clock.weight_sum + WEIGHT_NICE_0;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		other = lookup_llc(topo->neighbours[i]);
		if (!other)
			break;
		if (other->clock.weight_sum * llcc->nr_cpus >
			    weight_after * other->nr_cpus &&
		    serve_far(cpuc, other->idx, queue_batch(other->idx), now))
			return true;
	}
	return false;
}

/* One more task was chosen: a batch task, or before one that waits. */
static void count_service(struct llc_ctx *llcc, bool is_batch)
{
	llcc->deficit = deficit_next(llcc->deficit, is_batch);
}

/* Serve a batch task if others have had as many turns as they may in a row. */
static bool serve_deficit(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			  u32 nr_batch)
{
	if (!nr_batch || !deficit_is_due(llcc->deficit, llcc->nr_cpus) ||
	    !serve(cpuc, queue_batch(llcc->idx), STAT_SERVE_DEFICIT))
		return false;
	count_service(llcc, true);
	return true;
}

/*
 * Find the next task of @cpu.
 *
 *   1. One that has waited too long.
 *   2. A batch task, if others went before batch work too often.
 *   3. Now and then, a batch task of a domain that has more to do.
 *   4. The first task of the interactive, the own or the batch queue, whichever
 *	has the earliest rank: what a task is owed and what its tier is worth.
 *   5. @prev again, if its rank is earlier than that: no switch.
 *   6. Any task of these queues, if this CPU may not run the first.
 *   7. Other domains, near before far: no CPU stays idle while a task waits
 *	that may leave its own.
 *   8. @prev again, since nobody waits at all.
 */
__hidden void dispatch_cpu(s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	u32 nr_interactive, nr_own, nr_batch;
	struct candidate best = {};
	struct task_ctx *prevc = NULL;
	struct llc_ctx *llcc;
	u64 now = scx_bpf_now();
	bool has_rival;

	if (!cpuc)
		return;
	llcc = lookup_llc(cpuc->llc_idx);
	if (!llcc)
		return;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		prevc = try_lookup_task(prev);
	/* Before the queues: what comes in between is seen as new then. */
	if (!prevc)
		cpuc->seen_inserts = queue_nr_inserts();

	nr_interactive = sojourn_nr(&llcc->interactive);
	nr_own = sojourn_nr(&cpuc->own);
	nr_batch = sojourn_nr(&llcc->batch);

	if (prevc) {
		account_end_run(prev, prevc, llcc, now);
		prevc->is_rotated = 1;
	}
	if (rescue_overdue(cpuc, llcc, now))
		return;
	if (serve_deficit(cpuc, llcc, nr_batch))
		return;
	if (balance(cpuc, llcc, now))
		return;

	has_rival = prevc || !!nr_interactive + !!nr_own + !!nr_batch > 1;
	consider(&best, queue_interactive(llcc->idx), nr_interactive, has_rival,
		 STAT_SERVE_INTERACTIVE);
	consider(&best, queue_own(cpu), nr_own, has_rival, STAT_SERVE_OWN);
	consider(&best, queue_batch(llcc->idx), nr_batch, has_rival,
		 STAT_SERVE_BATCH);
	if (prevc && best.dsq_id &&
	    vtime_before(queue_rank(prevc), best.rank)) {
		count_service(llcc, prevc->served_tier == TIER_BATCH);
		keep_running(prev, prevc, cpuc, llcc, now);
		return;
	}

	if (best.dsq_id && serve(cpuc, best.dsq_id, best.stat)) {
		if (best.stat != STAT_SERVE_OWN)
			count_service(llcc,
				      !nr_batch ||
					      best.stat == STAT_SERVE_BATCH);
		return;
	}
	if (best.dsq_id && serve_any(cpuc))
		return;
	if (steal(cpuc, now))
		return;

	if (prevc)
		keep_running(prev, prevc, cpuc, llcc, now);
	else
		stat_inc(cpuc, STAT_DISPATCH_EMPTY);
}

/*
 * End what runs on @cpuc's CPU once it has used its part of @slice_ns. Return
 * whether it has, at @used_ns.
 */
static bool bound_run(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 slice_ns,
		      u64 used_ns, u64 now)
{
	u32 nr_waiting = queue_nr_waiting(cpuc, llcc);
	u32 nr_own = sojourn_nr(&cpuc->own);

	if (!nr_waiting) {
		WRITE_ONCE(cpuc->slice_ends_at, 0);
		return false;
	}
	/* What is as short as can be gets no shorter, at the price of a division. */
	if (slice_ns > SLICE_MIN_NS)
		slice_ns = slice_contended(nr_waiting, llcc->nr_cpus,
					   knobs.latency_target_ns, slice_ns);
	/* Nobody else can take what waits in the own queue. */
	if (nr_own && slice_ns > SLICE_MIN_NS)
		slice_ns = slice_contended(nr_own, 1, knobs.latency_target_ns,
					   slice_ns);
	slice_ns = slice_for_weight(slice_ns, cpuc->curr_weight);
	preempt_end_slice_in(cpuc, now, slice_left(slice_ns, used_ns));
	return used_ns >= slice_ns;
}

__hidden void dispatch_bound_run(struct task_ctx *taskc, struct cpu_ctx *cpuc,
				 struct llc_ctx *llcc, u64 now)
{
	/*
	 * Its turn is over even if it never lasts until the timer fires, else one
	 * that is preempted again and again would keep its place for ever.
	 */
	if (bound_run(cpuc, llcc, taskc->slice_ns, taskc->slice_used_ns, now))
		taskc->is_rotated = 1;
}

__hidden void dispatch_bound_other(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	u64 now;
	s64 used_ns;

	if (!cpuc->is_busy || READ_ONCE(cpuc->slice_ends_at))
		return;
	now = scx_bpf_now();
	used_ns = now - cpuc->took_at;
	bound_run(cpuc, llcc, knobs.batch_slice_ns, used_ns > 0 ? used_ns : 0,
		  now);
}

__hidden bool dispatch_missed_work(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	/*
	 * A CPU that dies must not kick, not even itself: the interrupt that
	 * carries out its kicks is gone already, the kick would stay pending,
	 * and with it every later one of that CPU once it is back.
	 */
	if (!cpuc || cpuc->is_offline)
		return false;
	/*
	 * Not every task that waits is work for this CPU: it may not be allowed
	 * here. What was there when the CPU looked is no reason to look again,
	 * else it would never get to rest.
	 */
	return (sojourn_nr(&cpuc->own) &&
		scx_bpf_dsq_nr_queued(queue_own(cpu))) ||
	       queue_nr_inserts() != cpuc->seen_inserts;
}
