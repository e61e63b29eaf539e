// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: bytes in and out of a connection's rings. The protocol is that of
 * l5_ring.h, the pages below it are those of pages.c.
 *
 * Cursors live in the control page, where processes that mapped it move them
 * too. A task that moves them holds that direction's lock word (lock.c), loads
 * them, checks them as a copy and works with the copy. All else that the kernel
 * reads from memory it shares is read once and checked.
 *
 * A look at pages is a few instructions, so it is one of RCU's readers by
 * having preemption off: that costs less than rcu_read_lock(), which is a call.
 */
#include <linux/uio.h>

#include "bootstrap.h"
#include "end.h"
#include "fold.h"
#include "link.h"
#include "netns.h"
#include "pages.h"
#include "ring.h"

/*
 * The page at a position, for a copy, which may sleep. The page is kept until
 * @copy says something else; see drop.c. @copy is that of the end and direction
 * whose lock is held.
 */
static struct page *l5_ring_hold(struct l5_end *e, u64 pos, struct page **copy)
{
	struct page *page;

	rcu_read_lock_sched();
	page = l5_ring_page(e, pos);
	/* AT, pairs with AS: the copy of the page before is over */
	smp_store_release(copy, page);
	rcu_read_unlock_sched();
	return page;
}

static void l5_ring_letgo(struct page **copy)
{
	/* AT, pairs with AS */
	smp_store_release(copy, NULL);
}

/* Is what lies at two positions in one page, so that it is held once? */
static bool l5_one_page(u64 a, u64 b)
{
	return a >> PAGE_SHIFT == b >> PAGE_SHIFT;
}

/*
 * Copy between a ring and an iterator page by page; short if a copy faults, or
 * a page is not there. If the first page is held already, it is @page. The last
 * one is still held afterwards.
 */
static u32 l5_ring_copy(struct l5_end *e, u64 pos, u32 len, struct page *page,
			struct iov_iter *iter, struct page **copy, bool in)
{
	u32 done = 0;

	for (; done < len; page = NULL) {
		u32 off = offset_in_page(pos + done);
		u32 part = min_t(u32, len - done, PAGE_SIZE - off);
		u32 n;

		if (!page)
			page = l5_ring_hold(e, pos + done, copy);
		/* a published record was written, unless its length is a lie */
		if (!page)
			break;
		if (in)
			n = copy_page_from_iter(page, off, part, iter);
		else
			n = copy_page_to_iter(page, off, part, iter);
		done += n;
		if (n < part)
			break;
	}
	return done;
}

static u32 l5_ring_copy_in(struct l5_end *own, u64 pos, u32 len,
			   struct iov_iter *from)
{
	return l5_ring_copy(own, pos, len, NULL, from, &own->tx_copy, true);
}

/* Copy from a record whose header's page is held, by l5_ring_next(). */
static u32 l5_ring_copy_out(struct l5_end *own, struct l5_end *ring,
			    const struct l5_cons *c, u32 len,
			    struct iov_iter *to)
{
	u64 pos = c->head + L5_HDR + c->off;

	return l5_ring_copy(ring, pos, len,
			    l5_one_page(pos, c->head) ? own->rx_copy : NULL,
			    to, &own->rx_copy, false);
}

/*
 * Why was a copy short at a position of a ring? The page may be gone since an
 * end is closed; a reader finds that if it has moved its cursor back, or if it
 * is that end.
 */
static int l5_ring_short(struct l5_end *ring, u64 pos)
{
	bool gone;

	rcu_read_lock_sched();
	gone = READ_ONCE(ring->dropped) && !l5_ring_page(ring, pos);
	rcu_read_unlock_sched();
	return gone ? -ECONNRESET : -EFAULT;
}

/*
 * Publish a record whose payload is in place, and its last page held. If the
 * peer is closed, and the pages have been given back, it is published to
 * nobody.
 */
static void l5_ring_publish(struct l5_end *own, u32 len, u32 flags)
{
	u64 pos = own->prod.tail, end = pos + l5_rec_size(len), nowhere;
	u64 *slot = NULL, *next = NULL;
	void *at;

	if (l5_one_page(pos, end) && own->tx_copy) {
		at = page_address(own->tx_copy);
		l5_prod_publish_with(&own->prod, own->ctrl,
				     at + offset_in_page(pos),
				     at + offset_in_page(end), len, flags);
		return;
	}
	rcu_read_lock_sched();
	/* its payload may be gone; l5_drop() waits for us if it is not */
	if (likely(!READ_ONCE(own->dropped))) {
		slot = l5_ring_slot(own, pos);
		next = l5_ring_slot(own, end);
	}
	l5_prod_publish_with(&own->prod, own->ctrl, slot ?: &nowhere,
			     next ?: &nowhere, len, flags);
	rcu_read_unlock_sched();
}

