// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the options that a socket and its bootstrap have in common.
 *
 * The kernel sets and gets options of SOL_SOCKET on the owner without asking
 * us; options of other levels belong to the bootstrap, see sockopt.c. Options
 * that the owner was told are handed down before the bootstrap is used next,
 * and only those that have changed since: TCP tunes some of the same fields
 * itself.
 */
#include <linux/bpf.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "bootstrap.h"
#include "end.h"
#include "fold.h"
#include "opts.h"
#include "ring.h"

/*
 * Flags of a sock that an option sets. Those that the kernel counts sockets by
 * (SK_FLAGS_TIMESTAMP) stay with the owner, which is counted once.
 */
#define L5_OPT_FLAGS							\
	(BIT(SOCK_KEEPOPEN) | BIT(SOCK_LINGER) | BIT(SOCK_BROADCAST) |	\
	 BIT(SOCK_URGINLINE) | BIT(SOCK_DBG) | BIT(SOCK_LOCALROUTE) |	\
	 BIT(SOCK_ZEROCOPY) | BIT(SOCK_RXQ_OVFL) | BIT(SOCK_RCVMARK) |	\
	 BIT(SOCK_SELECT_ERR_QUEUE) | L5_STAMP_FLAGS)

static void l5_opts_read(const struct sock *sk, struct l5_opts *o)
{
	memset(o, 0, sizeof(*o));
	o->flags = READ_ONCE(sk->sk_flags) & L5_OPT_FLAGS;
	o->sndtimeo = READ_ONCE(sk->sk_sndtimeo);
	o->rcvtimeo = READ_ONCE(sk->sk_rcvtimeo);
	o->linger = READ_ONCE(sk->sk_lingertime);
	o->pacing = READ_ONCE(sk->sk_max_pacing_rate);
	o->sndbuf = READ_ONCE(sk->sk_sndbuf);
	o->rcvbuf = READ_ONCE(sk->sk_rcvbuf);
	o->priority = READ_ONCE(sk->sk_priority);
	o->mark = READ_ONCE(sk->sk_mark);
	o->uid = READ_ONCE(sk->sk_uid);
	o->dev = READ_ONCE(sk->sk_bound_dev_if);
	o->stamps = READ_ONCE(sk->sk_tsflags);
#ifdef CONFIG_NET_RX_BUSY_POLL
	o->ll_usec = READ_ONCE(sk->sk_ll_usec);
#endif
	o->reuse = sk->sk_reuse;
	o->reuseport = sk->sk_reuseport;
	o->userlocks = sk->sk_userlocks & SOCK_BUF_LOCK_MASK;
}

/* Write to @sk the options that differ between @old and @new. */
static void l5_opts_write(struct sock *sk, const struct l5_opts *old,
			  const struct l5_opts *new)
{
	unsigned long flags = old->flags ^ new->flags;

#define L5_OPT_PUT(name, field)						\
	do {								\
		if (old->name != new->name)				\
			WRITE_ONCE(sk->field, new->name);		\
	} while (0)
	L5_OPT_PUT(sndtimeo, sk_sndtimeo);
	L5_OPT_PUT(rcvtimeo, sk_rcvtimeo);
	L5_OPT_PUT(linger, sk_lingertime);
	L5_OPT_PUT(sndbuf, sk_sndbuf);
	L5_OPT_PUT(rcvbuf, sk_rcvbuf);
	L5_OPT_PUT(priority, sk_priority);
	L5_OPT_PUT(mark, sk_mark);
	L5_OPT_PUT(stamps, sk_tsflags);
#ifdef CONFIG_NET_RX_BUSY_POLL
	L5_OPT_PUT(ll_usec, sk_ll_usec);
#endif
#undef L5_OPT_PUT
	if (old->reuse != new->reuse)
		sk->sk_reuse = new->reuse;
	if (old->reuseport != new->reuseport)
		sk->sk_reuseport = new->reuseport;
	if (old->pacing != new->pacing) {
		WRITE_ONCE(sk->sk_max_pacing_rate, new->pacing);
		WRITE_ONCE(sk->sk_pacing_rate,
			   min(READ_ONCE(sk->sk_pacing_rate), new->pacing));
		if (new->pacing != ~0UL)
			cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE,
				SK_PACING_NEEDED);
	}
	sk->sk_userlocks |= new->userlocks;
	if (flags & BIT(SOCK_KEEPOPEN) && sk->sk_prot->keepalive)
		sk->sk_prot->keepalive(sk,
				       !!(new->flags & BIT(SOCK_KEEPOPEN)));
	/* other tasks look at bits of it without the lock */
	WRITE_ONCE(sk->sk_flags, sk->sk_flags ^ flags);
	if (old->mark != new->mark)
		sk_dst_reset(sk);
}

