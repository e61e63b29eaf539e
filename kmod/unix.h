/* SPDX-License-Identifier: GPL-2.0 */
/* AF_UNIX as a bootstrap. */
#ifndef L5_UNIX_H
#define L5_UNIX_H

#include "bootstrap.h"

extern const struct l5_boot_ops l5_unix_boot;

int l5_unix_init(void);
void l5_unix_exit(void);

#endif /* L5_UNIX_H */
