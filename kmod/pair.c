// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: socketpair(): two ends that have met before anybody has them.
 */
#include <linux/err.h>
#include <linux/net.h>
#include <linux/security.h>

#include "bootstrap.h"
#include "conn.h"
#include "opts.h"
#include "pair.h"
#include "rendezvous.h"
#include "state.h"

/* A connection of the two, or the reason why there is none. */
static struct l5_conn *l5_pair_conn(struct l5_sock *a, struct l5_sock *b,
				    enum l5_reason *why)
{
	struct l5_conn *conn;

	*why = l5_why_not(a) ?: l5_why_not(b);
	if (*why)
		return NULL;
	conn = l5_rdv_prepare(a);
	if (!IS_ERR(conn)) {
		l5_conn_meet(conn, b);
		return conn;
	}
	*why = PTR_ERR(conn) == -EDQUOT ? L5_REASON_LIMIT : L5_REASON_NOMEM;
	return NULL;
}

static void l5_pair_connected(struct l5_sock *l5, enum l5_reason why)
{
	l5_boot_label(l5);
	l5_opts_pull(l5);
	l5_set_state(l5, l5->conn ? L5_RINGS : L5_BASE, why);
	l5->sk.sk_socket->state = SS_CONNECTED;
}

/**
 * l5_socketpair() - connect two fresh sockets
 * @one: a socket that no task has yet
 * @other: likewise
 *
 * Their bootstraps are a pair, too. Both ends are paid for by the current task.
 *
 * Context: may sleep.
 * Return: 0, or as the bootstrap's socketpair(): -EOPNOTSUPP for TCP.
 */
int l5_socketpair(struct socket *one, struct socket *other)
{
	struct l5_sock *a = l5_sk(one->sk), *b = l5_sk(other->sk);
	struct l5_conn *conn;
	enum l5_reason why;
	int err;

	/* socketpair() has asked about ours alone */
	err = security_socket_socketpair(a->boot, b->boot);
	if (!err)
		err = a->boot->ops->socketpair(a->boot, b->boot);
	if (err)
		return err;
	conn = l5_pair_conn(a, b, &why);
	if (conn) {
		refcount_inc(&conn->ref);
		a->end = L5_CLIENT;
		a->conn = conn;
		l5_conn_attach(conn, L5_SERVER, b);
	}
	l5_pair_connected(a, why);
	l5_pair_connected(b, why);
	return 0;
}
