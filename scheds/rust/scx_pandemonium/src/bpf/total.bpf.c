/* SPDX-License-Identifier: GPL-2.0 */
/* total: what is runnable in all domains together? See total.bpf.h. */
#include "total.bpf.h"
#include "policy/vtime.h"

enum total_consts {
	/* How old the load of other domains may be. */
	LOAD_AGE_MAX_NS = 1 * NSEC_PER_MSEC,
};

/*
 * Weights of the runnable tasks of a cgroup; MAX_GROUPS entries for each
 * domain, the loader sets their number.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, s64);
} group_sums SEC(".maps");

/* Return sum @idx of @llcc, or NULL. */
static s64 *lookup_sum(u32 idx, struct llc_ctx *llcc)
{
	u32 key = llcc->topo.idx * MAX_GROUPS + idx;

	switch (idx) {
	case TOTAL_ROOT:
		return &llcc->total.root_sum;
	case TOTAL_RUNNABLE:
		return &llcc->total.runnable_weight;
	case TOTAL_LOAD:
		return &llcc->total.load;
	default:
		return bpf_map_lookup_elem(&group_sums, &key);
	}
}

__hidden bool total_add(u32 idx, struct llc_ctx *llcc, s64 delta)
{
	s64 *sum = lookup_sum(idx, llcc);

	return sum && total_add_to(sum, delta);
}

/* Return sum @idx of all domains but @but; none is nr_llcs. */
static s64 sum_but(u32 idx, u32 but)
{
	struct llc_ctx *llcc;
	s64 sum = 0, *part;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		llcc = i == but ? NULL : lookup_llc(i);
		part = llcc ? lookup_sum(idx, llcc) : NULL;
		if (part)
			sum += READ_ONCE(*part);
	}
	return sum;
}

/* Not static, so that the verifier walks it once and not at each call. */
__noinline s64 total_of_all(u32 idx)
{
	return sum_but(idx, nr_llcs);
}

/* Not static, as total_of_all(). */
__noinline int total_read_other_load(u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);

	if (!llcc)
		return -ENOENT;
	WRITE_ONCE(llcc->total.other_load, sum_but(TOTAL_LOAD, llc_idx));
	/* Not before: others of the domain take it for new by this. */
	barrier();
	WRITE_ONCE(llcc->total.other_load_read_at, now);
	return 0;
}

__hidden s64 total_load(struct llc_ctx *llcc, u64 now)
{
	u64 read_at = READ_ONCE(llcc->total.other_load_read_at);

	if (!vtime_before(now, read_at + LOAD_AGE_MAX_NS))
		total_read_other_load(llcc->topo.idx, now);
	return READ_ONCE(llcc->total.load) + READ_ONCE(llcc->total.other_load);
}
