/* SPDX-License-Identifier: GPL-2.0 */
/* awaited: do others wait for what a task does? See awaited.bpf.h. */
#include "awaited.bpf.h"

#define SIGKILL 9

/* How many RCU readers a callback is itself: the least that was seen. */
static s32 rcu_level_of_callbacks = __INT_MAX__;

/*
 * Return whether @p was preempted in an RCU reader. A callback is one itself,
 * of the current task.
 */
static bool is_rcu_reader(struct task_struct *p)
{
	s32 level;

	if (!bpf_core_field_exists(p->rcu_read_lock_nesting))
		return false;
	level = p->rcu_read_lock_nesting;
	if (p->pid != bpf_get_current_task_btf()->pid)
		return level > 0;
	if (level < rcu_level_of_callbacks)
		rcu_level_of_callbacks = level;
	return level > rcu_level_of_callbacks;
}

__hidden bool awaited_by_others(struct task_struct *p)
{
	return (p->flags & (PF_KTHREAD | PF_EXITING)) ||
	       (p->pending.signal.sig[0] & (1ULL << (SIGKILL - 1))) ||
	       is_rcu_reader(p);
}
