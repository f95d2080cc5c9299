/* SPDX-License-Identifier: GPL-2.0 */
/* waker: does a task or an interrupt wake a task? See waker.bpf.h. */
#include "waker.bpf.h"
#include <bpf_experimental.h>

enum waker_consts {
	/* Until the soft timer expires: the loader sleeps or spins by then. */
	SOFT_TIMER_NS = 500 * NSEC_PER_USEC,
};

/*
 * Bits of preempt_count: set in a sample of a task, and in all samples of a
 * hardirq and of a softirq. Read by the loader.
 */
u32 waker_task_bits;
u32 waker_hardirq_bits = ~0U;
u32 waker_softirq_bits = ~0U;

/* The bits that an interrupt sets, found by the loader; 0: unknown. */
u32 waker_irq_mask;

struct waker_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct waker_timer);
	__uint(max_entries, 1);
} waker_timers SEC(".maps");

static int ignore_timer(void *map, u32 *key, struct waker_timer *value)
{
	return 0;
}

/* Sample a task, the loader, and start a soft timer. Return 0 or an error. */
SEC("?syscall")
int waker_sample_task(void *ctx)
{
	struct waker_timer *timer;
	u32 key = 0;

	__sync_fetch_and_or(&waker_task_bits, get_preempt_count());
	timer = bpf_map_lookup_elem(&waker_timers, &key);
	if (!timer)
		return -ENOENT;
	/* It was initialized before, unless this is the first sample. */
	bpf_timer_init(&timer->timer, &waker_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, ignore_timer);
	if (bpf_timer_start(&timer->timer, SOFT_TIMER_NS, 0))
		return -EINVAL;
	return 0;
}

SEC("?tp_btf/hrtimer_expire_entry")
int BPF_PROG(waker_sample_interrupt, struct hrtimer *hrtimer)
{
	u32 bits = get_preempt_count();

	if (BPF_CORE_READ_BITFIELD_PROBED(hrtimer, is_soft))
		__sync_fetch_and_and(&waker_softirq_bits, bits);
	else
		__sync_fetch_and_and(&waker_hardirq_bits, bits);
	return 0;
}

__hidden struct task_ctx *waker_ctx(const struct cpu_ctx *cpuc)
{
	struct task_struct *curr = (void *)bpf_get_current_task_btf();

	if (!waker_irq_mask || (get_preempt_count() & waker_irq_mask) ||
	    !cpuc->account.is_busy || (curr->flags & PF_EXITING))
		return NULL;
	return try_lookup_task(curr);
}
