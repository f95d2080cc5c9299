/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compositor: is this task part of the program that draws the screen?
 *
 * Compares the name of a task's process, which is that of its main thread, with
 * the patterns that the loader wrote, and sets the tier that the task does not
 * fall below.
 *
 * Any program can take such a name. The floor therefore raises only what a task
 * has shown itself to be; the tier in which it is served still falls to batch
 * while it is ahead of its share, is niced down or is too young.
 *
 * Not here: the rules (policy/compositor.h).
 */
#ifndef __COMPOSITOR_BPF_H
#define __COMPOSITOR_BPF_H

#include "context.bpf.h"

/* @p woke up at @now: look at its name if that is due. */
void compositor_check(struct task_struct *p, struct task_ctx *taskc, u64 now);

#endif /* __COMPOSITOR_BPF_H */
