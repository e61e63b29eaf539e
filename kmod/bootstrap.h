/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The seam between a socket and its bootstrap: all that the core has to know of
 * the family that a connection begins in. tcp.c has the tables of TCP over IPv4
 * and IPv6, unix.c that of AF_UNIX; no other file asks for a family.
 */
#ifndef L5_BOOTSTRAP_H
#define L5_BOOTSTRAP_H

#include "l5.h"

/**
 * struct l5_files_ops - what a bootstrap does for records that something rides
 *	with, see files.c
 * @most: how long such a record of a stream may be. Context: any
 * @send: carry bytes and control messages for a record that is about to be
 *	published; l5_end.riding is set before anything is carried. Return: 0 or
 *	-errno
 * @recv: give a receiver bytes of a record, and what rides with it. Return: 0
 *	or -errno; -EAGAIN: the receive is to end before it
 * @room: is it worth while to send such a record? Context: any
 * @left: is anything carried that no receiver has had? Context: any
 * @end: the answer to a receive that finds no record: 0: the end; -EAGAIN:
 *	there is none, or an error
 */
struct l5_files_ops {
	size_t (*most)(const struct l5_sock *l5);
	int (*send)(struct l5_sock *l5, struct msghdr *msg,
		    struct iov_iter *from, size_t len, u64 pos);
	int (*recv)(struct l5_sock *l5, struct msghdr *msg,
		    const struct l5_cons *c, u32 part, int flags, bool *stop);
	bool (*room)(const struct l5_sock *l5);
	bool (*left)(const struct l5_sock *l5);
	int (*end)(struct l5_sock *l5);
};

/**
 * struct l5_boot_ops - a family of bootstraps
 * @name: in /proc/net/l5
 * @family: AF_*
 * @routed: the peer may be on another host
 * @resets: bytes sent to a peer that has closed are taken, and answered by a
 *	reset; a receiver of the reset is told of it before anything else. If
 *	not, such a send fails
 * @reverts: connect(AF_UNSPEC) and shutdown() make the bootstrap an unconnected
 *	socket again
 * @events: the bootstrap says by sk_state_change that a client is connected. If
 *	not, a client is connected once connect() returns
 * @counts: a receive may discard bytes and be told how many are left, and
 *	poll() minds SO_RCVLOWAT
 * @told: the kernel tells of the end of a socket that shows the family, and
 *	looks into the socket for that
 * @grows: buffers grow while nobody reads, so rings do, see grow.c
 * @whole: splice() into a pipe is a receive that waits by SPLICE_F_NONBLOCK
 * @packets: there are sockets of SOCK_SEQPACKET
 * @create: a bootstrap was made. Context: process
 * @judge: see l5_boot_judge()
 * @why_not: a reason of the family's own not to offer rings. Context: any
 * @attach: a socket and its bootstrap are joined. Context: process
 * @show: have the kernel take a socket for one of the family, see
 *	l5_opts_pull()
 * @destruct: undo @show
 * @listen: the bootstrap is about to listen, and its children are to be met.
 *	Context: process, l5_sock.lock held
 * @unlisten: the bootstrap no longer listens, or failed to. Context: process
 * @closing: the socket is being released: no other task is to end it as a
 *	listener. Context: process
 * @release: nothing of ours is to stay on the bootstrap. Context: process
 * @reset: have the bootstrap end in a way that the peer sees as an error.
 *	Context: process
 * @connecting: a client is about to connect. Context: process, l5_sock.lock
 * @connected: a client has connected. Context: process, l5_sock.lock
 * @accept_empty: is it certain that there is nothing to accept? Context: any
 * @accept: the meeting that comes with a child that is being accepted, or NULL.
 *	Context: process
 * @child_abort: end a child that will not be accepted, with an error, or NULL:
 *	it ends with the listener. Context: process, the listener not locked
 * @abort: end a connection as if the network had reset it, for both ends; the
 *	bootstrap may be a child that is not accepted yet. Never NULL. Context:
 *	process. Return: false if a process holds a lock that this needs, and
 *	nothing was done
 * @send_check: the answer that the bootstrap would give to a send that rings
 *	carry, before it looks at the bytes. Context: process
 * @pass_check: our answer to a send with control messages. Context: process
 * @files: how it carries what rides with records; NULL: it does not
 * @received: the bootstrap has brought a message. Context: process
 * @send_to_closed: see l5_send_to_closed()
 * @outq: bytes that SIOCOUTQ counts of a ring. Context: process
 * @gone: has the connection ended, so that there is nothing to map? Context:
 *	any
 * @opts_push: hand down options that are not in struct sock. Context: any, the
 *	bootstrap not locked
 * @opts_pull: show these options where getsockopt() looks. Context: process,
 *	both sockets locked
 * @opts_inherit: take over these options for an accepted socket. Context:
 *	process
 * @opt_noop: is an option to be accepted without any effect? Context: process
 * @setsockopt: set an option that the bootstrap is not to get as it is;
 *	-ENOIOCTLCMD: it is to get the option. Context: process
 * @names: show the two addresses. Context: process
 *
 * A function that is NULL does nothing, or answers 0 or false.
 */
