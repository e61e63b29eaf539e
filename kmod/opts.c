// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: socket options.
 *
 * Options of SOL_SOCKET the kernel sets and gets on the owner without asking
 * us; those of other levels belong to the bootstrap. What the owner was told is
 * handed down before the bootstrap is used next, and only what has changed
 * since: TCP tunes some of the same fields itself.
 */
#include <linux/bpf.h>
#include <linux/bpf-cgroup.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "l5.h"

/* Flags of a sock that an option sets. */
#define L5_OPT_FLAGS							\
	(BIT(SOCK_KEEPOPEN) | BIT(SOCK_LINGER) | BIT(SOCK_BROADCAST) |	\
	 BIT(SOCK_URGINLINE) | BIT(SOCK_DBG) | BIT(SOCK_LOCALROUTE) |	\
	 BIT(SOCK_ZEROCOPY))

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
#ifdef CONFIG_NET_RX_BUSY_POLL
	o->ll_usec = READ_ONCE(sk->sk_ll_usec);
#endif
	o->reuse = sk->sk_reuse;
	o->reuseport = sk->sk_reuseport;
	o->userlocks = sk->sk_userlocks & SOCK_BUF_LOCK_MASK;
}

/* Write to @sk what differs between @old and @new. */
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
	sk->sk_flags ^= flags;
	if (old->mark != new->mark)
		sk_dst_reset(sk);
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

	if (l5->proto == L5PROTO_UNIX && l5->sk.sk_socket)
		l5_pass_copy(l5->boot, l5->sk.sk_socket);
	l5_opts_read(&l5->sk, &new);
	/* who changes them at this moment has what it was told, too */
	if (likely(!data_race(memcmp(&new, &l5->opts, sizeof(new)))))
		return;
	lock_sock(bsk);
	/* a second one that came for the same change finds none */
	l5_opts_write(bsk, &l5->opts, &new);
	if (l5->opts.dev != new.dev)
		sock_bindtoindex(bsk, new.dev, false);
	/* fchown() */
	if (!uid_eq(l5->opts.uid, new.uid)) {
		WRITE_ONCE(bsk->sk_uid, new.uid);
		SOCK_INODE(l5->boot)->i_uid = new.uid;
	}
	l5->opts = new;
	release_sock(bsk);
}

/**
 * l5_write_space() - l5_sock.sk.sk_write_space: SO_SNDBUF was set
 * @sk: the owner, to which nothing else is charged
 *
 * Who sleeps for room in the bootstrap looks at the bootstrap's own limit, and
 * who sleeps for room in a ring at the owner's, see l5_ring_extent().
 *
 * Context: setsockopt(), the owner's lock held.
 */
