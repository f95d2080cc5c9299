/* SPDX-License-Identifier: GPL-2.0 */
/* See preempt.bpf.h for the purpose. */
#include "preempt.bpf.h"
#include "idle.bpf.h"
#include "queue.bpf.h"
#include "stats.bpf.h"
#include "policy/vtime.h"

enum preempt_consts {
	/* Domains searched for a victim besides the task's own. */
	VICTIM_LLCS_MAX = 8,
	/* CPUs of a domain that one wakeup looks at. */
	VICTIM_TRIES_MAX = 4,
	/* cpuc->is_victim holds this plus the tier while the CPU is offered. */
	OFFERED = 1,
	/* How often a CPU that goes offline looks whether it may. */
	OFFLINE_POLL_NS = 2 * NSEC_PER_MSEC,
	/* How long a CPU may be idle while tasks wait that may be for it. */
	IDLE_PATIENCE_NS = 1 * NSEC_PER_MSEC,
	/* How long batch work may go on after it woke a task, and at least. */
	HURRY_NS = 1 * NSEC_PER_MSEC,
	HURRY_MIN_NS = 50 * NSEC_PER_USEC,
	/* A task that usually runs for less is soon out of the way again. */
	BRIEF_GRANT_NS = 500 * NSEC_PER_USEC,
};

struct slice_timer {
	struct bpf_timer timer;
};

/* Timers and the instants for which they are armed, an entry for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slice_timer);
} slice_timers SEC(".maps");

static bool is_online(s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool is_set = bpf_cpumask_test_cpu(cpu, online);

	scx_bpf_put_cpumask(online);
	return is_set;
}

/*
 * Let @cpu find what waits for it though it is not asked to dispatch, as when it
 * goes offline.
 */
static void evacuate(s32 cpu)
{
	queue_evacuate(cpu);
	scx_bpf_kick_cpu(cpu, 0);
}

/*
 * Let @cpuc's CPU, which goes offline, look at its runqueue, and again until it
 * is gone. The kernel waits there for the last task to leave, but an idle CPU
 * does not see that another one took it.
 */
static void nudge_offline(struct bpf_timer *timer, struct cpu_ctx *cpuc)
{
	if (!is_online(cpuc->cpu))
		return;
	evacuate(cpuc->cpu);
	bpf_timer_start(timer, OFFLINE_POLL_NS, 0);
}

/*
 * End the slice of CPU @key if its time has come; else, since the slice was
 * renewed after the timer was armed, look again when it has.
 */
static int slice_timer_fn(void *map, u32 *key, struct bpf_timer *timer)
{
	struct cpu_ctx *cpuc = lookup_cpu(*key);
	u64 now = scx_bpf_now(), armed_for, ends_at;

	if (!cpuc)
		return 0;
	/*
	 * Whoever arms it writes the end of the slice and then looks at the
	 * timer; here it is the other way round, so that an end that relies on
	 * this timer is seen. What another CPU writes in this very moment may be
	 * missed and is put right by the next tick.
	 */
	armed_for = __sync_lock_test_and_set(&cpuc->timer_at, 0);
	/*
	 * It fires late if softirqs are put off; taken for punctual, each
	 * lateness would stay. Out here the clock may be that of the last
	 * switch, before that instant even.
	 */
	if (vtime_before(now, armed_for))
		now = armed_for;
	ends_at = READ_ONCE(cpuc->slice_ends_at);
	if (cpuc->is_offline) {
		nudge_offline(timer, cpuc);
		return 0;
	}
	if (!armed_for || !ends_at)
		return 0;
	if (vtime_before(now, ends_at)) {
		WRITE_ONCE(cpuc->timer_at, ends_at);
		bpf_timer_start(timer, ends_at - now, BPF_F_TIMER_CPU_PIN);
		return 0;
	}
	WRITE_ONCE(cpuc->slice_ends_at, 0);
	if (cpuc->is_idle) {
		evacuate(cpuc->cpu);
		return 0;
	}
	stat_inc(cpuc, STAT_SLICE_TIMER);
	scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	return 0;
}

