/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_L5 inside the module: the objects, who owns them, which lock guards what.
 *
 * Objects
 *
 *   l5_sock   the socket an application holds. It owns one bootstrap socket
 *             (TCP or AF_UNIX) from its creation to its release. Freed after
 *             an RCU grace period, since a peer wakes it without a reference.
 *             The bootstrap borrows its owner's file, without a reference: it
 *             has one from l5_boot_borrow() until it is closed, and that is
 *             within the last close of the file.
 *   l5_conn   one meeting of two ends: made by connect(), before the first
 *             packet leaves, in the task that is charged for it. Holds both
 *             rings. Referenced by the client's l5_sock and, once paired, by
 *             the listener's pending list and then the accepted l5_sock.
 *             Its memory goes with the last reference, an RCU grace period
 *             later. What is mapped or pinned keeps its pages by itself.
 *   l5_mapper what one process has mapped of one end. Lives as long as its
 *             mappings do, references the l5_conn and not the socket. Its end
 *             tells that the process will not give back a lock word.
 *   a watch   a lock of fcntl()'s kind on the socket's inode. It ends while a
 *             descriptor is being closed, so before the file, and before the
 *             l5_sock: it needs no reference, see watch.c.
 *   l5_view   the file behind vmas, of a mapper or a mailbox, by which their
 *             pages can be taken back.
 *
 * Lifetimes: l5_sock.conn changes only while the state is IDLE, CONNECTING or
 * BASE and stays for life once the state is MOVING or SHM, so who reads one of
 * these (acquire) may use it until the release of the socket, which no system
 * call outlives.
 *
 * RDMA has objects and locks of its own, see rdma.h.
 *
 * Lock order, outer to inner
 *
 *   l5_revoke_lock (mutex)    a round of revoking
 *   l5_sock.lock (mutex)      connect, listen, disconnect of one socket
 *   l5_sock.tx_lock, rx_lock  (mutexes, never both) cursors of one direction,
 *                             together with the lock word in the control page,
 *                             which is only ever tried while they are held. A
 *                             holder may fault, for as long as whoever serves
 *                             the fault likes: so no wait for them is without
 *                             a time-out or deaf to signals, see lock.c, and
 *                             poll() does not take them
 *   mmap_lock                 a copy may fault; mmap() of the rings holds it
 *   l5_end.fill_lock          (mutex) pages of a ring; the client's, then the
 *                             server's
 *   l5_end.map_lock           (mutex) who has this end mapped; a fault there
 *                             takes it. l5_mailbox.map_lock likewise.
 *   i_mmap_rwsem of a view    its vmas
 *   lock_sock(l5_sock)        its SOL_SOCKET options
 *   lock_sock(bootstrap)      its own business; held where a client enters a
 *                             meeting, so also where it gives connecting up
 *   boot->sk_callback_lock    bootstrap to l5_sock pointer
 *   meet bucket (spin, bh)    the table of open meetings; who takes one out of
 *                             it decides its outcome
 *   l5_sock.pending_lock      (spin, bh) a listener's decided, unaccepted ones
 *   l5_users_lock             (spin, bh) the table of users' accounts
 *
 * AF_UNIX's own locks, and what is ours beside them: see unix.c.
 *
 * The softirq that completes a handshake holds the bootstrap's spinlock and
 * takes the last three. No lock of these is held across a sleep but the
 * mutexes, and none of them while waiting for a peer.
 */
#ifndef L5_H
#define L5_H

#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/ipv6.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/refcount.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <net/af_unix.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "../uapi/l5.h"
#include "../uapi/l5_ring.h"
#include "areas.h"
#include "compat.h"

/* How many there are: not for programs, since there may be more one day. */
#define L5PROTO_MAX		(L5PROTO_UNIX + 1)
#define L5_TRANSPORT_MAX	(L5_TRANSPORT_RDMA + 1)
#define L5_REASON_COUNT(code, name, text)	+ 1
#define L5_REASON_MAX		(0 L5_REASONS(L5_REASON_COUNT))

/* A region of a mapping is pages, and a ring is one of them at least. */
#define L5_RING_LEAST	((u32)(PAGE_SIZE > L5_RING_MIN ? PAGE_SIZE : \
			       L5_RING_MIN))

struct l5_rdma;
struct l5_hope;
struct l5_door;
struct l5_mailbox;
struct l5_poller;

/* Of a header word, or the word after a record, sent as L5_NOTIFY_ONE. */
#define L5_REC_LATE	(0x40000000ULL << 32)
#define L5_REC_STAMP	(0x7fffffffULL << 32)

/* What such a word has at a position, beside the header's own bits. */
static inline u64 l5_late_stamp(u64 key, u64 pos)
{
	return L5_REC_LATE | (u64)hash_64(key ^ pos, 30) << 32;
}

/* What a socket is. l5_set_state() alone changes it. */
enum l5_state {
	L5_IDLE,	/* fresh, bound, or disconnected */
	L5_LISTEN,
	L5_CONNECTING,	/* until it is decided what carries the bytes */
	L5_BASE,	/* the bootstrap socket does */
	L5_MOVING,	/* it does until what it has is read; see move.c */
	L5_SHM,		/* rings do, the bootstrap socket carries FIN and RST */
	L5_STATE_MAX
};

