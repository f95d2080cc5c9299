/* SPDX-License-Identifier: GPL-2.0 */
/* total: what is runnable in all domains together? See total.bpf.h. */
#include "total.bpf.h"
#include "policy/vtime.h"

enum total_consts {
	/* How old the sum of other domains may be. */
	SUM_AGE_MAX_NS = 1 * NSEC_PER_MSEC,
};

/*
 * Weights of the runnable tasks of a cgroup; MAX_GROUPS entries for each
 * domain, the loader sets their number.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, struct domain_sum);
} group_sums SEC(".maps");

/* Return sum @idx of @llcc, or NULL. */
static struct domain_sum *lookup_sum(u32 idx, struct llc_ctx *llcc)
{
	u32 key = llcc->topo.idx * MAX_GROUPS + idx;

	switch (idx) {
	case TOTAL_ROOT:
		return &llcc->total.root;
	case TOTAL_RUNNABLE:
		return &llcc->total.runnable;
	case TOTAL_LOAD:
		return &llcc->total.load;
	default:
		return bpf_map_lookup_elem(&group_sums, &key);
	}
}

__hidden bool total_add(u32 idx, struct llc_ctx *llcc, s64 delta)
{
	struct domain_sum *sum = lookup_sum(idx, llcc);

	return sum && total_add_to(&sum->own, delta);
}

/*
 * Read at @now what sum @idx is in all domains but @llc_idx.
 *
 * Not static, so that the verifier walks it once and not at each call.
 */
__noinline int total_read_others(u32 idx, u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx), *other;
	struct domain_sum *sum = llcc ? lookup_sum(idx, llcc) : NULL;
	struct domain_sum *other_sum;
	s64 others = 0;
	u32 i;

	if (!sum)
		return -ENOENT;
	/* Other CPUs of the domain need not read it as well. */
	WRITE_ONCE(sum->others_read_at, now);
	bpf_for(i, 0, nr_llcs) {
		other = i == llc_idx ? NULL : lookup_llc(i);
		other_sum = other ? lookup_sum(idx, other) : NULL;
		if (other_sum)
			others += READ_ONCE(other_sum->own);
	}
	WRITE_ONCE(sum->others, others);
	return 0;
}

__hidden s64 total_of_all(u32 idx, struct llc_ctx *llcc, u64 now)
{
	struct domain_sum *sum = lookup_sum(idx, llcc);

	if (!sum)
		return 0;
	if (nr_llcs > 1 &&
	    !vtime_before(now, READ_ONCE(sum->others_read_at) + SUM_AGE_MAX_NS))
		total_read_others(idx, llcc->topo.idx, now);
	return READ_ONCE(sum->own) + READ_ONCE(sum->others);
}

__hidden u64 total_load(const struct llc_ctx *llcc)
{
	s64 load = READ_ONCE(llcc->total.load.own);

	return load > 0 ? load : 0;
}