__hidden s32 preempt_init(void)
{
	struct slice_timer *st;
	s32 err, i;
	u32 key;

	bpf_for(i, 0, nr_cpu_ids) {
		key = i;
		st = bpf_map_lookup_elem(&slice_timers, &key);
		if (!st)
			return -ENOENT;
		err = bpf_timer_init(&st->timer, &slice_timers,
				     CLOCK_MONOTONIC);
		if (!err)
			err = bpf_timer_set_callback(&st->timer,
						     slice_timer_fn);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Return the CPUs of @llcc that run a task of @tier, or NULL.
 *
 * Two branches rather than an array: the verifier wants a kptr at a constant
 * offset.
 */
static __always_inline struct bpf_cpumask *victim_mask(struct llc_ctx *llcc,
						       u32 tier)
{
	struct bpf_cpumask *mask = NULL;

	if (tier == TIER_BATCH) {
		mask = llcc->batch_cpus;
		barrier_var(mask);
	} else if (tier == TIER_INTERACTIVE) {
		mask = llcc->interactive_cpus;
		barrier_var(mask);
	}
	return mask;
}

static void mark_victim(struct llc_ctx *llcc, s32 cpu, u32 tier)
{
	struct bpf_cpumask *mask = victim_mask(llcc, tier);

	if (mask)
		bpf_cpumask_set_cpu(cpu, mask);
}

static void unmark_victim(struct llc_ctx *llcc, s32 cpu, u32 tier)
{
	struct bpf_cpumask *mask = victim_mask(llcc, tier);

	if (mask)
		bpf_cpumask_clear_cpu(cpu, mask);
}

/* Return the rank by now of what runs on @cpuc's CPU. */
static u64 curr_rank(const struct cpu_ctx *cpuc)
{
	u64 ran_ns = scx_bpf_now() - cpuc->started_at;

	/* Stamped by another CPU, whose clock may be ahead of ours. */
	if ((s64)ran_ns < 0)
		ran_ns = 0;
	return cpuc->curr_rank + vtime_charge(ran_ns, cpuc->curr_weight);
}

/*
 * Take the CPU of @cpuc off the offer for @p.
 *
 *   1. Never from an equal or a higher tier.
 *   2. Never from a normal task for one that was niced down.
 *   3. Never from a task that is owed more than the tier of @p is worth.
 *
 * The compare-and-swap decides between two wakeups that found it together.
 *
 * Return whether it is now the caller's.
 */
static bool claim(struct task_struct *p, struct task_ctx *taskc,
		  struct llc_ctx *llcc, struct cpu_ctx *cpuc)
{
	u32 offer = READ_ONCE(cpuc->is_victim), tier = taskc->served_tier;
	u32 victim_tier;

	if (offer < OFFERED)
		return false;
	victim_tier = offer - OFFERED;
	if (victim_tier >= tier || victim_tier >= TIER_LAT_CRITICAL)
		return false;
	if (p->scx.weight < WEIGHT_NICE_0 && p->scx.weight < cpuc->curr_weight)
		return false;
	if (vtime_before(curr_rank(cpuc),
			 vtime_rank(taskc->vtime, tier, taskc->is_sponsored)))
		return false;
	if (!__sync_bool_compare_and_swap(&cpuc->is_victim, offer, 0))
		return false;

	WRITE_ONCE(cpuc->granted_ns, taskc->avg_runtime_ns);
	unmark_victim(llcc, cpuc->cpu, victim_tier);
	if (cpuc->is_busy && cpuc->curr_tier >= tier)
		stat_inc(cpuc, STAT_PREEMPT_EQUAL);
	return true;
}

/* Claim for @p a CPU of @llcc that runs a task of @victim_tier, or -EBUSY. */
static s32 claim_from_mask(struct task_struct *p, struct task_ctx *taskc,
			   struct llc_ctx *llcc, u32 victim_tier)
{
	struct bpf_cpumask *mask = victim_mask(llcc, victim_tier);
	struct cpu_ctx *cpuc;
	u32 i, cpu;

	if (!mask)
		return -EBUSY;
	/* The search goes on behind the CPU that it found last. */
	bpf_for(i, 0, VICTIM_TRIES_MAX) {
		cpu = bpf_cpumask_any_and_distribute(cast_mask(mask),
						     p->cpus_ptr);
		if (cpu >= nr_cpu_ids)
			return -EBUSY;
		cpuc = lookup_cpu(cpu);
		if (cpuc && claim(p, taskc, llcc, cpuc))
			return cpu;
	}
	return -EBUSY;
}

/* Claim for @p a CPU of @llcc that runs anything below it, batch first. */
static s32 claim_from_llc(struct task_struct *p, struct task_ctx *taskc,
			  struct llc_ctx *llcc)
{
	s32 cpu = claim_from_mask(p, taskc, llcc, TIER_BATCH);

	if (cpu < 0 && taskc->served_tier > TIER_INTERACTIVE)
		cpu = claim_from_mask(p, taskc, llcc, TIER_INTERACTIVE);
	return cpu;
}

__hidden s32 preempt_claim_cpu(struct task_struct *p, struct task_ctx *taskc,
			       s32 prev_cpu, struct llc_ctx *llcc)
{
	const struct llc_topo *topo;
	u32 i, nr;
	s32 cpu;

	if (taskc->served_tier == TIER_BATCH)
		return -EBUSY;
	if (preempt_claim_this(p, taskc, prev_cpu))
		return prev_cpu;

	cpu = claim_from_llc(p, taskc, llcc);
	if (cpu >= 0 || nr_llcs == 1 || idle_keeps_llc(p, taskc, llcc))
		return cpu;

	topo = try_lookup_llc_topo(llcc->idx);
	if (!topo)
		return -EBUSY;
	nr = topo->nr_neighbours;
	if (nr > VICTIM_LLCS_MAX)
		nr = VICTIM_LLCS_MAX;
	bpf_for(i, 0, nr) {
		if (i >= MAX_NEIGHBOURS)
			break;
		llcc = lookup_llc(topo->neighbours[i]);
		if (!llcc)
			break;
		cpu = claim_from_llc(p, taskc, llcc);
		if (cpu >= 0)
			return cpu;
	}
	return -EBUSY;
}

__hidden bool preempt_claim_this(struct task_struct *p, struct task_ctx *taskc,
				 s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc;

	if (!cpuc || taskc->served_tier == TIER_BATCH ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	llcc = lookup_llc(cpuc->llc_idx);
	return llcc && claim(p, taskc, llcc, cpuc);
}

__hidden bool preempt_is_briefly_granted(const struct cpu_ctx *cpuc)
{
	u64 granted_ns = READ_ONCE(cpuc->granted_ns);

	return granted_ns && granted_ns < BRIEF_GRANT_NS;
}

__hidden void preempt_offer(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
			    u32 tier)
{
	u32 offer = tier < TIER_LAT_CRITICAL ? tier + OFFERED : 0;
	u32 old = cpuc->is_victim;
	u32 old_tier = old - OFFERED;

	if (old == offer)
		return;
	/*
	 * A claim of the old offer may come in between. It then takes the CPU
	 * from a task that it did not see, which costs that task a switch; the
	 * counter of equal preemptions would show it.
	 */
	WRITE_ONCE(cpuc->is_victim, offer);
	if (old >= OFFERED)
		unmark_victim(llcc, cpuc->cpu, old_tier);
	if (offer >= OFFERED)
		mark_victim(llcc, cpuc->cpu, tier);
}

__hidden void preempt_withdraw(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	preempt_offer(cpuc, llcc, TIER_LAT_CRITICAL);
}

__hidden void preempt_leave(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	u32 key = cpuc->cpu;
	struct slice_timer *st = bpf_map_lookup_elem(&slice_timers, &key);

	preempt_withdraw(cpuc, llcc);
	scx_bpf_kick_cpu(cpuc->cpu, 0);
	if (st)
		bpf_timer_start(&st->timer, OFFLINE_POLL_NS, 0);
}

__hidden void preempt_update_idle(s32 cpu, bool is_idle)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->llc_idx) : NULL;

	if (!llcc)
		return;
	cpuc->is_idle = is_idle;
	/* Idle though somebody waits: nobody may come to ask it. */
	if (is_idle && queue_nr_waiting(cpuc, llcc))
		preempt_end_slice_in(cpuc, scx_bpf_now(), IDLE_PATIENCE_NS);
}

__hidden void preempt_hurry(struct cpu_ctx *cpuc, u64 vtime)
{
	u64 now = scx_bpf_now(), ran_ns = now - cpuc->took_at;

	if (vtime_before(curr_rank(cpuc), vtime + HEAD_START_LAT_CRITICAL_NS))
		return;
	preempt_end_slice_in(cpuc, now,
			     ran_ns + HURRY_MIN_NS < HURRY_NS
				     ? HURRY_NS - ran_ns
				     : HURRY_MIN_NS);
}

__hidden void preempt_end_slice_in(struct cpu_ctx *cpuc, u64 now, u64 left_ns)
{
	u64 ends_at = now + left_ns, old_ends_at;
	struct slice_timer *st;
	u32 key = cpuc->cpu;

	old_ends_at = READ_ONCE(cpuc->slice_ends_at);
	if (cpuc->is_offline ||
	    (old_ends_at && !vtime_before(ends_at, old_ends_at)))
		return;
	WRITE_ONCE(cpuc->slice_ends_at, ends_at);
	/* A timer that fires before that will look and arm itself again. */
	if (cpuc->timer_at && !vtime_before(ends_at, cpuc->timer_at))
		return;
	st = bpf_map_lookup_elem(&slice_timers, &key);
	if (!st)
		return;
	WRITE_ONCE(cpuc->timer_at, ends_at);
	bpf_timer_start(&st->timer, left_ns, BPF_F_TIMER_CPU_PIN);
}
