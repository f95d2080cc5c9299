/* SPDX-License-Identifier: GPL-2.0 */
/* cgroup: what does its cgroup entitle a task to? See cgroup.bpf.h. */
#include "cgroup.bpf.h"
#include "topo.bpf.h"
#include "policy/hierarchy.h"
#include "policy/vtime.h"
#include "policy/weight.h"

/*
 * Sums of what is runnable. Each domain adds up its own, by atomic additions.
 * To read the sums of all others takes a cache miss for each, since they change
 * at each wakeup there. For a weight that is what it takes: it is a part of a
 * whole, and both have to be of the same moment. For the load, which says where
 * a task is better off, a domain knows exactly what it has itself, and reads
 * all others once a millisecond for all of its CPUs.
 */

enum cgroup_consts {
	/* How old the load of other domains may be. */
	LOAD_AGE_MAX_NS = 1 * NSEC_PER_MSEC,
	/* Index of the root cgroup, and of what is taken for a part of it. */
	GROUP_ROOT = 0,
	/* Sums beside those of the tasks of a cgroup, which have its index. */
	TOTAL_RUNNABLE = MAX_GROUPS,
	TOTAL_LOAD,
	/* A cgroup so many levels below the root is a part of its parent. */
	GROUP_DEPTH_MAX = 16,
};

/*
 * Weights of the runnable tasks of a cgroup; MAX_GROUPS entries for each
 * domain, the loader sets their number.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u32);
	__type(value, s64);
} group_sums SEC(".maps");

/* Add @delta to @sum; return whether it came from zero or got there. */
static bool add_to_sum(s64 *sum, s64 delta)
{
	s64 old = __sync_fetch_and_add(sum, delta);

	return !old != !(old + delta);
}

/* Return sum @idx of @llcc, or NULL. */
static s64 *lookup_sum(u32 idx, struct llc_ctx *llcc)
{
	u32 key = llcc->topo.idx * MAX_GROUPS + idx;

	switch (idx) {
	case GROUP_ROOT:
		return &llcc->cgroup.root_sum;
	case TOTAL_RUNNABLE:
		return &llcc->cgroup.runnable_weight;
	case TOTAL_LOAD:
		return &llcc->cgroup.load;
	default:
		return bpf_map_lookup_elem(&group_sums, &key);
	}
}

/* Add @delta to sum @idx of @llcc; return what add_to_sum() does. */
static bool add_to(u32 idx, struct llc_ctx *llcc, s64 delta)
{
	s64 *sum = lookup_sum(idx, llcc);

	return sum && add_to_sum(sum, delta);
}

/* Return sum @idx of all domains but @but; none is nr_llcs. */
static s64 sum_but(u32 idx, u32 but)
{
	struct llc_ctx *llcc;
	s64 sum = 0, *part;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		llcc = i == but ? NULL : lookup_llc(i);
		part = llcc ? lookup_sum(idx, llcc) : NULL;
		if (part)
			sum += READ_ONCE(*part);
	}
	return sum;
}

/* Not static, so that the verifier walks it once and not at each call. */
__noinline s64 cgroup_total(u32 idx)
{
	return sum_but(idx, nr_llcs);
}

/* Not static, as cgroup_total(). */
__noinline int cgroup_read_other_load(u32 llc_idx, u64 now)
{
	struct llc_ctx *llcc = lookup_llc(llc_idx);

	if (!llcc)
		return -ENOENT;
	WRITE_ONCE(llcc->cgroup.other_load, sum_but(TOTAL_LOAD, llc_idx));
	/* Not before: others of the domain take it for new by this. */
	barrier();
	WRITE_ONCE(llcc->cgroup.other_load_read_at, now);
	return 0;
}

/* Return the load of all domains at @now, where we are in @llcc. */
static s64 total_load(struct llc_ctx *llcc, u64 now)
{
	u64 read_at = READ_ONCE(llcc->cgroup.other_load_read_at);

	if (!vtime_before(now, read_at + LOAD_AGE_MAX_NS))
		cgroup_read_other_load(llcc->topo.idx, now);
	return READ_ONCE(llcc->cgroup.load) +
	       READ_ONCE(llcc->cgroup.other_load);
}

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
	return sum + cgroup_total(idx);
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
__noinline int cgroup_update_parents(u32 idx)
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

		if (!delta || !add_to_sum(&parent->child_sum, delta))
			break;
		idx = parent_idx;
	}
	return 0;
}

/* Return how many levels below the root group @idx is. */
static u32 group_depth(u32 idx)
{
	struct group *group = lookup_group(idx);

	return group ? group->depth : 0;
}

/* Return what group @idx itself weighs, as it was set. */
static u32 group_own_weight(u32 idx)
{
	struct group *group = lookup_group(idx);

	return group ? group->weight : 0;
}

