/* SPDX-License-Identifier: GPL-2.0 */
/* steal: what does a CPU take from another domain? See steal.bpf.h. */
#include "steal.bpf.h"
#include "idle.bpf.h"
#include "look.bpf.h"
#include "queue.bpf.h"
#include "stats.bpf.h"
#include "topo.bpf.h"
#include "total.bpf.h"
#include "policy/vtime.h"

enum steal_consts {
	/* How often a CPU looks whether another domain has more to do. */
	BALANCE_INTERVAL_NS = 4 * NSEC_PER_MSEC,
	/*
	 * A domain that always had less to do, by the load of one task for each
	 * of its CPUs, takes that task after so long.
	 */
	BEHIND_MAX_NS = 64 * NSEC_PER_MSEC,
	/* The same below one cache, where a move costs little. */
	BEHIND_MAX_NEAR_NS = 8 * NSEC_PER_MSEC,
	/* One that did not look for longer had nothing to do. */
	COUNTED_MAX_NS = 32 * NSEC_PER_MSEC,
};

/*
 * Take a task of @dsq_id, where @nr wait, of domain @other to @llcc, if it may
 * leave its cache or need not.
 */
static __always_inline bool take(struct cpu_ctx *cpuc,
				 const struct llc_ctx *llcc,
				 const struct llc_ctx *other, u64 dsq_id,
				 u32 nr, u64 now)
{
	if (!nr ||
	    (!topo_share_cache(llcc, other) &&
	     !idle_may_take(dsq_id, other->topo.idx, now)) ||
	    !look_take(cpuc, dsq_id))
		return false;
	stat_inc(cpuc, STAT_SERVE_STOLEN);
	return true;
}

__noinline bool steal_from_any(s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	const struct llc_topo *topo;
	struct llc_ctx *other;
	u32 i, idx;

	if (!llcc)
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
 * Return whether the first batch task of @other, which has @there to do, is
 * better off in @llcc, which has @here: for each CPU the two are further apart
 * than what it is of that. Anything less would only send tasks to and fro.
 */
static bool is_better_here(const struct llc_ctx *llcc, u64 here,
			   const struct llc_ctx *other, u64 there)
{
	u32 nr_here = llcc->topo.nr_cpus, nr_there = other->topo.nr_cpus, load;

	if (there * nr_here <= here * nr_there || !queue_nr_batch(other))
		return false;
	load = queue_peek_load(queue_batch(other->topo.idx));
	return load && there * nr_here > (here + load) * nr_there;
}

/* Return @load, which @llcc has to do, for each of its CPUs. */
static u64 load_per_cpu(const struct llc_ctx *llcc, u64 load)
{
	u32 nr_cpus = llcc->topo.nr_cpus;

	return nr_cpus ? load / nr_cpus : 0;
}

/*
 * Count that a CPU of @llcc had @ahead less to do than one elsewhere, or more
 * if that is negative, since it was counted last, but no more than @max in all.
 * Return whether it is that much at @now.
 */
static bool count_behind(struct llc_ctx *llcc, s64 ahead, u64 max, u64 now)
{
	u64 counted_at = READ_ONCE(llcc->steal.counted_at);
	u64 behind = llcc->steal.behind, passed_ns = now - counted_at, less;

	/* One of the domain's CPUs counts, none whose clock is behind. */
	if ((s64)passed_ns <= 0 ||
	    !__sync_bool_compare_and_swap(&llcc->steal.counted_at, counted_at,
					  now))
		return false;
	if (passed_ns > COUNTED_MAX_NS)
		passed_ns = COUNTED_MAX_NS;
	if (ahead < 0) {
		less = -ahead * passed_ns;
		llcc->steal.behind = behind > less ? behind - less : 0;
		return false;
	}
	behind += ahead * passed_ns;
	llcc->steal.behind = behind < max ? behind : max;
	return behind >= max;
}

/*
 * Take the first batch task of @other, which has @ahead more to do than @llcc,
 * if there was too little here for so long that it is that task's turn to be
 * here, though that does not even the two out.
 */
static bool take_turn(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
		      const struct llc_ctx *other, s64 ahead, u64 now)
{
	u64 dsq_id = queue_batch(other->topo.idx), max_ns, max;
	u32 nr = queue_nr_batch(other);
	u32 load = nr ? queue_peek_load(dsq_id) : 0;

	if (ahead >= 0 && !load)
		return false;
	max_ns = topo_share_cache(llcc, other) ? BEHIND_MAX_NEAR_NS
					       : BEHIND_MAX_NS;
	max = load * max_ns / llcc->topo.nr_cpus;
	if (!count_behind(llcc, ahead, max, now) ||
	    !take(cpuc, llcc, other, dsq_id, nr, now))
		return false;
	llcc->steal.behind = 0;
	return true;
}

__noinline bool steal_to_even_out(s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	const struct llc_topo *topo;
	struct llc_ctx *other, *furthest = NULL;
	s64 ahead, most = 0;
	u64 here, there;
	u32 i;

	if (!llcc)
		return false;
	cpuc->steal.balance_at = now + BALANCE_INTERVAL_NS;
	topo = try_lookup_llc_topo(llcc->topo.idx);
	if (!topo)
		return false;
	here = total_load_of(llcc);
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		other = lookup_llc(topo->neighbours[i]);
		if (!other)
			break;
		there = total_load_of(other);
		if (is_better_here(llcc, here, other, there) &&
		    take(cpuc, llcc, other, queue_batch(other->topo.idx),
			 queue_nr_batch(other), now))
			return true;
		ahead = load_per_cpu(other, there) - load_per_cpu(llcc, here);
		if (!furthest || ahead > most) {
			furthest = other;
			most = ahead;
		}
	}
	return furthest && take_turn(cpuc, llcc, furthest, most, now);
}
