/* SPDX-License-Identifier: GPL-2.0 */
/* queue: where do tasks wait, and in which order? See queue.bpf.h. */
#include "queue.bpf.h"
#include "classify.bpf.h"
#include "share.bpf.h"
#include "policy/vtime.h"

enum queue_pause_consts {
	/* To look at no more tasks than that costs little. */
	LOOK_SHORT_MAX = 64,
	/* The pause for each task looked at in vain: a hundred times that. */
	LOOK_PAUSE_NS = 32 * NSEC_PER_USEC,
};

__hidden s32 queue_init(void)
{
	s32 err, i;

	bpf_for(i, 0, nr_cpu_ids) {
		err = scx_bpf_create_dsq(queue_own(i), NUMA_NO_NODE);
		if (!err)
			err = scx_bpf_create_dsq(queue_near(i), NUMA_NO_NODE);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_llcs) {
		err = scx_bpf_create_dsq(queue_interactive(i), NUMA_NO_NODE);
		if (err)
			return err;
	}
	return 0;
}

__hidden struct waiters *queue_waiters(u64 dsq_id)
{
	u32 idx = dsq_id, kind = dsq_id >> DSQ_KIND_SHIFT;
	struct cpu_ctx *cpuc;
	struct llc_ctx *llcc;

	if (kind == DSQ_KIND_OWN) {
		cpuc = lookup_cpu(idx);
		return cpuc ? &cpuc->queue.own : NULL;
	}
	if (kind == DSQ_KIND_NEAR) {
		cpuc = lookup_cpu(idx);
		if (!cpuc)
			return NULL;
		idx = cpuc->topo.llc_idx;
	}
	llcc = lookup_llc(idx);
	if (!llcc)
		return NULL;
	return kind == DSQ_KIND_INTERACTIVE ? &llcc->queue.interactive
					    : &llcc->queue.batch;
}

/*
 * Add @nr to *@count, before all that is read or written after it. Without a
 * use of what was there before it were no barrier on arm64.
 */
#define add_ordered(count, nr)                                           \
	({                                                               \
		typeof(*(count)) old_ = __sync_fetch_and_add(count, nr); \
                                                                         \
		barrier_var(old_);                                       \
	})

/* One task more, or less, waits in @dsq_id, which may be near a CPU. */
static void count_near(u64 dsq_id, s32 nr)
{
	struct cpu_ctx *cpuc;

	if (dsq_id >> DSQ_KIND_SHIFT != DSQ_KIND_NEAR)
		return;
	cpuc = lookup_cpu((u32)dsq_id);
	if (cpuc)
		add_ordered(&cpuc->queue.nr_near, nr);
}

/* Count the task of @taskc among the tasks that wait in @dsq_id. */
static void count_waiting(struct task_ctx *taskc, u64 dsq_id)
{
	struct waiters *w = queue_waiters(dsq_id);
	u32 group;

	if (!w)
		return;
	group = wait_age_group(w, taskc->account.runnable_at);
	taskc->queue.dsq_id = dsq_id;
	taskc->queue.group = group;
	add_ordered(&w->nr[group & 1], 1);
	count_near(dsq_id, 1);
}

__hidden bool queue_uncount(struct task_ctx *taskc)
{
	struct waiters *w;

	if (!taskc->queue.dsq_id)
		return false;
	w = queue_waiters(taskc->queue.dsq_id);
	if (w)
		__sync_fetch_and_add(&w->nr[taskc->queue.group & 1], -1);
	count_near(taskc->queue.dsq_id, -1);
	taskc->queue.dsq_id = 0;
	return true;
}

__hidden void queue_insert(struct task_struct *p, struct task_ctx *taskc,
			   struct llc_ctx *llcc, u64 dsq_id, u64 enq_flags)
{
	u64 rank = share_rank(taskc, llcc), last;

	if (taskc->share.has_yielded && queue_peek(dsq_id, true, &last) &&
	    vtime_before(rank, last))
		rank = last;
	count_waiting(taskc, dsq_id);
	scx_bpf_dsq_insert_vtime(p, dsq_id, classify_slice_ns(taskc), rank,
				 enq_flags);
	/* To no other CPU is it news that a task waits in an own queue. */
	if (dsq_id >> DSQ_KIND_SHIFT == DSQ_KIND_OWN)
		return;
	if (p->nr_cpus_allowed < nr_cpu_ids)
		__sync_fetch_and_add(&llcc->queue.nr_restricted, 1);
	add_ordered(&llcc->queue.nr_inserts, 1);
}

