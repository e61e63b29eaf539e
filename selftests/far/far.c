// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of two hosts, kmod/far as it is, over a wire and a TCP that are
 * queues in this program. One thread takes one step at a time, which of those
 * that are possible is chosen by a seed: a sender or a reader goes on, a part
 * of a WRITE lands, a message is handled, a completion is heard, work is done,
 * a byte of TCP arrives, or the wire dies and loses what it likes of what is on
 * it. Time passes when nothing else can.
 *
 * Each byte is to arrive once and in order; an end of file is true; only a wire
 * that died is an error, and never one end's alone; no task sleeps while there
 * is what it waits for; and nothing is left at the end. In some runs one of the
 * programs forges: it writes what it likes to the words that it could map. Then
 * its peer hears nothing true, but the kernels of both still have to end. In
 * some the machine stands still, which is no error of anybody's.
 *
 *	far [--from SEED] [--seeds N] [--verbose] [--trace]
 *
 * A seed that fails is printed, and fails again at the same step. At the end it
 * says of which kinds the runs were, see mix.h.
 */
#include "../../kmod/far/phase.c"
#include "../../kmod/far/life.c"
#include "../../kmod/far/batch.c"
#include "../../kmod/far/record.c"
#include "../../kmod/far/ways.c"
#include "../../kmod/far/ring.c"
#include "../../kmod/far/sock.c"
#include "../../kmod/far/spill.c"
#include "../../kmod/far/fin.c"
#include "../../kmod/far/handover.c"
#include "../../kmod/far/hear.c"
#include "../../kmod/far/link.c"
#include "../../kmod/far/work.c"

/* as many receives as an adapter has; a sender waits for one */
#define ARRIVALS	64
#define TOKENS		64
/* time passes so often, then the run hangs */
#define PATIENCE	3000
/* of a ring whose bytes were copied */
#define PLACES		64
/* no run needs a tenth of these */
#define STEPS_MAX	5000000

/* What has come to a host and was not handled. */
struct arrival {
	bool imm;
	u32 len;
	u32 data;
	u64 bytes[(sizeof(struct l5_msg) + L5_MSG_BYTES) / 8];
};

/* What may be done next. */
enum step {
	SEND, RECEIVE, SHUT, CLOSE, LAND, HANDLE, COMPLETE, FLUSH, BYTES, WORK,
	EXPIRE, AGAIN, LOOK, STEPS
};

struct host {
	struct l5_sock l5;
	struct sock bsk;
	struct socket boot;
	struct socket_wq wq;
	struct net net;
	struct l5_net ln;
	struct l5_stats stats;
	struct l5_conn conn;
	struct l5_far far;
	bool freed, held, open, kept, boot_ended;
	struct l5_ctrl ctrl[2];
	struct page page[2][4];
	u64 pages[2][sizeof(struct l5_pages) / 8 + 4];
	u8 *ring[2];
	/* the ring that it reads, and what was copied of it */
	u32 size;
	u64 longer[sizeof(struct l5_pages) / 8 + PLACES];
	u64 from, to;
	bool copied;
	u8 msgs[L5_SQ * sizeof(struct l5_msg)] __aligned(8);

	/* on the wire, from here */
	struct l5_wr sq[L5_SQ];
	bool inl[L5_SQ];
	u8 bytes[L5_SQ][128];
	u32 first, last, part;
	bool back;
	/* come here */
	struct arrival *rq;
	u32 rq_first, rq_last;
	u32 cq[TOKENS];
	u32 cq_first, cq_last;
	bool flush;

	/* TCP from here */
	u32 base, tcp_sent, tcp_come;
	bool fin, fin_come, rst, rst_come;

	/* the program */
	u32 total, sent, got;
	u32 reads_at;	/* it reads nothing before it has sent so much */
	bool inside, shut, eof, fin_read, tx_sleep, rx_sleep;
	bool orderly;	/* it sends no more, and took nothing back */
	int err;
};

static struct host hosts[2];
static bool wire_dead, may_die, early, verbose, trace;
/* one of the programs reads no more, and for long there is nothing to do */
static bool deaf;
static unsigned long quiet;
/* the programs send much before they read */
static bool greedy;
/* how often the machine yet stands still, while the clock goes on */
static u32 halts;
static bool stood;
/* the program that forges, once its connection has moved; and did it? */
static struct host *forger;
static bool forged;
static u64 seed, rnd_state;
static unsigned long steps;
/* when the wire dies: at a step, or when a host is in a phase */
static unsigned long die_step;
static int die_host, die_out;
unsigned long jiffies;
struct workqueue_struct *l5_wq;

