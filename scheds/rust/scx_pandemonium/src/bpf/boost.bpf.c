/* SPDX-License-Identifier: GPL-2.0 */
/* boost: may a task have more than its equal share? See boost.bpf.h. */
#include "boost.bpf.h"
#include "policy/boost.h"
#include "policy/classify.h"
#include "policy/hint.h"
#include "policy/weight.h"

__hidden s32 boost_init(void)
{
	struct llc_ctx *llcc;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			return -ENOENT;
		llcc->boost.scale = BOOST_ONE;
	}
	return 0;
}

__hidden void boost_become_runnable(struct task_ctx *taskc,
				    const struct llc_ctx *llcc)
{
	u32 factor = BOOST_ONE;

	if (taskc->classify.tier != TIER_BATCH &&
	    hint_nice_weight(taskc->share.nice_weight,
			     taskc->hint.known.ignores_nice) >= WEIGHT_NICE_0 &&
	    !taskc->group.is_idle && taskc->classify.age >= AGE_GATE &&
	    !taskc->classify.woken_by_batch)
		factor = boost_factor(
			boost_demand(taskc->classify.avg_runtime_ns,
				     taskc->classify.avg_sleep_ns),
			knobs.boost_max, READ_ONCE(llcc->boost.scale));
	taskc->boost.factor = factor;
}

__hidden u32 boost_weight(const struct task_ctx *taskc, u32 weight)
{
	if (taskc->boost.factor <= BOOST_ONE ||
	    taskc->classify.tier == TIER_BATCH)
		return weight;
	return weight_clamp(((u64)weight * taskc->boost.factor) >> BOOST_SHIFT);
}

/*
 * A window of domain @llc_idx ended after @window_ns: decide how much of each
 * factor counts, by what its CPUs were used for. Seen by the verifier once.
 */
__noinline int boost_end_window(u32 llc_idx, u64 window_ns)
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
		batch_ns += READ_ONCE(cpuc->boost.batch_ns);
		other_ns += READ_ONCE(cpuc->boost.other_ns);
		cpu = cpuc->topo.next;
	}
	llcc->boost.scale = boost_next_scale(
		llcc->boost.scale, batch_ns - llcc->boost.batch_ns,
		other_ns - llcc->boost.other_ns, window_ns, llcc->topo.nr_cpus,
		knobs.batch_guarantee);
	llcc->boost.batch_ns = batch_ns;
	llcc->boost.other_ns = other_ns;
	return 0;
}

__hidden void boost_count(const struct task_ctx *taskc, struct llc_ctx *llcc,
			  u64 ran_ns, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(bpf_get_smp_processor_id());
	u64 window_at = READ_ONCE(llcc->boost.window_at);

	if (!cpuc)
		return;
	if (taskc->classify.tier == TIER_BATCH)
		cpuc->boost.batch_ns += ran_ns;
	else
		cpuc->boost.other_ns += ran_ns;
	if ((s64)(now - window_at) >= (s64)BOOST_WINDOW_NS &&
	    __sync_bool_compare_and_swap(&llcc->boost.window_at, window_at,
					 now))
		boost_end_window(llcc->topo.idx, now - window_at);
}
