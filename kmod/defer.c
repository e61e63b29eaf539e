// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: listeners that want bytes before there is a connection, by
 * TCP_DEFER_ACCEPT.
 *
 * Such a listener drops the last packet of the handshake. It makes the child
 * when the first bytes come, or once it has waited for long enough. Until then
 * there is no child to meet, and none to wait for: connect() is back, and the
 * meeting stays open.
 *
 * The first bytes go both ways: into the ring, and then over TCP, which makes
 * the child from them as from any other client's bytes. If the child finds the
 * meeting, and all of the bytes came with the packet that made it, the two are
 * paired: accept() drops the bytes that TCP has brought, and the program that
 * accepts the connection finds them in the ring, since they were there before
 * the child. Else TCP has carried the bytes, or will, and goes on. At no time
 * does the listener see more than a client of TCP.
 *
 * So TCP never brings bytes to a child that reads from a ring. A copy that
 * could come later would have to be kept from all code that asks TCP whether
 * there is something to read, or something to answer by a reset. A copy would
 * come late if the listener has waited for long enough while the bytes are
 * under way, or lost: then the child is made from an acknowledgment alone, and
 * both stay on TCP. No more bytes than one packet takes go both ways, so that
 * they come at once.
 */
#include <linux/sizes.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "bootstrap.h"
#include "defer.h"
#include "lock.h"
#include "rendezvous.h"
#include "ring.h"
#include "state.h"

/* Most bytes that are sent twice. */
#define L5_DEFER_MAX	SZ_16K

/*
 * How long a call that may wait does so for the child. As a rule the child is
 * there when the packet was sent. A listener whose queue is full makes none.
 */
#define L5_DEFER_PATIENCE	(HZ / 20)

/* Flags that TCP alone can honour. */
#define L5_DEFER_NOT	(MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)

static void l5_defer_stay(struct l5_sock *l5, enum l5_reason why)
{
	mutex_lock(&l5->lock);
	l5_rdv_stay(l5, why);
	mutex_unlock(&l5->lock);
}

/* Send over TCP, at once, whatever an option says of few bytes. */
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

/* Write into the ring, which has no reader so far. */
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
		err = l5_ring_write(l5, &iter, NULL);
		if (err > 0)
			n += err;
	} while (err > 0 && iov_iter_count(&iter));
	l5_ring_unlock(l5, L5_LOCK_TX);
	return n ?: err;
}

/*
 * Send both ways, if the meeting is still open. Under the socket's lock, so
 * that the rings stay; so nothing here may wait for a page of a program's
 * memory.
 *
 * Return: bytes that are in the ring, 0 if there is nothing to wait for.
 */
static int l5_defer_both(struct l5_sock *l5, struct kvec *vec, int *sent)
{
	int n;

	lockdep_assert_held(&l5->lock);
	if (!l5_rdv_first(l5, vec->iov_len))
		return 0;
	n = l5_defer_write(l5, vec);
	if (n <= 0) {
		l5_rdv_stay(l5, L5_REASON_NOMEM);
		return 0;
	}
	vec->iov_len = n;
	/* before the packet: no child made without it has been paired */
	WRITE_ONCE(l5->conn->twice, n);
	*sent = l5_defer_push(l5, vec);
	return n;
}

/**
 * l5_defer_send() - send the first bytes to a listener that waits for them
 * @l5: a client whose listener waits
 * @msg: what to send and how, advanced by the bytes sent
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
		/* the bytes that the ring has, or those that TCP took */
		if (l5_state(l5) != L5_RINGS)
			n = max(sent, 0);
	}
	iov_iter_revert(&msg->msg_iter, got - max(n, 0));
	return n;
}

/**
 * l5_defer_recv() - wait until a listener waits no more for first bytes
 * @l5: a client, perhaps of such a listener
 * @timeo: how long, jiffies
 *
 * If TCP has something to say meanwhile it is not the listener's: then TCP goes
 * on.
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
 * l5_defer_drop() - drop the copy of the first bytes that TCP has brought
 * @l5: a socket that is being accepted, and paired
 *
 * All of the copy came with the packet that made the child, and the child's
 * lock was held until that was queued. Not by kernel_recvmsg(): it would ask a
 * security module that may not let the task read, but nothing is read here.
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
