/* SPDX-License-Identifier: GPL-2.0 */
/*
 * classify: what kind of task is this?
 *
 * Problem: know a task that a user waits for without being told.
 *
 * How: such a task wakes often, gives the CPU up by itself, and needs little of
 * it each time. The three are kept as moving averages and combined into a
 * score,
 *
 *	score = wakeups/s * voluntary switches/s / effective runtime in ms
 *	effective runtime = average runtime + mean deviation / 2
 *
 * and the score, with the length of the burst (the CPU time between two
 * sleeps), gives the tier. At the default thresholds, 800 and 20, and 16 ms for
 * a burst:
 *
 *	period, CPU per wakeup		   score	tier
 *	audio callback 5.3 ms, 0.7 ms	   50 000	latency critical
 *	compositor 16.7 ms, 3 ms	    1 200	latency critical
 *	game frame 16.7 ms, 12 ms	      300	interactive
 *	game frame 33.3 ms, 20 ms	       45	interactive
 *	terminal 200 ms, 1 ms		       25	interactive
 *	backup 50 ms, 30 ms		       13	batch
 *	compiler job 55 ms, 50 ms		6	batch (long bursts)
 *
 * Limits:
 *   - It is known how a task behaves, not what it is for: a daemon that wakes
 *     for 20 us or less is latency critical, however seldom it wakes, since
 *     intervals count for INTERVAL_MAX_NS at most. That is harmless: what a
 *     tier gives is bounded by CPU time (vtime.h).
 *   - A frame that takes longer than twice the threshold of a burst is batch
 *     work for the rest of it, unless its program is known as a compositor
 *     (compositor.h). If that is the average, the task is batch work from the
 *     start.
 *   - A hog that sleeps now and then, with shorter bursts than that, is
 *     interactive; its share of the CPU is what holds it (share.bpf.c).
 *   - Two wakeups are needed before a task counts (four in a surge), four until
 *     one odd run changes little.
 *   - Rates above 20 kHz and runs below 10 us are not told apart.
 *
 * Not here: what a tier entitles a task to (slice.h, vtime.h, preempt.bpf.c).
 */
#ifndef __POLICY_CLASSIFY_H
#define __POLICY_CLASSIFY_H

#include "types.h"

enum classify_consts {
	/* Wakeups after which the averages are trusted; ages stop there. */
	AGE_MATURE = 8,
	/* Averages move by 1/2 until the task has this age, then by 1/8. */
	AGE_FAST = 4,
	/* Wakeups below which a task has shown nothing yet; and in a surge. */
	AGE_GATE = 2,
	AGE_GATE_SURGE = 4,

	/* Rates saturate here, so that a product of two fits easily. */
	RATE_MAX_HZ = 20000,
	SCORE_MAX = 1000000,

	/* A task with a rhythm of its own sleeps for 1 of so many parts. */
	OWN_SLEEP_PART = 4,

	/* What a new task is taken for. */
	NEW_TASK_INTERVAL_NS = 50 * NSEC_PER_MSEC,
	NEW_TASK_RUNTIME_NS = 1 * NSEC_PER_MSEC,

	/*
	 * One long pause must not hide that a task wakes often otherwise, so
	 * no interval counts for more than this.
	 */
	INTERVAL_MAX_NS = 250 * NSEC_PER_MSEC,

	/* A run shorter than this counts as this long. */
	RUNTIME_FLOOR_NS = 10 * NSEC_PER_USEC,

	/*
	 * A task with bursts below this that sleeps most of the time is never
	 * batch, however rarely it wakes: a shell, an editor, a clock applet.
	 */
	BRIEF_BURST_NS = 2 * NSEC_PER_MSEC,
};

/*
 * Move average @avg towards @sample: by half while the task is young, so that
 * a few wakeups suffice, then by an eighth, so that one odd run does not count.
 */
static inline u64 classify_ewma(u64 avg, u64 sample, u32 age)
{
	u32 shift = age < AGE_FAST ? 1 : 3;

	if (sample >= avg)
		return avg + ((sample - avg) >> shift);
	return avg - ((avg - sample) >> shift);
}

