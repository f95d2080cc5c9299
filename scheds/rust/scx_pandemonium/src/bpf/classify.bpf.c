/* SPDX-License-Identifier: GPL-2.0 */
/* classify: what kind of task is this? See classify.bpf.h. */
#include "classify.bpf.h"
#include "stats.bpf.h"
#include "policy/classify.h"
#include "policy/compositor.h"
#include "policy/gate.h"
#include "policy/hint.h"
#include "policy/slice.h"
#include "policy/vtime.h"

enum classify_room_consts {
	/*
	 * How far ahead of the clock a task may be and still go before batch
	 * work: the clock is as coarse as the runs that move it.
	 */
	LOAN_NS = 500 * NSEC_PER_USEC,
	/* Enqueues that a CPU counts alone before it tells its domain. */
	ENQUEUES_AT_ONCE = 16,
};

static u64 bounded_interval(u64 from, u64 to)
{
	u64 interval_ns = to - from;

	return interval_ns < INTERVAL_MAX_NS ? interval_ns : INTERVAL_MAX_NS;
}

/* Return @tier as what is known of the program of @taskc makes it. */
static u32 bound_tier(const struct task_ctx *taskc, u32 tier)
{
	return hint_bound_tier(tier, taskc->hint.known.least_tier,
			       taskc->hint.known.greatest_tier,
			       classify_is_long(taskc));
}

/*
 * Return @tier, which the task of @taskc has shown itself to be of, as what may
 * bring it elsewhere makes it, the weakest first:
 *
 *   1. what its program is remembered for, while it has shown little itself;
 *   2. its compositor;
 *   3. a rule, since the user knows better.
 *
 * Not inlined, since of most programs nothing is known.
 */
static __noinline u32 known_tier(const struct task_ctx *taskc, u32 tier)
{
	u32 source = taskc->hint.known.source;

	if (source == HINT_MEMORY && !classify_is_proven(taskc))
		tier = bound_tier(taskc, tier);
	tier = compositor_raise(tier, taskc->hint.tier_floor);
	return source == HINT_RULE ? bound_tier(taskc, tier) : tier;
}

/* The task of @taskc has shown itself to be of @tier. */
static void set_tier(struct task_ctx *taskc, u32 tier)
{
	if (taskc->hint.known.source == HINT_NONE)
		tier = compositor_raise(tier, taskc->hint.tier_floor);
	else
		tier = known_tier(taskc, tier);
	taskc->classify.tier = tier;
}

/* Renew the tier of @taskc. Its own rhythm counts only if the score is low. */
static void update_tier(struct task_ctx *taskc)
{
	const struct classify_task *seen = &taskc->classify;
	u64 own_score = 0;

	if (seen->score < knobs.lat_cri_thresh_low)
		own_score = classify_own_score(seen->avg_runtime_ns,
					       seen->avg_sleep_ns,
					       seen->runtime_dev_ns);
	set_tier(taskc,
		 classify_tier(seen->age, seen->score, own_score,
			       seen->avg_runtime_ns, seen->wake_interval_ns,
			       seen->burst_ns, classify_burst_max_ns(taskc),
			       knobs.lat_cri_thresh_high,
			       knobs.lat_cri_thresh_low));
}

__hidden void classify_init_task(struct task_ctx *taskc)
{
	taskc->classify.avg_runtime_ns =
		taskc->hint.known.avg_runtime_ns ?: NEW_TASK_RUNTIME_NS;
	taskc->classify.wake_interval_ns = NEW_TASK_INTERVAL_NS;
	taskc->classify.switch_interval_ns = NEW_TASK_INTERVAL_NS;
	set_tier(taskc, TIER_INTERACTIVE);
}

