/* SPDX-License-Identifier: GPL-2.0 */
/* place: which CPU does a ready task go to? See place.bpf.h. */
#include "place.bpf.h"
#include "account.bpf.h"
#include "classify.bpf.h"
#include "hint.bpf.h"
#include "idle.bpf.h"
#include "newidle.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"
#include "share.bpf.h"
#include "slice.bpf.h"
#include "stats.bpf.h"
#include "policy/vtime.h"
#include <bpf_experimental.h>

/*
 * The bits of preempt_count that an interrupt sets, found by the loader; 0:
 * unknown. See the end of this file.
 */
u32 waker_irq_mask;

/*
 * Return the context of the task that runs on this CPU, that of @cpuc, if that
 * is the waker: one of ours, not an interrupt, not in its exit. Else NULL.
 */
static struct task_ctx *waker_ctx(const struct cpu_ctx *cpuc)
{
	struct task_struct *curr = (void *)bpf_get_current_task_btf();

	if (!waker_irq_mask || (get_preempt_count() & waker_irq_mask) ||
	    !cpuc->account.is_busy || (curr->flags & PF_EXITING))
		return NULL;
	return try_lookup_task(curr);
}

/*
 * Handoff. Two tasks that talk to each other wait for each other, not for a
 * CPU: if the waker is about to sleep, the wakee runs soonest where the waker
 * runs. It goes to the local DSQ there, and no queue is looked at. So while
 * other tasks wait a CPU may be handed on for a while only.
 */

enum handoff_consts {
	/*
	 * A waker with an average burst below this is about to sleep, so its
	 * CPU is free sooner than another one could be woken.
	 */
	HANDOFF_SYNC_MAX_NS = 500 * NSEC_PER_USEC,
	/*
	 * Without a sync hint, one below this is; to send an interrupt to
	 * another CPU and switch there takes as long.
	 */
	HANDOFF_UNASKED_MAX_NS = 50 * NSEC_PER_USEC,
	/* If the waker goes on all the same, its run ends after this. */
	HANDOFF_WAIT_MAX_NS = 500 * NSEC_PER_USEC,
	/*
	 * While tasks wait, a CPU is handed on for so long at a time: what the
	 * head start of the tier that may ask for it is worth.
	 */
	HANDOFF_CHAIN_MAX_NS = HEAD_START_LAT_CRITICAL_NS,
};

/*
 * Return how long the task of @taskc, which runs on @cpuc's CPU, has worked at
 * @now since it woke.
 */
static u64 open_burst_ns(const struct task_ctx *taskc,
			 const struct cpu_ctx *cpuc, u64 now)
{
	s64 ran_ns = now - cpuc->account.run_started_at;

	return taskc->classify.burst_ns + (ran_ns > 0 ? ran_ns : 0);
}

/*
 * Return whether the task of @wakerc, which runs on @cpuc's CPU, usually sleeps
 * within @soon_ns, and this time has not yet gone on for longer.
 */
static bool sleeps_within(const struct task_ctx *wakerc,
			  const struct cpu_ctx *cpuc, u64 soon_ns, u64 now)
{
	return wakerc->classify.avg_runtime_ns <= soon_ns &&
	       open_burst_ns(wakerc, cpuc, now) <= soon_ns;
}

/* Return whether ops.dispatch() was asked since @cpuc's CPU was handed on. */
static bool has_asked(const struct cpu_ctx *cpuc)
{
	return vtime_before(cpuc->place.handed_at, cpuc->dispatch.asked_at);
}

/*
 * Return for how long, until @now, @cpuc's CPU has been handed from task to
 * task without a look at the queues.
 */
static u64 handed_on_ns(const struct cpu_ctx *cpuc, u64 now)
{
	return has_asked(cpuc) ? 0 : now - cpuc->place.handed_at;
}

/*
 * Return whether the waker, the task of @wakerc that runs on @cpuc's CPU,
 * should hand that to the task of @taskc, which may run there. @is_sync if the
 * waker said that it will sleep.
 *
 *   1. The waker is known to sleep soon, and the wakee usually runs briefly; a
 *	sync hint alone is often a lie, and then the wakee would wait behind a
 *	hog.
 *   2. No task waits in the local DSQ or for this CPU alone.
 *   3. No task waits for a CPU of the waker's domain; or the wakee is to go
 *	before batch work anyway, and the CPU was not handed on for too long
 *	since it asked ops.dispatch() which task should have it.
 */
