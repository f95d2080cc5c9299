/* SPDX-License-Identifier: GPL-2.0 */
/*
 * types: fixed-width integers for the pure headers
 *
 * The headers of this directory are compiled twice, into BPF and natively into
 * unit tests, so they may use nothing but these types.
 */
#ifndef __POLICY_TYPES_H
#define __POLICY_TYPES_H

#ifndef __VMLINUX_H__
#include "../intf.h"
#endif

#ifndef __cplusplus
#include <stdbool.h>
#endif

#endif /* __POLICY_TYPES_H */
