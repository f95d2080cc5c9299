/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timer that rests until it is needed, and again once it has fired. Any CPU
 * may arm it: if it is armed already, then for something that came earlier.
 *
 * The callback says that it has fired before it looks at what there is to do:
 * what comes after that look arms the timer again.
 */
#ifndef __LAZY_TIMER_H
#define __LAZY_TIMER_H

#include <scx/common.bpf.h>

struct lazy_timer {
	struct bpf_timer timer;
	u32 is_armed;
};

/* Let @lazy fire in @left_ns. If the kernel cannot start it, it rests. */
static __always_inline void lazy_timer_arm(struct lazy_timer *lazy, u64 left_ns)
{
	if (READ_ONCE(lazy->is_armed))
		return;
	WRITE_ONCE(lazy->is_armed, 1);
	if (bpf_timer_start(&lazy->timer, left_ns, 0))
		WRITE_ONCE(lazy->is_armed, 0);
}

/* @lazy has fired. */
static __always_inline void lazy_timer_fired(struct lazy_timer *lazy)
{
	WRITE_ONCE(lazy->is_armed, 0);
}

#endif /* __LAZY_TIMER_H */
