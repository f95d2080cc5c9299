/* SPDX-License-Identifier: GPL-2.0 */
/* topo: which CPUs share a cache? See topo.bpf.h. */
#include "topo.bpf.h"

/* CPUs of all domains that are online. */
static u32 nr_online_cpus;

__hidden u32 topo_nr_cpus(void)
{
	return READ_ONCE(nr_online_cpus);
}

static bool is_in_span(const struct cpu_topo *topo, enum span_kind kind,
		       u32 idx)
{
	switch (kind) {
	case SPAN_L2:
		return topo->l2_idx == idx;
	case SPAN_LLC:
		return topo->cache_idx == idx;
	case SPAN_NODE:
		return topo->node_idx == idx;
	case SPAN_BIG:
		return topo->is_big;
	case SPAN_FIRST:
		return topo->pack_rank < idx;
	default:
		return false;
	}
}

__hidden s32 topo_create_span(struct bpf_cpumask **slot, enum span_kind kind,
			      u32 idx)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();
	const struct cpu_topo *topo;
	s32 i;

	if (!mask)
		return -ENOMEM;
	bpf_for(i, 0, nr_cpu_ids) {
		topo = try_lookup_cpu_topo(i);
		if (topo && is_in_span(topo, kind, idx))
			bpf_cpumask_set_cpu(i, mask);
	}
	mask = bpf_kptr_xchg(slot, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

static s32 init_llc(u32 llc_idx)
{
	const struct llc_topo *topo = try_lookup_llc_topo(llc_idx);
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	s32 err;

	if (!llcc || !topo)
		return -ENOENT;
	llcc->topo.idx = llc_idx;
	llcc->topo.cache_idx = topo->cache_idx;
	llcc->topo.nr_cpus = topo->nr_cpus;
	llcc->topo.first_cpu = topo->first_cpu;
	llcc->topo.nr_parts = topo->nr_cpus;
	llcc->topo.nr_scale_cpus = topo->nr_scale_cpus;
	nr_online_cpus += topo->nr_cpus;
	err = topo_create_span(&llcc->topo.cpus, SPAN_LLC, topo->cache_idx);
	if (!err)
		err = topo_create_span(&llcc->topo.node_cpus, SPAN_NODE,
				       topo->node_idx);
	return err;
}

static s32 init_cpu(s32 cpu)
{
	const struct cpu_topo *topo = try_lookup_cpu_topo(cpu);
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (!cpuc || !topo)
		return -ENOENT;
	cpuc->topo.cpu = cpu;
	cpuc->topo.llc_idx = topo->llc_idx;
	cpuc->topo.cache_idx = topo->cache_idx;
	cpuc->topo.l2_idx = topo->l2_idx;
	cpuc->topo.sibling = topo->sibling;
	cpuc->topo.next = topo->next;
	return 0;
}

static s32 init_l2(u32 l2_idx)
{
	struct span_ctx *span = lookup_l2(l2_idx);

	if (!span)
		return -ENOENT;
	return topo_create_span(&span->cpus, SPAN_L2, l2_idx);
}

/* The domain of @cpu has @nr more CPUs that are online. */
static void count_online(s32 cpu, s32 nr)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	const struct llc_topo *topo;

	topo = llcc ? try_lookup_llc_topo(llcc->topo.idx) : NULL;
	if (!topo)
		return;
	llcc->topo.nr_cpus += nr;
	nr_online_cpus += nr;
	/* What --nr-cpus says stays. */
	if (topo->nr_scale_cpus == topo->nr_cpus)
		llcc->topo.nr_scale_cpus += nr;
}

__hidden void topo_cpu_online(s32 cpu)
{
	const struct cpu_topo *topo = try_lookup_cpu_topo(cpu);

	if (topo && !topo->is_known)
		scx_bpf_exit(SCX_ECODE_RSN_HOTPLUG | SCX_ECODE_ACT_RESTART,
			     "CPU %d was offline when we started", cpu);
	else
		count_online(cpu, 1);
}

__hidden void topo_cpu_offline(s32 cpu)
{
	count_online(cpu, -1);
}

__hidden s32 topo_init(void)
{
	s32 err, i;

	bpf_for(i, 0, nr_llcs) {
		err = init_llc(i);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_l2s) {
		err = init_l2(i);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_cpu_ids) {
		err = init_cpu(i);
		if (err)
			return err;
	}
	return 0;
}
