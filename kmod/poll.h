/* SPDX-License-Identifier: GPL-2.0 */
/* poll() */
#ifndef L5_POLL_H
#define L5_POLL_H

#include <linux/poll.h>

struct socket;

__poll_t l5_poll(struct file *file, struct socket *sock, poll_table *wait);

#endif /* L5_POLL_H */
