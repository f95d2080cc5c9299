/* SPDX-License-Identifier: GPL-2.0 */
/*
 * intf: what the BPF half and the Rust half agree on
 *
 * Constants, the layout of the maps that both sides touch, and the ids of
 * tiers and counters. bindgen turns this file into Rust, so that nothing is
 * mirrored by hand.
 *
 * Not here: anything only one side needs (context.bpf.h for BPF state).
 */
#ifndef __INTF_H
#define __INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
#endif

enum intf_consts {
	NSEC_PER_USEC = 1000,
	NSEC_PER_MSEC = 1000 * NSEC_PER_USEC,
	NSEC_PER_SEC = 1000 * NSEC_PER_MSEC,

	/* Latency histogram: eight buckets an octave, from 256 ns up. */
	HIST_SUB_SHIFT = 3,
	HIST_MIN_SHIFT = 8,
	NR_HIST_BUCKETS = 192,

	NR_SLEEP_BUCKETS = 4,

	/* LLC domains that one domain may rank as near or far. */
	MAX_NEIGHBOURS = 255,

	/* Cgroups that have a weight of their own at a time, and the root. */
	MAX_GROUPS = 8192,

	/* Bytes of a task's name, the final 0 included; the kernel's own. */
	COMM_LEN = 16,

	/* A factor of a hint that changes nothing. */
	HINT_FACTOR_ONE = 1024,

	/* Memories that a program's threads are looked up in. */
	MAX_MEMORIES = 1024,
	/* Bit of a program that the loader has numbered: a script, a game. */
	PROGRAM_NAMED_BIT = 63,

	/* Names of compositors; a look compares with each. */
	MAX_COMM_PATTERNS = 128,

	/* Bytes of a cache line on the machines that sched_ext runs on. */
	CACHE_LINE_SIZE = 64,
};

/* Begin a cache line: keeps what many CPUs write off what one reads often. */
#define OWN_CACHE_LINE __attribute__((aligned(CACHE_LINE_SIZE)))

/*
 * What a task has shown itself to be. A higher tier is served first and may
 * preempt a lower one.
 */
enum tier {
	TIER_BATCH = 0,
	TIER_INTERACTIVE = 1,
	TIER_LAT_CRITICAL = 2,
	NR_TIERS = 3,
};

/*
 * Counters, one set for each CPU.
 *
 * Every task that is made ready to run takes exactly one placement path, so
 * the sum of the PLACE_* counters is the number of insertions that the
 * scheduler made. Every task that a CPU takes from a queue is counted by one
 * of the SERVE_* counters.
 */
enum stat_id {
	/* Placement: where a ready task went. */
	STAT_PLACE_IDLE,	/* the local DSQ of an idle CPU */
	STAT_PLACE_HANDOFF,	/* the waker's local DSQ, the waker sleeps */
	STAT_PLACE_PREEMPT,	/* the local DSQ of a preempted CPU */
	STAT_PLACE_KTHREAD,	/* a per-CPU kernel thread, its local DSQ */
	STAT_PLACE_OWN,		/* a pinned task, its CPU's own queue */
	STAT_PLACE_INTERACTIVE, /* the interactive queue of a domain */
	STAT_PLACE_BATCH,	/* batch work, near the CPU where it was */

	/* Service: where a CPU found its next task in ops.dispatch(). */
	STAT_SERVE_OWN,
	STAT_SERVE_INTERACTIVE,
	STAT_SERVE_BATCH,
	STAT_SERVE_PULLED,   /* batch work that waited near another CPU */
	STAT_SERVE_STOLEN,   /* from another domain */
	STAT_SERVE_DEFICIT,  /* batch work, after enough of others */
	STAT_SERVE_RESCUED,  /* a task that waited too long */
	STAT_KEEP_RUNNING,   /* the running task got another slice */
	STAT_DISPATCH_EMPTY, /* nothing to run was found */

	/* Kicks. */
	STAT_KICK_IDLE,	  /* woke an idle CPU */
	STAT_SLICE_TIMER, /* a timer ended a slice between two ticks */

