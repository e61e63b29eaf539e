// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: bytes by system call, and waiting for them.
 *
 * Without rings each call is the bootstrap's. With rings the bootstrap still
 * says everything that is not data: end of file, errors, shutdown states. Who
 * finds the ring empty asks it, in this order: first whether the stream has
 * ended, then once more the ring, because what was published before the end
 * comes before the end.
 */
#include <linux/compat.h>
#include <linux/poll.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include <asm/ioctls.h>

#include "l5.h"

/**
 * l5_rx_ended() - has the peer's stream ended, for better or worse?
 * @l5: a socket in state L5_SHM
 *
 * An orderly end is the bootstrap's to tell, and nothing of ours overtakes it:
 * a program that reacted to a sign of the ring's own could have its FIN out
 * before the one of the end that closed first, and TCP would have it wait in
 * TIME_WAIT. Likewise who has read AF_UNIX's end finds POLLHUP and EPIPE, too.
 *
 * Context: any.
 */
bool l5_rx_ended(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	bool says = l5_rdma_says_end(l5), ended;

	ended = READ_ONCE(l5->sk.sk_err) == EPROTO ||
		READ_ONCE(l5_own(l5)->flags) &
		(BIT(L5_END_DEAF) | BIT(L5_END_REVOKED));
	/*
	 * AF_UNIX has no other; from another host TCP's is here before the
	 * last record, and no error after it is the reader's
	 */
	if (!ended && says)
		ended = READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN ||
			READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
			sock_flag(bsk, SOCK_DONE) || l5_rdma_rx_over(l5);
	if (!ended && (says || !sock_flag(bsk, SOCK_DONE)))
		ended = READ_ONCE(bsk->sk_err) || READ_ONCE(l5->sk.sk_err);
	/* P: the end, then the ring; pairs with whatever orders the end after
	 * the last record: what is done under tx_lock, or a packet
	 */
	smp_rmb();
	return ended;
}

/* Is there more to receive than the @seen bytes that a peek left in place? */
static bool l5_rx_ready(struct l5_sock *l5, size_t seen)
{
	if (l5_rx_ended(l5))
		return true;
	return seen ? l5_ring_holds(l5, seen + 1) : l5_ring_readable(l5);
}

/**
 * l5_tx_ended() - can no more be sent, so that the bootstrap has to say why?
 * @l5: a socket in state L5_SHM
 *
 * Context: any.
 */
bool l5_tx_ended(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return READ_ONCE(bsk->sk_err) || READ_ONCE(l5->sk.sk_err) ||
	       READ_ONCE(bsk->sk_shutdown) & SEND_SHUTDOWN ||
	       READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
	       READ_ONCE(l5_own(l5)->flags) &
	       (BIT(L5_END_FIN) | BIT(L5_END_REVOKED) | BIT(L5_END_CUT)) ||
	       test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) ||
	       l5_rdma_lost(l5);
}

/* Is the peer gone, and that all? TCP takes bytes then, and is reset. */
static bool l5_tx_gone(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return l5->proto != L5PROTO_UNIX && !READ_ONCE(bsk->sk_err) &&
	       !READ_ONCE(l5->sk.sk_err) &&
	       !(READ_ONCE(bsk->sk_shutdown) & SEND_SHUTDOWN) &&
	       READ_ONCE(bsk->sk_state) != TCP_CLOSE &&
	       test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) &&
	       !test_bit(L5_END_FIN, &l5_own(l5)->flags);
}

/*
 * Does a call that begins now get EPIPE, whatever error there is? AF_UNIX looks
 * at the shutdown first, and leaves the error to a reader. Who was asleep in
 * the call hears of the error, and TCP has no such order.
 */
static bool l5_tx_pipe(struct l5_sock *l5)
{
	return l5->proto == L5PROTO_UNIX &&
	       READ_ONCE(l5->boot->sk->sk_shutdown) & SEND_SHUTDOWN &&
	       !test_bit(L5_END_BROKEN, &l5_own(l5)->flags);
}

static bool l5_tx_ready(struct l5_sock *l5)
{
	return l5_tx_ended(l5) || l5_ring_writable(l5);
}

/*
 * Say that this end is about to sleep: in its control page, and to a peer on
 * another host by a message.
 */
static void l5_arm_rx(struct l5_sock *l5)
{
	l5_wait_arm(&l5_own(l5)->ctrl->rx_wait);
	if (l5->conn->rdma)
		l5_rdma_arm(l5);
}

static void l5_arm_tx(struct l5_sock *l5)
{
	l5_wait_arm(&l5_own(l5)->ctrl->tx_wait);
	if (l5->conn->rdma)
		l5_rdma_arm_room(l5, l5_ring_extent(l5) / 2);
}

/*
 * Sleep until there is something to do. The wait word is armed before the look
 * that decides to sleep: see l5_ring.h, E and F. What is ready at once leaves
 * it clear, or the peer would ring for nothing.
 *
 * Return: 0, -EAGAIN after *timeo, or as sock_intr_errno().
 */
