// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: SOCK_SEQPACKET: messages by system call.
 *
 * A message is a record, so it is published whole or not at all, whatever
 * becomes of its sender, and its reader finds where it ends. It is taken while
 * no more than half of the ring is in use, and is no longer than the other
 * half: so its length says nothing about whether it has to wait.
 *
 * What a call is told, and in which order, is AF_UNIX's: an error comes before
 * the messages that are there, EPIPE raises no signal, an address says nothing.
 */
#include <net/sock.h>

#include "answer.h"
#include "bootstrap.h"
#include "end.h"
#include "files.h"
#include "link.h"
#include "lock.h"
#include "packet.h"
#include "ring.h"
#include "state.h"
#include "wait.h"

/* Take the error that there is, as a datagram socket does before all else. */
static int l5_packet_error(struct l5_sock *l5)
{
	int err;

	if (likely(!READ_ONCE(l5->boot->sk->sk_err) &&
		   !READ_ONCE(l5->sk.sk_err)))
		return 0;
	l5_boot_error(l5);
	err = sock_error(l5->boot->sk) ?: sock_error(&l5->sk);
	l5_boot_error(l5);
	if (err)
		set_bit(L5_END_TOLD, &l5_own(l5)->flags);
	return err;
}

static bool l5_packet_tx_ready(struct l5_sock *l5, const struct msghdr *files)
{
	return l5_tx_ended(l5) ||
	       (l5_ring_takes(l5) && (!files || l5->bops->files->room(l5)));
}

static int l5_packet_send_check(struct l5_sock *l5, struct msghdr *msg,
				struct msghdr *files, size_t len)
{
	int err = l5_packet_error(l5);

	if (!err && unlikely(files))
		err = l5->bops->pass_check(l5, files);
	if (err)
		return err;
	if (msg->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	msg->msg_namelen = 0;
	err = l5->bops->send_check(l5, msg);
	if (err)
		return err;
	return len > l5_ring_message_max(l5) ? -EMSGSIZE : 0;
}

/*
 * Publish it, if there is room. Return: *@got: whether the lock was to be had;
 * if not, nobody has looked, and the error is the call's.
 */
static ssize_t l5_packet_try_send(struct l5_sock *l5, struct msghdr *msg,
				  struct l5_files *f, long *timeo, bool *got)
{
	ssize_t n = l5_ring_lock(l5, L5_LOCK_TX, timeo);

	*got = !n;
	if (n)
		return n;
	if (l5_tx_ended(l5))
		n = -EPIPE;
	else
		n = l5_ring_write_whole(l5, &msg->msg_iter,
					l5_files_now(l5, f));
	l5_ring_unlock(l5, L5_LOCK_TX);
	return n;
}

static int l5_packet_send(struct l5_sock *l5, struct msghdr *msg, size_t len,
			  struct l5_files *f)
{
	long timeo = sock_sndtimeo(&l5->sk, msg->msg_flags & MSG_DONTWAIT);
	struct l5_rounds rounds = { };
	bool got;
	ssize_t n;

	n = l5_packet_send_check(l5, msg, l5_files_now(l5, f), len);
	if (n)
		return n;
	while ((n = l5_packet_try_send(l5, msg, f, &timeo,
				       &got)) == -EAGAIN && got) {
		/* a call that may not wait has armed it for an edge */
		sk_set_bit(SOCKWQ_ASYNC_NOSPACE, &l5->sk);
		n = l5_again(&rounds, &timeo) ?: l5_files_wait(f);
		if (!n)
			n = l5_sleep(l5, &timeo, l5_link_arm_tx,
				     l5_packet_tx_ready(l5,
							l5_files_now(l5, f)));
		if (!n)
			n = l5_files_wait(f);
		if (n)
			return n;
	}
	if (n == -EPROTO)
		l5_ring_violation(l5);
	if (n == -EPIPE || n == -ESHUTDOWN)
		return l5_tx_answer(l5, msg->msg_flags | MSG_NOSIGNAL);
	return n;
}

/**
 * l5_packet_sendmsg() - send a message
 * @l5: a socket of type SOCK_SEQPACKET that writes to a ring
 * @msg: what, and how
 * @len: bytes in it; 0 is a message as well
 *
 * Context: may sleep.
 * Return: @len, or -errno: -EMSGSIZE if it is longer than half of the
 * ring.
 */
int l5_packet_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	struct l5_files f;
	int ret;

