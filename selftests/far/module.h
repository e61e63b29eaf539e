/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of far.c: what kmod/far calls of the rest of the module, and TCP.
 */
#ifndef L5_TEST_MODULE_H
#define L5_TEST_MODULE_H

bool queue_work(struct workqueue_struct *wq, struct work_struct *w)
{
	return !xchg(&w->queued, true);
}

bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *w,
			unsigned long delay)
{
	if (w->work.queued)
		return false;
	w->work.queued = true;
	w->due = jiffies + delay;
	return true;
}

bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *w,
		      unsigned long delay)
{
	w->due = jiffies + delay;
	return xchg(&w->work.queued, true);
}

bool cancel_delayed_work(struct delayed_work *w)
{
	return xchg(&w->work.queued, false);
}

static void wake(struct host *h)
{
	h->tx_sleep = false;
	h->rx_sleep = false;
}

static struct host *host_conn(struct l5_conn *conn)
{
	return container_of(conn, struct host, conn);
}

void l5_conn_bell(struct l5_conn *conn, int end, bool room)
{
	struct host *h = host_conn(conn);
	struct l5_ctrl *ctrl = conn->end[end].ctrl;

	l5_wait_clear(room ? &ctrl->tx_wait : &ctrl->rx_wait);
	if (room)
		h->tx_sleep = false;
	else
		h->rx_sleep = false;
}

void l5_conn_changed(struct l5_conn *conn, int end)
{
	wake(host_conn(conn));
}

bool l5_end_async(struct l5_end *e)
{
	return false;
}

void l5_conn_put(struct l5_conn *conn)
{
	if (refcount_dec_and_test(&conn->ref) && conn->link)
		conn->link->free(conn);
}

bool l5_set_state(struct l5_sock *l5, int to, enum l5_reason reason)
{
	must(to == l5->state + 1 && to > L5_BASE);
	l5->state = to;
	return true;
}

bool l5_set_moved(struct l5_sock *l5)
{
	return l5_set_state(l5, L5_RINGS, L5_REASON_NONE);
}

/* A reader, as l5_ring_late(): has a record begun to come, and is not there? */
static bool ring_late(struct l5_end *ring, u64 pos)
{
	u64 *slot = l5_far_word(ring, pos), hdr = *slot;
	u64 bare = hdr & ~L5_STAMP_MASK;

	if (!ring->late_key || !(hdr >> 32 & L5_REC_LATE))
		return false;
	if ((hdr & L5_STAMP_MASK) != l5_late_stamp(ring->late_key, pos)) {
		must(forger);
		return !bare;
	}
	if (!bare)
		return true;
	if (!l5_rec_valid(ring->size, bare)) {
		must(forger);
		return false;
	}
	pos += l5_rec_size((u32)bare);
	if ((*l5_far_word(ring, pos) & L5_STAMP_MASK) !=
	    l5_late_stamp(ring->late_key, pos))
		return true;
	*slot = bare;
	return false;
}

bool l5_ring_readable(struct l5_sock *l5)
{
	struct l5_end *ring = l5_peer(l5);
	u64 head = l5_own(l5)->ctrl->rx_head;

	return !ring_late(ring, head) &&
	       l5_rec_valid(ring->size, *l5_far_word(ring, head));
}

u64 l5_ring_seen(struct l5_sock *l5, u64 from)
{
	struct l5_end *ring = l5_peer(l5);
	u64 head = l5_own(l5)->ctrl->rx_head, pos = head, hdr;

	for (;;) {
		if (ring_late(ring, pos))
			return pos;
		hdr = *l5_far_word(ring, pos);
		if (!l5_rec_valid(ring->size, hdr) || pos - head > ring->size)
			return pos;
		pos += l5_rec_size((u32)hdr);
	}
}

/* As kmod/spill.c. The copies up to a page's number are of no more use. */
static void copies_back(struct host *h, u64 to)
{
	struct l5_end *ring = &h->conn.end[!h->l5.end];
	struct page **at;

	for (; h->from < h->to && h->from < to; h->from++) {
		at = &ring->pages->at[h->from & ring->pages->mask];
		memset((*at)->at, 0xee, PAGE_SIZE);
		free((*at)->at);
		free(*at);
		*at = &h->page[!h->l5.end][h->from % (h->size / PAGE_SIZE)];
	}
}

static void copies_end(struct host *h)
{
	copies_back(h, h->to);
}

static void copies_begin(struct host *h)
{
	struct l5_end *ring = l5_peer(&h->l5);
	struct l5_pages *pages = (struct l5_pages *)h->longer;
	u32 i;

	pages->mask = PLACES - 1;
	for (i = 0; i < PLACES; i++)
		pages->at[i] = &h->page[!h->l5.end][i % (h->size / PAGE_SIZE)];
	ring->pages = pages;
	ring->size = PLACES * PAGE_SIZE;
	h->copied = true;
}

