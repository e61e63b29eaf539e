// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the bootstrap socket, as it is made, watched and ended.
 *
 * The bootstrap is an ordinary TCP or AF_UNIX socket without a descriptor. It
 * shows its owner's file and inode number, by which firewalls, security modules
 * and people find the owner of the connection; see l5_boot_borrow(). It wakes
 * the same wait queue as its owner (sk_wq), so that a task that sleeps or polls
 * on the owner hears of both rings and bootstrap, and the bootstrap's own
 * blocking code works unchanged. Every call is simply passed on before it is
 * decided what carries the bytes, and for good if the bootstrap does. Once
 * rings carry the bytes the bootstrap still carries FIN and RST; hence errors,
 * names and shutdown states are TCP's own.
 *
 * Two of its callbacks are ours: sk_state_change enters a client into the
 * meeting, and sk_error_report shows errors where getsockopt(SO_ERROR) looks. A
 * listener's children copy its callbacks, and may end up with a listener that
 * is not ours; so each family has its own hooks for a listener, see tcp.c and
 * unix.c. All else that differs between the families is in the tables of
 * bootstrap.h.
 */
#include <linux/sctp.h>
#include <linux/security.h>
#include <linux/xattr.h>
#include <net/tcp.h>

#include "bootstrap.h"
#include "conn.h"
#include "cover.h"
#include "end.h"
#include "link.h"
#include "opts.h"
#include "rendezvous.h"
#include "state.h"

/**
 * l5_boot_label() - give a socket the class and label of its bootstrap
 * @l5: the socket
 *
 * SELinux marks a new socket by the family number given to socket(), after we
 * have made the socket, and does not know our number. Until this function is
 * called SELinux judges the socket as one of no known class, which may not be
 * bound to a port at all. It does not see all of connect() this way;
 * l5_boot_judge() shows it the rest.
 *
 * Context: any call on the socket but those that security modules judge by an
 * address, or where no other task has the socket.
 */
void l5_boot_label(struct l5_sock *l5)
{
	/* other modules label it right; their readers may hold no reference */
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
	return l5->bops->judge ? l5->bops->judge(l5, what, addr, len) : 0;
}

/* The callbacks as they were before; the same functions for all sockets. */
void (*l5_boot_wakeup)(struct sock *sk);
static void (*l5_boot_report)(struct sock *sk);

/**
 * l5_boot_error() - keep the owner's sk_err what the bootstrap's is
 * @l5: the socket
 *
 * getsockopt(SO_ERROR) reads and clears the owner's error, every other call the
 * bootstrap's: an error that one of them took the other must not give again.
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
		/* but not another error that came since */
		cmpxchg(&bsk->sk_err, l5->err_shown, 0);
		l5->err_shown = 0;
	} else if (!READ_ONCE(bsk->sk_err)) {
		cmpxchg(&l5->sk.sk_err, l5->err_shown, 0);
		l5->err_shown = 0;
	}
	spin_unlock_bh(&l5->err_lock);
}

/*
 * Has an administrator ended the connection (ss -K)? Nothing else in TCP gives
 * this error. The processes at the ends might ignore an end that they are only
 * told of.
 */
static void l5_boot_aborted(struct l5_sock *l5)
{
	if (READ_ONCE(l5->boot->sk->sk_err) == ECONNABORTED)
		l5_conn_revoke_later(l5->conn);
}

static void l5_boot_error_report(struct sock *bsk)
{
	bool cover = l5_cover_begin(sock_net(bsk));
	struct l5_sock *l5;

	read_lock_bh(&bsk->sk_callback_lock);
	l5 = l5_owner(bsk);
	if (l5) {
		if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING)
			l5_boot_aborted(l5);
		l5_boot_error(l5);
		if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING)
			l5_map_note(l5);
		/* the wait queue is shared, so this is the bootstrap's too */
		l5->sk.sk_error_report(&l5->sk);
	}
	read_unlock_bh(&bsk->sk_callback_lock);
	l5_cover_end(cover);
}

static void l5_boot_state_change(struct sock *bsk)
{
	bool cover = l5_cover_begin(sock_net(bsk));
	struct l5_sock *l5;

	read_lock_bh(&bsk->sk_callback_lock);
	l5 = l5_owner(bsk);
	if (l5) {
		if (l5->bops->events &&
		    READ_ONCE(bsk->sk_state) == TCP_ESTABLISHED &&
		    l5_state(l5) == L5_CONNECTING)
			l5_rdv_established(l5);
		if (READ_ONCE(bsk->sk_err))
			l5_boot_error(l5);
		if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING) {
			l5_link_boot_changed(l5);
			l5_map_note(l5);
		}
		l5->sk.sk_state_change(&l5->sk);
	}
	read_unlock_bh(&bsk->sk_callback_lock);
	l5_cover_end(cover);
}

/**
 * l5_boot_hook() - give a bootstrap our callbacks, or the kernel's own back
 * @bsk: the bootstrap
 * @ours: whether it gets ours
 *
 * Context: its sk_callback_lock held for writing.
 */
void l5_boot_hook(struct sock *bsk, bool ours)
{
	bsk->sk_state_change = ours ? l5_boot_state_change :
				      READ_ONCE(l5_boot_wakeup);
	bsk->sk_error_report = ours ? l5_boot_error_report :
				      READ_ONCE(l5_boot_report);
}

