/* SPDX-License-Identifier: GPL-2.0 */
/* See account.bpf.h for the purpose. */
#include "account.bpf.h"
#include "classify.bpf.h"
#include "dispatch.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"
#include "stats.bpf.h"
#include "policy/classify.h"
#include "policy/vtime.h"

__hidden void account_begin_run(struct task_struct *p, struct task_ctx *taskc,
				struct cpu_ctx *cpuc, struct llc_ctx *llcc,
				u64 now)
{
	taskc->started_at = now;
	if (taskc->is_rotated) {
		taskc->is_rotated = 0;
		taskc->slice_used_ns = 0;
		taskc->place_vtime = taskc->vtime;
	}

	cpuc->started_at = now;
	cpuc->curr_tier = taskc->served_tier;
	cpuc->curr_rank = vtime_rank(taskc->vtime, taskc->served_tier,
				     taskc->is_sponsored);
	cpuc->curr_weight = p->scx.weight;
	cpuc->is_busy = 1;
	dispatch_bound_run(taskc, cpuc, llcc, now);
	if (!rescue_protect_run(taskc, cpuc, llcc, now))
		preempt_offer(cpuc, llcc, taskc->served_tier);
}

/* The run of @p ends at @now: charge it. @stays if @p remains runnable. */
static void end_run(struct task_struct *p, struct task_ctx *taskc,
		    struct llc_ctx *llcc, u64 now, bool stays)
{
	s64 ran_ns = now - taskc->started_at;

	/* A change of nice or affinity may come from a CPU with another clock. */
	if (ran_ns < 0)
		ran_ns = 0;
	taskc->started_at = now;
	queue_join_llc(p, taskc, llcc);
	taskc->slice_used_ns += ran_ns;
	queue_charge(p, taskc, llcc, ran_ns, stays);
	classify_stopping(taskc, ran_ns);
}

__hidden void account_end_run(struct task_struct *p, struct task_ctx *taskc,
			      struct llc_ctx *llcc, u64 now)
{
	end_run(p, taskc, llcc, now, true);
	classify_served_tier(p, taskc, llcc);
}

/* File how long @taskc waited from becoming ready to running. */
static void file_wait(struct task_ctx *taskc, struct cpu_ctx *cpuc, u64 now)
{
	s64 wait_ns = now - taskc->enqueued_at;

	if (!taskc->enqueued_at)
		return;
	/* Stamped by another CPU, whose clock may be ahead of ours. */
	if (wait_ns < 0)
		wait_ns = 0;
	taskc->enqueued_at = 0;
	taskc->last_wait_ns = wait_ns;
	if ((u64)wait_ns > cpuc->max_wait_ns)
		cpuc->max_wait_ns = wait_ns;
	if (taskc->is_waking) {
		classify_woken(taskc);
		stats_wakeup_latency(cpuc, taskc->tier, wait_ns);
	}
}

/* Count whether @taskc, which woke, finds its L2 cache. */
static void file_l2(struct task_ctx *taskc, struct cpu_ctx *cpuc, s32 last_cpu)
{
	struct cpu_ctx *last_cpuc = lookup_cpu(last_cpu);
	u32 tier = taskc->tier;

	/* It is in range; the verifier wants to see it. */
	if (!last_cpuc || tier >= NR_TIERS)
		return;
	if (last_cpuc->l2_idx == cpuc->l2_idx)
		cpuc->l2_hits[tier]++;
	else
		cpuc->l2_misses[tier]++;
}

/* Count the move if @taskc runs on another CPU, or domain, than last time. */
static void file_migration(struct task_ctx *taskc, struct cpu_ctx *cpuc)
{
	s32 last_cpu = taskc->last_cpu;

	taskc->last_cpu = cpuc->cpu;
	if (last_cpu < 0)
		return;
	if (has_idle_choice() && taskc->is_waking)
		file_l2(taskc, cpuc, last_cpu);
	if (last_cpu == cpuc->cpu)
		return;
	stat_inc(cpuc, STAT_MIGRATE);
	/* Still the domain that it ran in before: it joins this one next. */
	if (taskc->llc_idx != cpuc->llc_idx)
		stat_inc(cpuc, STAT_MIGRATE_LLC);
}

__hidden void account_running(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->llc_idx) : NULL;
	u64 now = scx_bpf_now();

	if (!taskc || !llcc)
		return;
	/* It came by a way on which the kernel asks nobody. */
	if (taskc->is_away)
		queue_return(taskc);
	file_migration(taskc, cpuc);
	file_wait(taskc, cpuc, now);
	queue_join_llc(p, taskc, llcc);
	/*
	 * What a task is owed changes while it waits, and a young one may have
	 * passed the gate with this wakeup.
	 */
	if (queue_leave(taskc) || taskc->is_fed ||
	    taskc->age <= AGE_GATE_BURST) {
		taskc->is_fed = 0;
		classify_served_tier(p, taskc, llcc);
	}
	taskc->slice_ns = p->scx.slice;
	cpuc->took_at = now;
	WRITE_ONCE(cpuc->granted_ns, 0);
	account_begin_run(p, taskc, cpuc, llcc, now);
}

__hidden void account_tick(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->llc_idx) : NULL;
	u64 now = scx_bpf_now();

	if (!taskc || !llcc)
		return;
	account_end_run(p, taskc, llcc, now);
	account_begin_run(p, taskc, cpuc, llcc, now);
}

__hidden void account_stopping(struct task_struct *p, bool is_runnable)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->llc_idx) : NULL;
	u64 now = scx_bpf_now();
	bool stays;

	if (!taskc || !llcc)
		return;
	/*
	 * Whom a change of nice or affinity takes off the CPU is about to be
	 * queued again, as if it had been preempted. If it was about to sleep, it
	 * seems to do so now and to wake at once.
	 */
	stays = is_runnable || !p->__state;
	end_run(p, taskc, llcc, now, stays);
	rescue_end_run(taskc);
	cpuc->is_busy = 0;
	WRITE_ONCE(cpuc->slice_ends_at, 0);
	if (!stays) {
		taskc->is_rotated = 1;
		queue_depart(taskc, llcc);
		classify_sleep(p, taskc, now);
		return;
	}
	taskc->enqueued_at = now;
	if (!taskc->is_rotated)
		stat_inc(cpuc, STAT_PREEMPTED);
}
