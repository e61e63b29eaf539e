// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the bootstrap socket and what an application does to connect it.
 *
 * The bootstrap is an ordinary TCP or AF_UNIX socket without a descriptor. It
 * shows its owner's file and inode number, by which firewalls, security modules
 * and people find whose the connection is; see l5_boot_borrow(). It wakes
 * the same wait queue as its owner (sk_wq), so that whoever sleeps or polls on
 * the owner hears of both rings and bootstrap, and the bootstrap's own blocking
 * code works unchanged. Before the decision, and for good when it stays, every
 * call is simply passed on. Once rings carry the bytes the bootstrap still
 * carries FIN and RST, hence errors, names and shutdown states are TCP's own.
 *
 * Two of its callbacks are ours: sk_state_change enters a client into the
 * meeting, and sk_error_report shows errors where getsockopt(SO_ERROR) looks. A
 * listener's children copy what it has, and may end up with a listener that is
 * none of ours. So what is ours of a listener is a table of operations that
 * sees each child before anyone else does, takes from it what it copied and
 * leaves nothing on it but the meeting that it waits with; and beside that
 * table only a sk_state_change that hears of the listener's own end. A listener
 * that cannot have the table, because its operations are not the ones it began
 * with, has nothing of ours, and its children stay on TCP.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/sctp.h>
#include <linux/security.h>
#include <linux/un.h>
#include <linux/xattr.h>
#include <net/af_unix.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include "cover.h"
#include "l5.h"

static const int l5_boot_family[L5PROTO_MAX] = {
	[L5PROTO_INET]	= AF_INET,
	[L5PROTO_INET6]	= AF_INET6,
	[L5PROTO_UNIX]	= AF_UNIX,
};

const char l5_tag_owner, l5_tag_conn;

/*
 * TCP's operations for a listener with ours around those that answer a SYN and
 * make a child; a table for IPv4 and one for IPv6, filled with the first socket
 * and constant from then on.
 */
struct l5_af_ops {
	const struct inet_connection_sock_af_ops *orig;
	struct inet_connection_sock_af_ops ops;
};

static DEFINE_MUTEX(l5_af_lock);	/* guards the filling of these two */
static struct l5_af_ops l5_af[2];

/**
 * l5_boot_label() - give a socket the class and label of its bootstrap
 * @l5: the socket
 *
 * SELinux marks a new socket by the number given to socket(), after we have
 * made it, and knows none of ours. Until this was called it judges the socket
 * as one of no known class, which may not be bound to a port at all; what it
 * does not see of connect() so, l5_boot_judge() shows it.
 *
 * Context: any call on the socket but those that security modules judge by its
 * address, or where nobody else has it.
 */
void l5_boot_label(struct l5_sock *l5)
{
	/* others have it right, and readers of theirs may hold no reference */
	if (security_ismaclabel(XATTR_SELINUX_SUFFIX))
		security_sk_clone(l5->boot->sk, &l5->sk);
}

/**
 * l5_boot_judge() - ask about an address in the bootstrap's name
 * @l5: the socket
 * @what: SCTP_SOCKOPT_BINDX_ADD or SCTP_SOCKOPT_CONNECTX
 * @addr: to bind, or to connect to
 * @len: of @addr
 *
 * Of the questions that a system call asks security modules this is the one
 * that a module can ask as well. SELinux answers it as it does TCP.
 *
 * Context: may sleep.
 * Return: 0 or an error for the caller.
 */
