/* SPDX-License-Identifier: GPL-2.0 */
/* rescue: which task has waited too long? See rescue.bpf.h. */
#include "rescue.bpf.h"
#include "queue.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "policy/vtime.h"
#include "policy/wait_age.h"

/*
 * A task for which others wait must not do so behind all batch work there is:
 *
 *   - a kernel thread;
 *   - a task that was preempted in an RCU reader, for which each grace period
 *     waits, and after 20 s of that the kernel throws the scheduler out;
 *   - one that ends, or was killed: its memory, its parent.
 *
 * It gets no more than its share for that, and is not ahead of others by rank:
 * it waits among few (queue) and is looked for here.
 */

#define SIGKILL 9

/* How many RCU readers a callback is itself: the least that was seen. */
static s32 rcu_level_of_callbacks = __INT_MAX__;

/*
 * Return whether @p was preempted in an RCU reader. A callback is one itself,
 * of the current task.
 */
static bool is_rcu_reader(struct task_struct *p)
{
	s32 level;

	if (!bpf_core_field_exists(p->rcu_read_lock_nesting))
		return false;
	level = p->rcu_read_lock_nesting;
	if (p->pid != bpf_get_current_task_btf()->pid)
		return level > 0;
	if (level < rcu_level_of_callbacks)
		rcu_level_of_callbacks = level;
	return level > rcu_level_of_callbacks;
}

__hidden bool rescue_is_awaited(struct task_struct *p)
{
	return (p->flags & (PF_KTHREAD | PF_EXITING)) ||
	       (p->pending.signal.sig[0] & (1ULL << (SIGKILL - 1))) ||
	       is_rcu_reader(p);
}

enum rescue_consts {
	/* Tasks of a queue that one rescue looks at. */
	RESCUE_SCAN_MAX = 32,
	/* How long a rescued task keeps its CPU, if others wait for it. */
	RESCUE_RUN_NS = 1 * NSEC_PER_MSEC,
	/*
	 * The same for one that had its share, and is rescued for those that
	 * wait for what it does: an RCU reader, say, ends in less.
	 */
	AWAITED_RUN_NS = NSEC_PER_MSEC / 4,
	/*
	 * A task this far ahead of the clock, about a turn, had its share and
	 * waits with good reason: to rescue it would be to ignore its nice
	 * level.
	 */
	RESCUE_AHEAD_MAX_NS = 4 * NSEC_PER_MSEC,

	/*
	 * Whatever it had, no task waits for longer than 2 s. It may have come
	 * when its group opened, twice this ago, and others may go first.
	 */
	STARVED_NS = 700 * NSEC_PER_MSEC,
	/* Tasks of a queue that a look for one of those considers. */
	STARVED_SCAN_MAX = 4096,
	/* A CPU serves one of them this often, so that others get on too. */
	STARVED_INTERVAL_NS = 2 * RESCUE_RUN_NS,
	/* It looks again this much later if it may run none of them. */
	STARVED_RETRY_NS = 50 * NSEC_PER_MSEC,
	/*
	 * A search takes one part in so many of a CPU's time at the most. That
	 * counts where a CPU is slow: a virtual one that has part of a CPU.
	 */
	SEARCH_PARTS = 16,
	/*
	 * A task that is due waits this long only where no CPU of its domain
	 * that may run it does: these are held by another class.
	 */
	STRANDED_NS = 100 * NSEC_PER_MSEC,
};

/* Which tasks of the older group a search is for. */
enum rescue_kind {
	/* Those that had less than their share, and those below. */
	RESCUE_OWED,
	/* Those that others wait for, see rescue_is_awaited(). */
	RESCUE_AWAITED,
	RESCUE_ANY,
};

/* Return for how long a rescue for @kind runs @p, 0 if it does not. */
static u64 run_ns_of(struct task_struct *p, const struct task_ctx *taskc,
		     const struct llc_ctx *llcc, u32 kind)
{
	bool is_owed = vtime_is_eligible(taskc->share.vtime,
					 llcc->share.clock.avg_vruntime,
					 RESCUE_AHEAD_MAX_NS);

	if (kind == RESCUE_ANY || (kind == RESCUE_OWED && is_owed))
		return RESCUE_RUN_NS;
	if (!rescue_is_awaited(p))
		return 0;
	return is_owed ? RESCUE_RUN_NS : AWAITED_RUN_NS;
}