/* Has a client to meet a child that is made of its first bytes? */
enum l5_lateness {
	L5_LATE_NOT,
	L5_LATE_OPEN,	/* yes, and it has not sent them */
	L5_LATE_SENT,	/* yes, and they are on their way */
};

/**
 * struct l5_acct - memory charged to a network namespace
 * @ref: the namespace's and one for each payer, which may outlive it
 * @max_kb: net.l5.mem_max_kb
 * @reserved: pages granted to connections, never more than @max_kb
 * @pages: pages really allocated
 * @pairs: paired connections
 */
struct l5_acct {
	refcount_t ref;
	unsigned long max_kb;
	atomic_long_t reserved;
	atomic_long_t pages;
	atomic_long_t pairs;
};

/**
 * struct l5_tag - begins whatever AF_L5 hangs off a socket's sk_user_data
 * @kind: the address of one of the objects below
 *
 * Others hang things there, too (sockmap, for one), and a clone of a socket
 * copies the pointer. So nothing found there is used before its flags and its
 * tag have said that it is ours and which it is, and clones get none.
 */
struct l5_tag {
	const void *kind;
};

extern const char l5_tag_owner;		/* l5_sock, of its bootstrap */
extern const char l5_tag_conn;		/* l5_conn, of a child that waits */

/**
 * struct l5_payer - who pays for memory, see acct.c
 * @acct: the network namespace; NULL: nobody, so far
 * @user: the user, NULL if it is not bounded as one
 * @memcg: the memory cgroup, or NULL
 */
struct l5_payer {
	struct l5_acct *acct;
	struct l5_user *user;
	struct mem_cgroup *memcg;
};

/* Bytes of a mailbox: a page of them */
#define L5_MAILBOX_SIZE	PAGE_SIZE

/* Pages that a view may need once its own were taken back */
#define L5_SCRATCH_PAGES	3

/**
 * struct l5_view - a file behind vmas, whose pages can be taken out of them
 * @file: the file
 * @mapping: that finds its vmas
 * @scratch: what a fault gets after that, allocated when first needed
 * @node: in the list of who takes back
 */
struct l5_view {
	struct file *file;
	struct address_space mapping;
	struct page *scratch[L5_SCRATCH_PAGES];
	struct list_head node;
};

/* Bits of l5_end.flags */
#define L5_END_FIN	0	/* sends no more */
#define L5_END_CLOSED	1	/* what is sent to it is answered by a reset */
#define L5_END_DEAF	2	/* shut down for reading */
#define L5_END_MAPPED	3	/* a process has mapped it, now or before */
#define L5_END_BROKEN	4	/* the other end, or a sharer, broke rules */
#define L5_END_REVOKED	5	/* what is in the rings may be half written */
#define L5_END_CUT	6	/* sends no more, by an administrator's word */
#define L5_END_TOLD	7	/* a call has had the reset */

/**
 * struct l5_end - one end of a connection: what it writes, what it has read
 * @sk: the l5_sock holding this end, NULL before accept() and after release
 * @flags: L5_END_*, set by this end, read by the other
 * @payer: who pays for what this end writes; from the meeting to accept() the
 *	server's is who listens. Under @fill_lock
 * @ctrl: control page, see l5_ring.h
 * @size: of the ring this end writes
 * @pages: of that ring by position, NULL where nothing is
 * @first: number of the first page there, counted from position 0
 * @next: number after the last page there
 * @npages: pages the ring owns
 * @granted: pages it may own without asking
 * @lent: of these, that the other end's payer was granted when it mapped them
 * @lent_pages: of @npages, that it pays for
 * @late_key: not 0: written by another host, with L5_NOTIFY_ONE
 * @starved: not 0: no memory until the reader is in this page; see pages.c
 * @fill_lock: guards @pages and the numbers above against the other end, which
 *	may want the whole ring to map it
 * @state: what its processes see of this end's state, NULL if never mapped
 * @mappers: processes that have it mapped, under @map_lock
 * @revoked: none of them is to have its pages any more, under @map_lock
 * @map_lock: see the top of this file
 * @last_id: number of the last one of them
 * @lock_wait: who sleeps for a lock word
 * @prod: cursors as loaded from @ctrl, under the l5_sock's tx_lock
 * @tx_bytes: payload written by system calls, under tx_lock
 * @cons: cursors into the other end's ring, likewise, under rx_lock
 * @rx_bytes: payload read by system calls, under rx_lock
 */
struct l5_end {
	struct sock __rcu *sk;
	unsigned long flags;
	struct l5_payer payer;
	struct l5_ctrl *ctrl;
	u32 size;
	struct page **pages;
	u64 first;
	u64 next;
	u64 starved;
	u32 npages;
	u32 granted;
	u32 lent;
	u32 lent_pages;
	u64 late_key;
	struct mutex fill_lock;
	struct l5_map_state *state;
	struct list_head mappers;
	bool revoked;
	struct mutex map_lock;
	u32 last_id;
	wait_queue_head_t lock_wait;
	struct l5_prod prod ____cacheline_aligned_in_smp;
	u64 tx_bytes;
	struct l5_cons cons ____cacheline_aligned_in_smp;
	u64 rx_bytes;
};

/* The connecting end's index in l5_conn.end, and the accepting one's. */
#define L5_CLIENT	0
#define L5_SERVER	1

