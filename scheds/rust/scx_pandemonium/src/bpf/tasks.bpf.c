/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tasks: what does the scheduler think of each task?
 *
 * A task iterator that writes one struct task_row for each task that ran since
 * the scheduler was attached; nothing is known of the others. It runs when the
 * loader reads it and costs nothing otherwise.
 *
 * The fields are read while their task may change them on another CPU: each is
 * right, a row need not be that of one instant.
 *
 * Not here: what the values mean (classify), how they are shown (tasks.rs).
 */
#include "classify.bpf.h"
#include "context.bpf.h"
#include "policy/hint.h"

enum tasks_consts {
	/* Priorities below are those of real-time classes. */
	PRIO_NORMAL_MIN = 100,
};

SEC("iter/task")
int tasks_list(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct task_row row = {};
	struct task_ctx *taskc;

	/* The last call has no task. What is dead or real-time is not ours. */
	if (!p || p->exit_state || p->prio < PRIO_NORMAL_MIN)
		return 0;
	taskc = try_lookup_task(p);
	if (!taskc || taskc->account.last_cpu < 0)
		return 0;

	row.pid = p->pid;
	row.tgid = p->tgid;
	row.tier = taskc->classify.tier;
	row.served_tier = taskc->classify.served_tier;
	row.tier_floor = hint_bound_tier(
		taskc->compositor.tier_floor, taskc->hint.known.least_tier,
		taskc->hint.known.greatest_tier, classify_is_long(taskc));
	row.tier_ceiling = taskc->hint.known.greatest_tier;
	row.hint_source = taskc->hint.known.source;
	row.age = taskc->classify.age;
	row.weight = p->scx.weight * taskc->hint.known.weight_factor /
		     HINT_FACTOR_ONE;
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
