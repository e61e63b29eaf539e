// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: bytes by system call.
 *
 * Without rings each call is the bootstrap's. With rings the bootstrap still
 * says everything that is not data: end of file, errors, shutdown states. A
 * reader that finds the ring empty first asks the bootstrap whether the stream
 * has ended, and then looks at the ring once more, because records published
 * before the end come before the end.
 */
#include <linux/compat.h>
#include <linux/sched/signal.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include <asm/ioctls.h>

#include "answer.h"
#include "bootstrap.h"
#include "connect.h"
#include "defer.h"
#include "end.h"
#include "files.h"
#include "fold.h"
#include "io.h"
#include "link.h"
#include "lock.h"
#include "map.h"
#include "packet.h"
#include "ring.h"
#include "state.h"
#include "transport.h"
#include "unread.h"
#include "wait.h"

/*
 * Is the peer gone, and is there no other sign of an end? TCP takes bytes then,
 * and is reset.
 */
static bool l5_tx_gone(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return l5->bops->resets && !READ_ONCE(bsk->sk_err) &&
	       !READ_ONCE(l5->sk.sk_err) &&
	       !(READ_ONCE(bsk->sk_shutdown) & SEND_SHUTDOWN) &&
	       READ_ONCE(bsk->sk_state) != TCP_CLOSE &&
	       test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) &&
	       !(READ_ONCE(l5_own(l5)->flags) &
		 (BIT(L5_END_FIN) | BIT(L5_END_KEPT)));
}

/*
 * Does a call that begins now get EPIPE, whatever error there is? AF_UNIX looks
 * at the shutdown first, and leaves the error to a reader. A task that was
 * asleep in the call hears of the error; TCP has no such order.
 */
static bool l5_tx_pipe(struct l5_sock *l5)
{
	return !l5->bops->resets &&
	       READ_ONCE(l5->boot->sk->sk_shutdown) & SEND_SHUTDOWN &&
	       !test_bit(L5_END_BROKEN, &l5_own(l5)->flags);
}

static bool l5_tx_ready(struct l5_sock *l5, const struct msghdr *files)
{
	return l5_tx_ended(l5) ||
	       (l5_ring_writable(l5) && (!files || l5->bops->files->room(l5)));
}

/* While connecting, a call that may block waits for the outcome, as in TCP. */
static int l5_connecting(struct l5_sock *l5, bool nonblock, long timeo)
{
	if (l5_state(l5) != L5_CONNECTING)
		return 0;
	return l5_wait_decided(l5, nonblock ? 0 : timeo);
}

