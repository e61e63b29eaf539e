// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: TCP as a bootstrap.
 *
 * A listener has two things of ours. One is a table of operations: it sees each
 * child before any other code does, takes from the child what the child copied
 * of the listener, and leaves nothing on it but the meeting that the child
 * waits with. The other is a sk_state_change that hears of the listener's own
 * end. A listener whose operations are not the ones it began with cannot have
 * the table: it has nothing of ours, and its children stay on TCP.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/sctp.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/inet_common.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "bootstrap.h"
#include "cover.h"
#include "link.h"
#include "opts.h"
#include "rendezvous.h"
#include "state.h"
#include "tcp.h"

/*
 * TCP's operations for a listener, with ours around those that answer a SYN and
 * make a child. There is a table for IPv4 and one for IPv6, each filled with
 * the first socket and constant from then on.
 */
struct l5_af_ops {
	const struct inet_connection_sock_af_ops *orig;
	struct inet_connection_sock_af_ops ops;
};

static DEFINE_MUTEX(l5_af_lock);	/* guards the filling of these two */
static struct l5_af_ops l5_af[2];

static struct l5_af_ops *l5_af_of(const struct l5_sock *l5)
{
	return &l5_af[l5->bops == &l5_tcp6_boot];
}

/* See l5_boot_judge(). */
static int l5_tcp_judge(struct l5_sock *l5, int what,
			struct l5_sockaddr *addr, int len)
{
	struct sock *bsk = l5->boot->sk;
	int err;

	/* the bootstrap refuses other families, and the rest is no address */
	if (len >= (int)sizeof(struct sockaddr_in6) &&
	    addr->sa_family == AF_INET6)
		len = sizeof(struct sockaddr_in6);
	else if (len >= (int)sizeof(struct sockaddr_in) &&
		 (addr->sa_family == AF_INET || addr->sa_family == AF_UNSPEC))
		len = sizeof(struct sockaddr_in);
	else
		return 0;
	lock_sock(bsk);
	err = security_sctp_bind_connect(bsk, what, (struct sockaddr *)addr,
					 len);
	release_sock(bsk);
	return err;
}

static int l5_conn_request(const struct l5_af_ops *af, struct sock *sk,
			   struct sk_buff *skb)
{
	struct request_sock_queue *queue = &inet_csk(sk)->icsk_accept_queue;
	bool cover = l5_cover_begin(sock_net(sk));
	const struct l5_sock *l5;

	/* a child made from the SYN would come before its client has entered */
	WRITE_ONCE(queue->fastopenq.max_qlen, 0);
	rcu_read_lock();
	l5 = l5_owner(sk);
	if (l5 && !l5_why_not(l5) && !l5_far_only(l5))
		l5_rdv_note(ntohl(tcp_hdr(skb)->seq),
			    READ_ONCE(queue->rskq_defer_accept));
	rcu_read_unlock();
	l5_cover_end(cover);
	return af->orig->conn_request(sk, skb);
}

static int l5_conn_request_v4(struct sock *sk, struct sk_buff *skb)
{
	return l5_conn_request(&l5_af[0], sk, skb);
}

static int l5_conn_request_v6(struct sock *sk, struct sk_buff *skb)
{
	return l5_conn_request(&l5_af[1], sk, skb);
}

/*
 * A child comes into being, locked, before it is in any queue. It is to be like
 * any other child; but a client may be waiting for it.
 */
static struct sock *l5_syn_recv_sock(const struct l5_af_ops *af,
				     const struct sock *sk,
				     const struct sk_buff *skb,
				     struct sock *child, bool own)
{
	struct inet_connection_sock *icsk;
	struct l5_sock *listener;
	bool cover;

	if (!child)
		return NULL;
	icsk = inet_csk(child);
	if (icsk->icsk_af_ops == &af->ops)
		icsk->icsk_af_ops = af->orig;
	child->sk_state_change = READ_ONCE(l5_boot_wakeup);
	/* if the child is not its SYN's own, another packet was faster */
	if (!own)
		return child;
	cover = l5_cover_begin(sock_net(sk));
	rcu_read_lock();
	listener = l5_owner(sk);
	if (listener)
		l5_rdv_child(listener, child, skb);
	rcu_read_unlock();
	l5_cover_end(cover);
	return child;
}

static struct sock *l5_syn_recv_v4(const struct sock *sk, struct sk_buff *skb,
				   struct request_sock *req,
				   struct dst_entry *dst,
				   struct request_sock *unhash, L5_OWN_ARGS)
{
	struct sock *child;

	child = l5_af[0].orig->syn_recv_sock(sk, skb, req, dst, unhash,
					     L5_OWN_PASS);
	return l5_syn_recv_sock(&l5_af[0], sk, skb, child, *own);
}

