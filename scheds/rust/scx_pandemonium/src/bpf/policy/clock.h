/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock: how far is a task with its fair share?
 *
 * Problem: "owed" needs something to be measured against. A clock that follows
 * the vtime of what runs is pulled along by tasks that take more than their
 * share; one that is kept by rounded increments drifts until all tasks are owed
 * the most there is and nothing tells them apart.
 *
 * How: the clock of a domain is the average vtime of its runnable tasks by
 * weight: avg_vruntime, the virtual time of EEVDF (Stoica and Abdel-Wahab
 * 1995). A task behind it has lag: it is owed time. One ahead of it has used
 * more than its share. The average is kept exactly, its whole part in
 * @avg_vruntime, what is left, which is less than the sum of weights, in
 * @remainder. A task that becomes runnable behind the clock is not counted
 * until it has reached it, or goes on and on and does not: it would pull the
 * average back, and let it spring forward when it sleeps again, and change what
 * all others are owed. A sleeper keeps its lag and gains what the clock @served
 * meanwhile.
 *
 * Limits:
 *   - What is owed adds up to zero among the tasks that are counted, not among
 *     all that are runnable: those with credit stand outside.
 *   - @served is rounded down at each step, so a sleeper gains up to 1 ns of
 *     vtime too little for each run of others.
 *   - clock_feasible_weight() knows the weights of the tasks that are counted,
 *     as they were when they were counted last. With several tasks too heavy
 *     for one CPU it takes a few charges of each until their weights have
 *     settled.
 *   - While no task is counted the clock stands, and the next one that is
 *     counted sets it.
 *   - The clocks of two domains have nothing in common, see vtime_rebase().
 *
 * Not here: the lock that writers need, and that readers go without
 * (share.bpf.c).
 */
#ifndef __POLICY_CLOCK_H
#define __POLICY_CLOCK_H

#include "types.h"
#include "vtime.h"

/* The average vtime of tasks of @weight_sum in all. */
struct vtime_clock {
	u64 avg_vruntime; /* its whole part, in vtime */
	u64 remainder;	  /* times weight_sum: 0 .. weight_sum - 1 */
	u64 weight_sum;	  /* 0: no task counts and the clock rests */
	u64 served;	  /* vtime that it moved on by what tasks ran for */
};

/*
 * Move the clock by @amount / weight_sum; forward, or back if @is_back.
 *
 * BPF before its fourth version divides unsigned only.
 */
static __attribute__((always_inline)) inline void
clock_move(struct vtime_clock *clock, u64 amount, bool is_back)
{
	u64 sum = clock->weight_sum, whole, part;

	if (!sum) {
		clock->remainder = 0;
		return;
	}
	whole = amount / sum;
	part = amount - whole * sum;
	if (is_back) {
		clock->avg_vruntime -= whole;
		if (part > clock->remainder) {
			clock->avg_vruntime--;
			clock->remainder += sum;
		}
		clock->remainder -= part;
		return;
	}
	clock->avg_vruntime += whole;
	clock->remainder += part;
	if (clock->remainder >= sum) {
		clock->avg_vruntime++;
		clock->remainder -= sum;
	}
}

/* Move the clock for a task of @weight whose vtime is @distance off it. */
static __attribute__((always_inline)) inline void
clock_pull(struct vtime_clock *clock, s64 distance, u32 weight, bool is_joining)
{
	bool is_behind = distance < 0;
	u64 size = is_behind ? -distance : distance;

	clock_move(clock, size * weight, is_behind == is_joining);
}

/*
 * Return whether a task that becomes runnable at @vtime is counted.
 *
 * One that comes with credit is not until it has used it. It would pull the
 * average back when it wakes and let it spring forward when it sleeps again,
 * and with it what all others are owed, who did nothing. Counted from the
 * moment when it reaches the clock, it moves nothing.
 */
static inline bool clock_counts(const struct vtime_clock *clock, u64 vtime)
{
	return !vtime_before(vtime, clock->avg_vruntime);
}

/* A task of @weight at @vtime becomes runnable. */
static __attribute__((always_inline)) inline void
clock_join(struct vtime_clock *clock, u64 vtime, u32 weight)
{
	u64 rest = clock->remainder;

	if (!clock->weight_sum)
		clock->avg_vruntime = vtime;
	clock->weight_sum += weight;
	clock->remainder = 0;
	clock_move(clock, rest, false);
	clock_pull(clock, (s64)(vtime - clock->avg_vruntime), weight, true);
}

/* A task that joined with @weight, and is at @vtime now, sleeps. */
static __attribute__((always_inline)) inline void
clock_leave(struct vtime_clock *clock, u64 vtime, u32 weight)
{
	s64 distance = vtime - clock->avg_vruntime;
	u64 rest = clock->remainder;

	if (clock->weight_sum <= weight) {
		clock->weight_sum = 0;
		clock->remainder = 0;
		return;
	}
	clock->weight_sum -= weight;
	clock->remainder = 0;
	clock_move(clock, rest, false);
	clock_pull(clock, distance, weight, false);
}

/* The vtime of a task that joined with @weight moves on by @step. */
static __attribute__((always_inline)) inline void
clock_advance(struct vtime_clock *clock, u64 step, u32 weight)
{
	clock_move(clock, step * weight, false);
	if (clock->weight_sum)
		clock->served += step * weight / clock->weight_sum;
}

/*
 * Return the vtime at which a task comes back that left @lag behind the clock
 * when that had @served.
 *
 * The average jumps when tasks come and go, so a sleeper that kept its vtime
 * would be owed more or less by what others did. It keeps what it was owed, and
 * gains what each of those that stayed got meanwhile.
 */
static inline u64 clock_return(const struct vtime_clock *clock, s64 lag,
			       u64 served)
{
	return clock->avg_vruntime - lag - (clock->served - served);
}

/*
 * Return the weight with which a task of @weight counts beside others of
 * @others in all on @nr_cpus CPUs.
 *
 * One task cannot use more than one CPU. A heavier one than that would be owed
 * ever more, and hold the average back for all (the infeasible weights of
 * surplus fair scheduling, Chandra et al. 2000).
 */
static inline u32 clock_feasible_weight(u32 weight, u64 others, u32 nr_cpus)
{
	u64 most;

	if (nr_cpus <= 1 || weight <= WEIGHT_NICE_0)
		return weight;
	most = others / (nr_cpus - 1);
	if (most < WEIGHT_NICE_0)
		most = WEIGHT_NICE_0;
	return weight < most ? weight : most;
}

#endif /* __POLICY_CLOCK_H */
