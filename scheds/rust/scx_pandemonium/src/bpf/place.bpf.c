/* SPDX-License-Identifier: GPL-2.0 */
/* place: which CPU does a ready task go to? See place.bpf.h. */
#include "place.bpf.h"
#include "account.bpf.h"
#include "awaited.bpf.h"
#include "classify.bpf.h"
#include "compositor.bpf.h"
#include "grant.bpf.h"
#include "handoff.bpf.h"
#include "idle.bpf.h"
#include "look.bpf.h"
#include "newidle.bpf.h"
#include "pack.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "share.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "waker.bpf.h"
#include "policy/vtime.h"

/*
 * Return whether only one CPU may run @p, now or ever.
 *
 * NOTE: to run a BPF program may disable migration of the current task, as a
 * probe of the library has seen, and ops.cpu_release() runs another one for the
 * task that lost its CPU. For the current task so many levels mean nothing.
 */
static bool is_pinned(const struct task_struct *p, u64 enq_flags)
{
	u32 level = 0, nothing = 0;

	if (bpf_core_field_exists(p->migration_disabled))
		level = p->migration_disabled;
	if (__scx_prolog_disables_migration && p == bpf_get_current_task_btf())
		nothing = enq_flags & SCX_ENQ_REENQ ? 2 : 1;
	return p->nr_cpus_allowed == 1 || level > nothing;
}

/* Give @p straight to the local DSQ that @dsq_id names. */
static void insert_local(struct task_struct *p, struct task_ctx *taskc,
			 u64 dsq_id, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, dsq_id, classify_slice_ns(taskc), enq_flags);
}

/*
 * @p begins to wait, at @now, for a CPU of @llcc: after a sleep or as a new
 * task. @cpuc is the CPU that we are on, @wakerc the task there that woke it.
 */
static void become_runnable(struct task_struct *p, struct task_ctx *taskc,
			    const struct task_ctx *wakerc, struct cpu_ctx *cpuc,
			    struct llc_ctx *llcc, u64 now)
{
	account_begin_wait(taskc, now);
	if (taskc->share.is_sleeping) {
		classify_wakeup(taskc, wakerc, cpuc, now);
		compositor_check(p, taskc, now);
	}
	share_become_runnable(taskc, llcc->topo.idx, now);
}

/*
 * Give @p, from ops.select_cpu(), to @cpu on the way that @path names; cpuc is
 * the CPU that we are on. Return @cpu. Inline, having too many parameters for a
 * function: where clang drops one, Linux 7.3 expects it on the stack.
 */
static __always_inline s32 place_on(struct task_struct *p,
				    struct task_ctx *taskc,
				    struct cpu_ctx *cpuc, struct llc_ctx *llcc,
				    s32 cpu, enum stat_id path)
{
	u64 enq_flags = 0;

	/*
	 * If a higher class gets there first, @p comes back to ops.enqueue().
	 * Not on a handoff: the waker still runs.
	 */
	if (path != STAT_PLACE_HANDOFF)
		enq_flags = SCX_ENQ_IMMED;
	if (path == STAT_PLACE_PREEMPT)
		enq_flags |= SCX_ENQ_PREEMPT;
	/* The local DSQ is that of the CPU that ops.select_cpu() returns. */
	insert_local(p, taskc, SCX_DSQ_LOCAL, enq_flags);
	stat_inc(cpuc, path);
	classify_enqueued(cpuc, llcc);
	return cpu;
}

/* ops.select_cpu(): claim an idle CPU for @p. Return it, or -EBUSY. */
static s32 claim_idle(struct task_struct *p, s32 prev_cpu)
{
	s32 cpu = pack_claim_packed(p, prev_cpu);

	return cpu == -EINVAL ? idle_select_cpu(p, prev_cpu) : cpu;
}

/* Give @p, from ops.select_cpu(), this CPU, that of @cpuc. Return it. */
static s32 hand_off(struct task_struct *p, struct task_ctx *taskc,
		    struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	handoff_begin(cpuc, now);
	return place_on(p, taskc, cpuc, llcc, cpuc->topo.cpu,
			STAT_PLACE_HANDOFF);
}

