// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts, for tests alone: a transport whose other host is this
 * kernel. Two TCP sockets of AF_L5 that are told to use no shared memory
 * (L5_FORCE says L5_TRANSPORT_RDMA) get the rings of two hosts, each end its
 * own, and what kmod/far sends from one to the other goes by a kernel thread.
 * The thread copies as an adapter would: the requests of one end in their
 * order, the words of a WRITE in any, a few at a time; messages wait until they
 * are handled, completions until they are told, and all that is possible is
 * done in an order, and with delays, that follow from a seed.
 *
 * What may happen to a wire is said in /sys/kernel/debug/af_l5, as "one of so
 * many", 0: never:
 *
 *   on          may sockets have wires?
 *   seed        of the next wires
 *   delay_us    a step in four waits for up to so long
 *   stall       steps after which an end's requests wait for a moment
 *   late_head   messages that tell of room, and come late
 *   lost_wake   requests that wake the peer's reader, or ask for that, and do
 *               not get through. As with a queue pair they are sent again, in
 *               their place; after some of these times the wire dies
 *   die         steps that are the wire's last. Some of what is on the wire
 *               still comes, and of the rest nothing; the ends hear of that
 *               one after the other
 *   die_at      the step that is the wire's last, 0: none
 *
 * wires, alive, stalls, late_heads, lost_wakes and deaths there count what has
 * happened. The thread runs among the tasks of the machine, so that a seed says
 * what the wire does and not when: it makes a failure likely to come again, not
 * certain.
 *
 * Locks: l5_thread_lock (spin, bh) guards the clients that wait for accept(),
 * and which wire an end has; l5_wire.lock (mutex) all that the thread does, and
 * comes before l5_far.lock. What an end posts is guarded by l5_far.lock.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "../../kmod/bootstrap.h"
#include "../../kmod/far/far.h"
#include "wr.h"

/* Messages that have come and were not handled, of an end. */
#define L5_TH_RQ	16
/* How long a client waits until it is accepted, and a server for its word. */
#define L5_TH_PATIENCE	(10 * HZ)

static struct {
	bool on;
	u64 seed;
	u32 delay_us;
	u32 stall;
	u32 late_head;
	u32 lost_wake;
	u32 die;
	u32 die_at;
} l5_th;

static atomic_t l5_th_wires, l5_th_alive, l5_th_stalls, l5_th_late_heads;
static atomic_t l5_th_lost_wakes, l5_th_deaths;
static struct dentry *l5_th_dir;

/* What has come to an end: immediate data, or a message of @len bytes. */
struct l5_th_msg {
	bool imm;
	u32 data;
	u32 len;
	u64 bytes[(sizeof(struct l5_msg) + L5_MSG_BYTES) / sizeof(u64)];
};

/**
 * struct l5_th_end - an end, and its half of a wire
 * @far: the end itself
 * @net: its namespace, which stays as long as the wire does
 * @node: among the clients that wait for accept()
 * @wire: NULL until the server is accepted
 * @device: the pages of the peer's ring, as an adapter is given them
 * @sq: what it has posted, by number
 * @last: number after the last of them
 * @first: the first that has not landed
 * @part: words of that one that have
 * @back: they land from the last to the first
 * @rq: what has come
 * @rq_first: the first there
 * @rq_last: after the last there
 * @cq: numbers of requests that are complete and are to be told
 * @cq_first: the first there
 * @cq_last: after the last there
 * @sends_at: jiffies until which nothing lands of it
 * @hears_at: jiffies until which it hears nothing
 * @up: it was told that the wire is there
 * @told: it was told that the wire is dead, or is dead itself
 */
