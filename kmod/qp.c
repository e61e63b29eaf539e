// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what a connection has of the device, from making it to
 * giving it back: a protection domain, a completion queue, a queue pair, the
 * regions of both rings and of the mailbox. See rdma.h for who owns it.
 */
#include <linux/sched/mm.h>
#include <linux/siphash.h>
#include <linux/slab.h>

#include "rdma.h"

/*
 * No task is to be killed for it in a memory cgroup that is full: a connection
 * does without RDMA.
 */
#define L5_RDMA_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | \
			 __GFP_NOWARN)

/* End of an object that may be looked at without a reference */
static void l5_rdma_free_rcu(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct l5_rdma, rcu));
}

/**
 * l5_rdma_put() - drop a reference
 * @rd: of this
 *
 * Context: any.
 */
void l5_rdma_put(struct l5_rdma *rd)
{
	if (!refcount_dec_and_test(&rd->ref))
		return;
	l5_payer_put(&rd->payer);
	call_rcu(&rd->rcu, l5_rdma_free_rcu);
}

static void l5_rdma_work(struct work_struct *work)
{
	struct l5_rdma *rd = container_of(work, struct l5_rdma, work);
	struct mem_cgroup *old = set_active_memcg(READ_ONCE(rd->payer.memcg));

	l5_door_work(rd, xchg(&rd->todo, 0));
	set_active_memcg(old);
	l5_rdma_put(rd);
}

static void l5_rdma_expired(struct work_struct *work)
{
	struct l5_rdma *rd = container_of(work, struct l5_rdma, expire.work);

	l5_rdma_do(rd, L5_DO_EXPIRE);
	l5_rdma_put(rd);
}

/**
 * l5_rdma_alloc() - what an end needs from the first question on
 * @ln: its namespace
 * @gfp: how to allocate
 *
 * Return: it, with one reference, or NULL.
 */
struct l5_rdma *l5_rdma_alloc(struct l5_net *ln, gfp_t gfp)
{
	struct l5_rdma *rd = kzalloc(sizeof(*rd), gfp);
	int i;

	if (!rd)
		return NULL;
	refcount_set(&rd->ref, 1);
	spin_lock_init(&rd->lock);
	INIT_HLIST_NODE(&rd->node);
	INIT_LIST_HEAD(&rd->poll_node);
	INIT_LIST_HEAD(&rd->turn_node);
	INIT_WORK(&rd->work, l5_rdma_work);
	INIT_DELAYED_WORK(&rd->expire, l5_rdma_expired);
	INIT_DELAYED_WORK(&rd->again, l5_rdma_resume);
	init_waitqueue_head(&rd->wait);
	rd->ln = ln;
	rd->since = jiffies;
	rd->timeout = msecs_to_jiffies(READ_ONCE(ln->rdma_timeout_ms));
	rd->slot_no = -1;
	rd->notify = READ_ONCE(ln->rdma_notify);
	for (i = 0; i < L5_SQ; i++) {
		rd->slots[i].rd = rd;
		rd->slots[i].seq = i;
	}
	set_bit(L5_RD_OPEN, &rd->flags);
	return rd;
}

/**
 * l5_rdma_max_size() - the longest ring that the device can register
 * @rd: whose @id has a device, and whose @conn knows its socket's wishes
 *
 * No longer than this end would ask for, since it pays for its copies of both.
 *
 * Return: bytes, a power of two.
 */
