/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_L5 between hosts: the objects of RDMA, who owns them, which lock guards
 * what. In the order of a connection's life: rdma_dev.c knows the devices,
 * knock.c listens, hope.c keeps the sockets that may be asked, door.c asks and
 * answers, guard.c says which connections are left alone, seal.c says what both
 * show of their secret, order.c how records may be published, turn.c says whose
 * turn it is to ask, memo.c remembers the answers, qp.c makes what a connection
 * takes of the device, move.c takes the bytes from TCP to the rings, rdma.c
 * keeps the rings of both hosts alike, by the work requests of post.c, poller.c
 * sends for processes that do not want to call.
 *
 * Objects
 *
 *   l5_hope     of an accepted socket that may be asked, what the question is
 *               to find; the socket's, see hope.c
 *   l5_rdma     what one end has of RDMA, from the question to the end of its
 *               queue pair. Referenced by its l5_sock, by its cm id, by its
 *               l5_conn, by each work that is queued.
 *   l5_door     where sockets listen, shared by those on the same address; it
 *               has cm ids that listen, its leaves; see knock.c
 *   l5_dev      a device that may carry connections; see rdma_dev.c
 *   l5_mailbox  of a listener; referenced by it, by the connections that have a
 *               byte in it and by who has it mapped; see mailbox.c
 *
 * While there is a queue pair its l5_rdma references the l5_conn, whose pages
 * it writes and reads; so those outlive the socket until all is said.
 *
 * Everything that sleeps is done by one work per l5_rdma, which the workqueue
 * never runs twice at a time. l5_rdma_do() asks for it. What it and the events
 * of the connection manager allocate is charged to @payer's memory cgroup.
 *
 * Locks, inside those of l5.h
 *
 *   l5_door_mutex     the listening cm ids; then rdma_cm's own, whose handlers
 *                     do not take it
 *   l5_hopes bucket   (spin, bh) who is looked for by its secret
 *   l5_hope.lock      (spin, bh) who counts its senders inside TCP
 *   l5_turn_lock      (spin, bh) who asks which destination
 *   l5_rdma.lock      (spin, bh) its flags, its socket, its send queue
 *
 * Completions come in softirq context and take the last one.
 */
#ifndef L5_RDMA_H
#define L5_RDMA_H

#include "l5.h"

#ifdef L5_WITH_RDMA

#include <rdma/rdma_cm.h>

/* Bits of l5_rdma.flags. All but the first are never taken back. */
#define L5_RD_OPEN	0	/* the connection may yet move */
#define L5_RD_READY	1	/* the peer was told that it may write here */
#define L5_RD_PEER	2	/* we were told so */
#define L5_RD_CUT	3	/* sends no more on TCP */
#define L5_RD_ACKED	4	/* and the peer knows */
#define L5_RD_RX_CUT	5	/* the peer sends no more on TCP */
#define L5_RD_RX_OVER	6	/* and what it sent there was read */
#define L5_RD_FIN	7	/* this end writes no more */
#define L5_RD_FIN_SAID	8	/* and the peer was told */
#define L5_RD_CLOSE	9	/* this end is closed */
#define L5_RD_CLOSE_SAID 10	/* and the peer was told */
#define L5_RD_PEER_FIN	11	/* the peer's last record is here */
#define L5_RD_PEER_CLOSED 12	/* the peer's end is closed */
#define L5_RD_DEAD	13	/* the queue pair is of no more use */
#define L5_RD_OVER	14	/* there is none any more */
#define L5_RD_UP	15	/* the queue pair can send */
#define L5_RD_ARM	16	/* asked to be woken, no wake came yet */
#define L5_RD_PEER_ARM	17	/* the peer asked */
#define L5_RD_ROOM	18	/* asked for room, no answer yet */
#define L5_RD_COUNTED	19	/* counted, see l5_qp_get() */
#define L5_RD_BROKEN	20	/* it failed, and records may be lost */
#define L5_RD_ASKING	21	/* it is its turn to ask */
#define L5_RD_FIN_WAITS	22	/* a FIN is to be sent, see fin.c */