struct l5_th_end {
	struct l5_far far;
	struct net *net;
	struct list_head node;
	struct l5_wire *wire;
	struct l5_pages *device;
	struct l5_wr sq[L5_SQ];
	u32 last;
	u32 first;
	u32 part;
	bool back;
	struct l5_th_msg *rq;
	u32 rq_first;
	u32 rq_last;
	u32 cq[L5_SQ];
	u32 cq_first;
	u32 cq_last;
	unsigned long sends_at;
	unsigned long hears_at;
	bool up;
	bool told;
};

/**
 * struct l5_wire - between two ends
 * @ref: of each end that is not destroyed
 * @lock: see the top of this file
 * @end: the ends, client first; NULL once one is destroyed
 * @size: of both rings, by the end that writes
 * @task: the thread, NULL until the server has answered
 * @wait: where it waits
 * @kick: there may be something to do
 * @rnd: what the seed has become
 * @steps: so far
 * @dead: nothing lands any more
 * @err: why, as the ends are told
 */
struct l5_wire {
	refcount_t ref;
	struct mutex lock;
	struct l5_th_end *end[2];
	u32 size[2];
	struct task_struct *task;
	wait_queue_head_t wait;
	bool kick;
	u64 rnd;
	u32 steps;
	bool dead;
	int err;
};

static DEFINE_SPINLOCK(l5_thread_lock);
static LIST_HEAD(l5_th_clients);

static struct l5_th_end *l5_th_of(struct l5_far *far)
{
	return container_of(far, struct l5_th_end, far);
}

