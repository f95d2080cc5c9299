/* SPDX-License-Identifier: GPL-2.0 */
/* hint: what is known of a program before it has shown it? See hint.bpf.h. */
#include "hint.bpf.h"
#include <bpf_experimental.h>

enum hint_room_consts {
	/*
	 * A process that changes its name or its cgroup is reported this often:
	 * the loader looks at it again after as long, so nothing is missed.
	 */
	REPORT_INTERVAL_NS = 1 * NSEC_PER_SEC,
	/* Bytes of the ring buffer; one report takes 16. */
	REPORTS_SIZE = 1 << 16,
	/* Of the kernel: the threads of one process. */
	ITER_PROC_THREADS = 2,
};

/* The ids of processes that the loader should look at. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, REPORTS_SIZE);
} hint_reports SEC(".maps");

/* Reports that found the ring buffer full; read by the loader. */
u64 nr_hint_reports_lost;

/* What is said of most programs. */
static const struct hint nothing = {
	.least_tier = TIER_BATCH,
	.greatest_tier = TIER_LAT_CRITICAL,
	.weight_factor = HINT_FACTOR_ONE,
	.source = HINT_NONE,
};

/* Tell the loader to look at the process of @p, with context @taskc. */
static void report(struct task_struct *p, struct task_ctx *taskc, u64 now)
{
	u32 tgid = p->tgid;

	taskc->hint.reported_at = now;
	if (bpf_ringbuf_output(&hint_reports, &tgid, sizeof(tgid), 0))
		__sync_fetch_and_add(&nr_hint_reports_lost, 1);
}

/* The same if @p is the main thread and was not reported just before. */
static void report_change(struct task_struct *p)
{
	struct task_ctx *taskc;
	u64 now;

	if (p->pid != p->tgid || (p->flags & PF_KTHREAD))
		return;
	taskc = try_lookup_task(p);
	now = bpf_ktime_get_ns();
	if (taskc && now - taskc->hint.reported_at >= REPORT_INTERVAL_NS)
		report(p, taskc, now);
}

__hidden void hint_init_task(struct task_ctx *taskc, bool is_fork)
{
	struct task_ctx *parentc =
		is_fork ? try_lookup_task((void *)bpf_get_current_task_btf())
			: NULL;

	taskc->hint.known = parentc ? parentc->hint.known : nothing;
}

/* @p, the only thread left of its process, runs another program. */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(hint_exec, struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);

	if (!taskc)
		return 0;
	taskc->hint.known = nothing;
	report(p, taskc, bpf_ktime_get_ns());
	return 0;
}

SEC("?tp_btf/task_rename")
int BPF_PROG(hint_rename, struct task_struct *p)
{
	report_change(p);
	return 0;
}

/*
 * The process of @leader is in another cgroup. ops.cgroup_move() is not called
 * if both have the cpu controller of the same one above.
 */
SEC("?tp_btf/cgroup_attach_task")
int BPF_PROG(hint_move, struct cgroup *to, const char *path,
	     struct task_struct *leader)
{
	report_change(leader);
	return 0;
}

/*
 * The loader knows more of a process: give its threads the hint. What they are
 * served as follows at their next wakeup, or at the end of a long run.
 *
 * Return 0, or -ESRCH if there is no such process.
 */
SEC("syscall")
int hint_set(struct hint_request *request)
{
	struct task_struct *leader = bpf_task_from_pid(request->tgid), *p;
	struct hint hint = request->hint;
	struct task_ctx *taskc;

	if (!leader)
		return -ESRCH;
	bpf_rcu_read_lock();
	bpf_for_each(task, p, leader, ITER_PROC_THREADS) {
		taskc = try_lookup_task(p);
		if (taskc)
			taskc->hint.known = hint;
	}
	bpf_rcu_read_unlock();
	bpf_task_release(leader);
	return 0;
}
