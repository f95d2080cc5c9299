/* SPDX-License-Identifier: GPL-2.0 */
/* slice: how long does a run last, and what ends it? See slice.bpf.h. */
#include "slice.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "share.bpf.h"
#include "stats.bpf.h"
#include "policy/slice.h"
#include "policy/vtime.h"

enum slice_room_consts {
	/* How often a CPU that goes offline looks whether it may. */
	OFFLINE_POLL_NS = 2 * NSEC_PER_MSEC,
	/* How long a CPU may be idle while tasks wait in its own queue. */
	IDLE_PATIENCE_NS = 1 * NSEC_PER_MSEC,
	/* How long batch work may go on before a task, and for how long yet. */
	HURRY_NS = 1 * NSEC_PER_MSEC,
	HURRY_MIN_NS = 50 * NSEC_PER_USEC,
};

struct slice_timer {
	struct bpf_timer timer OWN_CACHE_LINE;
};

/* An entry for each CPU; cpuc->slice says what each is armed for. */
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

/* Let @cpu find what waits for it though it is not asked to dispatch. */
static void evacuate(s32 cpu)
{
	queue_evacuate(cpu);
	scx_bpf_kick_cpu(cpu, 0);
}

/*
 * Let @cpu, which goes offline, look at its runqueue, and again until it is
 * gone, as @timer sees to. The kernel waits there for the last task to leave,
 * but an idle CPU does not see that another one took it.
 */
static void nudge_offline(struct bpf_timer *timer, s32 cpu)
{
	evacuate(cpu);
	if (bpf_timer_start(timer, OFFLINE_POLL_NS, 0))
		scx_bpf_error("no timer for CPU %d, which goes offline", cpu);
}

/*
 * Let @timer fire for @cpuc's CPU in @left_ns, that is at @fires_at. Refused,
 * it rests: the next end that is set, at the next tick at the latest, starts
 * it.
 */
static void arm_slice_timer(struct cpu_ctx *cpuc, struct bpf_timer *timer,
			    u64 fires_at, u64 left_ns)
{
	WRITE_ONCE(cpuc->slice.timer_at, fires_at);
	if (bpf_timer_start(timer, left_ns, BPF_F_TIMER_CPU_PIN))
		WRITE_ONCE(cpuc->slice.timer_at, 0);
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
	 * The CPU that arms it writes the end of the slice and then looks at
	 * the timer; here it is the other way round, so that an end that relies
	 * on this timer is seen. What another CPU writes in this very moment
	 * may be missed and is put right by the next tick.
	 */
	armed_for = __sync_lock_test_and_set(&cpuc->slice.timer_at, 0);
	/*
	 * It fires late if softirqs are put off; taken for punctual, each
	 * lateness would stay. Out here the clock may be that of the last
	 * switch, before that instant even.
	 */
	if (vtime_before(now, armed_for))
		now = armed_for;
	ends_at = READ_ONCE(cpuc->slice.ends_at);
	if (cpuc->slice.is_offline) {
		if (is_online(*key))
			nudge_offline(timer, *key);
		return 0;
	}
	if (!armed_for || !ends_at)
		return 0;
	if (vtime_before(now, ends_at)) {
		arm_slice_timer(cpuc, timer, ends_at, ends_at - now);
		return 0;
	}
	slice_clear_end(cpuc);
	if (cpuc->slice.is_idle) {
		evacuate(cpuc->topo.cpu);
		return 0;
	}
	stat_inc(cpuc, STAT_SLICE_TIMER);
	scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	return 0;
}

__hidden s32 slice_init(void)
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

__hidden void slice_grant(struct task_ctx *taskc, u64 slice_ns)
{
	taskc->slice.granted_ns = slice_ns;
}

__hidden void slice_end_turn(struct task_ctx *taskc)
{
	taskc->slice.turn_is_over = 1;
}

__hidden void slice_use(struct task_ctx *taskc, u64 ran_ns)
{
	taskc->slice.used_ns += ran_ns;
}

__hidden void slice_clear_end(struct cpu_ctx *cpuc)
{
	WRITE_ONCE(cpuc->slice.ends_at, 0);
}

__hidden void slice_end_in(struct cpu_ctx *cpuc, u64 now, u64 left_ns)
{
	u64 ends_at = now + left_ns, old_ends_at, timer_at;
	struct slice_timer *st;
	u32 key = cpuc->topo.cpu;

	if (cpuc->slice.is_offline)
		return;
	old_ends_at = READ_ONCE(cpuc->slice.ends_at);
	if (!old_ends_at || vtime_before(ends_at, old_ends_at))
		/* A barrier: the timer clears timer_at, then looks here. */
		__sync_lock_test_and_set(&cpuc->slice.ends_at, ends_at);
	/* A timer that fires before that will look and arm itself again. */
	timer_at = READ_ONCE(cpuc->slice.timer_at);
	if (timer_at && !vtime_before(ends_at, timer_at))
		return;
	st = bpf_map_lookup_elem(&slice_timers, &key);
	if (st)
		arm_slice_timer(cpuc, &st->timer, ends_at, left_ns);
}

/*
 * No task waits in a queue for @cpuc's CPU. Was one given it meanwhile, or came
 * behind another that was? The latter is looked for later than at a switch.
 */