/* splitmix64 */
static u32 l5_th_rnd(struct l5_wire *wire, u32 n)
{
	u64 z = (wire->rnd += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return ((z ^ z >> 31) >> 32) * n >> 32;
}

static bool l5_th_one_in(struct l5_wire *wire, const u32 *knob)
{
	u32 n = READ_ONCE(*knob);

	return n && !l5_th_rnd(wire, n);
}

static void l5_th_kick(struct l5_wire *wire)
{
	WRITE_ONCE(wire->kick, true);
	wake_up(&wire->wait);
}

/* What lands */

/* The word of a request that is @at bytes behind its beginning. */
static u64 l5_wr_word(const struct l5_th_end *e, const struct l5_wr *w, u32 at)
{
	const struct l5_seg *s = w->seg;

	while (at >= s->len)
		at -= s++->len;
	return READ_ONCE(*(s->ring ?
			   l5_far_word(&e->far.conn->end[e->far.end],
				       s->off + at) :
			   (u64 *)(e->far.msgs + s->off + at)));
}

/* Some words of a WRITE land. Return: whether that was all of it. */
static bool l5_th_write(struct l5_wire *wire, struct l5_th_end *from,
			const struct l5_wr *w)
{
	struct l5_th_end *to = wire->end[!from->far.end];
	u32 words = l5_wr_len(w) / L5_HDR, upto;

	/* L5_NOTIFY_ONE is only used where the words land in their order */
	if (!from->part)
		from->back = from->far.notify != L5_NOTIFY_ONE &&
			     l5_th_rnd(wire, 2);
	upto = min(from->part + 1 + l5_th_rnd(wire, words), words);
	for (; from->part < upto; from->part++) {
		u32 n = from->back ? words - 1 - from->part : from->part;
		u32 off = w->off + n * L5_HDR;
		void *page = page_address(to->device->at[off >> PAGE_SHIFT]);

		/* after all that landed before */
		smp_store_release((u64 *)(page + offset_in_page(off)),
				  l5_wr_word(from, w, n * L5_HDR));
	}
	return from->part == words;
}

static void l5_th_arrive(struct l5_th_end *to, const struct l5_th_end *from,
			 const struct l5_wr *w)
{
	struct l5_th_msg *m = &to->rq[to->rq_last++ % L5_TH_RQ];
	u32 i;

	m->imm = w->op == L5_WR_WRITE_IMM;
	m->data = w->imm;
	m->len = m->imm ? 0 : l5_wr_len(w);
	for (i = 0; i < m->len / sizeof(u64); i++)
		m->bytes[i] = l5_wr_word(from, w, i * sizeof(u64));
}

static bool l5_th_lands(const struct l5_wire *wire, const struct l5_th_end *e)
{
	const struct l5_th_end *to = wire->end[!e->far.end];

	return !wire->dead && to && e->first != smp_load_acquire(&e->last) &&
	       to->rq_last - to->rq_first < L5_TH_RQ;
}

static void l5_th_land(struct l5_wire *wire, struct l5_th_end *e)
{
	const struct l5_wr *w = &e->sq[e->first % L5_SQ];

	if (w->op != L5_WR_SEND && !l5_th_write(wire, e, w))
		return;
	if (w->op != L5_WR_WRITE)
		l5_th_arrive(wire->end[!e->far.end], e, w);
	e->part = 0;
	if (w->signal)
		e->cq[e->cq_last++ % L5_SQ] = w->seq;
	e->first++;
}

/* The wire dies: some of what is on it has come, and of the rest nothing. */
static void l5_th_die(struct l5_wire *wire, int err)
{
	int i;

	lockdep_assert_held(&wire->lock);
	if (wire->dead)
		return;
	for (i = 0; i < 2 && wire->task; i++) {
		struct l5_th_end *e = wire->end[i];

		while (e && l5_th_lands(wire, e) && l5_th_rnd(wire, 4))
			l5_th_land(wire, e);
		if (e && l5_th_rnd(wire, 2))
			e->hears_at = jiffies + l5_th_rnd(wire, HZ / 5);
	}
	wire->err = err;
	WRITE_ONCE(wire->dead, true);
}

static void l5_th_dies(struct l5_wire *wire)
{
	atomic_inc(&l5_th_deaths);
	l5_th_die(wire, l5_th_rnd(wire, 2) ? ETIMEDOUT : ECONNRESET);
}

/* What is heard */

static void l5_th_hear(struct l5_th_end *e)
{
	const struct l5_th_msg *m = &e->rq[e->rq_first % L5_TH_RQ];

	local_bh_disable();
	if (m->imm)
		l5_far_got_imm(&e->far, m->data);
	else
		l5_far_got_msg(&e->far, (void *)m->bytes, m->len);
	local_bh_enable();
	e->rq_first++;
}

static void l5_th_complete(struct l5_th_end *e)
{
	local_bh_disable();
	l5_far_completed(&e->far, e->cq[e->cq_first++ % L5_SQ]);
	local_bh_enable();
}

/* The thread, and its steps */

enum l5_th_step { L5_TH_UP, L5_TH_LAND, L5_TH_HEAR, L5_TH_COMPLETE, L5_TH_TELL,
		  L5_TH_STEPS };

static bool l5_th_can(const struct l5_wire *wire, int i, enum l5_th_step step,
		      bool *later)
{
	const struct l5_th_end *e = wire->end[i];
	unsigned long at = jiffies;
	bool can = false;

	if (!e || e->told)
		return false;
	switch (step) {
	case L5_TH_UP:
		return !e->up && !wire->dead;
	case L5_TH_LAND:
		can = l5_th_lands(wire, e);
		at = e->sends_at;
		break;
	case L5_TH_HEAR:
		can = e->rq_first != e->rq_last;
		at = e->hears_at;
		break;
	case L5_TH_COMPLETE:
		return e->cq_first != e->cq_last;
	case L5_TH_TELL:
		can = wire->dead && e->rq_first == e->rq_last;
		at = e->hears_at;
		break;
	default:
		break;
	}
	if (can && time_before(jiffies, at)) {
		*later = true;
		can = false;
	}
	return can;
}

/* Does a request not get through, and has to be sent again? */
static bool l5_th_loses(struct l5_wire *wire, struct l5_th_end *e)
{
	const struct l5_wr *w = &e->sq[e->first % L5_SQ];
	u32 type = 0;

	if (w->op == L5_WR_SEND)
		type = (u32)l5_wr_word(e, w, offsetof(struct l5_msg, type));
	if (w->op != L5_WR_WRITE_IMM && type != L5_MSG_ARM &&
	    type != L5_MSG_WAKE)
		return false;
	if (!l5_th_one_in(wire, &l5_th.lost_wake))
		return false;
	atomic_inc(&l5_th_lost_wakes);
	if (!l5_th_rnd(wire, 8))
		l5_th_dies(wire);
	e->sends_at = jiffies + l5_th_rnd(wire, HZ / 20);
	return true;
}

/* Does the word of room come late? */
static bool l5_th_late(struct l5_wire *wire, struct l5_th_end *e)
{
	const struct l5_th_msg *m = &e->rq[e->rq_first % L5_TH_RQ];
	const struct l5_msg *msg = (void *)m->bytes;

	if (m->imm || wire->dead || msg->type != L5_MSG_ROOM ||
	    !l5_th_one_in(wire, &l5_th.late_head))
		return false;
	atomic_inc(&l5_th_late_heads);
	e->hears_at = jiffies + 1 + l5_th_rnd(wire, HZ / 10);
	return true;
}

static void l5_th_take(struct l5_wire *wire, struct l5_th_end *e,
		       enum l5_th_step step)
{
	switch (step) {
	case L5_TH_UP:
		e->up = true;
		l5_far_do(&e->far, L5_DO_UP);
		break;
	case L5_TH_LAND:
		if (l5_th_one_in(wire, &l5_th.stall)) {
			atomic_inc(&l5_th_stalls);
			e->sends_at = jiffies + l5_th_rnd(wire, HZ / 20);
		} else if (!l5_th_loses(wire, e)) {
			l5_th_land(wire, e);
		}
		break;
	case L5_TH_HEAR:
		if (!l5_th_late(wire, e))
			l5_th_hear(e);
		break;
	case L5_TH_COMPLETE:
		l5_th_complete(e);
		break;
	case L5_TH_TELL:
		e->told = true;
		l5_far_dead(&e->far, wire->err);
		break;
	default:
		break;
	}
}

/*
 * One of the steps that are possible. Return: whether there was one; if not,
 * @later says whether time will make one.
 */
static bool l5_th_step(struct l5_wire *wire, bool *later)
{
	int can[2 * L5_TH_STEPS], n = 0, i;

	lockdep_assert_held(&wire->lock);
	for (i = 0; i < 2 * L5_TH_STEPS; i++)
		if (l5_th_can(wire, i & 1, i / 2, later))
			can[n++] = i;
	if (!n)
		return false;
	if (!wire->dead && (++wire->steps == READ_ONCE(l5_th.die_at) ||
			    l5_th_one_in(wire, &l5_th.die))) {
		l5_th_dies(wire);
		return true;
	}
	i = can[l5_th_rnd(wire, n)];
	l5_th_take(wire, wire->end[i & 1], i / 2);
	return true;
}

static int l5_th_run(void *arg)
{
	struct l5_wire *wire = arg;
	bool any, later;
	u32 us, some;

	while (!kthread_should_stop()) {
		later = false;
		mutex_lock(&wire->lock);
		any = l5_th_step(wire, &later);
		some = l5_th_rnd(wire, 4);
		us = READ_ONCE(l5_th.delay_us);
		us = us ? l5_th_rnd(wire, us) : 0;
		mutex_unlock(&wire->lock);
		if (!any)
			wait_event_idle_timeout(wire->wait,
						kthread_should_stop() ||
						xchg(&wire->kick, false),
						later ? 1 : HZ);
		else if (us && !some)
			usleep_range(us, us + 1);
		else
			cond_resched();
	}
	return 0;
}

/* What an end asks of its wire */

static int l5_th_post(struct l5_far *far, const struct l5_wr *w, int n)
{
	struct l5_th_end *e = l5_th_of(far);

	lockdep_assert_held(&far->lock);
	if (READ_ONCE(e->wire->dead))
		return 0;
	for (; n--; w++) {
		e->sq[w->seq % L5_SQ] = *w;
		/* the thread sees the request, and the bytes in the ring */
		smp_store_release(&e->last, w->seq + 1);
	}
	l5_th_kick(e->wire);
	return 0;
}

/* What both ends need before they are up. */
static int l5_th_make(struct l5_th_end *e, struct l5_conn *conn)
{
	struct l5_far *far = &e->far;
	int err;

	if (!l5_remote_charge(&far->payer, far->ln))
		return -EDQUOT;
	set_bit(L5_FAR_COUNTED, &far->flags);
	far->msgs = kcalloc(L5_SQ, sizeof(struct l5_msg), GFP_KERNEL);
	if (!far->msgs)
		return -ENOMEM;
	l5_conn_fix(conn, e->wire->size[L5_CLIENT], e->wire->size[L5_SERVER]);
	err = l5_ring_populate(conn, 0, 0, L5_FOLD_WHOLE);
	e->device = conn->end[!far->end].pages;
	return err;
}

static u8 l5_th_way(struct l5_wire *wire, u8 wish)
{
	return wish == L5_NOTIFY_AUTO ? l5_th_rnd(wire, L5_NOTIFY_AUTO) : wish;
}

/* The thread begins, if both ends are still there. */
static int l5_th_begin(struct l5_wire *wire)
{
	struct l5_far *client, *server;
	struct task_struct *task;
	int i;

	lockdep_assert_held(&wire->lock);
	if (wire->dead)
		return -ECONNRESET;
	for (i = 0; i < 2; i++) {
		wire->end[i]->rq = kvcalloc(L5_TH_RQ, sizeof(struct l5_th_msg),
					    GFP_KERNEL);
		if (!wire->end[i]->rq)
			return -ENOMEM;
	}
	client = &wire->end[L5_CLIENT]->far;
	server = &wire->end[L5_SERVER]->far;
	client->notify = l5_th_way(wire, client->notify);
	server->notify = l5_th_way(wire, server->notify);
	client->peer_notify = server->notify;
	server->peer_notify = client->notify;
	task = kthread_run(l5_th_run, wire, "l5_wire");
	if (IS_ERR(task))
		return PTR_ERR(task);
	wire->task = task;
	atomic_inc(&l5_th_wires);
	return 0;
}

static int l5_th_accept(struct l5_th_end *e)
{
	struct l5_far *far = &e->far;
	struct l5_conn *conn;
	int err;

	conn = l5_conn_make(&far->payer);
	if (IS_ERR(conn))
		return PTR_ERR(conn);
	far->conn = conn;
	err = l5_th_make(e, conn);
	if (err)
		return err;
	l5_far_expire(far, L5_TH_PATIENCE);
	mutex_lock(&e->wire->lock);
	err = l5_th_begin(e->wire);
	mutex_unlock(&e->wire->lock);
	return err;
}

static int l5_th_up(struct l5_th_end *e)
{
	struct l5_far *far = &e->far;
	int err;

	l5_far_in_time(far);
	if (l5_is_dead(&far->ph))
		return 0;
	if (!l5_far_asked(far)) {
		err = l5_th_make(e, far->conn);
		if (err)
			return err;
	}
	refcount_inc(&far->ref);
	l5_far_link_set(far);
	return l5_far_up(far);
}

static int l5_th_work(struct l5_far *far, unsigned long todo)
{
	int err = 0;

	if (todo & BIT(L5_DO_ACCEPT))
		err = l5_th_accept(l5_th_of(far));
	if (todo & BIT(L5_DO_UP) && !err && !l5_far_is(far, L5_FAR_READY))
		err = l5_th_up(l5_th_of(far));
	return err;
}

static void l5_th_fail(struct l5_far *far, u8 reason)
{
	if (!far->bye)
		WRITE_ONCE(far->bye, reason);
	l5_far_dead(far, ECONNRESET);
}

static unsigned long l5_th_expired(struct l5_far *far)
{
	l5_th_fail(far, l5_far_asked(far) ? L5_REASON_RDMA : L5_REASON_SILENT);
	return BIT(L5_DO_END);
}

static void l5_th_stay(struct l5_far *far, int err)
{
	l5_th_fail(far, err == -EDQUOT ? L5_REASON_LIMIT :
			err == -ENOMEM ? L5_REASON_NOMEM : L5_REASON_RDMA);
}

/* From here on no server finds a client. */
static void l5_th_quiet(struct l5_far *far)
{
	spin_lock_bh(&l5_thread_lock);
	list_del_init(&l5_th_of(far)->node);
	spin_unlock_bh(&l5_thread_lock);
}

static void l5_th_drain(struct l5_far *far)
{
	struct l5_th_end *e = l5_th_of(far), *peer;
	struct l5_wire *wire = e->wire;

	if (!wire)
		return;
	mutex_lock(&wire->lock);
	l5_th_die(wire, ECONNRESET);
	while (e->rq_first != e->rq_last)
		l5_th_hear(e);
	e->told = true;
	/* no thread will tell the peer */
	peer = wire->end[!far->end];
	if (peer && !wire->task)
		l5_th_fail(&peer->far, L5_REASON_RDMA);
	mutex_unlock(&wire->lock);
	l5_th_kick(wire);
}

static void l5_th_leave(struct l5_th_end *e)
{
	struct l5_wire *wire = e->wire;
	struct l5_th_msg *rq;

	mutex_lock(&wire->lock);
	wire->end[e->far.end] = NULL;
	rq = e->rq;
	mutex_unlock(&wire->lock);
	kvfree(rq);
	if (!refcount_dec_and_test(&wire->ref))
		return;
	if (wire->task)
		kthread_stop(wire->task);
	kfree(wire);
	atomic_dec(&l5_th_alive);
}

static void l5_th_destroy(struct l5_far *far)
{
	struct l5_th_end *e = l5_th_of(far);

	if (e->wire)
		l5_th_leave(e);
	kfree(far->msgs);
	far->msgs = NULL;
	if (test_and_clear_bit(L5_FAR_COUNTED, &far->flags))
		l5_remote_uncharge(&far->payer, far->ln);
	put_net(e->net);
	l5_far_let_go(far);
}

static void l5_th_late_work(struct l5_far *far)
{
}

static void l5_th_free(struct l5_far *far)
{
	kfree(l5_th_of(far));
}

static const struct l5_wire_ops l5_th_wire_ops = {
	.post		= l5_th_post,
	.work		= l5_th_work,
	.expired	= l5_th_expired,
	.stay		= l5_th_stay,
	.quiet		= l5_th_quiet,
	.drain		= l5_th_drain,
	.destroy	= l5_th_destroy,
	.late		= l5_th_late_work,
	.free		= l5_th_free,
};

/* What sockets ask of the transport */

static bool l5_th_wants(const struct l5_sock *l5)
{
	int want = READ_ONCE(l5->remote_want);

	if (want < 0)
		want = READ_ONCE(l5->ln->rdma);
	return want && READ_ONCE(l5_th.on) && l5->bops->routed &&
	       READ_ONCE(l5->force) == L5_TRANSPORT_RDMA;
}

static struct l5_th_end *l5_th_alloc(struct l5_sock *l5, int end, gfp_t gfp)
{
	struct l5_th_end *e = kzalloc(sizeof(*e), gfp);

	if (!e)
		return NULL;
	l5_far_init(&e->far, l5->ln, &l5_th_wire_ops);
	l5_link_to(&e->far.ph, end == L5_CLIENT ? L5_LINK_ASKING :
						  L5_LINK_ASKED);
	INIT_LIST_HEAD(&e->node);
	e->sends_at = jiffies;
	e->hears_at = jiffies;
	e->net = get_net(sock_net(&l5->sk));
	e->far.end = end;
	l5_far_hold(&e->far);
	return e;
}

static enum l5_reason l5_th_ask(struct l5_sock *l5)
{
	const struct tcp_sock *tp = tcp_sk(l5->boot->sk);
	struct l5_th_end *e;

	if (!l5_th_wants(l5) || l5_far_sk(l5)->far)
		return L5_REASON_PEER;
	e = l5_th_alloc(l5, L5_CLIENT, GFP_ATOMIC);
	if (!e)
		return L5_REASON_NOMEM;
	e->far.key = (u64)tp->write_seq << 32 | READ_ONCE(tp->copied_seq);
	e->far.conn = l5->conn;
	refcount_inc(&l5->conn->ref);
	l5_payer_copy(&e->far.payer, &l5->conn->end[L5_CLIENT].payer);
	l5_conn_wishes(l5->conn, &l5->sk);
	l5_count(l5, L5_STAT_RDMA_ASKED, 1);
	l5_far_got_socket(&e->far, l5);
	smp_store_release(&l5->remote, l5_transports[0]);
	l5_far_expire(&e->far, L5_TH_PATIENCE);
	spin_lock_bh(&l5_thread_lock);
	list_add(&e->node, &l5_th_clients);
	spin_unlock_bh(&l5_thread_lock);
	return L5_REASON_NONE;
}

/* Join a server to the client of the same key, if there is one. */
static bool l5_th_join(struct l5_th_end *server, struct l5_wire *wire)
{
	struct l5_th_end *e, *client = NULL;

	spin_lock_bh(&l5_thread_lock);
	list_for_each_entry(e, &l5_th_clients, node)
		if (e->far.key == server->far.key)
			client = e;
	if (client) {
		list_del_init(&client->node);
		wire->end[L5_CLIENT] = client;
		wire->end[L5_SERVER] = server;
		wire->size[L5_CLIENT] = l5_conn_wish(client->far.conn, true);
		client->wire = wire;
		server->wire = wire;
	}
	spin_unlock_bh(&l5_thread_lock);
	return client;
}

static void l5_th_accepted(struct l5_sock *l5, struct l5_sock *listener)
{
	struct sock *bsk = l5->boot->sk;
	const struct tcp_sock *tp = tcp_sk(bsk);
	struct l5_th_end *e;
	struct l5_wire *wire;

	if (!l5_th_wants(listener))
		return;
	wire = kzalloc(sizeof(*wire), GFP_KERNEL);
	e = l5_th_alloc(l5, L5_SERVER, GFP_KERNEL);
	if (!wire || !e || l5_payer_get(&e->far.payer, l5->ln))
		goto no;
	refcount_set(&wire->ref, 2);
	mutex_init(&wire->lock);
	init_waitqueue_head(&wire->wait);
	wire->rnd = READ_ONCE(l5_th.seed);
	lock_sock(bsk);
	e->far.key = (u64)READ_ONCE(tp->copied_seq) << 32 | tp->write_seq;
	release_sock(bsk);
	wire->size[L5_SERVER] = READ_ONCE(l5->ln->ring_kb) << 10;
	if (!l5_th_join(e, wire))
		goto no;
	atomic_inc(&l5_th_alive);
	/* one reference is the socket's */
	l5_far_got_socket(&e->far, l5);
	smp_store_release(&l5->remote, l5_transports[0]);
	l5_far_do(&e->far, L5_DO_ACCEPT);
	return;

no:
	kfree(wire);
	if (!e)
		return;
	l5_th_destroy(&e->far);
	l5_far_put(&e->far);
}

static bool l5_th_may_move(const struct l5_sock *l5)
{
	const struct l5_far *far = smp_load_acquire(&l5_far_sk(l5)->far);

	return far && l5_far_is(far, L5_FAR_OPEN);
}

static enum l5_tx l5_th_tx_begin(struct l5_sock *l5)
{
	if (!l5_th_may_move(l5))
		return L5_TX_BOOT;
	return l5_far_tx_begin(l5_far_sk(l5)->far) ? L5_TX_COUNTED :
						      L5_TX_RINGS;
}

static void l5_th_tx_end(struct l5_sock *l5)
{
	l5_far_tx_end(l5_far_sk(l5)->far);
}

static bool l5_th_undecided(struct l5_sock *l5)
{
	return l5_th_may_move(l5) && l5_far_undecided(l5);
}

static void l5_th_nothing(struct l5_sock *l5)
{
}

static int l5_th_mailbox_able(const struct l5_sock *l5)
{
	return -EOPNOTSUPP;
}

static int l5_th_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma)
{
	return -EOPNOTSUPP;
}

