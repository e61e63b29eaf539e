/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_L5 between hosts: the protocol of two ends that keep their rings alike,
 * whatever carries the bytes. Each file uses those before it:
 *
 *   phase.c     how far an end is, and the steps it may take
 *   life.c      the object of an end, and how its work is asked for
 *   mailbox.c   a byte for each connection: has it something?
 *   batch.c     what is to be sent, as work requests
 *   record.c    records in the rings of an end
 *   ways.c      the ways to publish records
 *   ring.c      keeps the rings of both hosts alike
 *   poller.c    sends for processes that do not want to call
 *   sock.c      the socket of an end, and its lock
 *   spill.c     makes room though a reader does not read
 *   fin.c       ends TCP's stream
 *   handover.c  takes the bytes from TCP to the rings
 *   hear.c      what the peer says
 *   link.c      an end as the rings see it
 *   work.c      the work of an end: all that sleeps
 *
 * What carries the bytes is a wire, &struct l5_wire_ops: it takes work
 * requests, and tells of what arrived and what is complete. It keeps the order
 * of what is sent one way. The files here include nothing of a wire; the wire
 * includes this header.
 *
 * l5_far is an end of a connection, from the question to the end of its wire,
 * which has it in an object of its own. Referenced by its l5_sock, by its wire,
 * by its l5_conn, by each work that is queued. While there is a wire its l5_far
 * references the l5_conn, whose pages the wire writes and reads; so the pages
 * outlive the socket until all has been sent.
 *
 * Everything that sleeps is done by one work per l5_far, which the workqueue
 * never runs twice at a time. l5_far_do() asks for it. Memory that the work
 * allocates is charged to @payer's memory cgroup.
 *
 * Locks, inside those of l5.h and those of a wire
 *
 *   l5_far.lock          (spin, bh) its flags, its phases, its socket, what it
 *                        sends. Completions and arrivals come in softirq
 *                        context and take it
 */
#ifndef L5_FAR_H
#define L5_FAR_H

#include "../conn.h"
#include "../end.h"
#include "../fold.h"
#include "../netns.h"
#include "../pages.h"
#include "../ring.h"
#include "../state.h"
#include "../transport.h"
#include "../view.h"
#include "phase.h"

struct l5_far;
struct l5_mailbox;

/*
 * Bits of l5_far.flags: what comes in any order, and so is no phase of
 * l5_far.ph.
 */
#define L5_FAR_OPEN	0	/* the connection may yet move */
#define L5_FAR_READY	1	/* the peer was told that it may write here */
#define L5_FAR_PEER	2	/* the peer told this end the same */
#define L5_FAR_RX_OVER	3	/* the peer's bytes on TCP were all read */
#define L5_FAR_ARM	4	/* this end asked for a wake, none came yet */
#define L5_FAR_PEER_ARM	5	/* the peer asked for a wake */
#define L5_FAR_ROOM	6	/* this end asked for room, no answer yet */
#define L5_FAR_COUNTED	7	/* it counts, see l5_remote_charge() */
#define L5_FAR_FIN_WAITS	8	/* a FIN is to be sent, see fin.c */

/* Bits of l5_far.todo */
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
#define L5_DO_SPILL	11

/* Most work requests outstanding, and those kept for messages. */
#define L5_SQ		64
#define L5_SQ_KEPT	12
/* Work requests kept for messages that are not questions for room. */
#define L5_SQ_OTHERS	8
/* One of so many work requests reports its completion. */
#define L5_SIGNAL	16
/*
 * A device counts as stuck if, this long after it should have failed a request,
 * the request is neither done nor failed.
 */
#define L5_STUCK	(15 * HZ)
/* How often an end looks after a peer that it is waiting for. */
#define L5_TICK		(2 * HZ)
/* Longest pause until work that was put off is tried again; pauses double. */
#define L5_PAUSE_MOST	(HZ / 2)

