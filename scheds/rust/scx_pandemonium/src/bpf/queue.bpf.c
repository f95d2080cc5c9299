/* SPDX-License-Identifier: GPL-2.0 */
/* See queue.bpf.h for the purpose. */
#include "queue.bpf.h"
#include "policy/classify.h"
#include "policy/slice.h"
#include "policy/sojourn.h"
#include "policy/vtime.h"

__hidden s32 queue_init(void)
{
	s32 err, i;

	bpf_for(i, 0, nr_cpu_ids) {
		err = scx_bpf_create_dsq(queue_own(i), NUMA_NO_NODE);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_llcs) {
		err = scx_bpf_create_dsq(queue_interactive(i), NUMA_NO_NODE);
		if (!err)
			err = scx_bpf_create_dsq(queue_batch(i), NUMA_NO_NODE);
		if (err)
			return err;
	}
	return 0;
}

/* Return the vtime of @taskc within what may be owed to it and by it. */
static u64 bounded_vtime(struct task_struct *p, struct task_ctx *taskc,
			 struct llc_ctx *llcc)
{
	u64 clock = READ_ONCE(llcc->clock.at);
	/*
	 * Credit is for those who use it for a fast answer. A batch task that
	 * slept gets to the front once, and so does a new one, which has a head
	 * start of another kind. One that did not sleep was kept waiting and
	 * may be owed as much as anybody.
	 */
	bool is_brief = taskc->age < AGE_GATE ||
			(taskc->tier == TIER_BATCH && taskc->is_waking);
	u64 lag_max_ns = is_brief ? knobs.batch_lag_max_ns : knobs.lag_max_ns;

	return vtime_cap_debt(
		vtime_cap_lag(taskc->vtime, clock, lag_max_ns, p->scx.weight),
		clock, knobs.lag_max_ns, p->scx.weight);
}

/* Move the task of @taskc to @vtime, and its place in the queue with it. */
static void set_vtime(struct task_ctx *taskc, u64 vtime)
{
	taskc->vtime = vtime;
	taskc->place_vtime = vtime;
}

__hidden void queue_depart(struct task_ctx *taskc, const struct llc_ctx *llcc)
{
	taskc->is_away = 1;
	/*
	 * Its lag is that behind the others, whose average is what it comes back
	 * to. Behind an average that it is part of itself it would be less, by as
	 * much for each sleep: enough for two tasks that wake each other to stay
	 * near the clock whatever they use.
	 */
	taskc->left_lag = llcc->clock.at - taskc->vtime;
	taskc->left_served = llcc->clock.served;
}

__hidden void queue_return(struct task_ctx *taskc)
{
	struct llc_ctx *llcc = lookup_llc(taskc->llc_idx);

	taskc->is_away = 0;
	if (!llcc)
		return;
	set_vtime(taskc, clock_return(&llcc->clock, taskc->left_lag,
				      taskc->left_served));
}

__hidden void queue_bound_lag(struct task_struct *p, struct task_ctx *taskc,
			      struct llc_ctx *llcc)
{
	if (taskc->counted_weight)
		return;
	set_vtime(taskc, bounded_vtime(p, taskc, llcc));
}

__hidden u64 queue_slice_ns(struct task_ctx *taskc)
{
	return slice_for_tier(taskc->served_tier, taskc->avg_runtime_ns,
			      knobs.slice_ns, knobs.batch_slice_ns);
}

__hidden u64 queue_rank(struct task_ctx *taskc)
{
	u64 vtime = taskc->is_rotated ? taskc->vtime : taskc->place_vtime;

	return vtime_rank(vtime, taskc->served_tier, taskc->is_sponsored);
}

/* Return the count of those that wait in @dsq_id. */
static struct waiters *waiters_of(u64 dsq_id)
{
	u32 idx = dsq_id, kind = dsq_id >> DSQ_KIND_SHIFT;
	struct cpu_ctx *cpuc;
	struct llc_ctx *llcc;

	if (kind == DSQ_KIND_OWN) {
		cpuc = lookup_cpu(idx);
		return cpuc ? &cpuc->own : NULL;
	}
	llcc = lookup_llc(idx);
	if (!llcc)
		return NULL;
	return kind == DSQ_KIND_INTERACTIVE ? &llcc->interactive : &llcc->batch;
}

/* Count the task of @taskc among those that wait in @dsq_id. */
static void queue_enter(struct task_ctx *taskc, u64 dsq_id)
{
	struct waiters *w = waiters_of(dsq_id);
	u32 group;

	if (!w)
		return;
	group = sojourn_young(w);
	taskc->waits_in = dsq_id;
	taskc->waits_group = group;
	__sync_fetch_and_add(&w->nr[group & 1], 1);
}

__hidden bool queue_leave(struct task_ctx *taskc)
{
	struct waiters *w;

	if (!taskc->waits_in)
		return false;
	w = waiters_of(taskc->waits_in);
	if (w)
		__sync_fetch_and_add(&w->nr[taskc->waits_group & 1], -1);
	taskc->waits_in = 0;
	return true;
}

__hidden void queue_insert(struct task_struct *p, struct task_ctx *taskc,
			   struct llc_ctx *llcc, u64 dsq_id, u64 enq_flags)
{
	queue_enter(taskc, dsq_id);
	scx_bpf_dsq_insert_vtime(p, dsq_id, queue_slice_ns(taskc),
				 queue_rank(taskc), enq_flags);
	__sync_fetch_and_add(&llcc->nr_inserts, 1);
}

