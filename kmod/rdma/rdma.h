/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_L5 between hosts: the objects of RDMA, their owners, and which lock guards
 * what. The protocol of the two ends is not here but in ../far; this is the
 * wire that carries it. Each file uses those before it:
 *
 *   addr.c       the addresses of a connection
 *   dev.c        the devices, and the addresses that they speak for
 *   guard.c      connections that are left alone
 *   seal.c       what both ends show of their secret
 *   order.c      how records may be published
 *   wr.c         what is given to a device to be sent, and what has come
 *   qp.c         what a connection takes of a device
 *   cm_listen.c  listening for questions
 *   cm_cache.c   remembering the answers
 *   cm_turn.c    the turns of questions
 *   cm_event.c   what the connection manager tells of a connection
 *   candidate.c  sockets that may be asked, and questions that came too early
 *   cm.c         asking and answering, and the wire as its end sees it
 *   transport.c  RDMA as sockets see it
 *   list.c       the transports that the module has
 *
 * Objects
 *
 *   l5_candidate    of an accepted socket that may be asked: the question is to
 *                   find it; owned by the socket, see candidate.c
 *   l5_rdma         what one end has of RDMA, from the question to the end of
 *                   its queue pair, with the end itself, l5_far. Its cm id has
 *                   a reference.
 *   l5_cm_listener  an address that sockets listen on, shared by those sockets;
 *                   it has cm ids that listen, its leaves; see cm_listen.c
 *   l5_dev          a device that may carry connections; see dev.c
 *
 * Memory that the events of the connection manager allocate is charged to the
 * memory cgroup of l5_far.payer.
 *
 * Locks, inside those of l5.h
 *
 *   l5_cm_listen_mutex   the listening cm ids; then rdma_cm's own, whose
 *                        handlers do not take it
 *   l5_cand_bucket.lock  (spin, bh) what is looked for by a token
 *   l5_candidate.lock    (spin, bh) which object counts the senders inside TCP
 *   l5_cm_turn_lock      (spin, bh) the questions of each destination
 *
 * and then l5_far.lock, see ../far/far.h.
 */
#ifndef L5_RDMA_H
#define L5_RDMA_H

#include "../bootstrap.h"
#include "../deny.h"
#include "../rendezvous.h"
#include "../far/far.h"

#include <rdma/rdma_cm.h>

/* Receives, and if they have room for bytes of the ring. */
#define L5_RQ		64
#define L5_RQ_BYTES	32
/* Bytes that a work request has in itself, if the device can. */
#define L5_INLINE	96

/*
 * L5_RETRY: so often a packet that is not acknowledged is sent again; 7 is for
 * ever on some devices. L5_RNR_RETRY: a message that found no receive is sent
 * again for ever, as TCP probes a window that is closed.
 */
#define L5_RETRY	6
#define L5_RNR_RETRY	7
/* 0.64 ms until a message that found no receive is sent again */
#define L5_RNR_TIMER	12
/* How long a question waits for accept(), and an answer to arrive. */
#define L5_CM_PATIENCE (10 * HZ)
/* How long a device may take to flush a queue pair, before it loses it. */
#define L5_DRAIN_WAIT	(5 * HZ)

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
 * @notify: L5_NOTIFY_* that the sender of this would like to publish by
 * @endian: L5_ENDIAN, in the sender's byte order, like all fields after it
 * @token: l5_token() of the secret
 * @tx_size: of the ring that the sender writes
 * @rx_size: of the ring that the sender reads; both are wishes in a question
 * @max_size: of a ring that the sender can have
 * @rkey: of the ring that the sender reads
 * @mailbox_rkey: of the mailbox with the byte to be set, 0 if there is none
 * @mailbox_slot: number of that byte
 * @features: what the sender understands, none is defined yet
 * @safe: ways that may be used towards the sender of this, see order.c
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
 * @addr: by end; addresses of IPv4 are mapped
 * @port: by end
 * @reserved: 0
 */
struct l5_ends {
	struct in6_addr addr[2];
	__be16 port[2];
	u32 reserved;
};

/**
 * struct l5_slot - a work request that may be outstanding
 * @cqe: its completion
 * @rd: of this end
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
 * @n: how many pages
 * @dir: of the DMA
 */
struct l5_region {
	struct ib_mr *mr;
	struct scatterlist *sg;
	int n;
	enum dma_data_direction dir;
};