	/* Facts. */
	STAT_ENQ_WAKEUP,  /* enqueued because it woke up */
	STAT_ENQ_REQUEUE, /* enqueued for any other reason */
	STAT_ENQ_RETURN,  /* of these, since the CPU was taken from it */
	STAT_PREEMPTED,	  /* lost the CPU with slice left */
	STAT_MIGRATE,	  /* began to run on another CPU than before */
	STAT_MIGRATE_LLC, /* ... below another last-level cache */
	STAT_RT_RELEASE,  /* another class took the CPU */
	STAT_SURGE,	  /* a surge of enqueues began */
	STAT_CPUPERF_SET, /* a CPU asked for a performance */
	STAT_RECALL,	  /* a thread began as its program is remembered */
	STAT_CONFINED_NS, /* CPU time of confined tasks, in ns */

	NR_STAT_IDS,
};

/* How much it is worth to run a task near its last CPU; see idle.bpf.h. */
enum affinity_mode {
	AFFINITY_OFF = 0,
	AFFINITY_WEAK = 1,
	AFFINITY_STRONG = 2,
};

/*
 * Values that decide and that may change while the scheduler runs. All are
 * read at the next decision. Defaults are in main.bpf.c.
 */
struct knobs {
	/* The shortest slice, and one that ends because others wait. */
	u64 slice_min_ns;
	/* To what a slice falls while the latency target is in reach. */
	u64 turn_min_ns;
	/* The longest slice of an interactive or latency-critical task. */
	u64 slice_ns;
	/* The slice of a batch task while no other task waits. */
	u64 batch_slice_ns;
	/*
	 * Time within which each waiting task of a domain should get its turn.
	 */
	u64 latency_target_ns;
	/* A burst above this is work for the batch tier. */
	u64 cpu_bound_thresh_ns;
	/* How far a task may be behind its domain's clock, or ahead. */
	u64 lag_max_ns;
	/*
	 * A wait above this is too long for a task that had less than its
	 * share.
	 */
	u64 sojourn_thresh_ns;
	/* How far behind a sleeper of the batch tier or a new task may be. */
	u64 batch_lag_max_ns;
	/* Scores from which a task is latency critical, or interactive. */
	u64 lat_cri_thresh_high;
	u64 lat_cri_thresh_low;
	/*
	 * By what the weight of a task that sleeps is multiplied at most, and
	 * the part of the CPU time that batch work may have, in 1/1024.
	 */
	u64 boost_max;
	u64 batch_guarantee;
	/* One of enum affinity_mode. */
	u64 affinity_mode;
	/* 1 while a governor listens to what CPUs ask for. */
	u64 is_cpufreq_on;
	/* How many CPUs work keeps to; 0: any. See idle.bpf.h. */
	u64 nr_packed_cpus;
	/* How many CPUs confined tasks keep to; 0: any. */
	u64 nr_confined_cpus;
};

/* What the loader knows of a CPU; one entry for each possible CPU. */
struct cpu_topo {
	u32 is_known;  /* 1 if it was online when the topology was read */
	u32 llc_idx;   /* index of its LLC domain, from 0 */
	u32 cache_idx; /* index of its last-level cache, from 0 */
	u32 l2_idx;    /* index of its L2 domain, from 0 */
	u32 node_idx;  /* of its NUMA node */
	u32 is_big;    /* 1 unless its core is one of the small ones */
	u32 pack_rank; /* its place in the order of packing, from 0 */
	u32 sibling;   /* the next CPU of its core; itself if there is none */
	u32 next;      /* the same of its LLC domain */
};

/*
 * What the loader knows of an LLC domain: the CPUs below a last-level cache, or
 * a part of them where there are many.
 */
struct llc_topo {
	u32 nr_cpus;
	/* Those that bounds of a decision grow with: nr_cpus, or as told. */
	u32 nr_scale_cpus;
	u32 first_cpu; /* where the ring of its CPUs begins */
	u32 cache_idx; /* of its last-level cache */
	u32 node_idx;
	/* The other domains, nearest first. */
	u32 nr_neighbours;
	u32 neighbours[MAX_NEIGHBOURS];
};

/*
 * The tasks that wait in one queue, see policy/wait_age.h. Those that left it
 * for a local DSQ and do not run yet are still among them.
 */
struct waiters {
	u32 nr[2];	   /* by group */
	u32 generation;	   /* its lowest bit is the group that tasks join */
	u32 look_after_ns; /* see wait_age_is_deferred() */
	u64 closed_at;	   /* when the other group was closed */
};