/**
 * l5_boot_attach() - join an owner and its bootstrap
 * @l5: the owner
 * @boot: the bootstrap
 * @sock: the socket that the application holds, or will
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
		/* a program put it into a sockmap: the child stays as it is */
		WRITE_ONCE(l5->nopair, L5_REASON_OPTION);
	}
	write_unlock_bh(&bsk->sk_callback_lock);
	/* F_SETFL marks the owner alone; the wait queue knows the files */
	sock_set_flag(bsk, SOCK_FASYNC);
	release_sock(bsk);
	if (l5->bops->attach)
		l5->bops->attach(l5);
}

/**
 * l5_boot_mode() - give a bootstrap its owner's mode, which fchmod() sets
 * @boot: the bootstrap
 * @sock: the socket that the application holds
 *
 * AF_UNIX makes the file of a listener with the mode of the socket.
 */
void l5_boot_mode(struct socket *boot, struct socket *sock)
{
	WRITE_ONCE(SOCK_INODE(boot)->i_mode,
		   READ_ONCE(SOCK_INODE(sock)->i_mode));
}

/**
 * l5_boot_lend() - have a bootstrap show its owner's file
 * @boot: the bootstrap, perhaps before it has its sock
 * @sock: the socket that the application holds, or will
 */
void l5_boot_lend(struct socket *boot, struct socket *sock)
{
	/* READ_ONCE() is in code that logs a packet, or judges a connection */
	WRITE_ONCE(boot->file, sock->file);
	l5_boot_mode(boot, sock);
	SOCK_INODE(boot)->i_ino = SOCK_INODE(sock)->i_ino;
	if (boot->sk)
		l5_sk_set_ino(boot->sk, SOCK_INODE(sock)->i_ino);
}

/**
 * l5_boot_borrow() - let the bootstrap show its owner's file
 * @l5: the socket
 *
 * Called before anything that gives the bootstrap a peer or a packet: in
 * socket() there is no file yet. No reference is taken, as the file's last
 * close closes the bootstrap first. A socket that the kernel made for itself
 * has no file to show.
 *
 * Context: a call on the socket.
 */
void l5_boot_borrow(struct l5_sock *l5)
{
	if (unlikely(!READ_ONCE(l5->boot->file)))
		WRITE_ONCE(l5->boot->file, l5->sk.sk_socket->file);
}

/**
 * l5_boot_end() - end a bootstrap
 * @boot: the bootstrap
 *
 * The family's part is released first: until then other code looks at the file.
 * sock_release() then calls release() a second time, and that does nothing; it
 * frees the inode only if the socket has no file.
 *
 * Context: may sleep, as close() of the bootstrap does with SO_LINGER.
 */
void l5_boot_end(struct socket *boot)
{
	boot->ops->release(boot);
	WRITE_ONCE(boot->file, NULL);
	sock_release(boot);
}

/*
 * What the kernel's own callbacks are, of which all sockets have the same. They
 * are there before a socket is, and written once: others look at them all the
 * time.
 */
static void l5_boot_learn(const struct sock *bsk)
{
	if (!READ_ONCE(l5_boot_wakeup))
		WRITE_ONCE(l5_boot_wakeup, bsk->sk_state_change);
	if (!READ_ONCE(l5_boot_report))
		WRITE_ONCE(l5_boot_report, bsk->sk_error_report);
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
	err = __sock_create(net, l5->bops->family, l5->sk.sk_type, 0,
			    &boot, kern);
	if (err)
		return err;
	l5_boot_learn(boot->sk);
	l5_boot_lend(boot, l5->sk.sk_socket);
	l5_boot_attach(l5, boot, l5->sk.sk_socket);
	if (l5->bops->create)
		l5->bops->create(l5);
	l5_opts_inherit(l5, l5);
	return 0;
}

/**
 * l5_boot_busy() - is a task in a call on a bootstrap?
 * @bsk: the bootstrap
 *
 * The task may be in the call for as long as it likes. A task that comes
 * between this look and the work that follows holds up a single worker.
 *
 * Context: process.
 */
bool l5_boot_busy(struct sock *bsk)
{
	bool busy;

	local_bh_disable();
	bh_lock_sock(bsk);
	busy = sock_owned_by_user(bsk);
	bh_unlock_sock(bsk);
	local_bh_enable();
	return busy;
}

/**
 * l5_boot_unread() - bytes that have come by TCP and are not read
 * @l5: a socket whose bootstrap is TCP
 *
 * Context: any.
 */
u32 l5_boot_unread(const struct l5_sock *l5)
{
	const struct tcp_sock *tp = tcp_sk(l5->boot->sk);

	return READ_ONCE(tp->rcv_nxt) - READ_ONCE(tp->copied_seq);
}

/**
 * l5_boot_readable() - is there anything to be read from TCP, or an end?
 * @l5: a socket that TCP carries so far
 * @seen: number of bytes that are there and do not count
 *
 * Return: whether there are more, or an end.
 */
bool l5_boot_readable(const struct l5_sock *l5, size_t seen)
{
	const struct sock *bsk = l5->boot->sk;

	return l5_boot_unread(l5) > seen ||
	       READ_ONCE(bsk->sk_err) || READ_ONCE(l5->sk.sk_err) ||
	       READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN ||
	       READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
	       sock_flag(bsk, SOCK_DONE);
}