/**
 * struct l5_waited - how long an end has waited for its peer, while it could
 *	have heard the peer
 * @last: jiffies of the last look, 0 if there was none
 * @sum: jiffies that count, up to there
 *
 * A kernel that stands still hears nothing, and its clock goes on: a virtual
 * machine that is moved, or whose host has no processor to spare. All that
 * waits for a time is due afterwards, before an answer that is long there is
 * heard. So no more of a time counts than what an end lets pass between two
 * looks.
 */
struct l5_waited {
	unsigned long last;
	unsigned long sum;
};

/**
 * l5_waited_begin() - an end begins to wait for something
 * @w: of that
 */
static inline void l5_waited_begin(struct l5_waited *w)
{
	w->last = jiffies ?: 1;
	w->sum = 0;
}

/**
 * l5_waited() - how long has an end waited?
 * @w: of that; if it is zeroes it begins now
 * @pause: jiffies after which the end looks again
 *
 * Context: any; one looks at a time: under the end's lock, or in its work.
 * Return: jiffies.
 */
static inline unsigned long l5_waited(struct l5_waited *w, unsigned long pause)
{
	unsigned long now = jiffies ?: 1;

	if (w->last)
		w->sum += min(now - w->last, pause);
	w->last = now;
	return w->sum;
}