__hidden void classify_recall(struct task_ctx *taskc)
{
	taskc->classify.age = 0;
	taskc->classify.burst_ns = 0;
	taskc->classify.runtime_dev_ns = 0;
	taskc->classify.avg_runtime_ns = taskc->hint.known.avg_runtime_ns;
	/* A token is for what may turn out to be waited for. */
	if (taskc->hint.known.greatest_tier == TIER_BATCH)
		taskc->classify.is_admitted = 0;
	set_tier(taskc, TIER_INTERACTIVE);
}

/*
 * The task of @taskc slept from @slept_at until a chain of wakeups reached it,
 * each by the task that woke before. Its sleep was over when the interrupt came
 * that began the chain; from then on it waited for these tasks. Two that do
 * nothing but wake each other never sleep: they are a hog in parts.
 */
static void follow_sleep(struct task_ctx *taskc, u64 slept_at)
{
	u64 ended_at = taskc->classify.chain_began_at;

	taskc->classify.avg_sleep_ns =
		classify_ewma(taskc->classify.avg_sleep_ns,
			      vtime_before(slept_at, ended_at)
				      ? bounded_interval(slept_at, ended_at)
				      : 0,
			      taskc->classify.age);
}

__hidden void classify_wakeup(struct task_ctx *taskc,
			      const struct task_ctx *wakerc,
			      struct cpu_ctx *cpuc, u64 now)
{
	taskc->classify.chain_began_at =
		wakerc ? wakerc->classify.chain_began_at : now;
	if (taskc->classify.woke_at)
		taskc->classify.wake_interval_ns = classify_ewma(
			taskc->classify.wake_interval_ns,
			bounded_interval(taskc->classify.woke_at, now),
			taskc->classify.age);
	if (taskc->classify.slept_at) {
		stats_sleep(cpuc, now - taskc->classify.slept_at);
		follow_sleep(taskc, taskc->classify.slept_at);
	}
	taskc->classify.woke_at = now;
	taskc->classify.is_waking = 1;
	taskc->classify.burst_ns = 0;
	/* More may be known of its program by now. */
	if (taskc->hint.known.source != HINT_NONE)
		set_tier(taskc, taskc->classify.tier);
}

__hidden void classify_woken(struct task_ctx *taskc)
{
	taskc->classify.is_waking = 0;
	if (taskc->classify.age < AGE_MATURE)
		taskc->classify.age++;
	if (taskc->classify.age >= AGE_GATE)
		taskc->classify.is_admitted = 0;
}

__hidden void classify_set_waker(struct task_ctx *taskc, bool is_batch)
{
	taskc->classify.woken_by_batch = is_batch;
}

__hidden void classify_raise_tier(struct task_ctx *taskc)
{
	set_tier(taskc, taskc->classify.tier);
}

__hidden void classify_enqueued(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	u64 nr;

	cpuc->classify.nr_enqueues++;
	if (cpuc->classify.nr_enqueues % ENQUEUES_AT_ONCE)
		return;
	nr = __sync_fetch_and_add(&llcc->classify.nr_enqueues,
				  ENQUEUES_AT_ONCE);
	/* Two CPUs that end samples together lose one of them. */
	if ((nr + ENQUEUES_AT_ONCE) % SURGE_SAMPLE == 0 &&
	    surge_sample(&llcc->classify.surge, scx_bpf_now(),
			 llcc->topo.nr_scale_cpus))
		stat_inc(cpuc, STAT_SURGE);
}

__hidden void classify_admit(struct task_ctx *taskc,
			     const struct task_ctx *parentc,
			     struct llc_ctx *llcc, u64 now)
{
	/* Two CPUs may take the last token together: one first run too many. */
	if (parentc->classify.served_tier == TIER_BATCH ||
	    taskc->hint.known.greatest_tier == TIER_BATCH ||
	    !gate_has_token(llcc->classify.gate_full_at, now,
			    llcc->topo.nr_scale_cpus))
		return;
	llcc->classify.gate_full_at = gate_take_token(
		llcc->classify.gate_full_at, now, llcc->topo.nr_scale_cpus);
	taskc->classify.is_admitted = 1;
}

