/* SPDX-License-Identifier: GPL-2.0 */
/*
 * queue: where do tasks wait, and in which order?
 *
 *   own queue of a CPU		tasks that only this CPU may run
 *   interactive of a domain	tasks to be served before batch work
 *   batch of a domain		everything else
 *
 * Each is a DSQ ordered by rank (vtime less the head start of the tier). A queue
 * of a domain can be served by any CPU that the task is allowed on, so nothing
 * is stranded behind one busy CPU; an own queue holds only what no other CPU
 * could take.
 *
 * Built-in local DSQs are used only to hand a task straight to a CPU that will
 * run it next.
 *
 * Not here: which CPU (place), which queue next (dispatch).
 */
#ifndef __QUEUE_BPF_H
#define __QUEUE_BPF_H

#include "context.bpf.h"

/*
 * DSQ ids are typed by their upper half, so that a CPU number cannot pass for
 * the id of a domain's queue.
 */
enum queue_consts {
	DSQ_KIND_SHIFT = 32,
	DSQ_KIND_OWN = 1,
	DSQ_KIND_INTERACTIVE = 2,
	DSQ_KIND_BATCH = 3,
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

/* Create all queues. Return 0 or a negative error. */
s32 queue_init(void);

/*
 * Bring @p over to the clock of @llcc: what it is owed stays the same, and its
 * weight counts there if it is runnable.
 */
void queue_move_llc(struct task_struct *p, struct task_ctx *taskc,
		    struct llc_ctx *llcc);

/* The same, if it is not there yet. */
static __always_inline void queue_join_llc(struct task_struct *p,
					   struct task_ctx *taskc,
					   struct llc_ctx *llcc)
{
	if (taskc->llc_idx != llcc->idx)
		queue_move_llc(p, taskc, llcc);
}

/*
 * The task of @taskc sleeps, and the clock of @llcc counts it no more: what it is
 * owed stays.
 */
void queue_depart(struct task_ctx *taskc, const struct llc_ctx *llcc);

/* It wakes: it is owed what it was when it fell asleep, and more. */
void queue_return(struct task_ctx *taskc);

/* Cap what a task that wakes into @llcc is owed for its sleep. */
void queue_bound_lag(struct task_struct *p, struct task_ctx *taskc,
		     struct llc_ctx *llcc);

/* Return the slice of a task in the tier that it is served in, in ns. */
u64 queue_slice_ns(struct task_ctx *taskc);

/*
 * Insert @p, which waits in no queue, into queue @dsq_id and count it there. If
 * it lost the CPU before its turn was over it takes the place it had, ahead of
 * those that were behind it then.
 */
void queue_insert(struct task_struct *p, struct task_ctx *taskc,
		  struct llc_ctx *llcc, u64 dsq_id, u64 enq_flags);

/*
 * Return the rank at which a task is queued: that of the place it had if its
 * turn is not over.
 */
u64 queue_rank(struct task_ctx *taskc);

/*
 * Read the rank of the first task of @dsq_id into @rank. Return false, and
 * leave @rank alone, if the queue is empty. Costly; see the count first.
 */
bool queue_peek(u64 dsq_id, u64 *rank);

/* Return how many tasks were ever queued in any domain. */
u64 queue_nr_inserts(void);

/*
 * The task of @taskc waits in no queue any more: it runs, or went away. Every
 * task that queue_insert() counted comes by here, so a count of 0 is proof that
 * a queue is empty; more may mean a task that is on its way to a CPU.
 *
 * Asking the kernel instead is a hash lookup for each queue, several times
 * for each switch.
 *
 * Return whether it had waited in one.
 */
bool queue_leave(struct task_ctx *taskc);

/* Return how many tasks wait in the queues that @cpuc's CPU serves first. */
u32 queue_nr_waiting(const struct cpu_ctx *cpuc, const struct llc_ctx *llcc);

/*
 * @p of @llcc ran for @ran_ns: it is charged for it and the clock moves on. If
 * it is still owed more than anybody may be, it loses the rest. Unless it @stays
 * runnable, the clock counts it no more.
 */
void queue_charge(struct task_struct *p, struct task_ctx *taskc,
		  struct llc_ctx *llcc, u64 ran_ns, bool stays);

/* @p is runnable in @llcc: the clock counts it, once it has no credit left. */
void queue_join_clock(struct task_struct *p, struct task_ctx *taskc,
		      struct llc_ctx *llcc);

/* The task of @taskc is runnable no longer: undo queue_join_clock(). */
void queue_leave_clock(struct task_ctx *taskc);

/* It is ours no more, perhaps while it waits: nobody counts it or its wait. */
void queue_forget(struct task_ctx *taskc);

/*
 * Let what waits for @cpu alone, or was on it, go to the global DSQ.
 *
 * A CPU that goes offline is no longer asked for ops.dispatch() from the moment
 * on when it is not active, which is long before ops.cpu_offline(): the kernel
 * waits in between until nobody is in an RCU section, and who waits here may be.
 * It still takes from the global DSQ, and moves each task to a CPU that may run
 * it.
 *
 * Return how many went. Seen by the verifier once, not at each call.
 */
u32 queue_evacuate(s32 cpu);

#endif /* __QUEUE_BPF_H */