#define l5_sleep(l5, timeo, arm, ready) ({				\
	struct l5_sock *__l5 = (l5);					\
	long *__timeo = (timeo);					\
	DEFINE_WAIT_FUNC(__wait, woken_wake_function);			\
	int __err = 0;							\
									\
	add_wait_queue(sk_sleep(&__l5->sk), &__wait);			\
	while (!(ready)) {						\
		arm(__l5);						\
		if (ready)						\
			break;						\
		if (!*__timeo)						\
			__err = -EAGAIN;				\
		else if (signal_pending(current))			\
			__err = sock_intr_errno(*__timeo);		\
		if (__err)						\
			break;						\
		l5_count(__l5, L5_STAT_SLEEPS, 1);			\
		*__timeo = wait_woken(&__wait, TASK_INTERRUPTIBLE,	\
				      *__timeo);			\
	}								\
	remove_wait_queue(sk_sleep(&__l5->sk), &__wait);		\
	__err;								\
})

/*
 * The ring was found empty, or full, after it had been said that it was not.
 * Others who share the socket may have been faster, again and again; or they
 * write to the cursors, so that those who ask and those who look see different
 * things. No such round sleeps, so each looks for signals by itself.
 */
static int l5_again(long timeo)
{
	cond_resched();
	return signal_pending(current) ? sock_intr_errno(timeo) : 0;
}

/*
 * Has this end sent since it last received? By the cursors in its control page,
 * since a process that mapped it tells nobody. Bytes that one has received
 * without the kernel came before or after what was sent: then it is not waited
 * for, the process does that itself. Whoever shares the socket may lie, and
 * makes it spin for nothing, or sleep.
 */
static bool l5_awaits(struct l5_sock *l5)
{
	const struct l5_ctrl *ctrl = l5_own(l5)->ctrl;
	u64 tail = l5_load(&ctrl->tx_tail), head = l5_load(&ctrl->rx_head);

	if (READ_ONCE(l5->got_head) == head)
		return READ_ONCE(l5->got_tail) != tail;
	WRITE_ONCE(l5->got_head, head);
	WRITE_ONCE(l5->got_tail, tail);
	return false;
}

/* It has received. */
static void l5_awaits_no_more(struct l5_sock *l5)
{
	const struct l5_ctrl *ctrl = l5_own(l5)->ctrl;

	WRITE_ONCE(l5->got_head, l5_load(&ctrl->rx_head));
	WRITE_ONCE(l5->got_tail, l5_load(&ctrl->tx_tail));
}

/*
 * How long to look at the ring before sleeping, ns. A socket that was told
 * spins as told. Else it adapts, as KVM's halt polling does, see l5_spun(), and
 * only while it waits for an answer: who has sent nothing since it last
 * received may be about to, and would be kept from it by a poll that spins.
 */
static u64 l5_spin_ns(struct l5_sock *l5, bool *adapt)
{
	int us = READ_ONCE(l5->spin_us);

	*adapt = false;
#ifdef CONFIG_NET_RX_BUSY_POLL
	if (us < 0)
		us = READ_ONCE(l5->sk.sk_ll_usec) ?: -1;
#endif
	if (us >= 0)
		return (u64)us * NSEC_PER_USEC;
	us = l5_awaits(l5) ? READ_ONCE(l5->ln->spin_us) : 0;
	*adapt = us;
	return min_t(u64, (u64)us * NSEC_PER_USEC, READ_ONCE(l5->spin_win));
}

/*
 * Learn from a wait: had it been short enough to spin through, spin as long
 * next time and half as much again; had it not, spin less and soon not at all.
 * So a connection that answers at once spins, and an idle one never does.
 */
static void l5_spun(struct l5_sock *l5, u64 waited)
{
	u64 max = (u64)READ_ONCE(l5->ln->spin_us) * NSEC_PER_USEC;
	u64 win = READ_ONCE(l5->spin_win);

	if (waited <= max)
		win = max(win, waited + waited / 2);
	else
		win = win < NSEC_PER_USEC ? 0 : win / 2;
	WRITE_ONCE(l5->spin_win, win);
}

/*
 * Look at the ring for a while. Not when anyone else, perhaps the peer, could
 * use this CPU: then sleeping is the faster way.
 */
static bool l5_spin(struct l5_sock *l5, u64 start, u64 ns)
{
	int i;

	l5_count(l5, L5_STAT_SPINS, 1);
	while (single_task_running() && !need_resched() &&
	       !signal_pending(current) && local_clock() - start < ns) {
		for (i = 0; i < 32; i++) {
			if (l5_ring_readable(l5))
				return true;
			cpu_relax();
		}
		if (l5_rx_ended(l5))
			return true;
	}
	return false;
}

/*
 * The socket that was polled last on each CPU; only ever compared. A task that
 * polls one socket again and again waits for that one.
 */