int l5_boot_judge(struct l5_sock *l5, int what, struct l5_sockaddr *addr,
		  int len)
{
	struct sock *bsk = l5->boot->sk;
	int err;

	if (l5->proto == L5PROTO_UNIX)
		return 0;
	/* any other the bootstrap refuses, and more than one is no address */
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

/* What the callbacks were before; the same functions for all sockets. */
static void (*l5_wakeup)(struct sock *sk);
static void (*l5_report)(struct sock *sk);

static struct l5_af_ops *l5_af_of(const struct l5_sock *l5)
{
	return &l5_af[l5->proto == L5PROTO_INET6];
}

/**
 * l5_why_not() - does this socket want rings?
 * @l5: a client or a listener
 *
 * Return: L5_REASON_NONE if it does.
 */
enum l5_reason l5_why_not(const struct l5_sock *l5)
{
	if (!READ_ONCE(l5->ln->enabled))
		return L5_REASON_DISABLED;
	if (l5_denied(l5))
		return L5_REASON_DENIED;
	if (READ_ONCE(l5->force) == L5_TRANSPORT_BASE)
		return L5_REASON_FORCED;
	/* credentials come with AF_UNIX's own messages */
	if (l5->proto == L5PROTO_UNIX && l5_pass_sender(l5->boot))
		return L5_REASON_OPTION;
	return READ_ONCE(l5->nopair);
}

static int l5_conn_request(const struct l5_af_ops *af, struct sock *sk,
			   struct sk_buff *skb)
{
	struct request_sock_queue *queue = &inet_csk(sk)->icsk_accept_queue;
	bool cover = l5_cover_begin(sock_net(sk));
	const struct l5_sock *l5;

	/* a child made from the SYN would come before its client's turn */
	WRITE_ONCE(queue->fastopenq.max_qlen, 0);
	rcu_read_lock();
	l5 = l5_owner(sk);
	if (l5 && !l5_why_not(l5) && READ_ONCE(l5->force) != L5_TRANSPORT_RDMA)
		l5_meet_note(ntohl(tcp_hdr(skb)->seq),
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
 * any other child; but it may be what a client waits for.
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
	child->sk_state_change = l5_wakeup;
	/* another one was faster if it is not its own */
	if (!own)
		return child;
	cover = l5_cover_begin(sock_net(sk));
	rcu_read_lock();
	listener = l5_owner(sk);
	if (listener)
		l5_meet_child(listener, child, skb);
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

/**
 * l5_boot_error() - keep the owner's sk_err what the bootstrap's is
 * @l5: the socket
 *
 * getsockopt(SO_ERROR) reads and clears the owner's, every other call the
 * bootstrap's: what one of them took the other must not give again.
 */
void l5_boot_error(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	if (!READ_ONCE(bsk->sk_err) && !READ_ONCE(l5->err_shown))
		return;
	spin_lock_bh(&l5->err_lock);
	if (!l5->err_shown) {
		l5->err_shown = READ_ONCE(bsk->sk_err);
		WRITE_ONCE(l5->sk.sk_err, l5->err_shown);
	} else if (!READ_ONCE(l5->sk.sk_err)) {
		/* but not another one that came since */
		cmpxchg(&bsk->sk_err, l5->err_shown, 0);
		l5->err_shown = 0;
	} else if (!READ_ONCE(bsk->sk_err)) {
		cmpxchg(&l5->sk.sk_err, l5->err_shown, 0);
		l5->err_shown = 0;
	}
	spin_unlock_bh(&l5->err_lock);
}

/*
 * Has an administrator ended the connection (ss -K)? Nothing else of TCP gives
 * this error. The ends may be those of processes that would not mind an end by
 * word alone.
 */
static void l5_boot_aborted(struct l5_sock *l5)
{
	if (READ_ONCE(l5->boot->sk->sk_err) == ECONNABORTED)
		l5_map_revoke_later(l5->conn);
}

static void l5_boot_error_report(struct sock *bsk)
{
	bool cover = l5_cover_begin(sock_net(bsk));
	struct l5_sock *l5;

	read_lock_bh(&bsk->sk_callback_lock);
	l5 = l5_owner(bsk);
	if (l5) {
		if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING)
			l5_boot_aborted(l5);
		l5_boot_error(l5);
		if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING)
			l5_map_note(l5);
		/* the wait queue is shared, so this is the bootstrap's too */
		l5->sk.sk_error_report(&l5->sk);
	}
	read_unlock_bh(&bsk->sk_callback_lock);
	l5_cover_end(cover);
}

/*
 * Of a listener whose children are to be met. Its end by a hand other than its
 * owner's (ss -K) is to be the end of the children that wait for accept().
 */
static void l5_listen_state_change(struct sock *bsk)
{
	bool cover = l5_cover_begin(sock_net(bsk));
	struct l5_sock *l5;

	read_lock_bh(&bsk->sk_callback_lock);
	l5 = l5_owner(bsk);
	/* its release may have taken this back meanwhile */
	if (l5 && bsk->sk_state_change == l5_listen_state_change &&
	    READ_ONCE(bsk->sk_state) == TCP_CLOSE) {
		sock_hold(&l5->sk);
		if (!queue_delayed_work(l5_wq, &l5->listened, 0))
			sock_put(&l5->sk);
	}
	read_unlock_bh(&bsk->sk_callback_lock);
	l5_cover_end(cover);
	l5_wakeup(bsk);
}

static void l5_boot_state_change(struct sock *bsk)
{
	bool cover = l5_cover_begin(sock_net(bsk));
	struct l5_sock *l5;

	read_lock_bh(&bsk->sk_callback_lock);
	l5 = l5_owner(bsk);
	if (l5) {
		if (l5->proto != L5PROTO_UNIX &&
		    READ_ONCE(bsk->sk_state) == TCP_ESTABLISHED &&
		    l5_state(l5) == L5_CONNECTING)
			l5_meet_established(l5);
		if (READ_ONCE(bsk->sk_err))
			l5_boot_error(l5);
		if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING) {
			l5_move_fin_in(l5);
			l5_map_note(l5);
		}
		l5->sk.sk_state_change(&l5->sk);
	}
	read_unlock_bh(&bsk->sk_callback_lock);
	l5_cover_end(cover);
}

