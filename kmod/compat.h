/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernels, all of them in this file.
 *
 * The version says nothing of a backport that a stable tree carries; then
 * Kbuild looks at the headers and defines L5_HAVE_*.
 */
#ifndef L5_COMPAT_H
#define L5_COMPAT_H

#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/skbuff.h>
#include <linux/sysctl.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <net/af_unix.h>
#include <net/inet_connection_sock.h>
#include <net/sock.h>
#if IS_ENABLED(CONFIG_INET_PSP)
#include <net/psp/types.h>
#endif

#define L5_KERNEL(a, b)	(LINUX_VERSION_CODE >= KERNEL_VERSION(a, b, 0))

/* locks of files have a header of their own since 6.3 */
#if L5_KERNEL(6, 3)
#include <linux/filelock.h>
#endif

/* options of TCP-AO, which came with 6.7 */
#if !L5_KERNEL(6, 7)
#define TCP_AO_ADD_KEY		38
#define TCP_AO_INFO		40
#endif

/* bind() and connect() take a type of their own in newer kernels */
#ifdef L5_HAVE_SOCKADDR_UNSIZED
#define l5_sockaddr	sockaddr_unsized
#else
#define l5_sockaddr	sockaddr
#endif

/*
 * The struct that AF_UNIX keeps in a message went to a header that modules do
 * not see. The layout is the kernel's, not ours to choose: selftests/kernels
 * compares the two. The struct's name counts where the layout is randomized.
 */
#ifndef UNIXCB
struct unix_skb_parms {
	struct pid		*pid;
	kuid_t			uid;
	kgid_t			gid;
	struct scm_fp_list	*fp;
#ifdef CONFIG_SECURITY_NETWORK
	u32			secid;
#endif
	u32			consumed;
} __randomize_layout;

#define UNIXCB(skb)	(*(struct unix_skb_parms *)&((skb)->cb))

/* still exported */
struct sock *unix_peer_get(struct sock *sk);
#endif

/* accept(): the arguments became a structure in 6.10 */
#if L5_KERNEL(6, 10)
#define L5_ACCEPT_ARGS		struct proto_accept_arg *arg
#define L5_ACCEPT_FLAGS		(arg->flags)
#define L5_ACCEPT_PASS		arg
#else
#define L5_ACCEPT_ARGS		int flags, bool kern
#define L5_ACCEPT_FLAGS		(flags)
#define L5_ACCEPT_PASS		flags, kern
#endif

/* making a listener's child takes one more argument in some stable trees */
#ifdef L5_HAVE_CHILD_INIT
#define L5_OWN_ARGS		bool *own,				\
				void (*init)(struct sock *newsk,	\
					     const struct sock *sk)
#define L5_OWN_PASS		own, init
#else
#define L5_OWN_ARGS		bool *own
#define L5_OWN_PASS		own
#endif

/*
 * How often a connection was given up by connect(AF_UNSPEC): by that TCP finds
 * out which tasks slept meanwhile. Since 6.6, and in stable trees.
 */
#ifdef L5_HAVE_DISCONNECTS
#define l5_disconnects(sk)	READ_ONCE((sk)->sk_disconnects)
#else
#define l5_disconnects(sk)	0
#endif

/* until 6.5 splicing was sendpage() and a splice_read() of each family */
#define L5_OLD_SPLICE		(!L5_KERNEL(6, 5))

/* the directions of an iterator had other names until 6.2 */
#ifdef ITER_SOURCE
#define L5_ITER_SOURCE		ITER_SOURCE
#define L5_ITER_DEST		ITER_DEST
#else
#define L5_ITER_SOURCE		WRITE
#define L5_ITER_DEST		READ
#endif

/*
 * SO_PASSCRED and similar options were flags of the socket until 6.15. Since
 * then they share a byte with an option of TCP. SO_PASSRIGHTS, which is set
 * from the start, is in that byte as well.
 */
#ifdef SOCK_PASSCRED
#ifdef SOCK_PASSPIDFD
#define L5_PASS_FLAGS							\
	(BIT(SOCK_PASSCRED) | BIT(SOCK_PASSSEC) | BIT(SOCK_PASSPIDFD))
#else
#define L5_PASS_FLAGS		(BIT(SOCK_PASSCRED) | BIT(SOCK_PASSSEC))
#endif

static inline void l5_pass_copy(struct socket *to, const struct socket *from)
{
	set_mask_bits(&to->flags, L5_PASS_FLAGS,
		      READ_ONCE(from->flags) & L5_PASS_FLAGS);
}

