/* SPDX-License-Identifier: GPL-2.0 */
/* pack: which CPUs does work keep to? See pack.bpf.h. */
#include "pack.bpf.h"
#include "lazy_timer.h"
#include "queue.bpf.h"
#include "topo.bpf.h"

enum pack_consts {
	/*
	 * How long a task waits before another CPU is woken for it: as long as
	 * for its LLC (idle).
	 */
	PACK_WAIT_NS = 500 * NSEC_PER_USEC,
	/* Tasks of a queue that one look considers. */
	PACK_LOOK_TASKS = 16,
};

/* Entry n: the first n CPUs of the order. The loader sets their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} pack_spans SEC(".maps");

/* Timers of the LLC domains; the loader sets their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lazy_timer);
} pack_timers SEC(".maps");

/* Return the first @nr CPUs if @p may use all of them, else NULL. */
static struct bpf_cpumask *usable_span(struct task_struct *p, u32 nr)
{
	struct span_ctx *span = bpf_map_lookup_elem(&pack_spans, &nr);
	struct bpf_cpumask *mask = span ? span->cpus : NULL;

	if (!mask || !bpf_cpumask_subset(cast_mask(mask), p->cpus_ptr))
		return NULL;
	return mask;
}

__noinline bool pack_fits(struct task_struct *p __arg_trusted, u32 nr)
{
	return usable_span(p, nr);
}

__noinline s32 pack_claim_cpu(struct task_struct *p __arg_trusted, u32 nr,
			      s32 prev_cpu)
{
	struct bpf_cpumask *mask = usable_span(p, nr);

	if (!mask)
		return -EINVAL;
	if (bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	return scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
}

__noinline s32 pack_wait_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu)
{
	struct bpf_cpumask *mask = usable_span(p, knobs.nr_packed_cpus);

	if (!mask || bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)))
		return prev_cpu;
	return bpf_cpumask_any_distribute(cast_mask(mask));
}

/*
 * Claim an idle CPU for @p, which has waited for long: among twice as many as
 * work keeps to, then any. So what is too much for these stays together too.
 */
static s32 claim_beyond(struct task_struct *p)
{
	struct bpf_cpumask *mask = usable_span(p, 2 * knobs.nr_packed_cpus);
	s32 cpu = -EBUSY;

	if (mask)
		cpu = scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
	return cpu >= 0 ? cpu : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

/* As idle_wake_for(), also for the verifier. */
__noinline u32 pack_wake_beyond(u64 dsq_id, u32 nr_max)
{
	u32 i, nr_parts, nr = 0;
	struct task_struct *p;
	s32 cpu, near = -1;
	u64 part;

	/* To Linux 6.12 a timer's callback may sleep, since ops.init() may. */
	bpf_rcu_read_lock();
	nr_parts = queue_nr_parts(dsq_id, &near);
	bpf_for(i, 0, nr_parts) {
		part = queue_next_part(dsq_id, &near);
		if (!part)
			continue;
		bpf_for_each(scx_dsq, p, part, 0) {
			if (nr >= nr_max)
				break;
			nr++;
			cpu = claim_beyond(p);
			if (cpu >= 0)
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		}
	}
	bpf_rcu_read_unlock();
	return nr;
}

/* A task has waited in domain @key for long enough, others came after it. */
static int pack_timer_fn(void *map, u32 *key, struct lazy_timer *timer)
{
	/* Before the look: a task that comes after it arms the timer again. */
	lazy_timer_fired(timer, PACK_WAIT_NS);
	pack_wake_beyond(queue_interactive(*key), PACK_LOOK_TASKS);
	pack_wake_beyond(queue_batch(*key), PACK_LOOK_TASKS);
	return 0;
}

__noinline int pack_bound_wait(struct task_struct *p __arg_trusted, u32 llc_idx)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool is_any_idle = bpf_cpumask_intersects(idle, p->cpus_ptr);
	struct lazy_timer *timer;

	scx_bpf_put_idle_cpumask(idle);
	/* With no idle CPU anywhere, the next one comes and looks. */
	if (!is_any_idle)
		return 0;
	timer = bpf_map_lookup_elem(&pack_timers, &llc_idx);
	if (timer)
		lazy_timer_arm(timer, PACK_WAIT_NS);
	return 0;
}

__noinline s32 pack_confined_cpu(struct task_struct *p __arg_trusted,
				 s32 prev_cpu)
{
	u32 nr = knobs.nr_confined_cpus;
	s32 cpu = pack_claim_cpu(p, nr, prev_cpu);
	struct cpu_ctx *cpuc, *otherc;
	struct bpf_cpumask *mask;

	if (cpu == -EINVAL)
		return cpu;
	if (cpu >= 0) {
		cpuc = lookup_cpu(cpu);
		/* Before Linux 6.16 a CPU that died is in the idle mask. */
		if (!cpuc || cpuc->slice.is_offline)
			return -EBUSY;
		/* Sent once we are out of ops.enqueue(), where @p is queued. */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return cpu;
	}
	mask = usable_span(p, nr);
	if (!mask)
		return -EINVAL;
	/* Of two that chance names one is seldom among the most crowded. */
	cpuc = lookup_cpu(bpf_cpumask_any_distribute(cast_mask(mask)));
	otherc = lookup_cpu(bpf_cpumask_any_distribute(cast_mask(mask)));
	if (!cpuc || !otherc)
		return -EBUSY;
	if (queue_nr_own(otherc) < queue_nr_own(cpuc))
		cpuc = otherc;
	return cpuc->slice.is_offline ? -EBUSY : cpuc->topo.cpu;
}

static s32 init_pack_timer(u32 llc_idx)
{
	struct lazy_timer *timer = bpf_map_lookup_elem(&pack_timers, &llc_idx);
	s32 err;

	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &pack_timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&timer->timer, pack_timer_fn);
}

static s32 init_pack_span(u32 nr)
{
	struct span_ctx *span = bpf_map_lookup_elem(&pack_spans, &nr);

	return span ? topo_create_span(&span->cpus, SPAN_FIRST, nr) : -ENOENT;
}

__hidden s32 pack_init(void)
{
	s32 err, i;

	bpf_for(i, 1, nr_cpu_ids + 1) {
		err = init_pack_span(i);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_llcs) {
		err = init_pack_timer(i);
		if (err)
			return err;
	}
	return 0;
}
