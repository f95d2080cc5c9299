/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gate: may a task that has shown nothing yet be served like an interactive one?
 *
 * If no new task may, one click on an icon waits behind a compile; if every new
 * task may, a fork storm owns the machine. Between the two stands a token
 * bucket: a burst of first runs is let through at once, then one every so
 * often; the rest starts as batch work.
 *
 * The bucket is kept as one instant, the time at which it will be full again
 * (the generic cell rate algorithm, ITU-T I.371).
 *
 * Not here: who may ask for a token (place.bpf.c).
 */
#ifndef __POLICY_GATE_H
#define __POLICY_GATE_H

#include "types.h"

enum gate_consts {
	/* Each CPU of a domain earns a token in this time ... */
	GATE_REFILL_NS = 20 * NSEC_PER_MSEC,
	/* ... and the bucket holds one for each CPU. */
};

/*
 * Return whether a bucket that is full at @full_at has a token at @now, where
 * @nr_cpus earn tokens.
 */
static inline bool gate_has_token(u64 full_at, u64 now, u32 nr_cpus)
{
	/* A full bucket lasts GATE_REFILL_NS at the rate of its refill. */
	u64 spent = (s64)(full_at - now) > 0 ? full_at - now : 0;

	return nr_cpus &&
	       spent + GATE_REFILL_NS / nr_cpus <= (u64)GATE_REFILL_NS;
}

/* Return when the bucket is full again after a token is taken at @now. */
static inline u64 gate_take_token(u64 full_at, u64 now, u32 nr_cpus)
{
	u64 from = (s64)(full_at - now) > 0 ? full_at : now;

	return from + GATE_REFILL_NS / (nr_cpus ? nr_cpus : 1);
}

#endif /* __POLICY_GATE_H */