/**
 * struct l5_conn - a meeting of two ends, and their rings once they have met
 * @ref: see the top of this file
 * @hash: in the table while the outcome is open; under the bucket lock
 * @key: what the other end will look for, see meet.c
 * @client: the connecting socket; valid while hashed
 * @timer: ends the wait, in slices
 * @slice: of the wait, jiffies
 * @slices: that are left of it
 * @tag: what @child leads here by
 * @listener: which listener's child met it; valid under RCU while pending
 * @pending: in that one's list until accepted
 * @child: the bootstrap socket accept() will return; while pending
 * @reason: why not paired, if not
 * @paired: the outcome, valid once unhashed
 * @twice: bytes that the client sends by TCP as well, see defer.c; those that
 *	TCP brought with the child, and no more, if @paired
 * @end: the two ends
 * @wish: sizes for the rings that the end here writes and reads, of RDMA
 * @rdma: what keeps the rings like those of another host, NULL if both ends are
 *	here; set before the state of a socket says that there are rings
 * @revoke: see l5_map_revoke_later(); has a reference while it is queued
 * @rcu: delays the end
 */
struct l5_conn {
	refcount_t ref;
	struct hlist_node hash;
	u64 key;
	struct l5_sock *client;
	struct timer_list timer;
	unsigned long slice;
	unsigned int slices;
	struct l5_tag tag;
	struct l5_sock *listener;
	struct list_head pending;
	struct sock *child;
	enum l5_reason reason;
	bool paired;
	u32 twice;
	struct l5_end end[2];
	u32 wish[2];
	struct l5_rdma *rdma;
	struct work_struct revoke;
	struct rcu_head rcu;
};

/**
 * struct l5_opts - options of SOL_SOCKET and fchown(), as l5_opts_push() handed
 *	them down
 *
 * The fields of struct sock that they set, by the same names.
 */
struct l5_opts {
	unsigned long flags;
	unsigned long linger;
	unsigned long pacing;
	long sndtimeo;
	long rcvtimeo;
	int sndbuf;
	int rcvbuf;
	int dev;
	u32 priority;
	u32 mark;
	u32 ll_usec;
	kuid_t uid;
	u8 reuse;
	u8 reuseport;
	u8 userlocks;
};

/**
 * struct l5_sock - an AF_L5 socket
 * @sk: generic part, first; its lock guards options only; its sk_node is in
 *	the namespace's list of sockets, so that it is hashed, as its kernel
 *	sees it, and in no group of SO_REUSEPORT: it takes no program for one
 * @tcp: what the kernel takes @sk for, by the family and protocol that it
 *	shows, see l5_sock_show(); zeroes but for @sk and the way to @tcp.inet6
 * @un: the same of one over AF_UNIX
 * @owner: what @boot leads here by
 * @ln: its namespace's part of the module
 * @boot: bootstrap socket
 * @state: &enum l5_state, read with l5_state()
 * @reason: why the state is L5_BASE
 * @proto: L5PROTO_*
 * @end: index of this socket's end in @conn
 * @force: &enum l5_transport asked for by L5_FORCE
 * @nopair: reason not to offer rings at all, L5_REASON_NONE if there is none
 * @why: reason why the present connect() offers none, likewise
 * @spin_us: option L5_SPIN_US
 * @err_shown: the bootstrap's error as copied to @sk, under @err_lock
 * @spin_win: ns that spinning is worth at present, see l5_spun()
 * @polled: when a poll found nothing, 0 if none did since
 * @poll_task: that poll's task, only ever compared
 * @poll_slept: how often that task had slept by then
 * @got_head: own rx_head when a system call last received, see l5_awaits()
 * @got_tail: own tx_tail then
 * @opts: what the bootstrap was told, under its lock
 * @err_lock: see l5_boot_error()
 * @closing: a listener that takes no more meetings; under @pending_lock
 * @late: &enum l5_lateness, under the bucket lock of its meeting
 * @inq: option TCP_INQ is set
 * @conn: see the top of this file
 * @rd: what may come of RDMA, NULL as long as there is no question; for life
 * @hope: of an accepted one that may be asked, see hope.c; for life
 * @payer: of a listener: who pays for connections that wait for accept();
 *	for life once it is there
 * @door: of a listener that answers for RDMA
 * @mailbox: of a listener whose mailbox was mapped
 * @rdma_want: option L5_RDMA
 * @rdma_wait: option L5_RDMA_WAIT
 * @lock: serialises connect, listen and disconnect
 * @tx_lock: serialises senders
 * @rx_lock: serialises receivers
 * @pending: paired connections that wait for accept()
 * @pending_lock: guards @pending, @closing
 * @listened: does what is due once a listener's bootstrap is none any more
 * @revoked: number of the last round of revoking that looked at it, under the
 *	lock of the namespace's list
 * @taken: messages in an AF_UNIX bootstrap's queue that have lost descriptors;
 *	under AF_UNIX's state lock
 * @unix_node: in the table of AF_UNIX listeners, see unix.c
 * @unix_addr: key there, NULL if it is not in it
 */