static struct sock *l5_syn_recv_v6(const struct sock *sk, struct sk_buff *skb,
				   struct request_sock *req,
				   struct dst_entry *dst,
				   struct request_sock *unhash, L5_OWN_ARGS)
{
	struct sock *child;

	child = l5_af[1].orig->syn_recv_sock(sk, skb, req, dst, unhash,
					     L5_OWN_PASS);
	return l5_syn_recv_sock(&l5_af[1], sk, skb, child, *own);
}

/*
 * sk_state_change of a listener whose children are to be met. If another than
 * its owner ends it (ss -K), the children that wait for accept() are to end,
 * too.
 */
static void l5_listen_state_change(struct sock *bsk)
{
	bool cover = l5_cover_begin(sock_net(bsk));
	struct l5_sock *l5;

	read_lock_bh(&bsk->sk_callback_lock);
	l5 = l5_owner(bsk);
	/* the listener's release may have taken this back meanwhile */
	if (l5 && bsk->sk_state_change == l5_listen_state_change &&
	    READ_ONCE(bsk->sk_state) == TCP_CLOSE) {
		sock_hold(&l5->sk);
		if (!queue_delayed_work(l5_wq, &l5->listened, 0))
			sock_put(&l5->sk);
	}
	read_unlock_bh(&bsk->sk_callback_lock);
	l5_cover_end(cover);
	READ_ONCE(l5_boot_wakeup)(bsk);
}

/* Fill our table from a fresh socket, which has TCP's own operations. */
static void l5_tcp_create(struct l5_sock *l5)
{
	const struct inet_connection_sock *icsk = inet_csk(l5->boot->sk);
	bool v6 = l5->bops == &l5_tcp6_boot;
	struct l5_af_ops *af = &l5_af[v6];

	/* Q, pairs with the mark below */
	if (smp_load_acquire(&af->orig))
		return;
	mutex_lock(&l5_af_lock);
	if (!af->orig) {
		af->ops = *icsk->icsk_af_ops;
		af->ops.conn_request = v6 ? l5_conn_request_v6 :
					    l5_conn_request_v4;
		af->ops.syn_recv_sock = v6 ? l5_syn_recv_v6 : l5_syn_recv_v4;
		/* Q, pairs with the look above: the table, then its mark */
		smp_store_release(&af->orig, icsk->icsk_af_ops);
	}
	mutex_unlock(&l5_af_lock);
}

/*
 * Make the bootstrap ready to be a listener that looks for meetings. A
 * bootstrap whose operations are not those it began with becomes an ordinary
 * listener: it was connected to an IPv4 address as an IPv6 socket, say.
 */
static void l5_tcp_listen(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	struct inet_connection_sock *icsk = inet_csk(bsk);
	struct l5_af_ops *af = l5_af_of(l5);

	lock_sock(bsk);
	write_lock_bh(&bsk->sk_callback_lock);
	l5_boot_hook(bsk, false);
	if (icsk->icsk_af_ops == af->orig) {
		icsk->icsk_af_ops = &af->ops;
		bsk->sk_state_change = l5_listen_state_change;
	} else {
		WRITE_ONCE(l5->nopair, L5_REASON_OPTION);
	}
	write_unlock_bh(&bsk->sk_callback_lock);
	release_sock(bsk);
}

/*
 * IPV6_ADDRFORM makes a socket of IPv4 of one of IPv6, but leaves it the state
 * of the latter. If it listens, its children copy the pointer to that, and
 * would use it when the listener is long gone. A child gives it up as soon as
 * no other task can be in a call on it; a listener never can.
 */
static struct l5_conn *l5_tcp_accept(struct l5_sock *listener,
				     struct sock *child)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (child->sk_family == AF_INET && inet_sk(child)->pinet6) {
		lock_sock(child);
		child->sk_destruct = inet_sock_destruct;
		inet_sk(child)->pinet6 = NULL;
		release_sock(child);
	}
#endif
	return NULL;
}

static void l5_tcp_unlisten(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	struct inet_connection_sock *icsk = inet_csk(bsk);
	struct l5_af_ops *af = l5_af_of(l5);

	lock_sock(bsk);
	if (icsk->icsk_af_ops == &af->ops)
		icsk->icsk_af_ops = af->orig;
	write_lock_bh(&bsk->sk_callback_lock);
	l5_boot_hook(bsk, true);
	write_unlock_bh(&bsk->sk_callback_lock);
	release_sock(bsk);
}

/*
 * The release of a listener takes l5_listen_state_change() back first, and
 * waits for the work that it began.
 */
