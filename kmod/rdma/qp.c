// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the objects that a connection has of the device, from
 * making them to giving them back: a protection domain, a completion queue, a
 * queue pair, the regions of both rings and of the mailbox. See rdma.h for
 * their owner.
 */
#include <linux/siphash.h>
#include <linux/slab.h>

#include "rdma.h"

/*
 * Allocating this memory kills no task in a memory cgroup that is full: it
 * fails, and the connection stays on TCP.
 */
#define L5_RDMA_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | \
			 __GFP_NOWARN)

/**
 * l5_rdma_alloc() - make the object that an end needs from the first question
 *	on
 * @ln: its namespace
 * @wire: what carries the end's bytes: these verbs, as cm.c has them work
 * @gfp: how to allocate
 *
 * Return: the object, with one reference, or NULL.
 */
struct l5_rdma *l5_rdma_alloc(struct l5_net *ln,
			      const struct l5_wire_ops *wire, gfp_t gfp)
{
	struct l5_rdma *rd = kzalloc(sizeof(*rd), gfp);
	int i;

	if (!rd)
		return NULL;
	l5_far_init(&rd->far, ln, wire);
	INIT_HLIST_NODE(&rd->node);
	INIT_LIST_HEAD(&rd->turn_node);
	rd->since = jiffies;
	for (i = 0; i < L5_SQ; i++) {
		rd->slots[i].rd = rd;
		rd->slots[i].seq = i;
	}
	return rd;
}

/**
 * l5_rdma_max_size() - the longest ring that the device can register
 * @rd: of this end; its @id has a device, its @conn knows the socket's wishes
 *
 * It is no longer than this end would ask for, since this end pays for its
 * copies of both rings.
 *
 * Return: bytes, a power of two.
 */
u32 l5_rdma_max_size(const struct l5_rdma *rd)
{
	u64 max = (u64)rd->id->device->attrs.max_fast_reg_page_list_len
		  << PAGE_SHIFT;
	u32 wish = max3(READ_ONCE(rd->far.ln->ring_kb) << 10,
			l5_conn_wish(rd->far.conn, false),
			l5_conn_wish(rd->far.conn, true));
	u32 own = min(READ_ONCE(rd->far.ln->ring_max_kb) << 10, wish);

	return rounddown_pow_of_two(clamp_t(u64, max, L5_RING_LEAST, own));
}

static void l5_rdma_unbuffer(struct l5_rdma *rd, void **p, size_t len, u64 dma)
{
	if (!*p)
		return;
	ib_dma_unmap_single(rd->id->device, dma, len, DMA_BIDIRECTIONAL);
	free_pages_exact(*p, len);
	*p = NULL;
}

static int l5_rdma_buffer(struct l5_rdma *rd, void **p, size_t len, u64 *dma)
{
	struct ib_device *dev = rd->id->device;
	void *at = alloc_pages_exact(len, L5_RDMA_GFP | __GFP_ZERO);

	if (!at)
		return -ENOMEM;
	*dma = ib_dma_map_single(dev, at, len, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(dev, *dma)) {
		free_pages_exact(at, len);
		return -ENOMEM;
	}
	*p = at;
	if (l5_rdma_coherent(dev, *dma, virt_to_phys(at)))
		return 0;
	l5_rdma_unbuffer(rd, p, len, *dma);
	l5_rdma_unfit(dev);
	return -EOPNOTSUPP;
}

static size_t l5_rdma_bufs_len(const struct l5_rdma *rd)
{
	return rd->rq * rd->buf_len;
}

/*
 * Events of a queue pair that are no completions. A peer that has got the
 * answer may send before the word that it has got it comes. The connection
 * manager goes on repeating the answer until it hears the word itself. It is
 * not told by rdma_notify(): if the connection ends before the manager's work
 * for that has run, in all kernels up to 6.12 at least, nothing ends the
 * repeating any more, and rdma_destroy_id() waits for a minute until the
 * repeating has come to its own end.
 *
 * The device writes to no memory but the ring and the byte of the mailbox, and
 * the keys of these are good for this queue pair alone: each queue pair has a
 * protection domain of its own.
 */
static void l5_rdma_qp_event(struct ib_event *event, void *context)
{
	struct l5_rdma *rd = context;

	switch (event->event) {
	case IB_EVENT_COMM_EST:
		l5_far_heard(&rd->far);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		l5_far_dead(&rd->far, ECONNRESET);
		break;
	default:
		break;
	}
}

