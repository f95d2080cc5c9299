/* SPDX-License-Identifier: GPL-2.0 */
/* pack: which CPUs does work keep to? See pack.bpf.h. */
#include "pack.bpf.h"
#include "queue.bpf.h"
#include "topo.bpf.h"

/* Entry n: the first n CPUs of the order. The loader sets their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} pack_spans SEC(".maps");

/* Return the first @nr CPUs if @p may use all of them, else NULL. */
static struct bpf_cpumask *usable_span(struct task_struct *p, u32 nr)
{
	struct span_ctx *span = bpf_map_lookup_elem(&pack_spans, &nr);
	struct bpf_cpumask *mask = span ? span->cpus : NULL;

	if (!mask || !bpf_cpumask_subset(cast_mask(mask), p->cpus_ptr))
		return NULL;
	return mask;
}

__noinline bool pack_fits(struct task_struct *p __arg_trusted, u32 nr)
{
	return usable_span(p, nr);
}

__noinline s32 pack_claim_cpu(struct task_struct *p __arg_trusted, u32 nr,
			      s32 prev_cpu)
{
	struct bpf_cpumask *mask = usable_span(p, nr);

	if (!mask)
		return -EINVAL;
	if (bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	return scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
}

__noinline s32 pack_wait_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu)
{
	struct bpf_cpumask *mask = usable_span(p, knobs.nr_packed_cpus);

	if (!mask || bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)))
		return prev_cpu;
	return bpf_cpumask_any_distribute(cast_mask(mask));
}

__hidden s32 pack_claim_beyond(struct task_struct *p)
{
	struct bpf_cpumask *mask = NULL;
	s32 cpu = -EBUSY;

	if (knobs.nr_packed_cpus)
		mask = usable_span(p, 2 * knobs.nr_packed_cpus);
	if (mask)
		cpu = scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
	return cpu >= 0 ? cpu : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

__noinline s32 pack_confined_cpu(struct task_struct *p __arg_trusted,
				 s32 prev_cpu)
{
	u32 nr = knobs.nr_confined_cpus;
	s32 cpu = pack_claim_cpu(p, nr, prev_cpu);
	struct cpu_ctx *cpuc, *otherc;
	struct bpf_cpumask *mask;

	if (cpu == -EINVAL)
		return cpu;
	if (cpu >= 0) {
		cpuc = lookup_cpu(cpu);
		/* Before Linux 6.16 a CPU that died is in the idle mask. */
		if (!cpuc || cpuc->slice.is_offline)
			return -EBUSY;
		/* Sent once we are out of ops.enqueue(), where @p is queued. */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return cpu;
	}
	mask = usable_span(p, nr);
	if (!mask)
		return -EINVAL;
	/* Of two that chance names one is seldom among the most crowded. */
	cpuc = lookup_cpu(bpf_cpumask_any_distribute(cast_mask(mask)));
	otherc = lookup_cpu(bpf_cpumask_any_distribute(cast_mask(mask)));
	if (!cpuc || !otherc)
		return -EBUSY;
	if (queue_nr_own(otherc) < queue_nr_own(cpuc))
		cpuc = otherc;
	return cpuc->slice.is_offline ? -EBUSY : cpuc->topo.cpu;
}

static s32 init_pack_span(u32 nr)
{
	struct span_ctx *span = bpf_map_lookup_elem(&pack_spans, &nr);

	return span ? topo_create_span(&span->cpus, SPAN_FIRST, nr) : -ENOENT;
}

__hidden s32 pack_init(void)
{
	s32 err, i;

	bpf_for(i, 1, nr_cpu_ids + 1) {
		err = init_pack_span(i);
		if (err)
			return err;
	}
	return 0;
}