/* What a message says. */
enum l5_msg_type {
	L5_MSG_READY = 1,	/* write into my ring from now on */
	L5_MSG_CUT,		/* pos: my last byte on TCP was before it */
	L5_MSG_CUT_ACK,		/* I know */
	L5_MSG_ARM,		/* wake me when there is more than up to pos */
	L5_MSG_WAKE,		/* there is more now */
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

/* With L5_NOTIFY_SEND a message brings so many bytes of the ring. */
#define L5_MSG_BYTES	4064u

/* With L5_NOTIFY_IMM so many bytes of it go at once, or one record. */
#define L5_IMM_SPAN	65536

/* Work requests of a batch at most, and parts of one. */
#define L5_BATCH	5
#define L5_SEGS		3

/**
 * struct l5_seg - bytes that go with a work request
 * @ring: they are in the own ring, else in the memory of messages
 * @off: their place there
 * @len: how many
 */
struct l5_seg {
	bool ring;
	u32 off;
	u32 len;
};

/* Of l5_wr.op: write there; the same, and tell of it; send a message. */
enum l5_wr_op {
	L5_WR_WRITE,
	L5_WR_WRITE_IMM,
	L5_WR_SEND,
};

/**
 * struct l5_wr - a work request: what the peer is to get
 * @op: &enum l5_wr_op
 * @mailbox: writes the byte in the peer's mailbox, and no ring
 * @signal: its completion is to be told
 * @n: parts in @seg
 * @seq: its number
 * @off: where the bytes go to in the peer's copy of the ring
 * @imm: what the peer is told
 * @seg: the bytes
 */
struct l5_wr {
	u8 op;
	bool mailbox;
	bool signal;
	u8 n;
	u32 seq;
	u32 off;
	u32 imm;
	struct l5_seg seg[L5_SEGS];
};

/**
 * struct l5_batch - work requests that are posted together
 * @wr: the requests
 * @n: how many
 */
struct l5_batch {
	struct l5_wr wr[L5_BATCH];
	int n;
};

/**
 * struct l5_way_ops - a way to publish records to another host
 * @told: the receiver's kernel hears of each batch, so it need not ask
 * @stamps: header words come with stamps, see l5_late_stamp()
 * @end: the batch that goes next, of what is published up to a tail. Return:
 *	where it ends, 0 if the words of a process make no sense
 * @cost: work requests that a batch up to an end takes at most
 * @send: send the batch up to an end
 * @got_imm: a batch came, with immediate data; NULL if this way has none, so
 *	that a WRITE with immediate data is a wake
 * @got_data: bytes came with a message, as many as it says; NULL if none may
 *
 * What sends is called with the end's lock held, what hears in softirq.
 */
struct l5_way_ops {
	bool told;
	bool stamps;
	u64 (*end)(struct l5_far *far, u64 tail);
	u32 (*cost)(const struct l5_far *far, u64 end);
	void (*send)(struct l5_far *far, u64 end);
	void (*got_imm)(struct l5_far *far, u32 imm);
	void (*got_data)(struct l5_far *far, const struct l5_msg *msg);
};

/**
 * struct l5_wire_ops - what carries bytes and messages to the peer
 * @post: send work requests, in their order and behind all before them, as one
 *	if net.l5.rdma_chain says so. l5_far_completed() follows for those with
 *	@signal, in order; l5_far_got_msg() or l5_far_got_imm() at the peer.
 *	Context: any, the end's lock held. Return: 0, or why the wire is dead
 * @work: do what has to be done of L5_DO_ASK, L5_DO_ACCEPT and L5_DO_UP, and
 *	l5_far_up() at the end of it. Context: the end's work. Return: 0 or why
 *	not, then the connection stays on TCP
 * @expired: the time of l5_far_expire() is over, and the wire is not up.
 *	Context: the end's work. Return: bits by L5_DO_* that are due
 * @stay: the connection is to stay on TCP, for the error of @work. Context: the
 *	end's work
 * @quiet: the end dies: from here on no event makes anything that would have to
 *	be given back. Context: the end's work
 * @drain: send no more, and hear all that has come. Context: the end's work
 * @destroy: give back all that the wire has. Context: the end's work
 * @late: the end's work, after its end. Context: the end's work
 * @free: the last reference is gone; RCU's grace period is over
 */
struct l5_wire_ops {
	int (*post)(struct l5_far *far, const struct l5_wr *w, int n);
	int (*work)(struct l5_far *far, unsigned long todo);
	unsigned long (*expired)(struct l5_far *far);
	void (*stay)(struct l5_far *far, int err);
	void (*quiet)(struct l5_far *far);
	void (*drain)(struct l5_far *far);
	void (*destroy)(struct l5_far *far);
	void (*late)(struct l5_far *far);
	void (*free)(struct l5_far *far);
};

/**
 * struct l5_far - an end of a connection that goes to another host, or may
 * @wire: what carries its bytes
 * @ref: see the top of this file
 * @lock: see the top of this file
 * @ph: how far this end is, see phase.h
 * @flags: L5_FAR_*, changed by atomic steps. All but these change under @lock:
 *	L5_FAR_PEER is set once, by what the peer says; L5_FAR_ARM and
 *	L5_FAR_ROOM are cleared by it, and the wake that follows orders that;
 *	L5_FAR_COUNTED is the work's; L5_FAR_FIN_WAITS is set once, and the work
 *	looks after that
 * @l5: the socket, NULL once it is gone, or as long as there is none yet
 * @ln: its namespace's part; it is there as long as a socket or a wire is
 * @conn: the rings, as soon as they are needed
 * @end: index of this end in @conn
 * @payer: pays for the rings, and for all else; known once there is a socket
 * @key: the secret of the TCP connection, as both see it
 * @work: see the top of this file
 * @todo: L5_DO_*
 * @expire: when the question has taken too long
 * @again: does what was put off
 * @later: L5_DO_* that were put off
 * @pause: jiffies that work was last put off for, 0 if it was not
 * @abort: the bootstrap that is to be ended, a reference, or NULL
 * @boot: the bootstrap that a closed socket has left to this, or NULL
 * @fin_waited: how long a FIN has waited
 * @all_by_tcp: when the wire was over: this end had cut, and sends no more, and
 *	never sent by the ring
 * @timeout: jiffies, net.l5.rdma_timeout_ms as it was when this was made
 * @ended: the work has seen to the end of this object
 * @bye: &enum l5_reason to stay on TCP
 * @err: why the wire died, as errno
 * @mailbox: the mailbox, or NULL
 * @slot_no: number of the byte there
 * @box_over: the device does not know the byte any more
 * @notify: how this end publishes, L5_NOTIFY_*; until the peer's hello is
 *	known how this end would like to publish
 * @peer_notify: how the peer publishes
 * @msgs: memory of messages and header words that are to be sent, by slot
 * @posted: number of the next work request
 * @done: number up to which work requests are complete
 * @signaled: number after the last work request that will report
 * @close_no: number of the request that says L5_MSG_CLOSE
 * @sent: the ring is the peer's up to this position
 * @fin_pos: where the peer's stream ends, once the peer sent its FIN
 * @imm_pos: position of the next record of a peer that sends L5_NOTIFY_IMM
 * @tx_users: senders inside TCP
 * @cut_seq: TCP's sequence number where this end's bytes end there
 * @rx_cut_seq: TCP's sequence number where the peer's bytes end there
 * @rx_late: TCP has not brought all bytes up to there, and wakes nobody when it
 *	has, if a reader waits for more
 * @cut_waited: for the answer to a cut
 * @end_waited: for the end of the stream, since TCP's end was seen
 * @arm_pos: where the receiver saw no more
 * @peer_arm: where the peer's receiver saw no more
 * @peer_arm_sent: @sent then
 * @peer_arms: how often it said the same in a row
 * @room_low: bytes unread that the peer waits for
 * @ask_low: bytes unread that this end waits for
 * @close_waited: how long the end was put off for bytes not acknowledged
 * @spilled: the reader has bytes that were copied, see spill.c; @told is good
 * @told: the position that the peer takes for the reader's
 * @full: the peer waits for room, and the reader is watched
 * @full_tries: how often its bytes were to be copied, in vain
 * @full_pos: where the reader was then, to the byte
 * @full_since: jiffies when it was first seen there
 * @full_last: where it was when its bytes were last copied
 * @full_times: how often that was done where the reader stood still
 * @spill: looks at the reader again; this and the eight before it under @lock
 * @probe_no: number after a request for room that is not complete
 * @probe_waited: for that request
 * @stuck: the device has not even failed that request
 * @wait: where tasks wait for CUT_ACK, and for the send queue to be done
 * @poll_node: in the poller's list
 * @info: counters
 * @rcu: delays the end
 * @peer_box: the peer has a byte of a mailbox, to be set behind each batch
 */
struct l5_far {
	const struct l5_wire_ops *wire;
	refcount_t ref;
	spinlock_t lock;
	struct l5_phases ph;
	unsigned long flags;
	struct l5_sock *l5;
	struct l5_net *ln;
	struct l5_conn *conn;
	int end;
	struct l5_payer payer;
	u64 key;
	struct work_struct work;
	unsigned long todo;
	struct delayed_work expire;
	struct delayed_work again;
	unsigned long later;
	unsigned long pause;
	struct sock *abort;
	struct socket *boot;
	struct l5_waited fin_waited;
	bool all_by_tcp;
	unsigned long timeout;
	bool ended;
	u8 bye;
	int err;
	struct l5_mailbox *mailbox;
	int slot_no;
	bool box_over;
	u8 notify;
	u8 peer_notify;
	void *msgs;
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
	bool rx_late;
	struct l5_waited cut_waited;
	struct l5_waited end_waited;
	u64 arm_pos;
	u64 peer_arm;
	u64 peer_arm_sent;
	unsigned int peer_arms;
	u32 room_low;
	u32 ask_low;
	bool spilled;
	bool full;
	u8 full_tries;
	u8 full_times;
	u64 told;
	u64 full_pos;
	unsigned long full_since;
	u64 full_last;
	struct delayed_work spill;
	u32 probe_no;
	struct l5_waited probe_waited;
	bool stuck;
	struct l5_waited close_waited;
	wait_queue_head_t wait;
	struct list_head poll_node;
	struct l5_rdma_info info;
	struct rcu_head rcu;
	bool peer_box;
};

/**
 * struct l5_far_sock - begins what a transport keeps of a socket, see
 *	l5_sock.remote_data
 * @far: the end, NULL as long as there is no question; for life
 * @mailbox: of a listener whose mailbox was mapped
 */
struct l5_far_sock {
	struct l5_far *far;
	struct l5_mailbox *mailbox;
};

/**
 * l5_far_sk() - find what kmod/far keeps of a socket
 * @l5: a socket whose transport begins its l5_sock.remote_data with that, or
 *	that has none
 *
 * Return: that, zeroes at first.
 */
static inline struct l5_far_sock *l5_far_sk(const struct l5_sock *l5)
{
	return (struct l5_far_sock *)l5->remote_data;
}

/**
 * l5_far_of() - find the end of a socket's connection to another host
 * @l5: a socket that may move
 *
 * Context: any.
 * Return: the end, whole; NULL if there is none yet.
 */
static inline struct l5_far *l5_far_of(const struct l5_sock *l5)
{
	/* Y, pairs with l5_cm_ask() and l5_far_got_socket() */
	return smp_load_acquire(&l5_far_sk(l5)->far);
}

/**
 * l5_far_is() - is a flag set?
 * @far: of this end
 * @flag: L5_FAR_*
 *
 * Context: any.
 */
static inline bool l5_far_is(const struct l5_far *far, int flag)
{
	return test_bit(flag, &far->flags);
}

/**
 * l5_far_asked() - was this end asked, and not the one that asks?
 * @far: of this end
 *
 * Context: any.
 */
static inline bool l5_far_asked(const struct l5_far *far)
{
	return far->end == L5_SERVER;
}

/**
 * l5_far_patience() - how long to wait for what a network in trouble delays
 * @far: of this end
 * @least: jiffies in any case
 *
 * The question, or what else is waited for, may take as long as the wire
 * keeps trying, and so may the answer.
 *
 * Return: jiffies.
 */
static inline unsigned long l5_far_patience(const struct l5_far *far,
					    unsigned long least)
{
	return max(least, 2 * far->timeout);
}

/**
 * l5_sq_free() - how many work requests may yet be posted
 * @far: of this end
 *
 * Context: far->lock held, or the answer is one of the moment.
 */
static inline u32 l5_sq_free(const struct l5_far *far)
{
	return L5_SQ - (far->posted - far->done);
}

/* life.c */
void l5_life_init(struct l5_far *far, void (*work)(struct work_struct *w));
void l5_far_put(struct l5_far *far);
void l5_far_hold(struct l5_far *far);
void l5_far_let_go(struct l5_far *far);
void l5_far_do(struct l5_far *far, int what);
void l5_far_expire(struct l5_far *far, unsigned long delay);
void l5_far_in_time(struct l5_far *far);
void l5_far_put_off(struct l5_far *far, int what);
void l5_far_dead(struct l5_far *far, int err);
bool l5_far_leaving(void);
void l5_far_exit(void);

/* mailbox.c */
int l5_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma);
void l5_mailbox_revoke(struct l5_sock *l5);
void l5_mailbox_release(struct l5_sock *l5);
void l5_mailbox_get_slot(struct l5_far *far);
void l5_mailbox_put_slot(struct l5_far *far);
void l5_mailbox_leave(struct l5_far *far);
struct page *l5_mailbox_page(struct l5_mailbox *box);
void l5_mailbox_set(struct l5_far *far);
struct l5_mailbox *l5_mailbox_get(struct l5_sock *listener);
void l5_mailbox_put(struct l5_mailbox *box);

