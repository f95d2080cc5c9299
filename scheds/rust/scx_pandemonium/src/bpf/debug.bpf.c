/* SPDX-License-Identifier: GPL-2.0 */
/*
 * debug: what does the scheduler think of tasks, and of its state? See
 * debug.bpf.h.
 */
#include "debug.bpf.h"
#include "classify.bpf.h"
#include "queue.bpf.h"
#include "policy/hint.h"

__hidden void debug_dump(void)
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
			     llcc->share.clock.avg_vruntime);
	}
}

__hidden void debug_dump_cpu(s32 cpu, bool is_idle)
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

__hidden void debug_dump_task(struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc;
	u64 now = scx_bpf_now();

	if (!taskc)
		return;
	llcc = lookup_llc(taskc->share.llc_idx);
	if (!llcc)
		return;
	scx_bpf_dump(
		"tier %u, score %llu, age %u, LLC %u, ahead %lld us\n",
		taskc->classify.tier, taskc->classify.score,
		taskc->classify.age, taskc->share.llc_idx,
		(s64)(taskc->share.vtime - llcc->share.clock.avg_vruntime) /
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

/*
 * Two task iterators. tasks_list writes one struct task_row for each task that
 * ran since the scheduler was attached; nothing is known of the others.
 * tasks_learn writes one struct learned_row for each that has shown what it is
 * by itself and ran since it was read last. They run when the loader reads them
 * and cost nothing otherwise.
 *
 * The fields are read while their task may change them on another CPU: each is
 * right, a row need not be that of one instant.
 */

enum tasks_consts {
	/* Priorities below are those of real-time classes. */
	PRIO_NORMAL_MIN = 100,
};

/* When tasks_learn was read last, and when the present reading began. */
static u64 learned_at, learning_at;

/*
 * Return the context of @p; NULL if it has not run yet, or is none of ours
 * since it is dead or real-time.
 */
static struct task_ctx *ctx_of_ours(struct task_struct *p)
{
	struct task_ctx *taskc;

	if (p->exit_state || p->prio < PRIO_NORMAL_MIN)
		return NULL;
	taskc = try_lookup_task(p);
	return taskc && taskc->account.last_cpu >= 0 ? taskc : NULL;
}

/* Return why @p, that of @taskc, is of its tier; the strongest reason first. */
static u32 tier_reason(struct task_struct *p, const struct task_ctx *taskc)
{
	u32 floor = taskc->hint.tier_floor;

	if (taskc->hint.known.source == HINT_RULE &&
	    (taskc->hint.known.least_tier > TIER_BATCH ||
	     taskc->hint.known.greatest_tier < TIER_LAT_CRITICAL))
		return REASON_RULE;
	if (floor > TIER_BATCH && taskc->classify.tier <= floor)
		return REASON_COMPOSITOR;
	if ((p->flags & PF_KTHREAD) && taskc->classify.tier == TIER_INTERACTIVE)
		return REASON_KERNEL;
	if (taskc->hint.known.source == HINT_MEMORY &&
	    !classify_is_proven(taskc))
		return REASON_MEMORY;
	return REASON_BEHAVIOUR;
}

/* Return the weight of the nice level of @taskc, as far as it counts. */
static u32 counted_nice_weight(const struct task_ctx *taskc)
{
	return hint_nice_weight(taskc->share.nice_weight,
				taskc->hint.known.ignores_nice);
}

/* The same of @p in hundredths, as the kernel has it. */
static u32 counted_weight(const struct task_struct *p,
			  const struct task_ctx *taskc)
{
	return counted_nice_weight(taskc) == taskc->share.nice_weight
		       ? p->scx.weight
		       : CGROUP_WEIGHT_DFL;
}

/* Return what keeps the task of @taskc in batch whatever its tier is. */
static u32 held_by(const struct task_ctx *taskc)
{
	if (taskc->cgroup.is_idle)
		return HELD_BY_CGROUP;
	if (counted_nice_weight(taskc) >= WEIGHT_NICE_0)
		return HELD_BY_NOTHING;
	return taskc->share.nice_weight == WEIGHT_IDLE ? HELD_BY_SCHED_IDLE
						       : HELD_BY_NICE;
}

/* Write to @row what the task of @taskc is entitled to. */
static void fill_weights(struct task_row *row, const struct task_ctx *taskc)
{
	row->own_weight = hint_scale_weight(counted_nice_weight(taskc),
					    taskc->hint.known.weight_factor);
	row->plain_weight = taskc->share.plain_weight;
	row->charged_weight = taskc->share.weight;
}

SEC("iter/task")
int tasks_list(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct task_row row = {};
	struct task_ctx *taskc;

	/* The last call has no task. */
	taskc = p ? ctx_of_ours(p) : NULL;
	if (!taskc)
		return 0;

	row.pid = p->pid;
	row.tgid = p->tgid;
	row.tier = taskc->classify.tier;
	row.served_tier = taskc->classify.served_tier;
	row.tier_floor = taskc->hint.tier_floor;
	row.tier_ceiling = TIER_LAT_CRITICAL;
	/* A memory does not bound what a task may show itself to be. */
	if (taskc->hint.known.source == HINT_RULE) {
		row.tier_floor = hint_bound_tier(
			row.tier_floor, taskc->hint.known.least_tier,
			taskc->hint.known.greatest_tier,
			classify_is_long(taskc));
		row.tier_ceiling = taskc->hint.known.greatest_tier;
	}
	row.hint_source = taskc->hint.known.source;
	row.tier_reason = tier_reason(p, taskc);
	row.held_by = held_by(taskc);
	fill_weights(&row, taskc);
	row.age = taskc->classify.age;
	row.weight = counted_weight(p, taskc) *
		     taskc->hint.known.weight_factor / HINT_FACTOR_ONE;
	row.score = taskc->classify.score;
	/* Before the first sleep it is an assumption. */
	row.avg_runtime_ns =
		taskc->classify.slept_at ? taskc->classify.avg_runtime_ns : 0;
	row.burst_ns = taskc->classify.burst_ns;
	row.wake_interval_ns = taskc->classify.wake_interval_ns;
	row.slice_ns = taskc->slice.granted_ns;
	row.last_wait_ns = taskc->account.last_wait_ns;
	__builtin_memcpy(row.comm, p->comm, sizeof(row.comm));
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

/*
 * Return whether what the task of @taskc does is worth remembering: it shows by
 * itself what it is, no rule and no compositor's name, and it did something.
 */
static bool is_instructive(const struct task_ctx *taskc)
{
	return taskc->hint.program && classify_is_proven(taskc) &&
	       taskc->hint.known.source != HINT_RULE &&
	       taskc->hint.tier_floor == TIER_BATCH &&
	       (s64)(taskc->account.run_started_at - learned_at) > 0;
}

SEC("iter/task")
int tasks_learn(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct learned_row row = {};
	struct task_ctx *taskc;

	if (!p) {
		learned_at = learning_at;
		return 0;
	}
	if (!ctx->meta->seq_num)
		learning_at = scx_bpf_now();
	taskc = ctx_of_ours(p);
	if (!taskc || !is_instructive(taskc))
		return 0;

	row.program = taskc->hint.program;
	row.tgid = p->tgid;
	row.uid = BPF_CORE_READ(p, cred, uid.val);
	row.tier = taskc->classify.tier;
	row.score = taskc->classify.score;
	row.avg_runtime_ns = taskc->classify.avg_runtime_ns;
	if (taskc->classify.burst_ns > row.avg_runtime_ns)
		row.avg_runtime_ns = taskc->classify.burst_ns;
	__builtin_memcpy(row.comm, p->comm, sizeof(row.comm));
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}
