/* SPDX-License-Identifier: GPL-2.0 */
/* dump: what does a report of a failure need to say? See dump.bpf.h. */
#include "dump.bpf.h"
#include "queue.bpf.h"

__hidden void dump_all(void)
{
	struct llc_ctx *llcc;
	u32 i;

	scx_bpf_dump("slice %llu us, batch %llu us, affinity mode %llu\n",
		     knobs.slice_ns / NSEC_PER_USEC,
		     knobs.batch_slice_ns / NSEC_PER_USEC, knobs.affinity_mode);
	bpf_for(i, 0, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			break;
		scx_bpf_dump("LLC %u: interactive %d, batch %d, clock %llu\n",
			     i, scx_bpf_dsq_nr_queued(queue_interactive(i)),
			     queue_nr_queued(queue_batch(i)),
			     llcc->lag.clock.avg_vruntime);
	}
}

__hidden void dump_cpu(s32 cpu, bool is_idle)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (!cpuc)
		return;
	scx_bpf_dump("own %d, %s, tier %u, weight %u, run for %llu us\n",
		     scx_bpf_dsq_nr_queued(queue_own(cpu)),
		     is_idle		     ? "idle"
		     : cpuc->account.is_busy ? "busy"
					     : "taken",
		     cpuc->account.tier, cpuc->account.weight,
		     (scx_bpf_now() - cpuc->account.run_started_at) /
			     NSEC_PER_USEC);
}

__hidden void dump_task(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc;
	u64 now = scx_bpf_now();

	if (!taskc)
		return;
	llcc = lookup_llc(taskc->share.llc_idx);
	if (!llcc)
		return;
	scx_bpf_dump("tier %u, score %llu, age %u, LLC %u, ahead %lld us\n",
		     taskc->classify.tier, taskc->classify.score,
		     taskc->classify.age, taskc->share.llc_idx,
		     (s64)(taskc->share.vtime - llcc->lag.clock.avg_vruntime) /
			     NSEC_PER_USEC);
	scx_bpf_dump("run %llu us, wakes every %llu us, waits for %llu us\n",
		     taskc->classify.avg_runtime_ns / NSEC_PER_USEC,
		     taskc->classify.wake_interval_ns / NSEC_PER_USEC,
		     taskc->account.runnable_at
			     ? (now - taskc->account.runnable_at) /
				       NSEC_PER_USEC
			     : 0);
	scx_bpf_dump("waited %llu us before its last run\n",
		     taskc->account.last_wait_ns / NSEC_PER_USEC);
}