static DEFINE_PER_CPU(const void *, l5_polled);

/* The longest spin in a poll, ns, whatever was asked for: see below. */
#define L5_POLL_SPIN_MAX	(200 * NSEC_PER_USEC)

/*
 * A server that waits in epoll is asked once more about what it has just read,
 * before it sleeps: the place to spin for it, by the same rule as a receive.
 * Not where several sockets take turns, they would spin one after the other.
 *
 * But epoll asks the same way for a program that is not going to wait, poll(),
 * select() and io_uring ask when nobody waits any more, and epoll asks with a
 * mutex held that others may need. So it is short; it is only for sockets that
 * an epoll set watches; and not for a task that was told that there is nothing
 * and asks again without having slept since.
 */
static void l5_poll_spin(struct l5_sock *l5, struct file *file)
{
	const void *last = this_cpu_xchg(l5_polled, l5);
	unsigned long slept = READ_ONCE(current->nvcsw);
	bool adapt, waits;
	u64 ns;

	if (!l5_file_watched(file))
		return;
	waits = READ_ONCE(l5->poll_task) != current ||
		READ_ONCE(l5->poll_slept) != slept;
	WRITE_ONCE(l5->poll_task, current);
	WRITE_ONCE(l5->poll_slept, slept);
	if (last != l5 || !waits || READ_ONCE(l5->polled) || !l5_awaits(l5))
		return;
	ns = min_t(u64, l5_spin_ns(l5, &adapt), L5_POLL_SPIN_MAX);
	if (!ns && !adapt)
		return;
	WRITE_ONCE(l5->polled, local_clock());
	/* told that there is something: nothing to sleep for */
	if (ns && l5_spin(l5, l5->polled, ns))
		WRITE_ONCE(l5->poll_task, NULL);
}

/* Data came after a poll that found none: learn how long that took. */
static void l5_poll_done(struct l5_sock *l5)
{
	u64 start = READ_ONCE(l5->polled);

	if (!start)
		return;
	WRITE_ONCE(l5->polled, 0);
	l5_spun(l5, local_clock() - start);
}

/*
 * Wait for more to read than the @seen bytes of a peek: spin, then sleep.
 * Return: as l5_sleep().
 */
static int l5_wait_rx(struct l5_sock *l5, long *timeo, bool may_spin,
		      size_t seen)
{
	bool adapt = false;
	u64 start, ns = 0;
	int err = 0;

	l5_ring_owed(l5);
	if (!*timeo) {
		/* who asked once and for all to be told polls no more */
		l5_arm_rx(l5);
		return l5_rx_ready(l5, seen) ? 0 : -EAGAIN;
	}
	if (may_spin)
		ns = l5_spin_ns(l5, &adapt);
	if (!ns && !adapt)
		return l5_sleep(l5, timeo, l5_arm_rx, l5_rx_ready(l5, seen));
	start = local_clock();
	if (!ns || !l5_spin(l5, start, ns))
		err = l5_sleep(l5, timeo, l5_arm_rx, l5_rx_ready(l5, seen));
	if (adapt)
		l5_spun(l5, local_clock() - start);
	return err;
}

/**
 * l5_boot_use() - before the bootstrap gets a call
 * @l5: the socket
 *
 * It is to know what its owner knows.
 *
 * Context: may sleep.
 */
void l5_boot_use(struct l5_sock *l5)
{
	l5_boot_error(l5);
	l5_boot_borrow(l5);
	l5_opts_push(l5);
	if (unlikely(l5->conn) && l5_state(l5) == L5_BASE)
		l5_connect_settle(l5);
}

/*
 * What the bootstrap makes of a call, with the errors it gives counted as
 * given by its owner too.
 */
static int l5_boot_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	int ret;

	l5_boot_use(l5);
	ret = l5->boot->ops->sendmsg(l5->boot, msg, len);
	l5_boot_error(l5);
	return ret;
}

static int l5_boot_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
			   int flags)
{
	int ret;

	l5_boot_use(l5);
	ret = l5->boot->ops->recvmsg(l5->boot, msg, len, flags);
	if (ret > 0)
		l5_unix_received(l5, msg);
	l5_boot_error(l5);
	return ret;
}

/* While connecting, who may block waits for the outcome, as TCP does. */
static int l5_connecting(struct l5_sock *l5, bool nonblock, long timeo)
{
	if (l5_state(l5) != L5_CONNECTING)
		return 0;
	return l5_wait_decided(l5, nonblock ? 0 : timeo);
}