/**
 * struct l5_rdma - what an end has of RDMA
 * @far: the end itself
 * @token: of the end's @key, in a question for this end
 * @ends: the addresses of the TCP connection, once the end's @key is known
 * @qpn: number of the own queue pair, once the peer was told
 * @peer_qpn: number of the peer's queue pair
 * @cm_listener: where this end is asked, as long as it may be
 * @node: among the questions that came too early
 * @turn: the destination, from the wish to ask it to the answer
 * @turn_node: among the questions that wait for their turn there
 * @since: jiffies when this object was made: of a client, to ask
 * @src: own address
 * @dst: the peer's
 * @uid: of the user that asks
 * @early_from: of a question that came too early: the host that it counts for
 * @id: the connection manager's
 * @hello: what the peer said
 * @answered: this end was asked, and has answered or tried to
 * @pd: protection domain
 * @cq: completions of both queues
 * @tx: the ring this end writes, to be read by the device
 * @rx: the ring the peer writes, to be written by the device
 * @box: this end's byte in the mailbox
 * @inline_max: bytes that a work request may have in itself
 * @safe: ways that this end has stated to be safe, bits by L5_NOTIFY_*
 * @msgs_dma: address of the end's @msgs
 * @bufs: memory of receives
 * @bufs_dma: address of @bufs
 * @rq: number of receives
 * @buf_len: of one receive
 * @slots: outstanding work requests by number
 * @recvs: posted receives
 * @reg_cqe: completion of a registration
 * @drain_cqe: of the last request in each queue; it is here, since the
 *	completion may come late
 * @drained: these last requests are complete
 */
struct l5_rdma {
	struct l5_far far;
	u64 token;
	struct l5_ends ends;
	u32 qpn;
	u32 peer_qpn;
	struct l5_cm_listener *cm_listener;
	struct hlist_node node;
	struct l5_cm_turn *turn;
	struct list_head turn_node;
	unsigned long since;
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
	kuid_t uid;
	u8 early_from;
	struct rdma_cm_id *id;
	struct l5_hello hello;
	bool answered;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct l5_region tx;
	struct l5_region rx;
	struct l5_region box;
	u32 inline_max;
	u8 safe;
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
};

static inline struct l5_rdma *l5_rdma_of(struct l5_far *far)
{
	return container_of(far, struct l5_rdma, far);
}

/**
 * struct l5_rdma_sock - what RDMA keeps of a socket, see l5_sock.remote_data
 * @far: what any transport to other hosts does
 * @candidate: of an accepted socket that may be asked for RDMA; for life
 * @cm_listener: of a listener that answers for RDMA
 */
struct l5_rdma_sock {
	struct l5_far_sock far;
	struct l5_candidate *candidate;
	struct l5_cm_listener *cm_listener;
};

static inline struct l5_rdma_sock *l5_rdma_sk(const struct l5_sock *l5)
{
	static_assert(sizeof(struct l5_rdma_sock) <= sizeof(l5->remote_data));

	return (struct l5_rdma_sock *)l5->remote_data;
}

/* Devices whose packets are made by a CPU of this host */
static inline bool l5_rdma_software(const struct ib_device *dev)
{
	return dev->ops.driver_id == RDMA_DRIVER_RXE;
}

/**
 * l5_rdma_wants() - may a socket ask for RDMA, or be asked?
 * @l5: the socket
 */
static inline bool l5_rdma_wants(const struct l5_sock *l5)
{
	int want = READ_ONCE(l5->remote_want), force = READ_ONCE(l5->force);

	if (want < 0)
		want = READ_ONCE(l5->ln->rdma);
	return want && l5->bops->routed &&
	       force != L5_TRANSPORT_BASE && force != L5_TRANSPORT_SHM;
}

/* addr.c */
void l5_rdma_addr(const struct sock *sk, struct sockaddr_storage *to,
		  bool peer);
bool l5_rdma_loopback(const struct sockaddr_storage *a);
void l5_ends_of(const struct sock *sk, int end, struct l5_ends *ends);

/* dev.c */

/**
 * struct l5_place - an address that a device speaks for
 * @addr: the address, port 0
 * @ifindex: the interface that has it
 */
struct l5_place {
	struct sockaddr_storage addr;
	int ifindex;
};

int l5_rdma_dev_init(void (*changed)(void));
void l5_rdma_dev_exit(void);
bool l5_rdma_reaches(const struct sock *sk);
int l5_rdma_places(struct net *net, struct l5_place *to, int max);
bool l5_rdma_place_of(const struct ib_device *ib, struct net *net,
		      struct l5_place *place);
bool l5_rdma_coherent(struct ib_device *ib, u64 dma, phys_addr_t at);
void l5_rdma_unfit(const struct ib_device *ib);

/* guard.c */
u8 l5_guard(const struct sock *sk);
u8 l5_guard_again(struct sock *sk);
u8 l5_guard_way(const struct rdma_cm_id *id);

