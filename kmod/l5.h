/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_L5 inside the module: the objects, their owners, and which lock guards
 * what. What is done to them is in a header for each file.
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
 *             The rings go with the last reference, an RCU grace period
 *             later, whatever is mapped by then; pages without unread bytes
 *             are given back soon after the first end is closed, see drop.c.
 *             The object itself goes with the last mapper. Pins keep their
 *             pages by themselves.
 *   l5_mapper what one process has mapped of one end. Lives as long as its
 *             mappings do, holds the l5_conn and not its rings or a socket,
 *             or it could have a peer pay for as long as it likes. Its end
 *             tells that the process will not give back a lock word.
 *   a watch   a lock of fcntl()'s kind on the socket's inode. It ends while a
 *             descriptor is being closed, so before the file, and before the
 *             l5_sock: it needs no reference, see watch.c.
 *   l5_region memory that an end has made beside the rings. In the list of that
 *             end until it is ended, and held by the views of it. It holds
 *             nothing of the connection, and pages only until both ends have
 *             lost it, see region.c.
 *   l5_view   the file behind vmas, of a mapper, a region or a mailbox: by it
 *             their pages can be taken back.
 *
 * Lifetimes: l5_sock.conn changes only while the state is IDLE, CONNECTING or
 * BASE and stays for life once the state is MOVING or RINGS. So a task that
 * reads one of these states (acquire) may use the connection until the release
 * of the socket, and no system call outlives that.
 *
 * link.h and transport.h are the seams to the transports. A transport to other
 * hosts has objects and locks of its own, and keeps them in l5_sock.remote_data
 * and l5_net.remote_data.
 *
 * Lock order, outer to inner
 *
 *   l5_revoke_lock (mutex)    a round of revoking
 *   l5_sock.lock (mutex)      connect, listen, disconnect of one socket
 *   l5_sock.tx_lock, rx_lock  (mutexes, never both) cursors of one direction,
 *                             together with the lock word in the control page,
 *                             which is only ever tried while they are held. A
 *                             holder may fault, for as long as the process that
 *                             serves the fault likes: so no wait for them is
 *                             without a time-out or deaf to signals, see
 *                             lock.c, and poll() does not take them
 *   mmap_lock                 a copy may fault; mmap() of the rings holds it
 *   l5_end.whole_lock         (mutex) the tasks of this end that get pages for
 *                             mapped rings; no task of the other end waits for
 *                             it
 *   l5_end.map_lock           (mutex) the processes that have this end mapped;
 *                             a fault there takes it. The lock of a mailbox's
 *                             mappings is taken at the same place. Of both ends
 *                             at once only by l5_rings_trylock()
 *   l5_end.fill_lock          (mutex) pages of a ring; the client's, then the
 *                             server's
 *   l5_region.settle          (mutex) a region is taken from ends, by tasks of
 *                             its maker's end and by works; no fault takes it
 *   i_mmap_rwsem of a view    its vmas
 *   lock_sock(l5_sock)        its SOL_SOCKET options
 *   lock_sock(bootstrap)      its own business; held where a client enters a
 *                             meeting, so also where it gives connecting up;
 *                             a listener's, then its child's
 *   boot->sk_callback_lock    bootstrap to l5_sock pointer
 *   l5_bucket.lock (spin, bh) the table of open meetings; the task that takes
 *                             one out of it decides its outcome
 *   l5_sock.pending_lock      (spin, bh) a listener's decided, unaccepted
 *                             meetings
 *   l5_users_lock             (spin, bh) the table of users' accounts
 *   l5_conn.region_lock       (spin) the regions of both ends, in process
 *                             context only
 *   l5_region.lock            (spin) the views of a region, as the one above
 *   l5_unread.lock            (mutex) only ever tried
 *   l5_revoke_jobs_lock       (spin) what work on revoked sockets has to do;
 *                             innermost, in process context only
 *
 * AF_UNIX's own locks, and ours beside them: see unix.c.
 *
 * The softirq that completes a handshake holds the bootstrap's spinlock and
 * takes l5_bucket.lock, l5_sock.pending_lock and l5_users_lock. Of all these
 * locks only the mutexes are held across a sleep, and none while waiting for a
 * peer.
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
#include "../uapi/l5_policy.h"
#include "../uapi/l5_ring.h"
#include "acct.h"
#include "areas.h"
#include "compat.h"

