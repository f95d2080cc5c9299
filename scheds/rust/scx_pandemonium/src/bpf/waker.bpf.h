/* SPDX-License-Identifier: GPL-2.0 */
/*
 * waker: does a task or an interrupt wake a task?
 *
 * ops.select_cpu() runs on behalf of the current task even if an interrupt
 * woke, and only preempt_count tells the two apart. Its layout is not part of
 * any interface: Linux 7.3 moved the bits of hardirqs. So it is measured.
 *
 *   1. Before it attaches the scheduler, the loader attaches a program to the
 *	tracepoint of expiring hrtimers, which fires in a hardirq for a hard
 *	timer and in a softirq for a soft one.
 *   2. It lets timers of each kind expire, BPF timers being soft, while it
 *	sleeps and while it spins: the count also has how often preemption was
 *	disabled, which is more in the idle task than in user space.
 *   3. A bit that is set in all samples of one kind and in no other sample is
 *	the bit of that kind (src/waker.rs).
 *
 * If there is not exactly one for each, waker_irq_mask stays 0 and each wakeup
 * counts as that of an interrupt: no task hands its CPU over, and none of the
 * wakeups of a timer is taken for one of the task that it interrupted.
 *
 * Not here: what follows from it (place, handoff, classify).
 */
#ifndef __WAKER_BPF_H
#define __WAKER_BPF_H

#include "context.bpf.h"

/*
 * Return the context of the task that runs on this CPU, that of @cpuc, if that
 * is the waker: one of ours, not an interrupt, not in its exit. Else NULL.
 */
struct task_ctx *waker_ctx(const struct cpu_ctx *cpuc);

#endif /* __WAKER_BPF_H */
