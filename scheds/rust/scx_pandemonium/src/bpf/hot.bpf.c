/* SPDX-License-Identifier: GPL-2.0 */
/* hot: whose data is in the cache of a CPU? See hot.bpf.h. */
#include "hot.bpf.h"
#include "queue.bpf.h"
#include "policy/hot.h"
#include "policy/slice.h"
#include "policy/vtime.h"

enum hot_room_consts {
	/* Tasks of a queue that a CPU looks at. */
	HOT_SCAN_MAX = 32,
};

/* The best task that was found so far. */
struct hot_choice {
	struct task_struct *p; /* to be compared only: it may be gone */
	u64 since;	       /* when it began to wait */
	u64 latest;	       /* the last rank that is as good as the first */
	enum hot_kind kind;
};

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
 * Choose a task of @dsq_id for @cpu, with a rank of no more than a turn after
 * that of the first that is not left to another CPU.
 */
static __always_inline void choose_hot(struct hot_choice *best, s32 cpu,
				       u64 dsq_id)
{
	u64 now = scx_bpf_now(), since;
	struct task_struct *p;
	struct task_ctx *taskc;
	enum hot_kind kind;
	u32 nr = 0;

	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (nr++ == HOT_SCAN_MAX ||
		    (best->p && vtime_before(best->latest, p->scx.dsq_vtime)))
			break;
		taskc = try_lookup_task(p);
		if (!taskc || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		since = taskc->account.runnable_at;
		kind = hot_kind(scx_bpf_task_cpu(p) == cpu,
				!taskc->slice.turn_is_over, now - since);
		if (kind == HOT_LEFT)
			continue;
		if (!best->p)
			best->latest = p->scx.dsq_vtime + turn_ns(cpu);
		else if (!hot_goes_before(kind, since, best->kind, best->since))
			continue;
		best->p = p;
		best->since = since;
		best->kind = kind;
	}
}

__noinline bool hot_keeps(s32 cpu, u64 dsq_id, u64 prev_rank)
{
	struct hot_choice best = {};

	choose_hot(&best, cpu, dsq_id);
	return best.p && best.kind == HOT_FAR &&
	       !vtime_before(best.latest, prev_rank);
}

__noinline bool hot_move_to_local(s32 cpu, u64 dsq_id)
{
	struct hot_choice best = {};
	struct task_struct *p;
	u32 nr = 0;

	choose_hot(&best, cpu, dsq_id);
	if (!best.p)
		return false;
	/* Only a task that the iterator is at can be moved. */
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (p == best.p)
			return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p,
						SCX_DSQ_LOCAL, 0);
		if (++nr == HOT_SCAN_MAX)
			break;
	}
	return false;
}
