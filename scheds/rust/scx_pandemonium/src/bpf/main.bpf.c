/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pandemonium: a scheduler that keeps a desktop smooth under full load
 *
 * This file is the table of callbacks; each answers by asking a room:
 *
 *   classify	what kind of task is this?
 *   hint	what is known of a program before it has shown it?
 *   place	which CPU does a ready task go to?
 *   idle	which idle CPU does it get?
 *   preempt	which CPU has to make room?
 *   share	how much CPU time is a task owed?
 *   cgroup	what does its cgroup entitle a task to?
 *   queue	where do tasks wait, and in which order?
 *   slice	how long does a run last, and what ends it?
 *   dispatch	what does a CPU run next?
 *   newidle	is a CPU idle while a task waits?
 *   steal	what does a CPU take from another domain?
 *   rescue	which task has waited too long?
 *   frequency	how fast does a CPU have to be?
 *   account	which task uses how much CPU time, and how long did it wait?
 *   topo	which CPUs share a cache?
 *   stats	what happened, and how long did tasks wait?
 *   debug	what does the scheduler think of tasks, and of its state?
 *   context	what is remembered of tasks, CPUs and domains?
 *
 * The arithmetic is in policy/, free of anything of BPF, and is tested
 * natively. See ARCHITECTURE.md for the life of a wakeup.
 */
#include "account.bpf.h"
#include "cgroup.bpf.h"
#include "context.bpf.h"
#include "debug.bpf.h"
#include "dispatch.bpf.h"
#include "frequency.bpf.h"
#include "idle.bpf.h"
#include "newidle.bpf.h"
#include "place.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "share.bpf.h"
#include "slice.bpf.h"
#include "topo.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/*
 * Number of possible CPUs, of LLC domains and of last-level caches; set by the
 * loader.
 */
const volatile u32 nr_cpu_ids = 1;
const volatile u32 nr_llcs = 1;
const volatile u32 nr_caches = 1;

/* What the idle room has to know of the machine; set by the loader. */
const volatile u32 nr_l2s = 1;
const volatile bool has_smt = false;
const volatile bool has_wide_l2 = false;
const volatile bool has_small_cores = false;

/* Whether ops.cpu_release() is called; set by the loader. */
const volatile bool has_cpu_release = true;

/* Whether a driver sets frequencies of CPUs; set by the loader. */
const volatile bool has_cpufreq = false;

/* Whether programs are remembered; set by the loader. */
const volatile bool has_memory = false;

/* Number of names of compositors; set by the loader. */
const volatile u32 nr_comm_patterns = 0;

/* Where each number comes from is in docs/DESIGN.md. */
struct knobs knobs = {
	.slice_min_ns = 1 * NSEC_PER_MSEC,
	.turn_min_ns = 1 * NSEC_PER_MSEC,
	.slice_ns = 4 * NSEC_PER_MSEC,
	.batch_slice_ns = 20 * NSEC_PER_MSEC,
	.latency_target_ns = 8 * NSEC_PER_MSEC,
	.cpu_bound_thresh_ns = 16 * NSEC_PER_MSEC,
	.lag_max_ns = 20 * NSEC_PER_MSEC,
	.sojourn_thresh_ns = 10 * NSEC_PER_MSEC,
	.batch_lag_max_ns = 1 * NSEC_PER_MSEC,
	.lat_cri_thresh_high = 800,
	.lat_cri_thresh_low = 20,
	.boost_max = 16 * 1024,
	.batch_guarantee = 256,
	.affinity_mode = AFFINITY_WEAK,
};