struct l5_sock {
	union {
		struct sock sk;
		struct tcp6_sock tcp;
		struct unix_sock un;
	};
	struct l5_tag owner;
	struct l5_net *ln;
	struct socket *boot;
	int state;
	u8 reason;
	u8 proto;
	u8 end;
	u8 force;
	u8 nopair;
	u8 why;
	bool closing;
	u8 late;
	bool inq;
	int spin_us;
	int err_shown;
	u64 spin_win;
	u64 polled;
	const void *poll_task;
	unsigned long poll_slept;
	u64 got_head;
	u64 got_tail;
	struct l5_opts opts;
	spinlock_t err_lock;
	struct l5_conn *conn;
	struct l5_rdma *rd;
	struct l5_hope *hope;
	struct l5_payer payer;
	struct l5_door *door;
	struct l5_mailbox *mailbox;
	int rdma_want;
	int rdma_wait;
	struct mutex lock;
	struct mutex tx_lock;
	struct mutex rx_lock;
	struct list_head pending;
	spinlock_t pending_lock;
	struct delayed_work listened;
	u32 revoked;
	unsigned int taken;
	struct rhash_head unix_node;
	const void *unix_addr;
};

static inline struct l5_sock *l5_sk(const struct sock *sk)
{
	return (struct l5_sock *)sk;
}

/* H, pairs with I in l5_set_state(): who sees SHM sees the connection */
static inline int l5_state(const struct l5_sock *l5)
{
	return smp_load_acquire(&l5->state);
}

/* Hang what @tag begins off a socket; no clone of the socket has it. */
static inline void l5_tag_set(struct sock *sk, struct l5_tag *tag)
{
	__rcu_assign_sk_user_data_with_flags(sk, tag, SK_USER_DATA_NOCOPY);
}

/*
 * What hangs there, if it is of the kind asked for, or NULL. Under RCU, or a
 * lock that keeps it there.
 */
static inline struct l5_tag *l5_tag_get(const struct sock *sk, const void *kind)
{
	uintptr_t data = (uintptr_t)READ_ONCE(sk->sk_user_data);
	struct l5_tag *tag = (void *)(data & SK_USER_DATA_PTRMASK);

	if ((data & ~SK_USER_DATA_PTRMASK) != SK_USER_DATA_NOCOPY || !tag ||
	    READ_ONCE(tag->kind) != kind)
		return NULL;
	return tag;
}

/* Is it a client that met nobody, and waits for nobody, before it has sent? */
static inline bool l5_deferred(const struct l5_sock *l5)
{
	/* AM */
	return smp_load_acquire(&l5->late) == L5_LATE_OPEN;
}

/* Whose bootstrap a socket is, NULL if nobody's. Context as l5_tag_get(). */
static inline struct l5_sock *l5_owner(const struct sock *bsk)
{
	struct l5_tag *tag = l5_tag_get(bsk, &l5_tag_owner);

	return tag ? container_of(tag, struct l5_sock, owner) : NULL;
}

static inline struct l5_end *l5_own(const struct l5_sock *l5)
{
	return &l5->conn->end[l5->end];
}

static inline struct l5_end *l5_peer(const struct l5_sock *l5)
{
	return &l5->conn->end[!l5->end];
}

/* af_l5.c */
extern int l5_family;
/*
 * Whatever sleeps, for all sockets of all users. So nothing in it waits for a
 * lock that a task may hold over a fault of its own, l5_sock.lock and those of
 * bootstraps: it tries, and tries again later.
 */
extern struct workqueue_struct *l5_wq;
struct l5_sock *l5_sock_alloc(struct net *net, struct socket *sock, int kern);
void l5_sock_show(struct l5_sock *l5);
bool l5_set_state(struct l5_sock *l5, int to, enum l5_reason reason);

/* boot.c */
int l5_boot_create(struct l5_sock *l5, struct net *net, int kern);
void l5_boot_attach(struct l5_sock *l5, struct socket *boot,
		    struct socket *sock);
void l5_boot_borrow(struct l5_sock *l5);
void l5_boot_end(struct socket *boot);
void l5_boot_label(struct l5_sock *l5);
int l5_boot_judge(struct l5_sock *l5, int what, struct l5_sockaddr *addr,
		  int len);
void l5_boot_release(struct l5_sock *l5);
void l5_boot_listened(struct work_struct *work);
void l5_boot_error(struct l5_sock *l5);
int l5_connect(struct socket *sock, struct l5_sockaddr *addr, int len,
	       int flags);
void l5_connect_settle(struct l5_sock *l5);
int l5_listen(struct socket *sock, int backlog);
int l5_accept(struct socket *sock, struct socket *newsock, L5_ACCEPT_ARGS);
int l5_shutdown(struct socket *sock, int how);
enum l5_reason l5_why_not(const struct l5_sock *l5);
long l5_wait_decided(struct l5_sock *l5, long timeo);
bool l5_undecided(struct l5_sock *l5);

/* meet.c */
void l5_meet_note(u32 isn, bool defer);
bool l5_meet_first(struct l5_sock *l5, u32 len);
void l5_meet_established(struct l5_sock *l5);
void l5_meet_child(struct l5_sock *listener, struct sock *child,
		   const struct sk_buff *skb);
void l5_meet_unix_open(struct l5_sock *l5);
void l5_meet_unix_connected(struct l5_sock *l5);
struct l5_conn *l5_meet_accept(struct l5_sock *listener, struct sock *child);
void l5_meet_stay(struct l5_sock *l5, enum l5_reason why);
void l5_meet_cancel(struct l5_sock *l5);
void l5_meet_reopen(struct l5_sock *listener);
void l5_meet_close(struct l5_sock *listener);
void l5_meet_init_conn(struct l5_conn *conn);