/* Give a bootstrap our callbacks, or back the kernel's own. */
static void l5_boot_hook(struct sock *bsk, bool ours)
{
	bsk->sk_state_change = ours ? l5_boot_state_change : l5_wakeup;
	bsk->sk_error_report = ours ? l5_boot_error_report : l5_report;
}

/**
 * l5_boot_attach() - join an owner and its bootstrap
 * @l5: the owner
 * @boot: the bootstrap
 * @sock: what the application holds, or will
 */
void l5_boot_attach(struct l5_sock *l5, struct socket *boot,
		    struct socket *sock)
{
	struct sock *bsk = boot->sk;

	l5->boot = boot;
	lock_sock(bsk);
	write_lock_bh(&bsk->sk_callback_lock);
	rcu_assign_pointer(bsk->sk_wq, &sock->wq);
	if (!bsk->sk_user_data) {
		l5_tag_set(bsk, &l5->owner);
		l5_boot_hook(bsk, true);
	} else {
		/* a program put the child into a sockmap: it stays as it is */
		WRITE_ONCE(l5->nopair, L5_REASON_OPTION);
	}
	write_unlock_bh(&bsk->sk_callback_lock);
	/* F_SETFL marks the owner alone; the wait queue knows who wants it */
	sock_set_flag(bsk, SOCK_FASYNC);
	release_sock(bsk);
	if (l5->proto == L5PROTO_UNIX)
		l5_unix_attach(l5);
}

/* What our table is made from; a fresh socket has TCP's own operations. */
static void l5_af_fill(struct l5_sock *l5, const struct sock *bsk)
{
	const struct inet_connection_sock *icsk = inet_csk(bsk);
	struct l5_af_ops *af = l5_af_of(l5);

	if (smp_load_acquire(&af->orig))
		return;
	mutex_lock(&l5_af_lock);
	if (!af->orig) {
		af->ops = *icsk->icsk_af_ops;
		af->ops.conn_request = l5->proto == L5PROTO_INET6 ?
				       l5_conn_request_v6 : l5_conn_request_v4;
		af->ops.syn_recv_sock = l5->proto == L5PROTO_INET6 ?
					l5_syn_recv_v6 : l5_syn_recv_v4;
		/* Q, pairs with the look above: the table, then its mark */
		smp_store_release(&af->orig, icsk->icsk_af_ops);
	}
	mutex_unlock(&l5_af_lock);
}

/* What the bootstrap shows of who holds it; also before it has its sock. */
static void l5_boot_lend(struct socket *boot, struct socket *sock)
{
	/* as READ_ONCE() of those that log a packet, or judge a connection */
	WRITE_ONCE(boot->file, sock->file);
	SOCK_INODE(boot)->i_ino = SOCK_INODE(sock)->i_ino;
	if (boot->sk)
		l5_sk_set_ino(boot->sk, SOCK_INODE(sock)->i_ino);
}

/**
 * l5_boot_borrow() - let the bootstrap show its owner's file
 * @l5: the socket
 *
 * Before anything that gives the bootstrap a peer or a packet: socket() has no
 * file yet. No reference is taken, as the file's last close closes the
 * bootstrap first. A socket that the kernel made for itself has none to show.
 *
 * Context: a call on the socket.
 */
void l5_boot_borrow(struct l5_sock *l5)
{
	if (unlikely(!READ_ONCE(l5->boot->file)))
		WRITE_ONCE(l5->boot->file, l5->sk.sk_socket->file);
}

/**
 * l5_boot_end() - the end of a bootstrap
 * @boot: the bootstrap
 *
 * Its family's part first, since until that is through others look at the file;
 * sock_release() frees the inode of those that have none. It calls release()
 * again, which finds nothing.
 *
 * Context: may sleep, as close() of the bootstrap does with SO_LINGER.
 */
void l5_boot_end(struct socket *boot)
{
	boot->ops->release(boot);
	WRITE_ONCE(boot->file, NULL);
	sock_release(boot);
}