void l5_write_space(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;

	/* a program of BPF's may not sleep: the next call hands it down */
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

static void l5_sync_cred(struct sock *sk, struct sock *bsk)
{
	const struct cred *cred, *old;
	struct pid *pid, *old_pid;

	spin_lock(&bsk->sk_peer_lock);
	pid = get_pid(bsk->sk_peer_pid);
	cred = bsk->sk_peer_cred ? get_cred(bsk->sk_peer_cred) : NULL;
	spin_unlock(&bsk->sk_peer_lock);

	spin_lock(&sk->sk_peer_lock);
	old_pid = sk->sk_peer_pid;
	old = sk->sk_peer_cred;
	sk->sk_peer_pid = pid;
	sk->sk_peer_cred = cred;
	spin_unlock(&sk->sk_peer_lock);
	put_pid(old_pid);
	put_cred(old);
}

/**
 * l5_opts_pull() - show the bootstrap's options where getsockopt() looks
 * @l5: the socket
 *
 * When it is new, and when the bootstrap may have changed them itself.
 */
void l5_opts_pull(struct l5_sock *l5)
{
	struct sock *sk = &l5->sk, *bsk = l5->boot->sk;
	struct l5_opts old, new;

	l5_opts_push(l5);
	lock_sock(sk);
	lock_sock(bsk);
	l5_opts_read(sk, &old);
	l5_opts_read(bsk, &new);
	l5_opts_write(sk, &old, &new);
	WRITE_ONCE(sk->sk_bound_dev_if, new.dev);
	WRITE_ONCE(sk->sk_rcvlowat, READ_ONCE(bsk->sk_rcvlowat));
	if (l5->proto != L5PROTO_UNIX)
		WRITE_ONCE(l5->inq, tcp_sk(bsk)->recvmsg_inq);
	/* by which io_uring knows whether to ask for no copy */
	if (sk->sk_socket)
		assign_bit(SOCK_SUPPORT_ZC, &sk->sk_socket->flags,
			   test_bit(SOCK_SUPPORT_ZC, &l5->boot->flags));
	l5->opts = new;
	l5_sock_show(l5);
	release_sock(bsk);
	release_sock(sk);
	if (l5->proto == L5PROTO_UNIX)
		l5_sync_cred(sk, bsk);
}

/**
 * l5_opts_inherit() - options of an accepted socket
 * @l5: the accepted socket
 * @listener: whom it has them from
 */
void l5_opts_inherit(struct l5_sock *l5, const struct l5_sock *listener)
{
	WRITE_ONCE(l5->spin_us, READ_ONCE(listener->spin_us));
	l5->force = READ_ONCE(listener->force);
	l5->rdma_want = READ_ONCE(listener->rdma_want);
	l5->sk.sk_txrehash = l5->boot->sk->sk_txrehash;
	if (l5->proto == L5PROTO_UNIX)
		l5_pass_copy(l5->sk.sk_socket, l5->boot);
	l5_opts_read(&l5->sk, &l5->opts);
	l5_opts_pull(l5);
}

/**
 * l5_keepalive() - SO_KEEPALIVE, which is not to wait for the next call
 * @sk: the owner, locked
 * @on: its value
 */
void l5_keepalive(struct sock *sk, int on)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;

	/* also called by l5_opts_pull(), when the bootstrap knows already */
	if (!!on == sock_flag(bsk, SOCK_KEEPOPEN))
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
 * l5_rehash() - SO_BINDTODEVICE, which is not to wait for the next call
 * @sk: the owner, locked
 *
 * Nor is it to be judged by the rights of whoever makes that call, so it is
 * done where the kernel would have TCP's tables follow.
 */
void l5_rehash(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;
	int dev = READ_ONCE(sk->sk_bound_dev_if);

	lock_sock(bsk);
	if (READ_ONCE(bsk->sk_bound_dev_if) != dev)
		sock_bindtoindex(bsk, dev, false);
	l5->opts.dev = dev;
	release_sock(bsk);
}

/**
 * l5_set_rcvlowat() - SO_RCVLOWAT, for which the kernel does ask
 * @sk: the owner, locked
 * @val: bytes
 */
int l5_set_rcvlowat(struct sock *sk, int val)
{
	struct l5_sock *l5 = l5_sk(sk);
	struct sock *bsk = l5->boot->sk;
	int err = 0;

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
	return err;
}

/* What only the bootstrap can honour: who sets it wants no rings. */
static bool l5_opt_needs_base(int level, int optname)
{
	if (level == SOL_SOCKET)
		switch (optname) {
		case SO_ATTACH_FILTER:
		case SO_ATTACH_BPF:
		case SO_PEEK_OFF:
			return true;
		}
	if (level == SOL_TCP)
		switch (optname) {
		case TCP_ULP:
		case TCP_REPAIR:
		case TCP_FASTOPEN_CONNECT:
			return true;
		}
	return false;
}

/*
 * What says how the packets of a connection are to be signed or encrypted. RDMA
 * does neither; in memory of one host there are none.
 */
static bool l5_opt_guards(int level, int optname)
{
	switch (level) {
	case SOL_TCP:
		return optname == TCP_MD5SIG || optname == TCP_MD5SIG_EXT ||
		       optname == TCP_AO_ADD_KEY || optname == TCP_AO_INFO;
	case SOL_IP:
		return optname == IP_XFRM_POLICY || optname == IP_IPSEC_POLICY;
	case SOL_IPV6:
		return optname == IPV6_XFRM_POLICY ||
		       optname == IPV6_IPSEC_POLICY;
	default:
		return false;
	}
}

/*
 * A longer value may be one of a later version: what it has to say beyond what
 * is known here has to be nothing.
 */
static int l5_opt_rest(sockptr_t optval, unsigned int from, unsigned int optlen)
{
	u8 rest[64];
	unsigned int n;

	if (optlen > PAGE_SIZE)
		return -E2BIG;
	for (; from < optlen; from += n) {
		n = min_t(unsigned int, optlen - from, sizeof(rest));
		if (copy_from_sockptr_offset(rest, optval, from, n))
			return -EFAULT;
		if (memchr_inv(rest, 0, n))
			return -E2BIG;
	}
	return 0;
}

static int l5_setsockopt_own(struct l5_sock *l5, int optname, sockptr_t optval,
			     unsigned int optlen)
{
	int val, err = 0;

	switch (optname) {
	case L5_SPIN_US:
	case L5_FORCE:
	case L5_RDMA:
	case L5_RDMA_WAIT:
		break;
	case L5_TRANSPORT:
	case L5_REASON:
	case L5_INFO:
	case L5_RDMA_INFO:
	default:
		return -ENOPROTOOPT;
	}
	if (optlen < sizeof(val))
		return -EINVAL;
	if (copy_from_sockptr(&val, optval, sizeof(val)))
		return -EFAULT;
	err = l5_opt_rest(optval, sizeof(val), optlen);
	if (err)
		return err;

	if (optname == L5_SPIN_US) {
		if (val < -1 || val > L5_SPIN_US_MAX)
			return -EINVAL;
		WRITE_ONCE(l5->spin_us, val);
		return 0;
	}
	if (optname == L5_RDMA_WAIT) {
		if (val < 0 || val > L5_RDMA_WAIT_MAX)
			return -EINVAL;
		WRITE_ONCE(l5->rdma_wait, val);
		return 0;
	}
	if (optname == L5_RDMA ? val < -1 || val > 1 :
				 val < 0 || val >= L5_TRANSPORT_MAX)
		return -EINVAL;
	mutex_lock(&l5->lock);
	if (l5_state(l5) != L5_IDLE)
		err = -EISCONN;
	else if (optname == L5_RDMA)
		WRITE_ONCE(l5->rdma_want, val);
	else
		WRITE_ONCE(l5->force, val);
	mutex_unlock(&l5->lock);
	return err;
}

/* Would delay the handshake's last packet, hence the meeting. */
static bool l5_opt_delays(struct l5_sock *l5, int level, int optname,
			  sockptr_t optval, unsigned int optlen)
{
	int val;

	if (level != SOL_TCP || optname != TCP_QUICKACK ||
	    l5->proto == L5PROTO_UNIX || optlen < sizeof(val))
		return false;
	if (l5_state(l5) != L5_IDLE && l5_state(l5) != L5_CONNECTING)
		return false;
	return !copy_from_sockptr(&val, optval, sizeof(val)) && !val;
}

/*
 * What SOL_L5_SOCKET is for: options that the kernel takes on the owner, where
 * they would mean nothing, or refuses there. No others, since whoever judges
 * options knows these by the level SOL_SOCKET.
 */
static int l5_opt_allowed(int optname)
{
	switch (optname) {
	case SO_PEEK_OFF:
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
	case SO_DETACH_FILTER:
	case SO_LOCK_FILTER:
	case SO_ATTACH_REUSEPORT_CBPF:
	case SO_ATTACH_REUSEPORT_EBPF:
	case SO_DETACH_REUSEPORT_BPF:
		break;
	default:
		return -ENOPROTOOPT;
	}
#ifdef CONFIG_CGROUP_BPF
	if (cgroup_bpf_enabled(CGROUP_SETSOCKOPT))
		return -EPERM;
#endif
	return 0;
}

/*
 * Of the protocols that can sit on TCP only TLS leaves the socket, its file and
 * its callbacks to us. The others, and names that nobody knows, do not exist.
 */
static int l5_opt_ulp(struct l5_sock *l5, int optname, sockptr_t optval,
		      unsigned int optlen)
{
	char name[TCP_ULP_NAME_MAX] = { };
	long len;

	if (optlen < 1)
		return -EINVAL;
	len = strncpy_from_sockptr(name, optval,
				   min_t(long, sizeof(name) - 1, optlen));
	if (len < 0)
		return -EFAULT;
	name[len] = 0;
	if (strcmp(name, "tls"))
		return -ENOENT;
	/* what was looked at, and not what may be there by now */
	return l5->boot->ops->setsockopt(l5->boot, SOL_TCP, optname,
					 KERNEL_SOCKPTR(name), len);
}

/**
 * l5_setsockopt() - set an option, the module's own or the bootstrap's
 * @sock: the socket
 * @level: of the option; SOL_SOCKET comes here as SOL_L5_SOCKET only
 * @optname: its number
 * @optval: its value
 * @optlen: bytes of it
 *
 * Return: as the bootstrap's. Options that only TCP can honour keep a socket
 * on its bootstrap if set in time, and are EOPNOTSUPP once rings are in use.
 */
int l5_setsockopt(struct socket *sock, int level, int optname, sockptr_t optval,
		  unsigned int optlen)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool base, guards;
	int err;

	if (level == SOL_L5) {
		l5_boot_label(l5);
		return l5_setsockopt_own(l5, optname, optval, optlen);
	}
	if (level == SOL_L5_SOCKET) {
		err = l5_opt_allowed(optname);
		if (err)
			return err;
		level = SOL_SOCKET;
	} else if (!l5->boot->ops->setsockopt) {
		return -EOPNOTSUPP;
	}
	if (l5_opt_delays(l5, level, optname, optval, optlen))
		return 0;

	base = l5_opt_needs_base(level, optname);
	guards = l5_opt_guards(level, optname);
	mutex_lock(&l5->lock);
	if (base) {
		l5_meet_stay(l5, L5_REASON_OPTION);
		if (l5_state(l5) == L5_SHM || l5_state(l5) == L5_MOVING) {
			mutex_unlock(&l5->lock);
			return -EOPNOTSUPP;
		}
	}
	mutex_unlock(&l5->lock);
	if (base || guards) {
		err = l5_move_stop(l5, base ? L5_REASON_OPTION :
					      L5_REASON_SECURED);
		if (err)
			return err;
	}
	/* TCP_REPAIR makes a connection, SO_REUSEPORT is to be known before */
	l5_boot_borrow(l5);
	l5_opts_push(l5);
	if (level == SOL_SOCKET)
		err = sock_setsockopt(l5->boot, level, optname, optval, optlen);
	else if (level == SOL_TCP && optname == TCP_ULP &&
		 l5->proto != L5PROTO_UNIX)
		err = l5_opt_ulp(l5, optname, optval, optlen);
	else
		err = l5->boot->ops->setsockopt(l5->boot, level, optname,
						optval, optlen);
	if (!err && base)
		WRITE_ONCE(l5->nopair, L5_REASON_OPTION);
	/* what connected meanwhile was judged before or is stopped now */
	if (!err && guards)
		err = l5_move_stop(l5, L5_REASON_SECURED);
	/* IP_TOS sets SO_PRIORITY */
	if (!err)
		l5_opts_pull(l5);
	return err;
}