/* batch.c */
struct l5_wr *l5_batch_add(struct l5_far *far, struct l5_batch *b, u8 op);
void l5_wr_ring(struct l5_wr *w, u32 off, u32 len);
void *l5_wr_small(struct l5_far *far, struct l5_wr *w, u32 off, u32 len);
void l5_batch_ring(struct l5_far *far, struct l5_batch *b, u64 pos, u32 len,
		   u64 after);
void l5_batch_show(struct l5_far *far, struct l5_batch *b, struct l5_wr *w);
void l5_batch_post(struct l5_far *far, const struct l5_batch *b);
void l5_far_msg(struct l5_far *far, u32 type, u32 arg, u64 pos);
bool l5_far_sends(const struct l5_far *far);
void l5_far_say(struct l5_far *far, u32 type, u32 arg, u64 pos);
bool l5_far_wakes(struct l5_far *far);

/* record.c */
void *l5_far_at(struct l5_end *ring, u64 pos);
u64 *l5_far_word(struct l5_end *ring, u64 pos);
u64 l5_far_header(struct l5_far *far, u64 pos);
void l5_far_got_wake(struct l5_far *far);
void l5_far_got_record(struct l5_far *far, u64 pos, u32 len);

/* ways.c */
const struct l5_way_ops *l5_way(u8 notify);
bool l5_far_post(struct l5_far *far, u64 tail);