/**
 * l5_ring_violation() - the peer broke the protocol
 * @l5: the victim
 *
 * The connection ends with an error on both sides.
 */
void l5_ring_violation(struct l5_sock *l5)
{
	if (test_bit(L5_END_KEPT, &l5_own(l5)->flags))
		return;
	if (!test_and_set_bit(L5_END_BROKEN, &l5_own(l5)->flags))
		l5_count(l5, L5_STAT_VIOLATIONS, 1);
	WRITE_ONCE(l5->sk.sk_err, EPROTO);
	l5_map_flag(l5_own(l5), L5_MAP_TX_ASK | L5_MAP_RX_ASK);
	sock_no_linger(l5->boot->sk);
	l5->boot->ops->shutdown(l5->boot, SHUT_RDWR);
	sk_error_report(&l5->sk);
}

/* Count a record, and publish it. */
static void l5_ring_put_published(struct l5_end *own, u32 len, u32 flags)
{
	own->tx_bytes += len;
	l5_store(&own->ctrl->tx_bytes, l5_load(&own->ctrl->tx_bytes) + len);
	l5_ring_publish(own, len, flags);
}

/*
 * Publish a record that the bootstrap carries, see files.c. Nothing is
 * published before it does: no reader finds a record that is not there yet.
 *
 * Return: 0, or as &l5_files_ops.send.
 */
static int l5_ring_put_carried(struct l5_sock *l5, struct iov_iter *from,
			       u32 len, struct msghdr *files)
{
	struct l5_end *own = l5_own(l5);
	int err;

	err = l5->bops->files->send(l5, files, from, len, own->prod.tail);
	if (!err)
		l5_ring_put_published(own, len, L5_REC_FILES);
	/* BJ, pairs with BK: the record is there, or the message is not */
	smp_store_release(&own->riding, false);
	return err;
}

/* Copy a record's payload and publish it. Return: 0, -EFAULT. */
static int l5_ring_put(struct l5_end *own, struct iov_iter *from, u32 len)
{
	u64 pos = own->prod.tail + L5_HDR;
	u32 n = l5_ring_copy_in(own, pos, len, from);

	if (unlikely(n < len)) {
		if (l5_ring_short(own, pos + n) == -EFAULT) {
			iov_iter_revert(from, n);
			return -EFAULT;
		}
		/* the peer has closed: there is no place for the rest */
		iov_iter_advance(from, len - n);
	}
	l5_ring_put_published(own, len, 0);
	return 0;
}

/**
 * l5_ring_more() - get more pages for a ring that is mapped
 * @l5: the writer, which has the ring's lock word
 * @e: its end; a call that is still in a connection from which its socket was
 *	disconnected gets none
 * @len: bytes that are to fit into the ring at a time
 *
 * Context: may sleep.
 * Return: as l5_ring_unfold().
 */
int l5_ring_more(struct l5_sock *l5, struct l5_end *e, u32 len)
{
	struct l5_conn *conn = READ_ONCE(l5->conn);
	int err;

	if (e != &conn->end[L5_CLIENT] && e != &conn->end[L5_SERVER])
		return -ENOSPC;
	err = l5_ring_unfold(l5, conn, e - conn->end, len);
	if (err != -ENOSPC)
		l5_ring_idle_later(conn, err ? L5_POOR_PAUSE :
					       l5_idle_pause(l5->ln), err);
	return err;
}

/* As l5_ring_fill(), of a ring that is mapped. */
static int l5_ring_fill_folded(struct l5_sock *l5, struct l5_end *e, u32 len)
{
	u32 window, used;

	do {
		window = l5_fold_window(e);
		used = l5_prod_used(&e->prod);
		if (likely(used + len <= window ||
			   window == READ_ONCE(e->size)))
			return len;
		if (l5_prod_look(&e->prod, l5_peer(l5)->ctrl) < 0)
			return -EPROTO;
		used = l5_prod_used(&e->prod);
		if (used + len <= window || READ_ONCE(e->dropped))
			return len;
	} while (!l5_ring_more(l5, e, used + len));
	if (used + min(len, 4 * L5_HDR) > window)
		return -EAGAIN;
	return window - used;
}

