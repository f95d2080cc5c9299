/* SPDX-License-Identifier: GPL-2.0 */
/*
 * claim: who may take a CPU, and is a task on its way there?
 *
 * Problem: between the moment in which a wakeup chooses a CPU and that in which
 * its task begins to run there, the CPU looks free to others, in one way or
 * another. A second task that is given it waits for all that the first one
 * does. And what ran there when the CPU was chosen may not run there any more.
 *
 * How: one word of a CPU says what it offers, and to which task it was granted,
 * when, and whether that task will be brief. A wakeup reads it, decides, and
 * takes the CPU by a compare-and-swap: if the CPU switched meanwhile, or was
 * granted to another task, the word is another. A grant ends when its task
 * begins to run, or GRANT_MAX_NS later: the task may have gone elsewhere.
 *
 *	bits	0-2	what the CPU offers, enum claim_offer
 *		3-24	pid of the task that it was granted to; 0: none
 *		25	that will be brief
 *		26-63	when, in units of 1.024 us
 *
 * Limits:
 *   - A grant may end two units sooner.
 *   - The time wraps after 3.2 days: a grant that was left behind is pending
 *	again for 0.4 ms then.
 *   - A switch is seen once the CPU says so, and if its offer is another.
 *
 * Not here: who claims, and what goes before what (preempt.bpf.h).
 */
#ifndef __POLICY_CLAIM_H
#define __POLICY_CLAIM_H

#include "types.h"

enum claim_offer {
	CLAIM_IDLE = 0,	   /* no task of ours runs: it may be granted as idle */
	CLAIM_BUSY = 1,	   /* what runs makes room for none, or was claimed */
	CLAIM_OFFERED = 2, /* this and the tier of what runs, which may */
	CLAIM_CLOSED = 7,  /* the CPU is about to write another */
};

enum claim_consts {
	/* How long a task may be on its way. */
	GRANT_MAX_NS = 200 * NSEC_PER_USEC,
	CLAIM_OFFER_MASK = 7,
	CLAIM_PID_SHIFT = 3,
	CLAIM_PID_BITS = 22, /* what the kernel's PID_MAX_LIMIT takes */
	CLAIM_BRIEF_SHIFT = CLAIM_PID_SHIFT + CLAIM_PID_BITS,
	CLAIM_TIME_SHIFT = CLAIM_BRIEF_SHIFT + 1,
	CLAIM_UNIT_SHIFT = 10, /* of ns to a unit of time */
};

/* Return the word of a CPU that was granted to the task of @pid at @now. */
static inline u64 claim_grant(u32 pid, bool is_brief, u64 now, u32 offer)
{
	return (now >> CLAIM_UNIT_SHIFT) << CLAIM_TIME_SHIFT |
	       (u64)is_brief << CLAIM_BRIEF_SHIFT |
	       (u64)pid << CLAIM_PID_SHIFT | offer;
}

/* Return what the CPU of @word offers. */
static inline u32 claim_offer(u64 word)
{
	return word & CLAIM_OFFER_MASK;
}

/* Return @word with another offer. */
static inline u64 claim_with_offer(u64 word, u32 offer)
{
	return (word & ~(u64)CLAIM_OFFER_MASK) | offer;
}

/* Return the pid of the task that the CPU of @word was granted to; 0: none. */
static inline u32 claim_pid(u64 word)
{
	return word >> CLAIM_PID_SHIFT & ((1U << CLAIM_PID_BITS) - 1);
}

/* Return whether the task that the CPU of @word was granted to is brief. */
static inline bool claim_is_brief(u64 word)
{
	return word >> CLAIM_BRIEF_SHIFT & 1;
}

/*
 * Return whether a task may be on its way to the CPU of @word at @now, which
 * may be of a clock that is behind; by GRANT_MAX_NS or more, it is over.
 */
static inline bool claim_is_pending(u64 word, u64 now)
{
	const u64 max = (u64)(GRANT_MAX_NS >> CLAIM_UNIT_SHIFT)
			<< CLAIM_TIME_SHIFT;
	u64 then = word >> CLAIM_TIME_SHIFT << CLAIM_TIME_SHIFT;
	u64 age = claim_grant(0, false, now, 0) - then;

	return claim_pid(word) && age + max < 2 * max;
}

/*
 * Return @word at @now without its grant if that ended: the task of @pid begins
 * to run there, or the other one did not come.
 */
static inline u64 claim_arrived(u64 word, u32 pid, u64 now)
{
	bool is_other = claim_pid(word) != pid && claim_is_pending(word, now);

	return is_other ? word : claim_offer(word);
}

#endif /* __POLICY_CLAIM_H */
