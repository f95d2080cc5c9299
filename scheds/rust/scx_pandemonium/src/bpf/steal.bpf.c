/* SPDX-License-Identifier: GPL-2.0 */
/* steal: what does a CPU take from another domain? See steal.bpf.h. */
#include "steal.bpf.h"
#include "cgroup.bpf.h"
#include "idle.bpf.h"
#include "queue.bpf.h"
#include "stats.bpf.h"
#include "topo.bpf.h"
#include "policy/vtime.h"

enum steal_consts {
	/*
	 * How often a CPU looks whether another domain has more to do, and how
	 * old the number of CPUs may be that serve one.
	 */
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
 * Held: which CPUs does another class hold?
 *
 * Real-time and deadline tasks go before ours. No callback says on every kernel
 * that they have a CPU, nor for how long. But a CPU on which none of our tasks
 * runs is idle or held, and ops.update_idle() says which. After a while a held
 * CPU counts for nothing: a task that waits for it has waited too long. Shorter
 * holds are left alone, else tasks would move for each moment of audio.
 */

/*
 * Return whether another class has held the CPU of @cpuc for long. So it seems
 * if the CPU has been idle since before we started, too: no task waits there.
 */
static bool is_held(const struct cpu_ctx *cpuc, u64 now)
{
	return !READ_ONCE(cpuc->account.is_busy) &&
	       !READ_ONCE(cpuc->slice.is_idle) &&
	       vtime_before(READ_ONCE(cpuc->account.stopped_at) +
				    knobs.sojourn_thresh_ns,
			    now);
}

/* Return how many CPUs of domain @llc_idx are held at @now. */
static u32 nr_held(u32 llc_idx, u64 now)
{
	struct cpu_ctx *cpuc;
	u32 nr = 0;
	s32 i;

	bpf_for(i, 0, nr_cpu_ids) {
		cpuc = lookup_cpu(i);
		if (!cpuc)
			break;
		if (cpuc->topo.llc_idx == llc_idx && !cpuc->slice.is_offline &&
		    is_held(cpuc, now))
			nr++;
	}
	return nr;
}

/*
 * Return how many CPUs of domain @llc_idx serve our tasks, or would if there
 * were any, at @now or a few ms before.
 *
 * Not static, so that the verifier walks it once and not at each call.
 */
__noinline u32 steal_nr_serving(u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	u32 nr, nr_cpus;

	if (!llcc)
		return 0;
	if (!vtime_before(now, READ_ONCE(llcc->steal.held_counted_at) +
				       BALANCE_INTERVAL_NS)) {
		WRITE_ONCE(llcc->steal.held_counted_at, now);
		WRITE_ONCE(llcc->steal.nr_held, nr_held(llc_idx, now));
	}
	nr = READ_ONCE(llcc->steal.nr_held);
	nr_cpus = llcc->topo.nr_cpus;
	return nr < nr_cpus ? nr_cpus - nr : 0;
}

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
	    !queue_take(dsq_id, cpuc->topo.cpu))
		return false;
	stat_inc(cpuc, STAT_SERVE_STOLEN);
	return true;
}

/*
 * Take a task of domain @other_idx to @cpu, interactive first; with
 * @is_batch_only only batch work. Seen by the verifier once, not at each call.
 */
__noinline bool steal_from(s32 cpu, u32 other_idx, bool is_batch_only, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	struct llc_ctx *other = llcc ? lookup_llc(other_idx) : NULL;

	if (!other)
		return false;
	if (!is_batch_only &&
	    take(cpuc, llcc, other, queue_interactive(other_idx),
		 queue_nr_interactive(other), now))
		return true;
	return take(cpuc, llcc, other, queue_batch(other_idx),
		    queue_nr_batch(other), now);
}

__noinline bool steal_from_any(s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	const struct llc_topo *topo;
	u32 i;

	topo = cpuc ? try_lookup_llc_topo(cpuc->topo.llc_idx) : NULL;
	if (!topo)
		return false;
	bpf_for(i, 0, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		if (steal_from(cpu, topo->neighbours[i], false, now))
			return true;
	}
	return false;
}

/* What a domain has to do, and how many of its CPUs can do that. */
struct burden {
	u64 load;
	u32 nr_cpus;
};