/**
 * l5_send_to_closed() - send a peer that closed something that it resets
 * @l5: a socket in state L5_SHM
 *
 * The peer closed when a record had just been published. TCP's answer to such
 * bytes is a reset, so send it one that asks for it.
 *
 * TCP drops that byte without a word if the acknowledgment of its FIN, which
 * may come from a timer, is turning it into TIME_WAIT just then. The byte of
 * the next send() is to make up for it, not to be kept back by Nagle's rule
 * until the first is retransmitted: hence urgent data, which that rule spares.
 * But not to a peer that only shut down, since poll() would show it POLLPRI;
 * TCP does not forget that one's socket.
 *
 * An error that there is says that the peer has reset it already, and is the
 * program's to hear of: so it is looked at under the lock that it comes under.
 *
 * Context: may sleep.
 */
void l5_send_to_closed(struct l5_sock *l5)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = "", .iov_len = 1 };
	struct sock *bsk = l5->boot->sk;

	if (l5->proto == L5PROTO_UNIX)
		return;
	/* of one on another host it is not known */
	if (!l5->conn->rdma && !rcu_access_pointer(l5_peer(l5)->sk))
		msg.msg_flags |= MSG_OOB;
	iov_iter_kvec(&msg.msg_iter, L5_ITER_SOURCE, &vec, 1, 1);
	lock_sock(bsk);
	if (!bsk->sk_err)
		tcp_sendmsg_locked(bsk, &msg, 1);
	release_sock(bsk);
}

/**
 * l5_send_unread() - has a peer that closed left something unread?
 * @l5: a socket in state L5_SHM that has just published
 *
 * If so it is asked for its reset. What it read before it closed is no loss.
 *
 * Context: may sleep.
 */
void l5_send_unread(struct l5_sock *l5)
{
	/* M, see l5_ring_write() */
	if (test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) &&
	    l5_ring_used(l5->conn, l5->end))
		l5_send_to_closed(l5);
}

/* The checks that the bootstrap would make before it looks at the bytes. */
static int l5_shm_send_check(struct l5_sock *l5, struct msghdr *msg)
{
	struct sockcm_cookie sockc = { };

	if (msg->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (l5->proto == L5PROTO_UNIX) {
		if (msg->msg_namelen)
			return -EISCONN;
		/* credentials and descriptors do not travel in a ring */
		return msg->msg_controllen ? -EOPNOTSUPP : 0;
	}
	if (msg->msg_controllen)
		return sock_cmsg_send(l5->boot->sk, msg, &sockc);
	return 0;
}

/*
 * An error is told once. That a connection was reset may come from more than one
 * side: what takes back its rings knows before the bootstrap does; and if both
 * ends are ended at a time, each has the other's reset, and is ended itself.
 */
static bool l5_reset_told(struct l5_sock *l5)
{
	return test_and_set_bit(L5_END_TOLD, &l5_own(l5)->flags);
}

static int l5_ring_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	long timeo = sock_sndtimeo(&l5->sk, msg->msg_flags & MSG_DONTWAIT);
	bool waited = false;
	size_t done = 0;
	ssize_t n;
	int err;

	if (l5_tx_ended(l5)) {
		/* which AF_UNIX looks at first */
		if (l5->proto == L5PROTO_UNIX && msg->msg_namelen)
			return -EISCONN;
		if (!l5_tx_pipe(l5))
			goto ended;
		/* a closing peer may not have come to telling us */
		l5_boot_error(l5);
		if (!(msg->msg_flags & MSG_NOSIGNAL))
			send_sig(SIGPIPE, current, 0);
		return -EPIPE;
	}
	err = l5_shm_send_check(l5, msg);
	if (err)
		return err;
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
			n = l5_ring_write(l5, &msg->msg_iter);
			if (n > 0) {
				done += n;
				waited = false;
			}
		} while (n > 0 && msg_data_left(msg));
		l5_ring_unlock(l5, L5_LOCK_TX);
		if (n == -EPIPE) {
			/* taken, like what TCP sends to who is gone */
			l5_send_unread(l5);
			return len - msg_data_left(msg);
		}
		if (n == -EAGAIN) {
			/* who may not wait has armed it for an edge */
			sk_set_bit(SOCKWQ_ASYNC_NOSPACE, &l5->sk);
			n = waited ? l5_again(timeo) : 0;
			if (!n)
				n = l5_sleep(l5, &timeo, l5_arm_tx,
					     l5_tx_ready(l5));
			waited = true;
		}
		if (n == -EPROTO)
			l5_ring_violation(l5);
		if (n < 0)
			return done ?: n;
	}
	return done;

