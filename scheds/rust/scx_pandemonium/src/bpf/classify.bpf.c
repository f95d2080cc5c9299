/* SPDX-License-Identifier: GPL-2.0 */
/* See classify.bpf.h for the purpose. */
#include "classify.bpf.h"
#include "stats.bpf.h"
#include "policy/classify.h"
#include "policy/compositor.h"
#include "policy/gate.h"
#include "policy/vtime.h"

enum classify_room_consts {
	NEW_TASK_INTERVAL_NS = 50 * NSEC_PER_MSEC,
	NEW_TASK_RUNTIME_NS = 1 * NSEC_PER_MSEC,
	/*
	 * One long pause must not hide that a task wakes often otherwise, so
	 * no interval counts for more than this.
	 */
	INTERVAL_MAX_NS = 250 * NSEC_PER_MSEC,
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

/* Renew the tier of @taskc. Kernel threads are interactive at least. */
static void update_tier(struct task_ctx *taskc)
{
	u32 tier = classify_tier(taskc->age, taskc->score,
				 taskc->avg_runtime_ns, taskc->wake_interval_ns,
				 taskc->burst_ns, knobs.cpu_bound_thresh_ns,
				 knobs.lat_cri_thresh_high,
				 knobs.lat_cri_thresh_low);

	taskc->tier = compositor_raise(tier, taskc->tier_floor);
}

__hidden void classify_init_task(struct task_ctx *taskc)
{
	taskc->avg_runtime_ns = NEW_TASK_RUNTIME_NS;
	taskc->wake_interval_ns = NEW_TASK_INTERVAL_NS;
	taskc->switch_interval_ns = NEW_TASK_INTERVAL_NS;
	taskc->tier = TIER_INTERACTIVE;
	taskc->last_cpu = -1;
}

__hidden void classify_wakeup(struct task_ctx *taskc, struct cpu_ctx *cpuc,
			      u64 now)
{
	if (taskc->woke_at)
		taskc->wake_interval_ns = classify_ewma(
			taskc->wake_interval_ns,
			bounded_interval(taskc->woke_at, now), taskc->age);
	if (taskc->slept_at)
		stats_sleep(cpuc, now - taskc->slept_at);
	taskc->woke_at = now;
	taskc->is_waking = 1;
	taskc->burst_ns = 0;
}

__hidden void classify_woken(struct task_ctx *taskc)
{
	taskc->is_waking = 0;
	if (taskc->age < AGE_MATURE)
		taskc->age++;
	if (taskc->age >= AGE_GATE)
		taskc->is_sponsored = 0;
}

__hidden void classify_enqueued(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	u64 nr;

	cpuc->nr_enqueues++;
	if (cpuc->nr_enqueues % ENQUEUES_AT_ONCE)
		return;
	nr = __sync_fetch_and_add(&llcc->nr_enqueues, ENQUEUES_AT_ONCE);
	/* Two CPUs that end samples together lose one of them. */
	if ((nr + ENQUEUES_AT_ONCE) % BURST_SAMPLE == 0 &&
	    burst_sample(&llcc->burst, scx_bpf_now(), llcc->nr_cpus))
		stat_inc(cpuc, STAT_BURST);
}

__hidden void classify_sponsor(struct task_ctx *taskc, struct task_ctx *parentc,
			       struct llc_ctx *llcc, u64 now)
{
	/* Two CPUs may take the last token together: one first run too many. */
	if (parentc->served_tier == TIER_BATCH ||
	    !gate_has_token(llcc->gate_full_at, now, llcc->nr_cpus))
		return;
	llcc->gate_full_at =
		gate_take_token(llcc->gate_full_at, now, llcc->nr_cpus);
	taskc->is_sponsored = 1;
}

__hidden void classify_stopping(struct task_ctx *taskc, u64 ran_ns)
{
	taskc->burst_ns += ran_ns;
	if (taskc->burst_ns > knobs.cpu_bound_thresh_ns)
		update_tier(taskc);
}

__hidden void classify_sleep(struct task_struct *p, struct task_ctx *taskc,
			     u64 now)
{
	u64 burst_ns = taskc->burst_ns;

	taskc->runtime_dev_ns = classify_ewma(
		taskc->runtime_dev_ns,
		classify_deviation(burst_ns, taskc->avg_runtime_ns),
		taskc->age);
	taskc->avg_runtime_ns =
		classify_ewma(taskc->avg_runtime_ns, burst_ns, taskc->age);
	if (taskc->slept_at)
		taskc->switch_interval_ns = classify_ewma(
			taskc->switch_interval_ns,
			bounded_interval(taskc->slept_at, now), taskc->age);
	taskc->slept_at = now;

	taskc->score = classify_score(
		taskc->wake_interval_ns, taskc->switch_interval_ns,
		taskc->avg_runtime_ns, taskc->runtime_dev_ns);
	/* The burst is over: the next one starts from nothing. */
	taskc->burst_ns = 0;
	update_tier(taskc);
	if ((p->flags & PF_KTHREAD) && taskc->tier == TIER_BATCH)
		taskc->tier = TIER_INTERACTIVE;
}

/*
 * Return whether @p has shown too little to be served in its tier. In a burst, as
 * when a build starts, many have woken twice that never will again.
 */
static bool is_young(struct task_struct *p, const struct task_ctx *taskc,
		     const struct llc_ctx *llcc)
{
	if (taskc->age >= AGE_GATE_BURST || (p->flags & PF_KTHREAD))
		return false;
	return taskc->age < AGE_GATE ||
	       (taskc->tier < TIER_LAT_CRITICAL &&
		burst_is_on(&llcc->burst, scx_bpf_now()));
}

__hidden u32 classify_served_tier(struct task_struct *p, struct task_ctx *taskc,
				  struct llc_ctx *llcc)
{
	u64 loan_ns = taskc->is_sponsored ? HEAD_START_FIRST_RUN_NS : LOAN_NS;
	u32 tier = taskc->tier;

	if (p->scx.weight < WEIGHT_NICE_0 ||
	    (!taskc->is_sponsored && is_young(p, taskc, llcc)) ||
	    taskc->is_fed ||
	    !vtime_has_credit(taskc->vtime, llcc->clock.at, loan_ns))
		tier = TIER_BATCH;
	taskc->served_tier = tier;
	return tier;
}
