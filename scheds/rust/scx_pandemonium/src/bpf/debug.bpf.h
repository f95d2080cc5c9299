/* SPDX-License-Identifier: GPL-2.0 */
/*
 * debug: what does the scheduler think of tasks, and of its state?
 *
 * The dump is asked for by the kernel when the scheduler is thrown out for an
 * error or a stall, or when a user asks with SysRq-D. It has, in the kernel's
 * own report, each queue's depth, what each CPU runs, and of each waiting task
 * its tier, age, owed time and wait. The lists of tasks are iterators that the
 * loader reads.
 *
 * Not here: what the values mean (classify), how tasks are shown (tasks.rs),
 * what is learned of them (src/procdb/).
 */
#ifndef __DEBUG_BPF_H
#define __DEBUG_BPF_H

#include "context.bpf.h"

/* ops.dump(): knobs and the queues of all domains. */
void debug_dump(void);

/* ops.dump_cpu(): @cpu, unless it has nothing to say. */
void debug_dump_cpu(s32 cpu, bool is_idle);

/* ops.dump_task(). */
void debug_dump_task(struct task_struct *p);

#endif /* __DEBUG_BPF_H */
