/* SPDX-License-Identifier: GPL-2.0 */
/*
 * account: which task uses how much CPU time, and how long did it wait? See
 * account.bpf.h.
 */
#include "account.bpf.h"
#include "cgroup.bpf.h"
#include "classify.bpf.h"
#include "frequency.bpf.h"
#include "hint.bpf.h"
#include "newidle.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"
#include "share.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "policy/vtime.h"

__hidden s32 account_init_task(struct task_struct *p,
			       struct scx_init_task_args *args)
{
	struct task_ctx *taskc = context_create_task(p);

	if (!taskc)
		return -ENOMEM;
	hint_init_task(p, taskc, args->fork);
	classify_init_task(taskc);
	if (bpf_core_field_exists(args->cgroup))
		cgroup_init_task(taskc, args->cgroup);
	taskc->account.last_cpu = -1;
	return 0;
}

/*
 * Return the CPU time that @p used since this was called last, as the kernel
 * counts it: that is what users see, also of what a switch takes.
 */
static u64 take_used_ns(const struct task_struct *p, struct task_ctx *taskc)
{
	u64 total_ns = p->se.sum_exec_runtime;
	u64 used_ns = total_ns - taskc->account.charged_ns;

	taskc->account.charged_ns = total_ns;
	return used_ns;
}

__hidden void account_enable(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	if (!taskc || !llcc)
		return;
	/* What it used in another class is not charged. */
	take_used_ns(p, taskc);
	share_enable(p, taskc, llcc);
	slice_end_turn(taskc);
}

__hidden void account_disable(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	if (!taskc || !llcc)
		return;
	queue_uncount(taskc);
	share_disable(taskc);
	taskc->account.runnable_at = 0;
	/* What ran may go on in a higher class; no callback says so. */
	if (!cpuc->account.is_busy)
		preempt_set_idle(cpuc, llcc);
}

__hidden void account_begin_wait(struct task_ctx *taskc, u64 now)
{
	taskc->account.runnable_at = now;
}

/*
 * Let @cpuc say what its CPU runs from @now on: @p. The offer follows at once: a
 * wakeup that comes before it takes what ran before for its victim.
 */
static void set_curr(const struct task_struct *p, struct cpu_ctx *cpuc,
		     const struct task_ctx *taskc, struct llc_ctx *llcc,
		     u64 now)
{
	bool is_protected =
		rescue_is_protected(taskc) || cpuc->slice.is_offline;
	u32 tier = taskc->classify.served_tier;

	cpuc->account.run_started_at = now;
	cpuc->account.tier = tier;
	cpuc->account.burst_ns = taskc->classify.avg_runtime_ns;
	cpuc->account.rank = vtime_rank(taskc->share.vtime, tier,
					taskc->classify.is_admitted);
	cpuc->account.weight = taskc->share.weight;
	cpuc->account.is_busy = 1;
	preempt_offer(p, cpuc, llcc, is_protected, now);
}

__hidden void account_begin_run(const struct task_struct *p,
				struct task_ctx *taskc, struct cpu_ctx *cpuc,
				struct llc_ctx *llcc, u64 now)
{
	taskc->account.run_started_at = now;
	taskc->account.run_is_charged = 0;
	set_curr(p, cpuc, taskc, llcc, now);
	newidle_begin_run(cpuc);
	slice_begin_run(taskc, cpuc, llcc, now);
	rescue_begin_run(taskc, cpuc, now);
}

/* A confined task ran for @ran_ns, on this CPU as a rule. */
static void count_confined(u64 ran_ns)
{
	struct cpu_ctx *cpuc = lookup_cpu(bpf_get_smp_processor_id());

	if (cpuc)
		stat_add(cpuc, STAT_CONFINED_NS, ran_ns);
}

/*
 * The run of @p ends at @now: charge it. @stays if the task remains runnable.
 */
static void charge_run(struct task_struct *p, struct task_ctx *taskc,
		       struct llc_ctx *llcc, u64 now, bool stays)
{
	u64 used_ns = take_used_ns(p, taskc);

	taskc->account.run_started_at = now;
	taskc->account.run_is_charged = 1;
	if (taskc->hint.known.is_confined)
		count_confined(used_ns);
	slice_use(taskc, used_ns);
	share_charge(taskc, llcc->topo.idx, used_ns, now, stays);
	classify_stopping(taskc, used_ns);
}

__hidden void account_end_run(struct task_struct *p, struct task_ctx *taskc,
			      struct llc_ctx *llcc, u64 now)
{
	charge_run(p, taskc, llcc, now, true);
	classify_served_tier(p, taskc, llcc);
}

