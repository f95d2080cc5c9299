/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timer that rests until it is needed, and again once it has fired. Any CPU
 * may arm it, and it fires for the one that wants it first.
 *
 * The callback says that it has fired before it looks at what there is to do:
 * what comes after that look arms the timer again. It may miss a task that came
 * just before, since the kernel queues it after ops.enqueue(). So a CPU says
 * when it asks before it looks whether the timer is armed, and the callback
 * arms it again if that was in the last moment.
 */
#ifndef __LAZY_TIMER_H
#define __LAZY_TIMER_H

#include <scx/common.bpf.h>

enum lazy_timer_consts {
	/* A task is usually queued within this time of ops.enqueue(). */
	LAZY_TIMER_QUEUED_NS = 100 * NSEC_PER_USEC,
};

struct lazy_timer {
	struct bpf_timer timer;
	/* 0: it rests. */
	u64 fires_at;
	u64 asked_at;
};

/* Let @lazy fire in @left_ns. If the kernel cannot start it, it rests. */
static __always_inline void lazy_timer_arm(struct lazy_timer *lazy, u64 left_ns)
{
	u64 now = scx_bpf_now(), armed_for;

	__sync_lock_test_and_set(&lazy->asked_at, now);
	armed_for = READ_ONCE(lazy->fires_at);
	if (armed_for && (s64)(armed_for - now) <= (s64)left_ns)
		return;
	WRITE_ONCE(lazy->fires_at, now + left_ns);
	if (bpf_timer_start(&lazy->timer, left_ns, 0))
		WRITE_ONCE(lazy->fires_at, 0);
}

/* @lazy has fired. Asked for just before, it fires again in @left_ns. */
static __always_inline void lazy_timer_fired(struct lazy_timer *lazy,
					     u64 left_ns)
{
	s64 since_ns;

	__sync_lock_test_and_set(&lazy->fires_at, 0);
	since_ns = scx_bpf_now() - READ_ONCE(lazy->asked_at);
	if (since_ns < (s64)LAZY_TIMER_QUEUED_NS)
		lazy_timer_arm(lazy, left_ns);
}

#endif /* __LAZY_TIMER_H */