/*
 * Have pages for bytes from the tail. A process may map the ring while they are
 * got: then that has to do.
 */
static int l5_ring_have(struct l5_sock *l5, struct l5_end *e, u32 len)
{
	int have = READ_ONCE(e->fold) ? 0 : l5_ring_fill(l5, e, len);
	struct l5_conn *conn = READ_ONCE(l5->conn);

	/* more than it is to keep for good; of a disconnected end: l5_drop() */
	if (have > 0 && unlikely(READ_ONCE(e->npages) > L5_RING_KEEPS) &&
	    (e == &conn->end[L5_CLIENT] || e == &conn->end[L5_SERVER]))
		l5_ring_idle_later(conn, l5_idle_pause(l5->ln), false);
	return have ?: l5_ring_fill_folded(l5, e, len);
}

/**
 * l5_ring_write() - publish one record
 * @l5: a socket in state L5_RINGS, its tx_lock held
 * @from: payload, advanced by the bytes taken
 * @files: a message whose control messages ride with the record, or NULL
 *
 * Context: may sleep.
 * Return: bytes taken, -EAGAIN if the ring is full, -EFAULT, -ENOBUFS if there
 * is no memory, -EPROTO if the peer broke the protocol, -EPIPE if the bytes
 * were taken but the peer closed meanwhile, so they may never be read; with
 * @files also as &l5_files_ops.send.
 */
ssize_t l5_ring_write(struct l5_sock *l5, struct iov_iter *from,
		      struct msghdr *files)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	size_t most = L5_PIECE;
	int len, err;

	lockdep_assert_held(&l5->tx_lock);
	if (unlikely(files))
		most = min(most, l5->bops->files->most(l5));
	len = l5_room_claim(&own->prod, peer->ctrl,
			    min(iov_iter_count(from), most),
			    l5_ring_extent(l5));
	if (len <= 0)
		return len ? -EPROTO : -EAGAIN;
	/* the record and the header after it */
	err = l5_ring_have(l5, own, l5_rec_size(len) + L5_HDR);
	if (err < 0)
		return err;
	len = min_t(int, len, err - 2 * L5_HDR);
	err = unlikely(files) ? l5_ring_put_carried(l5, from, len, files) :
				l5_ring_put(own, from, len);
	l5_ring_letgo(&own->tx_copy);
	if (unlikely(err))
		return err;
	l5_count(l5, L5_STAT_BYTES_TX, len);

	l5_link_published(l5->conn, l5->end);
	/*
	 * M, pairs with L, the barrier being l5_wait_armed()'s: a closing peer
	 * sees the record unread, or we see the peer closed. A peer that does
	 * not have this memory says how far it read.
	 */
	if (test_bit(L5_END_CLOSED, &peer->flags))
		return -EPIPE;
	return len;
}

/*
 * Is there no memory until the reader is further? If it has read all messages
 * it goes no further: then it is for the writer to say that there is none.
 */
static bool l5_ring_starves(const struct l5_end *own, u64 tail, u64 head)
{
	u64 starved = READ_ONCE(own->starved);

	return starved && head >> PAGE_SHIFT < starved &&
	       !(own->packets && tail == head);
}

/* Is no more than half of the ring in use, so that any message fits? */
static bool l5_ring_half(const struct l5_prod *p, u32 extent)
{
	return l5_prod_used(p) <= extent / 2;
}

/**
 * l5_ring_takes() - would a message be taken now?
 * @l5: a socket in state L5_RINGS whose records are messages
 *
 * It does not depend on the message: a long one would never have its turn
 * beside many short ones, and poll() could not say what it needs.
 *
 * Context: any, no lock.
 */
bool l5_ring_takes(struct l5_sock *l5)
{
	const struct l5_prod at = {
		.tail = l5_load(&l5_own(l5)->ctrl->tx_tail),
		.head = l5_load(&l5_peer(l5)->ctrl->rx_head),
		.size = READ_ONCE(l5_own(l5)->size),
	};

	if (l5_ring_starves(l5_own(l5), at.tail, at.head))
		return false;
	/* nonsense is for the writer to complain of */
	return l5_prod_used(&at) > at.size ||
	       l5_ring_half(&at, l5_ring_extent(l5));
}

