/* SPDX-License-Identifier: GPL-2.0 */
/* held: which CPUs does another class hold? See held.bpf.h. */
#include "held.bpf.h"
#include "grant.bpf.h"
#include "preempt.bpf.h"
#include "stats.bpf.h"
#include "policy/vtime.h"

enum held_consts {
	/* How old the number of serving CPUs may be: an interval of steal. */
	SERVING_AGE_MAX_NS = 4 * NSEC_PER_MSEC,
};

/*
 * Return whether another class has held the CPU of @cpuc for long. So it seems
 * if the CPU has been idle since before we started, too: no task waits there.
 */
static bool is_held(const struct cpu_ctx *cpuc, u64 now)
{
	return !READ_ONCE(cpuc->account.is_busy) &&
	       !READ_ONCE(cpuc->slice.is_idle) &&
	       vtime_before(READ_ONCE(cpuc->account.stopped_at) +
				    knobs.sojourn_thresh_ns,
			    now);
}

/* Return how many CPUs of domain @llc_idx are held at @now. */
static u32 nr_held(u32 llc_idx, u64 now)
{
	struct cpu_ctx *cpuc;
	u32 nr = 0;
	s32 i;

	bpf_for(i, 0, nr_cpu_ids) {
		cpuc = lookup_cpu(i);
		if (!cpuc)
			break;
		if (cpuc->topo.llc_idx == llc_idx && !cpuc->slice.is_offline &&
		    is_held(cpuc, now))
			nr++;
	}
	return nr;
}

/* Not static, so that the verifier walks it once and not at each call. */
__noinline u32 held_nr_serving(u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	u32 nr, nr_cpus;

	if (!llcc)
		return 0;
	if (!vtime_before(now, READ_ONCE(llcc->held.counted_at) +
				       SERVING_AGE_MAX_NS)) {
		WRITE_ONCE(llcc->held.counted_at, now);
		WRITE_ONCE(llcc->held.nr_held, nr_held(llc_idx, now));
	}
	nr = READ_ONCE(llcc->held.nr_held);
	nr_cpus = llcc->topo.nr_cpus;
	return nr < nr_cpus ? nr_cpus - nr : 0;
}

/*
 * A higher scheduling class takes the CPU of @cpuc. Linux bypasses a scheduler
 * to enable and disable it: what waits in the local DSQ stays there then.
 */
static bool lose_cpu(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	preempt_withdraw(cpuc, llcc);
	grant_revoke(cpuc);
	stat_inc(cpuc, STAT_RT_RELEASE);
	return !is_cpu_bypassed();
}

__hidden void held_cpu_release(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	if (llcc && lose_cpu(cpuc, llcc))
		scx_bpf_reenqueue_local();
}

__hidden void held_stopping(const struct task_struct *p, struct cpu_ctx *cpuc,
			    struct llc_ctx *llcc)
{
	if (!has_cpu_release && p->scx.slice && lose_cpu(cpuc, llcc))
		scx_bpf_reenqueue_local_from_anywhere();
}
