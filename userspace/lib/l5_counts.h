/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many transports, reasons and the like uapi/l5.h numbers, as far as is
 * known here. A kernel may have more, so uapi/l5.h does not say it.
 */
#ifndef L5_COUNTS_H
#define L5_COUNTS_H

#include "../../uapi/l5.h"

#define L5PROTO_MAX		(L5PROTO_UNIX + 1)
#define L5_TRANSPORT_MAX	(L5_TRANSPORT_RDMA + 1)
#define L5_REASON_COUNT(code, name, text)	+ 1
#define L5_REASON_MAX		(0 L5_REASONS(L5_REASON_COUNT))

#endif /* L5_COUNTS_H */