/**
 * l5_ring_write_whole() - publish all there is as one record
 * @l5: a socket in state L5_RINGS, its tx_lock held
 * @from: payload, at most l5_ring_message_max(); it may be none
 * @files: as for l5_ring_write()
 *
 * Context: may sleep.
 * Return: its length, -EAGAIN if the reader has to go on first, -EFAULT,
 * -ENOBUFS if there is no memory, -EPROTO if the peer broke the protocol,
 * -EPIPE if the peer closed meanwhile, and has not read it; with @files also as
 * &l5_files_ops.send.
 */
ssize_t l5_ring_write_whole(struct l5_sock *l5, struct iov_iter *from,
			    struct msghdr *files)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	u32 len = iov_iter_count(from), need = l5_rec_size(len) + L5_HDR;
	u32 extent = l5_ring_extent(l5);
	int err;

	lockdep_assert_held(&l5->tx_lock);
	if (!l5_ring_half(&own->prod, extent)) {
		if (l5_prod_look(&own->prod, peer->ctrl) < 0)
			return -EPROTO;
		if (!l5_ring_half(&own->prod, extent))
			return -EAGAIN;
	}
	err = l5_ring_have(l5, own, need);
	if (err < 0 && err != -EAGAIN)
		return err;
	if (err < (int)need) {
		if (!l5_prod_used(&own->prod))
			return -ENOBUFS;
		/* what is there will be read, and gives its pages back */
		WRITE_ONCE(own->starved,
			   (own->prod.head >> PAGE_SHIFT) + 1);
		return -EAGAIN;
	}
	err = unlikely(files) ? l5_ring_put_carried(l5, from, len, files) :
				l5_ring_put(own, from, len);
	l5_ring_letgo(&own->tx_copy);
	if (unlikely(err))
		return err;
	l5_count(l5, L5_STAT_BYTES_TX, len);
	l5_link_published(l5->conn, l5->end);
	/* M, pairs with L, as in l5_ring_write() */
	if (test_bit(L5_END_CLOSED, &peer->flags) &&
	    l5_ring_used(l5->conn, l5->end))
		return -EPIPE;
	return len;
}

/*
 * Did a header word come with its record (L5_NOTIFY_ONE), and is the record not
 * all there yet? The header has a mark of its own then. What was read of it is
 * good only if the header is still the same once the word after the record has
 * been read.
 */
static bool l5_ring_late(struct l5_end *ring, u64 pos, u64 *slot)
{
	u64 hdr = READ_ONCE(*slot), bare = hdr & ~L5_STAMP_MASK;
	u64 *after;

	if (!(hdr >> 32 & L5_REC_LATE))
		return false;
	/* the word after a record, or nonsense that the reader complains of */
	if ((hdr & L5_STAMP_MASK) != l5_late_stamp(ring->late_key, pos) ||
	    !bare)
		return !bare;
	if (!l5_rec_valid(READ_ONCE(ring->size), bare))
		return false;
	pos += l5_rec_size((u32)bare);
	after = l5_ring_slot(ring, pos);
	if ((l5_load_acquire(after) & L5_STAMP_MASK) !=
	    l5_late_stamp(ring->late_key, pos) ||
	    l5_load_acquire(slot) != hdr)
		return true;
	cmpxchg(slot, hdr, bare);
	return false;
}

/**
 * l5_ring_next() - the record at a consumer, checked
 * @ring: what is read
 * @c: where
 * @copy: a reader that has the lock holds the page of the header by it; NULL
 *	for others, and those that only count
 *
 * Context: any.
 * Return: 1, 0 if there is none, -EPROTO.
 */
int l5_ring_next(struct l5_end *ring, struct l5_cons *c, struct page **copy)
{
	struct page *page;
	int ret = 0;
	u64 *slot;

	rcu_read_lock_sched();
	page = l5_ring_page(ring, c->head);
	if (copy)
		/* AT, pairs with AS: the copy of the page before is over */
		smp_store_release(copy, page);
	slot = page ? page_address(page) + offset_in_page(c->head) : NULL;
	if (slot && !(ring->late_key && l5_ring_late(ring, c->head, slot)))
		ret = l5_cons_peek(c, slot);
	rcu_read_unlock_sched();
	if (ret > 0 && unlikely(c->files) && !ring->files)
		ret = -1;
	return ret < 0 ? -EPROTO : ret;
}

