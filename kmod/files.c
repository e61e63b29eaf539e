// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: descriptors and credentials that ride with a record.
 *
 * A ring carries bytes. What only the kernel can hand over goes through the
 * bootstrap, an AF_UNIX socket, and the bytes that it is said of go with it: so
 * the kernel's own code looks descriptors up, counts them against the sender's
 * limit, asks the security modules, installs them, and says whose the bytes
 * are. No process that has the ring mapped can write over these, be it one of
 * another user that shares an end. The record in the ring says that there is
 * such a message (L5_REC_FILES), and how long it is; what lies behind its
 * header means nothing. The message has the record's position behind its bytes.
 *
 * The message is queued before the record is published, and both under the
 * sender's tx_lock; a reader takes both under its rx_lock. So the two queues go
 * in step. They do not if a process wrote the flag, or moved a cursor, in what
 * it has mapped: then the positions differ, and the reader ends the connection.
 *
 * Credentials ride with a record if the sender states them, or if the receiver
 * asks for them (SO_PASSCRED). A receiver that asks from the beginning stays on
 * AF_UNIX, since each of its records costs such a message. If it asks later,
 * its peer sends by system calls from then on.
 *
 * It is for unix.c to say which descriptors may lie in a queue of a bootstrap.
 *
 * Locks: AF_UNIX's iolock and state lock are taken below tx_lock and rx_lock.
 */
#include <linux/file.h>
#include <linux/highuid.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/af_unix.h>
#include <net/scm.h>
#include <net/sock.h>

#include "bootstrap.h"
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
 * l5_files_drop() - a send is over
 * @f: the send
 *
 * Context: process.
 */
void l5_files_drop(struct l5_files *f)
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

/* What stands behind the bytes of a message: the position of their record. */
#define L5_FILES_POS	sizeof(u64)

/* The longest record of a stream with such a message, which is a buffer's. */
#define L5_FILES_PIECE	16384

/* AF_UNIX's messages are so much shorter than half its buffer. */
#define L5_FILES_CUT	64

/* How many bytes may go with it? */
static size_t l5_files_most(const struct l5_sock *l5)
{
	return L5_FILES_PIECE;
}

/*
 * Send a message, as a whole. AF_UNIX cuts a stream into messages of half its
 * buffer at most, and the buffer may be made smaller at any time: so it is as
 * large as this message needs for as long as that takes. A task that sets it
 * waits for the bootstrap's lock.
 */
static int l5_files_carry(struct l5_sock *l5, struct msghdr *with, size_t len)
{
	struct sock *bsk = l5->boot->sk;
	int sndbuf, ret = -EAGAIN;

	lock_sock(bsk);
	sndbuf = READ_ONCE(bsk->sk_sndbuf);
	if (!l5_packets(l5) && sk_wmem_alloc_get(bsk) >= sndbuf)
		goto out;
	if (!l5_packets(l5))
		WRITE_ONCE(bsk->sk_sndbuf, max_t(int, sndbuf,
						 2 * (len + L5_FILES_CUT)));
	/*
	 * BJ, pairs with BK: what is queued follows. Not before there is only
	 * that to be done: a process may keep its memory and its locks from us
	 * for as long as it likes.
	 */
	smp_store_release(&l5_own(l5)->riding, true);
	ret = l5->boot->ops->sendmsg(l5->boot, with, len);
	WRITE_ONCE(bsk->sk_sndbuf, sndbuf);
out:
	release_sock(bsk);
	return ret;
}

/* The bootstrap is to know what its owner knows, as in l5_boot_use(). */
static void l5_files_begin(struct l5_sock *l5)
{
	l5_boot_error(l5);
	l5_boot_borrow(l5);
	l5_opts_push(l5);
}

/*
 * Have the bootstrap carry @len bytes of an iterator and the control messages
 * of @msg, which are in kernel memory, for the record at @pos. This does not
 * sleep for the reader.
 *
 * Return: 0, -EAGAIN if the reader has to go on first, -ESHUTDOWN if the
 * connection has ended and the bootstrap is to say how, or as AF_UNIX: -EBADF,
 * -EINVAL, -EPERM, -ETOOMANYREFS, -ENOMEM, of a packet -EMSGSIZE. Then the
 * iterator is where it was.
 */
static int l5_files_send(struct l5_sock *l5, struct msghdr *msg,
			 struct iov_iter *from, size_t len, u64 pos)
{
	struct msghdr with = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
	};
	struct kvec vec = { .iov_len = len + L5_FILES_POS };
	size_t n;
	int ret;

	lockdep_assert_held(&l5->tx_lock);
	vec.iov_base = kvmalloc(vec.iov_len, GFP_KERNEL_ACCOUNT);
	if (!vec.iov_base)
		return -ENOMEM;
	n = copy_from_iter(vec.iov_base, len, from);
	if (n < len) {
		iov_iter_revert(from, n);
		kvfree(vec.iov_base);
		return -EFAULT;
	}
	memcpy(vec.iov_base + len, &pos, sizeof(pos));
	with.msg_control = msg->msg_control;
	with.msg_controllen = msg->msg_controllen;
	iov_iter_kvec(&with.msg_iter, L5_ITER_SOURCE, &vec, 1, vec.iov_len);
	l5_files_begin(l5);
	ret = l5_files_carry(l5, &with, vec.iov_len);
	l5_boot_error(l5);
	kvfree(vec.iov_base);
	if (ret == (int)vec.iov_len)
		return 0;
	/* a part of it belongs to no record: the receiver will say so */
	if (ret >= 0)
		ret = -EIO;
	iov_iter_revert(from, len);
	return ret == -EPIPE ? -ESHUTDOWN : ret;
}

