/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timer that rests until it is needed, and again once it has fired. Any CPU
 * may arm it: if it is armed already, then for something that came earlier.
 *
 * The callback says that it has fired before it looks at what there is to do:
 * what comes after that look arms the timer again. It may miss a task that came
 * just before, since the kernel queues it after ops.enqueue(). So the callback
 * arms the timer again if it was asked for in the last moment.
 * Either the CPU that asks sees that the timer has fired, or the callback sees
 * that it was asked for.
 */
#ifndef __LAZY_TIMER_H
#define __LAZY_TIMER_H

#include <scx/common.bpf.h>

enum lazy_timer_consts {
	/* A task is queued this long after ops.enqueue() at the latest. */
	LAZY_TIMER_QUEUED_NS = 100 * NSEC_PER_USEC,
};

struct lazy_timer {
	struct bpf_timer timer;
	u32 is_armed;
	/* When it was last asked for while it was armed. */
	u64 asked_at;
};

/* Let @lazy fire in @left_ns. If the kernel cannot start it, it rests. */
static __always_inline void lazy_timer_arm(struct lazy_timer *lazy, u64 left_ns)
{
	if (READ_ONCE(lazy->is_armed)) {
		__sync_lock_test_and_set(&lazy->asked_at, scx_bpf_now());
		if (READ_ONCE(lazy->is_armed))
			return;
	}
	WRITE_ONCE(lazy->is_armed, 1);
	if (bpf_timer_start(&lazy->timer, left_ns, 0))
		WRITE_ONCE(lazy->is_armed, 0);
}

/* @lazy has fired. Asked for just before, it fires again in @left_ns. */
static __always_inline void lazy_timer_fired(struct lazy_timer *lazy,
					     u64 left_ns)
{
	__sync_lock_test_and_set(&lazy->is_armed, 0);
	if ((s64)(scx_bpf_now() - READ_ONCE(lazy->asked_at)) <
	    (s64)LAZY_TIMER_QUEUED_NS)
		lazy_timer_arm(lazy, left_ns);
}

#endif /* __LAZY_TIMER_H */
