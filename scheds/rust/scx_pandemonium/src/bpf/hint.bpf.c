/* SPDX-License-Identifier: GPL-2.0 */
/* hint: what is known of a program before it has shown it? See hint.bpf.h. */
#include "hint.bpf.h"
#include "classify.bpf.h"
#include "stats.bpf.h"
#include "policy/compositor.h"
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

/* Whether the loader has a use for reports, which may wake it; set by it. */
bool are_hint_reports_wanted;

/* Reports that found the ring buffer full; read by the loader. */
u64 nr_hint_reports_lost;

/*
 * What is remembered of threads, see hint.bpf.h. The loader writes one while
 * another CPU may copy it: half of each is a hint as well.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_MEMORIES);
	__type(key, struct memory_key);
	__type(value, struct hint);
} hint_memories SEC(".maps");

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

	if (!are_hint_reports_wanted)
		return;
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

/* Return the inode of the file that @p runs, 0 for a kernel thread. */
static u64 inode_of(struct task_struct *p)
{
	return BPF_CORE_READ(p, mm, exe_file, f_inode, i_ino);
}

/* Count a thread that begins as its program is remembered. */
static void count_recall(void)
{
	struct cpu_ctx *cpuc = lookup_cpu(bpf_get_smp_processor_id());

	if (cpuc)
		stat_inc(cpuc, STAT_RECALL);
}

/*
 * @p, that of @taskc, is named @comm from now on: take what is remembered of
 * such a thread, or forget what was of its former name.
 *
 * Return whether there is a memory.
 */
static bool recall(struct task_struct *p, struct task_ctx *taskc,
		   const char *comm)
{
	struct memory_key key = {
		.program = taskc->hint.program,
	};
	struct hint *memory;

	if (!has_memory || taskc->hint.known.source == HINT_RULE)
		return false;
	key.uid = BPF_CORE_READ(p, cred, uid.val);
	bpf_probe_read_kernel_str(key.comm, sizeof(key.comm), comm);
	memory = bpf_map_lookup_elem(&hint_memories, &key);
	taskc->hint.known = memory ? *memory : nothing;
	return memory;
}

/* The same for a thread that has shown nothing of it yet: begin with that. */
static void begin_with_memory(struct task_struct *p, struct task_ctx *taskc,
			      const char *comm)
{
	if (!recall(p, taskc, comm) || classify_is_proven(taskc))
		return;
	classify_recall(taskc);
	count_recall();
}

/*
 * The task of @taskc was made by that of @parentc. Of a memory above batch work
 * nothing is inherited: most children run another program, or get a name.
 */
static void inherit(struct task_ctx *taskc, const struct task_ctx *parentc)
{
	taskc->hint.program = parentc->hint.program;
	taskc->hint.known = parentc->hint.known;
	if (parentc->hint.known.source != HINT_MEMORY)
		return;
	if (parentc->hint.known.greatest_tier == TIER_BATCH)
		count_recall();
	else
		taskc->hint.known = nothing;
}

__hidden void hint_init_task(struct task_struct *p, struct task_ctx *taskc,
			     bool is_fork)
{
	struct task_ctx *parentc =
		is_fork ? try_lookup_task((void *)bpf_get_current_task_btf())
			: NULL;

	taskc->hint.known = nothing;
	if (parentc) {
		inherit(taskc, parentc);
		return;
	}
	taskc->hint.program = inode_of(p);
	if (recall(p, taskc, p->comm))
		count_recall();
}

/* @p, the only thread left of its process, runs another program. */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(hint_exec, struct task_struct *p)
{
	struct task_ctx *taskc = try_lookup_task(p);

	if (!taskc)
		return 0;
	taskc->hint.known = nothing;
	taskc->hint.program = inode_of(p);
	if (recall(p, taskc, p->comm)) {
		classify_recall(taskc);
		count_recall();
	}
	report(p, taskc, bpf_ktime_get_ns());
	return 0;
}

SEC("?tp_btf/task_rename")
int BPF_PROG(hint_rename, struct task_struct *p, const char *comm)
{
	struct task_ctx *taskc = try_lookup_task(p);

	if (taskc)
		begin_with_memory(p, taskc, comm);
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

/* The loader knows @hint of the process of the task of @taskc. */
static void set_hint(struct task_ctx *taskc, const struct hint *hint)
{
	/* What is remembered goes on if rules have nothing to say. */
	if (hint->source == HINT_NONE &&
	    taskc->hint.known.source == HINT_MEMORY)
		return;
	taskc->hint.known = *hint;
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
			set_hint(taskc, &hint);
	}
	bpf_rcu_read_unlock();
	bpf_task_release(leader);
	return 0;
}

/*
 * The loader knows which script or game a process runs: its threads begin with
 * what is remembered of that.
 *
 * Return 0, or -ESRCH if there is no such process.
 */
SEC("syscall")
int hint_set_program(struct program_request *request)
{
	struct task_struct *leader = bpf_task_from_pid(request->tgid), *p;
	u64 program = request->program;
	struct task_ctx *taskc;

	if (!leader)
		return -ESRCH;
	bpf_rcu_read_lock();
	bpf_for_each(task, p, leader, ITER_PROC_THREADS) {
		taskc = try_lookup_task(p);
		if (taskc && taskc->hint.program != program) {
			taskc->hint.program = program;
			begin_with_memory(p, taskc, p->comm);
		}
	}
	bpf_rcu_read_unlock();
	bpf_task_release(leader);
	return 0;
}

/*
 * Is a task part of the program that draws the screen? Compares the name of a
 * task's process, which is that of its main thread, with the patterns that the
 * loader wrote, and sets the tier that the task does not fall below.
 *
 * Any program can take such a name. The floor therefore raises only what a task
 * has shown itself to be; the tier in which it is served still falls to batch
 * while it is ahead of its share, is niced down or is too young.
 */

/* The loader sets the number of entries to that of the patterns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct comm_pattern);
} comm_patterns SEC(".maps");

/* Return whether a name, as the words @head and @tail, is a compositor's. */
static bool is_compositor(u64 head, u64 tail)
{
	struct comm_pattern *pattern;
	u32 i, key;

	bpf_for(i, 0, nr_comm_patterns) {
		key = i;
		pattern = bpf_map_lookup_elem(&comm_patterns, &key);
		if (!pattern)
			break;
		if (compositor_matches(pattern, head, tail))
			return true;
	}
	return false;
}

__hidden void hint_check_compositor(struct task_struct *p,
				    struct task_ctx *taskc, u64 now)
{
	struct task_struct *leader = p->group_leader;
	u64 comm[COMM_LEN / sizeof(u64)] = {};

	if (!compositor_is_due(taskc->classify.age,
			       now - taskc->hint.checked_at))
		return;
	taskc->hint.checked_at = now;
	/* A name that changes meanwhile is seen right the next time. */
	__builtin_memcpy(comm, leader->comm, COMM_LEN);
	if (!is_compositor(comm[0], comm[1])) {
		/* The tier itself is renewed with the next sleep. */
		taskc->hint.tier_floor = TIER_BATCH;
		return;
	}
	taskc->hint.tier_floor = compositor_floor(p == leader);
	classify_raise_tier(taskc);
}