/* ring.c */
u64 l5_far_head(const struct l5_far *far);
u64 l5_far_head_last(const struct l5_far *far);
void l5_far_ask_room(struct l5_far *far, u32 low);
void l5_far_room(struct l5_far *far);
void l5_far_probe(struct l5_far *far);
void l5_far_push_locked(struct l5_far *far);
bool l5_far_flushed(const struct l5_far *far);
void l5_far_completed(struct l5_far *far, u32 seq);

/* poller.c */
bool l5_poller_runs(const struct l5_net *ln);
void l5_poller_set(struct l5_net *ln);
int l5_poller_init(struct l5_net *ln);
void l5_poller_exit(struct l5_net *ln);
void l5_poller_list(struct l5_far *far);
void l5_poller_add(struct l5_far *far);
void l5_poller_del(struct l5_far *far);
void l5_poller_kick(struct l5_net *ln);

/* sock.c */
bool l5_far_sock_lock(struct l5_far *far, struct l5_sock **found);
void l5_far_sock_unlock(struct l5_sock *l5);
bool l5_tcp_broken(const struct sock *bsk);
int l5_far_rx_lost(struct l5_sock *l5, struct l5_far *far);

/* spill.c */
void l5_spill_asked(struct l5_far *far);
void l5_spill_freed(struct l5_far *far, u64 head);
bool l5_spill_work(struct l5_far *far);
void l5_spill_init(struct l5_far *far);
void l5_spill_stop(struct l5_far *far);

