// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: listeners that want bytes before there is a connection, by
 * TCP_DEFER_ACCEPT.
 *
 * Such a listener drops the last packet of the handshake. It makes the child
 * when the first bytes come, or once it has waited for long enough. Until then
 * there is nobody to meet, and nobody to wait for: connect() is back, and the
 * meeting stays open.
 *
 * The first bytes go both ways: into the ring, and then over TCP, which makes
 * the child of them as of any other client's. If the child finds the meeting,
 * and all of the bytes came with the packet that made it, the two are paired:
 * accept() drops what TCP has brought, and the ring has it; whoever accepts the
 * connection finds it there, since it was there before the child. Else TCP has
 * carried the bytes, or will, and goes on. To the listener a client is at no
 * time another than one of TCP.
 *
 * So TCP brings nothing to a child that reads from a ring, ever. A copy that
 * could come later would have to be kept from everything that asks TCP whether
 * there is something to read, or to answer by a reset. It would be late if the
 * listener has waited for long enough while the bytes are under way, or lost:
 * then the child is made of an acknowledgment alone, and both stay on TCP. No
 * more than what one packet takes goes both ways, so that it comes at once.
 */
#include <linux/sizes.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "l5.h"

/* Most that is sent twice, bytes. */
#define L5_DEFER_MAX	SZ_16K

/*
 * How long a call that may wait does so for the child, which as a rule is there
 * when the packet was sent. A listener whose queue is full makes none.
 */
#define L5_DEFER_PATIENCE	(HZ / 20)

/* What TCP alone can do. */
#define L5_DEFER_NOT	(MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)

static void l5_defer_stay(struct l5_sock *l5, enum l5_reason why)
{
	mutex_lock(&l5->lock);
	l5_meet_stay(l5, why);
	mutex_unlock(&l5->lock);
}

/* Over TCP, at once, whatever an option says of bytes that are few. */
static int l5_defer_push(struct l5_sock *l5, struct kvec *vec)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct sock *bsk = l5->boot->sk;
	bool corked;
	int n;

	n = kernel_sendmsg(l5->boot, &msg, vec, 1, vec->iov_len);
	lock_sock(bsk);
	corked = tcp_sk(bsk)->nonagle & TCP_NAGLE_CORK;
	release_sock(bsk);
	if (corked) {
		tcp_sock_set_cork(bsk, false);
		tcp_sock_set_cork(bsk, true);
	}
	return n;
}

/* Into the ring, which has nobody to read it so far. */
static int l5_defer_write(struct l5_sock *l5, struct kvec *vec)
{
	struct iov_iter iter;
	long timeo = 0;
	int n = 0, err;

	iov_iter_kvec(&iter, L5_ITER_SOURCE, vec, 1, vec->iov_len);
	err = l5_ring_lock(l5, L5_LOCK_TX, &timeo);
	if (err)
		return err;
	do {
		err = l5_ring_write(l5, &iter);
		if (err > 0)
			n += err;
	} while (err > 0 && iov_iter_count(&iter));
	l5_ring_unlock(l5, L5_LOCK_TX);
	return n ?: err;
}

/*
 * Both ways, if that still is to be. Under the socket's lock, so that the rings
 * stay; so nothing here may wait for a page of somebody's memory.
 *
 * Return: bytes that are in the ring, 0 if there is nothing to wait for.
 */
static int l5_defer_both(struct l5_sock *l5, struct kvec *vec, int *sent)
{
	int n;

	lockdep_assert_held(&l5->lock);
	if (!l5_meet_first(l5, vec->iov_len))
		return 0;
	n = l5_defer_write(l5, vec);
	if (n <= 0) {
		l5_meet_stay(l5, L5_REASON_NOMEM);
		return 0;
	}
	vec->iov_len = n;
	/* before the packet: no child has been paired that is made without */
	WRITE_ONCE(l5->conn->twice, n);
	*sent = l5_defer_push(l5, vec);
	return n;
}

/**
 * l5_defer_send() - send the first bytes to a listener that waits for them
 * @l5: a client whose listener does
 * @msg: what and how, advanced by what was sent
 *
 * Afterwards it is decided what carries the bytes.
 *
 * Context: may sleep.
 * Return: bytes sent, 0 if there is no such listener (any more), or an error.
 */
int l5_defer_send(struct l5_sock *l5, struct msghdr *msg)
{
	size_t most = min_t(size_t, READ_ONCE(tcp_sk(l5->boot->sk)->mss_cache),
			    L5_DEFER_MAX);
	struct kvec vec;
	int sent = 0, got, n;

	if (msg->msg_flags & L5_DEFER_NOT) {
		l5_defer_stay(l5, L5_REASON_OPTION);
		return 0;
	}
	vec.iov_len = min(msg_data_left(msg), most);
	vec.iov_base = kvmalloc(vec.iov_len, GFP_KERNEL_ACCOUNT);
	if (!vec.iov_base)
		return -ENOBUFS;
	got = copy_from_iter(vec.iov_base, vec.iov_len, &msg->msg_iter);
	vec.iov_len = got;
	n = got ? mutex_lock_interruptible(&l5->lock) : -EFAULT;
	if (!n) {
		n = l5_defer_both(l5, &vec, &sent);
		mutex_unlock(&l5->lock);
	}
	kvfree(vec.iov_base);
	if (n > 0) {
		l5_wait_decided(l5, msg->msg_flags & MSG_DONTWAIT ? 0 :
				    L5_DEFER_PATIENCE);
		l5_defer_stay(l5, L5_REASON_TIMEOUT);
		/* what the ring has, or what TCP took */
		if (l5_state(l5) != L5_SHM)
			n = max(sent, 0);
	}
	iov_iter_revert(&msg->msg_iter, got - max(n, 0));
	return n;
}

/**
 * l5_defer_recv() - wait until a listener that waits does so no more
 * @l5: a client, perhaps of such a listener
 * @timeo: how long, jiffies
 *
 * What TCP has to say meanwhile is not the listener's: then TCP goes on.
 *
 * Return: as l5_wait_decided().
 */
long l5_defer_recv(struct l5_sock *l5, long timeo)
{
	while (l5_deferred(l5)) {
		long left;

		if (l5_boot_readable(l5, 0)) {
			l5_defer_stay(l5, L5_REASON_PEER);
			break;
		}
		if (!timeo)
			return -EAGAIN;
		left = wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
							!l5_deferred(l5) ||
							l5_boot_readable(l5, 0),
							timeo);
		if (left < 0)
			return sock_intr_errno(timeo);
		timeo = left;
	}
	return 0;
}

/**
 * l5_defer_drop() - drop of the first bytes what TCP has brought
 * @l5: a socket that is being accepted, and paired
 *
 * All of it came with the packet that made the child, which held the child's
 * lock until it was queued. Not by kernel_recvmsg(): a security module that
 * does not let the task read is not asked, as nothing is read.
 *
 * Context: may sleep.
 */
void l5_defer_drop(struct l5_sock *l5)
{
	u32 left = l5->conn->twice;
	int n;

	while (left) {
		struct msghdr msg = { };

		n = l5->boot->ops->recvmsg(l5->boot, &msg, left,
					   MSG_DONTWAIT | MSG_TRUNC);
		if (n <= 0)
			break;
		left -= min_t(u32, n, left);
	}
}
