/* SPDX-License-Identifier: GPL-2.0 */
/* group: what does its cgroup entitle a task to? See group.bpf.h. */
#include "group.bpf.h"
#include "topo.bpf.h"
#include "total.bpf.h"
#include "policy/hierarchy.h"

/* A cgroup; the root has neither parent nor weight. */
struct group {
	u32 parent;
	u32 weight;  /* 0: there is no such cgroup */
	u32 depth;   /* 1 below the root */
	u32 is_idle; /* its cpu.idle is 1 */

	s64 child_sum;	/* weights of its child cgroups that are runnable */
	s32 nr_domains; /* in which tasks of its own are runnable */
	struct bpf_spin_lock lock;
	u32 counted_weight; /* its part of the sum of its parent */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, struct group);
} groups SEC(".maps");

static struct group *lookup_group(u32 idx)
{
	return bpf_map_lookup_elem(&groups, &idx);
}

/* Return the weights of all that is runnable in @group, of index @idx. */
static s64 runnable_sum(u32 idx, const struct group *group)
{
	s64 sum = READ_ONCE(group->child_sum);

	if (idx != GROUP_ROOT && !READ_ONCE(group->nr_domains))
		return sum;
	return sum + total_of_all(idx);
}

/*
 * Let the parent of group @idx count it as it is by now, and so on upwards as
 * far as anything changes.
 *
 * It is called after each change of what it looks at, so the last of several
 * callers sees what all of them did.
 *
 * Not static, so that the verifier walks it once and not at each call.
 */
__noinline int group_update_parents(u32 idx)
{
	struct group *group, *parent;
	u32 i, weight, parent_idx;
	s64 delta;

	bpf_for(i, 0, GROUP_DEPTH_MAX) {
		if (idx == GROUP_ROOT)
			break;
		group = lookup_group(idx);
		if (!group)
			break;
		parent_idx = READ_ONCE(group->parent);
		parent = lookup_group(parent_idx);
		if (!parent)
			break;

		bpf_spin_lock(&group->lock);
		weight = group->child_sum || group->nr_domains ? group->weight
							       : 0;
		delta = (s64)weight - group->counted_weight;
		group->counted_weight = weight;
		bpf_spin_unlock(&group->lock);

		if (!delta || !total_add_to(&parent->child_sum, delta))
			break;
		idx = parent_idx;
	}
	return 0;
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
	group_update_parents(idx);
}

__hidden void group_init_task(struct task_ctx *taskc, u32 idx)
{
	taskc->group.idx = idx;
}

/* Tasks of group @idx are runnable in @change more domains. */
static void count_domains(u32 idx, s32 change)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	__sync_fetch_and_add(&group->nr_domains, change);
	group_update_parents(idx);
}

/* Let the task of @taskc be @load of what @llcc has to do. */
static void count_load(struct task_ctx *taskc, struct llc_ctx *llcc, u32 load)
{
	s64 delta = (s64)load - taskc->group.counted_load;

	if (nr_llcs == 1 || !delta)
		return;
	taskc->group.counted_load = load;
	total_add(TOTAL_LOAD, llcc, delta);
}

__hidden void group_join(struct task_ctx *taskc, struct llc_ctx *llcc,
			 u32 weight)
{
	s64 delta = (s64)weight - taskc->group.counted_weight;
	u32 idx = taskc->group.idx;

	if (!delta)
		return;
	taskc->group.counted_weight = weight;
	total_add(TOTAL_RUNNABLE, llcc, delta);
	count_load(taskc, llcc, weight ? taskc->group.load ?: weight : 0);
	if (total_add(idx, llcc, delta) && idx != GROUP_ROOT)
		count_domains(idx, delta > 0 ? 1 : -1);
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
 * Return the weight of a task in group @idx from its own, @weight, level by
 * level. A group that is idle makes all in it idle.
 *
 * Not static, as group_update_parents().
 */
__noinline u64 group_weigh(u32 idx, u32 weight)
{
	u64 part = part_whole(), idle = 0;
	u32 i, own = weight;
	struct group *group;

	bpf_for(i, 0, GROUP_DEPTH_MAX + 1) {
		group = lookup_group(idx);
		if (!group)
			break;
		part = part_of(part, own, runnable_sum(idx, group));
		if (idx == GROUP_ROOT)
			break;
		own = group->weight;
		if (group->is_idle)
			idle = GROUP_WEIGH_IDLE;
		idx = group->parent;
	}
	return part_weight(part, total_of_all(TOTAL_RUNNABLE)) | idle;
}

__hidden u32 group_weight(struct task_ctx *taskc, u32 weight)
{
	struct group *root = lookup_group(GROUP_ROOT);
	u64 weighed = weight;

	/* All that is runnable is in the root. */
	if (taskc->group.idx != GROUP_ROOT ||
	    (root && READ_ONCE(root->child_sum)))
		weighed = group_weigh(taskc->group.idx, weight);
	taskc->group.is_idle = !!(weighed & GROUP_WEIGH_IDLE);
	return weighed;
}

/*
 * Return what of @weight the task of @taskc can use on one CPU at a time beside
 * what all domains have to do besides it. If that seems to be nothing, as when
 * the rest has just moved, it stays what it was.
 */
static u32 usable_load(const struct task_ctx *taskc, struct llc_ctx *llcc,
		       u32 weight, u64 now)
{
	s64 others = total_load(llcc, now) - taskc->group.counted_load;
	u32 nr_cpus = topo_nr_cpus(), most;

	if (nr_cpus <= 1)
		return weight;
	if (others <= 0)
		return taskc->group.load ?: weight;
	most = weight_clamp(others / (nr_cpus - 1));
	return weight < most ? weight : most;
}

__hidden void group_count_load(struct task_ctx *taskc, struct llc_ctx *llcc,
			       u32 weight, u64 now)
{
	if (nr_llcs == 1 || !taskc->group.counted_weight)
		return;
	taskc->group.load = usable_load(taskc, llcc, weight, now);
	count_load(taskc, llcc, taskc->group.load);
}