u32 l5_rdma_max_size(const struct l5_rdma *rd)
{
	u64 max = (u64)rd->id->device->attrs.max_fast_reg_page_list_len
		  << PAGE_SHIFT;
	u32 wish = max3(READ_ONCE(rd->ln->ring_kb) << 10,
			l5_conn_wish(rd->conn, false),
			l5_conn_wish(rd->conn, true));
	u32 own = min(READ_ONCE(rd->ln->ring_max_kb) << 10, wish);

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
 * What the device says of a queue pair beside completions. A peer that has got
 * the answer may send before the word comes that it has got it.
 */
static void l5_rdma_qp_event(struct ib_event *event, void *context)
{
	struct l5_rdma *rd = context;

	switch (event->event) {
	case IB_EVENT_COMM_EST:
		l5_rdma_heard(rd);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		l5_rdma_dead(rd, ECONNRESET);
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
		/* and registrations, and what draining takes */
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

/* Is what the device was given of a region the very pages? */
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

/* Valid once the work requests before the next one are done. */
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
 * Receives for what the peer says, and for the bytes that it may send along.
 * Posted before the queue pair can get anything.
 */
static int l5_rdma_receives(struct l5_rdma *rd)
{
	bool bytes = rd->server ? rd->peer_notify == L5_NOTIFY_SEND :
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

/* One more, if there may be one. */
static bool l5_rdma_count(struct l5_rdma *rd)
{
	if (!l5_qp_get(&rd->payer, rd->ln))
		return false;
	set_bit(L5_RD_COUNTED, &rd->flags);
	return true;
}

/**
 * l5_rdma_create() - make a queue pair, not connected yet, that can receive
 * @rd: whose @id has a device
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
	if (rd->notify == L5_NOTIFY_AUTO)
		rd->notify = l5_rdma_software(dev) ? L5_NOTIFY_IMM :
						     L5_NOTIFY_TWO;
	rd->safe = l5_order_safe(rd);
	if (rd->server)
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
	err = l5_rdma_buffer(rd, &rd->msgs, L5_SQ * sizeof(struct l5_msg),
			     &rd->msgs_dma);
	if (err)
		return err;
	err = l5_region_alloc(rd, &rd->rx, pages);
	if (!err)
		err = l5_region_alloc(rd, &rd->tx, pages);
	if (!err && rd->mailbox)
		err = l5_region_alloc(rd, &rd->box, 1);
	if (!err)
		err = l5_rdma_receives(rd);
	return err;
}

/**
 * l5_rdma_hello() - what the peer has to know
 * @rd: of this end
 * @hello: filled in but for the sizes and the seal
 */
void l5_rdma_hello(struct l5_rdma *rd, struct l5_hello *hello)
{
	hello->magic = cpu_to_be32(L5_MAGIC);
	hello->version = L5_VERSION;
	hello->notify = rd->notify;
	hello->safe = rd->safe;
	hello->endian = L5_ENDIAN;
	hello->token = l5_token(rd->key);
	hello->max_size = l5_rdma_max_size(rd);
	hello->rkey = rd->rx.mr->rkey;
	if (rd->box.mr) {
		hello->mailbox_rkey = rd->box.mr->rkey;
		hello->mailbox_slot = rd->slot_no;
	}
}

/**
 * l5_rdma_rings() - make the rings, and show them to the device
 * @rd: this end's
 * @client: size of the one that the connecting end writes
 * @server: of the other
 *
 * Context: may sleep.
 * Return: 0, -ENOMEM also at a limit, -EIO.
 */
int l5_rdma_rings(struct l5_rdma *rd, u32 client, u32 server)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	struct l5_end *peer = &rd->conn->end[!rd->end];
	struct page *page;
	int err;

	l5_conn_fix(rd->conn, client, server);
	err = l5_ring_populate(rd->conn, 0, 0);
	if (!err)
		err = l5_region_map(rd, &rd->tx, own->pages,
				    own->size >> PAGE_SHIFT, 0, PAGE_SIZE,
				    DMA_TO_DEVICE, L5_IOVA_RING);
	if (!err)
		err = l5_region_map(rd, &rd->rx, peer->pages,
				    peer->size >> PAGE_SHIFT, 0, PAGE_SIZE,
				    DMA_FROM_DEVICE, L5_IOVA_RING);
	if (!err && rd->box.mr) {
		page = l5_mailbox_page(rd->mailbox);
		err = l5_region_map(rd, &rd->box, &page, 1, rd->slot_no, 1,
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
	spin_lock_bh(&rd->lock);
	/* see l5_move_stop() */
	if (!l5_rd(rd, L5_RD_OPEN)) {
		spin_unlock_bh(&rd->lock);
		return -ECANCELED;
	}
	set_bit(L5_RD_UP, &rd->flags);
	l5_rdma_say(rd, L5_MSG_READY, 0, 0);
	set_bit(L5_RD_READY, &rd->flags);
	spin_unlock_bh(&rd->lock);
	return 0;
}

static void l5_rdma_drained(struct ib_cq *cq, struct ib_wc *wc)
{
	struct l5_rdma *rd = container_of(wc->wr_cqe, struct l5_rdma,
					  drain_cqe);

	complete(&rd->drained);
}

/* One last request in each queue. Return: how many were posted. */
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
 * ib_drain_qp() waits for ever for a device that stands still. This one waits
 * for so long as such a device may take; what has not completed by then is
 * flushed by the end of the queue pair, and nobody hears of it: the connection
 * ends with an error, as with any device that fails. What the driver does of
 * its own accord, here and in l5_rdma_destroy(), takes as long as it takes.
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
 * l5_rdma_destroy() - give back all that the device has of this
 * @rd: drained
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
	l5_rdma_unbuffer(rd, &rd->msgs, L5_SQ * sizeof(struct l5_msg),
			 rd->msgs_dma);
	l5_rdma_unbuffer(rd, &rd->bufs, l5_rdma_bufs_len(rd), rd->bufs_dma);
	if (rd->pd)
		ib_dealloc_pd(rd->pd);
	rd->pd = NULL;
	rd->cq = NULL;
	if (test_and_clear_bit(L5_RD_COUNTED, &rd->flags))
		l5_qp_put(&rd->payer, rd->ln);
	/* what keeps the namespace of a closed socket */
	rdma_destroy_id(rd->id);
	rd->id = NULL;
}