/* Hand options down; the bootstrap is locked. */
static void l5_opts_put(struct l5_sock *l5, const struct l5_opts *new)
{
	struct sock *bsk = l5->boot->sk;

	sock_owned_by_me(bsk);
	/* a second task that came for the same change finds none */
	l5_opts_write(bsk, &l5->opts, new);
	if (l5->opts.dev != new->dev)
		sock_bindtoindex(bsk, new->dev, false);
	/* fchown() */
	if (!uid_eq(l5->opts.uid, new->uid)) {
		WRITE_ONCE(bsk->sk_uid, new->uid);
		SOCK_INODE(l5->boot)->i_uid = new->uid;
	}
	l5->opts = *new;
}

/**
 * l5_opts_push() - hand down what the owner was told since the last time
 * @l5: the socket
 *
 * Context: may sleep.
 */
void l5_opts_push(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	struct l5_opts new;

	if (l5->bops->opts_push && l5->sk.sk_socket)
		l5->bops->opts_push(l5);
	l5_opts_read(&l5->sk, &new);
	/* a task that changes them at this moment has them handed down, too */
	if (likely(!data_race(memcmp(&new, &l5->opts, sizeof(new)))))
		return;
	lock_sock(bsk);
	l5_opts_put(l5, &new);
	release_sock(bsk);
}

/**
 * l5_opts_changed() - hand options down at once, struct proto's release_cb
 * @sk: the owner
 *
 * The lock of the owner guards its options only, so when it is released one of
 * them may have changed. The options of a listener have to hold for its next
 * connection, and a sender is refused what an AF_UNIX socket does not want:
 * neither can wait for the next call on the socket. What has to wait for
 * another task, or may sleep, is left to l5_opts_push() at the next call.
 *
 * Context: the owner's spinlock held, softirqs off.
 */
void l5_opts_changed(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct socket *boot = READ_ONCE(l5->boot);
	struct l5_opts new;
	struct sock *bsk;

	if (!boot || !sk->sk_socket)
		return;
	bsk = boot->sk;
	if (l5->bops->opts_push)
		l5->bops->opts_push(l5);
	l5_opts_read(sk, &new);
	/* as l5_opts_push(): most times nothing has changed */
	if (data_race(memcmp(&new, &l5->opts, sizeof(new)))) {
		bh_lock_sock(bsk);
		if (!sock_owned_by_user(bsk)) {
			new.dev = l5->opts.dev;
			new.uid = l5->opts.uid;
			l5_opts_write(bsk, &l5->opts, &new);
			l5->opts = new;
		}
		bh_unlock_sock(bsk);
	}
	l5_map_extent(l5);
}

/**
 * l5_write_space() - l5_sock.sk.sk_write_space: SO_SNDBUF was set
 * @sk: the owner, to which nothing else is charged
 *
 * A sender that sleeps for room in the bootstrap looks at the bootstrap's own
 * limit. A sender that sleeps for room in a ring looks at the owner's, see
 * l5_ring_extent().
 *
 * Context: setsockopt(), the owner's lock held.
 */