static int l5_rdma_qp(struct l5_rdma *rd)
{
	struct ib_qp_init_attr attr = {
		.event_handler = l5_rdma_qp_event,
		.qp_context = rd,
		.send_cq = rd->cq,
		.recv_cq = rd->cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		/* and for registrations, and for draining */
		.cap.max_send_wr = L5_SQ + 8,
		.cap.max_recv_wr = L5_RQ + 1,
		.cap.max_send_sge = 3,
		.cap.max_recv_sge = 1,
		.cap.max_inline_data = L5_INLINE,
	};
	int err;

	err = rdma_create_qp(rd->id, rd->pd, &attr);
	if (err) {
		attr.cap.max_inline_data = 0;
		err = rdma_create_qp(rd->id, rd->pd, &attr);
	}
	rd->inline_max = attr.cap.max_inline_data;
	return err;
}

static int l5_region_alloc(struct l5_rdma *rd, struct l5_region *r, u32 n)
{
	struct ib_mr *mr = ib_alloc_mr(rd->pd, IB_MR_TYPE_MEM_REG, n);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	r->mr = mr;
	return 0;
}

static void l5_region_free(struct l5_rdma *rd, struct l5_region *r)
{
	if (r->mr)
		ib_dereg_mr(r->mr);
	if (r->n)
		ib_dma_unmap_sg(rd->id->device, r->sg, r->n, r->dir);
	kvfree(r->sg);
	memset(r, 0, sizeof(*r));
}

/* Do the addresses that the device was given of a region lead to its pages? */
static bool l5_region_coherent(struct l5_rdma *rd, struct l5_region *r,
			       struct page **pages, int m, u32 off)
{
	struct sg_dma_page_iter iter;
	int i = 0;

	for_each_sg_dma_page(r->sg, &iter, m, 0)
		if (!l5_rdma_coherent(rd->id->device,
				      sg_page_iter_dma_address(&iter),
				      page_to_phys(pages[i++]) + off))
			return false;
	return i == r->n;
}

/* Give the device @n pages of a region, or a part of one. */
static int l5_region_map(struct l5_rdma *rd, struct l5_region *r,
			 struct page **pages, int n, u32 off, u32 len,
			 enum dma_data_direction dir, u64 iova)
{
	int i, m;

	r->sg = kvcalloc(n, sizeof(*r->sg), L5_RDMA_GFP);
	if (!r->sg)
		return -ENOMEM;
	sg_init_table(r->sg, n);
	for (i = 0; i < n; i++)
		sg_set_page(&r->sg[i], pages[i], len, off);
	m = ib_dma_map_sg(rd->id->device, r->sg, n, dir);
	if (!m)
		return -EIO;
	r->n = n;
	r->dir = dir;
	if (!l5_region_coherent(rd, r, pages, m, off)) {
		l5_rdma_unfit(rd->id->device);
		return -EOPNOTSUPP;
	}
	m = ib_map_mr_sg(r->mr, r->sg, m, NULL, PAGE_SIZE);
	if (m <= 0 || r->mr->length != (u64)n * len)
		return m < 0 ? m : -EIO;
	r->mr->iova = iova + off;
	return 0;
}

static void l5_rdma_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		l5_rdma_wc_error(cq->cq_context, wc);
}

/* Register a region; it is valid for the work requests after this one. */
static int l5_region_post(struct l5_rdma *rd, struct l5_region *r, int access)
{
	struct ib_reg_wr wr = {
		.wr.wr_cqe = &rd->reg_cqe,
		.wr.opcode = IB_WR_REG_MR,
		.mr = r->mr,
		.key = access & IB_ACCESS_REMOTE_WRITE ? r->mr->rkey :
							 r->mr->lkey,
		.access = access,
	};

	rd->reg_cqe.done = l5_rdma_registered;
	return ib_post_send(rd->id->qp, &wr.wr, NULL);
}

/*
 * Make the receives for the peer's messages, and for the bytes that it may send
 * along. They are posted before the queue pair can get anything.
 */
