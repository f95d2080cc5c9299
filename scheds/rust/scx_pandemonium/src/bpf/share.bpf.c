/* SPDX-License-Identifier: GPL-2.0 */
/* share: how much CPU time is a task owed? See share.bpf.h. */
#include "share.bpf.h"
#include "cgroup.bpf.h"
#include "policy/boost.h"
#include "policy/classify.h"
#include "policy/clock.h"
#include "policy/hierarchy.h"
#include "policy/hint.h"
#include "policy/vtime.h"
#include "policy/weight.h"

/* Of p->policy; the kernel has it as a macro. */
#define SCHED_IDLE 5

/*
 * The clock. A task that becomes runnable behind it has credit, and is counted
 * once it has used that up, or if it is batch work, lost some of it to the
 * bound.
 */

/*
 * Return the weight with which the task of @taskc counts beside what the clock
 * of @llcc does: no more than one CPU can serve.
 */
static u32 feasible_weight(const struct task_ctx *taskc,
			   const struct llc_ctx *llcc)
{
	u64 others = READ_ONCE(llcc->share.clock.weight_sum) -
		     taskc->share.counted_weight;

	return clock_feasible_weight(taskc->share.weight, others,
				     llcc->topo.nr_cpus);
}

/* Let the clock of @llcc count the task of @taskc, which no clock counts. */
static void enter_clock(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	u32 weight = feasible_weight(taskc, llcc);

	taskc->share.counted_weight = weight;
	bpf_spin_lock(&llcc->share.lock);
	clock_join(&llcc->share.clock, taskc->share.vtime, weight);
	bpf_spin_unlock(&llcc->share.lock);
}

/* Let the task of @taskc count nowhere. */
static void leave_clock(struct task_ctx *taskc)
{
	u32 weight = taskc->share.counted_weight;
	struct llc_ctx *llcc = weight ? lookup_llc(taskc->share.llc_idx) : NULL;

	taskc->share.counted_weight = 0;
	if (!llcc)
		return;

	bpf_spin_lock(&llcc->share.lock);
	clock_leave(&llcc->share.clock, taskc->share.vtime, weight);
	bpf_spin_unlock(&llcc->share.lock);
}

/* It becomes runnable in @llcc: the clock counts it if it has no credit. */
static void join_clock(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	leave_clock(taskc);
	if (clock_counts(&llcc->share.clock, taskc->share.vtime))
		enter_clock(taskc, llcc);
}

/*
 * Return whether the task of @taskc, which no clock counts and which stays
 * runnable, is counted by that of @llcc from now on. Of batch work that went on
 * and lost some of its credit, as it @has_lost: it gets less than the clock
 * moves on, so it would never be there.
 */
static bool is_due(const struct task_ctx *taskc, const struct llc_ctx *llcc,
		   bool has_lost)
{
	return (has_lost && taskc->classify.tier == TIER_BATCH) ||
	       clock_counts(&llcc->share.clock, taskc->share.vtime);
}

/*
 * It ran in @llcc, by which its vtime moved on by @step to @vtime, and was
 * brought within its bounds then. Unless it @stays runnable it counts no more.
 */
static void charge_clock(struct task_ctx *taskc, struct llc_ctx *llcc, u64 step,
			 u64 vtime, bool stays)
{
	u64 bounded = taskc->share.vtime;
	u32 old_weight = taskc->share.counted_weight, weight;

	if (!old_weight) {
		if (stays && is_due(taskc, llcc, bounded != vtime))
			enter_clock(taskc, llcc);
		return;
	}
	weight = stays ? feasible_weight(taskc, llcc) : 0;

	bpf_spin_lock(&llcc->share.lock);
	clock_advance(&llcc->share.clock, step, old_weight);
	if (weight != old_weight || bounded != vtime) {
		clock_leave(&llcc->share.clock, vtime, old_weight);
		if (weight)
			clock_join(&llcc->share.clock, bounded, weight);
	}
	bpf_spin_unlock(&llcc->share.lock);

	taskc->share.counted_weight = weight;
}

/* The factor of a weight. */

__hidden s32 share_init(void)
{
	struct llc_ctx *llcc;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			return -ENOENT;
		llcc->share.boost.scale = BOOST_ONE;
	}
	return 0;
}