/* Does a receiver of AF_UNIX ask for the sender's credentials? */
static inline bool l5_pass_sender(const struct socket *sock)
{
	return READ_ONCE(sock->flags) & L5_PASS_FLAGS;
}

/* By SO_PASSCRED? */
static inline bool l5_pass_creds(const struct socket *sock)
{
	return test_bit(SOCK_PASSCRED, &sock->flags);
}
#else
static inline void l5_pass_copy(struct socket *to, const struct socket *from)
{
	WRITE_ONCE(to->sk->sk_scm_recv_flags,
		   READ_ONCE(from->sk->sk_scm_recv_flags));
}

static inline bool l5_pass_sender(const struct socket *sock)
{
	const struct sock *sk = sock->sk;

	return sk->sk_scm_credentials || sk->sk_scm_security ||
	       sk->sk_scm_pidfd;
}

static inline bool l5_pass_creds(const struct socket *sock)
{
	return sock->sk->sk_scm_credentials;
}
#endif

#if L5_KERNEL(6, 16)
#define l5_from_timer(var, t, field)	timer_container_of(var, t, field)
#else
#define l5_from_timer(var, t, field)	from_timer(var, t, field)
#endif

/* ask for the options of SOL_SOCKET; the kernel sets some without a lock */
static inline void l5_custom_sockopt(struct socket *sock)
{
#ifdef L5_HAVE_CUSTOM_SOCKOPT
	set_bit(SOCK_CUSTOM_SOCKOPT, &sock->flags);
#endif
}

/* a flag that says again that sk_tsflags is not 0 */
#ifdef L5_HAVE_TIMESTAMPING_ANY
#define L5_STAMPING_ANY		BIT(SOCK_TIMESTAMPING_ANY)
#else
#define L5_STAMPING_ANY		0
#endif

/* io_uring asks struct proto how many bytes there are, since 6.7 */
#define L5_PROTO_IOCTL		L5_KERNEL(6, 7)

/* where an IPv6 socket has its own part; before, the end of it was taken */
#ifdef L5_HAVE_PINFO_OFFSET
#define L5_PINFO_OFFSET(n)	.ipv6_pinfo_offset = (n),
#else
#define L5_PINFO_OFFSET(n)
#endif

/* TCP's keepalive timer, and whose it is */
#ifdef L5_HAVE_KEEPALIVE_TIMER
static inline struct timer_list *l5_keepalive_timer(struct sock *sk)
{
	return &inet_csk(sk)->icsk_keepalive_timer;
}

static inline struct sock *l5_keepalive_sock(struct timer_list *t)
{
	struct inet_connection_sock *icsk =
		l5_from_timer(icsk, t, icsk_keepalive_timer);

	return &icsk->icsk_inet.sk;
}
#else
static inline struct timer_list *l5_keepalive_timer(struct sock *sk)
{
	return &sk->sk_timer;
}

static inline struct sock *l5_keepalive_sock(struct timer_list *t)
{
	struct sock *sk = l5_from_timer(sk, t, sk_timer);

	return sk;
}
#endif

/* stop a timer, without waiting for a handler that runs */
static inline void l5_timer_cancel(struct timer_list *t)
{
#if L5_KERNEL(6, 2)
	timer_delete(t);
#else
	del_timer(t);
#endif
}

/* stop a timer, and wait for a handler that runs */
static inline void l5_timer_stop(struct timer_list *t)
{
#if L5_KERNEL(6, 2)
	timer_delete_sync(t);
#else
	del_timer_sync(t);
#endif
}

/* the empty entry that ends a sysctl table went away in 6.11 */
#if L5_KERNEL(6, 11)
#define L5_SYSCTL_END
#else
#define L5_SYSCTL_END	{ }
#endif

/* handlers cannot change the table they are called for since 6.11 */
#if L5_KERNEL(6, 11)
#define L5_CTL_CONST		const
#else
#define L5_CTL_CONST
#endif

/* a reference to a memory cgroup that is known to be there, or NULL */
static inline struct mem_cgroup *l5_memcg_get(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (memcg && !css_tryget(&memcg->css))
		return NULL;
#endif
	return memcg;
}

/* charge a socket to no cgroup; newer kernels have flags in the low bits */
static inline void l5_memcg_drop(struct sock *sk)
{
#ifdef CONFIG_MEMCG
	unsigned long memcg = (unsigned long)sk->sk_memcg & ~3UL;

	sk->sk_memcg = NULL;
	if (memcg)
		css_put(&((struct mem_cgroup *)memcg)->css);
#endif
}