static bool handoff_is_due(const struct task_ctx *taskc,
			   const struct task_ctx *wakerc, struct cpu_ctx *cpuc,
			   bool is_sync)
{
	/* That of the wakee's last CPU may be another. */
	struct llc_ctx *llcc = lookup_llc(cpuc->topo.llc_idx);
	u64 now = taskc->account.runnable_at;
	u64 soon_ns = is_sync ? HANDOFF_SYNC_MAX_NS : HANDOFF_UNASKED_MAX_NS;

	if (!llcc || taskc->classify.avg_runtime_ns > HANDOFF_SYNC_MAX_NS ||
	    !sleeps_within(wakerc, cpuc, soon_ns, now))
		return false;
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) || queue_nr_own(cpuc))
		return false;
	if (!queue_nr_waiting(cpuc, llcc))
		return true;
	return taskc->classify.served_tier != TIER_BATCH &&
	       handed_on_ns(cpuc, now) < HANDOFF_CHAIN_MAX_NS;
}

/*
 * The wakee may preempt the waker, which runs on @cpuc's CPU. If that has only
 * just begun to run it may go on for a moment, until it sleeps. Return whether
 * it does; its run ends in time then.
 *
 * A task that is preempted by each task that it wakes never gets to sleep. It
 * would pass for one that works all the time, be served as that, and the two of
 * them would get less than their share.
 */
static bool handoff_let_finish(struct cpu_ctx *cpuc, u64 now)
{
	s64 ran_ns = now - cpuc->account.run_started_at;

	if (ran_ns >= HANDOFF_UNASKED_MAX_NS)
		return false;
	slice_end_in(cpuc, now, HANDOFF_UNASKED_MAX_NS);
	return true;
}

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
		hint_check_compositor(p, taskc, now);
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

/*
 * Give @p, from ops.select_cpu(), this CPU, that of @cpuc. Return it. If the
 * waker goes on all the same, its run ends in time.
 */
static s32 hand_off(struct task_struct *p, struct task_ctx *taskc,
		    struct cpu_ctx *cpuc, struct llc_ctx *llcc, u64 now)
{
	if (has_asked(cpuc))
		cpuc->place.handed_at = now;
	slice_end_in(cpuc, now, HANDOFF_WAIT_MAX_NS);
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
 *   2. An idle CPU: the nearest one, or one of those that work keeps to.
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
	may_hand_off = wakerc && may_run_on(p, this_cpu);
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

	if (idle_confines(taskc))
		cpu = preempt_grant_idle(
			p, taskc,
			idle_claim_first(p, knobs.nr_confined_cpus, prev_cpu),
			now);
	if (cpu >= 0)
		return place_on(p, taskc, cpuc, llcc, cpu, STAT_PLACE_IDLE);
	if (cpu == -EBUSY)
		return prev_cpu;

	if (may_hand_off && is_sync &&
	    handoff_is_due(taskc, wakerc, cpuc, true))
		return hand_off(p, taskc, cpuc, llcc, now);

	cpu = preempt_grant_idle(p, taskc, idle_select_cpu(p, prev_cpu), now);
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
	return knobs.nr_packed_cpus ? idle_wait_cpu(p, prev_cpu) : prev_cpu;
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
		if (!preempt_is_granted_briefly(cpuc))
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
	u64 clock = READ_ONCE(llcc->share.clock.avg_vruntime);
	u64 vtime = taskc->share.vtime;
	s32 cpu = cpuc->topo.cpu;

	if (cpuc->slice.is_offline || vtime_before(vtime + slack, clock) ||
	    !may_run_on(p, cpu) || rescue_is_awaited(p))
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
 * Wake the CPU that idle_pick_cpu() finds. Return whether there was one; the
 * wait beside an idle one has a bound in any case, see newidle. @cpuc is the
 * CPU that we are on.
 */
static bool kick_idle(struct task_struct *p, struct cpu_ctx *cpuc,
		      struct llc_ctx *llcc, s32 cpu, bool is_movable)
{
	s32 target = idle_pick_cpu(p, cpu, is_movable);