/**
 * l5_boot_create() - make the bootstrap of a fresh socket
 * @l5: the socket
 * @net: its namespace
 * @kern: whether the kernel itself asks
 *
 * Context: may sleep.
 * Return: what socket() would for the bootstrap's family.
 */
int l5_boot_create(struct l5_sock *l5, struct net *net, int kern)
{
	struct socket *boot;
	int err;

	/* not a kernel socket: it holds its namespace as the program's would */
	err = __sock_create(net, l5_boot_family[l5->proto], SOCK_STREAM, 0,
			    &boot, kern);
	if (err)
		return err;
	WRITE_ONCE(l5_wakeup, boot->sk->sk_state_change);
	WRITE_ONCE(l5_report, boot->sk->sk_error_report);
	if (l5->proto != L5PROTO_UNIX)
		l5_af_fill(l5, boot->sk);
	l5_boot_lend(boot, l5->sk.sk_socket);
	l5_boot_attach(l5, boot, l5->sk.sk_socket);
	l5_opts_inherit(l5, l5);
	return 0;
}

/*
 * Make the bootstrap ready to be a listener that looks for meetings. One whose
 * operations are not those it began with is an ordinary listener: it was
 * connected to an IPv4 address as an IPv6 socket, say.
 */
static void l5_listen_hook(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	struct inet_connection_sock *icsk = inet_csk(bsk);
	struct l5_af_ops *af = l5_af_of(l5);

	if (l5->proto == L5PROTO_UNIX) {
		l5_unix_listen(l5);
		return;
	}
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

static void l5_listen_unhook(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	struct inet_connection_sock *icsk = inet_csk(bsk);
	struct l5_af_ops *af = l5_af_of(l5);

	if (l5->proto == L5PROTO_UNIX) {
		l5_unix_unlisten(l5);
		return;
	}
	lock_sock(bsk);
	if (icsk->icsk_af_ops == &af->ops)
		icsk->icsk_af_ops = af->orig;
	write_lock_bh(&bsk->sk_callback_lock);
	l5_boot_hook(bsk, true);
	write_unlock_bh(&bsk->sk_callback_lock);
	release_sock(bsk);
}

/*
 * No listener any more, or never one: its children that wait for accept() end,
 * and the bootstrap is what it was before.
 */
static void l5_unlisten(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	l5_meet_close(l5);
	l5_listen_unhook(l5);
	l5_set_state(l5, L5_IDLE, L5_REASON_NONE);
}

/* Did the bootstrap stop listening, perhaps without having been told to? */
static bool l5_listen_ended(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	if (l5_state(l5) != L5_LISTEN ||
	    READ_ONCE(l5->boot->sk->sk_state) == TCP_LISTEN)
		return false;
	l5_unlisten(l5);
	return true;
}

static void l5_listen_settle_unlock(struct l5_sock *l5)
{
	bool ended = l5_listen_ended(l5);

	mutex_unlock(&l5->lock);
	if (ended)
		l5_door_unlisten(l5);
}

static void l5_listen_settle(struct l5_sock *l5)
{
	mutex_lock(&l5->lock);
	l5_listen_settle_unlock(l5);
}

/* Until somebody who is in a call on the listener is looked for again. */
#define L5_LISTENED_AGAIN	(HZ / 10)

/**
 * l5_boot_listened() - l5_sock.listened, queued by l5_listen_state_change()
 * @work: of a socket, with a reference to it
 *
 * A call on the socket may hold its lock for long, and the worker is for all.
 */
void l5_boot_listened(struct work_struct *work)
{
	struct l5_sock *l5 = container_of(work, struct l5_sock, listened.work);

	if (mutex_trylock(&l5->lock))
		l5_listen_settle_unlock(l5);
	else if (queue_delayed_work(l5_wq, &l5->listened, L5_LISTENED_AGAIN))
		return;
	sock_put(&l5->sk);
}

/* Make the bootstrap's end one that the peer sees as an error. */
static void l5_reset(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk, *peer;

	if (l5->proto != L5PROTO_UNIX) {
		sock_no_linger(bsk);
		return;
	}
	/*
	 * As AF_UNIX does for bytes left in its own queue, and like there the
	 * error never is to be seen without the end. Waking is left to it.
	 */
	peer = unix_peer_get(bsk);
	if (peer) {
		unix_state_lock(peer);
		WRITE_ONCE(peer->sk_shutdown, SHUTDOWN_MASK);
		WRITE_ONCE(peer->sk_err, ECONNRESET);
		unix_state_unlock(peer);
		sock_put(peer);
	}
}

/**
 * l5_boot_release() - end of a socket: its meeting, its rings, its bootstrap
 * @l5: the socket
 *
 * Context: may sleep, as close() of the bootstrap does with SO_LINGER.
 */
void l5_boot_release(struct l5_sock *l5)
{
	struct socket *boot = l5->boot;
	struct sock *bsk = boot->sk;
	bool listens, abort, kept;

	/* nobody else is to end it as a listener from here on */
	write_lock_bh(&bsk->sk_callback_lock);
	if (bsk->sk_state_change == l5_listen_state_change)
		bsk->sk_state_change = l5_wakeup;
	write_unlock_bh(&bsk->sk_callback_lock);
	if (cancel_delayed_work_sync(&l5->listened))
		sock_put(&l5->sk);
	listens = l5_state(l5) == L5_LISTEN;
	if (listens) {
		l5_unix_unlisten(l5);
		l5_meet_close(l5);
	}
	l5_opts_push(l5);
	l5_door_unlisten(l5);
	/* which AF_UNIX does not know */
	abort = l5->proto != L5PROTO_UNIX && sock_flag(bsk, SOCK_LINGER) &&
		!READ_ONCE(bsk->sk_lingertime);
	if (!abort && sock_flag(bsk, SOCK_LINGER))
		l5_fin_wait(l5);
	/*
	 * First take the bootstrap its callbacks: what it hears from here on
	 * enters no meeting, and it may outlive us and the module. A listener
	 * does not, so it keeps its table: a child that is being made is to
	 * find the operations that it has to put back.
	 */
	write_lock_bh(&bsk->sk_callback_lock);
	if (l5_owner(bsk)) {
		rcu_assign_sk_user_data(bsk, NULL);
		l5_boot_hook(bsk, false);
	}
	write_unlock_bh(&bsk->sk_callback_lock);
	if (l5->proto == L5PROTO_UNIX)
		l5_unix_release(bsk);
	l5_meet_cancel(l5);
	/* a late match may have decided just before */
	if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING)
		abort = l5_conn_close(l5, abort);
	if (abort)
		l5_reset(l5);
	kept = l5_rdma_detach(l5, abort, abort || sock_flag(bsk, SOCK_LINGER) ?
			      NULL : boot);
	l5_mailbox_release(l5);
	if (!kept)
		l5_boot_end(boot);
	if (l5->conn)
		l5_conn_put(l5->conn);
	l5_payer_put(&l5->payer);
}