ended:
	if (done) {
		/* AF_UNIX forgets why it stopped, TCP tells the next call */
		if (l5->proto == L5PROTO_UNIX && sock_error(l5->boot->sk))
			l5_boot_error(l5);
		return done;
	}
	/* never the bytes themselves to the bootstrap: nobody reads there */
	if (l5_tx_gone(l5)) {
		/* nothing is nothing to TCP, either, and is not answered */
		if (len)
			l5_send_to_closed(l5);
		/*
		 * Nor does TCP take more than its buffer holds before it has
		 * the answer: who writes only once is to hear of it.
		 */
		return min_t(size_t, len, l5_ring_extent(l5));
	}
	l5_boot_error(l5);
	if (!READ_ONCE(l5->boot->sk->sk_err) && READ_ONCE(l5->sk.sk_err))
		return sock_error(&l5->sk);
	/* cut off, and the bootstrap is about to hear of it */
	if (test_bit(L5_END_CUT, &l5_own(l5)->flags) &&
	    !READ_ONCE(l5->boot->sk->sk_err) &&
	    !(READ_ONCE(l5->boot->sk->sk_shutdown) & SEND_SHUTDOWN) &&
	    !l5_reset_told(l5))
		return -ECONNRESET;
	err = sk_stream_error(l5->boot->sk, msg->msg_flags, -EPIPE);
	if (err == -ECONNRESET && l5_reset_told(l5))
		err = sk_stream_error(l5->boot->sk, msg->msg_flags, -EPIPE);
	l5_boot_error(l5);
	return err;
}

/*
 * With MSG_ZEROCOPY and its option each send is notified of. The bytes were
 * copied, says the notification, as it does of TCP within one host.
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

static int l5_shm_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	if (unlikely(msg->msg_flags & MSG_ZEROCOPY) && len && !msg->msg_ubuf &&
	    sock_flag(&l5->sk, SOCK_ZEROCOPY))
		return l5_zerocopy_sendmsg(l5, msg, len);
	return l5_ring_sendmsg(l5, msg, len);
}

/*
 * A send of no bytes, which means nothing to TCP, is L5_IOC_DOORBELL and
 * L5_IOC_UNLOCK for who has the rings mapped and is refused ioctl(). To a peer
 * that is gone goes the byte that asks for a reset, but only if it is said that
 * this is a bell: TCP sends nothing for nothing.
 *
 * Return: true if that is all there is to do.
 */
static bool l5_send_nothing(struct l5_sock *l5, const struct msghdr *msg)
{
	if (l5_state(l5) != L5_SHM)
		return false;
	l5_ring_owed(l5);
	if (l5->conn->rdma)
		l5_rdma_push(l5->conn, true);
	l5_conn_unlocked(l5->conn, l5->end);
	if (!(msg->msg_flags & L5_MSG_BELL))
		return false;
	l5_send_unread(l5);
	return true;
}

/*
 * The first bytes of a client whose listener waits for them, and whatever is
 * to go with them.
 */
static int l5_first_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	int first, ret;

	if (!(msg->msg_flags & MSG_OOB)) {
		ret = l5_shm_send_check(l5, msg);
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

/**
 * l5_sendmsg() - send on a socket in any state
 * @sock: the socket
 * @msg: what and how
 * @len: bytes in it
 *
 * Return: as the bootstrap's.
 */
int l5_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool nonblock = msg->msg_flags & MSG_DONTWAIT;
	enum l5_tx tx;
	int err;

	if (unlikely(l5_state(l5) == L5_CONNECTING) && l5_deferred(l5) && len) {
		err = l5_first_sendmsg(l5, msg, len);
		if (err)
			return err;
	}
	err = l5_connecting(l5, nonblock, sock_sndtimeo(&l5->sk, nonblock));
	if (err)
		return err;
	if (unlikely(!len) && l5_send_nothing(l5, msg))
		return 0;
	if (l5_tx_rings(l5))
		return l5_shm_sendmsg(l5, msg, len);
	if (l5->proto == L5PROTO_UNIX && msg->msg_controllen) {
		err = l5_unix_send_check(l5, msg);
		if (err)
			return err;
	}
	tx = l5_move_tx_begin(l5);
	if (tx == L5_TX_RINGS)
		return l5_shm_sendmsg(l5, msg, len);
	err = l5_boot_sendmsg(l5, msg, len);
	if (tx == L5_TX_COUNTED)
		l5_move_tx_end(l5);
	/* connected by sending, with TCP Fast Open */
	if (err >= 0 && l5_state(l5) == L5_IDLE)
		l5_set_state(l5, L5_BASE, L5_REASON_CONNECT);
	return err;
}

/**
 * l5_wait_carrier() - before receiving: wait until it is known by what
 * @l5: the socket
 * @timeo: how long, jiffies
 *
 * Return: 0, -EAGAIN after @timeo, or as sock_intr_errno().
 */
long l5_wait_carrier(struct l5_sock *l5, long timeo)
{
	return l5_defer_recv(l5, timeo) ?: l5_wait_decided(l5, timeo);
}

/*
 * The ring is empty, and there were signs of an end: what is the answer?
 * Return: as recvmsg(), -EAGAIN if it was none, and is gone.
 */