	if (is_movable)
		newidle_queued(p, llcc->topo.idx);
	if (target < 0)
		return false;
	queue_end_pause(target);
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
	bool is_movable = !is_pinned(p, enq_flags), begins_wait;
	s32 cpu = scx_bpf_task_cpu(p), confined_cpu = -EINVAL;
	struct cpu_ctx *cpuc;
	struct llc_ctx *llcc;
	enum stat_id path;

	if (is_movable && taskc && idle_confines(taskc))
		confined_cpu = idle_confined_cpu(p, cpu);
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
		preempt_end_grant(p, cpuc);
	}
	classify_enqueued(this_cpuc, llcc);
	begins_wait = taskc->share.is_sleeping || !taskc->account.runnable_at;
	if (begins_wait) {
		/* ops.select_cpu() was not asked, as for a pinned task. */
		become_runnable(p, taskc, waker_ctx(this_cpuc), this_cpuc, llcc,
				scx_bpf_now());
	} else {
		share_stay_runnable(taskc, llcc);
	}
	/* Of a wakeup that ops.select_cpu() was asked about, it is decided. */
	if (!is_wakeup || begins_wait)
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

/*
 * Does a task or an interrupt wake a task? ops.select_cpu() runs on behalf of
 * the current task even if an interrupt woke, and only preempt_count tells the
 * two apart. Its layout is not part of any interface: Linux 7.3 moved the bits
 * of hardirqs. So it is measured.
 *
 *   1. Before it attaches the scheduler, the loader attaches a program to the
 *	tracepoint of expiring hrtimers, which fires in a hardirq for a hard
 *	timer and in a softirq for a soft one.
 *   2. It lets timers of each kind expire, BPF timers being soft, while it
 *	sleeps and while it spins: the count also has how often preemption was
 *	disabled, which is more in the idle task than in user space.
 *   3. A bit that is set in all samples of one kind and in no other sample is
 *	the bit of that kind (src/waker.rs).
 *
 * If there is not exactly one for each, waker_irq_mask stays 0 and each wakeup
 * counts as that of an interrupt: no task hands its CPU over, and none of the
 * wakeups of a timer is taken for one of the task that it interrupted.
 */

enum waker_consts {
	/* Until the soft timer expires: the loader sleeps or spins by then. */
	SOFT_TIMER_NS = 500 * NSEC_PER_USEC,
};

/*
 * Bits of preempt_count: set in a sample of a task, and in all samples of a
 * hardirq and of a softirq. Read by the loader.
 */
u32 waker_task_bits;
u32 waker_hardirq_bits = ~0U;
u32 waker_softirq_bits = ~0U;

struct waker_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct waker_timer);
	__uint(max_entries, 1);
} waker_timers SEC(".maps");

static int ignore_timer(void *map, u32 *key, struct waker_timer *value)
{
	return 0;
}

/* Sample a task, the loader, and start a soft timer. Return 0 or an error. */
SEC("?syscall")
int waker_sample_task(void *ctx)
{
	struct waker_timer *timer;
	u32 key = 0;

	__sync_fetch_and_or(&waker_task_bits, get_preempt_count());
	timer = bpf_map_lookup_elem(&waker_timers, &key);
	if (!timer)
		return -ENOENT;
	/* It was initialized before, unless this is the first sample. */
	bpf_timer_init(&timer->timer, &waker_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, ignore_timer);
	if (bpf_timer_start(&timer->timer, SOFT_TIMER_NS, 0))
		return -EINVAL;
	return 0;
}

SEC("?tp_btf/hrtimer_expire_entry")
int BPF_PROG(waker_sample_interrupt, struct hrtimer *hrtimer)
{
	u32 bits = get_preempt_count();

	if (BPF_CORE_READ_BITFIELD_PROBED(hrtimer, is_soft))
		__sync_fetch_and_and(&waker_softirq_bits, bits);
	else
		__sync_fetch_and_and(&waker_hardirq_bits, bits);
	return 0;
}