/* defer.c */
int l5_defer_send(struct l5_sock *l5, struct msghdr *msg);
long l5_defer_recv(struct l5_sock *l5, long timeo);
void l5_defer_drop(struct l5_sock *l5);

/* acct.c */
extern unsigned long l5_host_max_kb;
extern unsigned long l5_user_max_kb;
extern unsigned int l5_host_rdma_max;
extern unsigned int l5_user_rdma_max;
void l5_acct_init(void);
unsigned long l5_host_pages(void);
int l5_payer_get(struct l5_payer *p, struct l5_net *ln);
void l5_payer_copy(struct l5_payer *p, const struct l5_payer *from);
void l5_payer_put(struct l5_payer *p);
bool l5_leaf_charge(const struct l5_payer *p);
void l5_leaf_uncharge(const struct l5_payer *p);
bool l5_qp_get(const struct l5_payer *p, struct l5_net *ln);
void l5_qp_put(const struct l5_payer *p, struct l5_net *ln);

/* conn.c */
struct l5_conn *l5_conn_make(const struct l5_payer *payer);
struct l5_conn *l5_conn_alloc(struct l5_sock *client);
void l5_conn_put(struct l5_conn *conn);
struct page *l5_conn_page(struct l5_conn *conn, int end);
void l5_conn_fix(struct l5_conn *conn, u32 client, u32 server);
void l5_conn_begin(struct l5_conn *conn);
void l5_conn_pair(struct l5_conn *conn, struct l5_sock *listener);
void l5_conn_accepted(struct l5_conn *conn, struct l5_net *ln);
void l5_conn_wishes(struct l5_conn *conn, const struct sock *sk);
u32 l5_conn_wish(const struct l5_conn *conn, bool tx);
void l5_conn_attach(struct l5_conn *conn, int end, struct l5_sock *l5);
void l5_conn_bell(struct l5_conn *conn, int end, bool room);
bool l5_end_async(struct l5_end *e);
void l5_conn_changed(struct l5_conn *conn, int end);
void l5_conn_unlocked(struct l5_conn *conn, int end);
void l5_conn_ring(struct l5_conn *conn, int end, int bells);
bool l5_conn_close(struct l5_sock *l5, bool reset);
void l5_conn_fin(struct l5_sock *l5);

/* pages.c */
int l5_ring_populate(struct l5_conn *conn, int by, u32 most);

/* ring.c */
ssize_t l5_ring_write(struct l5_sock *l5, struct iov_iter *from);
ssize_t l5_ring_read(struct l5_sock *l5, struct iov_iter *to, size_t len,
		     bool discard);
ssize_t l5_ring_peek(struct l5_sock *l5, struct iov_iter *to, size_t skip,
		     size_t len, bool discard);
size_t l5_ring_count(struct l5_sock *l5, int end, size_t enough);
bool l5_ring_holds(struct l5_sock *l5, size_t n);
u64 l5_ring_seen(struct l5_sock *l5, u64 from);
u32 l5_ring_used(struct l5_conn *conn, int end);
u32 l5_ring_extent(const struct l5_sock *l5);
bool l5_ring_readable(struct l5_sock *l5);
bool l5_ring_writable(struct l5_sock *l5);
void l5_ring_owed(struct l5_sock *l5);
void l5_ring_violation(struct l5_sock *l5);

/* lock.c */
int l5_ring_lock(struct l5_sock *l5, int dir, long *timeo);
void l5_ring_unlock(struct l5_sock *l5, int dir);
int l5_ring_lock_wait(struct l5_sock *l5, int dir);

/* map.c */
int l5_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma);
int l5_map_ioctl(struct l5_sock *l5, unsigned int cmd, unsigned long arg);
void l5_map_flag(struct l5_end *e, u32 flags);
void l5_map_note(struct l5_sock *l5);
void l5_map_revoke(struct l5_conn *conn);
void l5_map_revoke_later(struct l5_conn *conn);
void l5_map_conn(struct l5_conn *conn);
int l5_view_open(struct l5_view *view, const struct file_operations *fops,
		 void *data);
void l5_view_close(struct l5_view *view);
void l5_view_zap(struct l5_view *view);
vm_fault_t l5_view_scratch(struct l5_view *view, struct vm_fault *vmf,
			   unsigned int which);
void l5_map_place(struct vm_area_struct *vma, struct l5_view *view,
		  const struct vm_operations_struct *ops, unsigned long clear);
int l5_map_split(struct vm_area_struct *vma, unsigned long addr);
int l5_map_mremap(struct vm_area_struct *vma);
bool l5_map_forget(struct l5_end *e, u32 id, u32 *word, u32 old, u32 to);

/* watch.c */
int l5_watch(struct l5_sock *l5, void __user *arg);

/* io.c */
bool l5_rx_ended(struct l5_sock *l5);
bool l5_tx_ended(struct l5_sock *l5);
bool l5_boot_readable(const struct l5_sock *l5, size_t seen);
void l5_send_to_closed(struct l5_sock *l5);
void l5_send_unread(struct l5_sock *l5);
int l5_sendmsg(struct socket *sock, struct msghdr *msg, size_t len);
int l5_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags);
__poll_t l5_poll(struct file *file, struct socket *sock, poll_table *wait);
int l5_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);
#ifdef CONFIG_COMPAT
int l5_compat_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);
#endif
long l5_wait_carrier(struct l5_sock *l5, long timeo);
void l5_boot_use(struct l5_sock *l5);

