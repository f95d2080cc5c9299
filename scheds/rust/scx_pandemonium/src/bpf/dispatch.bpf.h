/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dispatch: what does a CPU run next?
 *
 * Called when the local DSQ of a CPU is empty and its task sleeps or has used
 * up its slice. Takes from the queues in the order given at the function.
 *
 * Not here: where tasks enter the queues (place), what a CPU that found nothing
 * may have missed (newidle).
 */
#ifndef __DISPATCH_BPF_H
#define __DISPATCH_BPF_H

#include "context.bpf.h"

/* ops.dispatch(). */
void dispatch_cpu(s32 cpu, struct task_struct *prev);

#endif /* __DISPATCH_BPF_H */