/*
 * The task of @taskc becomes runnable in @llcc: decide its factor, until it
 * does so again. None has a task
 *
 *   1. of the batch tier, or niced down;
 *   2. that woke fewer than two times: its averages mean nothing yet;
 *   3. that batch work woke and feeds: it is a part of that.
 */
static void decide_factor(struct task_ctx *taskc, const struct llc_ctx *llcc)
{
	u32 factor = BOOST_ONE;

	if (taskc->classify.tier != TIER_BATCH &&
	    hint_nice_weight(taskc->share.nice_weight,
			     taskc->hint.known.ignores_nice) >= WEIGHT_NICE_0 &&
	    !taskc->cgroup.is_idle && taskc->classify.age >= AGE_GATE &&
	    !taskc->classify.woken_by_batch)
		factor = boost_factor(
			boost_demand(taskc->classify.avg_runtime_ns,
				     taskc->classify.avg_sleep_ns),
			knobs.boost_max, READ_ONCE(llcc->share.boost.scale));
	taskc->share.boost_factor = factor;
}

/*
 * Return @weight, that of the task of @taskc, with its factor, which it loses
 * when a long burst makes it batch work.
 */
static u32 boosted_weight(const struct task_ctx *taskc, u32 weight)
{
	if (taskc->share.boost_factor <= BOOST_ONE ||
	    taskc->classify.tier == TIER_BATCH)
		return weight;
	return weight_clamp(((u64)weight * taskc->share.boost_factor) >>
			    BOOST_SHIFT);
}

/*
 * A window of domain @llc_idx ended after @window_ns: decide how much of each
 * factor counts, by what its CPUs were used for. Seen by the verifier once.
 */
__noinline int share_end_window(u32 llc_idx, u64 window_ns)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	u64 batch_ns = 0, other_ns = 0;
	struct cpu_ctx *cpuc;
	s32 cpu;
	u32 i;

	if (!llcc)
		return -ENOENT;
	cpu = llcc->topo.first_cpu;
	bpf_for(i, 0, llcc->topo.nr_parts) {
		cpuc = lookup_cpu(cpu);
		if (!cpuc)
			break;
		batch_ns += READ_ONCE(cpuc->share.batch_ns);
		other_ns += READ_ONCE(cpuc->share.other_ns);
		cpu = cpuc->topo.next;
	}
	llcc->share.boost.scale = boost_next_scale(
		llcc->share.boost.scale, batch_ns - llcc->share.boost.batch_ns,
		other_ns - llcc->share.boost.other_ns, window_ns,
		llcc->topo.nr_cpus, knobs.batch_guarantee);
	llcc->share.boost.batch_ns = batch_ns;
	llcc->share.boost.other_ns = other_ns;
	return 0;
}

/* The task of @taskc ran for @ran_ns in @llcc until @now. */
static void count_use(const struct task_ctx *taskc, struct llc_ctx *llcc,
		      u64 ran_ns, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(bpf_get_smp_processor_id());
	u64 window_at = READ_ONCE(llcc->share.boost.window_at);

	if (!cpuc)
		return;
	if (taskc->classify.tier == TIER_BATCH)
		cpuc->share.batch_ns += ran_ns;
	else
		cpuc->share.other_ns += ran_ns;
	if ((s64)(now - window_at) >= (s64)BOOST_WINDOW_NS &&
	    __sync_bool_compare_and_swap(&llcc->share.boost.window_at,
					 window_at, now))
		share_end_window(llcc->topo.idx, now - window_at);
}

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
	u32 weight = cgroup_weight(taskc, own_weight(taskc));

	weight = part_charged_weight(last, weight);
	taskc->share.plain_weight = weight;
	taskc->share.weight = boosted_weight(taskc, weight);
	cgroup_count_load(taskc, llcc, weight, now);
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
	u64 clock = READ_ONCE(llcc->share.clock.avg_vruntime);
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
	u32 runnable_weight = taskc->cgroup.counted_weight;
	bool is_counted = taskc->share.counted_weight;
	struct llc_ctx *old_llcc;
	u64 shift;

	/* At the vtime that it had by the old clock. */
	leave_clock(taskc);
	old_llcc = lookup_llc(taskc->share.llc_idx);
	if (old_llcc) {
		cgroup_leave(taskc, old_llcc);
		shift = llcc->share.clock.avg_vruntime -
			old_llcc->share.clock.avg_vruntime;
		taskc->share.vtime += shift;
		taskc->share.turn_vtime += shift;
	}
	taskc->share.llc_idx = llcc->topo.idx;
	cgroup_join(taskc, llcc, runnable_weight);
	/* Even if it is behind: a domain must not seem to have less to do. */
	if (is_counted)
		enter_clock(taskc, llcc);
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
	set_vtime(taskc, clock_return(&llcc->share.clock, taskc->share.vlag,
				      taskc->share.slept_at_served));
}