static void l5_tcp_closing(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	write_lock_bh(&bsk->sk_callback_lock);
	if (bsk->sk_state_change == l5_listen_state_change)
		bsk->sk_state_change = READ_ONCE(l5_boot_wakeup);
	write_unlock_bh(&bsk->sk_callback_lock);
	if (cancel_delayed_work_sync(&l5->listened))
		sock_put(&l5->sk);
}

static void l5_tcp_reset(struct l5_sock *l5)
{
	sock_no_linger(l5->boot->sk);
}

static bool l5_tcp_accept_empty(const struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return reqsk_queue_empty(&inet_csk(bsk)->icsk_accept_queue);
}

/*
 * TCP ends the children of a listener that stops, be it by SOCK_DESTROY, under
 * the listener's lock, and asks none of them whether another task is at it. So
 * the child's lock is not enough: both would destroy the child.
 */
static void l5_tcp_child_abort(struct l5_sock *listener, struct sock *child,
			       int err)
{
	struct sock *bsk = listener->boot->sk;

	lock_sock_nested(bsk, SINGLE_DEPTH_NESTING);
	/* tcp_abort() would give an error to a child that has one already */
	if (READ_ONCE(child->sk_state) != TCP_CLOSE)
		tcp_abort(child, err);
	release_sock(bsk);
}

/*
 * The reset by the other end may have come already, and a program may have had
 * its error: tcp_abort() would tell it again.
 */
static bool l5_tcp_abort(struct sock *bsk)
{
	if (READ_ONCE(bsk->sk_state) == TCP_CLOSE)
		return true;
	if (l5_boot_busy(bsk))
		return false;
	tcp_abort(bsk, ECONNRESET);
	return true;
}

static int l5_tcp_send_check(struct l5_sock *l5, struct msghdr *msg)
{
	struct sockcm_cookie sockc = { };

	if (msg->msg_controllen)
		return sock_cmsg_send(l5->boot->sk, msg, &sockc);
	return 0;
}

/*
 * See l5_send_to_closed(). TCP drops the byte without a word if the
 * acknowledgment of its FIN, which may come from a timer, is turning it into
 * TIME_WAIT just then. The byte of the next send() is to make up for that, and
 * Nagle's rule is not to keep it back until the first is retransmitted: hence
 * urgent data, which that rule spares. But a peer that only shut down gets no
 * urgent data, since poll() would show it POLLPRI; TCP does not forget that
 * peer's socket.
 *
 * An error on the socket says that the peer has reset the connection already,
 * and the program is to hear of it: so it is looked at under the lock under
 * which it is set.
 */
static void l5_tcp_send_to_closed(struct l5_sock *l5)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = "", .iov_len = 1 };
	struct sock *bsk = l5->boot->sk;

	if (l5_link_peer_released(l5))
		msg.msg_flags |= MSG_OOB;
	iov_iter_kvec(&msg.msg_iter, L5_ITER_SOURCE, &vec, 1, 1);
	lock_sock(bsk);
	if (!bsk->sk_err)
		tcp_sendmsg_locked(bsk, &msg, 1);
	release_sock(bsk);
}

/* True also of a connection that was ended before it had rings. */
static bool l5_tcp_gone(const struct l5_sock *l5)
{
	return READ_ONCE(l5->boot->sk->sk_state) == TCP_CLOSE;
}

static void l5_tcp_opts_pull(struct l5_sock *l5)
{
	WRITE_ONCE(l5->inq, tcp_sk(l5->boot->sk)->recvmsg_inq);
}

/* Without it the handshake's last packet is late, and so is the meeting. */
static bool l5_tcp_opt_noop(struct l5_sock *l5, int level, int optname,
			    sockptr_t optval, unsigned int optlen)
{
	int val;

	if (level != SOL_TCP || optname != TCP_QUICKACK || optlen < sizeof(val))
		return false;
	if (l5_state(l5) != L5_IDLE && l5_state(l5) != L5_CONNECTING)
		return false;
	return !copy_from_sockptr(&val, optval, sizeof(val)) && !val;
}

/*
 * Of the protocols that can sit on TCP only TLS leaves the socket, its file and
 * its callbacks to us. The others do not exist for our sockets, like unknown
 * names.
 */
static int l5_tcp_setsockopt(struct l5_sock *l5, int level, int optname,
			     sockptr_t optval, unsigned int optlen)
{
	char name[TCP_ULP_NAME_MAX] = { };
	long len;

	if (level != SOL_TCP || optname != TCP_ULP)
		return -ENOIOCTLCMD;
	if (optlen < 1)
		return -EINVAL;
	len = strncpy_from_sockptr(name, optval,
				   min_t(long, sizeof(name) - 1, optlen));
	if (len < 0)
		return -EFAULT;
	name[len] = 0;
	if (strcmp(name, "tls"))
		return -ENOENT;
	/* the name that was looked at, not what may be in its place by now */
	return l5->boot->ops->setsockopt(l5->boot, SOL_TCP, optname,
					 KERNEL_SOCKPTR(name), len);
}

