/* SPDX-License-Identifier: GPL-2.0 */
/* preempt: which CPU has to make room? See preempt.bpf.h. */
#include "preempt.bpf.h"
#include "idle.bpf.h"
#include "share.bpf.h"
#include "stats.bpf.h"
#include "topo.bpf.h"
#include "policy/preempt.h"
#include "policy/vtime.h"

enum preempt_consts {
	/* A task that usually runs for less is soon out of the way again. */
	BRIEF_GRANT_NS = 500 * NSEC_PER_USEC,
	/* Domains searched for a victim besides the task's own. */
	VICTIM_LLCS_MAX = 8,
	/* CPUs of a domain that one wakeup looks at. */
	VICTIM_TRIES_MAX = 4,
	/* While a CPU is offered, its offered_tier is this plus the tier. */
	OFFERED = 1,
};

/*
 * Give the CPU of @cpuc to @p at @now. Return false if another task is on its
 * way there.
 */
static bool grant(const struct task_struct *p, const struct task_ctx *taskc,
		  struct cpu_ctx *cpuc, u64 now)
{
	u64 old = READ_ONCE(cpuc->preempt.grant);
	u64 runtime_ns = taskc->classify.avg_runtime_ns;
	bool is_brief = runtime_ns && runtime_ns < BRIEF_GRANT_NS;

	return !grant_is_pending(old, now) &&
	       __sync_bool_compare_and_swap(&cpuc->preempt.grant, old,
					    grant_word(p->pid, is_brief, now));
}

/* Take the CPU of @cpuc back: no task is on its way there. */
static void revoke(struct cpu_ctx *cpuc)
{
	WRITE_ONCE(cpuc->preempt.grant, 0);
}

/*
 * The task that was on its way may run there already: it says so before it ends
 * its grant.
 *
 * A CPU that is refused was claimed in vain: it looks for work, after which it
 * is in the idle mask again.
 */
