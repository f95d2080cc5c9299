/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cgroup: which cgroups are there, and how much do they weigh? See
 * cgroup.bpf.h.
 */
#include "cgroup.bpf.h"
#include "group.bpf.h"
#include "policy/weight.h"

/* What is kept with a cgroup. */
struct group_ref {
	u32 idx;
	u32 is_own; /* 0: the index is that of its parent */
};

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

/* What the cpu controller has for a cgroup, as an address; 0 if it is gone. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, u64);
} task_groups SEC(".maps");

/* The highest index that was ever given out. */
static u32 last_group;

/* Return the index of @cgrp. */
static u32 group_idx(struct cgroup *cgrp)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);

	return ref ? ref->idx : GROUP_ROOT;
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

/* Return what the cpu controller has for @cgrp, as an address; 0 if nothing. */
static u64 task_group_of(struct cgroup *cgrp)
{
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return 0;
	/* The css of the controller is the first member of its task_group. */
	return (u64)BPF_CORE_READ(
		cgrp, subsys[bpf_core_enum_value(enum cgroup_subsys_id,
						 cpu_cgrp_id)]);
}

/* Return whether cpu.idle of the cgroup of the task_group at @address is 1. */
static bool is_idle_group(u64 address)
{
	struct task_group *tg = (void *)address;

	return tg && bpf_core_field_exists(tg->idle) &&
	       BPF_CORE_READ(tg, idle) == 1;
}

/*
 * Return the weight of the cgroup of the task_group at @address, which the
 * kernel's own scheduler goes by: that of cpu.idle, or of the last cpu.weight
 * after it. In units of ours.
 */
static u32 shares_of(u64 address)
{
	struct task_group *tg = (void *)address;

	return weight_clamp(BPF_CORE_READ(tg, shares));
}

/* Set what the cpu controller has for the cgroup of @idx. */
static void set_task_group(u32 idx, u64 task_group)
{
	bpf_map_update_elem(&task_groups, &idx, &task_group, 0);
}

__hidden s32 cgroup_init(struct cgroup *cgrp, u32 cpu_weight)
{
	u32 parent = parent_idx(cgrp), idx = GROUP_ROOT;
	u64 task_group = task_group_of(cgrp);
	bool is_idle = is_idle_group(task_group);
	struct group_ref *ref;

	ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0,
				   BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ref)
		return -ENOMEM;
	ref->idx = parent;
	ref->is_own = 0;
	if (cgrp->level <= 0)
		return 0;
	if (group_depth(parent) + 1 < GROUP_DEPTH_MAX)
		idx = take_index();
	if (idx == GROUP_ROOT)
		return 0;
	ref->idx = idx;
	ref->is_own = 1;
	group_place(idx, parent);
	/* A task that died in the last cgroup of this index may be left. */
	group_set_weight(idx,
			 is_idle ? WEIGHT_IDLE : weight_of_cgroup(cpu_weight),
			 is_idle);
	set_task_group(idx, task_group);
	return 0;
}

__hidden void cgroup_exit(struct cgroup *cgrp)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);
	u32 idx;

	if (!ref || !ref->is_own)
		return;
	idx = ref->idx;
	ref->is_own = 0;
	set_task_group(idx, 0);
	group_set_weight(idx, 0, false);
	bpf_map_push_elem(&free_groups, &idx, 0);
}

__hidden void cgroup_set_weight(struct cgroup *cgrp, u32 cpu_weight)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);

	/* The kernel refuses to write the weight of an idle one. */
	if (ref && ref->is_own)
		group_set_weight(ref->idx, weight_of_cgroup(cpu_weight), false);
}

/* Let the cgroup of @idx weigh what the kernel's own scheduler goes by. */
static void take_shares(u32 idx)
{
	u64 *task_group = bpf_map_lookup_elem(&task_groups, &idx);
	struct task_group *tg = NULL;
	u32 weight;

	if (!task_group || !*task_group || !bpf_core_field_exists(tg->shares))
		return;
	weight = shares_of(*task_group);
	if (weight != group_own_weight(idx))
		group_set_weight(idx, weight, weight <= WEIGHT_IDLE);
}

__hidden void cgroup_set_idle(struct cgroup *cgrp)
{
	struct group_ref *ref = bpf_cgrp_storage_get(&group_refs, cgrp, 0, 0);

	if (ref && ref->is_own)
		take_shares(ref->idx);
}

/*
 * Look whether cpu.idle of any cgroup was written. The loader asks every two
 * seconds: ops.cgroup_set_idle() is of 6.19, and a trampoline on the function
 * of before takes a grace period of tasks to remove, long under load. Nor does
 * ops.cgroup_set_weight() tell of a weight that is as before it was idle.
 */
SEC("syscall")
int cgroup_look_for_idle(void *unused)
{
	u32 i;

	bpf_for(i, 1, READ_ONCE(last_group) + 1)
		take_shares(i);
	return 0;
}

__hidden void cgroup_init_task(struct task_ctx *taskc, struct cgroup *cgrp)
{
	group_init_task(taskc, group_idx(cgrp));
}

__hidden void cgroup_move_task(struct task_struct *p, struct cgroup *cgrp)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc = taskc ? lookup_llc(taskc->share.llc_idx) : NULL;

	if (llcc)
		group_move_task(taskc, llcc, group_idx(cgrp));
}
