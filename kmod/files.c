// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: descriptors and credentials that ride with a record.
 *
 * A ring carries bytes. What only the kernel can hand over goes through the
 * bootstrap, an AF_UNIX socket: so the kernel's own code looks the descriptors
 * up, counts them against the sender's limit, asks the security modules, and
 * installs them. The record says that there is something (L5_REC_FILES), and
 * the message in the bootstrap's queue says which record it belongs to, by the
 * record's position. It has no other bytes.
 *
 * The message is queued before the record is published, and both under the
 * sender's tx_lock; a reader takes the message under its rx_lock before it
 * takes the first byte of the record. So the two queues go in step. They do not
 * if a process wrote the flag, or moved a cursor, in what it has mapped: then
 * the positions differ, and the reader ends the connection.
 *
 * Credentials ride with a record if the sender states them, or if the receiver
 * asks for them (SO_PASSCRED). A receiver that asks from the beginning stays on
 * AF_UNIX, since each of its records costs such a message. If it asks later, its
 * peer sends by system calls from then on.
 *
 * It is for unix.c to say which descriptors may lie in a queue of a bootstrap.
 *
 * Locks: AF_UNIX's iolock and state lock are taken below tx_lock and rx_lock.
 */
#include <linux/highuid.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <net/af_unix.h>
#include <net/scm.h>
#include <net/sock.h>

#include "bootstrap.h"
#include "end.h"
#include "files.h"
#include "opts.h"

/**
 * l5_files() - does a send have anything that rides with its record?
 * @l5: a socket that writes to a ring
 * @msg: what it sends
 *
 * Context: any.
 * Return: @msg or NULL, for l5_ring_write().
 */
struct msghdr *l5_files(struct l5_sock *l5, struct msghdr *msg)
{
	if (likely(!msg->msg_controllen &&
		   !test_bit(L5_END_ASKS, &l5_peer(l5)->flags)))
		return NULL;
	return l5->bops->files_send ? msg : NULL;
}

/**
 * l5_files_rest() - the same of the records after a send's first
 * @l5: a socket that writes to a ring
 *
 * Descriptors go once, the receiver is told the sender each time.
 *
 * Context: any.
 * Return: a message without control messages, or NULL.
 */
struct msghdr *l5_files_rest(struct l5_sock *l5)
{
	static struct msghdr none;

	return l5_files(l5, &none);
}

/**
 * l5_files_asked() - a receiver may have been told to ask for the sender
 * @l5: a socket in any state
 * @asks: it does
 *
 * Context: any.
 */
void l5_files_asked(struct l5_sock *l5, bool asks)
{
	struct l5_end *own;

	if (l5_state(l5) != L5_RINGS)
		return;
	own = l5_own(l5);
	if (likely(test_bit(L5_END_ASKS, &own->flags) == asks))
		return;
	assign_bit(L5_END_ASKS, &own->flags, asks);
	if (asks)
		l5_map_flag(l5_peer(l5), L5_MAP_TX_ASK);
}

/* A message like another, but for its bytes: those are a position. */
static struct msghdr l5_files_msg(const struct msghdr *msg, struct kvec *vec,
				  u64 *pos, unsigned int dir)
{
	struct msghdr with = *msg;

	*vec = (struct kvec){ pos, sizeof(*pos) };
	with.msg_name = NULL;
	with.msg_namelen = 0;
	iov_iter_kvec(&with.msg_iter, dir, vec, 1, sizeof(*pos));
	return with;
}

/* The bootstrap is to know what its owner knows, as in l5_boot_use(). */
static void l5_files_begin(struct l5_sock *l5)
{
	l5_boot_error(l5);
	l5_boot_borrow(l5);
	l5_opts_push(l5);
}

/**
 * l5_files_send() - have the bootstrap carry what rides with a record
 * @l5: the sender, its tx_lock held
 * @msg: whose control messages these are, in kernel memory
 * @pos: of the record, whose payload is in place
 *
 * Context: may sleep, but not for the reader.
 * Return: 0, -EAGAIN if the reader has to go on first, -ESHUTDOWN if the
 * connection has ended and the bootstrap is to say how, or as AF_UNIX: -EBADF,
 * -EINVAL, -EPERM, -ETOOMANYREFS, -ENOMEM.
 */
