/* SPDX-License-Identifier: GPL-2.0 */
/*
 * frequency: how fast does a CPU have to be?
 *
 * Problem: the kernel's schedutil governor makes a CPU as fast as the scheduler
 * asks for. A scheduler that asks for nothing has every CPU at its fastest, one
 * that asks for what the last instant needed has them jump about.
 *
 * How: utilisation is the part of the time that a CPU is busy. It is measured
 * in windows, which end with the first event after FREQUENCY_WINDOW_NS, and
 * averaged over them: util = (util * tau + busy) / (tau + length), an
 * exponential average for windows of any length. tau is FREQUENCY_RISE_NS where
 * that is a rise, else FREQUENCY_FALL_NS. A window that ends with a task of a
 * higher tier raises it at once: that task is the one that is waited for.
 *
 * What is asked for follows the average in steps of FREQUENCY_STEP, so that a
 * steady load falls silent. A change is asked for again with the windows that
 * follow: the governor drops what comes too soon after its last change, and
 * where it cannot know the frequency that a CPU has it goes a quarter further
 * each time. Eight quarters are a factor of six.
 *
 * From FREQUENCY_FULL on all that there is is asked for, as in the governor,
 * which adds a quarter to each demand. A CPU that was idle and then is always
 * busy asks for all within 7 ms if its work is of a higher tier, else within
 * 15 ms, with ticks of 250 Hz.
 *
 * Limits:
 *   - Busy time is that at whatever frequency the CPU had: a load looks larger
 *     on a slow CPU. It settles all the same, at a frequency between what is
 *     needed and the highest.
 *   - A task that sleeps takes no utilisation with it to another CPU.
 *
 * Not here: when a CPU is busy, what it costs to ask (frequency.bpf.c).
 */
#ifndef __POLICY_FREQUENCY_H
#define __POLICY_FREQUENCY_H

#include "types.h"

enum frequency_consts {
	/* All that a CPU can do; the kernel's SCX_CPUPERF_ONE. */
	FREQUENCY_ONE = 1024,
	/* Four fifths: with a quarter more this is all. */
	FREQUENCY_FULL = FREQUENCY_ONE * 4 / 5,
	/* A change below this is not worth asking for, nor is half of it. */
	FREQUENCY_STEP = FREQUENCY_ONE / 16,
	/* How often a change is asked for again. */
	FREQUENCY_REPEATS = 8,

	/* No window is shorter; less than a tick of 250 Hz. */
	FREQUENCY_WINDOW_NS = 3 * NSEC_PER_MSEC,
	/* Time constants: a tick of 250 Hz, and the half-life of PELT. */
	FREQUENCY_RISE_NS = 4 * NSEC_PER_MSEC,
	FREQUENCY_FALL_NS = 32 * NSEC_PER_MSEC,
	/* No window counts for longer: little is left of what was before. */
	FREQUENCY_WINDOW_MAX_NS = NSEC_PER_SEC,
};

/*
 * Return the utilisation, 0 to FREQUENCY_ONE, after a window of @len_ns of
 * which the CPU was busy for @busy_ns. It was @util before. A rise counts in
 * full if @is_urgent.
 */
static inline u32 frequency_util(u32 util, u64 busy_ns, u64 len_ns,
				 bool is_urgent)
{
	u64 tau_ns = FREQUENCY_FALL_NS;

	if (len_ns > FREQUENCY_WINDOW_MAX_NS)
		len_ns = FREQUENCY_WINDOW_MAX_NS;
	if (busy_ns > len_ns)
		busy_ns = len_ns;
	if (!len_ns)
		return util;
	if (busy_ns * FREQUENCY_ONE > util * len_ns)
		tau_ns = is_urgent ? 0 : FREQUENCY_RISE_NS;
	return (util * tau_ns + busy_ns * FREQUENCY_ONE) / (tau_ns + len_ns);
}

/*
 * Return what to ask for, 0 to FREQUENCY_ONE, at @util; @asked is what was
 * asked for last.
 */
static inline u32 frequency_target(u32 util, u32 asked)
{
	u32 change = util > asked ? util - asked : asked - util;

	if (util >= FREQUENCY_FULL)
		return FREQUENCY_ONE;
	if (util < FREQUENCY_STEP / 2)
		return 0;
	if (asked == FREQUENCY_ONE && util >= FREQUENCY_FULL - FREQUENCY_STEP)
		return asked;
	return change < FREQUENCY_STEP ? asked : util;
}

/*
 * Return how often to ask for @target again after a change to it. For nothing
 * there is only one frequency.
 */
static inline u32 frequency_repeats(u32 target)
{
	return target ? FREQUENCY_REPEATS : 0;
}

#endif /* __POLICY_FREQUENCY_H */
