/* SPDX-License-Identifier: GPL-2.0 */
/* idle: which idle CPU does a task get? See idle.bpf.h. */
#include "idle.bpf.h"
#include "queue.bpf.h"
#include "topo.bpf.h"
#include "policy/vtime.h"

enum idle_consts {
	/*
	 * How long a task waits for its LLC before it goes to an idle CPU of
	 * another. For so long the kernel's default scheduler takes a task to
	 * be cache hot.
	 */
	LLC_WAIT_MAX_NS = 500 * NSEC_PER_USEC,
	/* Tasks of a queue that one look from outside considers. */
	LOOK_MAX_TASKS = 16,
};

/* The big cores of the machine. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} big_spans SEC(".maps");

/*
 * Where a CPU puts together the mask that it looks for. It chooses with
 * interrupts off, so one mask is enough.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} scratch_masks SEC(".maps");

/* Entry n: the first n CPUs of the order. The loader sets their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct span_ctx);
} pack_spans SEC(".maps");

static s32 init_pack_span(u32 nr)
{
	struct span_ctx *span = bpf_map_lookup_elem(&pack_spans, &nr);

	return span ? topo_create_span(&span->cpus, SPAN_FIRST, nr) : -ENOENT;
}

static s32 init_pack_spans(void)
{
	s32 err, i;

	bpf_for(i, 1, nr_cpu_ids + 1) {
		err = init_pack_span(i);
		if (err)
			return err;
	}
	return 0;
}

__hidden s32 idle_init(void)
{
	struct span_ctx *span;
	u32 zero = 0;
	s32 err, i;

	span = bpf_map_lookup_elem(&big_spans, &zero);
	if (!span)
		return -ENOENT;
	err = topo_create_span(&span->cpus, SPAN_BIG, 0);
	if (err)
		return err;
	bpf_for(i, 0, nr_cpu_ids) {
		span = bpf_map_lookup_percpu_elem(&scratch_masks, &zero, i);
		if (!span)
			return -ENOENT;
		err = topo_create_span(&span->cpus, SPAN_NONE, 0);
		if (err)
			return err;
	}
	return init_pack_spans();
}

static struct bpf_cpumask *big_cpus(void)
{
	u32 zero = 0;
	struct span_ctx *span = bpf_map_lookup_elem(&big_spans, &zero);

	return span ? span->cpus : NULL;
}

/*
 * Claim an idle CPU of @domain out of @cpus, which a task may use, only one of
 * @among if that is given. With SCX_PICK_IDLE_CORE in @flags, one whose core is
 * wholly idle. Return it, or -EBUSY.
 */
static s32 claim_in(const struct cpumask *cpus, struct bpf_cpumask *domain,
		    struct bpf_cpumask *among, u64 flags)
{
	u32 zero = 0;
	struct span_ctx *span = bpf_map_lookup_elem(&scratch_masks, &zero);
	struct bpf_cpumask *mask = span ? span->cpus : NULL;

	if (!mask || !domain || !bpf_cpumask_and(mask, cast_mask(domain), cpus))
		return -EBUSY;
	if (among && !bpf_cpumask_and(mask, cast_mask(mask), cast_mask(among)))
		return -EBUSY;
	return scx_bpf_pick_idle_cpu(cast_mask(mask), flags);
}

static bool is_core_idle(s32 cpu)
{
	const struct cpumask *cores = scx_bpf_get_idle_smtmask();
	bool is_set = bpf_cpumask_test_cpu(cpu, cores);

	scx_bpf_put_idle_cpumask(cores);
	return is_set;
}

/* Claim the CPU of @cpuc itself, under the conditions of claim_in(). */
static bool claim_this(const struct cpumask *cpus, const struct cpu_ctx *cpuc,
		       struct bpf_cpumask *among, u64 flags)
{
	s32 cpu = cpuc->topo.cpu;