struct l5_boot_ops {
	const char *name;
	int family;
	bool routed;
	bool resets;
	bool reverts;
	bool events;
	bool counts;
	bool told;
	bool grows;
	bool whole;
	bool packets;
	void (*create)(struct l5_sock *l5);
	int (*judge)(struct l5_sock *l5, int what, struct l5_sockaddr *addr,
		     int len);
	enum l5_reason (*why_not)(const struct l5_sock *l5);
	void (*attach)(struct l5_sock *l5);
	void (*show)(struct l5_sock *l5);
	void (*destruct)(struct l5_sock *l5);
	void (*listen)(struct l5_sock *l5);
	void (*unlisten)(struct l5_sock *l5);
	void (*closing)(struct l5_sock *l5);
	void (*release)(struct l5_sock *l5);
	void (*reset)(struct l5_sock *l5);
	void (*connecting)(struct l5_sock *l5);
	void (*connected)(struct l5_sock *l5);
	bool (*accept_empty)(const struct l5_sock *l5);
	struct l5_conn *(*accept)(struct l5_sock *listener, struct sock *child);
	void (*child_abort)(struct l5_sock *listener, struct sock *child,
			    int err);
	bool (*abort)(struct sock *bsk);
	int (*send_check)(struct l5_sock *l5, struct msghdr *msg);
	int (*pass_check)(struct l5_sock *l5, struct msghdr *msg);
	const struct l5_files_ops *files;
	void (*received)(struct l5_sock *l5, struct msghdr *msg);
	void (*send_to_closed)(struct l5_sock *l5);
	size_t (*outq)(struct l5_sock *l5);
	bool (*gone)(const struct l5_sock *l5);
	void (*opts_push)(struct l5_sock *l5);
	void (*opts_pull)(struct l5_sock *l5);
	void (*opts_inherit)(struct l5_sock *l5);
	bool (*opt_noop)(struct l5_sock *l5, int level, int optname,
			 sockptr_t optval, unsigned int optlen);
	int (*setsockopt)(struct l5_sock *l5, int level, int optname,
			  sockptr_t optval, unsigned int optlen);
	void (*names)(struct seq_file *seq, const struct sock *bsk);
};

extern void (*l5_boot_wakeup)(struct sock *sk);

void l5_boot_hook(struct sock *bsk, bool ours);
int l5_boot_create(struct l5_sock *l5, struct net *net, int kern);
void l5_boot_attach(struct l5_sock *l5, struct socket *boot,
		    struct socket *sock);
void l5_boot_mode(struct socket *boot, struct socket *sock);
void l5_boot_lend(struct socket *boot, struct socket *sock);
void l5_boot_borrow(struct l5_sock *l5);
void l5_boot_end(struct socket *boot);
void l5_boot_label(struct l5_sock *l5);
int l5_boot_judge(struct l5_sock *l5, int what, struct l5_sockaddr *addr,
		  int len);
void l5_boot_error(struct l5_sock *l5);
bool l5_boot_busy(struct sock *bsk);
u32 l5_boot_unread(const struct l5_sock *l5);
bool l5_boot_readable(const struct l5_sock *l5, size_t seen);

/**
 * l5_send_to_closed() - send a byte that a closed peer answers by a reset
 * @l5: a socket in state L5_RINGS
 *
 * The peer closed when a record had just been published. On TCP the answer to
 * such bytes is a reset, so send the peer a byte that asks for it.
 *
 * Context: may sleep.
 */
static inline void l5_send_to_closed(struct l5_sock *l5)
{
	if (l5->bops->send_to_closed &&
	    !test_bit(L5_END_KEPT, &l5_own(l5)->flags))
		l5->bops->send_to_closed(l5);
}

#endif /* L5_BOOTSTRAP_H */
