// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: setsockopt() and getsockopt(): options of the module's own, and those
 * that the bootstrap is to have.
 */
#include <linux/bpf-cgroup.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "bootstrap.h"
#include "connect.h"
#include "link.h"
#include "opts.h"
#include "ring.h"
#include "sockopt.h"
#include "spill.h"
#include "state.h"
#include "transport.h"

/* Options that only the bootstrap can honour: with one no rings are wanted. */
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
 * Options that say how the packets of a connection are to be signed or
 * encrypted. RDMA does neither; in memory of one host there are no packets.
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
 * A longer value may be of a later version: all its bytes beyond those known
 * here have to be zero.
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
		WRITE_ONCE(l5->remote_wait, val);
		return 0;
	}
	if (optname == L5_RDMA ? val < -1 || val > 1 :
				 val < 0 || val >= L5_TRANSPORT_MAX)
		return -EINVAL;
	if (mutex_lock_killable(&l5->lock))
		return -EINTR;
	if (l5_state(l5) != L5_IDLE)
		err = -EISCONN;
	else if (optname == L5_RDMA)
		WRITE_ONCE(l5->remote_want, val);
	else
		WRITE_ONCE(l5->force, val);
	mutex_unlock(&l5->lock);
	return err;
}

/* Options of SOL_SOCKET by which programs judge or steer packets. */
static bool l5_opt_filters(int optname)
{
	switch (optname) {
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
	case SO_DETACH_FILTER:
	case SO_LOCK_FILTER:
	case SO_ATTACH_REUSEPORT_CBPF:
	case SO_ATTACH_REUSEPORT_EBPF:
	case SO_DETACH_REUSEPORT_BPF:
		return true;
	default:
		return false;
	}
}

/*
 * SOL_L5_SOCKET is for options that the kernel takes on the owner, where they
 * would mean nothing, or refuses there. It is for no others, since a program
 * that judges options knows those by the level SOL_SOCKET.
 */
static int l5_opt_allowed(int optname)
{
	if (optname != SO_PEEK_OFF && !l5_opt_filters(optname))
		return -ENOPROTOOPT;
#ifdef CONFIG_CGROUP_BPF
	if (cgroup_bpf_enabled(CGROUP_SETSOCKOPT))
		return -EPERM;
#endif
	return 0;
}

static int l5_opt_boot(struct l5_sock *l5, int level, int optname,
		       sockptr_t optval, unsigned int optlen)
{
	int err = -ENOIOCTLCMD;

	if (l5->bops->setsockopt)
		err = l5->bops->setsockopt(l5, level, optname, optval, optlen);
	if (err != -ENOIOCTLCMD)
		return err;
	return l5->boot->ops->setsockopt(l5->boot, level, optname, optval,
					 optlen);
}

/**
 * l5_setsockopt() - set an option, the module's own or the bootstrap's
 * @sock: the socket
 * @level: of the option; SOL_SOCKET comes here in newer kernels only: in others
 *	it is the kernel's, and l5_opts_changed() hears of it
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
	bool base, guards, early = false;
	int err = 0;

	if (level == SOL_L5) {
		l5_boot_label(l5);
		return l5_setsockopt_own(l5, optname, optval, optlen);
	}
	/* where the kernel asks for these they are the bootstrap's at once */
	if (level == SOL_SOCKET && !l5_opt_filters(optname)) {
		err = sock_setsockopt(sock, level, optname, optval, optlen);
		l5_opts_push(l5);
		return err;
	}
	if (level == SOL_L5_SOCKET) {
		err = l5_opt_allowed(optname);
		if (err)
			return err;
		level = SOL_SOCKET;
	} else if (level != SOL_SOCKET && !l5->boot->ops->setsockopt) {
		return -EOPNOTSUPP;
	}
	if (l5->bops->opt_noop &&
	    l5->bops->opt_noop(l5, level, optname, optval, optlen))
		return 0;

	base = l5_opt_needs_base(level, optname);
	guards = l5_opt_guards(level, optname);
	if (base) {
		early = l5_early_begin(l5, L5_REASON_OPTION);
		if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING)
			err = -EOPNOTSUPP;
	}
	if (!err && (base || guards))
		err = l5_remote_stop(l5, base ? L5_REASON_OPTION :
					      L5_REASON_SECURED);
	if (err)
		goto out;
	/* TCP_REPAIR connects, and SO_REUSEPORT is to be known before that */
	l5_boot_borrow(l5);
	l5_opts_push(l5);
	if (level == SOL_SOCKET)
		err = sock_setsockopt(l5->boot, level, optname, optval, optlen);
	else
		err = l5_opt_boot(l5, level, optname, optval, optlen);
	if (!err && base)
		WRITE_ONCE(l5->nopair, L5_REASON_OPTION);
	/* a client that connected meanwhile was judged, or is stopped now */
	if (!err && guards)
		err = l5_remote_stop(l5, L5_REASON_SECURED);
	/* IP_TOS sets SO_PRIORITY */
	if (!err)
		l5_opts_pull(l5);
out:
	if (early)
		l5_early_end(l5);
	return err;
}

static int l5_transport(const struct l5_sock *l5)
{
	switch (l5_state(l5)) {
	case L5_BASE:
	case L5_MOVING:
		return L5_TRANSPORT_BASE;
	case L5_RINGS:
		return l5->conn->link->transport;
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
	info->tx_size = READ_ONCE(own->size);
	info->rx_size = l5_ring_wire(peer);
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
		info.transport = READ_ONCE(l5->remote_want);
		break;
	case L5_RDMA_WAIT:
		info.transport = READ_ONCE(l5->remote_wait);
		break;
	case L5_RDMA_INFO:
		l5_remote_get_info(l5, &rdma);
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
 * @optval: where the value goes
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