void fail(const char *file, int line, const char *what)
{
	int i;

	printf("not ok 1 far: seed %llu, step %lu: %s:%d: %s\n",
	       (unsigned long long)seed, steps, file, line, what);
	for (i = 0; i < 2; i++) {
		const struct host *h = &hosts[i];

		printf("# host %d: state %d link %d out %d goal %d in %d flags %lx\n"
		       "#   sent %u of %u, got %u, err %d, eof %d, sleeps %d %d\n",
		       i, h->l5.state, h->far.ph.link, h->far.ph.out,
		       h->far.ph.goal, h->far.ph.in, h->far.flags, h->sent,
		       h->total, h->got, h->err, h->eof, h->tx_sleep,
		       h->rx_sleep);
	}
	exit(1);
}

/* splitmix64 */
static u32 rnd(u32 n)
{
	u64 z = (rnd_state += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (u32)((z ^ z >> 31) % n);
}

static struct host *peer_of(const struct host *h)
{
	return &hosts[h == &hosts[0]];
}

static struct host *host_of(struct l5_far *far)
{
	return container_of(far, struct host, far);
}

static u8 byte_at(const struct host *from, u32 pos)
{
	return pos * 31 + (pos >> 8) * 7 + (from == &hosts[1]) * 101;
}

#include "module.h"
#include "wire.h"
#include "mix.h"

/* The programs, and their system calls */

static bool tx_over(struct host *h)
{
	if (h->open && h->l5.state >= L5_MOVING && l5_link_lost(&h->l5))
		return true;
	return h->shut || h->bsk.sk_state == TCP_CLOSE || h->l5.sk.sk_err ||
	       test_bit(L5_END_CLOSED, &h->conn.end[!h->l5.end].flags);
}

static bool room_for(struct host *h, struct l5_prod *p, u32 len)
{
	struct l5_ctrl *peer = h->conn.end[!h->l5.end].ctrl;

	p->head = h->conn.end[h->l5.end].prod.head;
	p->tail = h->ctrl[h->l5.end].tx_tail;
	p->size = h->conn.end[h->l5.end].size;
	if (l5_prod_look(p, peer)) {
		must(forger);
		l5_far_dead(&h->far, EPROTO);
		return false;
	}
	h->conn.end[h->l5.end].prod.head = p->head;
	return l5_prod_room(p) >= len;
}

static void ring_send(struct host *h, u32 len)
{
	struct l5_end *own = l5_own(&h->l5);
	struct l5_prod p;
	u32 i;

	if (!room_for(h, &p, len)) {
		l5_link_arm_tx(&h->l5);
		if (!room_for(h, &p, len)) {
			h->tx_sleep = true;
			return;
		}
	}
	for (i = 0; i < len; i++)
		h->ring[h->l5.end][(p.tail + L5_HDR + i) & (own->size - 1)] =
			byte_at(h, h->sent++);
	l5_prod_publish(&p, own->ctrl, l5_far_word(own, p.tail),
			l5_far_word(own, p.tail + l5_rec_size(len)), len);
	l5_link_published(&h->conn, h->l5.end);
}

/* A header word: of a record that may be empty, or too long, or of nothing. */
static u64 forged_header(u32 *len)
{
	static const u32 lens[] = { 0, 0, 1, 8, 100, 3000, 16368, 65536 };

	*len = lens[rnd(8)];
	if (!rnd(4))
		return rnd(2) ? 0 : (u64)rnd(-1) << 32 | rnd(-1);
	return (u64)L5_REC_VALID << 32 | *len;
}

/* Publish records that are none, and say any position. */
static void forge(struct host *h)
{
	struct l5_end *own = l5_own(&h->l5);
	u32 len, n = 1 + rnd(4);
	u64 pos = own->ctrl->tx_tail & ~(u64)(L5_HDR - 1);

	while (n--) {
		*l5_far_word(own, pos) = forged_header(&len);
		pos += rnd(8) ? l5_rec_size(len) : rnd(100) * L5_HDR;
	}
	if (rnd(4))
		*l5_far_word(own, pos) = 0;
	own->ctrl->tx_tail = rnd(16) ? pos : pos + rnd(-1);
	if (!rnd(16))
		own->ctrl->rx_head += rnd(100);
	if (!rnd(16))
		own->ctrl->rx_wait = own->ctrl->tx_wait = rnd(2);
	l5_link_published(&h->conn, h->l5.end);
	h->l5.conn->link->freed(&h->l5);
	h->sent = h->total;
	forged = true;
}

static void send_some(struct host *h)
{
	u32 len = min(1 + rnd(rnd(4) ? 40 : 600), h->total - h->sent);

	if (h == forger && !h->inside && l5_tx_rings(&h->l5)) {
		forge(h);
		return;
	}
	if (h->inside) {
		if (h->bsk.sk_state != TCP_CLOSE) {
			h->tcp_sent += len;
			h->bsk.write_seq += len;
			h->sent += len;
		}
		h->inside = false;
		l5_far_tx_end(&h->far);
		return;
	}
	if (l5_tx_rings(&h->l5)) {
		ring_send(h, len);
	} else if (!l5_far_is(&h->far, L5_FAR_OPEN)) {
		h->tcp_sent += len;
		h->bsk.write_seq += len;
		h->sent += len;
	} else {
		h->inside = l5_far_tx_begin(&h->far);
	}
}

static void end_of_file(struct host *h)
{
	struct host *p = peer_of(h);

	must((p->shut && h->got == p->sent) || forger);
	h->eof = true;
}

/*
 * All that a peer sent was sent by TCP, and it has closed, or shut down, and
 * had all that was sent to it: then its FIN tells the truth, and to a program
 * that knows of no cut the death of a wire is no error.
 */
static bool all_by_tcp(const struct host *h)
{
	const struct host *p = peer_of(h);

	return p->orderly && !l5_out_cut(&h->far.ph) &&
	       !l5_in_cut(&h->far.ph) &&
	       !p->conn.end[p->l5.end].ctrl->tx_tail &&
	       p->bsk.copied_seq - h->base - p->fin_read == h->tcp_sent;
}

static void error(struct host *h, int err)
{
	must(err < 0);
	must(may_die || early || forger);
	must(!all_by_tcp(h) || forger);
	h->err = err;
}

static void tcp_receive(struct host *h)
{
	struct host *p = peer_of(h);
	u32 have = p->tcp_come - (h->bsk.copied_seq - p->base), n;
	int err;

	if (h->fin_read)
		have = 0;
	if (have) {
		n = 1 + rnd(have);
		/* what TCP brings is the beginning of the stream */
		h->got += n;
		h->bsk.copied_seq += n;
	} else if (p->fin_come && !h->fin_read) {
		h->bsk.copied_seq++;
		h->fin_read = true;
	}
	l5_far_rx_look(&h->l5);
	if (have || l5_rx_rings(&h->l5))
		return;
	if (h->bsk.sk_err) {
		error(h, sock_error(&h->bsk));
	} else if (h->fin_read || h->bsk.sk_state == TCP_CLOSE) {
		err = l5_far_tcp_end(&h->l5);
		if (err)
			error(h, err);
		else if (h->fin_read && !l5_far_is(&h->far, L5_FAR_RX_OVER))
			end_of_file(h);
		else
			error(h, -ECONNRESET);
	} else {
		h->rx_sleep = true;
	}
}

/* As l5_rx_ended(), but for what only mapped programs and administrators do. */
static bool rx_ended(struct host *h)
{
	bool says = l5_link_end_visible(&h->l5);

	if (says && (h->bsk.sk_shutdown & RCV_SHUTDOWN ||
		     h->bsk.sk_state == TCP_CLOSE || l5_link_rx_over(&h->l5)))
		return true;
	return (says || !sock_flag(&h->bsk, SOCK_DONE)) &&
	       (h->bsk.sk_err || h->l5.sk.sk_err);
}

static void ring_receive(struct host *h)
{
	struct l5_end *own = l5_own(&h->l5), *ring = l5_peer(&h->l5);
	struct host *p = peer_of(h);
	struct l5_cons *c = &own->cons;
	bool ended = rx_ended(h);
	int ret;
	u32 i;

	c->size = ring->size;
	if (ring_late(ring, c->head))
		ret = 0;
	else
		ret = l5_cons_peek(c, l5_far_word(ring, c->head));
	must(ret >= 0 || forger);
	if (ret < 0 || (ret && !c->len)) {
		l5_far_dead(&h->far, EPROTO);
		error(h, -EPROTO);
		return;
	}
	if (ret) {
		for (i = 0; !forger && i < c->len; i++)
			must(*(u8 *)l5_far_at(ring, c->head + L5_HDR + i) ==
			     byte_at(p, h->got++));
		l5_cons_take(c, own->ctrl, c->len);
		h->l5.conn->link->freed(&h->l5);
		return;
	}
	if (ended) {
		/* one that forged its own position ends as l5_again() has it */
		ret = l5_link_rx_end(&h->l5);
		if (!ret)
			end_of_file(h);
		else if (ret != -EAGAIN || h == forger)
			error(h, ret);
		return;
	}
	l5_link_arm_rx(&h->l5);
	h->rx_sleep = !l5_ring_readable(&h->l5) && !rx_ended(h);
}

static void shut(struct host *h)
{
	struct l5_sock *l5 = &h->l5;
	bool tcp = false, later = false;

	mutex_lock(&l5->lock);
	h->shut = true;
	h->orderly = h->bsk.sk_state != TCP_CLOSE;
	if (l5_far_is(&h->far, L5_FAR_OPEN))
		tcp = l5_far_tx_begin(&h->far);
	if (!tcp && l5_tx_rings(l5))
		later = l5_fin_later(l5);
	if (l5_tx_rings(l5)) {
		set_bit(L5_END_FIN, &l5_own(l5)->flags);
		l5->conn->link->fin(l5->conn, l5->end);
	}
	if (!later)
		tcp_fin(h);
	if (tcp)
		l5_far_tx_end(&h->far);
	mutex_unlock(&l5->lock);
}

static void close_it(struct host *h)
{
	struct l5_sock *l5 = &h->l5;
	bool reset = false;

	h->orderly = h->bsk.sk_state != TCP_CLOSE;
	h->shut = true;
	h->open = false;
	if (l5->state >= L5_MOVING) {
		RCU_INIT_POINTER(l5_own(l5)->sk, NULL);
		set_bit(L5_END_CLOSED, &l5_own(l5)->flags);
		reset = l5_ring_readable(l5);
		h->orderly &= !reset;
		if (reset)
			tcp_abort(&h->bsk, ECONNRESET);
		else
			l5->conn->link->fin(l5->conn, l5->end);
	}
	if (!l5_far_detach(l5, reset, reset ? NULL : &h->boot))
		l5_boot_end(&h->boot);
	if (l5->conn)
		l5_conn_put(l5->conn);
	l5->conn = NULL;
}

/* One of the steps that are possible, and what is true between them. */

static const char *const names[STEPS] = {
	"send", "receive", "shut down", "close", "land", "handle", "complete",
	"flush", "TCP arrives", "work", "expire", "again", "look"
};

static bool is_quiet(void)
{
	return quiet && time_after(quiet, jiffies);
}

static bool can(struct host *h, enum step step)
{
	struct host *p = peer_of(h);

	if (is_quiet() && (step == SEND || step == SHUT || step == CLOSE))
		return false;
	switch (step) {
	case SEND:
		return h->open && !h->tx_sleep &&
		       (h->inside || (!tx_over(h) && h->sent < h->total));
	case RECEIVE:
		return h->open && !h->rx_sleep && !h->eof && !h->err &&
		       (h->sent >= h->reads_at || tx_over(h));
	case SHUT:
		return h->open && !h->shut && !h->inside &&
		       (h->sent == h->total || tx_over(h));
	case CLOSE:
		return h->open && !h->inside &&
		       (early || (h->shut && (h->eof || h->err)));
	case LAND:
		return h->first != h->last &&
		       p->rq_last - p->rq_first < ARRIVALS;
	case HANDLE:
		return h->rq_first != h->rq_last;
	case COMPLETE:
		return h->cq_first != h->cq_last;
	case FLUSH:
		return h->flush && h->rq_first == h->rq_last;
	case BYTES:
		return p->tcp_come != p->tcp_sent || p->fin != p->fin_come ||
		       p->rst != p->rst_come;
	case WORK:
		return h->far.work.queued;
	case EXPIRE:
		return h->far.expire.work.queued &&
		       time_after_eq(jiffies, h->far.expire.due);
	case AGAIN:
		return h->far.again.work.queued &&
		       time_after_eq(jiffies, h->far.again.due);
	case LOOK:
		return h->far.spill.work.queued &&
		       time_after_eq(jiffies, h->far.spill.due);
	default:
		return false;
	}
}

static void run_work(struct work_struct *w)
{
	w->queued = false;
	w->fn(w);
}

/* Something of TCP arrives at a host; a reset overtakes all else. */
static void tcp_arrive(struct host *h)
{
	struct host *p = peer_of(h);

	if (p->rst && !p->rst_come) {
		p->rst_come = true;
		p->tcp_come = p->tcp_sent;
		p->fin_come = p->fin;
		if (h->bsk.sk_state != TCP_CLOSE)
			tcp_reset(h, ECONNRESET);
	} else if (p->tcp_come != p->tcp_sent) {
		p->tcp_come += 1 + rnd(p->tcp_sent - p->tcp_come);
		h->bsk.rcv_nxt = p->base + p->tcp_come;
	} else {
		p->fin_come = true;
		h->bsk.rcv_nxt++;
		if (h->bsk.sk_state == TCP_CLOSE)
			return;
		h->bsk.sk_state = TCP_CLOSE_WAIT;
		h->bsk.sk_shutdown |= RCV_SHUTDOWN;
		sock_set_flag(&h->bsk, SOCK_DONE);
		if (h->open && h->l5.state >= L5_MOVING)
			l5_link_boot_changed(&h->l5);
	}
	wake(h);
}

static void take(struct host *h, enum step step)
{
	switch (step) {
	case SEND:
		send_some(h);
		break;
	case RECEIVE:
		if (l5_rx_rings(&h->l5))
			ring_receive(h);
		else
			tcp_receive(h);
		break;
	case SHUT:
		shut(h);
		break;
	case CLOSE:
		close_it(h);
		break;
	case LAND:
		land(h);
		break;
	case HANDLE:
		handle(h);
		break;
	case COMPLETE:
		l5_far_completed(&h->far, h->cq[h->cq_first++ % TOKENS]);
		break;
	case FLUSH:
		h->flush = false;
		l5_far_dead(&h->far, ECONNRESET);
		break;
	case BYTES:
		tcp_arrive(h);
		break;
	case WORK:
		run_work(&h->far.work);
		break;
	case EXPIRE:
		run_work(&h->far.expire.work);
		break;
	case AGAIN:
		run_work(&h->far.again.work);
		break;
	case LOOK:
		run_work(&h->far.spill.work);
		break;
	default:
		break;
	}
	if (h->wq.wait.woken)
		wake(h);
	h->wq.wait.woken = 0;
}

/* Half of the wires that die do so at a step, the others in a phase. */
static bool dies_now(void)
{
	if (!may_die || wire_dead)
		return false;
	if (die_step)
		return steps >= die_step;
	return hosts[die_host].far.ph.out == die_out &&
	       !rnd(die_out == L5_OUT_UNUSED ? 2 : 20);
}

/* Nothing can go on but by time: then nobody waits for what is there. */
static void nobody_waits(struct host *h)
{
	struct host *p = peer_of(h);
	struct l5_end *own = &h->conn.end[h->l5.end];
	u64 head = p->ctrl[p->l5.end].rx_head, tail = own->ctrl->tx_tail;

	if (!h->open || wire_dead || forger)
		return;
	if (h->rx_sleep && l5_rx_rings(&h->l5))
		must(!l5_ring_readable(&h->l5));
	if (l5_out_acked(&h->far.ph))
		must(h->far.sent == tail);
	if (h->tx_sleep)
		must(tail - (p->far.spilled ? p->far.told : head) >
		     l5_room_low(own->size));
	/* a reader that passed the copies has that seen to */
	if (p->open && p->far.spilled && (s64)(head - p->far.told) >= 0)
		must(p->far.spill.work.queued);
}

static bool all_over(void)
{
	return hosts[0].freed && hosts[1].freed && !hosts[0].open &&
	       !hosts[1].open && hosts[0].boot_ended && hosts[1].boot_ended;
}

static void pass_time(void)
{
	unsigned long next = 0;
	int i;

	for (i = 0; i < 2; i++) {
		struct l5_far *far = &hosts[i].far;

		nobody_waits(&hosts[i]);
		if (far->expire.work.queued &&
		    (!next || time_after(next, far->expire.due)))
			next = far->expire.due;
		if (far->again.work.queued &&
		    (!next || time_after(next, far->again.due)))
			next = far->again.due;
		if (far->spill.work.queued &&
		    (!next || time_after(next, far->spill.due)))
			next = far->spill.due;
	}
	if (is_quiet() && (!next || time_after(next, quiet)))
		next = quiet;
	/* nobody goes on, and no timer runs */
	must(next);
	jiffies = max(jiffies, next);
}

static void begin(struct host *h, u8 notify, u8 peer_notify)
{
	static const u32 sizes[] = { 4096, 8192, 16384 };
	struct host *p = peer_of(h);
	struct arrival *rq = h->rq;
	u32 size, e, i;

	copies_end(h);
	for (e = 0; e < 2; e++)
		free(h->ring[e]);
	memset(h, 0, sizeof(*h));
	h->rq = rq ?: malloc(ARRIVALS * sizeof(*rq));
	h->l5.end = h == &hosts[1];
	size = h->l5.end ? p->conn.end[0].size : sizes[rnd(3)];
	h->l5.state = L5_BASE;
	h->l5.boot = &h->boot;
	h->l5.ln = &h->ln;
	h->l5.sk.sk_wq = &h->wq;
	h->l5.remote = &transport;
	h->boot.sk = &h->bsk;
	h->boot.ops = &boot_ops;
	h->l5.bops = &bops;
	h->bsk.sk_state = TCP_ESTABLISHED;
	h->bsk.net = &h->net;
	h->ln.stats = &h->stats;
	h->ln.rdma_timeout_ms = 7000;
	h->ln.rdma_notify = notify;
	h->ln.grow_ms = greedy || rnd(2) ? 200 : 0;
	h->size = size;
	h->open = true;
	for (e = 0; e < 2; e++) {
		struct l5_end *end = &h->conn.end[e];

		end->ctrl = &h->ctrl[e];
		end->size = size;
		end->pages = (struct l5_pages *)h->pages[e];
		end->pages->mask = size / PAGE_SIZE - 1;
		end->cons.size = size;
		h->ring[e] = calloc(1, size);
		for (i = 0; i < size / PAGE_SIZE; i++) {
			h->page[e][i].at = h->ring[e] + i * PAGE_SIZE;
			end->pages->at[i] = &h->page[e][i];
		}
	}
	h->base = rnd(2) ? -rnd(100) : rnd(1000);
	h->total = rnd(4) ? rnd(rnd(3) ? 12000 : 3 * size) : rnd(3);
	/* of one page nothing can be copied: its writer is in it */
	if (greedy && size > PAGE_SIZE) {
		h->total = size + rnd(3 * size);
		h->reads_at = rnd(2) ? h->total : rnd(h->total + 1);
	}
	h->bsk.write_seq = h->base;
	refcount_set(&h->conn.ref, h->l5.end ? 1 : 2);
	h->l5.conn = h->l5.end ? NULL : &h->conn;

	l5_far_init(&h->far, &h->ln, &wire);
	h->far.conn = &h->conn;
	h->far.end = h->l5.end;
	h->far.notify = notify;
	h->far.peer_notify = peer_notify;
	h->far.msgs = h->msgs;
	h->far.key = 7;
	l5_link_to(&h->far.ph, h->l5.end ? L5_LINK_ASKED : L5_LINK_ASKING);
	l5_far_got_socket(&h->far, &h->l5);
	l5_far_hold(&h->far);
	h->held = true;
	l5_far_do(&h->far, L5_DO_UP);
}

/* How likely each step is, where it is possible: no two runs are alike. */
static void choose_odds(u32 *odds)
{
	int i;

	for (i = 0; i < STEPS; i++)
		odds[i] = rnd(3) ? 600 : 20;
	odds[SHUT] = rnd(2) ? 600 : 2;
	odds[CLOSE] = early ? 3 : 600;
}

/* A host and a step by their odds; false if nothing is possible. */
static bool choose(const u32 *odds, struct host **h, enum step *step)
{
	u32 sum = 0, upto[2 * STEPS], at, i;

	for (i = 0; i < 2 * STEPS; i++) {
		if (can(&hosts[i & 1], i / 2))
			sum += odds[i / 2];
		upto[i] = sum;
	}
	if (!sum)
		return false;
	at = rnd(sum);
	for (i = 0; upto[i] <= at; i++)
		;
	*h = &hosts[i & 1];
	*step = i / 2;
	return true;
}

/* shutdown(SHUT_RD), twice as long before all else as a FIN may take */
static void become_deaf(void)
{
	int i;

	if (!deaf || quiet || hosts[0].l5.state != L5_RINGS ||
	    hosts[1].l5.state != L5_RINGS)
		return;
	quiet = jiffies + 2 * L5_FIN_WAIT;
	for (i = 0; i < 2; i++) {
		if (!hosts[i].open)
			continue;
		hosts[i].bsk.sk_shutdown |= RCV_SHUTDOWN;
		l5_link_boot_changed(&hosts[i].l5);
	}
}

/*
 * As a virtual machine does that is moved, or has no processor: for longer than
 * any patience. All that waits for a time is due then.
 */
static void stand_still(void)
{
	if (!halts || rnd(50))
		return;
	halts--;
	stood = true;
	jiffies += 10 * L5_FIN_WAIT;
}

static void run(void)
{
	unsigned int idle = 0;
	u32 odds[STEPS], i;
	u8 notify, other;

	rnd_state = seed;
	notify = rnd(WAYS);
	other = rnd(WAYS);
	may_die = !rnd(3);
	early = !rnd(4);
	forged = false;
	forger = rnd(8) ? NULL : &hosts[rnd(2)];
	deaf = !may_die && !rnd(8);
	quiet = 0;
	halts = rnd(8) ? 0 : 3;
	greedy = !forger && !rnd(6);
	stood = false;
	die_host = rnd(2);
	die_out = rnd(L5_OUT_MAX);
	die_step = rnd(2) ? rnd(rnd(2) ? 60 : 1000) : 0;
	wire_dead = false;
	steps = 0;
	jiffies = 1000;
	begin(&hosts[0], notify, other);
	begin(&hosts[1], other, notify);
	hosts[0].bsk.copied_seq = hosts[0].bsk.rcv_nxt = hosts[1].base;
	hosts[1].bsk.copied_seq = hosts[1].bsk.rcv_nxt = hosts[0].base;
	choose_odds(odds);
	while (!all_over()) {
		enum step step;
		struct host *h;

		if (dies_now()) {
			if (trace)
				printf("# the wire dies\n");
			mix_death();
			die();
		}
		if (!choose(odds, &h, &step)) {
			must(++idle < PATIENCE);
			pass_time();
			continue;
		}
		must(++steps < STEPS_MAX);
		become_deaf();
		stand_still();
		if (trace)
			printf("# %lu: host %d: %s\n", steps, h->l5.end,
			       names[step]);
		take(h, step);
	}
	must(!atomic_read(&l5_far_held));
	must(hosts[0].net.ref == 0 && hosts[1].net.ref == 0);
	if (!may_die && !early && !forger)
		for (i = 0; i < 2; i++)
			must(hosts[i].eof && hosts[i].sent == hosts[i].total);
	if (verbose)
		printf("# seed %llu: %lu steps, ways %d %d, states %d %d%s%s\n",
		       (unsigned long long)seed, steps, notify, other,
		       hosts[0].l5.state, hosts[1].l5.state,
		       wire_dead ? ", died" : "", early ? ", early" : "");
}

#ifndef __SANITIZE_ADDRESS__
static void crashed(int sig)
{
	(void)sig;
	fail(__FILE__, __LINE__, "the kernel crashed");
}
#endif

int main(int argc, char **argv)
{
	u64 from = 1, n = 10000;
	int i;

#ifndef __SANITIZE_ADDRESS__
	signal(SIGSEGV, crashed);
#endif

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--verbose"))
			verbose = true;
		else if (!strcmp(argv[i], "--trace"))
			trace = true;
		else if (!strcmp(argv[i], "--from") && i + 1 < argc)
			from = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
			n = strtoull(argv[++i], NULL, 0);
		else
			return 2;
	}
	printf("TAP version 13\n1..1\n");
	for (seed = from; seed < from + n; seed++) {
		run();
		mix_run();
	}
	if (!mix_good(n)) {
		printf("not ok 1 far: too few of a kind\n");
		return 1;
	}
	printf("ok 1 far\n");
	return 0;
}
