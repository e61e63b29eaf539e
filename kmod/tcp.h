/* SPDX-License-Identifier: GPL-2.0 */
/* TCP as a bootstrap. */
#ifndef L5_TCP_H
#define L5_TCP_H

#include "bootstrap.h"

extern const struct l5_boot_ops l5_tcp4_boot;
extern const struct l5_boot_ops l5_tcp6_boot;

#endif /* L5_TCP_H */