/*
 * Place waking (or new) task @p.
 *
 * If a rule confines it: an idle one of the CPUs that it keeps to, or none.
 *
 *   1. The waker's CPU, if it said that it will sleep and is known for that:
 *	nothing has to be woken and the data is in its cache.
 *   2. An idle CPU, the nearest one (idle), or one of those that work keeps to
 *	(pack).
 *   3. The waker's CPU, if it is about to sleep without having said so, as with
 *	futexes.
 *   4. A CPU that runs something of a lower tier, for a task that has earned
 *	its own tier. A task that batch work feeds waits until that has run for
 *	a while, and one whose waker has just begun to run for a moment.
 *
 * Return the CPU. @p is inserted unless none of these applied; ops.enqueue()
 * follows then.
 *
 * NOTE: pinned tasks never get here.
 */
__hidden s32 place_select_cpu(struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = -EINVAL;
	struct task_ctx *taskc = try_lookup_task(p), *wakerc;
	struct cpu_ctx *cpuc = lookup_cpu(this_cpu);
	struct cpu_ctx *prev_cpuc = lookup_cpu(prev_cpu);
	bool is_sync = wake_flags & SCX_WAKE_SYNC, may_hand_off;
	struct llc_ctx *llcc;
	u64 now = scx_bpf_now();

	if (!taskc || !cpuc || !prev_cpuc)
		return prev_cpu;
	llcc = lookup_llc(prev_cpuc->topo.llc_idx);
	if (!llcc)
		return prev_cpu;
	wakerc = waker_ctx(cpuc);
	may_hand_off = wakerc && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr);
	/*
	 * Batch work that says it will sleep and is known not to: @p takes what
	 * that produces. The sooner it ran, the less there would be to take,
	 * and the more switches.
	 */
	classify_set_waker(taskc, is_sync && wakerc &&
					  cpuc->account.tier == TIER_BATCH);
	become_runnable(p, taskc, wakerc, cpuc, llcc, now);
	if ((wake_flags & SCX_WAKE_FORK) && wakerc)
		classify_admit(taskc, wakerc, llcc, now);
	classify_served_tier(p, taskc, llcc);

	if (pack_confines(taskc))
		cpu = grant_idle_to(
			p, taskc,
			pack_claim_cpu(p, knobs.nr_confined_cpus, prev_cpu),
			now);
	if (cpu >= 0)
		return place_on(p, taskc, cpuc, llcc, cpu, STAT_PLACE_IDLE);
	if (cpu == -EBUSY)
		return prev_cpu;

	if (may_hand_off && is_sync &&
	    handoff_is_due(taskc, wakerc, cpuc, true))
		return hand_off(p, taskc, cpuc, llcc, now);

	cpu = grant_idle_to(p, taskc, claim_idle(p, prev_cpu), now);
	if (cpu >= 0)
		return place_on(p, taskc, cpuc, llcc, cpu, STAT_PLACE_IDLE);

	if (may_hand_off && handoff_is_due(taskc, wakerc, cpuc, false))
		return hand_off(p, taskc, cpuc, llcc, now);

	cpu = preempt_claim_cpu(p, taskc, prev_cpu, llcc->topo.idx);
	if (cpu == this_cpu && wakerc && handoff_let_finish(cpuc, now))
		return place_on(p, taskc, cpuc, llcc, cpu, STAT_PLACE_HANDOFF);
	if (cpu >= 0)
		return place_on(p, taskc, cpuc, llcc, cpu, STAT_PLACE_PREEMPT);
	if (taskc->classify.woken_by_batch)
		slice_hurry_waker(cpuc, preempt_vtime_on(taskc, cpuc));
	return knobs.nr_packed_cpus ? pack_wait_cpu(p, prev_cpu) : prev_cpu;
}

/*
 * @p, queued with @enq_flags, may preempt what runs on @cpuc's CPU. Return
 * whether that is its waker, which goes on for a moment.
 */
static bool waits_for_waker(const struct cpu_ctx *this_cpuc,
			    struct cpu_ctx *cpuc, u64 enq_flags)
{
	return (enq_flags & SCX_ENQ_WAKEUP) && cpuc == this_cpuc &&
	       waker_ctx(cpuc) && handoff_let_finish(cpuc, scx_bpf_now());
}