/* The checks that the bootstrap would make before it looks at the bytes. */
static int l5_rings_send_check(struct l5_sock *l5, struct msghdr *msg)
{
	if (msg->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	return l5->bops->send_check(l5, msg);
}

/*
 * A call stops with bytes moved: AF_UNIX forgets why, TCP tells the next call.
 */
static void l5_stopped(struct l5_sock *l5)
{
	if (!l5->bops->resets && sock_error(l5->boot->sk))
		l5_boot_error(l5);
}

/*
 * With L5_MSG_BELL and bytes a call is the rest of one that has moved some by
 * itself. So it takes no error, which is for the next call to tell.
 */
static int l5_ring_send(struct l5_sock *l5, struct msghdr *msg, size_t len,
			struct l5_files *f)
{
	long timeo = sock_sndtimeo(&l5->sk, msg->msg_flags & MSG_DONTWAIT);
	bool rest = len && msg->msg_flags & L5_MSG_BELL;
	const int was = l5_disconnects(l5->boot->sk);
	struct msghdr *files = l5_files_now(l5, f);
	struct l5_rounds rounds = { };
	size_t done = 0;
	ssize_t n;
	int err;

	/* AF_UNIX looks at descriptors first, then at the address */
	if (unlikely(files)) {
		err = l5->bops->pass_check(l5, msg);
		if (err)
			return err;
	}
	if (l5_tx_ended(l5)) {
		if (!rest && !l5->bops->resets && msg->msg_namelen)
			return -EISCONN;
		if (rest || !l5_tx_pipe(l5))
			goto ended;
		/* a closing peer may not have told us yet */
		l5_boot_error(l5);
		if (!(msg->msg_flags & MSG_NOSIGNAL))
			send_sig(SIGPIPE, current, 0);
		return -EPIPE;
	}
	err = l5_rings_send_check(l5, msg);
	if (err)
		return err;
	/* no bytes, no record: but a list of descriptors may be wrong */
	if (unlikely(files) && !len)
		return l5_boot_sendmsg(l5, msg, 0);
	while (msg_data_left(msg)) {
		n = l5_ring_lock(l5, L5_LOCK_TX, &timeo);
		if (n == -EPROTO)
			l5_ring_violation(l5);
		if (n)
			return done ?: n;
		do {
			if (l5_tx_ended(l5)) {
				l5_ring_unlock(l5, L5_LOCK_TX);
				goto ended;
			}
			files = l5_files_now(l5, f);
			n = l5_ring_write(l5, &msg->msg_iter, files);
			if (n > 0) {
				done += n;
				rounds.on = false;
				f->sent = true;
			}
		} while (n > 0 && msg_data_left(msg));
		l5_ring_unlock(l5, L5_LOCK_TX);
		if (n == -EPIPE) {
			/* taken, as TCP takes bytes for a peer that is gone */
			l5_send_unread(l5);
			return len - msg_data_left(msg);
		}
		if (n == -EAGAIN) {
			/* a call that may not wait has armed it for an edge */
			sk_set_bit(SOCKWQ_ASYNC_NOSPACE, &l5->sk);
			n = l5_again(&rounds, &timeo) ?: l5_files_wait(f);
			if (!n)
				n = l5_sleep(l5, &timeo, l5_link_arm_tx,
					     l5_tx_ready(l5, files));
			if (!n)
				n = l5_files_wait(f);
			/* there may be another peer by now */
			if (unlikely(l5_disconnects(l5->boot->sk) != was))
				goto ended;
		}
		if (n == -EPROTO)
			l5_ring_violation(l5);
		if (n == -ESHUTDOWN)
			return l5_tx_answer(l5, msg->msg_flags);
		if (n < 0)
			return done ?: n;
	}
	return done;

ended:
	if (done) {
		l5_stopped(l5);
		return done;
	}
	/* never the bytes themselves by the bootstrap: it has no reader */
	if (l5_tx_gone(l5)) {
		/* TCP sends nothing for no bytes, so there is no answer */
		if (len)
			l5_send_to_closed(l5);
		/*
		 * Nor does TCP take more than its buffer holds before it has
		 * the answer: a program that writes only once is to hear of it.
		 */
		return min_t(size_t, len, l5_ring_extent(l5));
	}
	if (rest) {
		l5_stopped(l5);
		return 0;
	}
	return l5_tx_answer(l5, msg->msg_flags);
}

static int l5_ring_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	struct l5_files f;
	int ret;

	l5_files_init(&f, msg);
	ret = l5_ring_send(l5, msg, len, &f);
	l5_files_drop(&f);
	return ret;
}

/*
 * With MSG_ZEROCOPY and its option there is a notification of each send. It
 * says that the bytes were copied, as it does of TCP within one host.
 */
static int l5_zerocopy_sendmsg(struct l5_sock *l5, struct msghdr *msg,
			       size_t len)
{
	struct ubuf_info *uarg;
	int ret;

	uarg = l5_zerocopy_alloc(l5->boot->sk, len);
	if (!uarg)
		return -ENOBUFS;
	ret = l5_ring_sendmsg(l5, msg, len);
	if (ret > 0) {
		uarg_to_msgzc(uarg)->zerocopy = 0;
		net_zcopy_put(uarg);
	} else {
		net_zcopy_put_abort(uarg, true);
	}
	return ret;
}

static int l5_rings_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	if (unlikely(l5_packets(l5)))
		return l5_packet_sendmsg(l5, msg, len);
	if (unlikely(msg->msg_flags & MSG_ZEROCOPY) && len && !msg->msg_ubuf &&
	    sock_flag(&l5->sk, SOCK_ZEROCOPY))
		return l5_zerocopy_sendmsg(l5, msg, len);
	return l5_ring_sendmsg(l5, msg, len);
}

/*
 * A send of no bytes means nothing to TCP. Here it is L5_IOC_DOORBELL and
 * L5_IOC_UNLOCK for a process that has the rings mapped and is refused ioctl().
 * A peer that is gone gets the byte that asks for a reset, but only if
 * L5_MSG_BELL says that this is a bell: TCP sends nothing for a send of no
 * bytes.
 *
 * Return: true if that is all there is to do.
 */