__hidden s32 preempt_grant_idle(const struct task_struct *p,
				const struct task_ctx *taskc, s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = cpu >= 0 ? lookup_cpu(cpu) : NULL;

	if (!cpuc)
		return cpu;
	if (grant(p, taskc, cpuc, now)) {
		if (!READ_ONCE(cpuc->account.is_busy))
			return cpu;
		revoke(cpuc);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return -EBUSY;
}

__hidden void preempt_end_grant(const struct task_struct *p,
				struct cpu_ctx *cpuc, u64 now)
{
	u64 word = READ_ONCE(cpuc->preempt.grant);

	/* Of another task it stays: that is to come. */
	if (word && (grant_is_to(word, p->pid) || !grant_is_pending(word, now)))
		revoke(cpuc);
}

__hidden s32 preempt_init(void)
{
	struct llc_ctx *llcc;
	s32 err, i;

	bpf_for(i, 0, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			return -ENOENT;
		err = topo_create_span(&llcc->preempt.batch_cpus, SPAN_NONE, 0);
		if (!err)
			err = topo_create_span(&llcc->preempt.interactive_cpus,
					       SPAN_NONE, 0);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Return the CPUs of @llcc that offer a task of @tier, or NULL. In two
 * branches, since the verifier wants a kptr at a constant offset.
 */
static __always_inline struct bpf_cpumask *offered_mask(struct llc_ctx *llcc,
							u32 tier)
{
	struct bpf_cpumask *mask;

	if (tier == TIER_BATCH) {
		mask = llcc->preempt.batch_cpus;
		barrier_var(mask);
	} else {
		mask = llcc->preempt.interactive_cpus;
		barrier_var(mask);
	}
	return mask;
}

static void mark_offered(struct llc_ctx *llcc, s32 cpu, u32 tier,
			 bool is_offered)
{
	struct bpf_cpumask *mask = offered_mask(llcc, tier);

	if (mask && is_offered)
		bpf_cpumask_set_cpu(cpu, mask);
	else if (mask)
		bpf_cpumask_clear_cpu(cpu, mask);
}

/*
 * Return whether what runs on the CPU of @cpuc goes on before the task of
 * @taskc.
 */
static bool is_outranked(const struct task_ctx *taskc,
			 const struct cpu_ctx *cpuc)
{
	return READ_ONCE(cpuc->account.is_busy) &&
	       !preempt_is_above(taskc->classify.served_tier,
				 taskc->classify.avg_runtime_ns,
				 READ_ONCE(cpuc->account.tier),
				 READ_ONCE(cpuc->account.burst_ns));
}

__hidden u64 preempt_vtime_on(const struct task_ctx *taskc,
			      const struct cpu_ctx *cpuc)
{
	struct llc_ctx *own, *other;

	if (nr_llcs == 1 || taskc->share.llc_idx == cpuc->topo.llc_idx)
		return taskc->share.vtime;
	own = lookup_llc(taskc->share.llc_idx);
	other = lookup_llc(cpuc->topo.llc_idx);
	if (!own || !other)
		return taskc->share.vtime;
	return vtime_rebase(taskc->share.vtime,
			    READ_ONCE(own->share.clock.avg_vruntime),
			    READ_ONCE(other->share.clock.avg_vruntime));
}

/*
 * Take @cpu, which @p may use, off the offer for it.
 *
 *   1. Never from a task that @p does not go before, see policy/preempt.h:
 *	neither the one that made the offer nor one that came after it.
 *   2. Never from a task that is owed more than the tier of @p is worth,
 *	unless @p is short next to it.
 *   3. Never from real-time work: such a CPU is on offer again when a task of
 *	ours begins to run there.
 *   4. Never from a task on its way there.
 *
 * Return whether it is now the caller's.
 *
 * Not static, so that the verifier walks it once, not at each call.
 */
__noinline bool preempt_claim(struct task_struct *p __arg_trusted,
			      struct task_ctx *taskc __arg_nonnull, s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	u32 tier = taskc->classify.served_tier, offer, victim_tier;
	u64 burst_ns = taskc->classify.avg_runtime_ns, victim_burst_ns, now;
	bool is_late;

	if (!llcc)
		return false;
	offer = READ_ONCE(cpuc->preempt.offered_tier);
	if (offer < OFFERED)
		return false;
	victim_tier = offer - OFFERED;
	victim_burst_ns = READ_ONCE(cpuc->account.burst_ns);
	if (!preempt_is_above(tier, burst_ns, victim_tier, victim_burst_ns))
		return false;
	now = scx_bpf_now();
	if (!preempt_is_short(tier, burst_ns, victim_tier, victim_burst_ns) &&
	    vtime_before(share_curr_rank(cpuc, now),
			 vtime_rank(preempt_vtime_on(taskc, cpuc), tier,
				    taskc->classify.is_admitted)))
		return false;
	if (is_outranked(taskc, cpuc) || !grant(p, taskc, cpuc, now))
		return false;
	/* Last, so that a CPU which switched until now is not taken. */
	if (!__sync_bool_compare_and_swap(&cpuc->preempt.offered_tier, offer,
					  0)) {
		revoke(cpuc);
		return false;
	}
	is_late = is_outranked(taskc, cpuc);
	mark_offered(llcc, cpu, victim_tier, false);
	if (!is_late)
		return true;
	/* It has just switched, and makes an offer of its own. */
	stat_inc(cpuc, STAT_PREEMPT_EQUAL);
	revoke(cpuc);
	return false;
}

/* Return whether the core of @cpu serves latency-critical work too. */
static bool is_beside_lat_critical(s32 cpu)
{
	const struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct cpu_ctx *sibling = cpuc ? lookup_cpu(cpuc->topo.sibling) : NULL;

	return sibling && READ_ONCE(sibling->account.is_busy) &&
	       READ_ONCE(sibling->account.tier) == TIER_LAT_CRITICAL;
}

/*
 * Claim for @p a CPU of @llcc that runs a task of @victim_tier: @prev_cpu if it
 * does, and one whose core serves latency-critical work too only if no other
 * was found. Return it or -EBUSY.
 */
static s32 claim_tier(struct task_struct *p, struct task_ctx *taskc,
		      struct llc_ctx *llcc, s32 prev_cpu, u32 victim_tier)
{
	struct bpf_cpumask *mask = offered_mask(llcc, victim_tier);
	const struct cpumask *cpus = p->cpus_ptr;
	s32 cpu, beside = -EBUSY;
	u32 i;

	if (!mask)
		return -EBUSY;
	if (bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)) &&
	    preempt_claim_this(p, taskc, prev_cpu))
		return prev_cpu;
	/* The search goes on behind the CPU that it found last. */
	bpf_for(i, 0, VICTIM_TRIES_MAX) {
		cpu = bpf_cpumask_any_and_distribute(cast_mask(mask), cpus);
		if ((u32)cpu >= nr_cpu_ids || cpu == beside)
			break;
		if (has_smt && is_beside_lat_critical(cpu))
			beside = beside >= 0 ? beside : cpu;
		else if (preempt_claim(p, taskc, cpu))
			return cpu;
	}
	return beside >= 0 && preempt_claim(p, taskc, beside) ? beside : -EBUSY;
}

/*
 * Claim for @p a CPU of domain @llc_idx that runs anything below it, batch
 * first, and of several @prev_cpu. Return it or -EBUSY.
 *
 * Not static, so that the verifier walks the search once, not at each call.
 */
__noinline s32 preempt_claim_in_llc(struct task_struct *p __arg_trusted,
				    struct task_ctx *taskc __arg_nonnull,
				    s32 prev_cpu, u32 llc_idx)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	s32 cpu;

	if (!llcc)
		return -EBUSY;
	cpu = claim_tier(p, taskc, llcc, prev_cpu, TIER_BATCH);
	if (cpu < 0)
		cpu = claim_tier(p, taskc, llcc, prev_cpu, TIER_INTERACTIVE);
	return cpu;
}