/*
 * The record that a stream goes on with: as l5_ring_next(), but empty records
 * are skipped.
 */
static int l5_ring_payload(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	struct l5_cons *c = &own->cons;
	bool skipped = false;
	int ret;

	lockdep_assert_held(&l5->rx_lock);
	while ((ret = l5_ring_next(ring, c, &own->rx_copy)) > 0) {
		ret = l5_cons_skip(c, own->ctrl, NULL);
		if (ret != 2)
			break;
		skipped = true;
	}
	if (skipped)
		l5_link_freed(l5);
	return ret < 0 ? -EPROTO : ret;
}

/* May bytes that were read be ones never sent? See l5_map_revoke(). */
static bool l5_ring_spoilt(const struct l5_end *own)
{
	/* AB, pairs with AC: the bytes, then whether they are to be trusted */
	smp_rmb();
	return unlikely(test_bit(L5_END_REVOKED, &own->flags));
}

/*
 * Must a receive that has bytes end before a record, since what rides with it
 * would be said of those bytes, too?
 */
static bool l5_ring_apart(const struct l5_end *own, const struct msghdr *msg,
			  const struct l5_cons *c, bool begun)
{
	return unlikely(c->files) && begun && msg->msg_control &&
	       test_bit(L5_END_ASKS, &own->flags);
}

static ssize_t l5_ring_take(struct l5_sock *l5, struct msghdr *msg, size_t len,
			    bool discard, bool *files)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	struct iov_iter *to = &msg->msg_iter;
	struct l5_cons *c = &own->cons;
	bool begun = *files;
	size_t done = 0;
	u32 freed = 0;
	int err;

	*files = false;
	lockdep_assert_held(&l5->rx_lock);
	while ((err = l5_ring_payload(l5)) > 0) {
		u32 part = min_t(size_t, len - done, c->len - c->off), n = part;

		if (!part)
			break;
		*files = l5_ring_apart(own, msg, c, begun || done);
		if (*files)
			break;
		if (unlikely(c->files)) {
			*files = begun || done;
			err = l5->bops->files->recv(l5, msg, c, part, 0, files);
			if (err)
				break;
		} else if (!discard) {
			n = l5_ring_copy_out(own, ring, c, part, to);
		}
		if (n < part) {
			iov_iter_revert(to, n);
			err = l5_ring_short(ring,
					    c->head + L5_HDR + c->off + n);
			break;
		}
		/* what the bootstrap carries is true, and given already */
		if (!c->files && l5_ring_spoilt(own)) {
			if (!discard)
				iov_iter_revert(to, n);
			err = -ECONNRESET;
			break;
		}
		freed += l5_cons_take(c, own->ctrl, n);
		done += n;
		if (l5_room_tell(freed, READ_ONCE(ring->size))) {
			l5_link_freed(l5);
			freed = 0;
			/* records may be as small as the peer likes */
			cond_resched();
			if (fatal_signal_pending(current))
				break;
		}
		if (done == len || *files)
			break;
	}
	if (freed)
		l5_link_freed(l5);
	if (done) {
		own->rx_bytes += done;
		l5_store(&own->ctrl->rx_bytes,
			 l5_load(&own->ctrl->rx_bytes) + done);
		l5_count(l5, L5_STAT_BYTES_RX, done);
		return done;
	}
	if (err < 0)
		return err;
	return err ? 0 : -EAGAIN;
}

/**
 * l5_ring_read() - take bytes out of the ring
 * @l5: a socket in state L5_RINGS, its rx_lock held
 * @msg: where they go, and descriptors that ride with them
 * @len: how many at most
 * @discard: do not copy, only count
 * @files: in: the call has bytes already; out: there may be more to read, but
 *	not by this call
 *
 * Context: may sleep.
 * Return: bytes taken, -EAGAIN if the ring is empty, -EFAULT, -EPROTO,
 * -ECONNRESET if the connection was revoked, or what is to be read is gone
 * since an end is closed.
 */
ssize_t l5_ring_read(struct l5_sock *l5, struct msghdr *msg, size_t len,
		     bool discard, bool *files)
{
	ssize_t n = l5_ring_take(l5, msg, len, discard, files);

	l5_ring_letgo(&l5_own(l5)->rx_copy);
	return n;
}

