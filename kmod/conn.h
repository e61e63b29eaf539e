/* SPDX-License-Identifier: GPL-2.0 */
/* A connection: its memory, its geometry, its end. */
#ifndef L5_KMOD_CONN_H
#define L5_KMOD_CONN_H

#include "l5.h"

struct l5_conn *l5_conn_make(const struct l5_payer *payer);
void l5_conn_put(struct l5_conn *conn);
void l5_conn_hold(struct l5_conn *conn);
void l5_conn_let_go(struct l5_conn *conn);
void l5_conn_revoke_later(struct l5_conn *conn);
struct page *l5_conn_page(struct l5_conn *conn, int end);
void l5_conn_page_free(struct l5_conn *conn, int end, struct page *page);
void l5_conn_fix(struct l5_conn *conn, u32 client, u32 server);
void l5_conn_begin(struct l5_conn *conn);
void l5_conn_meet(struct l5_conn *conn, struct l5_sock *server);
void l5_conn_pair(struct l5_conn *conn, struct l5_sock *listener);
void l5_conn_accepted(struct l5_conn *conn, struct l5_net *ln);
void l5_conn_wishes(struct l5_conn *conn, const struct sock *sk);
u32 l5_conn_wish(const struct l5_conn *conn, bool tx);
void l5_conn_attach(struct l5_conn *conn, int end, struct l5_sock *l5);
void l5_conn_closed(struct l5_conn *conn, int closed);
bool l5_conn_close(struct l5_sock *l5, bool reset);
void l5_conn_fin(struct l5_sock *l5);

#endif /* L5_KMOD_CONN_H */
