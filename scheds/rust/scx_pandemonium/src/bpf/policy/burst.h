/* SPDX-License-Identifier: GPL-2.0 */
/*
 * burst: has the machine become much busier all at once?
 *
 * A cumulative sum (Page 1954) over the time that each BURST_SAMPLE enqueues take.
 * Each sample that is shorter than usual, by more than a quarter, adds what it is
 * short of; a longer one takes off. Once that comes to twice the usual time there
 * is a burst. One odd sample is never enough, and a lasting change is found in
 * three to five.
 *
 * What is usual is a moving average. It stands still during a burst, so that a
 * burst does not become the usual by and by, and a pause counts for no more than
 * twice the usual, nor than what a machine with little to do takes, so that what
 * follows a pause is no burst. A burst is over some time after its last short sample, whether or not
 * more samples come; one that lasts very long is the usual from then on.
 *
 * Not here: what a burst changes (classify.bpf.c).
 */
#ifndef __POLICY_BURST_H
#define __POLICY_BURST_H

#include "types.h"
#include "vtime.h"

enum burst_consts {
	/* Enqueues that make a sample. */
	BURST_SAMPLE = 64,
	/* What a CPU with little to do takes for one enqueue. */
	BURST_CALM_NS = 8 * NSEC_PER_MSEC,
	/* No usual sample is shorter: a million enqueues a second. */
	BURST_USUAL_MIN_NS = BURST_SAMPLE * NSEC_PER_USEC,
	/* A burst is over so long after its last short sample. */
	BURST_HOLD_NS = 500 * NSEC_PER_MSEC,
};

/* How long a burst may last before it is the usual. */
static const u64 BURST_MAX_NS = 10ULL * NSEC_PER_SEC;

struct burst {
	u64 sampled_at; /* end of the last sample; 0: none yet */
	u64 usual_ns;	/* average length of a sample */
	u64 short_ns;	/* the sum of what samples are short of that */
	u64 began_at;	/* of the present or last burst */
	u64 ends_at;	/* it is over then */
};

/* Return whether there is a burst at @now. */
static inline bool burst_is_on(const struct burst *burst, u64 now)
{
	return vtime_before(now, burst->ends_at);
}

/*
 * A sample ends at @now in a domain of @nr_cpus. Return whether a burst begins
 * with it.
 */
static inline bool burst_sample(struct burst *burst, u64 now, u32 nr_cpus)
{
	u64 calm_ns =
		(u64)BURST_CALM_NS * BURST_SAMPLE / (nr_cpus ? nr_cpus : 1);
	u64 sample_ns = now - burst->sampled_at, expected_ns;
	bool is_first = !burst->sampled_at;

	burst->sampled_at = now;
	if (is_first) {
		burst->usual_ns = calm_ns;
		burst->ends_at = now;
		return false;
	}
	if (sample_ns > 2 * burst->usual_ns)
		sample_ns = 2 * burst->usual_ns;
	if (sample_ns > calm_ns)
		sample_ns = calm_ns;
	expected_ns = burst->usual_ns - burst->usual_ns / 4;

	if (burst_is_on(burst, now)) {
		if (now - burst->began_at > BURST_MAX_NS) {
			burst->usual_ns = sample_ns + BURST_USUAL_MIN_NS;
			burst->short_ns = 0;
			burst->ends_at = now;
		} else if (sample_ns < expected_ns) {
			burst->ends_at = now + BURST_HOLD_NS;
		}
		return false;
	}

	burst->short_ns += expected_ns;
	burst->short_ns -=
		sample_ns < burst->short_ns ? sample_ns : burst->short_ns;
	if (burst->short_ns > 2 * burst->usual_ns) {
		burst->short_ns = 0;
		burst->began_at = now;
		burst->ends_at = now + BURST_HOLD_NS;
		return true;
	}
	burst->usual_ns = burst->usual_ns - burst->usual_ns / 8 + sample_ns / 8;
	if (burst->usual_ns < BURST_USUAL_MIN_NS)
		burst->usual_ns = BURST_USUAL_MIN_NS;
	return false;
}

#endif /* __POLICY_BURST_H */