/* Bits of l5_rdma.todo */
#define L5_DO_ASK	0
#define L5_DO_ACCEPT	1
#define L5_DO_UP	2
#define L5_DO_MOVE	3
#define L5_DO_EXPIRE	4
#define L5_DO_END	5
#define L5_DO_POLL	6
#define L5_DO_UNREAD	7
#define L5_DO_ABORT	8
#define L5_DO_UNUSED	9
#define L5_DO_FIN	10

/* Work requests that may be outstanding, those kept for messages, receives. */
#define L5_SQ		64
#define L5_SQ_KEPT	12
/* And for those that are not questions for room. */
#define L5_SQ_OTHERS	8
#define L5_RQ		64
/* Of those that bring bytes of the ring along. */
#define L5_RQ_BYTES	32
/* Every so many work requests one reports its completion. */
#define L5_SIGNAL	16
/* Payload that goes along in the work request, if the device can. */
#define L5_INLINE	96

/*
 * So often a packet is sent again that is not acknowledged; 7 is for ever on
 * some devices. And one of whose message nothing was to be received: for ever,
 * as TCP asks a window that is closed.
 */
#define L5_RETRY	6
#define L5_RNR_RETRY	7
/* 0.64 ms until a message is sent again that found no receive */
#define L5_RNR_TIMER	12
/*
 * A device that has neither done nor failed a request so long after it should
 * have failed it is stuck.
 */
#define L5_STUCK	(15 * HZ)
/* How long a question waits for accept(), and an answer to arrive. */
#define L5_DOOR_PATIENCE (10 * HZ)
/* A device may take so long to flush a queue pair, or it loses it. */
#define L5_DRAIN_WAIT	(5 * HZ)
/* How often an end looks after a peer that it waits for. */
#define L5_TICK		(2 * HZ)

/* Regions, as the peer addresses them. */
#define L5_IOVA_RING	0x100000000ULL
#define L5_IOVA_MAILBOX	0x200000000ULL

#define L5_MAGIC	0x4c355244	/* "L5RD" */
#define L5_VERSION	4
#define L5_ENDIAN	0x0102

/**
 * struct l5_hello - private data of a question and its answer, 56 bytes
 * @magic: L5_MAGIC, big endian
 * @version: L5_VERSION
 * @notify: L5_NOTIFY_* that who sends this would like to publish by
 * @endian: L5_ENDIAN, in its byte order, like all that follows
 * @token: l5_token() of the secret
 * @tx_size: of the ring it writes
 * @rx_size: of the ring it reads; both are wishes in a question
 * @max_size: of a ring, that it can have
 * @rkey: of the ring it reads
 * @mailbox_rkey: of the mailbox with the byte to be set, 0 if there is none
 * @mailbox_slot: which byte of it
 * @features: what the sender understands, none is defined yet
 * @safe: ways that may be used towards who sends this, see order.c
 * @reserved: 0
 * @seal: see seal.c
 */
struct l5_hello {
	__be32 magic;
	u8 version;
	u8 notify;
	u16 endian;
	u64 token;
	u32 tx_size;
	u32 rx_size;
	u32 max_size;
	u32 rkey;
	u32 mailbox_rkey;
	u32 mailbox_slot;
	u32 features;
	u8 safe;
	u8 reserved[3];
	u64 seal;
};

/**
 * struct l5_ends - the addresses of a TCP connection
 * @addr: by end, those of IPv4 mapped
 * @port: likewise
 * @reserved: 0
 */
struct l5_ends {
	struct in6_addr addr[2];
	__be16 port[2];
	u32 reserved;
};

