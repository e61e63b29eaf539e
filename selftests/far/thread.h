/* SPDX-License-Identifier: GPL-2.0 */
#ifndef L5_TEST_THREAD_H
#define L5_TEST_THREAD_H

struct l5_transport_ops;

extern const struct l5_transport_ops l5_thread_transport;

#endif /* L5_TEST_THREAD_H */