static int l5_th_init(void)
{
	struct dentry *d = debugfs_create_dir("af_l5", NULL);

	pr_notice("af_l5: a transport for tests alone, in place of RDMA\n");
	l5_th_dir = d;
	debugfs_create_bool("on", 0600, d, &l5_th.on);
	debugfs_create_u64("seed", 0600, d, &l5_th.seed);
	debugfs_create_u32("delay_us", 0600, d, &l5_th.delay_us);
	debugfs_create_u32("stall", 0600, d, &l5_th.stall);
	debugfs_create_u32("late_head", 0600, d, &l5_th.late_head);
	debugfs_create_u32("lost_wake", 0600, d, &l5_th.lost_wake);
	debugfs_create_u32("die", 0600, d, &l5_th.die);
	debugfs_create_u32("die_at", 0600, d, &l5_th.die_at);
	debugfs_create_atomic_t("wires", 0400, d, &l5_th_wires);
	debugfs_create_atomic_t("alive", 0400, d, &l5_th_alive);
	debugfs_create_atomic_t("stalls", 0400, d, &l5_th_stalls);
	debugfs_create_atomic_t("late_heads", 0400, d, &l5_th_late_heads);
	debugfs_create_atomic_t("lost_wakes", 0400, d, &l5_th_lost_wakes);
	debugfs_create_atomic_t("deaths", 0400, d, &l5_th_deaths);
	return 0;
}