/* What a message says. */
enum l5_msg_type {
	L5_MSG_READY = 1,	/* write into my ring from now on */
	L5_MSG_CUT,		/* pos: my last byte on TCP was before this */
	L5_MSG_CUT_ACK,		/* I know */
	L5_MSG_ARM,		/* wake me when there is more than up to pos */
	L5_MSG_WAKE,		/* there is */
	L5_MSG_ROOM_ARM,	/* my tail is pos, tell me when at most arg
				 * bytes are unread
				 */
	L5_MSG_ROOM,		/* my head is pos */
	L5_MSG_FIN,		/* my last record ended at pos */
	L5_MSG_CLOSE,		/* I read no more, my head is pos */
	L5_MSG_DATA,		/* arg bytes follow, for pos of the ring */
	L5_MSG_HEADER,		/* at pos is a record of arg bytes */
	L5_MSG_MAX
};

struct l5_msg {
	u32 type;
	u32 arg;
	u64 pos;
};

/* With L5_NOTIFY_SEND a message brings so much of the ring. */
#define L5_MSG_BYTES	4064

/* With L5_NOTIFY_IMM so much of it goes at once, or one record. */
#define L5_IMM_SPAN	65536

/**
 * struct l5_slot - a work request that may be outstanding
 * @cqe: its completion
 * @rd: whose
 * @seq: its number
 */
struct l5_slot {
	struct ib_cqe cqe;
	struct l5_rdma *rd;
	u32 seq;
};

/**
 * struct l5_region - pages as the device knows them
 * @mr: the memory region
 * @sg: the pages, mapped for DMA
 * @n: how many
 * @dir: of the DMA
 */
struct l5_region {
	struct ib_mr *mr;
	struct scatterlist *sg;
	int n;
	enum dma_data_direction dir;
};

/**
 * struct l5_rdma - an end of a connection that RDMA carries, or may
 * @ref: see the top of this file
 * @lock: likewise
 * @flags: L5_RD_*, changed under @lock
 * @l5: the socket, NULL once it is gone, or as long as there is none yet
 * @ln: its namespace's part; there as long as a socket or @id is
 * @conn: the rings, from when they are needed
 * @end: which end of them this is
 * @payer: who pays for them, and for all else; known once there is a socket
 * @key: the secret of the TCP connection, as both see it
 * @token: what a question for it says of @key
 * @ends: the addresses of the TCP connection, of who knows @key
 * @qpn: number of the own queue pair, once something was said of it
 * @peer_qpn: the peer's
 * @door: where it is asked, as long as it may be
 * @node: among the questions that came too early
 * @turn: of which destination it is, from the wish to ask to the answer
 * @turn_node: of those that wait for their turn there
 * @since: jiffies when it was made: of a client, to ask
 * @work: see the top of this file
 * @todo: L5_DO_*
 * @expire: when the question has taken too long
 * @again: to do what was put off
 * @later: L5_DO_* that were
 * @pause: jiffies that it was put off for the last time, 0 if it was not
 * @abort: the bootstrap that is to be ended, a reference, or NULL
 * @boot: the bootstrap of a closed socket, which has it no more, or NULL
 * @fin_late: jiffies when its FIN, or that of shutdown(), is a reset
 * @timeout: jiffies, net.l5.rdma_timeout_ms as it was then
 * @src: own address
 * @dst: the peer's
 * @uid: of whoever asks
 * @early_from: of a question that came too early: where it is counted
 * @id: of the connection manager
 * @hello: what the peer said
 * @server: whether this end was asked
 * @answered: and this end has let the peer know, or tried to
 * @ended: its end was seen to, by the work
 * @bye: &enum l5_reason to stay on TCP
 * @err: why the queue pair died, as errno
 * @pd: protection domain
 * @cq: completions of both queues
 * @tx: the ring this end writes, to be read by the device
 * @rx: the ring the peer writes
 * @box: this end's byte in the mailbox
 * @mailbox: where that is, or NULL
 * @slot_no: its number there
 * @box_over: the device does not know it any more
 * @inline_max: bytes that go along in a work request
 * @notify: how this end publishes, L5_NOTIFY_*; until the peer's hello is
 *	known how it would like to
 * @safe: ways that it has stated to be safe, bits by L5_NOTIFY_*
 * @peer_notify: how the peer publishes
 * @msgs: memory of messages and header words: those to be sent, by slot
 * @msgs_dma: its address
 * @bufs: memory of receives
 * @bufs_dma: its address
 * @rq: receives there are
 * @buf_len: of one receive
 * @slots: outstanding work requests by number
 * @recvs: posted receives
 * @reg_cqe: completion of a registration
 * @drain_cqe: of the last request in each queue; here, since it may come late
 * @drained: they are complete
 * @posted: number of the next work request
 * @done: up to this they are complete
 * @signaled: number after the last that will report
 * @close_no: number of the request that says L5_MSG_CLOSE
 * @sent: the ring is the peer's up to this position
 * @fin_pos: where the peer's stream ends, with L5_RD_PEER_FIN
 * @imm_pos: of the next record of a peer that sends L5_NOTIFY_IMM
 * @tx_users: senders inside TCP
 * @cut_seq: TCP's sequence number where this end's bytes end there
 * @rx_cut_seq: and the peer's
 * @cut_at: jiffies of the cut
 * @fin_at: jiffies when TCP's end was seen, 0 if it was not
 * @arm_pos: where the receiver saw no more
 * @room_low: bytes unread that the peer waits for
 * @ask_low: and that this end waits for
 * @close_at: jiffies when its end was put off for what is not acknowledged
 * @probe_no: number after a request for room that is not complete
 * @probe_at: jiffies when it was made
 * @stuck: the device has not even failed it
 * @wait: for CUT_ACK, and for the send queue to be done
 * @moved: whoever waits for the outcome of the question
 * @poll_node: in the poller's list
 * @info: counters
 * @rcu: delays the end
 */
