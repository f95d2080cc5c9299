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

/*
 * ops.cpu_release(): a higher scheduling class took @cpu for as long as it
 * likes. What waits in its local DSQ is enqueued again.
 */
void held_cpu_release(s32 cpu);

/*
 * @p, which remains runnable, stops on the CPU of @cpuc. If it has slice left,
 * a higher class took the CPU: the same follows, on kernels since Linux 6.19,
 * which let it follow from here and warn of ops.cpu_release().
 */
void held_stopping(const struct task_struct *p, struct cpu_ctx *cpuc,
		   struct llc_ctx *llcc);

#endif /* __HELD_BPF_H */
