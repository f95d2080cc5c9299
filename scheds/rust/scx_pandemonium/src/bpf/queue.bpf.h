/* SPDX-License-Identifier: GPL-2.0 */
/*
 * queue: where do tasks wait, and in which order?
 *
 *   own queue of a CPU		tasks that only this CPU may run, and confined
 *				ones
 *   interactive of a domain	tasks to be served before batch work, those that
 *				others wait for, and batch work that the first
 *				free CPU is to take: it slept or is owed much
 *   batch of a domain		everything else
 *
 * A queue is ordered by rank (vtime less the head start of the tier). One of a
 * domain can be served by any CPU that the task is allowed on, so nothing is
 * stranded behind one busy CPU; an own queue holds only what no other CPU could
 * take, and what a rule keeps to few CPUs.
 *
 * The batch queue is in parts, one near each CPU of the domain: of tasks that
 * were on that CPU last, whose data its caches hold. Each part, and each other
 * queue, is a DSQ.
 *
 * The tasks of each queue are counted, by the age of their wait. Local DSQs
 * only hand a task straight to a CPU that will run it next.
 *
 * Not here: which CPU (place), which queue next (dispatch), which task has
 * waited too long (rescue), what a task is owed (share).
 */
#ifndef __QUEUE_BPF_H
#define __QUEUE_BPF_H

#include "context.bpf.h"
#include "policy/wait_age.h"

/*
 * DSQ ids are typed by their upper half, so that a CPU number cannot pass for
 * the id of a domain's queue.
 */
enum queue_consts {
	DSQ_KIND_SHIFT = 32,
	DSQ_KIND_OWN = 1,
	DSQ_KIND_INTERACTIVE = 2,
	DSQ_KIND_BATCH = 3, /* no DSQ: its parts are */
	DSQ_KIND_NEAR = 4,

	/*
	 * What a CPU may be ahead of the clock without a look at batch work
	 * near others; what that may be owed, of its CPU time, and wait there.
	 */
	NEAR_SLACK_NS = 1500 * NSEC_PER_USEC,
};

static __always_inline u64 queue_own(s32 cpu)
{
	return ((u64)DSQ_KIND_OWN << DSQ_KIND_SHIFT) | (u32)cpu;
}

static __always_inline u64 queue_interactive(u32 llc_idx)
{
	return ((u64)DSQ_KIND_INTERACTIVE << DSQ_KIND_SHIFT) | llc_idx;
}

static __always_inline u64 queue_batch(u32 llc_idx)
{
	return ((u64)DSQ_KIND_BATCH << DSQ_KIND_SHIFT) | llc_idx;
}

/* The part of the batch queue of its domain that is near @cpu. */
static __always_inline u64 queue_near(s32 cpu)
{
	return ((u64)DSQ_KIND_NEAR << DSQ_KIND_SHIFT) | (u32)cpu;
}

/* Return whether @dsq_id names a queue of a domain, as queue_take() has it. */
static __always_inline bool queue_is_shared(u64 dsq_id)
{
	u32 kind = dsq_id >> DSQ_KIND_SHIFT;

	return kind == DSQ_KIND_INTERACTIVE || kind == DSQ_KIND_BATCH;
}

/*
 * Return how many tasks wait in the own queue of @cpuc's CPU, in the
 * interactive or in the batch queue of @llcc, in both, or in the part of the
 * latter that is near @cpuc's CPU. A count of 0 is proof that the queue is
 * empty; more may mean a task that is on its way to a CPU.
 *
 * Asking the kernel instead is a hash lookup for each queue, several times for
 * each switch.
 */
static __always_inline u32 queue_nr_own(const struct cpu_ctx *cpuc)
{
	return wait_age_nr(&cpuc->queue.own);
}

static __always_inline u32 queue_nr_interactive(const struct llc_ctx *llcc)
{
	return wait_age_nr(&llcc->queue.interactive);
}

static __always_inline u32 queue_nr_batch(const struct llc_ctx *llcc)
{
	return wait_age_nr(&llcc->queue.batch);
}

static __always_inline u32 queue_nr_shared(const struct llc_ctx *llcc)
{
	return queue_nr_interactive(llcc) + queue_nr_batch(llcc);
}

static __always_inline u32 queue_nr_near(const struct cpu_ctx *cpuc)
{
	return READ_ONCE(cpuc->queue.nr_near);
}

/*
 * Return how many DSQs make up queue @dsq_id. Let @cpu be the CPU whose part of
 * the batch queue is the first: it is, if it is of that domain; -1 is of none.
 */