/* splice.c */
#if L5_OLD_SPLICE
ssize_t l5_sendpage(struct socket *sock, struct page *page, int offset,
		    size_t size, int flags);
#else
void l5_splice_eof(struct socket *sock);
#endif
ssize_t l5_splice_read(struct socket *sock, loff_t *ppos,
		       struct pipe_inode_info *pipe, size_t len,
		       unsigned int flags);

/* unix.c */
void l5_unix_attach(struct l5_sock *l5);
void l5_unix_received(struct l5_sock *l5, struct msghdr *msg);
void l5_unix_release(struct sock *bsk);
void l5_unix_listen(struct l5_sock *l5);
void l5_unix_unlisten(struct l5_sock *l5);
struct l5_sock *l5_unix_listener(const struct sock *child);
int l5_unix_send_check(struct l5_sock *l5, struct msghdr *msg);
int l5_unix_init(void);
void l5_unix_exit(void);

/* opts.c */
int l5_setsockopt(struct socket *sock, int level, int optname, sockptr_t optval,
		  unsigned int optlen);
int l5_getsockopt(struct socket *sock, int level, int optname,
		  char __user *optval, int __user *optlen);
void l5_opts_push(struct l5_sock *l5);
void l5_write_space(struct sock *sk);
void l5_opts_pull(struct l5_sock *l5);
void l5_keepalive(struct sock *sk, int on);
void l5_rehash(struct sock *sk);
int l5_set_rcvlowat(struct sock *sk, int val);
void l5_opts_inherit(struct l5_sock *l5, const struct l5_sock *listener);

/* who.c */
enum l5_who_kind {
	L5_WHO_ALL,
	L5_WHO_UID,
	L5_WHO_CGROUP,
	L5_WHO_INODE,
};

/**
 * struct l5_who - sockets as an administrator names them
 * @kind: &enum l5_who_kind
 * @first: lowest uid
 * @last: highest uid
 * @inode: number of the socket's inode
 * @cgrp: cgroup, with all below it; a reference
 */
struct l5_who {
	int kind;
	uid_t first;
	uid_t last;
	unsigned long inode;
	struct cgroup *cgrp;
};

bool l5_may_administer(const struct file *file, const struct net *net);
int l5_who_parse(struct l5_who *w, char *text);
void l5_who_put(struct l5_who *w);
bool l5_who_same(const struct l5_who *a, const struct l5_who *b);
bool l5_who_is(const struct l5_who *w, struct user_namespace *ns,
	       const struct l5_sock *l5);

/* way.c */
enum l5_way_kind {
	L5_WAY_ANY,
	L5_WAY_DEV,
	L5_WAY_NET,
};

/**
 * struct l5_way - ways between hosts as an administrator names them
 * @kind: &enum l5_way_kind
 * @v4: a network of IPv4
 * @bits: of @addr that count
 * @addr: the network, one of IPv4 mapped
 * @dev: the device's name
 */
struct l5_way {
	int kind;
	bool v4;
	u8 bits;
	struct in6_addr addr;
	char dev[IFNAMSIZ];
};

int l5_way_parse(struct l5_way *w, char *text);
void l5_way_show(struct seq_file *seq, const struct l5_way *w);
bool l5_way_same(const struct l5_way *a, const struct l5_way *b);
bool l5_way_is(const struct l5_way *w, const struct net *net,
	       struct net_device *dev, const struct in6_addr *peer);

/* deny.c */
bool l5_denied(const struct l5_sock *l5);
bool l5_denied_rdma(const struct l5_sock *l5);
bool l5_denied_way(const struct net *net, struct net_device *dev,
		   const struct in6_addr *peer);
int l5_deny_write(struct file *file, char *buf, size_t size);
int l5_deny_show(struct seq_file *seq, void *v);
void l5_deny_init(struct l5_net *ln);
void l5_deny_exit(struct l5_net *ln);

/* revoke.c */
int l5_revoke_init(void);
void l5_revoke_exit(void);
int l5_revoke_write(struct file *file, char *buf, size_t size);
int l5_revoke_show(struct seq_file *seq, void *v);

/* netns.c */
enum l5_stat {
	L5_STAT_CONN_SHM,
	L5_STAT_CONN_BASE,
	L5_STAT_BYTES_TX,
	L5_STAT_BYTES_RX,
	L5_STAT_DOORBELLS,
	L5_STAT_SLEEPS,
	L5_STAT_SPINS,
	L5_STAT_VIOLATIONS,
	L5_STAT_MAPS,
	L5_STAT_CONN_RDMA,
	L5_STAT_RDMA_ASKED,
	L5_STAT_RDMA_REFUSED,
	L5_STAT_RDMA_SILENT,
	L5_STAT_RDMA_FAILED,
	L5_STAT_RDMA_BROKEN,
	L5_STAT_RDMA_FORGED,
	L5_STAT_RDMA_POSTS,
	L5_STAT_RDMA_MESSAGES,
	L5_STAT_RDMA_WAKES,
	L5_STAT_FALLBACK,	/* and one for each reason after it */
	L5_STAT_MAX = L5_STAT_FALLBACK + L5_REASON_MAX
};

