/* SPDX-License-Identifier: GPL-2.0 */
/*
 * topo: which CPUs share a cache?
 *
 * The loader reads the machine and fills the topology maps before it attaches;
 * here they become the contexts of CPUs and domains, with their cpumasks.
 *
 * Not here: any choice between CPUs (idle, place, preempt).
 */
#ifndef __TOPO_BPF_H
#define __TOPO_BPF_H

#include "context.bpf.h"

/* What the CPUs of a mask have in common. */
enum span_kind {
	SPAN_NONE, /* no CPU at all */
	SPAN_L2,
	SPAN_LLC, /* a last-level cache */
	SPAN_NODE,
	SPAN_BIG,   /* cores that are not small */
	SPAN_FIRST, /* the first ones in the order of packing */
};

/* Build the masks of all domains. Return 0 or a negative error. */
s32 topo_init(void);

/*
 * @cpu came online, or goes offline: its domain has one CPU more, or less. The
 * masks stay. If it was offline when the loader read the topology, the
 * scheduler ends, and the loader reads that again and starts it anew.
 */
void topo_cpu_online(s32 cpu);
void topo_cpu_offline(s32 cpu);

/* Return whether the CPUs of both domains are below one last-level cache. */
static __always_inline bool topo_share_cache(const struct llc_ctx *llcc,
					     const struct llc_ctx *other)
{
	return llcc->topo.cache_idx == other->topo.cache_idx;
}

/* Return how many CPUs are online. */
u32 topo_nr_cpus(void);

/*
 * Put a new cpumask into @slot, with the CPUs that have index @idx of @kind.
 * Return 0 or a negative error.
 */
s32 topo_create_span(struct bpf_cpumask **slot, enum span_kind kind, u32 idx);

#endif /* __TOPO_BPF_H */