struct l5_rdma {
	refcount_t ref;
	spinlock_t lock;
	unsigned long flags;
	struct l5_sock *l5;
	struct l5_net *ln;
	struct l5_conn *conn;
	int end;
	struct l5_payer payer;
	u64 key;
	u64 token;
	struct l5_ends ends;
	u32 qpn;
	u32 peer_qpn;
	struct l5_door *door;
	struct hlist_node node;
	struct l5_turn *turn;
	struct list_head turn_node;
	unsigned long since;
	struct work_struct work;
	unsigned long todo;
	struct delayed_work expire;
	struct delayed_work again;
	unsigned long later;
	unsigned long pause;
	struct sock *abort;
	struct socket *boot;
	unsigned long fin_late;
	unsigned long timeout;
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
	kuid_t uid;
	u8 early_from;
	struct rdma_cm_id *id;
	struct l5_hello hello;
	bool server;
	bool answered;
	bool ended;
	u8 bye;
	int err;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct l5_region tx;
	struct l5_region rx;
	struct l5_region box;
	struct l5_mailbox *mailbox;
	int slot_no;
	bool box_over;
	u32 inline_max;
	u8 notify;
	u8 safe;
	u8 peer_notify;
	void *msgs;
	u64 msgs_dma;
	void *bufs;
	u64 bufs_dma;
	u32 rq;
	u32 buf_len;
	struct l5_slot slots[L5_SQ];
	struct ib_cqe recvs[L5_RQ];
	struct ib_cqe reg_cqe;
	struct ib_cqe drain_cqe;
	struct completion drained;
	u32 posted;
	u32 done;
	u32 signaled;
	u32 close_no;
	u64 sent;
	u64 fin_pos;
	u64 imm_pos;
	int tx_users;
	u32 cut_seq;
	u32 rx_cut_seq;
	unsigned long cut_at;
	unsigned long fin_at;
	u64 arm_pos;
	u32 room_low;
	u32 ask_low;
	u32 probe_no;
	unsigned long probe_at;
	bool stuck;
	unsigned long close_at;
	wait_queue_head_t wait;
	struct list_head poll_node;
	struct l5_rdma_info info;
	struct rcu_head rcu;
};

static inline bool l5_rd(const struct l5_rdma *rd, int flag)
{
	return test_bit(flag, &rd->flags);
}

/* Devices whose packets are made by a CPU of this host */
static inline bool l5_rdma_software(const struct ib_device *dev)
{
	return dev->ops.driver_id == RDMA_DRIVER_RXE;
}

