/* SPDX-License-Identifier: GPL-2.0 */
/* stats: what happened, and how long did tasks wait? See stats.bpf.h. */
#include "stats.bpf.h"
#include "policy/hist.h"

__hidden void stats_wakeup_latency(struct cpu_ctx *cpuc, u32 tier, u64 wait_ns)
{
	u32 idx = tier * NR_HIST_BUCKETS + hist_bucket(wait_ns);

	/* It is in range; the verifier wants to see it. */
	if (idx < NR_TIERS * NR_HIST_BUCKETS)
		cpuc->stats.wake_lat[idx]++;
}

__hidden void stats_sleep(struct cpu_ctx *cpuc, u64 sleep_ns)
{
	u32 bucket = hist_sleep_bucket(sleep_ns);

	if (bucket < NR_SLEEP_BUCKETS)
		cpuc->stats.sleeps[bucket]++;
}

__hidden void stats_wait(struct cpu_ctx *cpuc, u64 wait_ns)
{
	if (wait_ns > cpuc->stats.max_wait_ns)
		cpuc->stats.max_wait_ns = wait_ns;
}

__hidden void stats_l2(struct cpu_ctx *cpuc, u32 tier, bool is_hit)
{
	/* It is in range; the verifier wants to see it. */
	if (tier >= NR_TIERS)
		return;
	if (is_hit)
		cpuc->stats.l2_hits[tier]++;
	else
		cpuc->stats.l2_misses[tier]++;
}
