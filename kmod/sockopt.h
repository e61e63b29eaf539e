/* SPDX-License-Identifier: GPL-2.0 */
/* setsockopt() and getsockopt(). */
#ifndef L5_SOCKOPT_H
#define L5_SOCKOPT_H

#include <linux/net.h>

int l5_setsockopt(struct socket *sock, int level, int optname, sockptr_t optval,
		  unsigned int optlen);
int l5_getsockopt(struct socket *sock, int level, int optname,
		  char __user *optval, int __user *optlen);

#endif /* L5_SOCKOPT_H */