__noinline u32 queue_nr_queued(u64 dsq_id)
{
	u32 i, nr_parts, nr = 0;
	s32 cpu = -1, nr_there;
	u64 part;

	nr_parts = queue_nr_parts(dsq_id, &cpu);
	bpf_for(i, 0, nr_parts) {
		part = queue_next_part(dsq_id, &cpu);
		nr_there = part ? scx_bpf_dsq_nr_queued(part) : 0;
		if (nr_there > 0)
			nr += nr_there;
	}
	return nr;
}

/* As queue_first(), in the place of a call: there is little stack left. */
static __always_inline u64 find_first(u64 dsq_id, s32 cpu, u64 before,
				      bool is_bounded)
{
	struct task_struct *p;
	u64 part, first = 0;
	s32 near = cpu;
	u32 i, nr_parts;

	nr_parts = queue_nr_parts(dsq_id, &near);
	bpf_for(i, 0, nr_parts) {
		part = queue_next_part(dsq_id, &near);
		if (!part)
			continue;
		bpf_for_each(scx_dsq, p, part, 0) {
			if ((first || is_bounded) &&
			    !vtime_before(p->scx.dsq_vtime, before))
				break;
			if (is_bounded && !may_run_on(p, cpu))
				break;
			before = p->scx.dsq_vtime;
			first = part;
			break;
		}
	}
	return first;
}

__noinline u64 queue_first(u64 dsq_id, s32 cpu, u64 before, bool is_bounded)
{
	return find_first(dsq_id, cpu, before, is_bounded);
}

/*
 * Move a task of @dsq_id that this CPU, @cpu, may run to its local DSQ, the
 * first if that is one. Return whether there was one. Seen by the verifier
 * once, not at each call.
 */
__noinline bool queue_take_first(u64 dsq_id, s32 cpu)
{
	bool has_parts = dsq_id >> DSQ_KIND_SHIFT == DSQ_KIND_BATCH;
	u64 part, first = dsq_id;
	s32 near = cpu;
	u32 i, nr_parts;

	nr_parts = queue_nr_parts(dsq_id, &near);
	if (has_parts)
		first = find_first(dsq_id, cpu, 0, false);
	if (first && scx_bpf_dsq_move_to_local(first, 0))
		return true;
	if (!has_parts)
		return false;
	bpf_for(i, 0, nr_parts) {
		part = queue_next_part(dsq_id, &near);
		if (part && part != first && scx_bpf_dsq_move_to_local(part, 0))
			return true;
	}
	return false;
}

/*
 * Pauses. To take the first task that a CPU may run the kernel goes through all
 * before it, and holds the lock of the queue meanwhile. With a thousand tasks
 * there that keep to other CPUs, each CPU that goes idle would do that, in
 * vain. So a CPU that found none of many leaves the queue alone for a while.
 *
 * It looks at once if a task came since that all CPUs may run. One that only
 * some may run, this one among them, may wait until the pause is over; but if
 * the CPU was idle as it came, its pause ends.
 */

/* Return how many tasks that all CPUs may run were ever queued in @llcc. */
static u64 nr_free_inserts(const struct llc_ctx *llcc)
{
	return READ_ONCE(llcc->queue.nr_inserts) -
	       READ_ONCE(llcc->queue.nr_restricted);
}

/*
 * Return whether the kernel has inserted all that are counted in @dsq_id, of
 * which it holds @nr_queued.
 */
static bool is_complete(u64 dsq_id, u32 nr_queued)
{
	const struct waiters *w = queue_waiters(dsq_id);

	return w && wait_age_nr(w) <= nr_queued;
}

/* Return whether @cpuc's CPU may still run nothing in the queue it left. */
static bool is_pausing(const struct cpu_ctx *cpuc)
{
	struct llc_ctx *llcc = lookup_llc((u32)cpuc->queue.pause.dsq_id);

	return llcc && cpuc->queue.pause.nr_inserts == nr_free_inserts(llcc) &&
	       vtime_before(scx_bpf_now(), cpuc->queue.pause.until);
}