/* Is the handshake over and its outcome still open, and to be waited for? */
bool l5_undecided(struct l5_sock *l5)
{
	return l5_state(l5) == L5_CONNECTING && !l5_deferred(l5) &&
	       READ_ONCE(l5->boot->sk->sk_state) == TCP_ESTABLISHED;
}

static bool l5_decided(struct l5_sock *l5)
{
	if (l5_state(l5) != L5_CONNECTING || l5_deferred(l5))
		return true;
	return !((1 << READ_ONCE(l5->boot->sk->sk_state)) &
		 (TCPF_SYN_SENT | TCPF_SYN_RECV | TCPF_ESTABLISHED));
}

/**
 * l5_wait_decided() - wait until a connecting socket is connected, or not
 * @l5: the socket
 * @timeo: how long, jiffies
 *
 * Return: 0, -EAGAIN after @timeo, or as sock_intr_errno().
 */
long l5_wait_decided(struct l5_sock *l5, long timeo)
{
	long left;

	if (l5_decided(l5))
		return 0;
	if (!timeo)
		return -EAGAIN;
	left = wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
						l5_decided(l5), timeo);
	if (left > 0)
		return 0;
	return left ? sock_intr_errno(timeo) : -EAGAIN;
}

/* Nobody has met: give the connection back, unless it had rings once. */
static void l5_conn_drop(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	l5_meet_cancel(l5);
	if (l5->conn && !l5->conn->paired) {
		l5_conn_put(l5->conn);
		l5->conn = NULL;
	}
}

/**
 * l5_connect_settle() - a client stays on its bootstrap: free what was prepared
 * @l5: the client
 *
 * Context: may sleep.
 */
void l5_connect_settle(struct l5_sock *l5)
{
	mutex_lock(&l5->lock);
	if (l5_state(l5) == L5_BASE)
		l5_conn_drop(l5);
	mutex_unlock(&l5->lock);
}