void l5_write_space(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;

	/* a BPF program may not sleep: the next call hands the option down */
	if (!has_current_bpf_ctx()) {
		l5_opts_push(l5);
		bsk->sk_write_space(bsk);
	}
	rcu_read_lock();
	if (skwq_has_sleeper(rcu_dereference(sk->sk_wq)))
		wake_up_interruptible_poll(&rcu_dereference(sk->sk_wq)->wait,
					   EPOLLOUT | EPOLLWRNORM |
					   EPOLLWRBAND);
	rcu_read_unlock();
}

/*
 * Let the kernel take a socket for what its bootstrap is.
 *
 * Security modules judge a call by the family and the protocol of the socket
 * that the program holds, before the call comes here; SOL_SOCKET's options do
 * the same. They are to find a TCP or an AF_UNIX socket, so ours has the size
 * of one. None of our own code looks at family and protocol. No operation of
 * TCP's own, nor of sockmap or of a ULP, will take the socket: these ask for
 * &struct proto. BPF programs that set options of TCP by themselves do not ask
 * (since 6.2): for them the socket has the fields that an option of TCP may use
 * without having made them.
 *
 * Called when the socket is new, and when IPV6_ADDRFORM may have changed the
 * bootstrap.
 */
static void l5_sock_show(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	if (l5->bops->show)
		l5->bops->show(l5);
	l5->sk.sk_protocol = bsk->sk_protocol;
	WRITE_ONCE(l5->sk.sk_family, READ_ONCE(bsk->sk_family));
}

/* Does the owner show all that the bootstrap, which is locked, has? */
static bool l5_opts_shown(const struct l5_sock *l5, const struct l5_opts *base)
{
	const struct sock *sk = &l5->sk, *bsk = l5->boot->sk;

	return !memcmp(base, &l5->opts, sizeof(*base)) &&
	       READ_ONCE(sk->sk_rcvlowat) == READ_ONCE(bsk->sk_rcvlowat) &&
	       (!sk->sk_socket ||
		test_bit(SOCK_SUPPORT_ZC, &sk->sk_socket->flags) ==
		test_bit(SOCK_SUPPORT_ZC, &l5->boot->flags));
}

/* What is no option of SOL_SOCKET's; the bootstrap is locked. */
static void l5_opts_show(struct l5_sock *l5)
{
	l5_sock_show(l5);
	if (l5->bops->opts_pull)
		l5->bops->opts_pull(l5);
}

/*
 * Have the owner show what the bootstrap has. The bootstrap is locked, and so
 * is the owner, unless no other task knows it yet.
 */
static void l5_opts_take(struct l5_sock *l5, const struct l5_opts *old,
			 const struct l5_opts *new)
{
	struct sock *sk = &l5->sk, *bsk = l5->boot->sk;

	sock_owned_by_me(bsk);
	l5_opts_write(sk, old, new);
	WRITE_ONCE(sk->sk_bound_dev_if, new->dev);
	WRITE_ONCE(sk->sk_rcvlowat, READ_ONCE(bsk->sk_rcvlowat));
	/* io_uring knows by this flag whether to ask for no copy */
	if (sk->sk_socket)
		assign_bit(SOCK_SUPPORT_ZC, &sk->sk_socket->flags,
			   test_bit(SOCK_SUPPORT_ZC, &l5->boot->flags));
	l5->opts = *new;
	l5_opts_show(l5);
}

/**
 * l5_opts_pull() - show the bootstrap's options where getsockopt() looks
 * @l5: the socket
 *
 * Called when the bootstrap may have changed the options itself; most times it
 * has not.
 *
 * Context: may sleep.
 */
void l5_opts_pull(struct l5_sock *l5)
{
	struct sock *sk = &l5->sk, *bsk = l5->boot->sk;
	struct l5_opts old, new;
	bool shown;

	l5_opts_push(l5);
	lock_sock(bsk);
	l5_opts_read(bsk, &new);
	shown = l5_opts_shown(l5, &new);
	if (shown)
		l5_opts_show(l5);
	release_sock(bsk);
	if (shown)
		return;
	lock_sock(sk);
	lock_sock(bsk);
	l5_opts_read(sk, &old);
	/* an option that was set since is not to be taken back */
	l5_opts_put(l5, &old);
	l5_opts_read(bsk, &new);
	l5_opts_take(l5, &old, &new);
	release_sock(bsk);
	release_sock(sk);
}