/*
 * Move one of the tasks of @kind that wait longest in @dsq_id to the local DSQ
 * of @cpu, where we are. The search begins with the last: what keeps a task
 * waiting too long is its rank. It ends after @nr_max tasks, or as many of each
 * part of a queue as its part of these is. Return whether there was one.
 *
 * Seen by the verifier once, not at each call, and with any @nr_max: told of
 * the number it would go round as often.
 */
__noinline bool rescue_one(s32 cpu, u64 dsq_id, u32 kind, u32 nr_max)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	bool is_own = dsq_id >> DSQ_KIND_SHIFT == DSQ_KIND_OWN;
	struct waiters *w = queue_waiters(dsq_id);
	struct llc_ctx *llcc = NULL;
	struct task_struct *p;
	struct task_ctx *taskc;
	u32 i, nr, nr_parts;
	s32 near = cpu;
	u64 run_ns, part;
	u32 group;

	/* Its own clock says what a task of another domain is owed. */
	if (cpuc)
		llcc = lookup_llc(is_own ? cpuc->topo.llc_idx : (u32)dsq_id);
	if (!llcc || !w)
		return false;
	group = wait_age_old(w);
	nr_parts = queue_nr_parts(dsq_id, &near);
	if (nr_parts > 1)
		nr_max = nr_max / nr_parts + 1;
	bpf_for(i, 0, nr_parts) {
		part = queue_next_part(dsq_id, &near);
		if (!part)
			continue;
		nr = 0;
		bpf_for_each(scx_dsq, p, part, SCX_DSQ_ITER_REV) {
			if (++nr > nr_max)
				break;
			taskc = try_lookup_task(p);
			if (!taskc || taskc->queue.group != group ||
			    !may_run_on(p, cpu))
				continue;
			run_ns = run_ns_of(p, taskc, llcc, kind);
			if (!run_ns)
				continue;
			taskc->rescue.run_ns = run_ns;
			if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p,
					     SCX_DSQ_LOCAL, 0))
				return true;
			/* Another CPU was faster. */
			taskc->rescue.run_ns = 0;
		}
	}
	return false;
}

/*
 * Return when a CPU that began to search at @now searches again: after
 * @pause_ns, or later if it took long. @began_at is when it began by
 * bpf_ktime_get_ns(), since scx_bpf_now() stands still meanwhile.
 */
static u64 search_again_at(u64 now, u64 pause_ns, u64 began_at)
{
	u64 least_ns = SEARCH_PARTS * (bpf_ktime_get_ns() - began_at);

	return now + (pause_ns > least_ns ? pause_ns : least_ns);
}

/* Serve a task of @dsq_id whatever it had, if one of @w waits that long. */
static bool rescue_starved(struct cpu_ctx *cpuc, struct waiters *w, u64 dsq_id,
			   u64 now)
{
	u64 pause_ns, began_at;
	bool is_found;

	if (!wait_age_is_over(w, now, STARVED_NS) ||
	    vtime_before(now, cpuc->rescue.look_at))
		return false;
	began_at = bpf_ktime_get_ns();
	is_found = rescue_one(cpuc->topo.cpu, dsq_id, RESCUE_ANY,
			      STARVED_SCAN_MAX);
	pause_ns = is_found ? STARVED_INTERVAL_NS : STARVED_RETRY_NS;
	cpuc->rescue.look_at = search_again_at(now, pause_ns, began_at);
	return is_found;
}

/* Return whether one of the @nr tasks of @dsq_id has waited for @thresh_ns. */
static bool has_overdue(u32 nr, u64 dsq_id, u64 now, u64 thresh_ns)
{
	struct waiters *w = nr ? queue_waiters(dsq_id) : NULL;

	return w && queue_is_overdue(w, now, thresh_ns);
}

/*
 * Serve a task that others wait for, if one is overdue; with @starved_only, if
 * one is starved. There is none in the queue of batch work, see place.
 */