static struct burden burden_of(struct llc_ctx *llcc, u64 now)
{
	return (struct burden){
		.load = cgroup_load_of(llcc),
		.nr_cpus = steal_nr_serving(llcc->topo.idx, now),
	};
}

/*
 * Return whether the first batch task of @other, which has the burden @there,
 * is better off where it is @here: for each CPU the two are further apart than
 * what it is of that. Anything less would only send tasks to and fro.
 */
static bool is_better_here(const struct burden *here,
			   const struct llc_ctx *other,
			   const struct burden *there)
{
	u32 nr_here = here->nr_cpus, nr_there = there->nr_cpus, load;

	if (there->load * nr_here <= here->load * nr_there ||
	    !queue_nr_batch(other))
		return false;
	load = queue_peek_load(queue_batch(other->topo.idx));
	return load && there->load * nr_here > (here->load + load) * nr_there;
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
 * Return whether it is the turn of the first batch task of @other, which has
 * @ahead more to do than @llcc with its @nr_cpus, to be here: there was too
 * little here for so long, though that task does not even the two out.
 */
static __always_inline bool is_turn(struct llc_ctx *llcc, u32 nr_cpus,
				    const struct llc_ctx *other, s64 ahead,
				    u64 now)
{
	u32 load = queue_nr_batch(other)
			   ? queue_peek_load(queue_batch(other->topo.idx))
			   : 0;
	u64 max_ns;

	if (ahead >= 0 && !load)
		return false;
	max_ns = topo_share_cache(llcc, other) ? BEHIND_MAX_NEAR_NS
					       : BEHIND_MAX_NS;
	return count_behind(llcc, ahead, load * max_ns / nr_cpus, now);
}

/*
 * Return which of the neighbours of @cpu's domain, from number @from on, is to
 * give it a task, near before far:
 *
 *   1. one whose CPUs all are held;
 *   2. one that has more to do, see is_better_here();
 *   3. at last the one that has most, see is_turn().
 *
 * Return -EAGAIN if none is.
 */
__noinline s32 steal_choose(s32 cpu, u32 from, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	struct llc_ctx *other, *furthest = NULL;
	const struct llc_topo *topo;
	struct burden here, there;
	s32 nr_furthest = -EAGAIN;
	s64 ahead, most = 0;
	u32 i;

	topo = llcc ? try_lookup_llc_topo(llcc->topo.idx) : NULL;
	if (!topo)
		return -EAGAIN;
	here = burden_of(llcc, now);
	/* This CPU at least, though it may have nothing to run just now. */
	here.nr_cpus += !here.nr_cpus;
	bpf_for(i, from, topo->nr_neighbours) {
		if (i >= MAX_NEIGHBOURS)
			break;
		other = lookup_llc(topo->neighbours[i]);
		if (!other)
			break;
		there = burden_of(other, now);
		if (!there.nr_cpus || is_better_here(&here, other, &there))
			return i;
		ahead = there.load / there.nr_cpus - here.load / here.nr_cpus;
		if (!furthest || ahead > most) {
			furthest = other;
			nr_furthest = i;
			most = ahead;
		}
	}
	if (!furthest || !is_turn(llcc, here.nr_cpus, furthest, most, now))
		return -EAGAIN;
	return nr_furthest;
}

/* Only batch work of a domain that has CPUs for what is brief. */
__noinline bool steal_to_even_out(s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	const struct llc_topo *topo;
	u32 i, idx, from = 0;
	s32 nr;

	topo = llcc ? try_lookup_llc_topo(llcc->topo.idx) : NULL;
	if (!topo)
		return false;
	cpuc->steal.balance_at = now + BALANCE_INTERVAL_NS;
	bpf_for(i, 0, MAX_NEIGHBOURS) {
		nr = steal_choose(cpu, from, now);
		if (nr < 0 || nr >= MAX_NEIGHBOURS)
			break;
		idx = topo->neighbours[nr];
		if (steal_from(cpu, idx, steal_nr_serving(idx, now), now)) {
			llcc->steal.behind = 0;
			return true;
		}
		/* It may not run what is first there. */
		from = nr + 1;
	}
	return false;
}