/* How many there are. Not for programs, since there may be more one day. */
#define L5PROTO_MAX		(L5PROTO_UNIX + 1)
#define L5_TRANSPORT_MAX	(L5_TRANSPORT_RDMA + 1)
#define L5_REASON_COUNT(code, name, text)	+ 1
#define L5_REASON_MAX		(0 L5_REASONS(L5_REASON_COUNT))

/* Pointers that a socket has for the transport to other hosts. */
#define L5_REMOTE_DATA		4

/* A region of a mapping consists of pages, and a ring has one at least. */
#define L5_RING_LEAST	((u32)(PAGE_SIZE > L5_RING_MIN ? PAGE_SIZE : \
			       L5_RING_MIN))

struct l5_boot_ops;
struct l5_link_ops;
struct l5_spill;
struct l5_transport_ops;

/* A word's bits of L5_REC_STAMP, which say that it came with L5_NOTIFY_ONE. */
#define L5_STAMP_MASK	((u64)L5_REC_STAMP << 32)

/* What they are at a position, beside the header's own. */
static inline u64 l5_late_stamp(u64 key, u64 pos)
{
	return (u64)(L5_REC_LATE | (u32)hash_64(key ^ pos, 30)) << 32;
}

/* The state of a socket. l5_set_state() alone changes it. */
enum l5_state {
	L5_IDLE,	/* fresh, bound, or disconnected */
	L5_LISTEN,
	L5_CONNECTING,	/* until it is decided what carries bytes */
	L5_BASE,	/* the bootstrap socket carries them */
	L5_MOVING,	/* also, until its bytes are read; see transport.h */
	L5_RINGS,	/* rings carry them, the bootstrap FIN and RST */
	L5_STATE_MAX
};

/* Which receivers of messages does a wake-up wake? */
enum l5_turn {
	L5_TURN_ALL,
	L5_TURN_ONE,	/* one of them */
	L5_TURN_TAKEN,	/* none any more */
};

/* Is a client to meet a child that is made from the client's first bytes? */
enum l5_lateness {
	L5_LATE_NOT,
	L5_LATE_OPEN,	/* yes, and it has not sent them */
	L5_LATE_SENT,	/* yes, and they are on their way */
};

/**
 * struct l5_tag - begins each object that AF_L5 hangs off a socket's
 *	sk_user_data
 * @kind: the address of one of the objects below
 *
 * Other kernel code hangs things there, too (sockmap, for one), and a clone of
 * a socket copies the pointer. So an object found there is used only once its
 * flags and its tag have said that it is ours and of which kind it is, and
 * clones get none.
 */
struct l5_tag {
	const void *kind;
};

extern const char l5_tag_owner;		/* l5_sock, of its bootstrap */

/* Bits of l5_end.flags */
#define L5_END_FIN	0	/* sends no more */
#define L5_END_CLOSED	1	/* bytes sent to it are answered by a reset */
#define L5_END_RCV_SHUTDOWN	2	/* shut down for reading */
#define L5_END_MAPPED	3	/* a process has mapped it, now or before */
#define L5_END_BROKEN	4	/* the other end, or a sharer, broke rules */
#define L5_END_REVOKED	5	/* records in the rings may be half written */
#define L5_END_CUT	6	/* sends no more, by an administrator's word */
#define L5_END_TOLD	7	/* a call has had the reset */
/*
 * Disconnected, but its socket keeps it, and calls may be in it still. The
 * bootstrap may be another connection's by now, of which they know nothing.
 */
#define L5_END_KEPT	8
#define L5_END_ASKS	9	/* asks for the sender of each record */

/**
 * struct l5_pages - the pages of a ring, by place
 * @rcu: for the end of an array that was too short, see grow.c
 * @mask: number of places, less one
 * @at: NULL where there is no page
 *
 * Tasks that look at it without a lock find a page by this mask alone: the
 * ring's size may change meanwhile.
 */
struct l5_pages {
	struct rcu_head rcu;
	u32 mask;
	struct page *at[];
};