/*
 * One CPU: what runs there and what was counted there, in one struct for each
 * room. A member has the name of its room, and only that room writes it.
 *
 * Others read it without a lock: a stale value costs one worse placement.
 */
struct topo_cpu {
	s32 cpu;
	u32 llc_idx;   /* its LLC domain */
	u32 cache_idx; /* its last-level cache */
	u32 l2_idx;    /* its L2 domain */
	u32 sibling;   /* the next CPU of its core */
	u32 next;      /* the next CPU of its LLC domain */
};

struct account_cpu {
	u64 run_started_at; /* when the running task began its run */
	u64 on_cpu_at;	    /* when that task got the CPU */
	u64 stopped_at;	    /* when a task of ours ran here last */
	u64 rank;	    /* its rank at run_started_at, policy/vtime.h */
	u64 burst_ns;	    /* how long its bursts are on average */
	u32 tier;	    /* tier in which it runs */
	u32 weight;	    /* its weight, policy/weight.h */
	u32 is_busy;	    /* 1 while a task of ours runs */
	u32 is_stopped;	    /* 1 if what ran last did not go to sleep */
};

/* CPU time that tasks used here so far, by tier. */
struct share_cpu {
	u64 batch_ns;
	u64 other_ns;
};

struct dispatch_cpu {
	u64 asked_at; /* when it was last asked what to run */
};

struct steal_cpu {
	u64 balance_at; /* when to look beyond the domain again */
};

struct place_cpu {
	u64 handed_at; /* first handoff since ops.dispatch() was asked */
};

struct rescue_cpu {
	u64 look_at;		 /* when to look for starved tasks again */
	u64 look_for_awaited_at; /* the same, for those that others wait for */
	u64 look_at_others_at;	 /* the same, in queues of other domains */
};

struct classify_cpu {
	u32 nr_enqueues; /* enqueues here, for the samples of policy/surge.h */
};

struct frequency_cpu {
	u64 window_at;	/* when the present window began */
	u64 busy_from;	/* when the present run began, or was counted last */
	u64 busy_ns;	/* busy time in the window, without what follows that */
	u32 util;	/* average, see policy/frequency.h */
	u32 target;	/* what it asked for last, of FREQUENCY_ONE */
	u32 nr_repeats; /* how often it is to ask for that again */
};

struct slice_cpu {
	u64 ends_at;	/* when the slice ends; 0: no task waits */
	u64 timer_at;	/* when the timer fires; 0: it rests */
	u32 is_offline; /* 1 while the CPU is offline, or goes there */
	u32 is_idle;	/* 1 while nothing runs at all */
};

struct preempt_cpu {
	u64 claim; /* who may take the CPU and who was given it: policy/claim.h */
};

struct queue_pause {
	u64 dsq_id;	/* the queue with nothing for this CPU; 0: none */
	u64 nr_inserts; /* nr_free_inserts() of its domain then */
	u64 until;	/* when it is worth a look again */
};

struct queue_cpu {
	struct waiters own; /* tasks in the CPU's own queue */
	u32 nr_near;	    /* and in the part of the batch queue near it */
	struct queue_pause pause;
};

struct stats_cpu {
	u64 nr[NR_STAT_IDS];
	/* Row after row, one for each tier. */
	u64 wake_lat[NR_TIERS * NR_HIST_BUCKETS];
	u64 sleeps[NR_SLEEP_BUCKETS];
	/*
	 * Wakeups by tier, but for the first of a task: run in the L2 domain
	 * where the task ran last, or in another. Counted where that is a
	 * matter of choice.
	 */
	u64 l2_hits[NR_TIERS];
	u64 l2_misses[NR_TIERS];
	u64 max_wait_ns; /* longest wait of a runnable task so far */
};

struct cpu_ctx {
	/* Written by the CPU itself at each switch. */
	struct topo_cpu topo;
	struct account_cpu account;
	struct share_cpu share;
	struct dispatch_cpu dispatch;
	struct steal_cpu steal;
	struct place_cpu place;
	struct rescue_cpu rescue;
	struct classify_cpu classify;
	struct frequency_cpu frequency;
	/* Written by other CPUs as well: a wakeup claims, bounds, counts. */
	struct slice_cpu slice OWN_CACHE_LINE;
	struct preempt_cpu preempt;
	struct queue_cpu queue;
	/* Counters, written by the CPU itself, read by the loader. */
	struct stats_cpu stats OWN_CACHE_LINE;
};