s32 BPF_STRUCT_OPS(pandemonium_select_cpu, struct task_struct *p, s32 prev_cpu,
		   u64 wake_flags)
{
	return place_select_cpu(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(pandemonium_enqueue, struct task_struct *p, u64 enq_flags)
{
	place_enqueue(p, enq_flags);
}

void BPF_STRUCT_OPS(pandemonium_dispatch, s32 cpu, struct task_struct *prev)
{
	dispatch_cpu(cpu, prev);
}

void BPF_STRUCT_OPS(pandemonium_running, struct task_struct *p)
{
	account_running(p);
}

void BPF_STRUCT_OPS(pandemonium_tick, struct task_struct *p)
{
	account_tick(p);
}

void BPF_STRUCT_OPS(pandemonium_stopping, struct task_struct *p, bool runnable)
{
	account_stopping(p, runnable);
}

/* A task that yields to another one, @to, gets the answer that it cannot. */
bool BPF_STRUCT_OPS(pandemonium_yield, struct task_struct *from,
		    struct task_struct *to)
{
	if (!to)
		account_yield(from);
	return false;
}

void BPF_STRUCT_OPS(pandemonium_update_idle, s32 cpu, bool idle)
{
	newidle_update_idle(cpu, idle);
}

void BPF_STRUCT_OPS(pandemonium_cpu_release, s32 cpu,
		    struct scx_cpu_release_args *args)
{
	preempt_cpu_release(cpu);
}

/* Without this one and the next the kernel ends a scheduler at each hotplug. */
void BPF_STRUCT_OPS(pandemonium_cpu_online, s32 cpu)
{
	topo_cpu_online(cpu);
	slice_cpu_online(cpu);
}

void BPF_STRUCT_OPS(pandemonium_cpu_offline, s32 cpu)
{
	topo_cpu_offline(cpu);
	slice_cpu_offline(cpu);
}

s32 BPF_STRUCT_OPS(pandemonium_init_task, struct task_struct *p,
		   struct scx_init_task_args *args)
{
	return account_init_task(p, args);
}

void BPF_STRUCT_OPS(pandemonium_enable, struct task_struct *p)
{
	account_enable(p);
}

void BPF_STRUCT_OPS(pandemonium_set_weight, struct task_struct *p, u32 weight)
{
	share_set_weight(p);
}

void BPF_STRUCT_OPS(pandemonium_disable, struct task_struct *p)
{
	account_disable(p);
}

void BPF_STRUCT_OPS(pandemonium_dump, struct scx_dump_ctx *dctx)
{
	debug_dump();
}

void BPF_STRUCT_OPS(pandemonium_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu,
		    bool idle)
{
	debug_dump_cpu(cpu, idle);
}

void BPF_STRUCT_OPS(pandemonium_dump_task, struct scx_dump_ctx *dctx,
		    struct task_struct *p)
{
	debug_dump_task(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(pandemonium_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	return cgroup_init(cgrp, args->weight);
}

void BPF_STRUCT_OPS(pandemonium_cgroup_exit, struct cgroup *cgrp)
{
	cgroup_exit(cgrp);
}

void BPF_STRUCT_OPS(pandemonium_cgroup_move, struct task_struct *p,
		    struct cgroup *from, struct cgroup *to)
{
	cgroup_move_task(p, to);
}

void BPF_STRUCT_OPS(pandemonium_cgroup_set_weight, struct cgroup *cgrp,
		    u32 weight)
{
	cgroup_set_weight(cgrp, weight);
}

void BPF_STRUCT_OPS(pandemonium_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	cgroup_set_idle(cgrp);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(pandemonium_init)
{
	s32 err = topo_init();

	if (!err)
		err = idle_init();
	if (!err)
		err = newidle_init();
	if (!err)
		err = queue_init();
	if (!err)
		err = share_init();
	if (!err)
		err = preempt_init();
	if (!err)
		err = slice_init();
	if (!err)
		err = frequency_init();
	return err;
}

void BPF_STRUCT_OPS(pandemonium_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* The flags are set by the loader: an older kernel rejects what it lacks. */
/* clang-format off */
SCX_OPS_DEFINE(pandemonium_ops,
	       .select_cpu	= (void *)pandemonium_select_cpu,
	       .enqueue		= (void *)pandemonium_enqueue,
	       .dispatch	= (void *)pandemonium_dispatch,
	       .running		= (void *)pandemonium_running,
	       .tick		= (void *)pandemonium_tick,
	       .stopping	= (void *)pandemonium_stopping,
	       .yield		= (void *)pandemonium_yield,
	       .update_idle	= (void *)pandemonium_update_idle,
	       .cpu_release	= (void *)pandemonium_cpu_release,
	       .cpu_online	= (void *)pandemonium_cpu_online,
	       .cpu_offline	= (void *)pandemonium_cpu_offline,
	       .init_task	= (void *)pandemonium_init_task,
	       .enable		= (void *)pandemonium_enable,
	       .set_weight	= (void *)pandemonium_set_weight,
	       .disable		= (void *)pandemonium_disable,
	       .dump		= (void *)pandemonium_dump,
	       .dump_cpu	= (void *)pandemonium_dump_cpu,
	       .dump_task	= (void *)pandemonium_dump_task,
	       .cgroup_init	= (void *)pandemonium_cgroup_init,
	       .cgroup_exit	= (void *)pandemonium_cgroup_exit,
	       .cgroup_move	= (void *)pandemonium_cgroup_move,
	       .cgroup_set_weight = (void *)pandemonium_cgroup_set_weight,
	       .cgroup_set_idle	= (void *)pandemonium_cgroup_set_idle,
	       .init		= (void *)pandemonium_init,
	       .exit		= (void *)pandemonium_exit,
	       .timeout_ms	= 30000,
	       .name		= "pandemonium");
/* clang-format on */

/*
 * The rooms. They are compiled with this file as one unit, so that clang
 * inlines across them, which a linker of BPF objects does not.
 */
#include "account.bpf.c"
#include "cgroup.bpf.c"
#include "classify.bpf.c"
#include "context.bpf.c"
#include "dispatch.bpf.c"
#include "debug.bpf.c"
#include "frequency.bpf.c"
#include "hint.bpf.c"
#include "idle.bpf.c"
#include "newidle.bpf.c"
#include "place.bpf.c"
#include "preempt.bpf.c"
#include "queue.bpf.c"
#include "rescue.bpf.c"
#include "share.bpf.c"
#include "slice.bpf.c"
#include "stats.bpf.c"
#include "steal.bpf.c"
#include "topo.bpf.c"