struct l5_stats {
	u64 v[L5_STAT_MAX];
};

/**
 * struct l5_net - a network namespace's part
 * @enabled: net.l5.enabled: 0 leaves every new connection on its bootstrap
 * @spin_us: net.l5.spin_us: see L5_SPIN_US
 * @ring_kb: net.l5.ring_kb: size of a ring when no buffer size was asked for
 * @ring_max_kb: net.l5.ring_max_kb: most that SO_SNDBUF and SO_RCVBUF can get
 * @match_ms: net.l5.match_ms: how long to wait for a server known to be AF_L5
 * @rdma: net.l5.rdma: whether to ask and to answer for RDMA
 * @rdma_ms: net.l5.rdma_ms: how long a question may take
 * @rdma_timeout_ms: net.l5.rdma_timeout_ms: for so long a queue pair sends
 *	again what nobody acknowledges
 * @rdma_memo_s: net.l5.rdma_memo_s: how long its answer is remembered at most
 * @rdma_max: net.l5.rdma_max: queue pairs at a time
 * @rdma_poll: net.l5.rdma_poll: whether a thread sends what is published
 * @rdma_poll_idle_ms: net.l5.rdma_poll_idle_ms: how long it looks for more
 * @rdma_notify: net.l5.rdma_notify: how to publish, L5_NOTIFY_*
 * @rdma_safe: net.l5.rdma_safe: how others may, see order.c
 * @rdma_chain: net.l5.rdma_chain: whether one post is for a whole batch
 * @rdma_now: queue pairs there are
 * @rdma_hopes: accepted sockets that may yet be asked
 * @rdma_early: questions for sockets not accepted yet
 * @poller: the thread, see poller.c
 * @acct: memory charged
 * @stats: counters
 * @lock: guards @socks
 * @socks: all sockets, for /proc/net/l5
 * @rules: who is to have no rings, see deny.c; read under RCU
 * @rules_lock: serialises changes of @rules, @nrules
 * @nrules: how many there are
 * @revoked: number of the last round of revoking that was here, under its lock
 * @sysctl: its table
 */
struct l5_net {
	unsigned int enabled;
	unsigned int spin_us;
	unsigned int ring_kb;
	unsigned int ring_max_kb;
	unsigned int match_ms;
	unsigned int rdma;
	unsigned int rdma_ms;
	unsigned int rdma_timeout_ms;
	unsigned int rdma_memo_s;
	unsigned int rdma_max;
	unsigned int rdma_poll;
	unsigned int rdma_poll_idle_ms;
	unsigned int rdma_notify;
	unsigned int rdma_safe;
	unsigned int rdma_chain;
	atomic_t rdma_now;
	atomic_t rdma_hopes;
	atomic_t rdma_early;
	struct l5_poller *poller;
	struct l5_acct *acct;
	struct l5_stats __percpu *stats;
	spinlock_t lock;
	struct hlist_head socks;
	struct list_head rules;
	struct mutex rules_lock;
	unsigned int nrules;
	u32 revoked;
	struct ctl_table_header *sysctl;
};

struct l5_net *l5_net(const struct net *net);
void l5_acct_put(struct l5_acct *acct);
void l5_net_add(struct l5_sock *l5);
void l5_net_del(struct l5_sock *l5);
int l5_net_init(void);
void l5_net_exit(void);

static inline void l5_net_count(const struct l5_net *ln, int stat, u64 n)
{
	this_cpu_add(ln->stats->v[stat], n);
}

static inline void l5_count(const struct l5_sock *l5, int stat, u64 n)
{
	l5_net_count(l5->ln, stat, n);
}

/* What takes the bytes of a sender, see l5_move_tx_begin(). */
enum l5_tx {
	L5_TX_TCP,
	L5_TX_COUNTED,	/* TCP, and it is to be said when it has */
	L5_TX_RINGS,
};

/* RDMA: see rdma.h. Without it in the kernel there is none of this. */
#ifdef L5_WITH_RDMA

/* door.c */
int l5_door_init(void);
void l5_door_exit(void);
enum l5_reason l5_door_ask(struct l5_sock *l5);
void l5_door_hope(struct l5_sock *l5, struct l5_sock *listener);
void l5_door_listen(struct l5_sock *l5);
void l5_door_unlisten(struct l5_sock *l5);

/* rdma.c */
void l5_rdma_put(struct l5_rdma *rd);
void l5_rdma_push(struct l5_conn *conn, bool bell);
void l5_rdma_arm(struct l5_sock *l5);
void l5_rdma_arm_room(struct l5_sock *l5, u32 low);
void l5_rdma_bell(struct l5_conn *conn);
void l5_rdma_fin(struct l5_conn *conn);

/* hope.c */
bool l5_may_move(const struct l5_sock *l5);
enum l5_tx l5_move_tx_begin(struct l5_sock *l5);
void l5_move_tx_end(struct l5_sock *l5);

