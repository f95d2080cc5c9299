/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hint: what is known of a program before it has shown it?
 *
 * Each task keeps a hint, so that a decision reads a member of its context and
 * nothing else. That of a rule is the same for all threads of a process:
 *
 *   fork	a new thread or process has the hint of the task that made it
 *   exec	another program: nothing is known of it, and the loader is told
 *   rename, move	the loader is told, since that may say more of a program
 *   the loader	looks at the process and writes the hint of all its threads
 *
 * A memory is of the threads of one name in a program, of one user. To ask the
 * loader would take longer than a first run, so all memories are in a map here:
 *
 *   exec, rename	what is remembered of the thread of this name
 *   fork	that of the task that made it, if it is batch work: a child
 *		with no name of its own yet must not pass the gate by that
 *   attach	what is remembered of each task that there is
 *   the loader	numbers scripts and games under Wine, which share the file of
 *		what runs them
 *
 * A thread that is made while the threads of its process are walked may miss
 * the hint; the loader looks at a new program twice.
 *
 * The programs that follow this are loaded only if there are rules or a memory.
 * What they tell goes through a ring buffer. If that is full the loader looks
 * at all processes.
 *
 * Names of compositors are known without rules.
 *
 * Not here: what a hint does (policy/: hint.h, compositor.h; classify, share),
 * which programs are known (src/rules/, src/procdb/).
 */
#ifndef __HINT_BPF_H
#define __HINT_BPF_H

#include "context.bpf.h"

/* @p, that of @taskc, is new; @is_fork if the task that runs here made it. */
void hint_init_task(struct task_struct *p, struct task_ctx *taskc,
		    bool is_fork);

/* @p woke up at @now: look at its name if that is due. */
void hint_check_compositor(struct task_struct *p, struct task_ctx *taskc,
			   u64 now);

#endif /* __HINT_BPF_H */