/*
 * Look at the message that is next. Return: 1 if it belongs to the record at a
 * position, of which so much was taken; 2 if it has descriptors, too; 0 if it
 * belongs to none or another, or there is none.
 */
static int l5_files_look(struct l5_sock *l5, const struct l5_cons *c)
{
	struct sk_buff_head *queue = &l5->boot->sk->sk_receive_queue;
	struct sk_buff *skb;
	int ret = 0;
	u64 at;

	spin_lock(&queue->lock);
	skb = skb_peek(queue);
	if (skb && skb->len == c->len + L5_FILES_POS &&
	    UNIXCB(skb).consumed == c->off &&
	    !skb_copy_bits(skb, c->len, &at, sizeof(at)) && at == c->head)
		ret = READ_ONCE(UNIXCB(skb).fp) ? 2 : 1;
	spin_unlock(&queue->lock);
	return ret;
}

/* The bytes of a message of a stream are taken: take what is behind them. */
static void l5_files_drain(struct l5_sock *l5)
{
	struct msghdr with = { };
	struct kvec vec;
	u64 pos;

	vec.iov_base = &pos;
	vec.iov_len = sizeof(pos);
	iov_iter_kvec(&with.msg_iter, L5_ITER_DEST, &vec, 1, sizeof(pos));
	l5->boot->ops->recvmsg(l5->boot, &with, sizeof(pos), MSG_DONTWAIT);
}

/*
 * Room for what may be said of a message without descriptors, to a receiver
 * that asks for the sender. A peek of a stream goes on to the message behind
 * this one, since it wants less than all of this one, and gives the descriptors
 * of that: there is no place for them behind credentials.
 */
static size_t l5_files_about(const struct l5_sock *l5, const struct msghdr *msg,
			     int flags)
{
	if (!(flags & MSG_PEEK) || l5_packets(l5))
		return msg->msg_controllen;
	return l5_pass_creds(l5->boot) ?
	       min_t(size_t, msg->msg_controllen,
		     CMSG_SPACE(sizeof(struct ucred))) : 0;
}

/*
 * Give a receiver @part bytes of the record at the cursor, from where it is,
 * and what rides with it: descriptors with the first byte, credentials with
 * each part. A receiver without room for that loses it, and gets MSG_CTRUNC.
 * MSG_PEEK in @flags: all of it is left where it is. *@stop: in: the receive
 * has bytes already; out: it is to end here, since there were descriptors or it
 * has been told something.
 *
 * Return: 0, -EAGAIN if the receive is to end before the record, since what is
 * said of that would be said of the bytes it has, -EPROTO if there is no such
 * message, -EFAULT, or an error of the bootstrap's that comes first. A packet
 * is gone with -EFAULT, as AF_UNIX's is.
 */
static int l5_files_recv(struct l5_sock *l5, struct msghdr *msg,
			 const struct l5_cons *c, u32 part, int flags,
			 bool *stop)
{
	bool last = c->off + part == c->len && !(flags & MSG_PEEK);
	struct msghdr with = *msg;
	size_t room = msg->msg_controllen;
	bool asks, trunc = true;
	int n, has;

	lockdep_assert_held(&l5->rx_lock);
	has = l5_files_look(l5, c);
	if (!has)
		return -EPROTO;
	with.msg_name = NULL;
	with.msg_namelen = 0;
	l5_files_begin(l5);
	/* it may have been told so just now */
	asks = l5_pass_sender(l5->boot);
	if (*stop && msg->msg_control && asks)
		return -EAGAIN;
	*stop = false;
	/*
	 * One that does not ask needs no room, also if another task has it ask
	 * meanwhile: it may have other bytes by then.
	 */
	if (has == 1) {
		room = asks ? l5_files_about(l5, msg, flags) : 0;
		trunc = asks && room < CMSG_LEN(sizeof(struct ucred));
	}
	with.msg_controllen = room;
	if (!room)
		with.msg_control = NULL;
	n = l5->boot->ops->recvmsg(l5->boot, &with, part,
				   flags | MSG_DONTWAIT);
	if (n >= 0 && l5->bops->received)
		l5->bops->received(l5, &with);
	if (n == (int)part && last && !l5_packets(l5))
		l5_files_drain(l5);
	l5_boot_error(l5);
	if (n < 0)
		return n == -EAGAIN ? -EPROTO : n;
	*stop = has == 2 || with.msg_controllen != room;
	msg->msg_iter = with.msg_iter;
	if (room)
		msg->msg_control = with.msg_control;
	msg->msg_controllen -= room - with.msg_controllen;
	if (trunc)
		msg->msg_flags |= with.msg_flags & MSG_CTRUNC;
	return n == (int)part ? 0 : -EPROTO;
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

/* What AF_UNIX answers to a receive that finds no message. */
static int l5_files_end(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	int ret;

	l5_files_begin(l5);
	/* the error is never to be seen without the end */
	unix_state_lock(bsk);
	ret = sock_error(bsk) ?:
	      (READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN ? 0 : -EAGAIN);
	unix_state_unlock(bsk);
	l5_boot_error(l5);
	return ret;
}

const struct l5_files_ops l5_files_ops = {
	.most	= l5_files_most,
	.send	= l5_files_send,
	.recv	= l5_files_recv,
	.room	= l5_files_room,
	.left	= l5_files_left,
	.end	= l5_files_end,
};
