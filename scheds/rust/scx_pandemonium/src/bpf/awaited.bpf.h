/* SPDX-License-Identifier: GPL-2.0 */
/*
 * awaited: do others wait for what a task does?
 *
 * Then it must not wait behind all batch work there is:
 *
 *   - a kernel thread;
 *   - a task that was preempted in an RCU reader, for which each grace period
 *     waits, and after 20 s of that the kernel throws the scheduler out;
 *   - one that ends, or was killed: its memory, its parent.
 *
 * It gets no more than its share for that, and is not ahead of others by rank:
 * it waits among few (queue) and is looked for there (rescue).
 *
 * Not here: locks that a task holds, which the kernel does not show.
 */
#ifndef __AWAITED_BPF_H
#define __AWAITED_BPF_H

#include "context.bpf.h"

/* Return whether others wait for what @p does. */
bool awaited_by_others(struct task_struct *p);

#endif /* __AWAITED_BPF_H */