/* Put everything in place before the first packet leaves. */
static void l5_connect_begin(struct l5_sock *l5)
{
	enum l5_reason why;

	l5_listen_settle(l5);
	mutex_lock(&l5->lock);
	if (l5_state(l5) != L5_IDLE ||
	    READ_ONCE(l5->boot->sk->sk_state) != TCP_CLOSE)
		goto out;
	l5_conn_drop(l5);
	why = l5_why_not(l5);
	if (!why) {
		/* what a question prepared that came to nothing */
		if (l5->conn)
			l5_conn_put(l5->conn);
		l5->end = L5_CLIENT;
		l5->conn = l5_conn_alloc(l5);
		if (IS_ERR(l5->conn)) {
			why = PTR_ERR(l5->conn) == -EDQUOT ? L5_REASON_LIMIT :
							     L5_REASON_NOMEM;
			l5->conn = NULL;
		}
	}
	l5->why = why;
	l5_set_state(l5, L5_CONNECTING, L5_REASON_NONE);
	/*
	 * AE, pairs with AF in l5_revoke_line(): who revokes after having
	 * denied finds a socket that connects, or it finds itself denied.
	 */
	smp_mb();
	if (!why)
		why = l5_why_not(l5);
	l5->why = why;
	if (l5->proto == L5PROTO_UNIX && !why)
		l5_meet_unix_open(l5);
out:
	mutex_unlock(&l5->lock);
}

/*
 * Connecting is over without a connection. Under the bootstrap's lock, since
 * that is what a handshake on its way holds when it enters a meeting.
 */
static void l5_connect_failed(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	lockdep_assert_held(&l5->lock);
	lock_sock(bsk);
	if (l5_state(l5) == L5_CONNECTING && bsk->sk_state == TCP_CLOSE) {
		l5_meet_cancel(l5);
		/* unless the peer was a moment faster */
		if (l5_state(l5) == L5_CONNECTING)
			l5_set_state(l5, L5_IDLE, L5_REASON_NONE);
	}
	release_sock(bsk);
	if (l5_state(l5) == L5_IDLE)
		l5_conn_drop(l5);
}

static int l5_connected(struct l5_sock *l5, int flags)
{
	mutex_lock(&l5->lock);
	/* an option made connect() return before there is a connection */
	if (l5_state(l5) == L5_CONNECTING && l5->why)
		l5_set_state(l5, L5_BASE, l5->why);
	else if (l5_state(l5) == L5_CONNECTING && l5->proto == L5PROTO_UNIX)
		l5_meet_unix_connected(l5);
	else if (l5_state(l5) == L5_IDLE)
		l5_set_state(l5, L5_BASE, L5_REASON_CONNECT);
	mutex_unlock(&l5->lock);
	/* who waits in l5_wait_decided(); AF_UNIX has no event for pollers */
	if (l5->proto == L5PROTO_UNIX)
		wake_up_interruptible_poll(sk_sleep(&l5->sk), EPOLLNVAL);
	l5_opts_pull(l5);
	if (flags & O_NONBLOCK)
		return l5_undecided(l5) ? -EINPROGRESS : 0;
	/*
	 * Bounded by net.l5.match_ms. Interruptible, since sk_state_change
	 * wakes no other sleep; a signal costs the connection its rings.
	 */
	if (wait_event_interruptible(*sk_sleep(&l5->sk), l5_decided(l5))) {
		mutex_lock(&l5->lock);
		l5_meet_stay(l5, L5_REASON_TIMEOUT);
		mutex_unlock(&l5->lock);
	}
	if (l5_state(l5) == L5_BASE)
		l5_connect_settle(l5);
	l5_move_wait(l5);
	return 0;
}

/* The bootstrap is unconnected again, and so is its owner. */
static void l5_unconnected(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	lockdep_assert_held(&l5->lock);
	/* a handshake that was under way has ended by now, or never will */
	lock_sock(bsk);
	l5_meet_cancel(l5);
	if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING) {
		l5_conn_close(l5, true);
		WRITE_ONCE(l5->nopair, L5_REASON_CONNECT);
	}
	if (l5_state(l5) != L5_IDLE)
		l5_set_state(l5, L5_IDLE, L5_REASON_NONE);
	release_sock(bsk);
	l5_rdma_abandon(l5);
}

/*
 * connect(AF_UNSPEC): TCP resets the connection; the socket can be reused. If
 * it does not, nothing has changed but that children who waited are gone.
 */
static int l5_disconnect(struct socket *sock, struct l5_sockaddr *addr,
			 int len, int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool listened, ended = false;
	int err;

	mutex_lock(&l5->lock);
	listened = l5_state(l5) == L5_LISTEN;
	/* before TCP may give them to another listener */
	if (listened)
		l5_meet_close(l5);
	err = l5->boot->ops->connect(l5->boot, addr, len, flags);
	if (READ_ONCE(l5->boot->sk->sk_state) == TCP_CLOSE) {
		ended = l5_listen_ended(l5);
		l5_unconnected(l5);
	} else if (listened) {
		l5_meet_reopen(l5);
	}
	mutex_unlock(&l5->lock);
	if (ended)
		l5_door_unlisten(l5);
	return err;
}

