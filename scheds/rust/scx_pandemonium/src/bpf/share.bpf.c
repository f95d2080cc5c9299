/* SPDX-License-Identifier: GPL-2.0 */
/* share: how much CPU time is a task owed? See share.bpf.h. */
#include "share.bpf.h"
#include "boost.bpf.h"
#include "group.bpf.h"
#include "lag.bpf.h"
#include "policy/classify.h"
#include "policy/hierarchy.h"
#include "policy/hint.h"
#include "policy/vtime.h"
#include "policy/weight.h"

/* Of p->policy; the kernel has it as a macro. */
#define SCHED_IDLE 5

/*
 * Return the weight of the task of @taskc beside others of its cgroup: that of
 * its nice level, and what is said of its program.
 */
static u32 own_weight(const struct task_ctx *taskc)
{
	u32 weight = taskc->share.nice_weight;

	if (taskc->hint.known.source == HINT_NONE)
		return weight;
	weight = hint_nice_weight(weight, taskc->hint.known.ignores_nice);
	return hint_scale_weight(weight, taskc->hint.known.weight_factor);
}

/*
 * The task of @taskc is runnable in @llcc: its weight is what its nice level,
 * its cgroup and its demand entitle it to, beside all that is runnable @now.
 * For a run that ends, @last is what it was at the end of the last one, or 0.
 */
static void renew_weight(struct task_ctx *taskc, struct llc_ctx *llcc, u32 last,
			 u64 now)
{
	u32 weight = group_weight(taskc, own_weight(taskc));

	weight = part_charged_weight(last, weight);
	taskc->share.plain_weight = weight;
	taskc->share.weight = boost_weight(taskc, weight);
	group_count_load(taskc, llcc, weight, now);
}

/* Return the weight of the nice level of @p. */
static u32 nice_weight(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? WEIGHT_IDLE
				       : weight_of_prio(p->static_prio);
}

/* Move the task of @taskc to @vtime, and its place in the queue with it. */
static void set_vtime(struct task_ctx *taskc, u64 vtime)
{
	taskc->share.vtime = vtime;
	taskc->share.turn_vtime = vtime;
}

/*
 * Return the vtime of @taskc within what may be owed to it and by it. A factor
 * of its weight does not bring it nearer to the clock: it would have to wait.
 */
static u64 bounded_vtime(const struct task_ctx *taskc,
			 const struct llc_ctx *llcc)
{
	u64 clock = READ_ONCE(llcc->lag.clock.avg_vruntime);
	/*
	 * Credit is for a fast answer. A batch task that slept gets to the
	 * front once, and so does a new one that was not let through the gate.
	 * Batch work that did not sleep was kept waiting and is owed all of it.
	 */
	bool is_brief = taskc->classify.tier == TIER_BATCH
				? taskc->classify.is_waking
				: taskc->classify.age < AGE_GATE &&
					  !taskc->classify.is_admitted;
	u64 lag_max_ns = is_brief ? knobs.batch_lag_max_ns : knobs.lag_max_ns;

	return vtime_cap_debt(vtime_cap_lag(taskc->share.vtime, clock,
					    lag_max_ns,
					    taskc->share.plain_weight),
			      clock, knobs.lag_max_ns, taskc->share.weight);
}

/*
 * Bring the task of @taskc over to the clock of @llcc: what it is owed stays
 * the same, and its weight counts there if it counted where it was.
 */
static void move_llc(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	u32 runnable_weight = taskc->group.counted_weight;
	bool is_counted = taskc->lag.counted_weight;
	struct llc_ctx *old_llcc;
	u64 shift;

	/* At the vtime that it had by the old clock. */
	lag_leave(taskc);
	old_llcc = lookup_llc(taskc->share.llc_idx);
	if (old_llcc) {
		group_leave(taskc, old_llcc);
		shift = llcc->lag.clock.avg_vruntime -
			old_llcc->lag.clock.avg_vruntime;
		taskc->share.vtime += shift;
		taskc->share.turn_vtime += shift;
	}
	taskc->share.llc_idx = llcc->topo.idx;
	group_join(taskc, llcc, runnable_weight);
	/* Even if it is behind: a domain must not seem to have less to do. */
	if (is_counted)
		lag_enter(taskc, llcc);
}

/* The same, if it is not there yet. */
static __always_inline void join_llc(struct task_ctx *taskc,
				     struct llc_ctx *llcc)
{
	if (taskc->share.llc_idx != llcc->topo.idx)
		move_llc(taskc, llcc);
}

/* It wakes: it is owed what it was when it fell asleep, and more. */
static void wake(struct task_ctx *taskc)
{
	struct llc_ctx *llcc = lookup_llc(taskc->share.llc_idx);

	taskc->share.is_sleeping = 0;
	if (!llcc)
		return;
	set_vtime(taskc, lag_return(llcc, taskc->share.vlag,
				    taskc->share.slept_at_served));
}