/* seal.c */
u64 l5_token(u64 key);
bool l5_seal_way(const struct rdma_cm_id *id, const struct l5_ends *ends);
void l5_seal_make(struct l5_rdma *rd, struct l5_hello *hello);
bool l5_seal_good(const struct l5_rdma *rd, const struct l5_hello *hello,
		  u32 qpn);

/* order.c */
u8 l5_order_safe(const struct l5_rdma *rd);
u8 l5_order_way(u8 wish, u8 safe);
bool l5_order_valid(const struct l5_hello *hello);
void l5_order_agree(struct l5_rdma *rd);

/* wr.c */
void l5_rdma_wc_error(struct l5_rdma *rd, const struct ib_wc *wc);
int l5_rdma_post_wr(struct l5_rdma *rd, const struct l5_wr *w, int n);
int l5_rdma_post_recv(struct l5_rdma *rd, u32 i);

/* qp.c */
struct l5_rdma *l5_rdma_alloc(struct l5_net *ln,
			      const struct l5_wire_ops *wire, gfp_t gfp);
int l5_rdma_create(struct l5_rdma *rd);
void l5_rdma_hello(struct l5_rdma *rd, struct l5_hello *hello);
int l5_rdma_rings(struct l5_rdma *rd, u32 client, u32 server);
int l5_rdma_up(struct l5_rdma *rd);
void l5_rdma_drain(struct l5_rdma *rd);
void l5_rdma_destroy(struct l5_rdma *rd);
u32 l5_rdma_max_size(const struct l5_rdma *rd);

/* cm_listen.c */

/**
 * typedef l5_cm_asked_fn - a question came
 * @ln: the namespace of the listener
 * @id: the question's cm id, not accepted yet
 * @p: what the question brings
 *
 * Context: that of the connection manager's handlers.
 * Return: 0, or an error and then @id is of no more use.
 */
typedef int (*l5_cm_asked_fn)(struct l5_net *ln, struct rdma_cm_id *id,
			      const struct rdma_conn_param *p);

int l5_cm_listen_init(l5_cm_asked_fn asked);
void l5_cm_listen_exit(void);
void l5_cm_listen(struct l5_sock *l5);
void l5_cm_unlisten(struct l5_sock *l5);
struct l5_cm_listener *l5_cm_listener_get(struct l5_sock *listener,
					  const struct sock *bsk);
void l5_cm_listener_put(struct l5_cm_listener *cl);

/* cm_cache.c */
u64 l5_cm_cache_who(const struct net *net, const struct sockaddr_storage *to,
		    kuid_t uid);
u8 l5_cm_cache_look(const struct net *net, const struct sockaddr_storage *to,
		    kuid_t uid);
void l5_cm_cache_keep(struct l5_rdma *rd, const struct net *net, u8 reason);
void l5_cm_cache_drop(const struct l5_rdma *rd, const struct net *net);

/* cm_turn.c */
int l5_cm_turn_take(struct l5_rdma *rd, u64 who);
void l5_cm_turn_leave(struct l5_rdma *rd);

/* cm_event.c */
void l5_cm_fail(struct l5_rdma *rd, u8 reason);
u8 l5_cm_why(int err);
void l5_cm_timers(struct l5_rdma *rd);
bool l5_hello_valid(const struct l5_hello *h, size_t len);
bool l5_cm_fits(const struct rdma_cm_id *id);
int l5_cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event);
void l5_cm_hold(struct l5_rdma *rd, struct rdma_cm_id *id);

/* candidate.c */
int l5_candidate_init(void);
void l5_candidate_exit(void);
bool l5_candidate_may_move(const struct l5_sock *l5);
enum l5_tx l5_candidate_tx_begin(struct l5_sock *l5);
void l5_candidate_tx_end(struct l5_sock *l5);
int l5_candidate_asked(struct l5_net *ln, struct rdma_cm_id *id,
		       const struct rdma_conn_param *p,
		       const struct l5_wire_ops *wire, struct l5_rdma **found);
void l5_candidate_begin(struct l5_sock *l5, u64 key, struct l5_sock *listener,
			struct l5_cm_listener *cl,
			const struct l5_transport_ops *t);
bool l5_candidate_end(struct l5_sock *l5);
void l5_candidate_free(struct l5_sock *l5);
void l5_rdma_forget(struct l5_rdma *rd);

/* cm.c */
int l5_cm_init(void);
void l5_cm_exit(void);
enum l5_reason l5_cm_ask(struct l5_sock *l5, const struct l5_transport_ops *t);
void l5_cm_accepted(struct l5_sock *l5, struct l5_sock *listener,
		    const struct l5_transport_ops *t);

/* transport.c */
extern const struct l5_transport_ops l5_rdma_transport;

#endif /* L5_RDMA_H */