static int l5_shm_rx_end(struct l5_sock *l5, struct msghdr *msg, size_t len,
			 int flags)
{
	int n;

	/* any other is the bootstrap's to give: l5_boot_error() takes one that
	 * is gone here, be it for a moment, for one that a program has had
	 */
	if (READ_ONCE(l5->sk.sk_err) == EPROTO) {
		n = sock_error(&l5->sk);
		if (n)
			return n;
	}
	n = l5_rdma_rx_end(l5);
	if (n)
		return n;
	n = l5_boot_recvmsg(l5, msg, len, flags | MSG_DONTWAIT);
	if (n == -ECONNRESET && l5_reset_told(l5))
		return 0;
	if (n != -EAGAIN)
		return n;
	/* what was taken back ends by an error, and the RST is on its way */
	if (test_bit(L5_END_REVOKED, &l5_own(l5)->flags))
		return l5_reset_told(l5) ? 0 : -ECONNRESET;
	if (test_bit(L5_END_DEAF, &l5_own(l5)->flags))
		return 0;
	/* disconnected meanwhile, and connected to another peer */
	if (!l5_rx_rings(l5))
		return -ECONNRESET;
	/* there was an error after which TCP goes on, and another took it */
	return sock_error(&l5->sk) ?: -EAGAIN;
}

static int l5_shm_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
			  int flags)
{
	long timeo = sock_rcvtimeo(&l5->sk, flags & MSG_DONTWAIT);
	size_t target = sock_rcvlowat(&l5->sk, flags & MSG_WAITALL, len);
	bool peek = flags & MSG_PEEK, ended;
	bool discard = flags & MSG_TRUNC && l5->proto != L5PROTO_UNIX;
	bool waited = false;
	size_t done = 0;
	ssize_t n;

	msg->msg_namelen = 0;
	if (flags & MSG_OOB)
		return -EINVAL;
	/* a process that sends from a mapped ring looks at nothing else */
	if (sock_flag(&l5->sk, SOCK_FASYNC))
		l5_arm_rx(l5);
	for (;;) {
		ended = l5_rx_ended(l5);
		n = l5_ring_lock(l5, L5_LOCK_RX, &timeo);
		if (n == -EPROTO)
			l5_ring_violation(l5);
		if (n)
			return done ?: n;
		if (peek)
			n = l5_ring_peek(l5, &msg->msg_iter, done, len - done,
					 discard);
		else
			n = l5_ring_read(l5, &msg->msg_iter, len - done,
					 discard);
		l5_ring_unlock(l5, L5_LOCK_RX);
		if (n == -EPROTO)
			l5_ring_violation(l5);
		if (n < 0 && n != -EAGAIN && n != -ECONNRESET)
			return done ?: n;
		if (n >= 0)
			done += n;
		if (n > 0)
			l5_awaits_no_more(l5);
		if (done >= target || (n >= 0 && done == len) ||
		    fatal_signal_pending(current))
			return done;
		if (n > 0) {
			waited = false;
			continue;
		}
		if (ended && done)
			return done;
		if (ended) {
			n = l5_shm_rx_end(l5, msg, len, flags);
			if (n == -EAGAIN)
				n = l5_again(timeo) ?: 1;
			if (n <= 0)
				return n;
			continue;
		}
		n = waited ? l5_again(timeo) : 0;
		if (!n)
			n = l5_wait_rx(l5, &timeo, !done, peek ? done : 0);
		if (n)
			return done ?: n;
		waited = true;
	}
}

/*
 * How much is left, for who has asked to be told with each receive: by TCP_INQ
 * all of it, by io_uring whether there is any. To TCP the end is one more.
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
	       (msg->msg_get_inq && l5->proto != L5PROTO_UNIX);
}

/**
 * l5_boot_readable() - is there anything to be heard from TCP?
 * @l5: a socket that TCP carries so far
 * @seen: bytes that are there and do not count
 *
 * Return: whether there are more, or an end.
 */
bool l5_boot_readable(const struct l5_sock *l5, size_t seen)
{
	const struct sock *bsk = l5->boot->sk;
	const struct tcp_sock *tp = tcp_sk(bsk);

	return READ_ONCE(tp->rcv_nxt) - READ_ONCE(tp->copied_seq) > seen ||
	       READ_ONCE(bsk->sk_err) || READ_ONCE(l5->sk.sk_err) ||
	       READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN ||
	       READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
	       sock_flag(bsk, SOCK_DONE);
}

static int l5_move_wait_rx(struct l5_sock *l5, long *timeo, size_t seen)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err = 0;

	add_wait_queue(sk_sleep(&l5->sk), &wait);
	while (!l5_boot_readable(l5, seen) && !l5_rx_rings(l5)) {
		if (!*timeo)
			err = -EAGAIN;
		else if (signal_pending(current))
			err = sock_intr_errno(*timeo);
		if (err)
			break;
		*timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
	}
	remove_wait_queue(sk_sleep(&l5->sk), &wait);
	return err;
}

/*
 * Receive on a socket that TCP carries so far. Never asleep inside TCP: what
 * comes next may come by the ring.
 */