/*
 * @cpu found nothing in @dsq_id. If the queue is long, look once more, at what
 * is there for certain, since a task is counted before. Return whether that
 * found a task; if not, the CPU pauses.
 *
 * Seen by the verifier once, not at each call.
 */
__noinline bool queue_look_well(u64 dsq_id, s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = lookup_llc((u32)dsq_id);
	u32 nr = queue_nr_queued(dsq_id);
	bool is_all_there;
	u64 nr_inserts;

	if (!cpuc || !llcc || nr <= LOOK_SHORT_MAX)
		return false;
	nr_inserts = nr_free_inserts(llcc);
	is_all_there = is_complete(dsq_id, nr);
	if (queue_take_first(dsq_id, cpu))
		return true;
	if (is_all_there) {
		cpuc->queue.pause.dsq_id = dsq_id;
		cpuc->queue.pause.nr_inserts = nr_inserts;
		cpuc->queue.pause.until =
			scx_bpf_now() + (u64)nr * LOOK_PAUSE_NS;
	}
	return false;
}

__noinline bool queue_take(u64 dsq_id, s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (!cpuc || (cpuc->queue.pause.dsq_id == dsq_id && is_pausing(cpuc)))
		return false;
	return queue_take_first(dsq_id, cpu) || queue_look_well(dsq_id, cpu);
}

__hidden void queue_end_pause(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (cpuc)
		WRITE_ONCE(cpuc->queue.pause.dsq_id, 0);
}

__hidden bool queue_peek(u64 dsq_id, bool is_last, u64 *rank)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq_id, is_last ? SCX_DSQ_ITER_REV : 0) {
		*rank = p->scx.dsq_vtime;
		return true;
	}
	return false;
}

__noinline bool queue_is_batch_first(u64 dsq_id)
{
	struct task_struct *p;
	struct task_ctx *taskc;

	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		taskc = try_lookup_task(p);
		return taskc && taskc->classify.served_tier == TIER_BATCH;
	}
	return false;
}

__noinline u32 queue_peek_load(u64 dsq_id)
{
	u64 first = queue_first(dsq_id, -1, 0, false);
	struct task_struct *p;
	struct task_ctx *taskc;

	if (!first)
		return 0;
	bpf_for_each(scx_dsq, p, first, 0) {
		taskc = try_lookup_task(p);
		return taskc ? taskc->cgroup.counted_load : 0;
	}
	return 0;
}

__hidden bool queue_is_overdue(struct waiters *w, u64 now, u64 thresh_ns)
{
	u32 generation = READ_ONCE(w->generation);

	if (wait_age_must_advance(w)) {
		/* First: its new group must not seem as old as the last one. */
		WRITE_ONCE(w->closed_at, now);
		WRITE_ONCE(w->look_after_ns, 0);
		__sync_bool_compare_and_swap(&w->generation, generation,
					     generation + 1);
		return false;
	}
	return wait_age_is_over(w, now, thresh_ns);
}

__hidden void queue_defer_overdue(struct waiters *w, u64 now)
{
	WRITE_ONCE(w->look_after_ns,
		   wait_age_look_after_ns(w, now, knobs.sojourn_thresh_ns / 2));
}

/*
 * Move what waits in @dsq_id for @cpu to the global DSQ: tasks that were on
 * that CPU, or all. Return how many.
 */
static u32 evacuate_from(u64 dsq_id, s32 cpu, bool is_all)
{
	struct task_struct *p;
	u32 nr_moved = 0;

	/* It ends with the tasks that are there now: later ones are unseen. */
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
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	u32 nr;

	if (!llcc)
		return 0;
	/* Linux 6.12 takes a timer of a sleepable ops.init() for sleepable. */
	bpf_rcu_read_lock();
	nr = evacuate_from(queue_own(cpu), cpu, true) +
	     evacuate_from(queue_interactive(llcc->topo.idx), cpu, false) +
	     evacuate_from(queue_near(cpu), cpu, true);
	bpf_rcu_read_unlock();
	return nr;
}