/* Record how long the task of @taskc waited from runnable to running. */
static void record_wait(struct task_ctx *taskc, struct cpu_ctx *cpuc, u64 now)
{
	s64 wait_ns = now - taskc->account.runnable_at;

	if (!taskc->account.runnable_at)
		return;
	/* Stamped by another CPU, whose clock may be ahead of ours. */
	if (wait_ns < 0)
		wait_ns = 0;
	taskc->account.runnable_at = 0;
	taskc->account.last_wait_ns = wait_ns;
	stats_wait(cpuc, wait_ns);
	if (taskc->classify.is_waking) {
		classify_woken(taskc);
		stats_wakeup_latency(cpuc, taskc->classify.tier, wait_ns);
	}
}

/*
 * Count the move if @taskc runs on another CPU, or cache, than last time, and
 * if it woke, whether it finds its L2 cache.
 */
static void record_migration(struct task_ctx *taskc, struct cpu_ctx *cpuc)
{
	bool is_wakeup = has_idle_choice() && taskc->classify.is_waking;
	s32 last_cpu = taskc->account.last_cpu;
	bool is_moved = last_cpu != cpuc->topo.cpu;
	struct cpu_ctx *last_cpuc;

	taskc->account.last_cpu = cpuc->topo.cpu;
	if (last_cpu < 0)
		return;
	if (is_moved)
		stat_inc(cpuc, STAT_MIGRATE);
	if (!is_wakeup && (!is_moved || nr_caches == 1))
		return;
	last_cpuc = lookup_cpu(last_cpu);
	if (!last_cpuc)
		return;
	if (is_wakeup)
		stats_l2(cpuc, taskc->classify.tier,
			 last_cpuc->topo.l2_idx == cpuc->topo.l2_idx);
	if (last_cpuc->topo.cache_idx != cpuc->topo.cache_idx)
		stat_inc(cpuc, STAT_MIGRATE_LLC);
}

__hidden void account_running(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	u64 now = scx_bpf_now();

	if (!taskc || !llcc)
		return;
	record_migration(taskc, cpuc);
	record_wait(taskc, cpuc, now);
	share_running(taskc, llcc);
	classify_running(p, taskc, llcc, queue_uncount(taskc));
	slice_grant(taskc, p->scx.slice);
	cpuc->account.on_cpu_at = now;
	frequency_running(cpuc, now);
	account_begin_run(p, taskc, cpuc, llcc, now);
}

__hidden void account_tick(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	u64 now = scx_bpf_now();

	if (!taskc || !llcc)
		return;
	account_end_run(p, taskc, llcc, now);
	frequency_ran(cpuc, now);
	account_begin_run(p, taskc, cpuc, llcc, now);
}

__hidden void account_yield(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc = taskc ? lookup_llc(taskc->share.llc_idx) : NULL;

	if (!llcc)
		return;
	share_yield(taskc, llcc);
	slice_end_turn(taskc);
	scx_bpf_task_set_slice(p, 0);
}

__hidden void account_stopping(struct task_struct *p, bool is_runnable)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(scx_bpf_task_cpu(p));
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	u64 now = scx_bpf_now();
	bool stays;

	if (!taskc || !llcc)
		return;
	/*
	 * A task that a change of nice or affinity takes off the CPU is about
	 * to be queued again, as if it had been preempted. If it was about to
	 * sleep, it seems to do so now and to wake at once.
	 */
	stays = is_runnable || !p->__state;
	/*
	 * If the slice was used up ops.dispatch() has charged the run, to
	 * compare it with others. What it used since then is charged next time:
	 * to take the domain's lock again for that is not worth it.
	 */
	if (!stays || !taskc->account.run_is_charged)
		charge_run(p, taskc, llcc, now, stays);
	rescue_end_run(taskc);
	frequency_ran(cpuc, now);
	cpuc->account.stopped_at = now;
	cpuc->account.is_busy = 0;
	cpuc->account.is_stopped = stays;
	slice_clear_end(cpuc);
	if (!stays) {
		slice_end_turn(taskc);
		share_sleep(taskc, llcc);
		classify_sleep(p, taskc, now);
		return;
	}
	taskc->account.runnable_at = now;
	if (is_runnable)
		preempt_stopping(p, cpuc, llcc);
	if (!taskc->slice.turn_is_over)
		stat_inc(cpuc, STAT_PREEMPTED);
}
