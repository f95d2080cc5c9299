/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gate: may a new task be served like an interactive one?
 *
 * Problem: if no new task may, one click on an icon waits behind a compile; if
 * every new task may, a fork storm owns the machine.
 *
 * How: a token bucket for each domain. It holds one token for each CPU and is
 * full again after GATE_REFILL_NS. A new task that gets a token is admitted to
 * its first runs before batch work; the others start as batch work and are let
 * through by what they show (AGE_GATE wakeups). The bucket is kept as one
 * instant, at which it will be full again (the generic cell rate algorithm,
 * ITU-T I.371).
 *
 * Limits:
 *   - The bucket is that of a domain, not of a user or a program. A program
 *     that is served before batch work itself and forks without a pause takes
 *     all tokens, and a start beside it begins as batch work. 4 CPUs give 200
 *     tokens a second.
 *   - A token buys a head start, not CPU time: an admitted task is served
 *     before batch work for HEAD_START_FIRST_RUN_NS (vtime.h) ahead of the
 *     clock, or until it has woken AGE_GATE times.
 *   - A child that is moved to another domain keeps the token of the one that
 *     it was forked in.
 *
 * Not here: which tasks ask for a token (place.bpf.c).
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