static void bound_for_local(struct cpu_ctx *cpuc, u64 now)
{
	if (!READ_ONCE(cpuc->slice.ends_at) && cpuc->account.on_cpu_at == now)
		return;
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpuc->topo.cpu))
		slice_end_in(cpuc, now, knobs.slice_min_ns);
	else
		slice_clear_end(cpuc);
}

/* Return @slice_ns, or what @nr_waiting tasks leave of it on @nr_cpus CPUs. */
static u64 contended_slice(u64 slice_ns, u32 nr_waiting, u32 nr_cpus)
{
	u64 contended_ns;

	/* The shortest slice gets no shorter, at the price of a division. */
	if (slice_ns <= knobs.turn_min_ns)
		return slice_ns;
	contended_ns =
		slice_contended(nr_waiting, nr_cpus, knobs.latency_target_ns,
				knobs.turn_min_ns, knobs.slice_min_ns);
	return contended_ns < slice_ns ? contended_ns : slice_ns;
}

/*
 * End what runs on @cpuc's CPU once it has used its part of @slice_ns. There
 * waits one that @is_given the CPU and in no queue. Return whether it has, at
 * @used_ns.
 */
static bool bound_run(struct cpu_ctx *cpuc, struct llc_ctx *llcc, bool is_given,
		      u64 slice_ns, u64 used_ns, u64 now)
{
	u32 nr_waiting = queue_nr_waiting(cpuc, llcc) + is_given;
	u32 nr_own = queue_nr_own(cpuc) + is_given;

	if (!nr_waiting) {
		bound_for_local(cpuc, now);
		return false;
	}
	slice_ns =
		contended_slice(slice_ns, nr_waiting, llcc->topo.nr_scale_cpus);
	/* No other CPU can take what waits in the own queue. */
	if (nr_own)
		slice_ns = contended_slice(slice_ns, nr_own, 1);
	slice_ns = slice_for_weight(slice_ns, cpuc->account.weight,
				    knobs.slice_min_ns);
	slice_end_in(cpuc, now, slice_left(slice_ns, used_ns));
	return used_ns >= slice_ns;
}

__hidden void slice_begin_run(struct task_ctx *taskc, struct cpu_ctx *cpuc,
			      struct llc_ctx *llcc, u64 now)
{
	/* The kernel says nothing of it while the machine goes to sleep. */
	cpuc->slice.is_idle = 0;
	if (taskc->slice.turn_is_over) {
		taskc->slice.turn_is_over = 0;
		taskc->slice.used_ns = 0;
		share_begin_turn(taskc);
	}
	/*
	 * Its turn is over even if it never lasts until the timer fires, else a
	 * task that is preempted again and again would keep its place for ever.
	 */
	if (bound_run(cpuc, llcc, false, taskc->slice.granted_ns,
		      taskc->slice.used_ns, now))
		slice_end_turn(taskc);
}

/* End what has run for @ran_ns on @cpuc's CPU once that is HURRY_NS. */
static void hurry(struct cpu_ctx *cpuc, u64 ran_ns, u64 now)
{
	slice_end_in(cpuc, now,
		     ran_ns + HURRY_MIN_NS < HURRY_NS ? HURRY_NS - ran_ns
						      : HURRY_MIN_NS);
}

__hidden void slice_bound_other(struct cpu_ctx *cpuc, struct llc_ctx *llcc,
				bool is_given)
{
	u64 now, ran_ns = 0;

	if (!cpuc->account.is_busy ||
	    (READ_ONCE(cpuc->slice.ends_at) && !is_given))
		return;
	now = scx_bpf_now();
	if (vtime_before(cpuc->account.on_cpu_at, now))
		ran_ns = now - cpuc->account.on_cpu_at;
	if (is_given && cpuc->account.tier == TIER_BATCH)
		hurry(cpuc, ran_ns, now);
	else
		bound_run(cpuc, llcc, is_given, knobs.batch_slice_ns, ran_ns,
			  now);
}

__hidden void slice_hurry_waker(struct cpu_ctx *cpuc, u64 vtime)
{
	u64 now = scx_bpf_now();

	if (!vtime_before(share_curr_rank(cpuc, now),
			  vtime + HEAD_START_LAT_CRITICAL_NS))
		hurry(cpuc, now - cpuc->account.on_cpu_at, now);
}

__hidden void slice_bound_idle(struct cpu_ctx *cpuc)
{
	if (READ_ONCE(cpuc->slice.is_idle) && queue_nr_own(cpuc))
		slice_end_in(cpuc, scx_bpf_now(), IDLE_PATIENCE_NS);
}

__hidden void slice_update_idle(struct cpu_ctx *cpuc, bool is_idle)
{
	__sync_lock_test_and_set(&cpuc->slice.is_idle, is_idle);
	if (is_idle)
		slice_bound_idle(cpuc);
	else
		/* What was to end its idleness must not end a run. */
		slice_clear_end(cpuc);
}

__hidden void slice_cpu_online(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (cpuc)
		cpuc->slice.is_offline = 0;
}

__hidden void slice_cpu_offline(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	struct slice_timer *st;
	u32 key = cpu;

	if (!llcc)
		return;
	cpuc->slice.is_offline = 1;
	preempt_withdraw(cpuc, llcc);
	st = bpf_map_lookup_elem(&slice_timers, &key);
	if (st)
		nudge_offline(&st->timer, cpu);
}
