/* SPDX-License-Identifier: GPL-2.0 */
/* See stats.bpf.h for the purpose. */
#include "stats.bpf.h"
#include "policy/hist.h"

__hidden void stats_wakeup_latency(struct cpu_ctx *cpuc, u32 tier, u64 wait_ns)
{
	u32 idx = tier * NR_HIST_BUCKETS + hist_bucket(wait_ns);

	/* It is in range; the verifier wants to see it. */
	if (idx < NR_TIERS * NR_HIST_BUCKETS)
		cpuc->wake_lat[idx]++;
}

__hidden void stats_sleep(struct cpu_ctx *cpuc, u64 sleep_ns)
{
	u32 bucket = hist_sleep_bucket(sleep_ns);

	if (bucket < NR_SLEEP_BUCKETS)
		cpuc->sleeps[bucket]++;
}
