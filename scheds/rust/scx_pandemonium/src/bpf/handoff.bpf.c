/* SPDX-License-Identifier: GPL-2.0 */
/* handoff: does the waker give its CPU to the wakee? See handoff.bpf.h. */
#include "handoff.bpf.h"
#include "queue.bpf.h"
#include "slice.bpf.h"
#include "policy/vtime.h"

enum handoff_consts {
	/*
	 * A waker with an average burst below this is about to sleep, so its
	 * CPU is free sooner than another one could be woken.
	 */
	HANDOFF_SYNC_MAX_NS = 500 * NSEC_PER_USEC,
	/*
	 * Without a sync hint, one below this is; to send an interrupt to
	 * another CPU and switch there takes as long.
	 */
	HANDOFF_UNASKED_MAX_NS = 50 * NSEC_PER_USEC,
	/* If the waker goes on all the same, its run ends after this. */
	HANDOFF_WAIT_MAX_NS = 500 * NSEC_PER_USEC,
	/*
	 * While tasks wait, a CPU is handed on for so long at a time: what the
	 * head start of the tier that may ask for it is worth.
	 */
	HANDOFF_CHAIN_MAX_NS = HEAD_START_LAT_CRITICAL_NS,
};

/*
 * Return how long the task of @taskc, which runs on @cpuc's CPU, has worked at
 * @now since it woke.
 */
static u64 open_burst_ns(const struct task_ctx *taskc,
			 const struct cpu_ctx *cpuc, u64 now)
{
	s64 ran_ns = now - cpuc->account.run_started_at;

	return taskc->classify.burst_ns + (ran_ns > 0 ? ran_ns : 0);
}

/*
 * Return whether the task of @wakerc, which runs on @cpuc's CPU, usually sleeps
 * within @soon_ns, and this time has not yet gone on for longer.
 */
static bool sleeps_within(const struct task_ctx *wakerc,
			  const struct cpu_ctx *cpuc, u64 soon_ns, u64 now)
{
	return wakerc->classify.avg_runtime_ns <= soon_ns &&
	       open_burst_ns(wakerc, cpuc, now) <= soon_ns;
}

/* Return whether ops.dispatch() was asked since @cpuc's CPU was handed on. */
static bool has_asked(const struct cpu_ctx *cpuc)
{
	return vtime_before(cpuc->handoff.began_at, cpuc->dispatch.asked_at);
}

/*
 * Return for how long, until @now, @cpuc's CPU has been handed from task to
 * task without a look at the queues.
 */
static u64 handed_on_ns(const struct cpu_ctx *cpuc, u64 now)
{
	return has_asked(cpuc) ? 0 : now - cpuc->handoff.began_at;
}

__hidden bool handoff_is_due(const struct task_ctx *taskc,
			     const struct task_ctx *wakerc,
			     struct cpu_ctx *cpuc, bool is_sync)
{
	/* That of the wakee's last CPU may be another. */
	struct llc_ctx *llcc = lookup_llc(cpuc->topo.llc_idx);
	u64 now = taskc->account.runnable_at;
	u64 soon_ns = is_sync ? HANDOFF_SYNC_MAX_NS : HANDOFF_UNASKED_MAX_NS;

	if (!llcc || taskc->classify.avg_runtime_ns > HANDOFF_SYNC_MAX_NS ||
	    !sleeps_within(wakerc, cpuc, soon_ns, now))
		return false;
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) || queue_nr_own(cpuc))
		return false;
	if (!queue_nr_waiting(cpuc, llcc))
		return true;
	return taskc->classify.served_tier != TIER_BATCH &&
	       handed_on_ns(cpuc, now) < HANDOFF_CHAIN_MAX_NS;
}

__hidden void handoff_begin(struct cpu_ctx *cpuc, u64 now)
{
	if (has_asked(cpuc))
		cpuc->handoff.began_at = now;
	slice_end_in(cpuc, now, HANDOFF_WAIT_MAX_NS);
}

__hidden bool handoff_let_finish(struct cpu_ctx *cpuc, u64 now)
{
	s64 ran_ns = now - cpuc->account.run_started_at;

	if (ran_ns >= HANDOFF_UNASKED_MAX_NS)
		return false;
	slice_end_in(cpuc, now, HANDOFF_UNASKED_MAX_NS);
	return true;
}