static int l5_rdma_receives(struct l5_rdma *rd)
{
	/* a client does not know yet how its server sends */
	bool bytes = l5_far_asked(&rd->far) ?
		     !!l5_way(rd->far.peer_notify)->got_data :
		     rd->safe & BIT(L5_NOTIFY_SEND);
	u32 i;
	int err;

	rd->rq = bytes ? L5_RQ_BYTES : L5_RQ;
	rd->buf_len = sizeof(struct l5_msg) + (bytes ? L5_MSG_BYTES : 0);
	err = l5_rdma_buffer(rd, &rd->bufs, l5_rdma_bufs_len(rd),
			     &rd->bufs_dma);
	for (i = 0; i < rd->rq && !err; i++)
		err = l5_rdma_post_recv(rd, i);
	return err;
}

/* Count one queue pair more, if there may be one. */
static bool l5_rdma_count(struct l5_rdma *rd)
{
	if (!l5_remote_charge(&rd->far.payer, rd->far.ln))
		return false;
	set_bit(L5_FAR_COUNTED, &rd->far.flags);
	return true;
}

/**
 * l5_rdma_create() - make a queue pair, not connected yet, that can receive
 * @rd: of this end; its @id has a device
 *
 * Context: may sleep.
 * Return: 0, -EDQUOT at a limit, or why not.
 */