static void copy_page(struct host *h, u64 number, u64 head)
{
	struct l5_end *ring = l5_peer(&h->l5);
	struct page **at = &ring->pages->at[number & ring->pages->mask];
	u32 off = number == head >> PAGE_SHIFT ? offset_in_page(head) : 0;
	struct page *page = malloc(sizeof(*page));

	page->at = malloc(PAGE_SIZE);
	memset(page->at, 0xee, PAGE_SIZE);
	memcpy(page->at + off, (*at)->at + off, PAGE_SIZE - off);
	*at = page;
}

/* Locks are held, and memory is short, at times. */
int l5_ring_spill(struct l5_sock *l5, u64 told, u32 low, u64 *to)
{
	struct host *h = container_of(l5, struct host, l5);
	u64 head = l5_own(l5)->ctrl->rx_head, tail = l5_ring_seen(l5, 0), last;

	must(l5->lock.held && !h->far.lock.held);
	if (tail - told <= min(low, l5_room_low(h->size)))
		return -EBUSY;
	if (!rnd(4))
		return -EAGAIN;
	if (!h->copied)
		copies_begin(h);
	copies_back(h, head >> PAGE_SHIFT);
	if (h->from == h->to)
		h->from = h->to = head >> PAGE_SHIFT;
	last = min((tail - 1) >> PAGE_SHIFT,
		   h->from + PLACES - h->size / PAGE_SIZE);
	if (!rnd(4))
		last = min(last, h->to + 1);
	while (h->to < last)
		copy_page(h, h->to++, head);
	*to = h->to << PAGE_SHIFT;
	return *to > told ? 0 : -ENOSPC;
}

int l5_ring_unspill(struct l5_sock *l5)
{
	struct host *h = container_of(l5, struct host, l5);

	if (l5_own(l5)->ctrl->rx_head >> PAGE_SHIFT < h->to)
		return -EBUSY;
	if (!rnd(4))
		return -EAGAIN;
	copies_back(h, h->to);
	return 0;
}

u32 l5_ring_extent(const struct l5_sock *l5)
{
	return l5_own(l5)->size;
}

static void tcp_reset(struct host *h, int err)
{
	h->bsk.sk_state = TCP_CLOSE;
	h->bsk.sk_err = err;
	if (!h->l5.conn || !h->open)
		return;
	wake(h);
	if (h->l5.state >= L5_MOVING)
		l5_link_boot_changed(&h->l5);
}

void tcp_abort(struct sock *sk, int err)
{
	struct host *h = container_of(sk, struct host, bsk);

	if (sk->sk_state == TCP_CLOSE)
		return;
	h->rst = true;
	tcp_reset(h, err);
}

static void tcp_fin(struct host *h)
{
	if (h->bsk.sk_state == TCP_CLOSE)
		return;
	h->bsk.sk_shutdown |= SEND_SHUTDOWN;
	h->fin = true;
}

static int boot_shutdown(struct socket *sock, int how)
{
	tcp_fin(container_of(sock, struct host, boot));
	return 0;
}

static const struct proto_ops boot_ops = { .shutdown = boot_shutdown };

static void send_to_closed(struct l5_sock *l5)
{
	tcp_abort(l5->boot->sk, EPIPE);
}

static const struct l5_boot_ops bops = { .send_to_closed = send_to_closed };

void l5_boot_end(struct socket *boot)
{
	struct host *h = container_of(boot, struct host, boot);

	must(!h->boot_ended);
	h->boot_ended = true;
	/* bytes that nobody reads any more are answered by a reset */
	if (peer_of(h)->tcp_come != h->bsk.copied_seq - peer_of(h)->base -
				    h->fin_read)
		tcp_abort(&h->bsk, ECONNRESET);
	else
		tcp_fin(h);
}

bool l5_boot_busy(struct sock *bsk)
{
	return sock_owned_by_user(bsk);
}

void l5_boot_error(struct l5_sock *l5) {}
void l5_ring_full(struct l5_sock *l5) {}
void l5_map_flag(struct l5_end *e, u32 flags) {}
void l5_mailbox_leave(struct l5_far *far) {}
void l5_mailbox_put_slot(struct l5_far *far) {}
void l5_mailbox_set(struct l5_far *far) {}
void l5_payer_put(struct l5_payer *p) {}
void l5_poller_add(struct l5_far *far) {}
void l5_poller_del(struct l5_far *far) {}
void l5_poller_kick(struct l5_net *ln) {}
void l5_poller_list(struct l5_far *far) {}
void l5_rdv_cancel(struct l5_sock *l5) {}

#endif /* L5_TEST_MODULE_H */