/* move.c */
bool l5_tx_moved(struct l5_sock *l5);
bool l5_rx_moved(struct l5_sock *l5);
bool l5_rdma_lost(const struct l5_sock *l5);
bool l5_rdma_rx_over(const struct l5_sock *l5);
bool l5_rdma_says_end(const struct l5_sock *l5);
int l5_rdma_rx_end(struct l5_sock *l5);
int l5_rdma_tcp_end(struct l5_sock *l5);
void l5_rdma_rx_look(struct l5_sock *l5);
int l5_move_stop(struct l5_sock *l5, enum l5_reason why);
void l5_move_fin_in(struct l5_sock *l5);
void l5_move_wait(struct l5_sock *l5);
void l5_rdma_abandon(struct l5_sock *l5);
bool l5_rdma_detach(struct l5_sock *l5, bool reset, struct socket *boot);
bool l5_rdma_undecided(struct l5_sock *l5);
void l5_rdma_get_info(struct l5_sock *l5, struct l5_rdma_info *info);

/* fin.c */
void l5_fin_wait(struct l5_sock *l5);
bool l5_fin_later(struct l5_sock *l5);

/* poller.c */
bool l5_poller_runs(const struct l5_net *ln);
void l5_poller_set(struct l5_net *ln);
int l5_poller_init(struct l5_net *ln);
void l5_poller_exit(struct l5_net *ln);

/* mailbox.c */
int l5_mailbox_able(const struct l5_sock *l5);
int l5_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma);
void l5_mailbox_revoke(struct l5_sock *l5);
void l5_mailbox_release(struct l5_sock *l5);
u32 l5_rdma_mailbox(const struct l5_sock *l5);

#else

static inline int l5_door_init(void) { return 0; }
static inline void l5_door_exit(void) { }
static inline enum l5_reason l5_door_ask(struct l5_sock *l5)
{
	return L5_REASON_PEER;
}

static inline void l5_door_hope(struct l5_sock *l5, struct l5_sock *listener) {}
static inline void l5_door_listen(struct l5_sock *l5) { }
static inline void l5_door_unlisten(struct l5_sock *l5) { }
static inline void l5_rdma_put(struct l5_rdma *rd) { }
static inline void l5_rdma_push(struct l5_conn *conn, bool bell) { }
static inline void l5_rdma_arm(struct l5_sock *l5) { }
static inline void l5_rdma_arm_room(struct l5_sock *l5, u32 low) { }
static inline void l5_rdma_bell(struct l5_conn *conn) { }
static inline void l5_rdma_fin(struct l5_conn *conn) { }
static inline bool l5_may_move(const struct l5_sock *l5) { return false; }
static inline enum l5_tx l5_move_tx_begin(struct l5_sock *l5)
{
	return L5_TX_TCP;
}

static inline void l5_move_tx_end(struct l5_sock *l5) { }
static inline bool l5_tx_moved(struct l5_sock *l5) { return true; }
static inline bool l5_rx_moved(struct l5_sock *l5) { return true; }
static inline bool l5_rdma_lost(const struct l5_sock *l5) { return false; }
static inline bool l5_rdma_rx_over(const struct l5_sock *l5) { return false; }
static inline bool l5_rdma_says_end(const struct l5_sock *l5) { return true; }
static inline int l5_rdma_rx_end(struct l5_sock *l5) { return 0; }
static inline int l5_rdma_tcp_end(struct l5_sock *l5) { return 0; }
static inline void l5_rdma_rx_look(struct l5_sock *l5) { }
static inline int l5_move_stop(struct l5_sock *l5, enum l5_reason why)
{
	return 0;
}

static inline void l5_move_fin_in(struct l5_sock *l5) { }
static inline void l5_fin_wait(struct l5_sock *l5) { }
static inline bool l5_fin_later(struct l5_sock *l5) { return false; }
static inline void l5_move_wait(struct l5_sock *l5) { }
static inline void l5_rdma_abandon(struct l5_sock *l5) { }
static inline bool l5_rdma_detach(struct l5_sock *l5, bool reset,
				  struct socket *boot)
{
	return false;
}

static inline bool l5_rdma_undecided(struct l5_sock *l5) { return false; }
static inline void l5_rdma_get_info(struct l5_sock *l5,
				    struct l5_rdma_info *info) { }
static inline bool l5_poller_runs(const struct l5_net *ln) { return false; }
static inline void l5_poller_set(struct l5_net *ln) { }
static inline int l5_poller_init(struct l5_net *ln) { return 0; }
static inline void l5_poller_exit(struct l5_net *ln) { }
static inline int l5_mailbox_able(const struct l5_sock *l5)
{
	return -EOPNOTSUPP;
}

static inline int l5_mailbox_mmap(struct l5_sock *l5,
				  struct vm_area_struct *vma)
{
	return -EOPNOTSUPP;
}

static inline void l5_mailbox_revoke(struct l5_sock *l5) { }
static inline void l5_mailbox_release(struct l5_sock *l5) { }
static inline u32 l5_rdma_mailbox(const struct l5_sock *l5) { return 0; }

#endif /* L5_WITH_RDMA */

/* Is it rings that bytes are put into, and taken out of? Else the bootstrap. */
static inline bool l5_tx_rings(struct l5_sock *l5)
{
	int state = l5_state(l5);

	return state == L5_SHM || (state == L5_MOVING && l5_tx_moved(l5));
}

static inline bool l5_rx_rings(struct l5_sock *l5)
{
	int state = l5_state(l5);

	return state == L5_SHM || (state == L5_MOVING && l5_rx_moved(l5));
}

#endif /* L5_H */