static int l5_transport(const struct l5_sock *l5)
{
	switch (l5_state(l5)) {
	case L5_BASE:
	case L5_MOVING:
		return L5_TRANSPORT_BASE;
	case L5_SHM:
		return l5->conn->rdma ? L5_TRANSPORT_RDMA : L5_TRANSPORT_SHM;
	default:
		return L5_TRANSPORT_NONE;
	}
}

static void l5_get_info(struct l5_sock *l5, struct l5_info *info)
{
	struct l5_end *own, *peer;

	info->transport = l5_transport(l5);
	info->reason = READ_ONCE(l5->reason);
	if (info->transport < L5_TRANSPORT_SHM)
		return;
	own = l5_own(l5);
	peer = l5_peer(l5);
	info->tx_size = own->size;
	info->rx_size = peer->size;
	info->tx_used = l5_ring_used(l5->conn, l5->end);
	info->rx_used = l5_ring_used(l5->conn, !l5->end);
	info->tx_bytes = l5_load(&own->ctrl->tx_bytes);
	info->rx_bytes = l5_load(&own->ctrl->rx_bytes);
}

static int l5_getsockopt_own(struct l5_sock *l5, int optname,
			     char __user *optval, int __user *optlen)
{
	struct l5_rdma_info rdma = { };
	struct l5_info info = { };
	const void *from = &info.transport;
	int len, size = sizeof(int);

	if (get_user(len, optlen))
		return -EFAULT;
	if (len < 0)
		return -EINVAL;
	switch (optname) {
	case L5_TRANSPORT:
		info.transport = l5_transport(l5);
		break;
	case L5_REASON:
		info.transport = READ_ONCE(l5->reason);
		break;
	case L5_SPIN_US:
		info.transport = READ_ONCE(l5->spin_us);
		break;
	case L5_FORCE:
		info.transport = READ_ONCE(l5->force);
		break;
	case L5_INFO:
		l5_get_info(l5, &info);
		size = sizeof(info);
		break;
	case L5_RDMA:
		info.transport = READ_ONCE(l5->rdma_want);
		break;
	case L5_RDMA_WAIT:
		info.transport = READ_ONCE(l5->rdma_wait);
		break;
	case L5_RDMA_INFO:
		l5_rdma_get_info(l5, &rdma);
		size = sizeof(rdma);
		from = &rdma;
		break;
	default:
		return -ENOPROTOOPT;
	}
	len = min(len, size);
	if (put_user(len, optlen) || copy_to_user(optval, from, len))
		return -EFAULT;
	return 0;
}

/**
 * l5_getsockopt() - read an option, the module's own or the bootstrap's
 * @sock: the socket
 * @level: of the option; SOL_SOCKET never comes here
 * @optname: its number
 * @optval: where to
 * @optlen: room there, then bytes written
 *
 * Return: as the bootstrap's.
 */
int l5_getsockopt(struct socket *sock, int level, int optname,
		  char __user *optval, int __user *optlen)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	struct socket *boot = l5->boot;

	if (level == SOL_L5) {
		l5_boot_label(l5);
		return l5_getsockopt_own(l5, optname, optval, optlen);
	}
	if (!boot->ops->getsockopt)
		return -EOPNOTSUPP;
	return boot->ops->getsockopt(boot, level, optname, optval, optlen);
}
