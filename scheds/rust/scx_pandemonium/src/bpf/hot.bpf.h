/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hot: whose data is in the cache of a CPU?
 *
 * Any CPU of a domain serves its batch queue, so that no task waits behind one
 * busy CPU; but one that ran on a CPU last should go on there, as far as the
 * others can afford it. See policy/hot.h for what that means.
 *
 * Not here: when batch work is served at all (dispatch), where a task goes that
 * wakes (idle).
 */
#ifndef __HOT_BPF_H
#define __HOT_BPF_H

#include "context.bpf.h"

enum hot_room_consts {
	/* Tasks of a queue that a CPU looks at. */
	HOT_SCAN_MAX = 32,
};

/*
 * Return whether the task that has used up its slice on the CPU of @cpuc, where
 * we are, should go on, at @prev_rank: that is as good as the first of @dsq_id,
 * and each task there that is as good would come from another CPU.
 */
bool hot_keeps(struct cpu_ctx *cpuc, u64 dsq_id, u64 prev_rank);

/*
 * Move a task of @dsq_id, of the first @nr_max, to the local DSQ of @cpu, where
 * we are: of those whose rank is as good as that of the first, the best for the
 * CPU. Return false if there is none, or another CPU was faster.
 *
 * Seen by the verifier once, not at each call, and with any @nr_max.
 */
bool hot_move_to_local(s32 cpu, u64 dsq_id, u32 nr_max);

#endif /* __HOT_BPF_H */
