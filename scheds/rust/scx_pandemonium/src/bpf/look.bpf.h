/* SPDX-License-Identifier: GPL-2.0 */
/*
 * look: is a long queue worth another look?
 *
 * To take the first task that a CPU may run the kernel goes through all before
 * it, and holds the lock of the queue meanwhile. With a thousand tasks there
 * that keep to other CPUs, each CPU that goes idle would do that, in vain. So a
 * CPU that found none of many leaves the queue alone for a while.
 *
 * It looks at once if a task came since that all CPUs may run. One that only
 * some may run, this one among them, may wait until the pause is over; but if
 * the CPU was idle as it came, the CPU is told to look.
 *
 * Not here: what is in a queue (queue), when a CPU looks (dispatch, steal).
 */
#ifndef __LOOK_BPF_H
#define __LOOK_BPF_H

#include "context.bpf.h"

/*
 * Move the first task of @dsq_id, a queue of a domain, that this CPU, @cpu, may
 * run to its local DSQ. Return false if there is none, or was none just before.
 * Seen by the verifier once, not at each call.
 */
bool look_take(s32 cpu, u64 dsq_id);

/* A task came that @cpu, which is idle, may run. */
void look_forget(s32 cpu);

#endif /* __LOOK_BPF_H */