__hidden void share_enable(struct task_struct *p, struct task_ctx *taskc,
			   const struct llc_ctx *llcc)
{
	taskc->share.llc_idx = llcc->topo.idx;
	taskc->share.vtime = llcc->share.clock.avg_vruntime;
	taskc->share.vlag = 0;
	taskc->share.slept_at_served = llcc->share.clock.served;
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
	cgroup_join(taskc, llcc, own_weight(taskc));
	decide_factor(taskc, llcc);
	renew_weight(taskc, llcc, 0, now);
	if (!taskc->share.counted_weight)
		set_vtime(taskc, bounded_vtime(taskc, llcc));
	join_clock(taskc, llcc);
	return 0;
}

__hidden void share_stay_runnable(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	join_llc(taskc, llcc);
	if (!taskc->share.counted_weight)
		join_clock(taskc, llcc);
}

__hidden void share_running(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	if (taskc->share.is_sleeping)
		wake(taskc);
	join_llc(taskc, llcc);
	cgroup_join(taskc, llcc, own_weight(taskc));
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
	count_use(taskc, llcc, ran_ns, now);
	renew_weight(taskc, llcc, taskc->share.last_weight, now);
	taskc->share.last_weight = taskc->share.plain_weight;
	step = vtime_charge(ran_ns, taskc->share.weight);
	taskc->share.vtime += step;
	vtime = taskc->share.vtime;
	bounded = bounded_vtime(taskc, llcc);
	if (bounded != vtime)
		set_vtime(taskc, bounded);
	charge_clock(taskc, llcc, step, vtime, stays);
	return 0;
}

__hidden void share_sleep(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	cgroup_leave(taskc, llcc);
	taskc->share.is_sleeping = 1;
	/*
	 * Its lag is that behind the others, to whose average it comes back.
	 * Behind one that it is part of it would be less, by as much for each
	 * sleep: two that wake each other would stay near it whatever they use.
	 */
	taskc->share.vlag = llcc->share.clock.avg_vruntime - taskc->share.vtime;
	taskc->share.slept_at_served = llcc->share.clock.served;
}

__hidden void share_yield(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	u64 clock = READ_ONCE(llcc->share.clock.avg_vruntime);

	taskc->share.has_yielded = 1;
	if (!vtime_before(taskc->share.vtime, clock))
		return;
	leave_clock(taskc);
	set_vtime(taskc, clock);
	enter_clock(taskc, llcc);
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
	leave_clock(taskc);
	taskc->share.nice_weight = nice_weight(p);
	taskc->share.last_weight = 0;
	if (taskc->cgroup.counted_weight)
		cgroup_join(taskc, llcc, own_weight(taskc));
}

__hidden void share_disable(struct task_ctx *taskc)
{
	struct llc_ctx *llcc = lookup_llc(taskc->share.llc_idx);

	leave_clock(taskc);
	if (llcc)
		cgroup_leave(taskc, llcc);
}

__hidden u64 share_rank(const struct task_ctx *taskc,
			const struct llc_ctx *llcc)
{
	u64 vtime = taskc->slice.turn_is_over ? taskc->share.vtime
					      : taskc->share.turn_vtime;
	enum tier tier = taskc->classify.served_tier;

	/* Due more than a CPU, it cannot make up for a wait: it goes first. */
	if (tier == TIER_BATCH &&
	    feasible_weight(taskc, llcc) < taskc->share.weight)
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
