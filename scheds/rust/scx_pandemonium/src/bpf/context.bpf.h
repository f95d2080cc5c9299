/* SPDX-License-Identifier: GPL-2.0 */
/*
 * context: what the scheduler remembers of tasks, CPUs and LLC domains
 *
 * Owns the maps that hold it; the other rooms get at them through the lookups
 * below. One lookup per map and callback: a callback looks up what it needs
 * and hands it down.
 *
 * Names: taskc, cpuc and llcc are the contexts of a task, a CPU and a domain.
 *
 * Not here: what any of it means; each field is written by the room named
 * beside it.
 */
#ifndef __CONTEXT_BPF_H
#define __CONTEXT_BPF_H

#include <scx/common.bpf.h>
#include "intf.h"
#include "policy/burst.h"
#include "policy/clock.h"

struct task_ctx {
	/* queue: what the task is owed, and where it stands in the queue. */
	u64 vtime;
	u64 place_vtime;    /* vtime at the start of the present slice */
	s64 left_lag;	    /* how far it was behind when it left the clock */
	u64 left_served;    /* what the clock had served then */
	u32 is_away;	    /* 1 while it sleeps */
	u64 waits_in;	    /* the queue that it is counted in; 0: none */
	u32 waits_group;    /* and its group there */
	u64 slice_ns;	    /* slice granted for the present turn */
	u64 slice_used_ns;  /* used of it, in runs that were preempted */
	u64 enqueued_at;    /* when it last became ready; 0 once it runs */
	u32 llc_idx;	    /* domain whose clock vtime belongs to */
	u32 is_rotated;	    /* 1 if its turn is over: it queues anew */
	u32 counted_weight; /* its part of weight_sum, 0 if asleep */

	/* rescue */
	u32 is_rescued; /* 1 from a rescue to the end of the run it gave */

	/* classify: averages, see policy/classify.h. */
	u64 started_at; /* when its present run began */
	u64 woke_at;	/* last wakeup; 0 until the first */
	u64 slept_at;	/* last voluntary sleep; 0 until the first */
	u64 burst_ns;	/* CPU time since the last wakeup */
	u64 avg_runtime_ns;
	u64 runtime_dev_ns;
	u64 wake_interval_ns;
	u64 switch_interval_ns;
	u64 score;
	u32 age;	  /* wakeups seen, up to AGE_MATURE */
	u32 tier;	  /* what it has shown itself to be */
	u32 served_tier;  /* what it may claim now; not above tier */
	u32 is_sponsored; /* a new task that was let through the gate */
	u32 is_waking;	  /* 1 between a wakeup and the run it causes */
	u32 is_fed;   /* 1 if batch work woke it that goes on; until it runs */
	s32 last_cpu; /* where it ran last; -1 if never */

	/* compositor: when its name was looked at, and what that gave. */
	u64 looked_at;
	u32 tier_floor; /* tier does not fall below */

	/* account: for the dump. */
	u64 last_wait_ns;
};

/* CPUs that have something in common. */
struct span_ctx {
	struct bpf_cpumask __kptr *cpus;
};

struct llc_ctx {
	u32 idx; /* topo: its index */
	/* queue: vtime of a task with its fair share; the lock is for writers */
	struct vtime_clock clock;
	struct bpf_spin_lock clock_lock;
	u32 nr_cpus;	/* topo: how many CPUs the domain has */
	u64 nr_inserts; /* queue: tasks ever queued here */
	/* queue: tasks that wait in its queues. */
	struct waiters interactive;
	struct waiters batch;
	u32 deficit; /* dispatch: see policy/deficit.h */
	/* classify: see policy/gate.h and policy/burst.h */
	u64 gate_full_at;
	u64 nr_enqueues;
	struct burst burst;
	/* preempt: its CPUs that run a batch task, those with an interactive. */
	struct bpf_cpumask __kptr *batch_cpus;
	struct bpf_cpumask __kptr *interactive_cpus;
	/* topo: all its CPUs, and those of its NUMA node. */
	struct bpf_cpumask __kptr *cpus;
	struct bpf_cpumask __kptr *node_cpus;
};

extern const volatile u32 nr_cpu_ids;
extern const volatile u32 nr_llcs;
extern const volatile u32 nr_comm_patterns;
extern const volatile u32 nr_l2s;	    /* number of L2 domains */
extern const volatile bool has_smt;	    /* cores have several CPUs */
extern const volatile bool has_wide_l2;	    /* L2 domains several cores */
extern const volatile bool has_small_cores; /* cores differ in size */
extern struct knobs knobs;

/*
 * Return whether it matters which idle CPU a task gets. The verifier drops what
 * stands behind this on a machine where it does not.
 */
static __always_inline bool has_idle_choice(void)
{
	return has_wide_l2 || has_small_cores || nr_llcs > 1;
}

/* Return the context of @p, or NULL if the task has none (yet). */
struct task_ctx *try_lookup_task(struct task_struct *p);

/* Create the context of @p. Return NULL if there is no memory for it. */
struct task_ctx *context_create_task(struct task_struct *p);

/* Return the context of @cpu; NULL, with the scheduler stopped, if none. */
struct cpu_ctx *lookup_cpu(s32 cpu);

/* Return the context of a domain; NULL, with the scheduler stopped, if none. */
struct llc_ctx *lookup_llc(u32 llc_idx);

/* Return the CPUs of an L2 domain; NULL, with the scheduler stopped, if none. */
struct span_ctx *lookup_l2(u32 l2_idx);

/* Return the topology entry of @cpu, or NULL if @cpu is out of range. */
const struct cpu_topo *try_lookup_cpu_topo(s32 cpu);

/* Return the topology entry of a domain, or NULL if it is out of range. */
const struct llc_topo *try_lookup_llc_topo(u32 llc_idx);

#endif /* __CONTEXT_BPF_H */