__hidden void classify_stopping(struct task_ctx *taskc, u64 ran_ns)
{
	taskc->classify.burst_ns += ran_ns;
	if (taskc->classify.burst_ns > knobs.cpu_bound_thresh_ns)
		update_tier(taskc);
}

__hidden void classify_sleep(struct task_struct *p, struct task_ctx *taskc,
			     u64 now)
{
	u64 burst_ns = taskc->classify.burst_ns;

	taskc->classify.runtime_dev_ns = classify_ewma(
		taskc->classify.runtime_dev_ns,
		classify_deviation(burst_ns, taskc->classify.avg_runtime_ns),
		taskc->classify.age);
	taskc->classify.avg_runtime_ns = classify_ewma(
		taskc->classify.avg_runtime_ns, burst_ns, taskc->classify.age);
	if (taskc->classify.slept_at)
		taskc->classify.switch_interval_ns = classify_ewma(
			taskc->classify.switch_interval_ns,
			bounded_interval(taskc->classify.slept_at, now),
			taskc->classify.age);
	taskc->classify.slept_at = now;

	taskc->classify.score = classify_score(
		taskc->classify.wake_interval_ns,
		taskc->classify.switch_interval_ns,
		taskc->classify.avg_runtime_ns, taskc->classify.runtime_dev_ns);
	taskc->classify.burst_ns = 0;
	update_tier(taskc);
	if ((p->flags & PF_KTHREAD) && taskc->classify.tier == TIER_BATCH)
		taskc->classify.tier = TIER_INTERACTIVE;
}

/*
 * Return whether @p has shown too little to be served in its tier. In a surge,
 * as when a build starts, many have woken twice that never will again. A task
 * whose program is known to be more than batch work has nothing to show.
 */
static bool is_young(struct task_struct *p, const struct task_ctx *taskc,
		     const struct llc_ctx *llcc)
{
	if (taskc->classify.age >= AGE_GATE_SURGE || (p->flags & PF_KTHREAD) ||
	    taskc->hint.known.least_tier > TIER_BATCH)
		return false;
	return taskc->classify.age < AGE_GATE ||
	       (taskc->classify.tier < TIER_LAT_CRITICAL &&
		surge_is_on(&llcc->classify.surge, scx_bpf_now()));
}

__hidden u32 classify_served_tier(struct task_struct *p, struct task_ctx *taskc,
				  struct llc_ctx *llcc)
{
	bool is_admitted = taskc->classify.is_admitted;
	u64 loan_ns = is_admitted ? HEAD_START_FIRST_RUN_NS : LOAN_NS;
	u32 tier = taskc->classify.tier;

	if (hint_nice_weight(taskc->share.nice_weight,
			     taskc->hint.known.ignores_nice) < WEIGHT_NICE_0 ||
	    taskc->cgroup.is_idle ||
	    (!is_admitted && is_young(p, taskc, llcc)) ||
	    taskc->classify.woken_by_batch ||
	    !vtime_is_eligible(taskc->share.vtime,
			       llcc->share.clock.avg_vruntime, loan_ns))
		tier = TIER_BATCH;
	taskc->classify.served_tier = tier;
	return tier;
}

__hidden void classify_running(struct task_struct *p, struct task_ctx *taskc,
			       struct llc_ctx *llcc, bool has_waited)
{
	if (!has_waited && !taskc->classify.woken_by_batch &&
	    taskc->classify.age > AGE_GATE_SURGE)
		return;
	taskc->classify.woken_by_batch = 0;
	classify_served_tier(p, taskc, llcc);
}

__hidden u64 classify_slice_ns(const struct task_ctx *taskc)
{
	return slice_for_tier(
		taskc->classify.served_tier, taskc->classify.avg_runtime_ns,
		knobs.slice_min_ns, knobs.slice_ns, knobs.batch_slice_ns);
}