static bool l5_send_nothing(struct l5_sock *l5, const struct msghdr *msg)
{
	if (l5_state(l5) != L5_RINGS)
		return false;
	/* to a socket of messages it is one, and there is nobody to ring for */
	if (l5_packets(l5))
		return false;
	l5_ring_owed(l5);
	if (l5->conn->link->flush)
		l5->conn->link->flush(l5->conn);
	l5_conn_unlocked(l5->conn, l5->end);
	if (!(msg->msg_flags & L5_MSG_BELL))
		return false;
	l5_send_unread(l5);
	return true;
}

/*
 * Send the first bytes of a client whose listener waits for them, and the bytes
 * that are to go with them.
 */
static int l5_first_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	int first, ret;

	if (!(msg->msg_flags & MSG_OOB)) {
		ret = l5_rings_send_check(l5, msg);
		if (ret)
			return ret;
	}
	l5_boot_use(l5);
	first = l5_defer_send(l5, msg);
	if (first <= 0 || first == len)
		return first;
	/* the error is for the next call to tell */
	if (READ_ONCE(l5->boot->sk->sk_err) || READ_ONCE(l5->sk.sk_err))
		return first;
	len -= first;
	ret = l5_tx_rings(l5) ? l5_ring_sendmsg(l5, msg, len) :
				l5_boot_sendmsg(l5, msg, len);
	return ret < 0 ? first : first + ret;
}

/* Send on a socket for which it is settled what carries its bytes. */
static int l5_decided_sendmsg(struct l5_sock *l5, struct msghdr *msg,
			      size_t len)
{
	enum l5_tx tx;
	int err;

	if (unlikely(!len) && l5_send_nothing(l5, msg))
		return 0;
	if (l5_tx_rings(l5))
		return l5_rings_sendmsg(l5, msg, len);
	if (msg->msg_controllen && l5->bops->pass_check) {
		err = l5->bops->pass_check(l5, msg);
		if (err)
			return err;
	}
	tx = l5_remote_tx_begin(l5);
	if (tx == L5_TX_RINGS)
		return l5_rings_sendmsg(l5, msg, len);
	err = l5_boot_sendmsg(l5, msg, len);
	if (tx == L5_TX_COUNTED)
		l5_remote_tx_end(l5);
	return err;
}

/**
 * l5_sendmsg() - send on a socket in any state
 * @sock: the socket
 * @msg: what to send and how
 * @len: bytes in it
 *
 * Return: as the bootstrap's.
 */
int l5_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool nonblock = msg->msg_flags & MSG_DONTWAIT;
	bool early;
	int err;

	/* disconnected before the rest came, which is for no other peer */
	if (unlikely(msg->msg_flags & L5_MSG_BELL) && len &&
	    l5_state(l5) == L5_IDLE && !l5_packets(l5))
		return 0;
	if (unlikely(l5_state(l5) == L5_CONNECTING) && l5_deferred(l5) && len) {
		err = l5_first_sendmsg(l5, msg, len);
		if (err)
			return err;
	}
	err = l5_connecting(l5, nonblock, sock_sndtimeo(&l5->sk, nonblock));
	if (err)
		return err;
	/* no bytes need no meeting to be given up */
	early = (len || !l5_deferred(l5)) &&
		l5_early_begin(l5, L5_REASON_CONNECT);
	err = l5_decided_sendmsg(l5, msg, len);
	if (early)
		l5_early_end(l5);
	return err;
}

/**
 * l5_wait_carrier() - before a receive: wait until it is known what carries the
 *	bytes
 * @l5: the socket
 * @timeo: how long, jiffies
 *
 * Return: 0, -EAGAIN after @timeo, or as sock_intr_errno().
 */
long l5_wait_carrier(struct l5_sock *l5, long timeo)
{
	return l5_defer_recv(l5, timeo) ?: l5_wait_decided(l5, timeo);
}