static __always_inline u32 queue_nr_parts(u64 dsq_id, s32 *cpu)
{
	const struct cpu_topo *topo;
	struct llc_ctx *llcc;

	if (dsq_id >> DSQ_KIND_SHIFT != DSQ_KIND_BATCH)
		return 1;
	llcc = lookup_llc((u32)dsq_id);
	if (!llcc)
		return 0;
	topo = try_lookup_cpu_topo(*cpu);
	if (!topo || topo->llc_idx != llcc->topo.idx)
		*cpu = llcc->topo.first_cpu;
	return llcc->topo.nr_parts;
}

/*
 * Return the DSQ of queue @dsq_id that is near @cpu, 0 if no task waits there,
 * and let @cpu be the next one.
 */
static __always_inline u64 queue_next_part(u64 dsq_id, s32 *cpu)
{
	struct cpu_ctx *cpuc;
	u64 part;

	if (dsq_id >> DSQ_KIND_SHIFT != DSQ_KIND_BATCH)
		return dsq_id;
	cpuc = lookup_cpu(*cpu);
	if (!cpuc)
		return 0;
	part = queue_nr_near(cpuc) ? queue_near(*cpu) : 0;
	*cpu = cpuc->topo.next;
	return part;
}

/* Return how many tasks the DSQs of @dsq_id hold. */
u32 queue_nr_queued(u64 dsq_id);

/*
 * Return the DSQ of @dsq_id whose first task goes before those of all others, 0
 * if there is none. With @is_bounded only if that task goes before @before and
 * may run on @cpu. Costly like queue_peek().
 */
u64 queue_first(u64 dsq_id, s32 cpu, u64 before, bool is_bounded);

/*
 * Move a task of @dsq_id, a queue of a domain, that this CPU, @cpu, may run to
 * its local DSQ, the first if that is one. Return false if there is none, or
 * was none just before: the CPU pauses, see queue.bpf.c. Seen by the verifier
 * once, not at each call.
 */
bool queue_take(u64 dsq_id, s32 cpu);

/* A task came that @cpu, which is idle, may run: it looks without a pause. */
void queue_end_pause(s32 cpu);

/* Return how many tasks wait in the queues that @cpuc's CPU serves first. */
static __always_inline u32 queue_nr_waiting(const struct cpu_ctx *cpuc,
					    const struct llc_ctx *llcc)
{
	return queue_nr_own(cpuc) + queue_nr_interactive(llcc) +
	       queue_nr_batch(llcc);
}

/* Create all queues. Return 0 or a negative error. */
s32 queue_init(void);

/*
 * Insert @p, which waits in no queue, into DSQ @dsq_id and count it there. If
 * it lost the CPU before its turn was over it takes the place it had, ahead of
 * the tasks that were behind it then.
 */
void queue_insert(struct task_struct *p, struct task_ctx *taskc,
		  struct llc_ctx *llcc, u64 dsq_id, u64 enq_flags);

/*
 * The task of @taskc waits in no queue any more: it runs, or is not ours now.
 * Every task that queue_insert() counted comes by here.
 *
 * Return whether it had waited in one.
 */
bool queue_uncount(struct task_ctx *taskc);

/*
 * Read the rank of the first task of DSQ @dsq_id, or of the last, into @rank.
 * Return false if it is empty. Costly; see the count first.
 */
bool queue_peek(u64 dsq_id, bool is_last, u64 *rank);

/*
 * Return whether the first task of DSQ @dsq_id is batch work. Costly, too. Seen
 * by the verifier once, as queue_peek_load().
 */
bool queue_is_batch_first(u64 dsq_id);

/*
 * Return what the first task of @dsq_id is of the load of its domain; 0 if the
 * queue is empty. Costly like queue_peek().
 */
u32 queue_peek_load(u64 dsq_id);

/* Return the count of the tasks that wait in @dsq_id. */
struct waiters *queue_waiters(u64 dsq_id);

/*
 * Return whether a task of the queue of @w has waited for @thresh_ns at @now.
 * Let the younger group take the place of the older if that is gone.
 */
bool queue_is_overdue(struct waiters *w, u64 now, u64 thresh_ns);

/*
 * The tasks of the older group of @w have waited for long, and had their share
 * all the same: some time must pass until one of them has not.
 */
void queue_defer_overdue(struct waiters *w, u64 now);

/*
 * Let the tasks that wait for @cpu alone, or ran there last, go to the global
 * DSQ.
 *
 * A CPU that goes offline is no longer asked for ops.dispatch() from the moment
 * on when it is not active, which is long before ops.cpu_offline(): in between
 * the kernel waits for all RCU readers, and a task that waits here may be one.
 * The CPU still takes from the global DSQ, and moves each task to a CPU that
 * may run it.
 *
 * Return how many went. Seen by the verifier once, not at each call.
 */
u32 queue_evacuate(s32 cpu);

#endif /* __QUEUE_BPF_H */