/**
 * struct l5_end - one end of a connection: what it writes, what it has read
 * @sk: the l5_sock holding this end, NULL before accept() and after release
 * @flags: L5_END_*, set by this end, read by the other
 * @payer: pays for what this end writes; from the meeting to accept() the
 *	server's payer is the listener's. Under @fill_lock
 * @ctrl: control page, see l5_ring.h
 * @size: of the ring this end writes
 * @pages: of that ring by position, NULL until it has some
 * @first: number of the first page there, counted from position 0
 * @next: number after the last page there
 * @npages: pages the ring owns
 * @granted: pages it may own without asking
 * @lent: of these, the pages that the other end's payer was granted when it
 *	mapped them
 * @lent_pages: of @npages, those that the other end's payer pays for
 * @packets: a record of this ring is a message, and may be empty
 * @files: descriptors may ride with a record of this ring
 * @riding: a record is about to be published that something rides with, which
 *	the bootstrap has already
 * @late_key: not 0: another host writes this ring, with L5_NOTIFY_ONE
 * @unread: what is known about its unread bytes, see unread.c; NULL until there
 *	were many records to count, then there until the end
 * @fold: pages of a ring that is mapped: after so many places they come again,
 *	see fold.c; 0: it never was
 * @spill: another host writes this ring, and what is unread of it was copied,
 *	see spill.c; NULL until then
 * @demoted: no process sees this ring any more, see demote.c; changed as
 *	@dropped, with both lock words of the ring held
 * @starved: not 0: no memory until the reader is in this page; see pages.c
 * @poor: there was no memory for more than @fold pages
 * @full: a writer waits for room, and the reader is watched, see grow.c
 * @full_pos: where the reader was then
 * @full_since: jiffies when it was first seen there
 * @full_tries: how often it was to grow since then, in vain
 * @idle_tail: where the writer of a ring with more pages than it was mapped
 *	with was when the ring was last looked at, see drop.c
 * @idle_since: jiffies when it was first seen there
 * @extent_lock: (spin, irq) of two that say in @state how much of the ring may
 *	be used, the last one says what is so
 * @dropped: an end is closed, and pages of this ring were given back: it gets
 *	none any more. Changed under both @fill_lock, and both ends' @map_lock
 *	unless both are revoked
 * @fill_lock: guards @pages and the numbers above against the other end, which
 *	may want to map the ring
 * @whole_lock: memory for rings that are mapped, of which some is charged to
 *	the other end, is gathered by one task of this end at a time
 * @state: what its processes see of this end's state, NULL if never mapped
 * @mappers: processes that have this end mapped, under @map_lock
 * @revoked: no process is to have its pages any more, under @map_lock
 * @map_lock: see the top of this file
 * @last_id: number of the last mapper
 * @regions: those that this end has made; this and the next three under
 *	l5_conn.region_lock
 * @nregions: how many they are
 * @last_region: what the number of the last one was made from
 * @regions_lost: regions that this end may not use any more, as in @state
 * @regions_over: it has none any more, and makes none
 * @lock_wait: the tasks that sleep for a lock word
 * @prod: cursors as loaded from @ctrl, under the l5_sock's tx_lock
 * @tx_bytes: payload written by system calls, under tx_lock
 * @tx_copy: the page of its own ring that a copy may be writing, see drop.c
 * @cons: cursors into the other end's ring, as loaded from @ctrl, under rx_lock
 * @rx_bytes: payload read by system calls, under rx_lock
 * @rx_copy: the page of the other end's ring that a copy may be reading
 */
struct l5_end {
	struct sock __rcu *sk;
	unsigned long flags;
	struct l5_payer payer;
	struct l5_ctrl *ctrl;
	u32 size;
	struct l5_pages *pages;
	u64 first;
	u64 next;
	u64 starved;
	u64 idle_tail;
	unsigned long idle_since;
	spinlock_t extent_lock;
	u32 fold;
	bool poor;
	bool full;
	u8 full_tries;
	bool demoted;
	u64 full_pos;
	unsigned long full_since;
	u32 npages;
	u32 granted;
	u32 lent;
	u32 lent_pages;
	bool packets;
	bool files;
	bool riding;
	u64 late_key;
	struct l5_unread *unread;
	struct l5_spill *spill;
	bool dropped;
	struct mutex fill_lock;
	struct mutex whole_lock;
	struct l5_map_state *state;
	struct list_head mappers;
	bool revoked;
	struct mutex map_lock;
	u32 last_id;
	struct list_head regions;
	u32 nregions;
	u32 last_region;
	u64 regions_lost;
	bool regions_over;
	wait_queue_head_t lock_wait;
	struct l5_prod prod ____cacheline_aligned_in_smp;
	u64 tx_bytes;
	struct page *tx_copy;
	struct l5_cons cons ____cacheline_aligned_in_smp;
	u64 rx_bytes;
	struct page *rx_copy;
};

/* The connecting end's index in l5_conn.end, and the accepting one's. */
#define L5_CLIENT	0
#define L5_SERVER	1