/* Receive @target bytes at least from a ring, or wait up to @timeo jiffies. */
static int l5_ring_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
			   int flags, size_t target, long timeo)
{
	bool peek = flags & MSG_PEEK, ended;
	bool discard = flags & MSG_TRUNC && l5->bops->counts;
	const int was = l5_disconnects(l5->boot->sk);
	struct l5_rounds rounds = { };
	bool files = false;
	size_t done = 0;
	ssize_t n;

	msg->msg_namelen = 0;
	if (flags & MSG_OOB)
		return -EINVAL;
	/* a process that sends from a mapped ring sees only the wait word */
	if (sock_flag(&l5->sk, SOCK_FASYNC))
		l5_link_arm_rx(l5);
	for (;;) {
		ended = l5_rx_ended(l5);
		n = l5_ring_lock(l5, L5_LOCK_RX, &timeo);
		if (n == -EPROTO)
			l5_ring_violation(l5);
		if (n)
			return done ?: n;
		files = done;
		if (peek)
			n = l5_ring_peek(l5, msg, done, len - done, discard,
					 &files);
		else
			n = l5_ring_read(l5, msg, len - done, discard, &files);
		l5_ring_unlock(l5, L5_LOCK_RX);
		if (n == -EPROTO)
			l5_ring_violation(l5);
		/* of a revocation the bootstrap tells, unless it is late */
		if (n < 0 && n != -EAGAIN &&
		    !(n == -ECONNRESET &&
		      test_bit(L5_END_REVOKED, &l5_own(l5)->flags)))
			return done ?: n;
		if (n >= 0)
			done += n;
		if (n > 0)
			l5_awaits_no_more(l5);
		if (done >= target || (n >= 0 && done == len) || files ||
		    fatal_signal_pending(current))
			return done;
		if (n > 0) {
			rounds.on = false;
			continue;
		}
		/* TCP says so to tasks that sleep, and leaves them the error */
		if (unlikely(l5_disconnects(l5->boot->sk) != was))
			return done || flags & L5_MSG_BELL ? (int)done : -EPIPE;
		/* the rest of a call, as in l5_ring_sendmsg() */
		if (ended && (done || flags & L5_MSG_BELL)) {
			l5_stopped(l5);
			return done;
		}
		if (ended) {
			n = l5_rx_answer(l5, msg, len, flags);
			if (n == -EAGAIN)
				n = l5_again(&rounds, &timeo) ?: 1;
			if (n <= 0)
				return n;
			continue;
		}
		n = l5_again(&rounds, &timeo);
		if (!n)
			n = l5_wait_rx(l5, &timeo, !done, peek ? done : 0);
		if (n)
			return done ?: n;
	}
}

static int l5_rings_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
			    int flags)
{
	if (unlikely(l5_packets(l5)))
		return l5_packet_recvmsg(l5, msg, len, flags);
	return l5_ring_recvmsg(l5, msg, len, flags,
			       sock_rcvlowat(&l5->sk, flags & MSG_WAITALL, len),
			       sock_rcvtimeo(&l5->sk, flags & MSG_DONTWAIT));
}

/*
 * How many bytes are left, for a program that asked to be told with each
 * receive: by TCP_INQ their number, by io_uring whether there are any. TCP
 * counts the end as one more.
 */
static void l5_recv_inq(struct l5_sock *l5, struct msghdr *msg)
{
	const struct sock *bsk = l5->boot->sk;
	bool says = READ_ONCE(l5->inq);

	msg->msg_inq = l5_ring_count(l5, !l5->end, says ? INT_MAX : 1);
	if (msg->msg_inq < INT_MAX && sock_flag(bsk, SOCK_DONE))
		msg->msg_inq++;
	if (says)
		put_cmsg(msg, SOL_TCP, TCP_CM_INQ, sizeof(msg->msg_inq),
			 &msg->msg_inq);
}

static bool l5_wants_inq(const struct l5_sock *l5, const struct msghdr *msg)
{
	return READ_ONCE(l5->inq) ||
	       (msg->msg_get_inq && l5->bops->counts);
}

static int l5_moving_wait_rx(struct l5_sock *l5, long *timeo, size_t seen)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	unsigned long start = jiffies;
	long all = *timeo;
	int err = 0;

	add_wait_queue(sk_sleep(&l5->sk), &wait);
	while (!l5_boot_readable(l5, seen) && !l5_rx_rings(l5) &&
	       !(seen && l5_rx_both(l5))) {
		if (!*timeo)
			err = -EAGAIN;
		else if (signal_pending(current))
			err = sock_intr_errno(*timeo);
		if (err)
			break;
		wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
		*timeo = l5_time_left(start, all);
	}
	remove_wait_queue(sk_sleep(&l5->sk), &wait);
	return err;
}

/* A look at the bytes goes on from TCP's last, @n of them, to the ring's. */
static int l5_peek_on(struct l5_sock *l5, struct msghdr *msg, size_t len,
		      int flags, size_t target, long timeo, int n)
{
	int more;

	if (n >= (int)target)
		more = l5_ring_recvmsg(l5, msg, len - n, flags, 1, 0);
	else
		more = l5_ring_recvmsg(l5, msg, len - n, flags, target - n,
				       timeo);
	return n + max(more, 0);
}

