/* SPDX-License-Identifier: GPL-2.0 */
/* lag: how far is a task from its fair share? See lag.bpf.h. */
#include "lag.bpf.h"
#include "policy/clock.h"

__hidden u32 lag_feasible_weight(const struct task_ctx *taskc,
				 const struct llc_ctx *llcc)
{
	u64 others = READ_ONCE(llcc->lag.clock.weight_sum) -
		     taskc->lag.counted_weight;

	return clock_feasible_weight(taskc->share.weight, others,
				     llcc->topo.nr_cpus);
}

__hidden u64 lag_return(const struct llc_ctx *llcc, s64 lag, u64 served)
{
	return clock_return(&llcc->lag.clock, lag, served);
}

__hidden void lag_enter(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	u32 weight = lag_feasible_weight(taskc, llcc);

	taskc->lag.counted_weight = weight;
	bpf_spin_lock(&llcc->lag.lock);
	clock_join(&llcc->lag.clock, taskc->share.vtime, weight);
	bpf_spin_unlock(&llcc->lag.lock);
}

__hidden void lag_leave(struct task_ctx *taskc)
{
	u32 weight = taskc->lag.counted_weight;
	struct llc_ctx *llcc = weight ? lookup_llc(taskc->share.llc_idx) : NULL;

	taskc->lag.counted_weight = 0;
	if (!llcc)
		return;

	bpf_spin_lock(&llcc->lag.lock);
	clock_leave(&llcc->lag.clock, taskc->share.vtime, weight);
	bpf_spin_unlock(&llcc->lag.lock);
}

__hidden void lag_join(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	lag_leave(taskc);
	if (clock_counts(&llcc->lag.clock, taskc->share.vtime))
		lag_enter(taskc, llcc);
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
	       clock_counts(&llcc->lag.clock, taskc->share.vtime);
}

__hidden void lag_charge(struct task_ctx *taskc, struct llc_ctx *llcc, u64 step,
			 u64 vtime, bool stays)
{
	u64 bounded = taskc->share.vtime;
	u32 old_weight = taskc->lag.counted_weight, weight;

	if (!old_weight) {
		if (stays && is_due(taskc, llcc, bounded != vtime))
			lag_enter(taskc, llcc);
		return;
	}
	weight = stays ? lag_feasible_weight(taskc, llcc) : 0;

	bpf_spin_lock(&llcc->lag.lock);
	clock_advance(&llcc->lag.clock, step, old_weight);
	if (weight != old_weight || bounded != vtime) {
		clock_leave(&llcc->lag.clock, vtime, old_weight);
		if (weight)
			clock_join(&llcc->lag.clock, bounded, weight);
	}
	bpf_spin_unlock(&llcc->lag.lock);

	taskc->lag.counted_weight = weight;
}
