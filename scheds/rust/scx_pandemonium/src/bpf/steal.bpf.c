/* SPDX-License-Identifier: GPL-2.0 */
/* steal: what does a CPU take from another domain? See steal.bpf.h. */
#include "steal.bpf.h"
#include "idle.bpf.h"
#include "queue.bpf.h"
#include "stats.bpf.h"
#include "topo.bpf.h"
#include "total.bpf.h"
#include "policy/vtime.h"

enum steal_consts {
	/* How often a CPU looks whether another domain has more to do. */
	BALANCE_INTERVAL_NS = 4 * NSEC_PER_MSEC,
};

/*
 * Take a task of @dsq_id, where @nr wait, of domain @other to @llcc, if it may
 * leave its cache or need not.
 */
static bool take(struct cpu_ctx *cpuc, const struct llc_ctx *llcc,
		 const struct llc_ctx *other, u64 dsq_id, u32 nr, u64 now)
{
	if (!nr ||
	    (!topo_share_cache(llcc, other) &&
	     !idle_may_take(dsq_id, other->topo.idx, now)) ||
	    !scx_bpf_dsq_move_to_local(dsq_id, 0))
		return false;
	stat_inc(cpuc, STAT_SERVE_STOLEN);
	return true;
}

__hidden bool steal_any(struct cpu_ctx *cpuc, const struct llc_ctx *llcc,
			u64 now)
{
	const struct llc_topo *topo;
	struct llc_ctx *other;
	u32 i, idx;

	if (nr_llcs == 1)
		return false;
	topo = try_lookup_llc_topo(llcc->topo.idx);
	if (!topo)
		return false;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		idx = topo->neighbours[i];
		other = lookup_llc(idx);
		if (!other)
			break;
		if (take(cpuc, llcc, other, queue_interactive(idx),
			 queue_nr_interactive(other), now) ||
		    take(cpuc, llcc, other, queue_batch(idx),
			 queue_nr_batch(other), now))
			return true;
	}
	return false;
}

/*
 * Return whether the first batch task of @other is better off in @llcc: the
 * loads of the two, for each CPU, are further apart than what it is of that.
 * Anything less would only send tasks to and fro.
 */
static bool is_better_here(const struct llc_ctx *llcc,
			   const struct llc_ctx *other)
{
	u64 there = total_load_of(other) * llcc->topo.nr_cpus;
	u64 here = total_load_of(llcc);
	u32 load;

	if (there <= here * other->topo.nr_cpus || !queue_nr_batch(other))
		return false;
	load = queue_peek_load(queue_batch(other->topo.idx));
	return load && there > (here + load) * other->topo.nr_cpus;
}

__hidden bool steal_balance(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	const struct llc_topo *topo;
	struct llc_ctx *other;
	u32 i;

	if (nr_llcs == 1 || vtime_before(now, cpuc->steal.balance_at))
		return false;
	cpuc->steal.balance_at = now + BALANCE_INTERVAL_NS;
	topo = try_lookup_llc_topo(llcc->topo.idx);
	if (!topo)
		return false;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		other = lookup_llc(topo->neighbours[i]);
		if (!other)
			break;
		if (is_better_here(llcc, other) &&
		    take(cpuc, llcc, other, queue_batch(other->topo.idx),
			 queue_nr_batch(other), now))
			return true;
	}
	return false;
}