	return bpf_cpumask_test_cpu(cpu, cpus) &&
	       (!among || bpf_cpumask_test_cpu(cpu, cast_mask(among))) &&
	       (!(flags & SCX_PICK_IDLE_CORE) || is_core_idle(cpu)) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* The same for the CPU of @cpuc, then its L2 domain, then its LLC. */
static s32 claim_near(const struct cpumask *cpus, const struct cpu_ctx *cpuc,
		      struct bpf_cpumask *among, u64 flags)
{
	struct span_ctx *span;
	struct llc_ctx *llcc;
	s32 cpu;

	if (claim_this(cpus, cpuc, among, flags))
		return cpuc->topo.cpu;
	span = lookup_l2(cpuc->topo.l2_idx);
	cpu = span ? claim_in(cpus, span->cpus, among, flags) : -EBUSY;
	if (cpu >= 0)
		return cpu;
	llcc = lookup_llc(cpuc->topo.llc_idx);
	return llcc ? claim_in(cpus, llcc->topo.cpus, among, flags) : -EBUSY;
}

__hidden bool idle_is_any(const struct cpumask *cpus)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool is_set = bpf_cpumask_intersects(idle, cpus);

	scx_bpf_put_idle_cpumask(idle);
	return is_set;
}

/*
 * The CPU of @prev_cpu's LLC comes before any of another, even if its sibling
 * is busy: that slows the task down for a while, a cold cache does as well and
 * so does the way back.
 *
 *   1. Where cores differ in size, a big core that is wholly idle: the previous
 *	CPU, one of its L2 domain, of its LLC, any. For every tier: batch work
 *	gains most from a fast core, and makes room for tasks before it.
 *   2. The previous CPU, if its core is wholly idle: its caches are warm.
 *   3. A wholly idle core of its L2 domain, of its LLC.
 *   4. An idle CPU: the previous one, one of its L2 domain, of its LLC.
 *   5. One of its NUMA node, then any, whole cores first. A task that keeps to
 *	its LLC goes to neither and, by 1, not to a big core elsewhere.
 */
__noinline s32 idle_claim_nearest(struct task_struct *p __arg_trusted,
				  s32 prev_cpu)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct cpu_ctx *cpuc = lookup_cpu(prev_cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;
	struct bpf_cpumask *big = NULL;
	u64 core = has_smt ? SCX_PICK_IDLE_CORE : 0;
	const struct cpumask *cpus = p->cpus_ptr;
	bool keeps_llc;
	s32 cpu;

	if (!taskc || !llcc || !idle_is_any(cpus))
		return -EBUSY;
	keeps_llc = idle_keeps_llc(p, taskc, llcc);
	if (has_small_cores) {
		big = big_cpus();
		if (!big)
			return -EBUSY;
		cpu = claim_near(cpus, cpuc, big, core);
		if (cpu < 0 && !keeps_llc)
			cpu = claim_in(cpus, big, NULL, core);
		if (cpu >= 0)
			return cpu;
	}
	cpu = claim_near(cpus, cpuc, NULL, core);
	if (cpu < 0 && has_smt)
		cpu = claim_near(cpus, cpuc, NULL, 0);
	if (cpu >= 0 || keeps_llc)
		return cpu;
	cpu = claim_in(cpus, llcc->topo.node_cpus, NULL, 0);
	return cpu >= 0 ? cpu : scx_bpf_pick_idle_cpu(cpus, 0);
}

/*
 *   1. Only in mode STRONG, and where there is another last-level cache.
 *   2. Not a latency-critical task or a kernel thread: others wait for it.
 *   3. Not a task that never ran: no cache holds anything of it.
 *   4. Not a task that may not run there at all.
 */
__hidden bool idle_keeps_llc(struct task_struct *p, struct task_ctx *taskc,
			     struct llc_ctx *llcc)
{
	struct bpf_cpumask *cpus = llcc->topo.cpus;

	return nr_caches > 1 && knobs.affinity_mode == AFFINITY_STRONG &&
	       taskc->classify.served_tier != TIER_LAT_CRITICAL &&
	       !(p->flags & PF_KTHREAD) && taskc->account.last_cpu >= 0 &&
	       cpus && bpf_cpumask_intersects(cast_mask(cpus), p->cpus_ptr);
}

