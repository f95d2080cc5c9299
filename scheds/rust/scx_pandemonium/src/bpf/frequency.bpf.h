/* SPDX-License-Identifier: GPL-2.0 */
/*
 * frequency: how fast does a CPU have to be?
 *
 * The kernel's schedutil governor makes each CPU as fast as the scheduler asks;
 * no other governor listens. Each CPU notes for how long our tasks ran on it,
 * and asks for as much as it was used of late, see policy/frequency.h. A window
 * of that ends with a switch or a tick, whichever comes when it is long enough.
 * A CPU that is idle has neither: a timer looks at all CPUs every
 * FREQUENCY_FALL_NS, as long as one of them asks for anything.
 *
 * Until a CPU asks for something the kernel gives it all there is, and so it
 * does when the next scheduler begins. What was asked for counts no more once
 * no scheduler runs.
 *
 * Limits:
 *   - Without ticks (nohz_full) a task that runs alone counts once it stops.
 *   - Real-time work, deadlines and interrupts are not ours to count; the
 *     governor adds them.
 *
 * Not here: the arithmetic (policy/frequency.h), what governor there is (the
 * loader).
 */
#ifndef __FREQUENCY_BPF_H
#define __FREQUENCY_BPF_H

#include "context.bpf.h"

/* Begin to look at CPUs that are idle. Return 0 or a negative error. */
s32 frequency_init(void);

/* A task of ours begins to run on the CPU of @cpuc at @now. */
void frequency_running(struct cpu_ctx *cpuc, u64 now);

/* One ran there until @now, and may go on. */
void frequency_ran(struct cpu_ctx *cpuc, u64 now);

#endif /* __FREQUENCY_BPF_H */