_Static_assert(__builtin_offsetof(struct cpu_ctx, slice) % CACHE_LINE_SIZE == 0,
	       "what other CPUs write begins a cache line");
_Static_assert(__builtin_offsetof(struct cpu_ctx, stats) % CACHE_LINE_SIZE == 0,
	       "and ends one");
_Static_assert(sizeof(struct cpu_ctx) % CACHE_LINE_SIZE == 0,
	       "the next CPU begins a cache line of its own");

/*
 * A name, or the beginning of one, in two words as memory holds them: what
 * remains of a task's name under @mask must be @value.
 */
struct comm_pattern {
	u64 value[COMM_LEN / 8];
	u64 mask[COMM_LEN / 8];
};

/* Who says what a program is. */
enum hint_source {
	HINT_NONE = 0,
	HINT_RULE = 1,
	HINT_MEMORY = 2, /* what it did before: until it has shown itself */
};

/* What is known of a program; see policy/hint.h. */
struct hint {
	u32 least_tier;	   /* its tier does not fall below */
	u32 greatest_tier; /* ... nor rise above; may not be less */
	u32 weight_factor; /* in 1/HINT_FACTOR_ONE */
	u32 source;	 /* one of enum hint_source; 0: the rest says nothing */
	u32 is_confined; /* it keeps to few CPUs, see idle.bpf.h */
	u32 ignores_nice;   /* niced down, it counts as of nice 0 */
	u64 avg_runtime_ns; /* it begins with this average; 0: unknown */
};

/* Which threads a memory is of; src/procdb/ says why these. */
struct memory_key {
	u64 program; /* inode of its file, or a number with a bit of its own */
	u32 uid;     /* the user who started it */
	u32 reserved;
	u8 comm[COMM_LEN]; /* of the thread */
};

/* What the loader asks hint_set_program() for. */
struct program_request {
	u64 program;
	s32 tgid;
	u32 reserved;
};

/* One thread that has shown what it is, for the memory of programs. */
struct learned_row {
	u64 program;
	u64 score;
	u64 avg_runtime_ns; /* between two sleeps, the open burst included */
	s32 tgid;
	u32 uid;
	u32 tier;
	u32 reserved;
	u8 comm[COMM_LEN];
};

/* What the loader asks hint_set() for. */
struct hint_request {
	struct hint hint;
	s32 tgid;
	u32 reserved;
};

/* Why a task is of its tier. */
enum tier_reason {
	REASON_BEHAVIOUR = 0, /* by what it does */
	REASON_MEMORY = 1,    /* by what its program did, as it is new */
	REASON_KERNEL = 2,    /* a kernel thread is of this at least */
	REASON_COMPOSITOR = 3,
	REASON_RULE = 4, /* a rule bounds it */
};

/* What keeps a task in batch whatever its tier is. */
enum held_by {
	HELD_BY_NOTHING = 0,
	HELD_BY_NICE = 1,	/* a nice level above 0 */
	HELD_BY_SCHED_IDLE = 2, /* its policy */
	HELD_BY_CGROUP = 3,	/* cpu.idle of its cgroup, or of one above */
};

/* One task as `scx_pandemonium tasks` shows it; see struct task_ctx. */
struct task_row {
	s32 pid;  /* of the thread */
	s32 tgid; /* of its process */
	u32 tier;
	u32 served_tier;
	u32 age;    /* wakeups seen, up to AGE_MATURE */
	u32 weight; /* p->scx.weight with the factor of a rule */
	u64 score;
	u64 avg_runtime_ns;
	u64 burst_ns; /* CPU time since its last wakeup */
	u64 wake_interval_ns;
	u64 slice_ns;	  /* granted for its last turn */
	u64 last_wait_ns; /* from ready to running, last time */
	u32 tier_floor;
	u32 tier_ceiling;
	u32 hint_source;
	u32 tier_reason;    /* one of enum tier_reason */
	u32 own_weight;	    /* beside others of its cgroup; WEIGHT_NICE_0 */
	u32 plain_weight;   /* what its cgroup makes of that */
	u32 charged_weight; /* what its sleep makes of that */
	u32 held_by;	    /* one of enum held_by */
	u8 comm[COMM_LEN];
};

#endif /* __INTF_H */
