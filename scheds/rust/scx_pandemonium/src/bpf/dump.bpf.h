/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dump: what does a report of a failure need to say?
 *
 * Called by the kernel when the scheduler is thrown out for an error or a
 * stall, or when a user asks with SysRq-D. Prints, in the kernel's own report,
 * each queue's depth, what each CPU runs, and of each waiting task its tier,
 * age, owed time and wait.
 */
#ifndef __DUMP_BPF_H
#define __DUMP_BPF_H

#include "context.bpf.h"

/* ops.dump(): knobs and the queues of all domains. */
void dump_all(void);

/* ops.dump_cpu(): @cpu, unless it has nothing to say. */
void dump_cpu(s32 cpu, bool is_idle);

/* ops.dump_task(). */
void dump_task(struct task_struct *p);

#endif /* __DUMP_BPF_H */
