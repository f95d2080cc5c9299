/* SPDX-License-Identifier: GPL-2.0 */
/* newidle: is a CPU idle while a task waits? See newidle.bpf.h. */
#include "newidle.bpf.h"
#include "idle.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "slice.bpf.h"
#include "topo.bpf.h"
#include "policy/vtime.h"

enum newidle_room_consts {
	/*
	 * How long a task may wait in a queue of a domain beside an idle CPU:
	 * what waits for its LLC, or for one of few CPUs, does so on purpose.
	 */
	LOOK_NS = 500 * NSEC_PER_USEC,
	/*
	 * When a CPU that was given to a task on its way looks: not before that
	 * grant ends, see policy/claim.h.
	 */
	LOOK_GRANT_NS = 250 * NSEC_PER_USEC,
	/* The timer rests a hundred times as long as a look at a task takes. */
	LOOK_TASK_NS = 32 * NSEC_PER_USEC,
	/* Tasks of a part of a queue that the timer looks at, at most. */
	WAKE_MAX_TASKS = 1024,
};

/* The CPUs that are idle, also those that were claimed and did not wake yet. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} idle_spans SEC(".maps");

/* Any CPU may arm it, and it fires for the one that wants it first. */
struct wait_timer {
	struct bpf_timer timer;
	u64 fires_at;	/* 0: it is not armed */
	u64 not_before; /* since it looked at so many tasks */
};

/* An entry for each LLC domain; the loader sets their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wait_timer);
} wait_timers SEC(".maps");

static struct bpf_cpumask *idle_cpus(void)
{
	u32 zero = 0;
	struct span_ctx *span = bpf_map_lookup_elem(&idle_spans, &zero);

	return span ? span->cpus : NULL;
}

/*
 * Wake an idle CPU for each of the first @nr_max tasks of @part, a part of a
 * queue, that waits since before @since. Return whether there is one that a CPU
 * may run which is, or says that it is, idle.
 *
 * Seen by the verifier once, not for each part, and with any @nr_max: if it
 * knew the number, it would walk as many rounds.
 */
__noinline bool newidle_wake_for(u64 part, u64 since, u32 nr_max)
{
	const struct task_ctx *taskc;
	const struct cpumask *cpus;
	struct bpf_cpumask *idle;
	bool is_missed = false;
	struct task_struct *p;
	u32 nr = 0;
	s32 cpu;

	/* To Linux 6.12 a timer's callback may sleep, since ops.init() may. */
	bpf_rcu_read_lock();
	idle = idle_cpus();
	bpf_for_each(scx_dsq, p, part, 0) {
		if (!idle || ++nr > nr_max)
			break;
		cpus = p->cpus_ptr;
		taskc = try_lookup_task(p);
		if (taskc && vtime_before(since, taskc->account.runnable_at))
			cpu = -EBUSY;
		else
			cpu = idle_claim_beyond(cpus);
		if (cpu >= 0) {
			queue_end_pause(cpu);
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		}
		if (cpu >= 0 || idle_is_any(cpus) ||
		    bpf_cpumask_intersects(cast_mask(idle), cpus))
			is_missed = true;
	}
	bpf_rcu_read_unlock();
	return is_missed;
}

/* The same for each part of @dsq_id. */
static bool wake_for(u64 dsq_id, u64 since)
{
	s32 near = -1;
	u32 i, nr_parts = queue_nr_parts(dsq_id, &near);
	bool is_missed = false;
	u64 part;

	bpf_for(i, 0, nr_parts) {
		part = queue_next_part(dsq_id, &near);
		if (part && newidle_wake_for(part, since, WAKE_MAX_TASKS))
			is_missed = true;
	}
	return is_missed;
}

/*
 * See that an idle CPU looks for the tasks of @llcc in LOOK_NS, or later if the
 * last look took long. The caller has had a full barrier: a timer that it sees
 * armed has not looked yet. If the kernel cannot start it, it rests.
 */
static void look_soon(const struct llc_ctx *llcc)
{
	u64 now = scx_bpf_now(), fires_at = now + LOOK_NS;
	u32 key = llcc->topo.idx;
	struct wait_timer *wt = bpf_map_lookup_elem(&wait_timers, &key);

	if (!wt || READ_ONCE(wt->fires_at))
		return;
	if (vtime_before(fires_at, READ_ONCE(wt->not_before)))
		fires_at = READ_ONCE(wt->not_before);
	WRITE_ONCE(wt->fires_at, fires_at);
	if (bpf_timer_start(&wt->timer, fires_at - now, 0))
		WRITE_ONCE(wt->fires_at, 0);
}

/*
 * Return whether a task of @llcc is counted that the kernel has not inserted,
 * and a CPU says that it is idle.
 */
static bool is_on_its_way(const struct llc_ctx *llcc, u32 nr_queued)
{
	struct bpf_cpumask *idle;
	bool is_one_idle;

	if (queue_nr_shared(llcc) <= nr_queued)
		return false;
	bpf_rcu_read_lock();
	idle = idle_cpus();
	is_one_idle = idle && !bpf_cpumask_empty(cast_mask(idle));
	bpf_rcu_read_unlock();
	return is_one_idle;
}