/* Not static, as preempt_claim_in_llc(). */
__noinline s32 preempt_claim_cpu(struct task_struct *p __arg_trusted,
				 struct task_ctx *taskc __arg_nonnull,
				 s32 prev_cpu, u32 llc_idx)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx), *other;
	const struct llc_topo *topo;
	bool keeps_llc;
	u32 i, nr;
	s32 cpu;

	if (!llcc || taskc->classify.served_tier == TIER_BATCH)
		return -EBUSY;
	cpu = preempt_claim_in_llc(p, taskc, prev_cpu, llc_idx);
	if (cpu >= 0 || nr_llcs == 1)
		return cpu;

	topo = try_lookup_llc_topo(llc_idx);
	if (!topo)
		return -EBUSY;
	keeps_llc = idle_keeps_llc(p, taskc, llcc);
	nr = topo->nr_neighbours;
	if (nr > VICTIM_LLCS_MAX)
		nr = VICTIM_LLCS_MAX;
	bpf_for(i, 0, nr) {
		if (i >= MAX_NEIGHBOURS)
			break;
		other = lookup_llc(topo->neighbours[i]);
		/* Those of the same cache are the nearest. */
		if (!other || (keeps_llc && !topo_share_cache(llcc, other)))
			break;
		cpu = preempt_claim_in_llc(p, taskc, prev_cpu,
					   topo->neighbours[i]);
		if (cpu >= 0)
			return cpu;
	}
	return -EBUSY;
}

__hidden void preempt_kick_cpu(struct task_struct *p, struct task_ctx *taskc,
			       s32 prev_cpu, u32 llc_idx)
{
	s32 cpu = preempt_claim_cpu(p, taskc, prev_cpu, llc_idx);
	struct cpu_ctx *cpuc = cpu >= 0 ? lookup_cpu(cpu) : NULL;

	if (!cpuc)
		return;
	/* No task is on its way to that CPU itself. */
	revoke(cpuc);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

__hidden bool preempt_claim_this(struct task_struct *p, struct task_ctx *taskc,
				 s32 cpu)
{
	return may_run_on(p, cpu) && preempt_claim(p, taskc, cpu);
}

/* Let the CPU of @cpuc make the offer @offer, or none if that is 0. */
static void set_offer(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u32 offer)
{
	u32 old = cpuc->preempt.offered_tier;
	u32 old_tier = old - OFFERED, tier = offer - OFFERED;

	if (old == offer)
		return;
	/*
	 * A claim of the old offer may come in between. It looks at what runs
	 * before and after, see is_outranked(), and is given up then; what runs
	 * from then on is lost to it.
	 */
	WRITE_ONCE(cpuc->preempt.offered_tier, offer);
	if (old >= OFFERED)
		mark_offered(llcc, cpuc->topo.cpu, old_tier, false);
	if (offer >= OFFERED)
		mark_offered(llcc, cpuc->topo.cpu, tier, true);
}

__hidden void preempt_offer(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			    u32 tier, u64 burst_ns)
{
	set_offer(cpuc, llcc,
		  preempt_is_above_all(tier, burst_ns) ? 0 : tier + OFFERED);
}

__hidden void preempt_withdraw(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	set_offer(cpuc, llcc, 0);
}

/*
 * A higher scheduling class takes the CPU of @cpuc. Linux bypasses a scheduler
 * to enable and disable it: what waits in the local DSQ stays there then.
 */
static bool lose_cpu(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	preempt_withdraw(cpuc, llcc);
	revoke(cpuc);
	stat_inc(cpuc, STAT_RT_RELEASE);
	return !is_cpu_bypassed();
}

__hidden void preempt_cpu_release(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	if (llcc && lose_cpu(cpuc, llcc))
		scx_bpf_reenqueue_local();
}

__hidden void preempt_stopping(const struct task_struct *p,
			       struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	if (!has_cpu_release && p->scx.slice && lose_cpu(cpuc, llcc))
		scx_bpf_reenqueue_local_from_anywhere();
}
