/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stats: what happened, and how long did tasks wait?
 *
 * Counters and histograms live in the context of the CPU that counts, so that
 * no two CPUs write the same line; the loader adds them up.
 *
 * Not here: what a counter means (enum stat_id in intf.h).
 */
#ifndef __STATS_BPF_H
#define __STATS_BPF_H

#include "context.bpf.h"

/* Count one event of kind @id on the CPU of @cpuc. */
static __always_inline void stat_inc(struct cpu_ctx *cpuc, enum stat_id id)
{
	cpuc->stats.nr[id]++;
}

/* Add @amount to what is counted on the CPU of @cpuc as @id. */
static __always_inline void stat_add(struct cpu_ctx *cpuc, enum stat_id id,
				     u64 amount)
{
	cpuc->stats.nr[id] += amount;
}

/* Record a wait between wakeup and run of a task in @tier. */
void stats_wakeup_latency(struct cpu_ctx *cpuc, u32 tier, u64 wait_ns);

/* Record a voluntary sleep. */
void stats_sleep(struct cpu_ctx *cpuc, u64 sleep_ns);

/* Record a wait of a runnable task, whatever made it runnable. */
void stats_wait(struct cpu_ctx *cpuc, u64 wait_ns);

/*
 * A task in @tier that woke runs in the L2 domain where it ran last, if
 * @is_hit, or in another.
 */
void stats_l2(struct cpu_ctx *cpuc, u32 tier, bool is_hit);

#endif /* __STATS_BPF_H */
