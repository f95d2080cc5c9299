/* SPDX-License-Identifier: GPL-2.0 */
/* group: what does its cgroup entitle a task to? See group.bpf.h. */
#include "group.bpf.h"
#include "policy/hierarchy.h"

enum group_consts {
	/* Index of the root cgroup, and of what is taken for a part of it. */
	GROUP_ROOT = 0,
	GROUP_DEPTH_MAX = 16,
};

/* A cgroup of index 1 and above; the root has neither parent nor weight. */
struct group {
	u32 parent;
	u32 weight; /* 0: there is no such cgroup */
	u32 depth;  /* 1 below the root */
};

/* A cgroup in one LLC domain; the sum of the root is in struct group_llc. */
struct group_sum {
	s64 sum; /* weights of what is runnable in it */
	struct bpf_spin_lock lock;
	u32 counted_weight; /* its part of the sum of its parent */
};

/* What is kept with a cgroup. */
struct group_ref {
	u32 idx;
	u32 is_own; /* 0: the index is that of its parent */
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

/* Indices of cgroups that are gone. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_GROUPS);
	__type(value, u32);
} free_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct group_ref);
} group_refs SEC(".maps");

/* The highest index that was ever given out. */
static u32 last_group;

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

/* Return the index of @cgrp. */
static u32 group_idx(struct cgroup *cgrp)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);

	return ref ? ref->idx : GROUP_ROOT;
}

/* Add @delta to @sum; return whether it came from zero or got there. */
static bool add_to_sum(s64 *sum, s64 delta)
{
	s64 old = __sync_fetch_and_add(sum, delta);

	return !old != !(old + delta);
}

/*
 * Let the parent of group @idx count it in @llcc as it is by now, and so on
 * upwards as far as anything changes.
 *
 * It is called after each change of what it looks at, so the last of several
 * callers sees what all of them did.
 */
static void update_parents(u32 idx, struct llc_ctx *llcc)
{
	struct group_sum *own;
	struct group *group;
	s64 delta, *parent_sum;
	u32 i, weight;

	bpf_for(i, 0, GROUP_DEPTH_MAX) {
		if (idx == GROUP_ROOT)
			break;
		group = lookup_group(idx);
		own = lookup_sum(idx, llcc->topo.idx);
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
}

/* The same in all domains. */
static void update_parents_everywhere(u32 idx)
{
	struct llc_ctx *llcc;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		llcc = lookup_llc(i);
		if (!llcc)
			break;
		update_parents(idx, llcc);
	}
}

/* Return the index of the cgroup above @cgrp. */
static u32 parent_idx(struct cgroup *cgrp)
{
	struct cgroup *parent;
	u32 idx;

	if (cgrp->level <= 0)
		return GROUP_ROOT;
	parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (!parent)
		return GROUP_ROOT;
	idx = group_idx(parent);
	bpf_cgroup_release(parent);
	return idx;
}

/* Return an index that is free, or GROUP_ROOT. */
static u32 take_index(void)
{
	u32 idx;

	if (!bpf_map_pop_elem(&free_groups, &idx))
		return idx;
	if (READ_ONCE(last_group) >= MAX_GROUPS - 1)
		return GROUP_ROOT;
	idx = __sync_fetch_and_add(&last_group, 1) + 1;
	return idx < MAX_GROUPS ? idx : GROUP_ROOT;
}

__hidden s32 group_cgroup_init(struct cgroup *cgrp, u32 cpu_weight)
{
	u32 parent = parent_idx(cgrp), depth = 1, idx = GROUP_ROOT;
	struct group *group;
	struct group_ref *ref;

	ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0,
				   BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ref)
		return -ENOMEM;
	ref->idx = parent;
	ref->is_own = 0;
	if (cgrp->level <= 0)
		return 0;
	group = lookup_group(parent);
	if (group)
		depth = group->depth + 1;
	if (depth < GROUP_DEPTH_MAX)
		idx = take_index();
	group = lookup_group(idx);
	if (idx == GROUP_ROOT || !group)
		return 0;
	group->parent = parent;
	group->depth = depth;
	group->weight = weight_of_cgroup(cpu_weight);
	ref->idx = idx;
	ref->is_own = 1;
	/* A task that died in the last cgroup of this index may be left. */
	update_parents_everywhere(idx);
	return 0;
}

/* Give group @idx another weight; 0 if it goes away. */
static void set_weight(u32 idx, u32 weight)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	WRITE_ONCE(group->weight, weight);
	update_parents_everywhere(idx);
}

__hidden void group_cgroup_exit(struct cgroup *cgrp)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);
	u32 idx;

	if (!ref || !ref->is_own)
		return;
	idx = ref->idx;
	ref->is_own = 0;
	set_weight(idx, 0);
	bpf_map_push_elem(&free_groups, &idx, 0);
}

__hidden void group_cgroup_set_weight(struct cgroup *cgrp, u32 cpu_weight)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);

	if (ref && ref->is_own)
		set_weight(ref->idx, weight_of_cgroup(cpu_weight));
}

__hidden void group_init_task(struct task_ctx *taskc, struct cgroup *cgrp)
{
	taskc->group.idx = group_idx(cgrp);
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
		update_parents(idx, llcc);
}

__hidden void group_leave(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	group_join(taskc, llcc, 0);
}

__hidden void group_move_task(struct task_struct *p, struct cgroup *cgrp)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc = taskc ? lookup_llc(taskc->share.llc_idx) : NULL;
	u32 weight;

	if (!llcc)
		return;
	weight = taskc->group.counted_weight;
	group_leave(taskc, llcc);
	taskc->group.idx = group_idx(cgrp);
	group_join(taskc, llcc, weight);
}

/*
 * Return the weight of a task of @weight in group @idx of @llcc, level by
 * level.
 */
static u32 weight_in_hierarchy(u32 idx, struct llc_ctx *llcc, u32 weight)
{
	u64 part = part_whole();
	struct group *group;
	u32 i, own = weight;
	s64 *sum;

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
		idx = group->parent;
	}
	return part_weight(part, READ_ONCE(llcc->group.runnable_weight));
}

__hidden u32 group_weight(const struct task_ctx *taskc, struct llc_ctx *llcc,
			  u32 weight)
{
	u32 idx = taskc->group.idx;

	/* All that is runnable is in the root. */
	if (idx == GROUP_ROOT && READ_ONCE(llcc->group.root_sum) ==
					 READ_ONCE(llcc->group.runnable_weight))
		return weight;
	return weight_in_hierarchy(idx, llcc, weight);
}