/**
 * struct l5_conn - a meeting of two ends, and their rings once they have met
 * @ref: see the top of this file
 * @held: by mappers, and once for all of @ref
 * @hash: in the table while the outcome is open; under the bucket lock
 * @key: what the other end will look for, see rendezvous.c
 * @client: the connecting socket; valid while hashed
 * @timer: ends the wait, in slices
 * @slice: length of one slice of the wait, jiffies
 * @slices: slices that are left of the wait
 * @tag: leads here from @child
 * @listener: the listener whose child met it; valid under RCU while pending
 * @pending: in the listener's list until accepted
 * @child: the bootstrap socket accept() will return; while pending
 * @reason: why not paired, if not
 * @paired: the outcome, valid once unhashed
 * @entered: by TCP, once for all; under the bootstrap's lock
 * @twice: bytes that the client sends by TCP as well, see defer.c; if @paired,
 *	exactly those that TCP brought with the child
 * @end: the two ends
 * @region_lock: guards the ends' lists of regions
 * @wish: between hosts, sizes for the rings that the end here reads and writes
 * @link: keeps the rings alike, see link.h
 * @link_data: the transport's own
 * @revoke: see l5_conn_revoke_later(); has a reference while it is queued
 * @drop: see l5_conn_drop_later(); has a reference while it is queued
 * @drop_delay: of the next round, jiffies
 * @drop_tail: where the records end that the closed end wrote
 * @drop_trims: @drop_tail is known
 * @drop_cookie: tells when @dropped may be given back
 * @dropped: pages that were taken out of the rings, see drop.c; the work's
 * @last: takes the rings out of processes that have them still
 * @rcu: delays the end
 */
struct l5_conn {
	refcount_t ref;
	refcount_t held;
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
	bool entered;
	u32 twice;
	struct l5_end end[2];
	spinlock_t region_lock;
	u32 wish[2];
	const struct l5_link_ops *link;
	void *link_data;
	struct work_struct revoke;
	struct delayed_work drop;
	unsigned long drop_delay;
	u64 drop_tail;
	bool drop_trims;
	unsigned long drop_cookie;
	struct list_head dropped;
	struct work_struct last;
	struct rcu_head rcu;
};