/*
 * Receive on a socket that TCP carries so far. It never sleeps inside TCP: the
 * next bytes may come by the ring.
 */
static int l5_moving_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
			     int flags)
{
	long timeo = sock_rcvtimeo(&l5->sk, flags & MSG_DONTWAIT);
	size_t target = sock_rcvlowat(&l5->sk, flags & MSG_WAITALL, len);
	bool peek = flags & MSG_PEEK;
	const int was = l5_disconnects(l5->boot->sk);
	size_t done = 0, seen = 0, left;
	bool both;
	u32 there;
	int n;

	for (;;) {
		if (l5_rx_rings(l5)) {
			n = l5_ring_recvmsg(l5, msg, len - done, flags,
					    target - done, timeo);
			return n < 0 && done ? (int)done : n + (int)done;
		}
		/* TCP leaves an error to a call that got nothing */
		if (done && READ_ONCE(l5->boot->sk->sk_err))
			return done;
		left = msg_data_left(msg);
		both = peek && l5_rx_both(l5);
		there = l5_boot_unread(l5);
		n = l5_boot_recvmsg(l5, msg, len - done, flags | MSG_DONTWAIT);
		/* TCP stops at an urgent byte, and counts a FIN */
		if (n > 0 && both && n < len &&
		    n + sock_flag(l5->boot->sk, SOCK_DONE) >= there)
			return l5_peek_on(l5, msg, len, flags, target, timeo,
					  n);
		if (n > 0 && peek && n < (int)target && n > (int)seen &&
		    timeo) {
			/* one look more, from the start: MSG_TRUNC has not left
			 * it
			 */
			seen = n;
			iov_iter_revert(&msg->msg_iter,
					left - msg_data_left(msg));
		} else if (n > 0 && peek) {
			return n;
		} else if (n > 0) {
			done += n;
			l5_remote_rx_look(l5);
		}
		if (n == 0 && len > done) {
			/* it is the end, unless a cut came before it */
			l5_remote_rx_look(l5);
			if (!l5_rx_rings(l5))
				return done ?: l5_remote_boot_end(l5);
			seen = 0;
			continue;
		}
		if (n < 0 && n != -EAGAIN)
			return done ?: n;
		if (done >= target || done == len)
			return done;
		/* the wire has failed, and TCP does not know */
		if (READ_ONCE(l5->sk.sk_err)) {
			l5_boot_error(l5);
			n = READ_ONCE(l5->boot->sk->sk_err) || done ? 0 :
			    sock_error(&l5->sk);
			if (n || done)
				return done ?: n;
		}
		/* an option of TCP may have read the bytes that were left */
		l5_remote_rx_look(l5);
		n = l5_moving_wait_rx(l5, &timeo, seen);
		if (n && seen) {
			n = l5_boot_recvmsg(l5, msg, len,
					    flags | MSG_DONTWAIT);
			return n ?: l5_remote_boot_end(l5);
		}
		if (n)
			return done ?: n;
		if (l5_disconnects(l5->boot->sk) != was)
			return done || flags & L5_MSG_BELL ? (int)done : -EPIPE;
	}
}

/* Receive on a socket for which it is settled what carries its bytes. */
static int l5_decided_recvmsg(struct l5_sock *l5, struct msghdr *msg,
			      size_t len, int flags)
{
	int n;

	if (l5_rx_rings(l5)) {
		size_t room = msg->msg_controllen;

		n = l5_rings_recvmsg(l5, msg, len, flags);
		/* unless TCP told of an end, and of the bytes left with it */
		if (n >= 0 && !l5_packets(l5))
			l5_files_told(l5, msg, room);
		if (unlikely(l5_wants_inq(l5, msg)) && n >= 0 &&
		    msg->msg_controllen == room &&
		    !(msg->msg_flags & MSG_CTRUNC))
			l5_recv_inq(l5, msg);
		return n;
	}
	if (!(flags & MSG_OOB) && l5_remote_may_move(l5))
		return l5_moving_recvmsg(l5, msg, len, flags);
	n = l5_boot_recvmsg(l5, msg, len, flags);
	return n || !len ? n : l5_remote_boot_end(l5);
}

/**
 * l5_recvmsg() - receive on a socket in any state
 * @sock: the socket
 * @msg: where the bytes go
 * @len: bytes of room
 * @flags: MSG_*
 *
 * Return: as the bootstrap's.
 */
