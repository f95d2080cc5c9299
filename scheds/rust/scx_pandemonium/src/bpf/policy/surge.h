/* SPDX-License-Identifier: GPL-2.0 */
/*
 * surge: has the machine become much busier all at once?
 *
 * Problem: when a build starts, many tasks wake twice that never will again,
 * and two wakeups are what a task needs to be served in its own tier.
 *
 * How: a cumulative sum (Page 1954) over the time that each SURGE_SAMPLE
 * enqueues take. A sample that is shorter than usual, by more than a quarter,
 * adds what it is short of; a longer one takes off. Once that comes to twice
 * the usual time a surge begins: one odd sample is never enough, and a lasting
 * change is found in three to five. What is usual is a moving average. It
 * stands still during a surge, so that the surge does not become the usual by
 * and by. A surge is over SURGE_HOLD_NS after its last short sample, whether or
 * not more samples come.
 *
 * Limits:
 *   - A rate that grows slowly, or by less than a third, is no surge.
 *   - A pause counts for twice the usual at most, and no sample for more than
 *     SURGE_CALM_NS for each enqueue and CPU, so that what follows a pause is
 *     no surge. A machine with less to do than that always counts as that busy.
 *   - What is usual is never less than SURGE_USUAL_MIN_NS: above 1.3 million
 *     enqueues a second in one domain all is a surge.
 *   - A surge that lasts longer than SURGE_MAX_NS is the usual from then on,
 *     and a second one on top of it is not seen before that.
 *   - It counts enqueues of whatever kind: many short sleepers that start
 *     together are a surge as well.
 *
 * Not here: what a surge changes, and how enqueues are counted
 * (classify.bpf.c).
 */
#ifndef __POLICY_SURGE_H
#define __POLICY_SURGE_H

#include "types.h"
#include "vtime.h"

enum surge_consts {
	/* Enqueues that make a sample. */
	SURGE_SAMPLE = 64,
	/* What a CPU with little to do takes for one enqueue. */
	SURGE_CALM_NS = 8 * NSEC_PER_MSEC,
	/* No usual sample is shorter: a million enqueues a second. */
	SURGE_USUAL_MIN_NS = SURGE_SAMPLE * NSEC_PER_USEC,
	/* A surge is over so long after its last short sample. */
	SURGE_HOLD_NS = 500 * NSEC_PER_MSEC,
};

/* How long a surge may last before it is the usual. */
static const u64 SURGE_MAX_NS = 10ULL * NSEC_PER_SEC;

struct surge {
	u64 sampled_at; /* end of the last sample; 0: none yet */
	u64 usual_ns;	/* average length of a sample */
	u64 short_ns;	/* the sum of what samples are short of that */
	u64 began_at;	/* of the present or last surge */
	u64 ends_at;	/* it is over then */
};

/* Return whether there is a surge at @now. */
static inline bool surge_is_on(const struct surge *surge, u64 now)
{
	return vtime_before(now, surge->ends_at);
}

/*
 * A sample ends at @now in a domain of @nr_cpus. Return whether a surge begins
 * with it.
 */
static inline bool surge_sample(struct surge *surge, u64 now, u32 nr_cpus)
{
	u64 calm_ns =
		(u64)SURGE_CALM_NS * SURGE_SAMPLE / (nr_cpus ? nr_cpus : 1);
	u64 sample_ns = now - surge->sampled_at, expected_ns;
	bool is_first = !surge->sampled_at;

	surge->sampled_at = now;
	if (is_first) {
		surge->usual_ns = calm_ns;
		surge->ends_at = now;
		return false;
	}
	if (sample_ns > 2 * surge->usual_ns)
		sample_ns = 2 * surge->usual_ns;
	if (sample_ns > calm_ns)
		sample_ns = calm_ns;
	expected_ns = surge->usual_ns - surge->usual_ns / 4;

	if (surge_is_on(surge, now)) {
		if (now - surge->began_at > SURGE_MAX_NS) {
			surge->usual_ns = sample_ns + SURGE_USUAL_MIN_NS;
			surge->short_ns = 0;
			surge->ends_at = now;
		} else if (sample_ns < expected_ns) {
			surge->ends_at = now + SURGE_HOLD_NS;
		}
		return false;
	}

	surge->short_ns += expected_ns;
	surge->short_ns -=
		sample_ns < surge->short_ns ? sample_ns : surge->short_ns;
	if (surge->short_ns > 2 * surge->usual_ns) {
		surge->short_ns = 0;
		surge->began_at = now;
		surge->ends_at = now + SURGE_HOLD_NS;
		return true;
	}
	surge->usual_ns = surge->usual_ns - surge->usual_ns / 8 + sample_ns / 8;
	if (surge->usual_ns < SURGE_USUAL_MIN_NS)
		surge->usual_ns = SURGE_USUAL_MIN_NS;
	return false;
}

#endif /* __POLICY_SURGE_H */