/*
 * Place @p, which only @cpuc's CPU may run.
 *
 *   1. A kernel thread of that CPU: next to run, since others depend on it,
 *	and at once if what runs there is of a lower tier; but behind a brief
 *	task that was given the CPU just before. If it has to wait, what runs
 *	there ends in time. One that is batch work and goes on queues with the
 *	others: it is counted there, and they get their turns.
 *   2. A task that just woke and is above what runs there: at once, or in a
 *	moment if that woke it and has just begun to run.
 *   3. Else the own queue of the CPU.
 *
 * Return the path taken.
 */
static enum stat_id enqueue_pinned(struct task_struct *p,
				   struct task_ctx *taskc,
				   const struct cpu_ctx *this_cpuc,
				   struct cpu_ctx *cpuc, struct llc_ctx *llcc,
				   u64 enq_flags)
{
	s32 cpu = cpuc->topo.cpu;
	bool is_kthread = (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
	bool is_urgent = enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ);

	if ((is_urgent || is_kthread) && preempt_claim_this(p, taskc, cpu)) {
		if (is_kthread || !waits_for_waker(this_cpuc, cpuc, enq_flags))
			enq_flags |= SCX_ENQ_PREEMPT;
		insert_local(p, taskc, SCX_DSQ_LOCAL, enq_flags);
		return is_kthread ? STAT_PLACE_KTHREAD : STAT_PLACE_PREEMPT;
	}
	if (is_kthread &&
	    (is_urgent || taskc->classify.served_tier != TIER_BATCH)) {
		if (!grant_is_given_briefly(cpuc))
			enq_flags |= SCX_ENQ_HEAD;
		insert_local(p, taskc, SCX_DSQ_LOCAL, enq_flags);
		slice_bound_other(cpuc, llcc, true);
		return STAT_PLACE_KTHREAD;
	}
	queue_insert(p, taskc, llcc, queue_own(cpu), enq_flags);
	return STAT_PLACE_OWN;
}

/*
 * Return whether batch task @p waits near the CPU of @cpuc. Not if that goes
 * offline or may not run it, if others wait for it, or if it is owed so much
 * that the first CPU that is free is to take it. If it owes as much, it does,
 * since it has time; else if it ran there and did not sleep.
 */
static bool waits_near(struct task_struct *p, const struct task_ctx *taskc,
		       const struct llc_ctx *llcc, const struct cpu_ctx *cpuc)
{
	u64 slack = vtime_charge(NEAR_SLACK_NS, taskc->share.weight);
	u64 clock = READ_ONCE(llcc->lag.clock.avg_vruntime);
	u64 vtime = taskc->share.vtime;
	s32 cpu = cpuc->topo.cpu;

	if (cpuc->slice.is_offline || vtime_before(vtime + slack, clock) ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || awaited_by_others(p))
		return false;
	return vtime_before(clock + slack, vtime) ||
	       (!taskc->classify.is_waking && taskc->account.last_cpu == cpu);
}

/*
 * Place @p, which several CPUs may run.
 *
 *   1. Batch work near the CPU of @cpuc, where it was, see waits_near(), unless
 *	another class took that; all else in the interactive queue.
 *   2. If it woke without ops.select_cpu(), or was thrown out by another class,
 *	and a CPU runs something of a lower tier: that one looks there at once.
 *
 * NOTE: not into the local DSQ of that CPU. The kernel puts that off until it
 * holds the other lock; if the task's affinity changes meanwhile, it keeps the
 * CPU it was told and throws the scheduler out.
 *
 * Return the path taken.
 */
static enum stat_id enqueue_movable(struct task_struct *p,
				    struct task_ctx *taskc,
				    struct llc_ctx *llcc,
				    const struct cpu_ctx *cpuc, u64 enq_flags)
{
	s32 cpu = cpuc->topo.cpu;
	bool is_urgent = (enq_flags & SCX_ENQ_REENQ) ||
			 ((enq_flags & SCX_ENQ_WAKEUP) &&
			  !__COMPAT_is_enq_cpu_selected(enq_flags));
	bool is_batch = taskc->classify.served_tier == TIER_BATCH;

	if (is_batch && !(enq_flags & SCX_ENQ_REENQ) &&
	    waits_near(p, taskc, llcc, cpuc)) {
		queue_insert(p, taskc, llcc, queue_near(cpu), enq_flags);
		return STAT_PLACE_BATCH;
	}
	queue_insert(p, taskc, llcc, queue_interactive(llcc->topo.idx),
		     enq_flags);
	if (is_urgent && !is_batch)
		preempt_kick_cpu(p, taskc, cpu, llcc->topo.idx);
	return STAT_PLACE_INTERACTIVE;
}