int l5_rdma_create(struct l5_rdma *rd)
{
	struct ib_device *dev = rd->id->device;
	u32 pages = l5_rdma_max_size(rd) >> PAGE_SHIFT;
	int err;

	if (!(dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return -EOPNOTSUPP;
	if (!l5_rdma_count(rd))
		return -EDQUOT;
	if (rd->far.notify == L5_NOTIFY_AUTO)
		rd->far.notify = l5_rdma_software(dev) ? L5_NOTIFY_IMM :
						     L5_NOTIFY_TWO;
	rd->safe = l5_order_safe(rd);
	if (l5_far_asked(&rd->far))
		l5_order_agree(rd);
	rd->pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(rd->pd)) {
		err = PTR_ERR(rd->pd);
		rd->pd = NULL;
		return err;
	}
	rd->cq = ib_alloc_cq_any(dev, rd, L5_SQ + L5_RQ + 16, IB_POLL_SOFTIRQ);
	if (IS_ERR(rd->cq)) {
		err = PTR_ERR(rd->cq);
		rd->cq = NULL;
		return err;
	}
	err = l5_rdma_qp(rd);
	if (err)
		return err;
	err = l5_rdma_buffer(rd, &rd->far.msgs, L5_SQ * sizeof(struct l5_msg),
			     &rd->msgs_dma);
	if (err)
		return err;
	err = l5_region_alloc(rd, &rd->rx, pages);
	if (!err)
		err = l5_region_alloc(rd, &rd->tx, pages);
	if (!err && rd->far.mailbox)
		err = l5_region_alloc(rd, &rd->box, 1);
	if (!err)
		err = l5_rdma_receives(rd);
	return err;
}

/**
 * l5_rdma_hello() - fill in what the peer has to know
 * @rd: of this end
 * @hello: filled in but for the sizes and the seal
 */
void l5_rdma_hello(struct l5_rdma *rd, struct l5_hello *hello)
{
	hello->magic = cpu_to_be32(L5_MAGIC);
	hello->version = L5_VERSION;
	hello->notify = rd->far.notify;
	hello->safe = rd->safe;
	hello->endian = L5_ENDIAN;
	hello->token = l5_token(rd->far.key);
	hello->max_size = l5_rdma_max_size(rd);
	hello->rkey = rd->rx.mr->rkey;
	if (rd->box.mr) {
		hello->mailbox_rkey = rd->box.mr->rkey;
		hello->mailbox_slot = rd->far.slot_no;
	}
}

/**
 * l5_rdma_rings() - make the rings, and show them to the device
 * @rd: of this end
 * @client: size of the ring that the connecting end writes
 * @server: size of the ring that the other end writes
 *
 * Context: may sleep.
 * Return: 0, -ENOMEM also at a limit, -EIO.
 */
int l5_rdma_rings(struct l5_rdma *rd, u32 client, u32 server)
{
	struct l5_end *own = &rd->far.conn->end[rd->far.end];
	struct l5_end *peer = &rd->far.conn->end[!rd->far.end];
	struct page *page;
	int err;

	l5_conn_fix(rd->far.conn, client, server);
	err = l5_ring_populate(rd->far.conn, 0, 0, L5_FOLD_WHOLE);
	if (!err)
		err = l5_region_map(rd, &rd->tx, own->pages->at,
				    own->size >> PAGE_SHIFT, 0, PAGE_SIZE,
				    DMA_TO_DEVICE, L5_IOVA_RING);
	if (!err)
		err = l5_region_map(rd, &rd->rx, peer->pages->at,
				    peer->size >> PAGE_SHIFT, 0, PAGE_SIZE,
				    DMA_FROM_DEVICE, L5_IOVA_RING);
	if (!err && rd->box.mr) {
		page = l5_mailbox_page(rd->far.mailbox);
		err = l5_region_map(rd, &rd->box, &page, 1, rd->far.slot_no, 1,
				    DMA_FROM_DEVICE, L5_IOVA_MAILBOX);
	}
	return err;
}

/**
 * l5_rdma_up() - the queue pair is connected: let the peer write
 * @rd: of this end
 *
 * Context: may sleep.
 * Return: 0 or why not.
 */
int l5_rdma_up(struct l5_rdma *rd)
{
	const int remote = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	int err;

	err = l5_region_post(rd, &rd->tx, IB_ACCESS_LOCAL_WRITE);
	if (!err)
		err = l5_region_post(rd, &rd->rx, remote);
	if (!err && rd->box.mr)
		err = l5_region_post(rd, &rd->box, remote);
	if (err)
		return err;
	rd->far.peer_box = rd->hello.mailbox_rkey;
	return l5_far_up(&rd->far);
}

static void l5_rdma_drained(struct ib_cq *cq, struct ib_wc *wc)
{
	struct l5_rdma *rd = container_of(wc->wr_cqe, struct l5_rdma,
					  drain_cqe);

	complete(&rd->drained);
}

/* Post one last request in each queue. Return: how many were posted. */
static int l5_rdma_drain_post(struct l5_rdma *rd)
{
	struct ib_rdma_wr last_send = {
		.wr.wr_cqe = &rd->drain_cqe,
		.wr.opcode = IB_WR_RDMA_WRITE,
	};
	struct ib_recv_wr last_recv = { .wr_cqe = &rd->drain_cqe };
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_qp *qp = rd->id->qp;

	if (ib_modify_qp(qp, &attr, IB_QP_STATE))
		return 0;
	init_completion(&rd->drained);
	rd->drain_cqe.done = l5_rdma_drained;
	return !ib_post_send(qp, &last_send.wr, NULL) +
	       !ib_post_recv(qp, &last_recv, NULL);
}

/**
 * l5_rdma_drain() - send no more, and hear all that has come
 * @rd: of this end
 *
 * ib_drain_qp() waits for ever for a device that stands still. This function
 * waits only as long as a working device may take. Requests that have not
 * completed by then are flushed by the end of the queue pair, and no handler
 * hears of them: the connection ends with an error, as with any device that
 * fails. The work that the driver does of its own accord, here and in
 * l5_rdma_destroy(), takes as long as it takes.
 *
 * Context: may sleep, for L5_DRAIN_WAIT.
 */
void l5_rdma_drain(struct l5_rdma *rd)
{
	unsigned long left = L5_DRAIN_WAIT;
	int n;

	if (!rd->id || !rd->id->qp)
		return;
	rdma_disconnect(rd->id);
	for (n = l5_rdma_drain_post(rd); n && left; n--)
		left = wait_for_completion_timeout(&rd->drained, left);
}

/**
 * l5_rdma_destroy() - give back all objects of the device
 * @rd: of this end, drained
 *
 * Context: may sleep. Afterwards there are no more events.
 */
void l5_rdma_destroy(struct l5_rdma *rd)
{
	if (!rd->id)
		return;
	if (rd->id->qp)
		rdma_destroy_qp(rd->id);
	if (rd->cq)
		ib_free_cq(rd->cq);
	l5_region_free(rd, &rd->tx);
	l5_region_free(rd, &rd->rx);
	l5_region_free(rd, &rd->box);
	l5_rdma_unbuffer(rd, &rd->far.msgs, L5_SQ * sizeof(struct l5_msg),
			 rd->msgs_dma);
	l5_rdma_unbuffer(rd, &rd->bufs, l5_rdma_bufs_len(rd), rd->bufs_dma);
	if (rd->pd)
		ib_dealloc_pd(rd->pd);
	rd->pd = NULL;
	rd->cq = NULL;
	if (test_and_clear_bit(L5_FAR_COUNTED, &rd->far.flags))
		l5_remote_uncharge(&rd->far.payer, rd->far.ln);
	/* the id keeps the namespace of a closed socket */
	rdma_destroy_id(rd->id);
	rd->id = NULL;
}
