/* SPDX-License-Identifier: GPL-2.0 */
/* AF_L5 sockets by a protocol of AF_INET and AF_INET6. */
#ifndef L5_PROTOSW_H
#define L5_PROTOSW_H

#include "l5.h"

void l5_protosw_release(struct sock *sk);
bool l5_protosw_valid(void);
void l5_protosw_init(const struct proto_ops *ops);
void l5_protosw_exit(void);

#endif /* L5_PROTOSW_H */