static bool rescue_awaited(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now,
			   bool starved_only)
{
	u64 thresh_ns = starved_only ? STARVED_NS : knobs.sojourn_thresh_ns;
	u64 interactive = queue_interactive(llcc->topo.idx);
	u64 own = queue_own(cpuc->topo.cpu), began_at;
	bool is_in_interactive, is_in_own;
	s32 cpu = cpuc->topo.cpu;

	is_in_interactive = has_overdue(queue_nr_interactive(llcc), interactive,
					now, thresh_ns);
	is_in_own = has_overdue(queue_nr_own(cpuc), own, now, thresh_ns);
	if ((!is_in_interactive && !is_in_own) ||
	    vtime_before(now, cpuc->rescue.look_for_awaited_at))
		return false;
	began_at = bpf_ktime_get_ns();
	if ((is_in_interactive &&
	     rescue_one(cpu, interactive, RESCUE_AWAITED, STARVED_SCAN_MAX)) ||
	    (is_in_own &&
	     rescue_one(cpu, own, RESCUE_AWAITED, STARVED_SCAN_MAX))) {
		stat_inc(cpuc, STAT_SERVE_RESCUED);
		return true;
	}
	cpuc->rescue.look_for_awaited_at =
		search_again_at(now, STARVED_RETRY_NS, began_at);
	return false;
}

/*
 * Serve a task of @dsq_id, with the count @nr, if one there is overdue; with
 * @starved_only, if one there is starved.
 */
static bool rescue_from(struct cpu_ctx *cpuc, u32 nr, u64 dsq_id, u64 now,
			bool starved_only)
{
	struct waiters *w;

	if (!has_overdue(nr, dsq_id, now, knobs.sojourn_thresh_ns))
		return false;
	w = queue_waiters(dsq_id);
	if (!w)
		return false;
	if (!rescue_starved(cpuc, w, dsq_id, now)) {
		if (starved_only || wait_age_is_deferred(w, now))
			return false;
		if (!rescue_one(cpuc->topo.cpu, dsq_id, RESCUE_OWED,
				RESCUE_SCAN_MAX)) {
			queue_defer_overdue(w, now);
			return false;
		}
	}
	stat_inc(cpuc, STAT_SERVE_RESCUED);
	return true;
}

__hidden bool rescue_overdue(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			     u64 now, bool starved_only)
{
	u64 own = queue_own(cpuc->topo.cpu);
	u64 batch = queue_batch(llcc->topo.idx);
	u64 interactive = queue_interactive(llcc->topo.idx);

	return rescue_awaited(cpuc, llcc, now, starved_only) ||
	       rescue_from(cpuc, queue_nr_own(cpuc), own, now, starved_only) ||
	       rescue_from(cpuc, queue_nr_batch(llcc), batch, now,
			   starved_only) ||
	       rescue_from(cpuc, queue_nr_interactive(llcc), interactive, now,
			   starved_only);
}

/*
 * Serve on @cpu a task of @dsq_id, a queue of another domain, if one there is
 * stranded. Whether that domain defers its looks says nothing: its CPUs may not
 * run that task. Seen by the verifier once.
 */
__noinline bool rescue_stranded(s32 cpu, u64 dsq_id, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct waiters *w = queue_waiters(dsq_id);
	u32 kind;

	if (!cpuc || !w || !queue_is_overdue(w, now, STRANDED_NS))
		return false;
	kind = wait_age_is_over(w, now, STARVED_NS) ? RESCUE_ANY : RESCUE_OWED;
	if (!rescue_one(cpu, dsq_id, kind, STARVED_SCAN_MAX))
		return false;
	stat_inc(cpuc, STAT_SERVE_RESCUED);
	return true;
}

__noinline bool rescue_from_others(s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	const struct llc_topo *topo;
	u32 i, idx;

	topo = cpuc ? try_lookup_llc_topo(cpuc->topo.llc_idx) : NULL;
	if (!topo)
		return false;
	cpuc->rescue.look_at_others_at = now + STARVED_INTERVAL_NS;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		idx = topo->neighbours[i];
		if (rescue_stranded(cpu, queue_batch(idx), now) ||
		    rescue_stranded(cpu, queue_interactive(idx), now))
			return true;
	}
	cpuc->rescue.look_at_others_at = now + STARVED_RETRY_NS;
	return false;
}

__hidden bool rescue_is_protected(const struct task_ctx *taskc)
{
	return taskc->rescue.run_ns;
}

__hidden void rescue_begin_run(const struct task_ctx *taskc,
			       struct cpu_ctx *cpuc, u64 now)
{
	if (taskc->rescue.run_ns)
		slice_end_in(cpuc, now, taskc->rescue.run_ns);
}

__hidden void rescue_end_run(struct task_ctx *taskc)
{
	taskc->rescue.run_ns = 0;
}