/**
 * l5_rdma_patience() - how long to wait for what a network in trouble delays
 * @rd: of this end
 * @least: jiffies in any case
 *
 * The question, or what is waited for, may take as long as the queue pair goes
 * on, and so may the answer.
 *
 * Return: jiffies.
 */
static inline unsigned long l5_rdma_patience(const struct l5_rdma *rd,
					     unsigned long least)
{
	return max(least, 2 * rd->timeout);
}

/* post.c */
void l5_rdma_dead(struct l5_rdma *rd, int err);
void l5_rdma_wc_error(struct l5_rdma *rd, const struct ib_wc *wc);
bool l5_rdma_sends(const struct l5_rdma *rd);
void l5_rdma_msg(struct l5_rdma *rd, u32 type, u32 arg, u64 pos);
void l5_rdma_say(struct l5_rdma *rd, u32 type, u32 arg, u64 pos);
u64 *l5_rdma_word(struct l5_end *ring, u64 pos);
bool l5_rdma_wakes(struct l5_rdma *rd);
u64 l5_rdma_span(struct l5_end *ring, u64 pos, u64 end, u64 tail);
bool l5_rdma_post(struct l5_rdma *rd, u64 tail);

/* rdma.c */
void l5_rdma_probe(struct l5_rdma *rd);
void l5_rdma_push_locked(struct l5_rdma *rd);
bool l5_rdma_flushed(const struct l5_rdma *rd);
int l5_rdma_post_recv(struct l5_rdma *rd, u32 i);
void l5_rdma_heard(struct l5_rdma *rd);

/* qp.c */
struct l5_rdma *l5_rdma_alloc(struct l5_net *ln, gfp_t gfp);
void l5_rdma_put(struct l5_rdma *rd);
int l5_rdma_create(struct l5_rdma *rd);
void l5_rdma_hello(struct l5_rdma *rd, struct l5_hello *hello);
int l5_rdma_rings(struct l5_rdma *rd, u32 client, u32 server);
int l5_rdma_up(struct l5_rdma *rd);
void l5_rdma_drain(struct l5_rdma *rd);
void l5_rdma_destroy(struct l5_rdma *rd);
u32 l5_rdma_max_size(const struct l5_rdma *rd);

/* seal.c */
u64 l5_token(u64 key);
void l5_ends_of(const struct sock *sk, int end, struct l5_ends *ends);
bool l5_seal_way(const struct rdma_cm_id *id, const struct l5_ends *ends);
void l5_seal_make(struct l5_rdma *rd, struct l5_hello *hello);
bool l5_seal_good(const struct l5_rdma *rd, const struct l5_hello *hello,
		  u32 qpn);

/* guard.c */
u8 l5_guard(const struct sock *sk);
u8 l5_guard_again(struct sock *sk);
u8 l5_guard_way(const struct rdma_cm_id *id);

/* order.c */
u8 l5_order_safe(const struct l5_rdma *rd);
u8 l5_order_way(u8 wish, u8 safe);
bool l5_order_valid(const struct l5_hello *hello);
void l5_order_agree(struct l5_rdma *rd);

/* turn.c */
int l5_turn_take(struct l5_rdma *rd, u64 who);
void l5_turn_leave(struct l5_rdma *rd);

/* memo.c */
u64 l5_memo_who(const struct net *net, const struct sockaddr_storage *to,
		kuid_t uid);
u8 l5_memo_look(const struct net *net, const struct sockaddr_storage *to,
		kuid_t uid);
void l5_memo_keep(struct l5_rdma *rd, const struct net *net, u8 reason);
void l5_memo_drop(const struct l5_rdma *rd, const struct net *net);

/* hope.c */
int l5_hope_init(void);
void l5_hope_exit(void);
int l5_hope_asked(struct l5_net *ln, struct rdma_cm_id *id,
		  const struct rdma_conn_param *p, struct l5_rdma **found);
void l5_hope_begin(struct l5_sock *l5, u64 key, struct l5_sock *listener,
		   struct l5_door *door);