/* the kernel looks here for the number of a socket's inode since 6.17 */
static inline void l5_sk_set_ino(struct sock *sk, u64 ino)
{
#if L5_KERNEL(6, 17)
	WRITE_ONCE(sk->sk_ino, ino);
#endif
}

/* the user that a socket belongs to */
static inline kuid_t l5_sk_uid(struct sock *sk)
{
#if L5_KERNEL(6, 17)
	return sk_uid(sk);
#else
	return sock_i_uid(sk);
#endif
}

/* Does poll() only ask? poll_does_not_wait() is gone in newer kernels. */
static inline bool l5_poll_asks(const poll_table *wait)
{
	return !wait || !wait->_qproc;
}

/* SO_DEVMEM_DONTNEED looks here since 6.12 */
static inline void l5_user_frags_init(struct sock *sk)
{
#if L5_KERNEL(6, 12)
	xa_init_flags(&sk->sk_user_frags, XA_FLAGS_ALLOC1);
#endif
}

/*
 * PSP, since 6.18, is given a descriptor of the TCP socket to encrypt, and
 * takes any socket that looks like one. It leaves alone a socket that has keys
 * already: these keys are of no device.
 */
#if IS_ENABLED(CONFIG_INET_PSP)
static inline void l5_psp_refuse(struct sock *sk)
{
	static struct psp_assoc none;

	RCU_INIT_POINTER(sk->psp_assoc, &none);
}
#else
static inline void l5_psp_refuse(struct sock *sk) { }
#endif

/* a notification of MSG_ZEROCOPY; since 6.16 memory can be a device's */
static inline struct ubuf_info *l5_zerocopy_alloc(struct sock *sk, size_t len)
{
#if L5_KERNEL(6, 16)
	return msg_zerocopy_realloc(sk, len, NULL, false);
#else
	return msg_zerocopy_realloc(sk, len, NULL);
#endif
}

static inline struct ctl_table_header *
l5_sysctl_register(struct net *net, const char *path, struct ctl_table *table,
		   size_t entries)
{
#if L5_KERNEL(6, 6)
	return register_net_sysctl_sz(net, path, table, entries);
#else
	return register_net_sysctl(net, path, table);
#endif
}

static inline void l5_vm_flags(struct vm_area_struct *vma, unsigned long set,
			       unsigned long clear)
{
#if L5_KERNEL(6, 3)
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/* Does an epoll set watch it? */
static inline bool l5_file_watched(struct file *file)
{
#ifdef CONFIG_EPOLL
	return READ_ONCE(file->f_ep);
#else
	return false;
#endif
}

/* take a reference to a file that may be about to go; its memory is there */
static inline bool l5_file_get(struct file *file)
{
#if L5_KERNEL(6, 13)
	return file_ref_get(&file->f_ref);
#else
	return atomic_long_inc_not_zero(&file->f_count);
#endif
}

/* fields that all kinds of locks have became a struct of their own in 6.9 */
#if L5_KERNEL(6, 9)
#define l5_lock_core(fl, field)		((fl)->c.flc_##field)
#define l5_for_each_lock(fl, head)					\
	list_for_each_entry(fl, head, c.flc_list)
#else
#define l5_lock_core(fl, field)		((fl)->fl_##field)
#define l5_for_each_lock(fl, head)	list_for_each_entry(fl, head, fl_list)
#endif

static inline struct file *l5_lock_file(struct file_lock *fl)
{
	return l5_lock_core(fl, file);
}

static inline fl_owner_t l5_lock_owner(struct file_lock *fl)
{
	return l5_lock_core(fl, owner);
}

/* a lock of this process, to read the last byte that a file can have */
static inline void l5_lock_init(struct file_lock *fl, struct file *file,
				const struct file_lock_operations *ops)
{
	locks_init_lock(fl);
	l5_lock_core(fl, flags) = FL_POSIX;
	l5_lock_core(fl, type) = F_RDLCK;
	l5_lock_core(fl, owner) = current->files;
	l5_lock_core(fl, pid) = current->tgid;
	l5_lock_core(fl, file) = file;
	fl->fl_start = OFFSET_MAX;
	fl->fl_end = OFFSET_MAX;
	fl->fl_ops = ops;
}

#endif /* L5_COMPAT_H */