/* Return |@a - @b|. */
static inline u64 classify_deviation(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* Return the rate, in events a second, of something every @interval_ns. */
static inline u64 classify_rate_hz(u64 interval_ns)
{
	u64 rate_hz;

	if (!interval_ns)
		return RATE_MAX_HZ;
	rate_hz = (u64)NSEC_PER_SEC / interval_ns;
	return rate_hz < RATE_MAX_HZ ? rate_hz : RATE_MAX_HZ;
}

/*
 * Return the latency-criticality score, 0..SCORE_MAX, in Hz^2 per ms.
 *
 * @wake_interval_ns	average time between two wakeups
 * @switch_interval_ns	average time between two voluntary switches
 * @avg_runtime_ns	average CPU time between two sleeps
 * @runtime_dev_ns	mean deviation of that
 */
static inline u64 classify_score(u64 wake_interval_ns, u64 switch_interval_ns,
				 u64 avg_runtime_ns, u64 runtime_dev_ns)
{
	u64 runtime_us = (avg_runtime_ns + runtime_dev_ns / 2) / NSEC_PER_USEC;
	u64 rates = classify_rate_hz(wake_interval_ns) *
		    classify_rate_hz(switch_interval_ns);
	u64 score;

	if (runtime_us < RUNTIME_FLOOR_NS / NSEC_PER_USEC)
		runtime_us = RUNTIME_FLOOR_NS / NSEC_PER_USEC;

	score = rates * 1000 / runtime_us;
	return score < SCORE_MAX ? score : SCORE_MAX;
}

/*
 * Return whether a task has a rhythm of its own, from the averages of its CPU
 * time between two sleeps and of its sleeps: it sleeps for a good part of its
 * time.
 */
static inline bool classify_has_own_rhythm(u64 avg_runtime_ns, u64 avg_sleep_ns)
{
	return avg_sleep_ns * OWN_SLEEP_PART >= avg_runtime_ns + avg_sleep_ns;
}

/*
 * Return the score that a task would have with a CPU to itself, 0..SCORE_MAX,
 * from the averages of its CPU time between two sleeps and of its sleeps; 0 for
 * one without a rhythm of its own.
 *
 * Where it waits for a CPU it wakes less often. A frame of 12 ms that takes 70
 * has a score of 12: as batch work it would wait as long for the next one, and
 * never be on time again.
 */
static inline u64 classify_own_score(u64 avg_runtime_ns, u64 avg_sleep_ns,
				     u64 runtime_dev_ns)
{
	u64 interval_ns = avg_runtime_ns + avg_sleep_ns;

	if (!classify_has_own_rhythm(avg_runtime_ns, avg_sleep_ns))
		return 0;
	return classify_score(interval_ns, interval_ns, avg_runtime_ns,
			      runtime_dev_ns);
}

/*
 * Return the CPU time between two sleeps above which a task is batch work, from
 * the averages of both and the threshold of a burst.
 *
 * It is twice the threshold for a task with a rhythm of its own: one that draws
 * 30 frames a second of 20 ms each, or the main thread of a browser that lays a
 * page out for 30 ms when there is input, and then waits for more. For one that
 * hardly sleeps, as a compiler's job, it is the threshold itself.
 */
static inline u64 classify_burst_max(u32 age, u64 avg_runtime_ns,
				     u64 avg_sleep_ns, u64 cpu_bound_thresh_ns)
{
	if (age >= AGE_MATURE &&
	    classify_has_own_rhythm(avg_runtime_ns, avg_sleep_ns))
		return 2 * cpu_bound_thresh_ns;
	return cpu_bound_thresh_ns;
}

/*
 * Return the tier of a task.
 *
 *   1. Its open burst is above @burst_max_ns: batch. It works now, whatever it
 *	did before.
 *   2. Its average runtime is above that: batch. It will work.
 *   3. Fewer than AGE_GATE wakeups seen: interactive, provisionally. The gate
 *	in classify.bpf.c withholds the privileges until it has shown more.
 *   4. Score from @thresh_high up: latency critical.
 *   5. Score or @own_score from @thresh_low up, or brief bursts between long
 *	sleeps: interactive.
 *   6. Else batch.
 */
static inline enum tier classify_tier(u32 age, u64 score, u64 own_score,
				      u64 avg_runtime_ns, u64 wake_interval_ns,
				      u64 open_burst_ns, u64 burst_max_ns,
				      u64 thresh_high, u64 thresh_low)
{
	if (open_burst_ns > burst_max_ns)
		return TIER_BATCH;
	if (age >= AGE_GATE && avg_runtime_ns > burst_max_ns)
		return TIER_BATCH;
	if (age < AGE_GATE)
		return TIER_INTERACTIVE;
	if (score >= thresh_high)
		return TIER_LAT_CRITICAL;
	if (score >= thresh_low || own_score >= thresh_low)
		return TIER_INTERACTIVE;
	if (avg_runtime_ns < BRIEF_BURST_NS &&
	    avg_runtime_ns < wake_interval_ns / 8)
		return TIER_INTERACTIVE;
	return TIER_BATCH;
}

#endif /* __POLICY_CLASSIFY_H */