int l5_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool nonblock = flags & MSG_DONTWAIT, early;
	int err;

	if (unlikely(flags & L5_MSG_BELL) && len && l5_state(l5) == L5_IDLE &&
	    !l5_packets(l5))
		return 0;
	if (unlikely(l5_state(l5) == L5_CONNECTING)) {
		if (l5_deferred(l5) && flags & (MSG_ERRQUEUE | MSG_OOB))
			return l5_boot_recvmsg(l5, msg, len, flags);
		err = l5_wait_carrier(l5, sock_rcvtimeo(&l5->sk, nonblock));
		if (err)
			return err;
	}
	/* what AF_UNIX has in its queue are no errors, and is for no caller */
	if (flags & MSG_ERRQUEUE && l5->bops->files && l5_rx_rings(l5))
		return -EAGAIN;
	if (flags & MSG_ERRQUEUE)
		return l5_boot_recvmsg(l5, msg, len, flags);
	early = l5_early_begin(l5, L5_REASON_CONNECT);
	err = l5_decided_recvmsg(l5, msg, len, flags);
	if (early)
		l5_early_end(l5);
	return err;
}

/* Each direction by itself: one may have moved to a ring before the other. */
static int l5_rings_ioctl(struct l5_sock *l5, unsigned int cmd, int *answer)
{
	size_t n = 0;

	if (cmd == SIOCINQ && (l5_rx_rings(l5) || l5_rx_both(l5))) {
		if (mutex_lock_interruptible(&l5->rx_lock))
			return -ERESTARTSYS;
		if (!l5_rx_rings(l5))
			n = tcp_inq(l5->boot->sk);
		n += l5_ring_count(l5, !l5->end, INT_MAX - n);
		mutex_unlock(&l5->rx_lock);
	} else if (cmd == SIOCOUTQ && l5_tx_rings(l5)) {
		if (l5->bops->outq)
			n = l5->bops->outq(l5);
		/* TCP may have some of those before */
		if (!n && l5_state(l5) == L5_MOVING)
			return -ENOIOCTLCMD;
	} else {
		return -ENOIOCTLCMD;
	}
	*answer = n;
	return 0;
}

/**
 * l5_ioctl() - queue lengths of a ring, or what the bootstrap answers
 * @sock: the socket
 * @cmd: request
 * @arg: argument of @cmd
 *
 * Return: as the bootstrap's.
 */
int l5_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int answer, err;

	if (_IOC_TYPE(cmd) == _IOC_TYPE(L5_IOC_MAP_INFO))
		return l5_map_ioctl(l5, cmd, arg);
	err = l5_rings_ioctl(l5, cmd, &answer);
	if (err != -ENOIOCTLCMD)
		return err ?: put_user(answer, (int __user *)arg);
	return l5->boot->ops->ioctl(l5->boot, cmd, arg);
}

#if L5_PROTO_IOCTL
/**
 * l5_sock_ioctl() - struct proto's ioctl: what io_uring's commands ask
 * @sk: the owner
 * @cmd: request
 * @answer: to it
 *
 * Context: process.
 * Return: as the bootstrap's.
 */
int l5_sock_ioctl(struct sock *sk, int cmd, int *answer)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;
	const struct proto *prot = READ_ONCE(bsk->sk_prot);
	int err;

	/* AF_UNIX has none */
	if (!prot->ioctl)
		return -EOPNOTSUPP;
	err = l5_rings_ioctl(l5, cmd, answer);
	return err == -ENOIOCTLCMD ? prot->ioctl(bsk, cmd, answer) : err;
}
#endif

#ifdef CONFIG_COMPAT
/**
 * l5_compat_ioctl() - l5_ioctl() of a 32-bit program
 * @sock: the socket
 * @cmd: the command
 * @arg: its argument, 32 bits
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int l5_compat_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int answer, err;

	/* the one pointer among these arguments is as good as a number */
	if (_IOC_TYPE(cmd) == _IOC_TYPE(L5_IOC_MAP_INFO))
		return l5_map_ioctl(l5, cmd, (unsigned long)compat_ptr(arg));
	err = l5_rings_ioctl(l5, cmd, &answer);
	if (err != -ENOIOCTLCMD)
		return err ?: put_user(answer, (int __user *)compat_ptr(arg));
	if (!l5->boot->ops->compat_ioctl)
		return -ENOIOCTLCMD;
	return l5->boot->ops->compat_ioctl(l5->boot, cmd, arg);
}
#endif