bool l5_hope_end(struct l5_sock *l5);
void l5_hope_free(struct l5_sock *l5);
void l5_rdma_forget(struct l5_rdma *rd);

/* knock.c */
int l5_knock_init(void);
void l5_knock_exit(void);
struct l5_door *l5_door_get(struct l5_sock *listener, const struct sock *bsk);
void l5_door_put(struct l5_door *door);
void l5_door_kick(void);

/* rdma_dev.c */

/**
 * struct l5_place - an address that a device speaks for
 * @addr: the address, port 0
 * @ifindex: the interface that has it
 */
struct l5_place {
	struct sockaddr_storage addr;
	int ifindex;
};

int l5_rdma_dev_init(void);
void l5_rdma_dev_exit(void);
bool l5_rdma_reaches(const struct sock *sk);
int l5_rdma_places(struct net *net, struct l5_place *to, int max);
bool l5_rdma_place_of(const struct ib_device *ib, struct net *net,
		      struct l5_place *place);
bool l5_rdma_coherent(struct ib_device *ib, u64 dma, phys_addr_t at);
void l5_rdma_unfit(const struct ib_device *ib);

/* door.c */
extern struct workqueue_struct *l5_wq;
bool l5_door_wants(const struct l5_sock *l5);
bool l5_door_loopback(const struct sockaddr_storage *a);
void l5_door_addr(const struct sock *sk, struct sockaddr_storage *to,
		  bool peer);
int l5_door_asked(struct l5_net *ln, struct rdma_cm_id *id,
		  const struct rdma_conn_param *p);
void l5_rdma_do(struct l5_rdma *rd, int what);
void l5_door_expire(struct l5_rdma *rd, unsigned long delay);
void l5_rdma_resume(struct work_struct *work);
void l5_rdma_put_off(struct l5_rdma *rd, int what);
void l5_door_in_time(struct l5_rdma *rd);
void l5_door_hold(struct l5_rdma *rd, struct rdma_cm_id *id);
void l5_door_work(struct l5_rdma *rd, unsigned long todo);

/* move.c */
void l5_rdma_got_socket(struct l5_rdma *rd, struct l5_sock *l5);
bool l5_move_begin(struct l5_rdma *rd);
void l5_move_ready(struct l5_rdma *rd);
void l5_move_cut_in(struct l5_rdma *rd, u32 seq);
void l5_move_acked(struct l5_rdma *rd);
bool l5_move_unread(struct l5_rdma *rd);
bool l5_rdma_tx_begin(struct l5_rdma *rd);
void l5_rdma_tx_end(struct l5_rdma *rd);
void l5_move_tick(struct l5_rdma *rd);
void l5_move_over(struct l5_rdma *rd);
bool l5_move_busy(struct sock *bsk);
bool l5_move_lock(struct l5_rdma *rd, struct l5_sock **found);
void l5_move_unlock(struct l5_sock *l5);
bool l5_move_abort(struct l5_rdma *rd);
bool l5_move_unused(struct l5_rdma *rd);
void l5_move_wake(struct l5_rdma *rd);

/* fin.c */
struct socket *l5_fin_prepare(struct l5_rdma *rd, struct socket *boot);
bool l5_fin_keep(struct l5_rdma *rd, struct socket *boot);
bool l5_fin_work(struct l5_rdma *rd);

/* mailbox.c */
void l5_mailbox_get_slot(struct l5_rdma *rd);
void l5_mailbox_put_slot(struct l5_rdma *rd);
void l5_mailbox_leave(struct l5_rdma *rd);
struct page *l5_mailbox_page(struct l5_mailbox *box);
void l5_mailbox_set(struct l5_rdma *rd);
struct l5_mailbox *l5_mailbox_get(struct l5_sock *listener);
void l5_mailbox_put(struct l5_mailbox *box);

/* poller.c */
void l5_poller_list(struct l5_rdma *rd);
void l5_poller_add(struct l5_rdma *rd);
void l5_poller_del(struct l5_rdma *rd);
void l5_poller_kick(struct l5_net *ln);

#endif /* L5_WITH_RDMA */

#endif /* L5_RDMA_H */
