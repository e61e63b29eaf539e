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
 * AF_UNIX, since each of its records costs such a message. If it asks later,
 * its peer sends by system calls from then on, into a ring that no process has
 * mapped: else one of another user could write over what the sender's
 * credentials have come with.
 *
 * It is for unix.c to say which descriptors may lie in a queue of a bootstrap.
 *
 * Locks: AF_UNIX's iolock and state lock are taken below tx_lock and rx_lock.
 */
#include <linux/file.h>
#include <linux/highuid.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/af_unix.h>
#include <net/scm.h>
#include <net/sock.h>

#include "bootstrap.h"
#include "demote.h"
#include "end.h"
#include "files.h"
#include "opts.h"

/* The last credentials that a send states, or NULL. */
static struct cmsghdr *l5_files_stated(struct msghdr *msg)
{
	struct cmsghdr *cmsg, *stated = NULL;

	for_each_cmsghdr(cmsg, msg) {
		if (!CMSG_OK(msg, cmsg))
			break;
		if (cmsg->cmsg_level == SOL_SOCKET &&
		    cmsg->cmsg_type == SCM_CREDENTIALS)
			stated = cmsg;
	}
	return stated;
}

/**
 * l5_files_now() - what rides with the next record of a send
 * @l5: a socket that writes to a ring
 * @f: the send; with @f->sent the first record is published
 *
 * Descriptors ride with the first record, credentials with each.
 *
 * Context: any.
 * Return: a message for l5_ring_write(), or NULL.
 */
struct msghdr *l5_files_now(struct l5_sock *l5, struct l5_files *f)
{
	bool asks = test_bit(L5_END_ASKS, &l5_peer(l5)->flags);
	struct cmsghdr *stated;

	if (likely(!asks && (f->sent || !f->msg->msg_controllen)))
		return NULL;
	if (!l5->bops->files)
		return NULL;
	if (!f->sent)
		return f->msg;
	memset(&f->rest, 0, sizeof(f->rest));
	stated = l5_files_stated(f->msg);
	if (stated) {
		f->rest.msg_control = stated;
		f->rest.msg_controllen = stated->cmsg_len;
	}
	return &f->rest;
}

