/* SPDX-License-Identifier: GPL-2.0 */
/* group: what does its cgroup entitle a task to? See group.bpf.h. */
#include "group.bpf.h"
#include "policy/hierarchy.h"

/* A cgroup of index 1 and above; the root has neither parent nor weight. */
struct group {
	u32 parent;
	u32 weight;  /* 0: there is no such cgroup */
	u32 depth;   /* 1 below the root */
	u32 is_idle; /* its cpu.idle is 1 */
};

/* A cgroup in one LLC domain; the sum of the root is in struct group_llc. */
struct group_sum {
	s64 sum; /* weights of what is runnable in it */
	struct bpf_spin_lock lock;
	u32 counted_weight; /* its part of the sum of its parent */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, struct group);
} groups SEC(".maps");

/* MAX_GROUPS entries for each domain; the loader sets their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, struct group_sum);
} group_sums SEC(".maps");

static struct group *lookup_group(u32 idx)
{
	return bpf_map_lookup_elem(&groups, &idx);
}

static struct group_sum *lookup_sum(u32 idx, u32 llc_idx)
{
	u32 key = llc_idx * MAX_GROUPS + idx;

	return bpf_map_lookup_elem(&group_sums, &key);
}

/* Return the sum of group @idx in @llcc, or NULL. */
static s64 *lookup_sum_in(u32 idx, struct llc_ctx *llcc)
{
	struct group_sum *own;

	if (idx == GROUP_ROOT)
		return &llcc->group.root_sum;
	own = lookup_sum(idx, llcc->topo.idx);
	return own ? &own->sum : NULL;
}

/* Add @delta to @sum; return whether it came from zero or got there. */
static bool add_to_sum(s64 *sum, s64 delta)
{
	s64 old = __sync_fetch_and_add(sum, delta);

	return !old != !(old + delta);
}

/*
 * Let the parent of group @idx count it in domain @llc_idx as it is by now,
 * and so on upwards as far as anything changes.
 *
 * It is called after each change of what it looks at, so the last of several
 * callers sees what all of them did.
 *
 * Not static, so that the verifier walks it once and not at each call.
 */
__noinline int group_update_parents(u32 idx, u32 llc_idx)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	struct group_sum *own;
	struct group *group;
	s64 delta, *parent_sum;
	u32 i, weight;

	if (!llcc)
		return -ENOENT;
	bpf_for(i, 0, GROUP_DEPTH_MAX) {
		if (idx == GROUP_ROOT)
			break;
		group = lookup_group(idx);
		own = lookup_sum(idx, llc_idx);
		if (!group || !own)
			break;
		parent_sum = lookup_sum_in(group->parent, llcc);
		if (!parent_sum)
			break;

		bpf_spin_lock(&own->lock);
		weight = own->sum ? group->weight : 0;
		delta = (s64)weight - own->counted_weight;
		own->counted_weight = weight;
		bpf_spin_unlock(&own->lock);

		if (!delta || !add_to_sum(parent_sum, delta))
			break;
		idx = group->parent;
	}
	return 0;
}

/* The same in all domains. */
static void update_parents_everywhere(u32 idx)
{
	u32 i;

	bpf_for(i, 0, nr_llcs)
		group_update_parents(idx, i);
}

__hidden u32 group_depth(u32 idx)
{
	struct group *group = lookup_group(idx);

	return group ? group->depth : 0;
}

__hidden u32 group_own_weight(u32 idx)
{
	struct group *group = lookup_group(idx);

	return group ? group->weight : 0;
}

__hidden void group_place(u32 idx, u32 parent)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	group->parent = parent;
	group->depth = group_depth(parent) + 1;
}

__hidden void group_set_weight(u32 idx, u32 weight, bool is_idle)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	group->is_idle = is_idle;
	WRITE_ONCE(group->weight, weight);
	update_parents_everywhere(idx);
}

__hidden void group_init_task(struct task_ctx *taskc, u32 idx)
{
	taskc->group.idx = idx;
}

__hidden void group_join(struct task_ctx *taskc, struct llc_ctx *llcc,
			 u32 weight)
{
	s64 delta = (s64)weight - taskc->group.counted_weight;
	u32 idx = taskc->group.idx;
	s64 *sum;

	if (!delta)
		return;
	sum = lookup_sum_in(idx, llcc);
	if (!sum)
		return;
	taskc->group.counted_weight = weight;
	__sync_fetch_and_add(&llcc->group.runnable_weight, delta);
	if (idx == GROUP_ROOT)
		__sync_fetch_and_add(sum, delta);
	else if (add_to_sum(sum, delta))
		group_update_parents(idx, llcc->topo.idx);
}

__hidden void group_leave(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	group_join(taskc, llcc, 0);
}

__hidden void group_move_task(struct task_ctx *taskc, struct llc_ctx *llcc,
			      u32 idx)
{
	u32 weight = taskc->group.counted_weight;

	group_leave(taskc, llcc);
	taskc->group.idx = idx;
	group_join(taskc, llcc, weight);
}

/* What group_weigh() returns beside the weight: all in the group is idle. */
#define GROUP_WEIGH_IDLE (1ULL << 32)

/*
 * Return the weight of a task in group @idx of domain @llc_idx, from its own,
 * @weight, level by level. A group that is idle makes all in it idle.
 *
 * Not static, as group_update_parents().
 */
__noinline u64 group_weigh(u32 idx, u32 llc_idx, u32 weight)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);
	u64 part = part_whole(), idle = 0;
	u32 i, own = weight;
	struct group *group;
	s64 *sum;

	if (!llcc)
		return weight;
	bpf_for(i, 0, GROUP_DEPTH_MAX + 1) {
		sum = lookup_sum_in(idx, llcc);
		if (!sum)
			break;
		part = part_of(part, own, READ_ONCE(*sum));
		if (idx == GROUP_ROOT)
			break;
		group = lookup_group(idx);
		if (!group)
			break;
		own = group->weight;
		if (group->is_idle)
			idle = GROUP_WEIGH_IDLE;
		idx = group->parent;
	}
	return part_weight(part, READ_ONCE(llcc->group.runnable_weight)) | idle;
}

__hidden u32 group_weight(struct task_ctx *taskc, struct llc_ctx *llcc,
			  u32 weight)
{
	u64 weighed;

	/* All that is runnable is in the root. */
	if (taskc->group.idx == GROUP_ROOT &&
	    READ_ONCE(llcc->group.root_sum) ==
		    READ_ONCE(llcc->group.runnable_weight)) {
		taskc->group.is_idle = 0;
		return weight;
	}
	weighed = group_weigh(taskc->group.idx, llcc->topo.idx, weight);
	taskc->group.is_idle = !!(weighed & GROUP_WEIGH_IDLE);
	return weighed;
}
