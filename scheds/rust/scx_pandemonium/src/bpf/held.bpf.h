/* SPDX-License-Identifier: GPL-2.0 */
/*
 * held: which CPUs does another class hold?
 *
 * Real-time and deadline tasks go before ours. No callback says on every kernel
 * that they have a CPU, nor for how long. But a CPU on which none of our tasks
 * runs is idle or held, and ops.update_idle() says which. After a while a held
 * CPU counts for nothing: a task that waits for it has waited too long. Shorter
 * holds are left alone, else tasks would move for each moment of audio.
 *
 * Not here: what becomes of the tasks (steal, rescue), which CPUs are online
 * (topo).
 */
#ifndef __HELD_BPF_H
#define __HELD_BPF_H

#include "context.bpf.h"

/*
 * Return how many CPUs of domain @llc_idx serve our tasks, or would if there
 * were any, at @now or a few ms before.
 */
u32 held_nr_serving(u32 llc_idx, u64 now);

#endif /* __HELD_BPF_H */
