/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compositor: is this task part of the program that draws the screen? See
 * compositor.bpf.h.
 */
#include "compositor.bpf.h"
#include "classify.bpf.h"
#include "policy/compositor.h"

/* The loader sets the number of entries to that of the patterns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct comm_pattern);
} comm_patterns SEC(".maps");

/* Return whether a name, as the words @head and @tail, is a compositor's. */
static bool is_compositor(u64 head, u64 tail)
{
	struct comm_pattern *pattern;
	u32 i, key;

	bpf_for(i, 0, nr_comm_patterns) {
		key = i;
		pattern = bpf_map_lookup_elem(&comm_patterns, &key);
		if (!pattern)
			break;
		if (compositor_matches(pattern, head, tail))
			return true;
	}
	return false;
}

__hidden void compositor_check(struct task_struct *p, struct task_ctx *taskc,
			       u64 now)
{
	struct task_struct *leader = p->group_leader;
	u64 comm[COMM_LEN / sizeof(u64)] = {};

	if (!compositor_is_due(taskc->classify.age,
			       now - taskc->compositor.checked_at))
		return;
	taskc->compositor.checked_at = now;
	/* A name that changes meanwhile is seen right the next time. */
	__builtin_memcpy(comm, leader->comm, COMM_LEN);
	if (!is_compositor(comm[0], comm[1])) {
		/* The tier itself is renewed with the next sleep. */
		taskc->compositor.tier_floor = TIER_BATCH;
		return;
	}
	taskc->compositor.tier_floor = compositor_floor(p == leader);
	classify_raise_tier(taskc);
}