__hidden void share_enable(struct task_struct *p, struct task_ctx *taskc,
			   const struct llc_ctx *llcc)
{
	taskc->share.llc_idx = llcc->topo.idx;
	taskc->share.vtime = llcc->lag.clock.avg_vruntime;
	taskc->share.vlag = 0;
	taskc->share.slept_at_served = llcc->lag.clock.served;
	taskc->share.nice_weight = nice_weight(p);
	taskc->share.plain_weight = own_weight(taskc);
	taskc->share.weight = taskc->share.plain_weight;
}

/* Not static, so that the verifier walks it once, not at each call. */
__noinline int share_become_runnable(struct task_ctx *taskc __arg_nonnull,
				     u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);

	if (!llcc)
		return -ENOENT;
	if (taskc->share.is_sleeping)
		wake(taskc);
	join_llc(taskc, llcc);
	group_join(taskc, llcc, own_weight(taskc));
	boost_become_runnable(taskc, llcc);
	renew_weight(taskc, llcc, 0, now);
	if (!taskc->lag.counted_weight)
		set_vtime(taskc, bounded_vtime(taskc, llcc));
	lag_join(taskc, llcc);
	return 0;
}

__hidden void share_stay_runnable(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	join_llc(taskc, llcc);
	if (!taskc->lag.counted_weight)
		lag_join(taskc, llcc);
}

__hidden void share_running(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	if (taskc->share.is_sleeping)
		wake(taskc);
	join_llc(taskc, llcc);
	group_join(taskc, llcc, own_weight(taskc));
}

/* Not static, as share_become_runnable(). */
__noinline int share_charge(struct task_ctx *taskc __arg_nonnull, u32 llc_idx,
			    u64 ran_ns, u64 now, bool stays)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	u64 step, vtime, bounded;

	if (!llcc)
		return -ENOENT;
	join_llc(taskc, llcc);
	boost_count(taskc, llcc, ran_ns, now);
	renew_weight(taskc, llcc, taskc->share.last_weight, now);
	taskc->share.last_weight = taskc->share.plain_weight;
	step = vtime_charge(ran_ns, taskc->share.weight);
	taskc->share.vtime += step;
	vtime = taskc->share.vtime;
	bounded = bounded_vtime(taskc, llcc);
	if (bounded != vtime)
		set_vtime(taskc, bounded);
	lag_charge(taskc, llcc, step, vtime, stays);
	return 0;
}

__hidden void share_sleep(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	group_leave(taskc, llcc);
	taskc->share.is_sleeping = 1;
	/*
	 * Its lag is that behind the others, to whose average it comes back.
	 * Behind one that it is part of it would be less, by as much for each
	 * sleep: two that wake each other would stay near it whatever they use.
	 */
	taskc->share.vlag = llcc->lag.clock.avg_vruntime - taskc->share.vtime;
	taskc->share.slept_at_served = llcc->lag.clock.served;
}

__hidden void share_yield(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	u64 clock = READ_ONCE(llcc->lag.clock.avg_vruntime);

	taskc->share.has_yielded = 1;
	if (!vtime_before(taskc->share.vtime, clock))
		return;
	lag_leave(taskc);
	set_vtime(taskc, clock);
	lag_enter(taskc, llcc);
}

__hidden void share_begin_turn(struct task_ctx *taskc)
{
	taskc->share.turn_vtime = taskc->share.vtime;
	taskc->share.has_yielded = 0;
}

__hidden void share_set_weight(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc = taskc ? lookup_llc(taskc->share.llc_idx) : NULL;

	if (!llcc)
		return;
	lag_leave(taskc);
	taskc->share.nice_weight = nice_weight(p);
	taskc->share.last_weight = 0;
	if (taskc->group.counted_weight)
		group_join(taskc, llcc, own_weight(taskc));
}

__hidden void share_disable(struct task_ctx *taskc)
{
	struct llc_ctx *llcc = lookup_llc(taskc->share.llc_idx);

	lag_leave(taskc);
	if (llcc)
		group_leave(taskc, llcc);
}

__hidden u64 share_rank(const struct task_ctx *taskc,
			const struct llc_ctx *llcc)
{
	u64 vtime = taskc->slice.turn_is_over ? taskc->share.vtime
					      : taskc->share.turn_vtime;
	enum tier tier = taskc->classify.served_tier;

	/* Due more than a CPU, it cannot make up for a wait: it goes first. */
	if (tier == TIER_BATCH &&
	    lag_feasible_weight(taskc, llcc) < taskc->share.weight)
		vtime -= HEAD_START_WHOLE_CPU_NS;
	return vtime_rank(vtime, tier, taskc->classify.is_admitted);
}

__hidden u64 share_curr_rank(const struct cpu_ctx *cpuc, u64 now)
{
	s64 ran_ns = now - cpuc->account.run_started_at;

	/* Stamped by another CPU, whose clock may be ahead of ours. */
	return cpuc->account.rank +
	       vtime_charge(ran_ns > 0 ? ran_ns : 0, cpuc->account.weight);
}
