/* SPDX-License-Identifier: GPL-2.0 */
/* frequency: how fast does a CPU have to be? See frequency.bpf.h. */
#include "frequency.bpf.h"
#include "stats.bpf.h"
#include "policy/frequency.h"

enum frequency_room_consts {
	/* When idle CPUs are looked at first: all tasks are ours by then. */
	FIRST_LOOK_NS = NSEC_PER_SEC,
};

/*
 * A timer that rests until a CPU asks for something. Any CPU may arm it. Its
 * callback says that it rests before it looks at what CPUs ask for, and a CPU
 * asks before it arms: each has a full barrier between, so that one of the two
 * sees the other.
 */
struct look_timer {
	struct bpf_timer timer;
	u32 is_armed;
};

/* Let @lt fire in @left_ns unless it is armed. If it cannot start, it rests. */
static void arm(struct look_timer *lt, u64 left_ns)
{
	if (__sync_lock_test_and_set(&lt->is_armed, 1))
		return;
	if (bpf_timer_start(&lt->timer, left_ns, 0))
		WRITE_ONCE(lt->is_armed, 0);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct look_timer);
} look_timers SEC(".maps");

/*
 * Return whether a governor listens. The verifier drops what stands behind this
 * on a machine that has none at all.
 */
static __always_inline bool is_on(void)
{
	return has_cpufreq && knobs.is_cpufreq_on;
}

/* Ask for @target for the CPU of @cpuc. */
static void ask(struct cpu_ctx *cpuc, u32 target)
{
	s32 cpu = cpuc->topo.cpu;

	/* The governor compares with what this CPU can do, not the largest. */
	scx_bpf_cpuperf_set(cpu,
			    target * scx_bpf_cpuperf_cap(cpu) / FREQUENCY_ONE);
	cpuc->frequency.target = target;
}

/*
 * End the window of @cpuc's CPU at @now and take it into account. Return
 * whether there is something to ask for, and what as @target.
 */
static bool end_window(struct cpu_ctx *cpuc, u64 now, bool is_urgent,
		       u32 *target)
{
	cpuc->frequency.util =
		frequency_util(cpuc->frequency.util, cpuc->frequency.busy_ns,
			       now - cpuc->frequency.window_at, is_urgent);
	cpuc->frequency.window_at = now;
	cpuc->frequency.busy_ns = 0;
	*target =
		frequency_target(cpuc->frequency.util, cpuc->frequency.target);
	if (*target != cpuc->frequency.target)
		cpuc->frequency.nr_repeats = frequency_repeats(*target);
	else if (cpuc->frequency.nr_repeats)
		cpuc->frequency.nr_repeats--;
	else
		return false;
	return true;
}

/* End the window of @cpuc's CPU, which is this one, if it is long enough. */
static void look(struct cpu_ctx *cpuc, u64 now)
{
	bool is_urgent = cpuc->account.tier > TIER_BATCH;
	struct look_timer *timer;
	u32 zero = 0, target;

	/* Before the window by the clock of another CPU: it is not over. */
	if ((s64)(now - cpuc->frequency.window_at) < FREQUENCY_WINDOW_NS)
		return;
	if (!end_window(cpuc, now, is_urgent, &target))
		return;
	ask(cpuc, target);
	stat_inc(cpuc, STAT_CPUPERF_SET);
	timer = bpf_map_lookup_elem(&look_timers, &zero);
	if (timer)
		arm(timer, FREQUENCY_FALL_NS);
}

__hidden void frequency_running(struct cpu_ctx *cpuc, u64 now)
{
	if (!is_on())
		return;
	cpuc->frequency.busy_from = now;
	look(cpuc, now);
}

__hidden void frequency_ran(struct cpu_ctx *cpuc, u64 now)
{
	s64 ran_ns;

	if (!is_on())
		return;
	ran_ns = now - cpuc->frequency.busy_from;
	/* A change of nice or affinity may come from another CPU's clock. */
	if (ran_ns > 0)
		cpuc->frequency.busy_ns += ran_ns;
	cpuc->frequency.busy_from = now;
	look(cpuc, now);
}

/*
 * Let the CPU of @cpuc ask for less if it is idle; the CPU of @by looks.
 *
 * It may begin to run something meanwhile: one window is wrong then. Both ask
 * first and note it after that, and the kernel holds the lock of the runqueue,
 * for the one while it asks, for the other until it has noted it. So what is
 * noted is what was asked for last, or less: then the CPU asks again. Linux
 * 6.12 takes no lock to ask; if both ask within some instructions, what is
 * noted may be more, until the load changes.
 */
static void look_at_idle(struct cpu_ctx *cpuc, struct cpu_ctx *by, u64 now)
{
	u32 target;

	if (cpuc->account.is_busy ||
	    (s64)(now - cpuc->frequency.window_at) < FREQUENCY_WINDOW_NS)
		return;
	if (!end_window(cpuc, now, false, &target))
		return;
	ask(cpuc, target);
	stat_inc(by, STAT_CPUPERF_SET);
}

static int look_timer_fn(void *map, u32 *key, struct look_timer *timer)
{
	struct cpu_ctx *by = lookup_cpu(bpf_get_smp_processor_id()), *cpuc;
	u64 now = scx_bpf_now();
	bool is_asking = false;
	s32 i;

	__sync_lock_test_and_set(&timer->is_armed, 0);
	if (!by || !is_on())
		return 0;
	bpf_for(i, 0, nr_cpu_ids) {
		cpuc = lookup_cpu(i);
		if (!cpuc)
			return 0;
		look_at_idle(cpuc, by, now);
		is_asking |= cpuc->frequency.target > 0;
	}
	if (is_asking)
		arm(timer, FREQUENCY_FALL_NS);
	return 0;
}

__hidden s32 frequency_init(void)
{
	struct look_timer *timer;
	struct cpu_ctx *cpuc;
	u32 zero = 0;
	s32 err, i;

	bpf_for(i, 0, nr_cpu_ids) {
		cpuc = lookup_cpu(i);
		if (!cpuc)
			return -ENOENT;
		/* The kernel's own, until it is asked for something. */
		cpuc->frequency.target = FREQUENCY_ONE;
		cpuc->frequency.util = FREQUENCY_ONE;
	}
	timer = bpf_map_lookup_elem(&look_timers, &zero);
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &look_timers, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&timer->timer, look_timer_fn);
	if (!err && has_cpufreq)
		arm(timer, FIRST_LOOK_NS);
	return err;
}