/* fin.c */
void l5_fin_wait(struct l5_sock *l5);
bool l5_fin_later(struct l5_sock *l5);
struct socket *l5_fin_prepare(struct l5_far *far, struct socket *boot);
bool l5_fin_keep(struct l5_far *far, struct socket *boot);
bool l5_fin_true(const struct l5_far *far);
bool l5_fin_work(struct l5_far *far);

/* handover.c */
bool l5_far_tx_moved(struct l5_sock *l5);
bool l5_far_rx_moved(struct l5_sock *l5);
bool l5_far_rx_next(struct l5_sock *l5);
int l5_far_tcp_end(struct l5_sock *l5);
void l5_far_rx_look(struct l5_sock *l5);
int l5_handover_stop(struct l5_sock *l5, enum l5_reason why);
void l5_handover_wait(struct l5_sock *l5);
void l5_far_abandon(struct l5_sock *l5);
bool l5_far_detach(struct l5_sock *l5, bool reset, struct socket *boot);
bool l5_far_undecided(struct l5_sock *l5);
void l5_far_get_info(struct l5_sock *l5, struct l5_rdma_info *info);
void l5_far_got_socket(struct l5_far *far, struct l5_sock *l5);
bool l5_handover_begin(struct l5_far *far);
void l5_handover_ready(struct l5_far *far);
void l5_handover_cut_in(struct l5_far *far, u32 seq);
void l5_handover_acked(struct l5_far *far);
bool l5_handover_unread(struct l5_far *far);
bool l5_far_tx_begin(struct l5_far *far);
void l5_far_tx_end(struct l5_far *far);
void l5_handover_tick(struct l5_far *far);
void l5_handover_over(struct l5_far *far);
bool l5_handover_abort(struct l5_far *far);
bool l5_handover_unused(struct l5_far *far);

/* hear.c */
void l5_far_heard(struct l5_far *far);
void l5_far_got_msg(struct l5_far *far, const struct l5_msg *msg, u32 len);
void l5_far_got_imm(struct l5_far *far, u32 imm);

/* link.c */
void l5_far_link_set(struct l5_far *far);

/* work.c */
void l5_far_init(struct l5_far *far, struct l5_net *ln,
		 const struct l5_wire_ops *wire);
int l5_far_up(struct l5_far *far);

#endif /* L5_FAR_H */