static ssize_t l5_ring_take_whole(struct l5_sock *l5, struct msghdr *msg,
				  size_t len, bool peek)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	struct iov_iter *to = &msg->msg_iter;
	struct l5_cons *c = &own->cons;
	u32 whole, part, n;
	bool stop = false;
	int err;

	lockdep_assert_held(&l5->rx_lock);
	err = l5_ring_next(ring, c, &own->rx_copy);
	if (err <= 0)
		return err ?: -EAGAIN;
	whole = c->len;
	/* a process that shares the end may say that it took a part */
	c->off = 0;
	part = min_t(size_t, len, whole);
	n = part;
	err = 0;
	if (unlikely(c->files))
		err = l5->bops->files->recv(l5, msg, c, part,
					    peek ? MSG_PEEK : 0, &stop);
	else
		n = l5_ring_copy_out(own, ring, c, part, to);
	/* it is gone then, as AF_UNIX's is */
	if (err && (err != -EFAULT || peek))
		return err;
	if (n < part) {
		iov_iter_revert(to, n);
		return l5_ring_short(ring, c->head + L5_HDR + n);
	}
	/* what the bootstrap carries is true, and given already */
	if (!c->files && l5_ring_spoilt(own)) {
		iov_iter_revert(to, n);
		return -ECONNRESET;
	}
	if (peek)
		return whole;
	l5_cons_take(c, own->ctrl, whole);
	l5_link_freed(l5);
	own->rx_bytes += whole;
	l5_store(&own->ctrl->rx_bytes,
		 l5_load(&own->ctrl->rx_bytes) + whole);
	l5_count(l5, L5_STAT_BYTES_RX, whole);
	return err < 0 ? err : (ssize_t)whole;
}

/**
 * l5_ring_read_whole() - take a record out of the ring
 * @l5: a socket in state L5_RINGS, its rx_lock held
 * @msg: where its payload goes, and descriptors that ride with it
 * @len: how much of it at most; the rest is lost
 * @peek: leave the record in the ring
 *
 * Context: may sleep.
 * Return: length of the record, -EAGAIN if there is none, else as
 * l5_ring_read().
 */
ssize_t l5_ring_read_whole(struct l5_sock *l5, struct msghdr *msg, size_t len,
			   bool peek)
{
	ssize_t n = l5_ring_take_whole(l5, msg, len, peek);

	l5_ring_letgo(&l5_own(l5)->rx_copy);
	return n;
}

/**
 * l5_ring_walk() - the next record of a walk that takes none
 * @ring: what is read
 * @c: at a record
 * @start: where the walk began
 * @copy: as for l5_ring_next()
 *
 * Empty records are not to keep a walk busy any more than a read.
 *
 * Context: any.
 * Return: as l5_ring_next().
 */
int l5_ring_walk(struct l5_end *ring, struct l5_cons *c, u64 start,
		 struct page **copy)
{
	c->empty = c->len || ring->packets ? 0 : c->empty + 1;
	if (c->empty > L5_EMPTY_MAX)
		return -EPROTO;
	return l5_chain_step(c, start) ? l5_ring_next(ring, c, copy) : 0;
}

static ssize_t l5_ring_look(struct l5_sock *l5, struct msghdr *msg,
			    size_t skip, size_t len, bool discard, bool *files)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	struct iov_iter *to = &msg->msg_iter;
	u64 start = own->cons.head;
	struct l5_cons *c = &own->cons;
	bool begun = *files, rode = false;
	struct l5_cons walk;
	size_t done = 0;
	int err, came;

	*files = false;
	lockdep_assert_held(&l5->rx_lock);
	/* validate in place, so that a read gets what was seen here */
	err = l5_ring_payload(l5);
	walk = *c;
	for (; err > 0; err = l5_ring_walk(ring, &walk, start, &own->rx_copy)) {
		u32 left = walk.len - walk.off, part, n;

		/* of the next one the bootstrap cannot be asked */
		*files = l5_ring_apart(own, msg, &walk, begun || done) ||
			 (walk.files && rode);
		if (*files)
			return done;
		rode |= walk.files;
		/* records may be as small as the peer likes */
		cond_resched();
		if (fatal_signal_pending(current))
			return done ?: -EINTR;
		if (skip >= left) {
			skip -= left;
			if (!len)
				break;
			continue;
		}
		/* the bootstrap shows it from its beginning */
		*files = walk.files && skip;
		if (*files)
			return done;
		walk.off += skip;
		part = min_t(size_t, len - done, left - skip);
		skip = 0;
		n = part;
		if (unlikely(walk.files)) {
			*files = begun || done;
			came = l5->bops->files->recv(l5, msg, &walk, part,
						     MSG_PEEK, files);
			if (came)
				return done || came == -EAGAIN ? done : came;
		} else if (!discard) {
			n = l5_ring_copy_out(own, ring, &walk, part, to);
		}
		if (n < part && !discard) {
			iov_iter_revert(to, n);
			return done ?: l5_ring_short(ring, walk.head + L5_HDR +
							   walk.off + n);
		}
		if (!walk.files && l5_ring_spoilt(own)) {
			if (!discard)
				iov_iter_revert(to, n);
			return done ?: -ECONNRESET;
		}
		done += part;
		if (done == len || *files)
			return done;
	}
	if (done)
		return done;
	return err < 0 ? err : err ? 0 : -EAGAIN;
}