/* Run through the numbers of descriptors that a message has. */
static int l5_files_each(struct l5_files *f,
			 int (*look)(struct l5_files *f, int i, int fd))
{
	struct cmsghdr *cmsg;
	int i, n, at = 0, err;

	for_each_cmsghdr(cmsg, f->msg) {
		int *fds = (int *)CMSG_DATA(cmsg);

		if (!CMSG_OK(f->msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level != SOL_SOCKET ||
		    cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - sizeof(*cmsg)) / sizeof(int);
		for (i = 0; i < n; i++) {
			if (at == SCM_MAX_FD)
				return -EINVAL;
			err = look(f, at++, fds[i]);
			if (err)
				return err;
		}
	}
	return 0;
}

static int l5_files_get(struct l5_files *f, int i, int fd)
{
	f->kept[i] = fget_raw(fd);
	f->nkept = i + 1;
	return f->kept[i] ? 0 : -EBADF;
}

static int l5_files_same(struct l5_files *f, int i, int fd)
{
	struct file *file = fget_raw(fd);
	bool same = file && i < f->nkept && file == f->kept[i];

	if (file)
		fput(file);
	return same ? 0 : -EBADF;
}

/**
 * l5_files_wait() - before a send waits, and after it has
 * @f: the send
 *
 * AF_UNIX looks descriptors up before it waits. Here they are looked up when
 * there is room, by their numbers, which may stand for other files by then: so
 * the files are kept, and what is not the same is not sent.
 *
 * Context: process.
 * Return: 0, -EBADF if a number stands for another file now, -ENOMEM.
 */
int l5_files_wait(struct l5_files *f)
{
	if (likely(f->sent || !f->msg->msg_controllen))
		return 0;
	if (f->kept)
		return l5_files_each(f, l5_files_same);
	f->kept = kcalloc(SCM_MAX_FD, sizeof(*f->kept), GFP_KERNEL_ACCOUNT);
	return f->kept ? l5_files_each(f, l5_files_get) : -ENOMEM;
}

/**
 * l5_files_end() - a send is over
 * @f: the send
 *
 * Context: process.
 */
void l5_files_end(struct l5_files *f)
{
	int i;

	if (likely(!f->kept))
		return;
	for (i = 0; i < f->nkept; i++)
		if (f->kept[i])
			fput(f->kept[i]);
	kfree(f->kept);
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

/*
 * Before a record is written that something rides with. If credentials are to
 * vouch for its bytes, no process has the ring.
 *
 * Return: 0, -EAGAIN if a task holds a lock that this needs. Then it has slept
 * a moment.
 */
static int l5_files_ready(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5);
	int err = -EAGAIN;

	lockdep_assert_held(&l5->tx_lock);
	if (!test_bit(L5_END_ASKS, &l5_peer(l5)->flags) ||
	    !READ_ONCE(own->fold) || READ_ONCE(own->dropped) ||
	    test_bit(L5_END_REVOKED, &own->flags))
		return 0;
	if (mutex_trylock(&l5->lock)) {
		err = l5_ring_demote(l5->conn, l5->end);
		mutex_unlock(&l5->lock);
	}
	if (err)
		schedule_timeout_interruptible(1);
	return err ? -EAGAIN : 0;
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

/*
 * Have the bootstrap carry the control messages of @msg, which are in kernel
 * memory, for the record at @pos, whose payload is in place. This does not
 * sleep for the reader.
 *
 * Return: 0, -EAGAIN if the reader has to go on first, -ESHUTDOWN if the
 * connection has ended and the bootstrap is to say how, or as AF_UNIX: -EBADF,
 * -EINVAL, -EPERM, -ETOOMANYREFS, -ENOMEM.
 */
static int l5_files_send(struct l5_sock *l5, struct msghdr *msg, u64 pos)
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

/*
 * Look at the message that is next. Return: 1 if it belongs to the record at a
 * position, 2 if it has descriptors, too; 0 if it belongs to none or another,
 * or there is none.
 */
static int l5_files_look(struct l5_sock *l5, u64 pos)
{
	struct sk_buff_head *queue = &l5->boot->sk->sk_receive_queue;
	struct sk_buff *skb;
	int ret = 0;
	u64 at;

	spin_lock(&queue->lock);
	skb = skb_peek(queue);
	if (skb && skb->len == sizeof(at) && !UNIXCB(skb).consumed &&
	    !skb_copy_bits(skb, 0, &at, sizeof(at)) && at == pos)
		ret = READ_ONCE(UNIXCB(skb).fp) ? 2 : 1;
	spin_unlock(&queue->lock);
	return ret;
}

/*
 * Give a receiver what rides with the record at @pos. @first: with its first
 * byte; @last: with its last one. Descriptors come once, with the first byte;
 * credentials are told with each part, as AF_UNIX does. MSG_PEEK in @flags: all
 * of it is left where it is. A receiver without room for it loses it, and gets
 * MSG_CTRUNC. Nothing is given to it that belongs to another record.
 *
 * Return: 1 if the receive is to end with this record, since there were
 * descriptors or it has been told something; 0, -EPROTO if there is no such
 * message, or an error of the bootstrap's that comes first.
 */
static int l5_files_recv(struct l5_sock *l5, struct msghdr *msg, u64 pos,
			 int flags, bool first, bool last)
{
	struct msghdr with;
	struct kvec vec;
	u64 at = 0;
	int n, has;

	lockdep_assert_held(&l5->rx_lock);
	has = l5_files_look(l5, pos);
	if (!has)
		return first ? -EPROTO : 0;
	if (has == 1 && !last)
		flags |= MSG_PEEK;
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
		n = has == 2 || with.msg_controllen != msg->msg_controllen;
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

/*
 * Is it worth while to send something with a record? As AF_UNIX has it, and as
 * poll() says. A reader wakes the tasks that wait at the bootstrap, which are
 * those that wait at its owner.
 */
static bool l5_files_room(const struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return refcount_read(&bsk->sk_wmem_alloc) << 2 <=
	       READ_ONCE(bsk->sk_sndbuf);
}

static bool l5_files_left(const struct l5_sock *l5)
{
	return !skb_queue_empty_lockless(&l5->boot->sk->sk_receive_queue);
}

static bool l5_files_busy(const struct l5_sock *l5)
{
	return mutex_is_locked(&unix_sk(l5->boot->sk)->iolock);
}

const struct l5_files_ops l5_files_ops = {
	.ready	= l5_files_ready,
	.send	= l5_files_send,
	.recv	= l5_files_recv,
	.room	= l5_files_room,
	.left	= l5_files_left,
	.busy	= l5_files_busy,
};