static void l5_th_exit(void)
{
	l5_far_exit();
	debugfs_remove(l5_th_dir);
}

static const struct l5_transport_ops l5_th_ops = {
	.init		= l5_th_init,
	.exit		= l5_th_exit,
	.net_init	= l5_poller_init,
	.net_exit	= l5_poller_exit,
	.net_changed	= l5_poller_set,
	.listen		= l5_th_nothing,
	.unlisten	= l5_th_nothing,
	.release	= l5_th_nothing,
	.mailbox_able	= l5_th_mailbox_able,
	.mailbox_mmap	= l5_th_mailbox_mmap,
	.mailbox_revoke	= l5_th_nothing,
	.ask		= l5_th_ask,
	.accepted	= l5_th_accepted,
	.may_move	= l5_th_may_move,
	.tx_begin	= l5_th_tx_begin,
	.tx_end		= l5_th_tx_end,
	.tx_moved	= l5_far_tx_moved,
	.rx_moved	= l5_far_rx_moved,
	.rx_next	= l5_far_rx_next,
	.rx_look	= l5_far_rx_look,
	.boot_end	= l5_far_tcp_end,
	.stop		= l5_handover_stop,
	.wait		= l5_handover_wait,
	.undecided	= l5_th_undecided,
	.abandon	= l5_far_abandon,
	.detach		= l5_far_detach,
	.fin_wait	= l5_fin_wait,
	.fin_later	= l5_fin_later,
	.get_info	= l5_far_get_info,
};

const struct l5_transport_ops *const l5_transports[] = { &l5_th_ops, NULL };