/**
 * l5_ring_peek() - copy bytes and leave them in the ring
 * @l5: a socket in state L5_RINGS, its rx_lock held
 * @msg: where they go
 * @skip: bytes to leave out at the start
 * @len: how many at most
 * @discard: do not copy, only count
 * @files: as for l5_ring_read()
 *
 * Return: as l5_ring_read().
 */
ssize_t l5_ring_peek(struct l5_sock *l5, struct msghdr *msg, size_t skip,
		     size_t len, bool discard, bool *files)
{
	ssize_t n = l5_ring_look(l5, msg, skip, len, discard, files);

	l5_ring_letgo(&l5_own(l5)->rx_copy);
	return n;
}

/**
 * l5_ring_seen() - the position where the chain of unread records ends now
 * @l5: a socket that reads from a ring
 * @from: what this function returned before, 0 at first
 *
 * Context: any, no lock.
 * Return: a position from which on no record was seen.
 */
u64 l5_ring_seen(struct l5_sock *l5, u64 from)
{
	struct l5_end *ring = l5_peer(l5);
	struct l5_cons walk = { .size = READ_ONCE(ring->size) };
	u64 start;

	if (l5_cons_load(&walk, l5_own(l5)->ctrl) < 0)
		return from;
	start = walk.head;
	walk.head = l5_chain_from(from, start, walk.size);
	walk.off = 0;
	if (l5_ring_next(ring, &walk, NULL) > 0)
		while (l5_ring_walk(ring, &walk, start, NULL) > 0)
			;
	return walk.head;
}

/**
 * l5_ring_readable() - is there anything to read, or to complain about?
 * @l5: a socket in state L5_RINGS
 *
 * Context: any, no lock.
 */
bool l5_ring_readable(struct l5_sock *l5)
{
	u64 head = l5_load(&l5_own(l5)->ctrl->rx_head);
	struct l5_end *ring = l5_peer(l5);
	bool ret = false;
	u64 *slot;

	head &= ~(u64)(L5_HDR - 1);
	rcu_read_lock_sched();
	slot = l5_ring_slot(ring, head);
	if (slot && !(ring->late_key && l5_ring_late(ring, head, slot)))
		ret = READ_ONCE(*slot);
	rcu_read_unlock_sched();
	return ret;
}

/**
 * l5_ring_writable() - is it worth while to write?
 * @l5: a socket in state L5_RINGS
 *
 * Context: any, no lock.
 */
bool l5_ring_writable(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5);
	u64 tail = l5_load(&own->ctrl->tx_tail);
	u64 head = l5_load(&l5_peer(l5)->ctrl->rx_head);
	u32 extent = l5_ring_extent(l5);

	if (l5_ring_starves(own, tail, head))
		return false;
	return l5_room_worth(tail, head,
			     own->packets ? extent / 2 : extent);
}

/**
 * l5_ring_used() - bytes in use of the ring an end writes, headers included
 * @conn: a connection that is paired
 * @end: the end
 *
 * It follows from what the ends say, so it is a hint, but never more than the
 * ring has.
 */
u32 l5_ring_used(struct l5_conn *conn, int end)
{
	s64 used = l5_load(&conn->end[end].ctrl->tx_tail) -
		   l5_load(&conn->end[!end].ctrl->rx_head);

	return clamp_t(s64, used, 0, READ_ONCE(conn->end[end].size));
}
