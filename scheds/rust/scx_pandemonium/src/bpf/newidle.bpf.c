/* SPDX-License-Identifier: GPL-2.0 */
/* newidle: did a CPU that goes idle miss a task? See newidle.bpf.h. */
#include "newidle.bpf.h"
#include "grant.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"

/*
 * Return whether a task was queued since @cpuc's CPU, now idle, looked for
 * work.
 *
 * Not every task that waits is work for this CPU: it may not be allowed here.
 * What was there when the CPU looked is no reason to look again, else it would
 * never get to rest. So two answers are needed: the count of the own queue,
 * which is always work for this CPU, and for the domains the number of tasks
 * that were ever queued there, which says what is new.
 */
static bool missed_work(struct cpu_ctx *cpuc, struct llc_ctx *llcc)
{
	if (queue_nr_own(cpuc) &&
	    scx_bpf_dsq_nr_queued(queue_own(cpuc->topo.cpu)))
		return true;
	if (nr_llcs == 1 && !queue_nr_interactive(llcc) &&
	    !queue_nr_batch(llcc))
		return false;
	return queue_nr_inserts() != cpuc->dispatch.seen_inserts;
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
 * The kernel has updated the idle mask: a task that is queued after this finds
 * the CPU idle and kicks it, and what was queued before is seen here. Where the
 * kernel does that later, see newidle_last_cpu().
 *
 * NOTE: a CPU that dies must not kick, not even itself: the interrupt that
 * carries out its kicks is gone already, the kick would stay pending, and with
 * it every later one of that CPU once it is back.
 */
__hidden void newidle_update_idle(s32 cpu, bool is_idle)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = cpuc ? lookup_llc(cpuc->topo.llc_idx) : NULL;

	if (!llcc)
		return;
	slice_update_idle(cpuc, llcc, is_idle);
	if (!is_idle)
		return;
	if (MASK_FOLLOWS_CALLBACK)
		/* A barrier too: before the look at what was queued. */
		__sync_lock_test_and_set(&llcc->newidle.last_cpu, cpu);
	/*
	 * A task that took what ran here last for a victim would get before the
	 * one to which this CPU is given next, or real-time work.
	 */
	preempt_withdraw(cpuc, llcc);
	if (cpuc->slice.is_offline) {
		/* Nothing comes here: the kernel leaves it in the idle mask. */
		scx_bpf_test_and_clear_cpu_idle(cpu);
		if (left_task(cpuc))
			scx_bpf_kick_cpu(cpu, 0);
	} else if (grant_is_given(cpuc, scx_bpf_now())) {
		/*
		 * One did so while that went to sleep, and is on its way. Off
		 * the mask, others do not try for it in vain.
		 */
		scx_bpf_test_and_clear_cpu_idle(cpu);
		newidle_look_soon(cpuc);
	} else if (left_task(cpuc) || missed_work(cpuc, llcc)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (cpuc->dispatch.is_awaiting) {
		newidle_look_soon(cpuc);
	}
}