	l5_files_init(&f, msg);
	ret = l5_packet_send(l5, msg, len, &f);
	l5_files_drop(&f);
	return ret;
}

/* The sender has the name that the bootstrap's peer has. */
static void l5_packet_name(struct l5_sock *l5, struct msghdr *msg)
{
	int n;

	if (!msg->msg_name)
		return;
	n = l5->boot->ops->getname(l5->boot, msg->msg_name, 1);
	/* AF_UNIX says nothing of a peer that has none */
	if (n > (int)sizeof(sa_family_t))
		msg->msg_namelen = n;
}

/*
 * Return: bytes of the message at the head, copied or not, or -errno; *@got as
 * of l5_packet_try_send().
 */
static ssize_t l5_packet_try_recv(struct l5_sock *l5, struct msghdr *msg,
				  size_t len, bool peek, long *timeo,
				  bool *got)
{
	ssize_t n = l5_ring_lock(l5, L5_LOCK_RX, timeo);

	*got = !n;
	if (n)
		return n;
	n = l5_ring_read_whole(l5, msg, len, peek);
	l5_ring_unlock(l5, L5_LOCK_RX);
	return n;
}

/* A message of so many bytes was received into room for @len. */
static int l5_packet_received(struct l5_sock *l5, struct msghdr *msg,
			      size_t len, size_t whole, int flags)
{
	l5_awaits_no_more(l5);
	l5_packet_name(l5, msg);
	if (whole > len) {
		msg->msg_flags |= MSG_TRUNC;
		return flags & MSG_TRUNC ? whole : len;
	}
	return whole;
}

static int l5_packet_recv(struct l5_sock *l5, struct msghdr *msg, size_t len,
			  int flags)
{
	long timeo = sock_rcvtimeo(&l5->sk, flags & MSG_DONTWAIT);
	size_t room = msg->msg_controllen;
	struct l5_rounds rounds = { };
	bool ended, got;
	ssize_t n;

	for (;;) {
		n = l5_packet_error(l5);
		if (n)
			return n;
		ended = l5_rx_ended(l5);
		n = l5_packet_try_recv(l5, msg, len, flags & MSG_PEEK, &timeo,
				       &got);
		if (n >= 0) {
			l5_files_told(l5, msg, room);
			return l5_packet_received(l5, msg, len, n, flags);
		}
		if (n == -EPROTO)
			l5_ring_violation(l5);
		/* it is not known to be empty, so this is no end */
		if (n == -EAGAIN && !got)
			return n;
		/* of a revocation the bootstrap tells, unless it is late */
		if (n != -EAGAIN &&
		    !(n == -ECONNRESET &&
		      test_bit(L5_END_REVOKED, &l5_own(l5)->flags)))
			return n;
		if (ended) {
			n = l5_rx_answer(l5, msg, len, flags);
			if (n != -EAGAIN)
				return n;
			n = l5_again(&rounds, &timeo);
		} else {
			n = l5_again(&rounds, &timeo) ?:
			    l5_wait_rx(l5, &timeo, true, 0);
		}
		if (n)
			return n;
	}
}

/**
 * l5_packet_recvmsg() - receive a message
 * @l5: a socket of type SOCK_SEQPACKET that reads from a ring
 * @msg: where to; gets MSG_TRUNC if the message is longer
 * @len: bytes of room
 * @flags: MSG_*
 *
 * Context: may sleep.
 * Return: bytes received, with MSG_TRUNC in @flags those of the message; 0 also
 * at the end; or -errno.
 */
int l5_packet_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
		      int flags)
{
	int ret;

	msg->msg_namelen = 0;
	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = l5_packet_recv(l5, msg, len, flags);
	l5_wait_next(l5);
	return ret;
}
