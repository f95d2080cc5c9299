/* SPDX-License-Identifier: GPL-2.0 */
/*
 * topo: which CPUs share a cache?
 *
 * The loader reads the machine and fills the topology maps before it attaches;
 * here they become the contexts of CPUs and domains, with empty cpumasks.
 *
 * Not here: any choice between CPUs (place, preempt).
 */
#ifndef __TOPO_BPF_H
#define __TOPO_BPF_H

#include "context.bpf.h"

/* Build the masks of all domains. Return 0 or a negative error. */
s32 topo_init(void);

#endif /* __TOPO_BPF_H */