/*
 * It was connected, and TCP gave that up only now. TCP takes its time to say so
 * of the socket, and AF_UNIX says nothing there at all in newer kernels.
 */
static bool l5_boot_gave_up(const struct l5_sock *l5)
{
	return l5_state(l5) >= L5_BASE && l5->boot->state == SS_UNCONNECTED &&
	       READ_ONCE(l5->boot->sk->sk_state) == TCP_CLOSE;
}

/**
 * l5_connect() - connect the bootstrap and meet the peer
 * @sock: the socket
 * @addr: of the bootstrap's family
 * @len: of @addr
 * @flags: O_NONBLOCK
 *
 * Return: as the bootstrap's. A socket whose outcome is open is connecting.
 */
int l5_connect(struct socket *sock, struct l5_sockaddr *addr, int len,
	       int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int err;

	if (len >= (int)sizeof(addr->sa_family) &&
	    addr->sa_family == AF_UNSPEC && l5->proto != L5PROTO_UNIX)
		return l5_disconnect(sock, addr, len, flags);

	err = l5_boot_judge(l5, SCTP_SOCKOPT_CONNECTX, addr, len);
	if (err)
		return err;
	l5_boot_borrow(l5);
	l5_opts_push(l5);
	l5_boot_error(l5);
	l5_connect_begin(l5);
	if (l5_undecided(l5)) {
		if (flags & O_NONBLOCK)
			return -EALREADY;
		l5_wait_decided(l5, MAX_SCHEDULE_TIMEOUT);
	}
	err = l5->boot->ops->connect(l5->boot, addr, len, flags);
	if (!err) {
		err = l5_connected(l5, flags);
	} else if (err != -EINPROGRESS && err != -EALREADY) {
		mutex_lock(&l5->lock);
		l5_connect_failed(l5);
		if (l5_boot_gave_up(l5))
			l5_unconnected(l5);
		mutex_unlock(&l5->lock);
	}
	l5_boot_error(l5);
	return err;
}

/**
 * l5_listen() - listen, and offer rings to AF_L5 peers
 * @sock: the socket
 * @backlog: the bootstrap's
 *
 * Return: as the bootstrap's.
 */
int l5_listen(struct socket *sock, int backlog)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool fresh;
	int err;

	l5_boot_borrow(l5);
	l5_opts_push(l5);
	l5_listen_settle(l5);
	mutex_lock(&l5->lock);
	fresh = l5_state(l5) == L5_IDLE;
	if (!fresh && l5_state(l5) != L5_LISTEN) {
		err = -EINVAL;
		goto out;
	}
	if (!l5->payer.acct && l5_payer_get(&l5->payer, l5->ln)) {
		err = -ENOMEM;
		goto out;
	}
	/* nothing listens, be it for a moment, that is not ready to */
	if (fresh) {
		l5_meet_reopen(l5);
		l5_listen_hook(l5);
	}
	err = l5->boot->ops->listen(l5->boot, backlog);
	if (fresh && READ_ONCE(l5->boot->sk->sk_state) != TCP_LISTEN) {
		l5_listen_unhook(l5);
	} else if (fresh) {
		l5_set_state(l5, L5_LISTEN, L5_REASON_NONE);
		l5_door_listen(l5);
	}
	l5_opts_pull(l5);
out:
	mutex_unlock(&l5->lock);
	return err;
}

/* Is it certain that there is nothing to accept? */
static bool l5_accept_empty(const struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	if (READ_ONCE(bsk->sk_state) != TCP_LISTEN)
		return false;
	if (l5->proto == L5PROTO_UNIX)
		return skb_queue_empty_lockless(&bsk->sk_receive_queue) &&
		       !READ_ONCE(bsk->sk_shutdown) && !READ_ONCE(bsk->sk_err);
	return reqsk_queue_empty(&inet_csk(bsk)->icsk_accept_queue);
}

/* Take the meeting, if there was one, and say what carries the bytes. */
static void l5_accepted(struct l5_sock *l5, struct l5_sock *listener,
			struct l5_conn *conn)
{
	enum l5_reason why;

