/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vtime: how is CPU time compared between tasks?
 *
 * Problem: tasks of different weight deserve different amounts of CPU time, and
 * some of them need theirs at once. One number must say which of two goes
 * first.
 *
 * How: every task has a vtime, the CPU time it used by its weight (weight.h),
 * so that tasks which get their fair shares advance alike. What a task is owed
 * is how far its vtime is behind the clock of its domain (clock.h), within a
 * cap for what it may be owed and one for what it may owe. The rank, by which
 * queues are ordered, is the vtime less the head start of the tier in which
 * the task is served. So a tier is worth a fixed amount of CPU time and no
 * more: a task that is owed more than that goes before one of a higher tier.
 *
 * Limits:
 *   - vtime wraps. It is compared by signed difference only, and never with
 *     plain nanoseconds.
 *   - A charge is rounded down to whole vtime: at 100 times the weight of
 *     nice 0 up to 99 ns of a run are free.
 *   - A head start is vtime and does not depend on the weight. A task of ten
 *     times the weight may use ten times as much CPU time of it as one of
 *     nice 0; a task that is niced down has none, it is served as batch
 *     (classify).
 *   - A head start is bounded for each task, not for all of them together: many
 *     that wake at once keep batch work out until each has used its own
 *     (wait_age.h and rescue.bpf.c bound that).
 *   - A debt above what vtime_cap_debt() allows is forgiven. That is
 *     DEBT_TURN_NS of the task's CPU time or more, but for weights below a
 *     fiftieth of nice 0's (nice 18): less than that (DEBT_MAX_NS).
 *
 * Not here: the average that a vtime is compared with (clock.h), when each of
 * these is asked (share.bpf.c).
 */
#ifndef __POLICY_VTIME_H
#define __POLICY_VTIME_H

#include "types.h"
#include "weight.h"

enum vtime_consts {
	/* What a tier is worth against the one below, see vtime_rank(). */
	HEAD_START_INTERACTIVE_NS = 2 * NSEC_PER_MSEC,
	HEAD_START_LAT_CRITICAL_NS = 4 * NSEC_PER_MSEC,
	/* What it is worth to be due more than a CPU, see share_rank(). */
	HEAD_START_WHOLE_CPU_NS = 4 * NSEC_PER_MSEC,
	/* What a task may owe, see vtime_cap_debt(). */
	DEBT_TURN_NS = 4 * NSEC_PER_MSEC,
	DEBT_MAX_NS = 200 * NSEC_PER_MSEC,

	/* A first run that was let through the gate: to exec, draw a window. */
	HEAD_START_FIRST_RUN_NS = 12 * NSEC_PER_MSEC,
};

/* Return whether @a is before @b; right across a wrap. */
static inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * Convert @wall_ns of CPU time into vtime for a task of @weight.
 *
 * A heavier task is charged less for the same run. A @weight of 0 is taken
 * for WEIGHT_MIN rather than divided by.
 */
static inline u64 vtime_charge(u64 wall_ns, u32 weight)
{
	if (weight == WEIGHT_NICE_0)
		return wall_ns;
	return (wall_ns << WEIGHT_SHIFT) / (weight ? weight : WEIGHT_MIN);
}

/*
 * Cap how far a waking task may lag its domain's clock.
 *
 * While a task sleeps its vtime stands still and the clock moves on, so on
 * wakeup it would be owed the whole sleep. It keeps at most @lag_max_ns of CPU
 * time: enough to be served first, not enough to stay first.
 *
 * Return @vtime, or the earliest vtime allowed if it is before that.
 */
static inline u64 vtime_cap_lag(u64 vtime, u64 clock, u64 lag_max_ns,
				u32 weight)
{
	u64 earliest = clock - vtime_charge(lag_max_ns, weight);

	return vtime_before(vtime, earliest) ? earliest : vtime;
}

/*
 * Cap how far a task may be ahead of its domain's clock.
 *
 * One that had a CPU to itself, by its affinity or since no more than that was
 * runnable, used more than its share and kept no task waiting. It need not pay
 * for that when it has to share again: it owes at most @debt_max_ns of vtime,
 * or what a turn of DEBT_TURN_NS is worth at its @weight, if that is more; but
 * never so much that its turn comes after the patience of the watchdog ends.
 *
 * Return @vtime, or the latest vtime allowed if it is after that.
 */
static inline u64 vtime_cap_debt(u64 vtime, u64 clock, u64 debt_max_ns,
				 u32 weight)
{
	u64 turn = vtime_charge(DEBT_TURN_NS, weight), latest;

	if (turn > DEBT_MAX_NS)
		turn = DEBT_MAX_NS;
	latest = clock + (turn > debt_max_ns ? turn : debt_max_ns);
	return vtime_before(latest, vtime) ? latest : vtime;
}

/*
 * Return whether a task at @vtime has credit: it may go before others since it
 * has used less than its share, give or take @loan_ns of CPU time.
 */
static inline bool vtime_is_eligible(u64 vtime, u64 clock, u64 loan_ns)
{
	return vtime_before(vtime, clock + loan_ns);
}

/*
 * Return the rank of a task at @vtime that is served in @tier: of two tasks
 * the one with the earlier rank goes first. @is_first_run if it was let through
 * the gate (gate.h).
 *
 * A tier is worth a head start of so much CPU time and no more. A task that is
 * owed more than that goes before one of a higher tier, so an endless flood of
 * short tasks cannot keep batch work out.
 */
static inline u64 vtime_rank(u64 vtime, enum tier tier, bool is_first_run)
{
	if (tier != TIER_BATCH && is_first_run)
		return vtime - HEAD_START_FIRST_RUN_NS;
	if (tier == TIER_LAT_CRITICAL)
		return vtime - HEAD_START_LAT_CRITICAL_NS;
	if (tier == TIER_INTERACTIVE)
		return vtime - HEAD_START_INTERACTIVE_NS;
	return vtime;
}

/*
 * Carry a vtime from the clock of one domain over to that of another: what the
 * task is owed stays the same.
 */
static inline u64 vtime_rebase(u64 vtime, u64 old_clock, u64 new_clock)
{
	return vtime - old_clock + new_clock;
}

#endif /* __POLICY_VTIME_H */
