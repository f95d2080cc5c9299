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
};

/*
 * Grant the CPU of @cpuc, whose word was @old, to @p at @now; it offers @offer
 * from then on. Return false if the word is another by now.
 */
static bool grant(const struct task_struct *p, const struct task_ctx *taskc,
		  struct cpu_ctx *cpuc, u64 old, u64 now, u32 offer)
{
	u64 runtime_ns = taskc->classify.avg_runtime_ns;
	bool is_brief = runtime_ns && runtime_ns < BRIEF_GRANT_NS;

	return __sync_bool_compare_and_swap(
		&cpuc->preempt.claim, old,
		claim_grant(p->pid, is_brief, now, offer));
}

/*
 * A CPU that is refused was claimed in vain: it looks for work, after which it
 * is in the idle mask again.
 */
__hidden s32 preempt_grant_idle(const struct task_struct *p,
				const struct task_ctx *taskc, s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = cpu >= 0 ? lookup_cpu(cpu) : NULL;
	u64 old;

	if (!cpuc)
		return cpu;
	old = READ_ONCE(cpuc->preempt.claim);
	if (claim_offer(old) == CLAIM_IDLE && !claim_is_pending(old, now) &&
	    grant(p, taskc, cpuc, old, now, CLAIM_IDLE))
		return cpu;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return -EBUSY;
}

__hidden void preempt_end_grant(const struct task_struct *p,
				struct cpu_ctx *cpuc)
{
	u64 word = READ_ONCE(cpuc->preempt.claim);

	/* If it is another by now, the grant stays until it is over. */
	if (claim_pid(word) == p->pid)
		__sync_bool_compare_and_swap(&cpuc->preempt.claim, word,
					     claim_offer(word));
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
 *   1. Never from a task that @p does not go before, see policy/preempt.h.
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
	u64 burst_ns = taskc->classify.avg_runtime_ns, victim_burst_ns;
	u64 now, word;

	if (!llcc)
		return false;
	/* First: what is read of the task that runs is not of one before. */
	word = READ_ONCE(cpuc->preempt.claim);
	offer = claim_offer(word);
	if (offer < CLAIM_OFFERED || offer == CLAIM_CLOSED)
		return false;
	victim_tier = offer - CLAIM_OFFERED;
	victim_burst_ns = READ_ONCE(cpuc->account.burst_ns);
	if (!preempt_is_above(tier, burst_ns, victim_tier, victim_burst_ns))
		return false;
	now = scx_bpf_now();
	if (claim_is_pending(word, now))
		return false;
	if (!preempt_is_short(tier, burst_ns, victim_tier, victim_burst_ns) &&
	    vtime_before(share_curr_rank(cpuc, now),
			 vtime_rank(preempt_vtime_on(taskc, cpuc), tier,
				    taskc->classify.is_admitted)))
		return false;
	if (!grant(p, taskc, cpuc, word, now, CLAIM_BUSY))
		return false;
	mark_offered(llcc, cpu, victim_tier, false);
	return true;
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
	/* It does not come itself. */
	preempt_end_grant(p, cpuc);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

__hidden bool preempt_claim_this(struct task_struct *p, struct task_ctx *taskc,
				 s32 cpu)
{
	return may_run_on(p, cpu) && preempt_claim(p, taskc, cpu);
}

/* The CPU of @cpuc does not make the offer @old any more, but @offer. */
static void mark_offer(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u32 old,
		       u32 offer)
{
	s32 cpu = cpuc->topo.cpu;

	if (old >= CLAIM_OFFERED && old != CLAIM_CLOSED)
		mark_offered(llcc, cpu, old - CLAIM_OFFERED, false);
	if (offer >= CLAIM_OFFERED)
		mark_offered(llcc, cpu, offer - CLAIM_OFFERED, true);
}

/*
 * Let the CPU of @cpuc make the offer @offer. Closed, it is claimed by none, so
 * that a plain write follows.
 */
static void set_offer(struct cpu_ctx *cpuc, struct llc_ctx *llcc, u32 offer)
{
	u64 word = READ_ONCE(cpuc->preempt.claim);

	if (claim_offer(word) == offer)
		return;
	word = __sync_fetch_and_or(&cpuc->preempt.claim, CLAIM_CLOSED);
	WRITE_ONCE(cpuc->preempt.claim, claim_with_offer(word, offer));
	mark_offer(cpuc, llcc, claim_offer(word), offer);
}

__hidden void preempt_offer(const struct task_struct *p, struct cpu_ctx *cpuc,
			    struct llc_ctx *llcc, bool is_protected, u64 now)
{
	u32 tier = cpuc->account.tier, offer = CLAIM_OFFERED + tier, old;
	u64 word = READ_ONCE(cpuc->preempt.claim);

	if (is_protected || preempt_is_above_all(tier, cpuc->account.burst_ns))
		offer = CLAIM_BUSY;
	if (word == offer)
		return;
	/* As in set_offer(). */
	word = __sync_fetch_and_or(&cpuc->preempt.claim, CLAIM_CLOSED);
	old = claim_offer(word);
	word = claim_arrived(word, p->pid, now);
	WRITE_ONCE(cpuc->preempt.claim, claim_with_offer(word, offer));
	if (old != offer)
		mark_offer(cpuc, llcc, old, offer);
}

__hidden void preempt_withdraw(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	if (claim_offer(READ_ONCE(cpuc->preempt.claim)) != CLAIM_IDLE)
		set_offer(cpuc, llcc, CLAIM_BUSY);
}

__hidden void preempt_set_idle(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	set_offer(cpuc, llcc, CLAIM_IDLE);
}

/*
 * A higher scheduling class takes the CPU of @cpuc, whatever was to come there.
 * Linux bypasses a scheduler to enable and disable it: what waits in the local
 * DSQ stays there then.
 */
static bool lose_cpu(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	u64 word = __sync_lock_test_and_set(&cpuc->preempt.claim, CLAIM_IDLE);

	mark_offer(cpuc, llcc, claim_offer(word), CLAIM_IDLE);
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
