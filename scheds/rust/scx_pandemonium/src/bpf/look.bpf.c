/* SPDX-License-Identifier: GPL-2.0 */
/* look: is a long queue worth another look? See look.bpf.h. */
#include "look.bpf.h"
#include "queue.bpf.h"
#include "policy/vtime.h"

enum look_room_consts {
	/* To look at no more tasks than that costs little. */
	LOOK_SHORT_MAX = 64,
	/* The pause for each task looked at in vain: a hundred times that. */
	LOOK_PAUSE_NS = 32 * NSEC_PER_USEC,
};

/* Return whether @cpuc's CPU may still run nothing in the queue it left. */
static bool is_pausing(const struct cpu_ctx *cpuc)
{
	struct llc_ctx *llcc = lookup_llc((u32)cpuc->look.dsq_id);

	return llcc && cpuc->look.nr_inserts == queue_nr_free_inserts(llcc) &&
	       vtime_before(scx_bpf_now(), cpuc->look.until);
}

/*
 * @cpu found nothing in @dsq_id. If the queue is long, look once more, at what
 * is there for certain, since a task is counted before. Return whether that
 * found a task; if not, the CPU pauses.
 *
 * Seen by the verifier once, not at each call.
 */
__noinline bool look_well(s32 cpu, u64 dsq_id)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);
	struct llc_ctx *llcc = lookup_llc((u32)dsq_id);
	u32 nr = queue_nr_queued(dsq_id);
	bool is_complete;
	u64 nr_inserts;

	if (!cpuc || !llcc || nr <= LOOK_SHORT_MAX)
		return false;
	nr_inserts = queue_nr_free_inserts(llcc);
	is_complete = queue_is_complete(dsq_id, nr);
	if (queue_take(dsq_id, cpu))
		return true;
	if (is_complete) {
		cpuc->look.dsq_id = dsq_id;
		cpuc->look.nr_inserts = nr_inserts;
		cpuc->look.until = scx_bpf_now() + (u64)nr * LOOK_PAUSE_NS;
	}
	return false;
}

__noinline bool look_take(s32 cpu, u64 dsq_id)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (!cpuc || (cpuc->look.dsq_id == dsq_id && is_pausing(cpuc)))
		return false;
	return queue_take(dsq_id, cpu) || look_well(cpu, dsq_id);
}

__hidden void look_forget(s32 cpu)
{
	struct cpu_ctx *cpuc = lookup_cpu(cpu);

	if (cpuc)
		WRITE_ONCE(cpuc->look.dsq_id, 0);
}
