/* SPDX-License-Identifier: GPL-2.0 */
/* How two ends of a connection find each other. */
#ifndef L5_RENDEZVOUS_H
#define L5_RENDEZVOUS_H

#include "l5.h"

struct l5_conn *l5_rdv_prepare(struct l5_sock *client);
void l5_rdv_note(u32 isn, bool defer);
bool l5_rdv_first(struct l5_sock *l5, u32 len);
void l5_rdv_established(struct l5_sock *l5);
void l5_rdv_child(struct l5_sock *listener, struct sock *child,
		  const struct sk_buff *skb);
void l5_rdv_unix_open(struct l5_sock *l5);
void l5_rdv_unix_connected(struct l5_sock *l5, struct l5_sock *listener,
			   struct sock *child);
struct l5_conn *l5_rdv_unix_accept(struct l5_sock *listener,
				   struct sock *child);
struct l5_conn *l5_rdv_accept(struct l5_sock *listener, struct sock *child);
void l5_rdv_stay(struct l5_sock *l5, enum l5_reason why);
void l5_rdv_cancel(struct l5_sock *l5);
void l5_rdv_reopen(struct l5_sock *listener);
void l5_rdv_close(struct l5_sock *listener);

#endif /* L5_RENDEZVOUS_H */
