/* SPDX-License-Identifier: GPL-2.0 */
/*
 * context: what is remembered of tasks, CPUs and domains?
 *
 * Owns the maps that hold it; the other rooms get at them through the lookups
 * below. One lookup per map and callback: a callback looks up what it needs
 * and hands it down.
 *
 * The context of a task, a CPU or a domain is made of one struct for each room
 * that keeps something there. The member has the name of the room, and only
 * that room writes it: taskc->share is written in share.bpf.c. Held by
 * tests/sources/.
 *
 * Names: taskc, cpuc and llcc are the contexts of a task, a CPU and a domain.
 *
 * Not here: what any of it means (the room), the context of a CPU (intf.h,
 * since the loader reads its counters).
 */
#ifndef __CONTEXT_BPF_H
#define __CONTEXT_BPF_H

#include <scx/common.bpf.h>
#include "intf.h"
#include "policy/clock.h"
#include "policy/surge.h"

struct share_task {
	u64 vtime;
	u64 turn_vtime;	     /* vtime at the start of its turn */
	s64 vlag;	     /* how far behind the clock it fell asleep */
	u64 slept_at_served; /* what the clock had served then */
	u32 has_yielded;     /* 1 from sched_yield() to its next turn */
	u32 is_sleeping;     /* 1 from a sleep to the next wakeup */
	u32 llc_idx;	     /* domain whose clock vtime belongs to */
	u32 nice_weight;     /* of its nice level */
	u32 plain_weight;    /* what its cgroup makes of that */
	u32 last_weight;     /* the same at its last charge; 0: none */
	u32 weight;	     /* what it is charged by: that with its factor */
	u32 counted_weight;  /* its part of the weight_sum of its clock */
	u32 boost_factor;    /* by which its weight is multiplied, in 1/1024 */
};

struct cgroup_task {
	u32 idx;	    /* of its cgroup, in the array of these */
	u32 counted_weight; /* 0: it is not runnable */
	u32 load;	    /* of its weight, what one CPU can serve */
	u32 counted_load;   /* its part of the load of its domain */
	u32 is_idle;	    /* its cgroup, or one above, has cpu.idle */
};

struct queue_task {
	u64 dsq_id; /* the queue that it is counted in; 0: none */
	u32 group;  /* and its group there, see policy/wait_age.h */
};

struct slice_task {
	u64 granted_ns;	  /* slice of the present turn */
	u64 used_ns;	  /* used of it, in runs that were preempted */
	u32 turn_is_over; /* 1: it queues anew, by its vtime */
};

struct account_task {
	u64 run_started_at; /* when its present run began */
	u64 runnable_at;    /* when it began to wait; 0 once it runs */
	u64 last_wait_ns;   /* from runnable to running, last time */
	u64 charged_ns;	    /* of p->se.sum_exec_runtime */
	u32 run_is_charged; /* 1: ops.dispatch() charged its run */
	s32 last_cpu;	    /* where it ran last; -1 if never */
};

struct rescue_task {
	u64 run_ns; /* what a rescue gives it, until that run ends; else 0 */
};

/* The averages are those of policy/classify.h. */
struct classify_task {
	u64 woke_at;  /* last wakeup; 0 until the first */
	u64 slept_at; /* last voluntary sleep; 0 until the first */
	u64 burst_ns; /* CPU time since the last wakeup */
	u64 avg_runtime_ns;
	u64 runtime_dev_ns;
	u64 wake_interval_ns;
	u64 switch_interval_ns;
	u64 avg_sleep_ns;   /* until an interrupt led to its wakeup */
	u64 chain_began_at; /* that interrupt; 0: before we knew the task */
	u64 score;
	u32 age;	    /* wakeups seen, up to AGE_MATURE */
	u32 tier;	    /* what it has shown itself to be */
	u32 served_tier;    /* what it may claim now; not above tier */
	u32 is_admitted;    /* a new task that was let through the gate */
	u32 is_waking;	    /* 1 between a wakeup and the run it causes */
	u32 woken_by_batch; /* 1: batch work woke it and goes on */
};

struct hint_task {
	u64 checked_at;	 /* when the name of its process was looked at */
	u32 tier_floor;	 /* of a compositor: its tier does not fall below */
	u64 reported_at; /* when the loader was told to look at it */
	u64 program;	 /* see struct memory_key; 0: none, a kernel thread */
	struct hint known;
};

struct task_ctx {
	struct share_task share;
	struct cgroup_task cgroup;
	struct queue_task queue;
	struct slice_task slice;
	struct account_task account;
	struct rescue_task rescue;
	struct classify_task classify;
	struct hint_task hint;
};

/* CPUs that have something in common. */
struct span_ctx {
	struct bpf_cpumask __kptr *cpus;
};

struct topo_llc {
	u32 idx;
	u32 nr_cpus;	   /* that are online: what can run at a time */
	u32 nr_scale_cpus; /* what bounds of a decision grow with */
	u32 first_cpu;	   /* where the ring of its CPUs begins */
	u32 nr_parts;	   /* how many there are, online or not */
	u32 cache_idx;	   /* of its last-level cache */
	struct bpf_cpumask __kptr *cpus;      /* those below that cache */
	struct bpf_cpumask __kptr *node_cpus; /* those of its NUMA node */
};