static int wait_timer_fn(void *map, u32 *key, struct wait_timer *wt)
{
	struct llc_ctx *llcc = lookup_llc(*key);
	u64 now = scx_bpf_now(), since = now;
	bool is_missed;
	u32 nr_queued;

	/* A full barrier, before the look: who saw it armed is seen. */
	__sync_lock_test_and_set(&wt->fires_at, 0);
	if (!llcc || !queue_nr_shared(llcc))
		return 0;
	/* What keeps to few CPUs waits for these for a while on purpose. */
	if (knobs.nr_packed_cpus)
		since -= LOOK_NS;
	nr_queued = queue_nr_queued(queue_interactive(*key)) +
		    queue_nr_queued(queue_batch(*key));
	WRITE_ONCE(wt->not_before, now + (u64)nr_queued * LOOK_TASK_NS);
	is_missed = is_on_its_way(llcc, nr_queued);
	if (wake_for(queue_interactive(*key), since))
		is_missed = true;
	if (wake_for(queue_batch(*key), since))
		is_missed = true;
	if (is_missed)
		look_soon(llcc);
	return 0;
}

static s32 init_timer(u32 llc_idx)
{
	struct wait_timer *wt = bpf_map_lookup_elem(&wait_timers, &llc_idx);
	s32 err;

	if (!wt)
		return -ENOENT;
	err = bpf_timer_init(&wt->timer, &wait_timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&wt->timer, wait_timer_fn);
}

__hidden s32 newidle_init(void)
{
	struct span_ctx *span;
	u32 zero = 0;
	s32 err, i;

	span = bpf_map_lookup_elem(&idle_spans, &zero);
	if (!span)
		return -ENOENT;
	err = topo_create_span(&span->cpus, SPAN_NONE, 0);
	bpf_for(i, 0, err ? 0 : nr_llcs) {
		err = init_timer(i);
		if (err)
			break;
	}
	return err;
}

__noinline int newidle_queued(struct task_struct *p __arg_trusted, u32 llc_idx)
{
	const struct cpumask *cpus = p->cpus_ptr;
	struct bpf_cpumask *idle = idle_cpus();
	struct llc_ctx *llcc;

	/* That of a CPU which never woke since the start is in one of them. */
	if (!idle || (!bpf_cpumask_intersects(cast_mask(idle), cpus) &&
		      !idle_is_any(cpus)))
		return 0;
	llcc = lookup_llc(llc_idx);
	if (llcc)
		look_soon(llcc);
	return 0;
}

/* Let @cpu say whether it is idle. */
static void say(s32 cpu, bool is_idle)
{
	struct bpf_cpumask *idle = idle_cpus();

	if (!idle)
		return;
	if (is_idle)
		bpf_cpumask_set_cpu(cpu, idle);
	else
		bpf_cpumask_clear_cpu(cpu, idle);
}

/* The kernel says nothing of it while the machine goes to sleep. */
__hidden void newidle_begin_run(const struct cpu_ctx *cpuc)
{
	if (cpuc->slice.is_idle)
		say(cpuc->topo.cpu, false);
}

/*
 * Return whether a task waits that @cpuc's CPU, now idle, may be able to run.
 * If it is in a queue of a domain, that is looked at again.
 */
static bool missed_work(const struct cpu_ctx *cpuc)
{
	bool is_missed = queue_nr_own(cpuc);
	struct llc_ctx *llcc;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			break;
		if (!queue_nr_shared(llcc))
			continue;
		is_missed = true;
		look_soon(llcc);
	}
	return is_missed;
}

/*
 * Return whether the kernel left a task behind on @cpuc's CPU, which goes idle.
 *
 * While a CPU is not active, since it comes or goes, the kernel does not call
 * ops.dispatch() for it. With SCX_OPS_ENQ_LAST it does not keep a task whose
 * slice ends there either: it puts it into the local DSQ, goes idle, and wakes
 * for it no more. No task is left on a CPU that dies.
 */
static bool left_task(struct cpu_ctx *cpuc)
{
	return cpuc->account.is_stopped &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpuc->topo.cpu);
}

/*
 * NOTE: a CPU that dies must not kick, not even itself: the interrupt that
 * carries out its kicks is gone already, the kick would stay pending, and with
 * it every later one of that CPU once it is back.
 */
__hidden void newidle_update_idle(s32 cpu, bool is_idle)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	bool is_missed;

	if (!llcc)
		return;
	say(cpu, is_idle && !cpuc->slice.is_offline);
	/* This has a full barrier: before the look at what is counted. */
	slice_update_idle(cpuc, is_idle);
	if (!is_idle)
		return;
	/*
	 * A task that took what ran here last for a victim would get before the
	 * one to which this CPU is given next, or real-time work.
	 */
	preempt_set_idle(cpuc, llcc);
	is_missed = missed_work(cpuc);
	if (cpuc->slice.is_offline) {
		/* Nothing comes here: the kernel leaves it in the idle mask. */
		scx_bpf_test_and_clear_cpu_idle(cpu);
		if (left_task(cpuc))
			scx_bpf_kick_cpu(cpu, 0);
	} else if (preempt_is_granted(cpuc, scx_bpf_now())) {
		/*
		 * One did so while that went to sleep, and is on its way. Off
		 * the mask, others do not try for it in vain.
		 */
		scx_bpf_test_and_clear_cpu_idle(cpu);
		slice_end_in(cpuc, scx_bpf_now(), LOOK_GRANT_NS);
	} else if (is_missed || left_task(cpuc)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}
