/* SPDX-License-Identifier: GPL-2.0 */
/* hot: whose data is in the cache of a CPU? See hot.bpf.h. */
#include "hot.bpf.h"
#include "queue.bpf.h"
#include "policy/hot.h"
#include "policy/slice.h"
#include "policy/vtime.h"

/* Return how long a turn of batch work is in the domain of @cpu. */
static u64 turn_ns(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	return llcc ? slice_contended(queue_nr_batch(llcc), llcc->topo.nr_cpus,
				      knobs.latency_target_ns,
				      knobs.batch_slice_ns)
		    : 0;
}

/*
 * Choose a task of @dsq_id, of the first @nr_max, for @cpu, where we are: with
 * a rank as good as that of the first that is not left to another CPU. Return
 * its id, or 0.
 *
 * Seen by the verifier once, not at each call, and with any @nr_max: told of
 * the number it would go round as often.
 */
__noinline s32 hot_choose(s32 cpu, u64 dsq_id, u32 nr_max)
{
	u64 now = scx_bpf_now(), best = 0, latest = 0, score;
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct task_struct *p;
	struct task_ctx *taskc;
	s32 best_pid = 0;
	s64 waited_ns;
	u32 nr = 0;

	if (!cpuc)
		return 0;
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (++nr > nr_max ||
		    (best && vtime_before(latest, p->scx.dsq_vtime)))
			break;
		taskc = try_lookup_task(p);
		if (!taskc || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		waited_ns = now - taskc->account.runnable_at;
		score = hot_score(hot_kind(scx_bpf_task_cpu(p) == cpu,
					   !taskc->slice.turn_is_over,
					   taskc->classify.tier > TIER_BATCH,
					   waited_ns),
				  waited_ns);
		if (score && !best)
			latest = p->scx.dsq_vtime + hot_near_ns(turn_ns(cpu));
		if (score > best) {
			best = score;
			best_pid = p->pid;
		}
	}
	cpuc->hot.best = best;
	cpuc->hot.latest = latest;
	return best_pid;
}

__hidden bool hot_keeps(struct cpu_ctx *cpuc, u64 dsq_id, u64 prev_rank)
{
	return hot_choose(cpuc->topo.cpu, dsq_id, HOT_SCAN_MAX) &&
	       hot_kind_of(cpuc->hot.best) == HOT_FAR &&
	       !vtime_before(cpuc->hot.latest, prev_rank);
}

__noinline bool hot_move_to_local(s32 cpu, u64 dsq_id, u32 nr_max)
{
	s32 pid = hot_choose(cpu, dsq_id, nr_max);
	struct task_struct *p;
	u32 nr = 0;

	if (!pid)
		return false;
	/* Only a task that the iterator is at can be moved. */
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (p->pid == pid)
			return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p,
						SCX_DSQ_LOCAL, 0);
		if (++nr > nr_max)
			break;
	}
	return false;
}
