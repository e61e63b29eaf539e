// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: accept(): the bootstrap's next child, and the meeting it may have had.
 */
#include <linux/net.h>
#include <net/tcp_states.h>

#include "accept.h"
#include "bootstrap.h"
#include "conn.h"
#include "defer.h"
#include "netns.h"
#include "opts.h"
#include "rendezvous.h"
#include "sock.h"
#include "state.h"
#include "transport.h"

/* Is it certain that there is nothing to accept? */
static bool l5_accept_empty(const struct l5_sock *l5)
{
	return READ_ONCE(l5->boot->sk->sk_state) == TCP_LISTEN &&
	       l5->bops->accept_empty(l5);
}

/* Take the meeting, if there was one, and say what carries the bytes. */
static void l5_accepted(struct l5_sock *l5, struct l5_sock *listener,
			struct l5_conn *conn)
{
	enum l5_reason why;

	if (conn && conn->paired) {
		l5_conn_accepted(conn, l5->ln);
		l5_conn_attach(conn, L5_SERVER, l5);
		l5_set_state(l5, L5_RINGS, L5_REASON_NONE);
		/* an option of the listener's may be for its peer to know */
		l5_opts_push(l5);
		l5_defer_drop(l5);
		return;
	}
	why = l5_why_not(listener) ?: READ_ONCE(l5->nopair);
	if (!why && conn)
		why = conn->reason;
	l5_set_state(l5, L5_BASE, why ?: L5_REASON_PEER);
	if (conn)
		l5_conn_put(conn);
	if (!why || why == L5_REASON_PEER)
		l5_transport_accepted(l5, listener);
}

/**
 * l5_accept() - accept the bootstrap's next child and the meeting it may have
 * had
 * @sock: the listener
 * @newsock: what becomes of the child
 * @L5_ACCEPT_ARGS: flags, or a structure with these, by version of the kernel
 *
 * Context: may sleep.
 * Return: 0 or -errno, as of the bootstrap.
 */
int l5_accept(struct socket *sock, struct socket *newsock, L5_ACCEPT_ARGS)
{
	struct l5_sock *listener = l5_sk(sock->sk), *l5;
	const struct proto_ops *ops = listener->boot->ops;
	struct l5_conn *conn;
	struct socket *boot;
	int err;

	if (L5_ACCEPT_FLAGS & O_NONBLOCK && l5_accept_empty(listener))
		return -EAGAIN;

	l5_opts_push(listener);
	l5 = l5_sock_alloc(sock_net(&listener->sk), NULL, 0);
	if (!l5)
		return -ENOBUFS;
	l5->bops = listener->bops;
	l5->sk.sk_type = listener->sk.sk_type;
	err = sock_create_lite(listener->boot->sk->sk_family,
			       listener->boot->sk->sk_type,
			       listener->boot->sk->sk_protocol, &boot);
	if (err)
		goto err_sock;
	boot->ops = ops;
	__module_get(ops->owner);
	l5_boot_lend(boot, newsock);
	err = ops->accept(listener->boot, boot, L5_ACCEPT_PASS);
	if (err)
		goto err_boot;

	conn = l5_rdv_accept(listener, boot->sk);
	sock_graft(&l5->sk, newsock);
	l5_custom_sockopt(newsock);
	l5_boot_attach(l5, boot, newsock);
	l5_opts_inherit(l5, listener);
	l5_boot_label(l5);
	l5_accepted(l5, listener, conn);
	l5_net_add(l5);
	newsock->state = SS_CONNECTED;
	return 0;

err_boot:
	l5_boot_end(boot);
err_sock:
	sock_put(&l5->sk);
	l5_boot_error(listener);
	return err;
}
