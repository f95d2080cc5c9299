/* SPDX-License-Identifier: GPL-2.0 */
/* See topo.bpf.h for the purpose. */
#include "topo.bpf.h"

/* Put a new, empty cpumask into @slot. Return 0 or a negative error. */
static s32 create_mask(struct bpf_cpumask **slot)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return -ENOMEM;
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
	llcc->idx = llc_idx;
	llcc->nr_cpus = topo->nr_cpus;
	err = create_mask(&llcc->batch_cpus);
	if (!err)
		err = create_mask(&llcc->interactive_cpus);
	return err;
}

static s32 init_cpu(s32 cpu)
{
	const struct cpu_topo *topo = try_lookup_cpu_topo(cpu);
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (!cpuc || !topo)
		return -ENOENT;
	cpuc->cpu = cpu;
	cpuc->llc_idx = topo->llc_idx;
	return 0;
}

__hidden s32 topo_init(void)
{
	s32 err, i;

	bpf_for(i, 0, nr_llcs) {
		err = init_llc(i);
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