static int l5_move_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
			   int flags)
{
	long timeo = sock_rcvtimeo(&l5->sk, flags & MSG_DONTWAIT);
	size_t target = sock_rcvlowat(&l5->sk, flags & MSG_WAITALL, len);
	bool peek = flags & MSG_PEEK;
	size_t done = 0, seen = 0, left;
	int n;

	for (;;) {
		if (l5_rx_rings(l5)) {
			n = l5_shm_recvmsg(l5, msg, len - done, flags);
			return n < 0 && done ? (int)done : n + (int)done;
		}
		/* TCP leaves an error for who got nothing */
		if (done && READ_ONCE(l5->boot->sk->sk_err))
			return done;
		left = msg_data_left(msg);
		n = l5_boot_recvmsg(l5, msg, len - done, flags | MSG_DONTWAIT);
		if (n > 0 && peek && n < (int)target && n > (int)seen &&
		    timeo) {
			/* one look more, from the start, which MSG_TRUNC
			 * has not left
			 */
			seen = n;
			iov_iter_revert(&msg->msg_iter,
					left - msg_data_left(msg));
		} else if (n > 0 && peek) {
			return n;
		} else if (n > 0) {
			done += n;
			l5_rdma_rx_look(l5);
		}
		if (n == 0 && len > done) {
			/* the end, unless a cut came before it */
			l5_rdma_rx_look(l5);
			if (!l5_rx_rings(l5))
				return done ?: l5_rdma_tcp_end(l5);
			seen = 0;
			continue;
		}
		if (n < 0 && n != -EAGAIN)
			return done ?: n;
		if (done >= target || done == len)
			return done;
		/* an option of TCP's may have read what was left */
		l5_rdma_rx_look(l5);
		n = l5_move_wait_rx(l5, &timeo, seen);
		if (n && seen) {
			n = l5_boot_recvmsg(l5, msg, len,
					    flags | MSG_DONTWAIT);
			return n ?: l5_rdma_tcp_end(l5);
		}
		if (n)
			return done ?: n;
	}
}

/**
 * l5_recvmsg() - receive on a socket in any state
 * @sock: the socket
 * @msg: where to
 * @len: bytes of room
 * @flags: MSG_*
 *
 * Return: as the bootstrap's.
 */
int l5_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool nonblock = flags & MSG_DONTWAIT;
	int err, n;

	if (unlikely(l5_state(l5) == L5_CONNECTING)) {
		if (l5_deferred(l5) && flags & (MSG_ERRQUEUE | MSG_OOB))
			return l5_boot_recvmsg(l5, msg, len, flags);
		err = l5_wait_carrier(l5, sock_rcvtimeo(&l5->sk, nonblock));
		if (err)
			return err;
	}
	if (flags & MSG_ERRQUEUE)
		return l5_boot_recvmsg(l5, msg, len, flags);
	if (l5_rx_rings(l5)) {
		size_t room = msg->msg_controllen;

		n = l5_shm_recvmsg(l5, msg, len, flags);
		/* unless it was TCP that told of an end, and of that */
		if (unlikely(l5_wants_inq(l5, msg)) && n >= 0 &&
		    msg->msg_controllen == room &&
		    !(msg->msg_flags & MSG_CTRUNC))
			l5_recv_inq(l5, msg);
		return n;
	}
	if (!(flags & MSG_OOB) && l5_may_move(l5))
		return l5_move_recvmsg(l5, msg, len, flags);
	n = l5_boot_recvmsg(l5, msg, len, flags);
	return n || !len ? n : l5_rdma_tcp_end(l5);
}

/* Is there as much as SO_RCVLOWAT wants? */
static bool l5_poll_readable(struct l5_sock *l5)
{
	const struct l5_end *peer = l5_peer(l5);
	size_t low = READ_ONCE(l5->sk.sk_rcvlowat);

	if (!l5_ring_readable(l5))
		return false;
	/* AF_UNIX's poll does not look at it */
	if (low <= 1 || l5->proto == L5PROTO_UNIX)
		return true;
	/* a ring that cannot take more has all it will ever have */
	if (READ_ONCE(peer->starved) ||
	    l5_ring_used(l5->conn, !l5->end) >= peer->size / 4)
		return true;
	return l5_ring_holds(l5, low);
}

/* One direction is the ring's, or both but not for long; see move.c. */
static __poll_t l5_moving_poll(struct l5_sock *l5, struct file *file,
			       poll_table *wait)
{
	const __poll_t in = EPOLLIN | EPOLLRDNORM;
	const __poll_t out = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	__poll_t mask;

	if (l5_rx_rings(l5))
		l5_arm_rx(l5);
	mask = l5->boot->ops->poll(file, l5->boot, NULL);
	if (l5_rx_rings(l5)) {
		if (!l5_rdma_says_end(l5))
			mask &= ~(in | EPOLLRDHUP | EPOLLHUP);
		if (l5_rx_ended(l5) || l5_ring_readable(l5))
			mask |= in;
	}
	if (l5_tx_rings(l5) && !l5_tx_ended(l5)) {
		mask &= ~out;
		if (!l5_ring_writable(l5))
			l5_arm_tx(l5);
		if (l5_ring_writable(l5))
			mask |= out;
	}
	return mask;
}