__hidden u64 queue_nr_inserts(void)
{
	struct llc_ctx *llcc = lookup_llc(0);
	u64 nr = llcc ? READ_ONCE(llcc->nr_inserts) : 0;
	u32 i;

	if (nr_llcs == 1)
		return nr;
	bpf_for(i, 1, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			break;
		nr += READ_ONCE(llcc->nr_inserts);
	}
	return nr;
}

__hidden bool queue_peek(u64 dsq_id, u64 *rank)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		*rank = p->scx.dsq_vtime;
		return true;
	}
	return false;
}

__hidden u32 queue_nr_waiting(const struct cpu_ctx *cpuc,
			      const struct llc_ctx *llcc)
{
	return sojourn_nr(&cpuc->own) + sojourn_nr(&llcc->interactive) +
	       sojourn_nr(&llcc->batch);
}

/* Return the weight with which @p counts beside what is in @llcc already. */
static u32 feasible_weight(struct task_struct *p, struct task_ctx *taskc,
			   struct llc_ctx *llcc)
{
	u64 others = READ_ONCE(llcc->clock.weight_sum) - taskc->counted_weight;

	return clock_feasible_weight(p->scx.weight, others, llcc->nr_cpus);
}

__hidden void queue_charge(struct task_struct *p, struct task_ctx *taskc,
			   struct llc_ctx *llcc, u64 ran_ns, bool stays)
{
	u64 step = vtime_charge(ran_ns, p->scx.weight), vtime, bounded;
	u32 old_weight = taskc->counted_weight, weight;

	taskc->vtime += step;
	vtime = taskc->vtime;
	bounded = bounded_vtime(p, taskc, llcc);
	if (bounded != vtime)
		set_vtime(taskc, bounded);
	if (!old_weight) {
		/* It may have reached the clock; if it sleeps now, why count? */
		if (stays)
			queue_join_clock(p, taskc, llcc);
		return;
	}
	weight = stays ? feasible_weight(p, taskc, llcc) : 0;

	bpf_spin_lock(&llcc->clock_lock);
	clock_advance(&llcc->clock, step, old_weight);
	if (weight != old_weight || bounded != vtime) {
		clock_leave(&llcc->clock, vtime, old_weight);
		if (weight)
			clock_join(&llcc->clock, bounded, weight);
	}
	bpf_spin_unlock(&llcc->clock_lock);

	taskc->counted_weight = weight;
}

__hidden void queue_join_clock(struct task_struct *p, struct task_ctx *taskc,
			       struct llc_ctx *llcc)
{
	u64 vtime = taskc->vtime;
	u32 weight;

	queue_leave_clock(taskc);
	if (!clock_counts(&llcc->clock, vtime))
		return;
	weight = feasible_weight(p, taskc, llcc);
	taskc->counted_weight = weight;

	bpf_spin_lock(&llcc->clock_lock);
	clock_join(&llcc->clock, vtime, weight);
	bpf_spin_unlock(&llcc->clock_lock);
}

__hidden void queue_leave_clock(struct task_ctx *taskc)
{
	u32 weight = taskc->counted_weight;
	u64 vtime = taskc->vtime;
	struct llc_ctx *llcc;

	if (!weight)
		return;
	taskc->counted_weight = 0;
	llcc = lookup_llc(taskc->llc_idx);
	if (!llcc)
		return;

	bpf_spin_lock(&llcc->clock_lock);
	clock_leave(&llcc->clock, vtime, weight);
	bpf_spin_unlock(&llcc->clock_lock);
}

__hidden void queue_forget(struct task_ctx *taskc)
{
	queue_leave(taskc);
	queue_leave_clock(taskc);
	taskc->enqueued_at = 0;
}

__hidden void queue_move_llc(struct task_struct *p, struct task_ctx *taskc,
			     struct llc_ctx *llcc)
{
	bool is_counted = taskc->counted_weight;
	struct llc_ctx *old_llcc;

	/* It leaves the old clock at the vtime that it had by that clock. */
	queue_leave_clock(taskc);
	old_llcc = lookup_llc(taskc->llc_idx);
	if (old_llcc) {
		taskc->vtime = vtime_rebase(taskc->vtime, old_llcc->clock.at,
					    llcc->clock.at);
		taskc->place_vtime = vtime_rebase(
			taskc->place_vtime, old_llcc->clock.at, llcc->clock.at);
	}
	taskc->llc_idx = llcc->idx;
	if (is_counted)
		queue_join_clock(p, taskc, llcc);
}

/*
 * Move what waits in @dsq_id for @cpu to the global DSQ: tasks that were on that
 * CPU, or all. Return how many.
 */
static u32 evacuate_from(u64 dsq_id, s32 cpu, bool is_all)
{
	struct task_struct *p;
	u32 nr_moved = 0;

	/* It ends with who is there now: nobody who comes later is seen. */
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if ((is_all || scx_bpf_task_cpu(p) == cpu) &&
		    scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_GLOBAL, 0))
			nr_moved++;
	}
	return nr_moved;
}

u32 queue_evacuate(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->llc_idx) : NULL;
	u32 nr;

	if (!llcc)
		return 0;
	/* Linux 6.12 takes a timer of a sleepable ops.init() for sleepable. */
	bpf_rcu_read_lock();
	nr = evacuate_from(queue_own(cpu), cpu, true) +
	     evacuate_from(queue_interactive(llcc->idx), cpu, false) +
	     evacuate_from(queue_batch(llcc->idx), cpu, false);
	bpf_rcu_read_unlock();
	return nr;
}
