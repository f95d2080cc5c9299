/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock: how far is a task with its fair share?
 *
 * The clock of a domain shows the average vtime of its runnable tasks by
 * weight, the virtual time of EEVDF (Stoica and Abdel-Wahab 1995), but for those
 * that came back from sleep with credit they have not used yet. A task behind
 * the clock is owed time (it has lag), one ahead of it has used more than its
 * share.
 *
 * The average is kept exactly: its whole part in @at, the rest, which is less
 * than the weights, in @rest. Nothing is lost by rounding, so that what is owed
 * by all and to all stays zero however long the scheduler runs. A clock kept by
 * rounded increments drifts until every task is owed the most there is, and
 * nobody can tell them apart.
 *
 * Unlike the vtime of whatever runs, such a clock cannot be pulled along by
 * tasks that take more than their share.
 *
 * Not here: who holds the lock that these need (queue.bpf.c).
 */
#ifndef __POLICY_CLOCK_H
#define __POLICY_CLOCK_H

#include "types.h"
#include "vtime.h"

/* The average vtime of tasks of @weight_sum in all. */
struct vtime_clock {
	u64 at;		/* its whole part, in vtime */
	u64 rest;	/* times weight_sum: 0 .. weight_sum - 1 */
	u64 weight_sum; /* 0: nobody runs and the clock rests */
	u64 served;	/* vtime that it moved on by what tasks ran for */
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
		clock->rest = 0;
		return;
	}
	whole = amount / sum;
	part = amount - whole * sum;
	if (is_back) {
		clock->at -= whole;
		if (part > clock->rest) {
			clock->at--;
			clock->rest += sum;
		}
		clock->rest -= part;
		return;
	}
	clock->at += whole;
	clock->rest += part;
	if (clock->rest >= sum) {
		clock->at++;
		clock->rest -= sum;
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
	return !vtime_before(vtime, clock->at);
}

/* A task of @weight at @vtime becomes runnable. */
static __attribute__((always_inline)) inline void
clock_join(struct vtime_clock *clock, u64 vtime, u32 weight)
{
	u64 rest = clock->rest;

	if (!clock->weight_sum)
		clock->at = vtime;
	clock->weight_sum += weight;
	clock->rest = 0;
	clock_move(clock, rest, false);
	clock_pull(clock, (s64)(vtime - clock->at), weight, true);
}

/* A task that joined with @weight, and is at @vtime now, sleeps. */
static __attribute__((always_inline)) inline void
clock_leave(struct vtime_clock *clock, u64 vtime, u32 weight)
{
	s64 distance = vtime - clock->at;
	u64 rest = clock->rest;

	if (clock->weight_sum <= weight) {
		clock->weight_sum = 0;
		clock->rest = 0;
		return;
	}
	clock->weight_sum -= weight;
	clock->rest = 0;
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
	return clock->at - lag - (clock->served - served);
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