/**
 * struct l5_opts - options of SOL_SOCKET and fchown(), as l5_opts_push() handed
 *	them down
 *
 * The fields are those of struct sock that these options set, with the same
 * names.
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
	u32 stamps;
	u32 ll_usec;
	kuid_t uid;
	u8 reuse;
	u8 reuseport;
	u8 userlocks;
};

/**
 * struct l5_sock - an AF_L5 socket
 * @sk: generic part, first; its lock guards options only. Its sk_node is in the
 *	namespace's list of sockets: so the kernel sees a hashed socket in no
 *	group of SO_REUSEPORT, and attaches no program of such a group
 * @tcp: what the kernel takes @sk for, by the family and protocol that @sk
 *	shows, see l5_opts_pull(); zeroes but for @sk and the way to @tcp.inet6
 * @un: the same of a socket over AF_UNIX
 * @owner: leads here from @boot
 * @ln: its namespace's part of the module
 * @boot: bootstrap socket
 * @bops: its family, see bootstrap.h; NULL if none could be made
 * @state: &enum l5_state, read with l5_state()
 * @reason: why the state is L5_BASE
 * @end: index of this socket's end in @conn
 * @force: &enum l5_transport asked for by L5_FORCE
 * @early: calls that may be in the bootstrap since before it was connected, see
 *	l5_early_begin()
 * @nopair: reason not to offer rings at all, L5_REASON_NONE if there is none
 * @why: reason why the present connect() offers none, L5_REASON_NONE if there
 *	is none
 * @spin_us: option L5_SPIN_US
 * @err_shown: the bootstrap's error as copied to @sk, under @err_lock
 * @spin_win: ns that spinning is worth at present, see l5_spun()
 * @slept_ns: what a sleep costs, as measured lately, see l5_slept()
 * @turns: receivers of messages that sleep, see l5_wait_rx()
 * @turn: &enum l5_turn, under the lock of its wait queue
 * @rung: when a sleeper was last woken by the peer, ns of local_clock()
 * @polled: when a poll found nothing, 0 if none has since data last came
 * @poll_task: that poll's task, only ever compared
 * @poll_slept: how often that task had slept by then
 * @got_head: own rx_head when a system call last received, see l5_awaits()
 * @got_tail: own tx_tail at that time
 * @opts: options that the bootstrap was told, under its lock
 * @err_lock: see l5_boot_error()
 * @closing: a listener that takes no more meetings; under @pending_lock
 * @late: &enum l5_lateness, under the bucket lock of its meeting
 * @inq: option TCP_INQ is set
 * @cgroup_told: BPF programs of its cgroup were asked about it, beside its
 *	bootstrap, see protosw.c
 * @conn: see the top of this file
 * @remote: the transport that the socket may be handed over to, or was; for
 *	life. See transport.h
 * @remote_data: what the transport to other hosts keeps of the socket, as it
 *	likes; zeroes at first. For life of a connection as of a listener
 * @payer: of a listener: pays for connections that wait for accept(); for life
 *	once it is there
 * @remote_want: option L5_RDMA
 * @remote_wait: option L5_RDMA_WAIT
 * @lock: serialises connect, listen and disconnect
 * @tx_lock: serialises senders
 * @rx_lock: serialises receivers
 * @pending: paired connections that wait for accept()
 * @pending_lock: guards @pending, @closing
 * @listened: does what is due once a listener's bootstrap is no longer a
 *	listener
 * @revoked: numbers of the last rounds of revoking that looked at it, its
 *	namespace's and the host's, under the lock of the namespace's list
 * @revoke_work: ends its connection, or what waits for accept(); has a
 *	reference to the socket's file while it is queued or runs, see revoke.c
 * @revoke_waits: of rounds of revoking that wait for @revoke_work; this and the
 *	next three under l5_revoke_jobs_lock
 * @revoke_how: L5_REVOKE_* that @revoke_work has still to do
 * @revoke_pause: jiffies between its last two looks at locks that tasks hold
 * @revoke_runs: it runs at present
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
	const struct l5_boot_ops *bops;
	int state;
	u8 reason;
	u8 end;
	u8 force;
	u8 nopair;
	u8 why;
	bool closing;
	u8 late;
	bool inq;
	bool cgroup_told;
	atomic_t early;
	int spin_us;
	int err_shown;
	u64 spin_win;
	u32 slept_ns;
	atomic_t turns;
	u8 turn;
	u64 rung;
	u64 polled;
	const void *poll_task;
	unsigned long poll_slept;
	u64 got_head;
	u64 got_tail;
	struct l5_opts opts;
	spinlock_t err_lock;
	struct l5_conn *conn;
	const struct l5_transport_ops *remote;
	void *remote_data[L5_REMOTE_DATA];
	struct l5_payer payer;
	int remote_want;
	int remote_wait;
	struct mutex lock;
	struct mutex tx_lock;
	struct mutex rx_lock;
	struct list_head pending;
	spinlock_t pending_lock;
	struct delayed_work listened;
	u32 revoked[2];
	struct delayed_work revoke_work;
	struct list_head revoke_waits;
	unsigned int revoke_how;
	unsigned long revoke_pause;
	bool revoke_runs;
	unsigned int taken;
	struct rhash_head unix_node;
	const void *unix_addr;
};

static inline struct l5_sock *l5_sk(const struct sock *sk)
{
	return (struct l5_sock *)sk;
}

/* H, pairs with I in l5_set_state(): a reader of RINGS sees the connection */
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
 * The object that hangs there, if it is of the kind asked for, or NULL. Under
 * RCU, or a lock that keeps it there.
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

/* Is it a client that meets no child, and awaits none, before it has sent? */
static inline bool l5_deferred(const struct l5_sock *l5)
{
	/* AM, pairs with the stores of L5_LATE_OPEN in rendezvous.c */
	return smp_load_acquire(&l5->late) == L5_LATE_OPEN;
}

/* The owner of a bootstrap, else NULL. Context as l5_tag_get(). */
static inline struct l5_sock *l5_owner(const struct sock *bsk)
{
	struct l5_tag *tag = l5_tag_get(bsk, &l5_tag_owner);

	return tag ? container_of(tag, struct l5_sock, owner) : NULL;
}

/* Are its records messages (SOCK_SEQPACKET)? */
static inline bool l5_packets(const struct l5_sock *l5)
{
	return l5->sk.sk_type == SOCK_SEQPACKET;
}

static inline struct l5_end *l5_own(const struct l5_sock *l5)
{
	return &l5->conn->end[l5->end];
}

static inline struct l5_end *l5_peer(const struct l5_sock *l5)
{
	return &l5->conn->end[!l5->end];
}

#endif /* L5_H */
