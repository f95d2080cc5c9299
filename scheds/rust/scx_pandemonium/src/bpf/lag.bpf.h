/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lag: how far is a task from its fair share?
 *
 * Each LLC domain has a clock, the average vtime of its runnable tasks, as the
 * avg_vruntime of EEVDF. A task behind the clock is owed the distance, its lag.
 * One that becomes runnable behind it has credit, and is counted once it has
 * used that up, or if it is batch work, lost some of it to the bound.
 *
 * Not here: the arithmetic (policy/clock.h), the vtime of a task and its bounds
 * (share).
 */
#ifndef __LAG_BPF_H
#define __LAG_BPF_H

#include "context.bpf.h"

/*
 * Return the weight with which the task of @taskc counts beside what the clock
 * of @llcc does: no more than one CPU can serve.
 */
u32 lag_feasible_weight(const struct task_ctx *taskc,
			const struct llc_ctx *llcc);

/*
 * Return the vtime at which a task comes back to the clock of @llcc that left
 * it with @lag when that had @served.
 */
u64 lag_return(const struct llc_ctx *llcc, s64 lag, u64 served);

/* Let the clock of @llcc count the task of @taskc, which no clock counts. */
void lag_enter(struct task_ctx *taskc, struct llc_ctx *llcc);

/* Let the task of @taskc count nowhere. */
void lag_leave(struct task_ctx *taskc);

/* It becomes runnable in @llcc: the clock counts it if it has no credit. */
void lag_join(struct task_ctx *taskc, struct llc_ctx *llcc);

/*
 * It ran in @llcc, by which its vtime moved on by @step to @vtime, and was
 * brought within its bounds then. Unless it @stays runnable it counts no more.
 */
void lag_charge(struct task_ctx *taskc, struct llc_ctx *llcc, u64 step,
		u64 vtime, bool stays);

#endif /* __LAG_BPF_H */