/* Set so that the kernel puts in no other; only its name is ever read. */
static const struct tcp_congestion_ops l5_no_congestion = {
	.name	= "none",
};

static void l5_tcp_show(struct l5_sock *l5)
{
	struct inet_connection_sock *icsk = inet_csk(&l5->sk);

	icsk->icsk_ca_ops = &l5_no_congestion;
	icsk->icsk_ca_dst_locked = 1;
#if IS_ENABLED(CONFIG_IPV6)
	inet_sk(&l5->sk)->pinet6 = &l5->tcp.inet6;
#endif
}

/* Free labels that a security module may have set where TCP has them. */
static void l5_tcp_destruct(struct l5_sock *l5)
{
	kfree(rcu_dereference_protected(inet_sk(&l5->sk)->inet_opt, 1));
#if IS_ENABLED(CONFIG_IPV6)
	txopt_put(rcu_dereference_protected(l5->tcp.inet6.opt, 1));
#endif
}

static void l5_tcp4_names(struct seq_file *seq, const struct sock *bsk)
{
	const struct inet_sock *inet = inet_sk(bsk);

	seq_printf(seq, " %pI4:%u %pI4:%u",
		   &inet->inet_rcv_saddr, ntohs(inet->inet_sport),
		   &inet->inet_daddr, ntohs(inet->inet_dport));
}

static void l5_tcp6_names(struct seq_file *seq, const struct sock *bsk)
{
#if IS_ENABLED(CONFIG_IPV6)
	const struct inet_sock *inet = inet_sk(bsk);

	seq_printf(seq, " [%pI6c]:%u [%pI6c]:%u",
		   &bsk->sk_v6_rcv_saddr, ntohs(inet->inet_sport),
		   &bsk->sk_v6_daddr, ntohs(inet->inet_dport));
#else
	seq_puts(seq, " - -");
#endif
}

/* Time stamps come with packets. */
static enum l5_reason l5_tcp_why_not(const struct l5_sock *l5)
{
	return READ_ONCE(l5->sk.sk_tsflags) ||
	       READ_ONCE(l5->sk.sk_flags) & L5_STAMP_FLAGS ?
	       L5_REASON_OPTION : L5_REASON_NONE;
}

/* Nothing is to be done; the reference is that of sk_reset_timer(). */
static void l5_tcp_keepalive(struct timer_list *t)
{
	sock_put(l5_keepalive_sock(t));
}

/*
 * BPF starts the timer of SO_KEEPALIVE as if the socket were TCP's; without a
 * function no put would follow.
 */
static void l5_tcp_attach(struct l5_sock *l5)
{
	timer_setup(l5_keepalive_timer(&l5->sk), l5_tcp_keepalive, 0);
}

static void l5_tcp_release(struct l5_sock *l5)
{
	sk_stop_timer_sync(&l5->sk, l5_keepalive_timer(&l5->sk));
}

#define L5_TCP_BOOT							\
	.routed		= true,						\
	.resets		= true,						\
	.reverts	= true,						\
	.events		= true,						\
	.counts		= true,						\
	.told		= true,						\
	.grows		= true,						\
	.create		= l5_tcp_create,				\
	.judge		= l5_tcp_judge,					\
	.why_not	= l5_tcp_why_not,				\
	.attach		= l5_tcp_attach,				\
	.show		= l5_tcp_show,					\
	.destruct	= l5_tcp_destruct,				\
	.listen		= l5_tcp_listen,				\
	.unlisten	= l5_tcp_unlisten,				\
	.closing	= l5_tcp_closing,				\
	.release	= l5_tcp_release,				\
	.reset		= l5_tcp_reset,					\
	.accept_empty	= l5_tcp_accept_empty,				\
	.accept		= l5_tcp_accept,				\
	.child_abort	= l5_tcp_child_abort,				\
	.abort		= l5_tcp_abort,					\
	.send_check	= l5_tcp_send_check,				\
	.send_to_closed	= l5_tcp_send_to_closed,			\
	.gone		= l5_tcp_gone,					\
	.opts_pull	= l5_tcp_opts_pull,				\
	.opt_noop	= l5_tcp_opt_noop,				\
	.setsockopt	= l5_tcp_setsockopt

const struct l5_boot_ops l5_tcp4_boot = {
	.name		= "inet",
	.family		= AF_INET,
	.names		= l5_tcp4_names,
	L5_TCP_BOOT
};

const struct l5_boot_ops l5_tcp6_boot = {
	.name		= "inet6",
	.family		= AF_INET6,
	.names		= l5_tcp6_names,
	L5_TCP_BOOT
};