/**
 * l5_poll() - what could be done without waiting
 * @file: the socket's file
 * @sock: the socket
 * @wait: the caller's table, or NULL
 *
 * The wait word for data is armed on every call that asks for data, that for
 * room when there is none: only then does an edge-triggered waiter hear of the
 * next byte without having drained the ring, see l5_ring.h.
 *
 * Return: as the bootstrap's.
 */
__poll_t l5_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	const __poll_t out = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool says, readable, in;
	__poll_t mask;

	sock_poll_wait(file, sock, wait);
	l5_boot_error(l5);
	if (l5_undecided(l5))
		return 0;
	if (!l5_rx_rings(l5) && !l5_tx_rings(l5)) {
		mask = l5->boot->ops->poll(file, l5->boot, NULL);
		/* the handshake may be over since */
		if (l5_undecided(l5))
			return 0;
		if (!l5_rx_rings(l5) && !l5_tx_rings(l5))
			return mask;
	}
	if (l5_state(l5) == L5_MOVING)
		return l5_moving_poll(l5, file, wait);

	/* not for who waits for room alone: the peer would ring for nothing */
	in = poll_requested_events(wait) & (EPOLLIN | EPOLLRDNORM);
	if (in)
		l5_arm_rx(l5);
	says = l5_rdma_says_end(l5);
	mask = l5->boot->ops->poll(file, l5->boot, NULL);
	if (!says)
		mask &= ~(EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLHUP);
	if (READ_ONCE(l5->sk.sk_err))
		mask |= EPOLLERR;
	readable = l5_poll_readable(l5);
	if (!readable && in && l5_poll_asks(wait) && !(mask & EPOLLRDHUP)) {
		l5_poll_spin(l5, file);
		readable = l5_poll_readable(l5);
	}
	if (readable) {
		l5_poll_done(l5);
		mask |= EPOLLIN | EPOLLRDNORM;
	} else {
		l5_ring_owed(l5);
	}
	if (READ_ONCE(l5->boot->sk->sk_shutdown) & SEND_SHUTDOWN)
		return mask;
	if (!l5_ring_writable(l5)) {
		sk_set_bit(SOCKWQ_ASYNC_NOSPACE, &l5->sk);
		l5_arm_tx(l5);
		if (!l5_ring_writable(l5))
			mask &= ~out;
	}
	return mask;
}

static int l5_shm_ioctl(struct l5_sock *l5, unsigned int cmd, int *answer)
{
	size_t n = 0;

	switch (cmd) {
	case SIOCINQ:
		if (mutex_lock_interruptible(&l5->rx_lock))
			return -ERESTARTSYS;
		n = l5_ring_count(l5, !l5->end, INT_MAX);
		mutex_unlock(&l5->rx_lock);
		break;
	case SIOCOUTQ:
		/*
		 * TCP counts what the peer's kernel does not have, AF_UNIX
		 * what the peer did not read.
		 */
		if (l5->proto == L5PROTO_UNIX)
			n = l5_ring_count(l5, l5->end, INT_MAX);
		break;
	default:
		return -ENOIOCTLCMD;
	}
	*answer = n;
	return 0;
}

/**
 * l5_ioctl() - queue lengths of a ring, or what the bootstrap answers
 * @sock: the socket
 * @cmd: request
 * @arg: of it
 *
 * Return: as the bootstrap's.
 */
int l5_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int answer, err = -ENOIOCTLCMD;

	if (_IOC_TYPE(cmd) == _IOC_TYPE(L5_IOC_MAP_INFO))
		return l5_map_ioctl(l5, cmd, arg);
	if (l5_state(l5) == L5_SHM)
		err = l5_shm_ioctl(l5, cmd, &answer);
	if (err != -ENOIOCTLCMD)
		return err ?: put_user(answer, (int __user *)arg);
	return l5->boot->ops->ioctl(l5->boot, cmd, arg);
}

#ifdef CONFIG_COMPAT
int l5_compat_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int answer, err = -ENOIOCTLCMD;

	/* the one pointer among these arguments is as good as a number */
	if (_IOC_TYPE(cmd) == _IOC_TYPE(L5_IOC_MAP_INFO))
		return l5_map_ioctl(l5, cmd, (unsigned long)compat_ptr(arg));
	if (l5_state(l5) == L5_SHM)
		err = l5_shm_ioctl(l5, cmd, &answer);
	if (err != -ENOIOCTLCMD)
		return err ?: put_user(answer, (int __user *)compat_ptr(arg));
	if (!l5->boot->ops->compat_ioctl)
		return -ENOIOCTLCMD;
	return l5->boot->ops->compat_ioctl(l5->boot, cmd, arg);
}
#endif