struct preempt_llc {
	struct bpf_cpumask __kptr *batch_cpus; /* run an offered batch task */
	struct bpf_cpumask __kptr *interactive_cpus; /* an interactive one */
};

/* A window is that of policy/boost.h. */
struct boost_llc {
	u64 window_at; /* when the present one began */
	u64 batch_ns;  /* struct share_cpu of all its CPUs then */
	u64 other_ns;
	u32 scale; /* how much of each factor counts */
};

struct share_llc {
	struct vtime_clock clock;  /* average vtime of its runnable tasks */
	struct bpf_spin_lock lock; /* held by writers of the clock */
	struct boost_llc boost OWN_CACHE_LINE;
};

struct cgroup_llc {
	s64 runnable_weight; /* of all runnable tasks, by their nice levels */
	s64 root_sum;	     /* of those in the root cgroup */
	s64 load;	/* of all, by their cgroups; with several domains */
	s64 other_load; /* of all other domains, when it was read */
	u64 other_load_read_at;
};

struct queue_llc {
	u64 nr_inserts;	   /* tasks ever queued here; not those of own queues */
	u64 nr_restricted; /* of these, those that not all CPUs may run */
	struct waiters interactive;
	struct waiters batch;
};

struct classify_llc {
	u64 gate_full_at; /* see policy/gate.h */
	u64 nr_enqueues;
	struct surge surge;
};

struct dispatch_llc {
	u32 deficit; /* see policy/deficit.h */
};

struct steal_llc {
	u64 counted_at; /* when @behind was added to */
	u64 behind;	/* load times ns that a CPU had less than elsewhere */
	u64 held_counted_at; /* when @nr_held was counted */
	u32 nr_held;	     /* CPUs that another class has had for long */
};

/* All CPUs of a domain write to all but the first two members. */
struct llc_ctx {
	struct topo_llc topo;
	struct preempt_llc preempt;
	struct share_llc share OWN_CACHE_LINE;
	struct cgroup_llc cgroup OWN_CACHE_LINE;
	struct queue_llc queue OWN_CACHE_LINE;
	struct classify_llc classify OWN_CACHE_LINE;
	struct dispatch_llc dispatch OWN_CACHE_LINE;
	struct steal_llc steal;
};

_Static_assert(__builtin_offsetof(struct llc_ctx, share) % CACHE_LINE_SIZE == 0,
	       "what is written begins behind what is only read");
_Static_assert(__builtin_offsetof(struct share_llc, boost) == CACHE_LINE_SIZE,
	       "the clock and its lock fit one cache line");
_Static_assert(sizeof(struct llc_ctx) % CACHE_LINE_SIZE == 0,
	       "the next domain begins a cache line of its own");

extern const volatile u32 nr_cpu_ids;
extern const volatile u32 nr_llcs;   /* number of LLC domains */
extern const volatile u32 nr_caches; /* and of last-level caches */
extern const volatile u32 nr_comm_patterns;
extern const volatile u32 nr_l2s;	    /* number of L2 domains */
extern const volatile bool has_smt;	    /* cores have several CPUs */
extern const volatile bool has_wide_l2;	    /* L2 domains several cores */
extern const volatile bool has_small_cores; /* cores differ in size */
extern const volatile bool has_cpu_release; /* ops.cpu_release() is called */
extern const volatile bool has_cpufreq;	    /* a driver sets frequencies */
extern const volatile bool has_memory;	    /* programs are remembered */
extern struct knobs knobs;

/*
 * Return whether it matters which idle CPU a task gets. The verifier drops what
 * stands behind this on a machine where it does not.
 */
static __always_inline bool has_idle_choice(void)
{
	return has_wide_l2 || has_small_cores || nr_caches > 1;
}

/* Return the context of @p, or NULL if the task has none (yet). */
struct task_ctx *try_lookup_task(struct task_struct *p);

/* Create the context of @p. Return NULL if there is no memory for it. */
struct task_ctx *context_create_task(struct task_struct *p);

/* Return the context of @cpu; NULL, with the scheduler stopped, if none. */
struct cpu_ctx *lookup_cpu(s32 cpu);

/* Return the context of a domain; NULL, with the scheduler stopped, if none. */
struct llc_ctx *lookup_llc(u32 llc_idx);

/*
 * Return the CPUs of an L2 domain; NULL, with the scheduler stopped, if none.
 */
struct span_ctx *lookup_l2(u32 l2_idx);

/* Return the topology entry of @cpu, or NULL if @cpu is out of range. */
const struct cpu_topo *try_lookup_cpu_topo(s32 cpu);

/* Return the topology entry of a domain, or NULL if it is out of range. */
const struct llc_topo *try_lookup_llc_topo(u32 llc_idx);

/*
 * Return whether the kernel dispatches on this CPU by itself, in one order for
 * all tasks: it enables or disables the scheduler, or suspends the machine.
 * Kernels that do not show it in struct rq always give false.
 */
bool is_cpu_bypassed(void);

/*
 * Return whether @p may use @cpu. Seen by the verifier once, not at each call:
 * to Linux 6.18, it goes through all types of the kernel whenever it walks a
 * read of a pointer of a task.
 */
bool may_run_on(struct task_struct *p, s32 cpu);

#endif /* __CONTEXT_BPF_H */