/* Group @idx is a child of group @parent from now on. It weighs nothing yet. */
static void group_place(u32 idx, u32 parent)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	group->parent = parent;
	group->depth = group_depth(parent) + 1;
}

/* Give group @idx a weight, 0 if it goes away; all in it is idle if it is. */
static void group_set_weight(u32 idx, u32 weight, bool is_idle)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	group->is_idle = is_idle;
	WRITE_ONCE(group->weight, weight);
	cgroup_update_parents(idx);
}

/* Tasks of group @idx are runnable in @change more domains. */
static void count_domains(u32 idx, s32 change)
{
	struct group *group = lookup_group(idx);

	if (!group)
		return;
	__sync_fetch_and_add(&group->nr_domains, change);
	cgroup_update_parents(idx);
}

/* Let the task of @taskc be @load of what @llcc has to do. */
static void count_load(struct task_ctx *taskc, struct llc_ctx *llcc, u32 load)
{
	s64 delta = (s64)load - taskc->cgroup.counted_load;

	if (nr_llcs == 1 || !delta)
		return;
	taskc->cgroup.counted_load = load;
	add_to(TOTAL_LOAD, llcc, delta);
}

__hidden void cgroup_join(struct task_ctx *taskc, struct llc_ctx *llcc,
			  u32 weight)
{
	s64 delta = (s64)weight - taskc->cgroup.counted_weight;
	u32 idx = taskc->cgroup.idx;

	if (!delta)
		return;
	taskc->cgroup.counted_weight = weight;
	add_to(TOTAL_RUNNABLE, llcc, delta);
	count_load(taskc, llcc, weight ? taskc->cgroup.load ?: weight : 0);
	if (add_to(idx, llcc, delta) && idx != GROUP_ROOT)
		count_domains(idx, delta > 0 ? 1 : -1);
}

__hidden void cgroup_leave(struct task_ctx *taskc, struct llc_ctx *llcc)
{
	cgroup_join(taskc, llcc, 0);
}

/* What cgroup_weigh() returns beside the weight: all in the group is idle. */
#define CGROUP_WEIGH_IDLE (1ULL << 32)

/*
 * Return the weight of a task in group @idx from its own, @weight, level by
 * level. A group that is idle makes all in it idle.
 *
 * Not static, as cgroup_update_parents().
 */
__noinline u64 cgroup_weigh(u32 idx, u32 weight)
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
			idle = CGROUP_WEIGH_IDLE;
		idx = group->parent;
	}
	return part_weight(part, cgroup_total(TOTAL_RUNNABLE)) | idle;
}

__hidden u32 cgroup_weight(struct task_ctx *taskc, u32 weight)
{
	struct group *root = lookup_group(GROUP_ROOT);
	u64 weighed = weight;

	/* All that is runnable is in the root. */
	if (taskc->cgroup.idx != GROUP_ROOT ||
	    (root && READ_ONCE(root->child_sum)))
		weighed = cgroup_weigh(taskc->cgroup.idx, weight);
	taskc->cgroup.is_idle = !!(weighed & CGROUP_WEIGH_IDLE);
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
	s64 others = total_load(llcc, now) - taskc->cgroup.counted_load;
	u32 nr_cpus = topo_nr_cpus(), most;

	if (nr_cpus <= 1)
		return weight;
	if (others <= 0)
		return taskc->cgroup.load ?: weight;
	most = weight_clamp(others / (nr_cpus - 1));
	return weight < most ? weight : most;
}

__hidden void cgroup_count_load(struct task_ctx *taskc, struct llc_ctx *llcc,
				u32 weight, u64 now)
{
	if (nr_llcs == 1 || !taskc->cgroup.counted_weight)
		return;
	taskc->cgroup.load = usable_load(taskc, llcc, weight, now);
	count_load(taskc, llcc, taskc->cgroup.load);
}

/*
 * A cgroup has an index in the arrays; a task keeps that of its own. There are
 * MAX_GROUPS of them: a cgroup beyond those is taken for a part of its parent.
 * The index of one that is gone is used again.
 */

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
	taskc->cgroup.idx = group_idx(cgrp);
}

__hidden void cgroup_move_task(struct task_struct *p, struct cgroup *cgrp)
{
	struct task_ctx *taskc = try_lookup_task(p);
	struct llc_ctx *llcc = taskc ? lookup_llc(taskc->share.llc_idx) : NULL;

	u32 weight;

	if (!llcc)
		return;
	weight = taskc->cgroup.counted_weight;
	cgroup_leave(taskc, llcc);
	taskc->cgroup.idx = group_idx(cgrp);
	cgroup_join(taskc, llcc, weight);
}