/*
 * Claim a CPU that went idle while @p was on its way into a queue, on @cpu.
 * Return it, or -EBUSY.
 */
static s32 claim_for_queued(struct task_struct *p, s32 cpu, bool is_movable)
{
	s32 target = is_movable ? pack_claim_packed(p, cpu) : -EINVAL;

	if (target != -EINVAL)
		return target;
	if (scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	return is_movable ? idle_pick_cpu(p, cpu) : -EBUSY;
}

/*
 * Wake the CPU that claim_for_queued() finds. Return whether there was one; the
 * wait beside an idle one has a bound in any case, see newidle. @cpuc is the CPU
 * that we are on.
 */
static bool kick_idle(struct task_struct *p, struct cpu_ctx *cpuc,
		      struct llc_ctx *llcc, s32 cpu, bool is_movable)
{
	s32 target = claim_for_queued(p, cpu, is_movable);

	if (is_movable)
		newidle_queued(p, llcc->topo.idx);
	if (target < 0)
		return false;
	look_forget(target);
	scx_bpf_kick_cpu(target, SCX_KICK_IDLE);
	stat_inc(cpuc, STAT_KICK_IDLE);
	return true;
}

/* Place @p, whatever made it ready. It is inserted on every path. */
__hidden void place_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct cpu_ctx *this_cpuc = lookup_cpu(bpf_get_smp_processor_id());
	struct task_ctx *taskc = try_lookup_task(p);
	bool is_wakeup = enq_flags & SCX_ENQ_WAKEUP;
	bool is_movable = !is_pinned(p, enq_flags);
	s32 cpu = scx_bpf_task_cpu(p), confined_cpu = -EINVAL;
	struct cpu_ctx *cpuc;
	struct llc_ctx *llcc;
	enum stat_id path;

	if (is_movable && taskc && pack_confines(taskc))
		confined_cpu = pack_confined_cpu(p, cpu);
	if (confined_cpu >= 0) {
		cpu = confined_cpu;
		is_movable = false;
	}
	cpuc = lookup_cpu(cpu);
	llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	if (!this_cpuc || !llcc || !taskc) {
		/* Only while an error stops the scheduler. */
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}

	/* Thrown out of a local DSQ, it was counted where it came from. */
	queue_uncount(taskc);
	stat_inc(this_cpuc, is_wakeup ? STAT_ENQ_WAKEUP : STAT_ENQ_REQUEUE);
	if (enq_flags & SCX_ENQ_REENQ) {
		stat_inc(this_cpuc, STAT_ENQ_RETURN);
		grant_end(p, cpuc, scx_bpf_now());
	}
	classify_enqueued(this_cpuc, llcc);
	if (taskc->share.is_sleeping || !taskc->account.runnable_at) {
		/* ops.select_cpu() was not asked, as for a pinned task. */
		become_runnable(p, taskc, waker_ctx(this_cpuc), this_cpuc, llcc,
				scx_bpf_now());
	} else {
		share_stay_runnable(taskc, llcc);
	}
	classify_served_tier(p, taskc, llcc);

	if (confined_cpu >= 0) {
		queue_insert(p, taskc, llcc, queue_own(cpu), enq_flags);
		path = STAT_PLACE_OWN;
	} else if (is_movable) {
		path = enqueue_movable(p, taskc, llcc, cpuc, enq_flags);
	} else {
		path = enqueue_pinned(p, taskc, this_cpuc, cpuc, llcc,
				      enq_flags);
	}
	if (path < NR_STAT_IDS)
		stat_inc(this_cpuc, path);
	if (path < STAT_PLACE_OWN ||
	    kick_idle(p, this_cpuc, llcc, cpu, is_movable))
		return;
	if (!is_movable)
		slice_bound_idle(cpuc);
	slice_bound_other(cpuc, llcc, false);
}