	if (conn && conn->paired) {
		l5_conn_accepted(conn, l5->ln);
		l5_conn_attach(conn, L5_SERVER, l5);
		l5_set_state(l5, L5_SHM, L5_REASON_NONE);
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
		l5_door_hope(l5, listener);
}

/* Accept the bootstrap's next child and the meeting it may have had. */
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
	l5->proto = listener->proto;
	l5->sk.sk_type = SOCK_STREAM;
	err = sock_create_lite(listener->boot->sk->sk_family, SOCK_STREAM,
			       listener->boot->sk->sk_protocol, &boot);
	if (err)
		goto err_sock;
	boot->ops = ops;
	__module_get(ops->owner);
	l5_boot_lend(boot, newsock);
	err = ops->accept(listener->boot, boot, L5_ACCEPT_PASS);
	if (err)
		goto err_boot;

	conn = l5_meet_accept(listener, boot->sk);
	sock_graft(&l5->sk, newsock);
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

static void l5_shutdown_ring(struct l5_sock *l5, int how)
{
	struct l5_end *own = l5_own(l5);
	long timeo = -HZ;
	bool locked;

	/* what TCP gets after a FIN and nobody reads it answers by a reset */
	if (how == SHUT_RD || how == SHUT_RDWR)
		set_bit(L5_END_DEAF, &own->flags);
	if (how == SHUT_WR || how == SHUT_RDWR) {
		/*
		 * Nothing is to be published after the end: who takes the lock
		 * word from now on sees the flag. A process that does not give
		 * it back is not worth waiting for.
		 */
		l5_map_flag(own, L5_MAP_TX_ASK);
		locked = !l5_ring_lock(l5, L5_LOCK_TX, &timeo);
		l5_conn_fin(l5);
		if (locked)
			l5_ring_unlock(l5, L5_LOCK_TX);
	}
}

/*
 * Shut down both ways: what is sent to it from now on TCP answers by a reset.
 * Only once the bootstrap does, or it would take such a byte for data.
 */
static void l5_shutdown_closed(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5);

	if (l5->proto == L5PROTO_UNIX ||
	    !test_bit(L5_END_DEAF, &own->flags) ||
	    !test_bit(L5_END_FIN, &own->flags) ||
	    test_and_set_bit(L5_END_CLOSED, &own->flags))
		return;
	l5_map_flag(l5_peer(l5), L5_MAP_TX_ASK);
	l5_conn_changed(l5->conn, !l5->end);
}

/* All that shutdown() of TCP does but for the FIN, which is sent by fin.c. */
static int l5_shutdown_later(struct l5_sock *l5, int how)
{
	struct sock *bsk = l5->boot->sk;
	int err = 0;

	lock_sock(bsk);
	if (bsk->sk_state == TCP_CLOSE)
		err = -ENOTCONN;
	bsk->sk_shutdown |= how + 1;
	bsk->sk_state_change(bsk);
	release_sock(bsk);
	return err;
}

/**
 * l5_shutdown() - shut down the bootstrap, and the ring in the same sense
 * @sock: the socket
 * @how: SHUT_RD, SHUT_WR or SHUT_RDWR
 *
 * Return: as the bootstrap's.
 */
int l5_shutdown(struct socket *sock, int how)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool listens, ended, later;
	enum l5_tx tx;
	int err;

	mutex_lock(&l5->lock);
	/* a half-open meeting is not worth waiting for */
	l5_meet_stay(l5, L5_REASON_TIMEOUT);
	/* a FIN is the last that TCP carries, or comes after a cut is known */
	tx = l5_move_tx_begin(l5);
	later = tx == L5_TX_RINGS && (how == SHUT_WR || how == SHUT_RDWR) &&
		l5_fin_later(l5);
	if (l5_tx_rings(l5) || l5_rx_rings(l5))
		l5_shutdown_ring(l5, how);
	/* TCP stops listening, AF_UNIX only refuses */
	listens = l5_state(l5) == L5_LISTEN && l5->proto != L5PROTO_UNIX;
	if (listens && (how == SHUT_RD || how == SHUT_RDWR))
		l5_meet_close(l5);
	err = later ? l5_shutdown_later(l5, how) :
		      l5->boot->ops->shutdown(l5->boot, how);
	if (tx == L5_TX_COUNTED)
		l5_move_tx_end(l5);
	if (l5_state(l5) == L5_SHM)
		l5_shutdown_closed(l5);
	ended = listens && l5_listen_ended(l5);
	if (listens && !ended)
		l5_meet_reopen(l5);
	if (!listens)
		l5_connect_failed(l5);
	mutex_unlock(&l5->lock);
	if (ended)
		l5_door_unlisten(l5);
	l5_boot_error(l5);
	/* AF_UNIX tells only the peer */
	if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING)
		l5_map_note(l5);
	return err;
}
