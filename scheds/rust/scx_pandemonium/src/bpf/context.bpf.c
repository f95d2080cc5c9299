/* SPDX-License-Identifier: GPL-2.0 */
/* context: what is remembered of tasks, CPUs and domains? See context.bpf.h. */
#include "context.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/*
 * The loader sets the number of entries of these to what the machine has. The
 * values of an array that can be mapped begin at the start of a page, so that
 * OWN_CACHE_LINE is one of memory too.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_topo);
} cpu_topos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct llc_ctx);
} llc_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct llc_topo);
} llc_topos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} l2_ctxs SEC(".maps");

__hidden struct task_ctx *try_lookup_task(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL, 0);
}

__hidden struct task_ctx *context_create_task(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

__hidden struct cpu_ctx *lookup_cpu(s32 cpu)
{
	u32 key = cpu;
	struct cpu_ctx *cpuc = bpf_map_lookup_elem(&cpu_ctxs, &key);

	if (!cpuc)
		scx_bpf_error("no context for CPU %d", cpu);
	return cpuc;
}

__hidden struct llc_ctx *lookup_llc(u32 llc_idx)
{
	struct llc_ctx *llcc = bpf_map_lookup_elem(&llc_ctxs, &llc_idx);

	if (!llcc)
		scx_bpf_error("no context for LLC domain %u", llc_idx);
	return llcc;
}

__hidden struct span_ctx *lookup_l2(u32 l2_idx)
{
	struct span_ctx *span = bpf_map_lookup_elem(&l2_ctxs, &l2_idx);

	if (!span)
		scx_bpf_error("no context for L2 domain %u", l2_idx);
	return span;
}

__hidden const struct cpu_topo *try_lookup_cpu_topo(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&cpu_topos, &key);
}

__hidden const struct llc_topo *try_lookup_llc_topo(u32 llc_idx)
{
	return bpf_map_lookup_elem(&llc_topos, &llc_idx);
}

__noinline bool may_run_on(struct task_struct *p __arg_trusted, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* A flag of struct scx_rq that not every kernel has. */
enum scx_rq_flags___bypass {
	SCX_RQ_BYPASSING___bypass = 1 << 4,
};

__hidden bool is_cpu_bypassed(void)
{
	const struct rq *rq;

	if (!bpf_core_enum_value_exists(enum scx_rq_flags___bypass,
					SCX_RQ_BYPASSING___bypass))
		return false;
	rq = bpf_this_cpu_ptr(&runqueues);
	return rq->scx.flags & bpf_core_enum_value(enum scx_rq_flags___bypass,
						   SCX_RQ_BYPASSING___bypass);
}