/**
 * l5_opts_inherit() - options of a socket that no other task knows yet
 * @l5: the socket
 * @listener: the listener whose options they are, or @l5 if there is none
 *
 * Context: may sleep.
 */
void l5_opts_inherit(struct l5_sock *l5, const struct l5_sock *listener)
{
	struct sock *bsk = l5->boot->sk;
	struct l5_opts old, new;

	WRITE_ONCE(l5->spin_us, READ_ONCE(listener->spin_us));
	l5->force = READ_ONCE(listener->force);
	l5->remote_want = READ_ONCE(listener->remote_want);
	l5->sk.sk_txrehash = l5->boot->sk->sk_txrehash;
	if (l5->bops->opts_inherit)
		l5->bops->opts_inherit(l5);
	l5_opts_read(&l5->sk, &old);
	lock_sock(bsk);
	l5_opts_read(bsk, &new);
	l5_opts_take(l5, &old, &new);
	release_sock(bsk);
}

/**
 * l5_keepalive() - SO_KEEPALIVE, handed down without waiting for the next call
 * @sk: the owner, locked
 * @on: its value
 */
void l5_keepalive(struct sock *sk, int on)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;

	/* also called by l5_opts_take(), when the bootstrap knows already */
	if (!!on == sock_flag(bsk, SOCK_KEEPOPEN))
		return;
	/* it may not sleep: l5_opts_changed() or the next call does it */
	if (has_current_bpf_ctx())
		return;
	lock_sock(bsk);
	if (bsk->sk_prot->keepalive)
		bsk->sk_prot->keepalive(bsk, on);
	sock_valbool_flag(bsk, SOCK_KEEPOPEN, on);
	l5->opts.flags = (l5->opts.flags & ~BIT(SOCK_KEEPOPEN)) |
			 (bsk->sk_flags & BIT(SOCK_KEEPOPEN));
	release_sock(bsk);
}

/**
 * l5_rehash() - SO_BINDTODEVICE, handed down without waiting for the next call
 * @sk: the owner, locked
 *
 * Nor are the rights of the task that makes the next call to be judged for this
 * option. So it is done where the kernel would have TCP's tables follow.
 */
void l5_rehash(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;
	int dev = READ_ONCE(sk->sk_bound_dev_if);

	/* it may not sleep: the next call hands it down */
	if (has_current_bpf_ctx())
		return;
	lock_sock(bsk);
	if (READ_ONCE(bsk->sk_bound_dev_if) != dev)
		sock_bindtoindex(bsk, dev, false);
	l5->opts.dev = dev;
	release_sock(bsk);
}

/**
 * l5_set_rcvlowat() - SO_RCVLOWAT, the option that the kernel hands to a family
 * @sk: the owner, locked
 * @val: bytes
 */
int l5_set_rcvlowat(struct sock *sk, int val)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;
	int err = 0;

	/* it may not sleep, and there is nobody to hand this down later */
	if (has_current_bpf_ctx())
		return -EBUSY;
	/* TCP bounds it by SO_RCVBUF, if that was set */
	l5_opts_push(l5);
	lock_sock(bsk);
	if (l5->boot->ops->set_rcvlowat)
		err = l5->boot->ops->set_rcvlowat(bsk, val);
	else
		WRITE_ONCE(bsk->sk_rcvlowat, val ?: 1);
	if (!err)
		WRITE_ONCE(sk->sk_rcvlowat, READ_ONCE(bsk->sk_rcvlowat));
	release_sock(bsk);
	/* to processes that share the socket, and have it mapped */
	if (l5_state(l5) == L5_RINGS)
		l5_map_note(l5);
	return err;
}