int l5_files_send(struct l5_sock *l5, struct msghdr *msg, u64 pos)
{
	struct msghdr with;
	struct kvec vec;
	int n;

	lockdep_assert_held(&l5->tx_lock);
	with = l5_files_msg(msg, &vec, &pos, L5_ITER_SOURCE);
	with.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	l5_files_begin(l5);
	n = l5->boot->ops->sendmsg(l5->boot, &with, sizeof(pos));
	l5_boot_error(l5);
	if (n == -EPIPE)
		return -ESHUTDOWN;
	return n < 0 ? n : 0;
}

/* Are there descriptors in the message that is next? */
static bool l5_files_next(struct l5_sock *l5)
{
	struct sk_buff_head *queue = &l5->boot->sk->sk_receive_queue;
	struct sk_buff *skb;
	bool fds;

	spin_lock(&queue->lock);
	skb = skb_peek(queue);
	fds = skb && READ_ONCE(UNIXCB(skb).fp);
	spin_unlock(&queue->lock);
	return fds;
}

/**
 * l5_files_recv() - give a receiver what rides with a record
 * @l5: the receiver, its rx_lock held
 * @msg: of the receive
 * @pos: of the record
 * @flags: MSG_PEEK: leave it where it is
 *
 * A receiver without room for it loses it, and gets MSG_CTRUNC.
 *
 * Context: may sleep, but not for the sender.
 * Return: 1 if the receive is to end with this record, since there were
 * descriptors or it has been told something; 0, -EPROTO if there is no such
 * message, or an error of the bootstrap's that comes first.
 */
int l5_files_recv(struct l5_sock *l5, struct msghdr *msg, u64 pos, int flags)
{
	struct msghdr with;
	struct kvec vec;
	u64 at = 0;
	bool fds;
	int n;

	lockdep_assert_held(&l5->rx_lock);
	fds = l5_files_next(l5);
	with = l5_files_msg(msg, &vec, &at, L5_ITER_DEST);
	l5_files_begin(l5);
	n = l5->boot->ops->recvmsg(l5->boot, &with, sizeof(at),
				   flags | MSG_DONTWAIT);
	if (n >= 0 && l5->bops->received)
		l5->bops->received(l5, &with);
	l5_boot_error(l5);
	if (n < 0 && n != -EAGAIN)
		return n;
	if (n == sizeof(at) && at == pos)
		n = fds || with.msg_controllen != msg->msg_controllen;
	else
		n = -EPROTO;
	msg->msg_control = with.msg_control;
	msg->msg_controllen = with.msg_controllen;
	msg->msg_flags |= with.msg_flags & MSG_CTRUNC;
	return n;
}

/**
 * l5_files_told() - say that the sender is not known, to a receiver that asks
 * @l5: the receiver
 * @msg: of the receive, which was successful
 * @room: for control messages when it began
 *
 * If nothing rode with what was received, it was sent before the receiver
 * asked. AF_UNIX says so by the number of nobody: no receiver is to take what
 * says nothing for what it was told last.
 *
 * Context: may sleep.
 */
void l5_files_told(struct l5_sock *l5, struct msghdr *msg, size_t room)
{
	struct ucred nobody = {
		.uid = overflowuid,
		.gid = overflowgid,
	};

	if (likely(!test_bit(L5_END_ASKS, &l5_own(l5)->flags)) ||
	    msg->msg_controllen != room)
		return;
	if (l5_pass_creds(l5->boot))
		put_cmsg(msg, SOL_SOCKET, SCM_CREDENTIALS, sizeof(nobody),
			 &nobody);
}

/**
 * l5_files_room() - is it worth while to send something with a record?
 * @l5: the sender
 *
 * As AF_UNIX has it, and as poll() says. Whoever reads wakes the tasks that
 * wait at the bootstrap, which are those that wait at its owner.
 *
 * Context: any.
 */
bool l5_files_room(const struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return refcount_read(&bsk->sk_wmem_alloc) << 2 <=
	       READ_ONCE(bsk->sk_sndbuf);
}

/**
 * l5_files_left() - is there anything whose record was not found?
 * @l5: a receiver whose ring is empty
 *
 * Its record is about to be published, unless a process moved the cursor.
 *
 * Context: any.
 */
bool l5_files_left(const struct l5_sock *l5)
{
	return !skb_queue_empty_lockless(&l5->boot->sk->sk_receive_queue);
}