__noinline bool idle_may_take(u64 dsq_id, u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	struct task_struct *p;
	struct task_ctx *taskc;
	u64 first;
	u32 nr = 0;

	if (!llcc || knobs.affinity_mode != AFFINITY_STRONG)
		return true;
	/*
	 * One that has waited for long lets the queue go on in its own order,
	 * which may send another task instead: the domain is overloaded then.
	 */
	first = queue_first(dsq_id, llcc->topo.first_cpu, 0, false);
	if (!first)
		return false;
	bpf_for_each(scx_dsq, p, first, 0) {
		taskc = try_lookup_task(p);
		if (!taskc || !idle_keeps_llc(p, taskc, llcc) ||
		    !vtime_before(now,
				  taskc->account.runnable_at + LLC_WAIT_MAX_NS))
			return true;
		if (++nr >= LOOK_MAX_TASKS)
			break;
	}
	return false;
}

/*
 * Few CPUs: the first knobs.nr_packed_cpus of the machine, in the order of the
 * loader: small cores before big ones, the CPUs of a core together, then those
 * of an LLC. A task that wakes gets an idle CPU among these, preempts what runs
 * on any CPU, or waits. Once it has waited for 0.5 to 1 ms a timer (newidle)
 * wakes another CPU for it, the next ones in that order first. 0 packs nothing.
 *
 * The loader sets the number once a second by how busy the machine is. Until it
 * has, the wait is all that a task pays.
 *
 * Tasks that a rule confines keep to the first knobs.nr_confined_cpus in the
 * same order, which the loader sets by what these tasks use. They wait in the
 * own queue of one of these CPUs, and leave any other at the end of a slice.
 *
 * Limits:
 *   - Only wakeups are packed. A task that never sleeps stays where it is,
 *	unless it is confined.
 *   - A task that may not use all of these CPUs goes anywhere.
 *   - A CPU that went offline after the start keeps its place in the order.
 *   - A confined task waits until the CPU that it was queued for ends what it
 *	runs, though another of these may be idle by then.
 */

/* Return the first @nr CPUs if all of them are in @cpus, else NULL. */
static struct bpf_cpumask *usable_span(const struct cpumask *cpus, u32 nr)
{
	struct span_ctx *span = bpf_map_lookup_elem(&pack_spans, &nr);
	struct bpf_cpumask *mask = span ? span->cpus : NULL;

	if (!mask || !bpf_cpumask_subset(cast_mask(mask), cpus))
		return NULL;
	return mask;
}

__noinline bool idle_fits(struct task_struct *p __arg_trusted, u32 nr)
{
	return usable_span(p->cpus_ptr, nr);
}

__noinline s32 idle_claim_first(struct task_struct *p __arg_trusted, u32 nr,
				s32 prev_cpu)
{
	struct bpf_cpumask *mask = usable_span(p->cpus_ptr, nr);

	if (!mask)
		return -EINVAL;
	if (bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	return scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
}

__noinline s32 idle_wait_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu)
{
	struct bpf_cpumask *mask =
		usable_span(p->cpus_ptr, knobs.nr_packed_cpus);

	if (!mask || bpf_cpumask_test_cpu(prev_cpu, cast_mask(mask)))
		return prev_cpu;
	return bpf_cpumask_any_distribute(cast_mask(mask));
}

__hidden s32 idle_claim_beyond(const struct cpumask *cpus)
{
	struct bpf_cpumask *mask = NULL;
	s32 cpu = -EBUSY;

	if (knobs.nr_packed_cpus)
		mask = usable_span(cpus, 2 * knobs.nr_packed_cpus);
	if (mask)
		cpu = scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
	return cpu >= 0 ? cpu : scx_bpf_pick_idle_cpu(cpus, 0);
}

__noinline s32 idle_confined_cpu(struct task_struct *p __arg_trusted,
				 s32 prev_cpu)
{
	u32 nr = knobs.nr_confined_cpus;
	s32 cpu = idle_claim_first(p, nr, prev_cpu);
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
	mask = usable_span(p->cpus_ptr, nr);
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
