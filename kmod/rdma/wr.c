// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: work requests as the device wants them, completions, and
 * receives. far/batch.c makes the requests and knows what they are for.
 */
#include "rdma.h"

/**
 * l5_rdma_wc_error() - a work request failed, and so has the queue pair
 * @rd: of this end
 * @wc: its completion
 */
void l5_rdma_wc_error(struct l5_rdma *rd, const struct ib_wc *wc)
{
	bool late = wc->status == IB_WC_RETRY_EXC_ERR ||
		    wc->status == IB_WC_RNR_RETRY_EXC_ERR;

	l5_far_dead(&rd->far, late ? ETIMEDOUT : ECONNRESET);
}

static void l5_rdma_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct l5_slot *slot = container_of(wc->wr_cqe, struct l5_slot, cqe);

	if (wc->status != IB_WC_SUCCESS)
		l5_rdma_wc_error(slot->rd, wc);
	else
		l5_far_completed(&slot->rd->far, slot->seq);
}

/* A part of the own ring, as the CPU finds it; it is in one page. */
static void *l5_rdma_at(const struct l5_rdma *rd, u32 off)
{
	const struct l5_end *own = &rd->far.conn->end[rd->far.end];

	return page_address(own->pages->at[off >> PAGE_SHIFT]) +
	       offset_in_page(off);
}

/* Can the bytes of a request go in itself? Those of a ring in one page can. */
static bool l5_rdma_inline(const struct l5_rdma *rd, const struct l5_wr *w)
{
	const struct l5_seg *s = &w->seg[0];
	u32 len = 0;
	int i;

	for (i = 0; i < w->n; i++) {
		if (i && w->seg[i].ring)
			return false;
		len += w->seg[i].len;
	}
	return len <= rd->inline_max &&
	       (!s->ring || offset_in_page(s->off) + s->len <= PAGE_SIZE);
}

static void l5_rdma_sge(const struct l5_rdma *rd, const struct l5_seg *s,
			bool here, struct ib_sge *sge)
{
	sge->length = s->len;
	if (here) {
		sge->addr = (uintptr_t)(s->ring ? l5_rdma_at(rd, s->off) :
						  rd->far.msgs + s->off);
		sge->lkey = 0;
	} else if (s->ring) {
		sge->addr = rd->tx.mr->iova + s->off;
		sge->lkey = rd->tx.mr->lkey;
	} else {
		sge->addr = rd->msgs_dma + s->off;
		sge->lkey = rd->pd->local_dma_lkey;
	}
}

static void l5_rdma_wr(struct l5_rdma *rd, const struct l5_wr *w,
		       struct ib_rdma_wr *wr, struct ib_sge *sge)
{
	static const enum ib_wr_opcode op[] = {
		[L5_WR_WRITE]		= IB_WR_RDMA_WRITE,
		[L5_WR_WRITE_IMM]	= IB_WR_RDMA_WRITE_WITH_IMM,
		[L5_WR_SEND]		= IB_WR_SEND,
	};
	struct l5_slot *slot = &rd->slots[w->seq % L5_SQ];
	bool here = l5_rdma_inline(rd, w);
	int i;

	slot->seq = w->seq;
	slot->cqe.done = l5_rdma_sent;
	for (i = 0; i < w->n; i++)
		l5_rdma_sge(rd, &w->seg[i], here, &sge[i]);
	memset(wr, 0, sizeof(*wr));
	wr->wr.wr_cqe = &slot->cqe;
	wr->wr.sg_list = sge;
	wr->wr.num_sge = w->n;
	wr->wr.opcode = op[w->op];
	wr->wr.send_flags = (w->signal ? IB_SEND_SIGNALED : 0) |
			    (here ? IB_SEND_INLINE : 0);
	if (w->op == L5_WR_SEND)
		return;
	wr->wr.ex.imm_data = cpu_to_be32(w->imm);
	if (w->mailbox) {
		wr->remote_addr = L5_IOVA_MAILBOX + rd->hello.mailbox_slot;
		wr->rkey = rd->hello.mailbox_rkey;
	} else {
		wr->remote_addr = L5_IOVA_RING + w->off;
		wr->rkey = rd->hello.rkey;
	}
}

/**
 * l5_rdma_post_wr() - post work requests, together or one by one
 * @rd: of this end, its lock held
 * @w: the requests
 * @n: how many, at most L5_BATCH
 *
 * Return: 0 or why not; then it is not known which of them were posted.
 */
int l5_rdma_post_wr(struct l5_rdma *rd, const struct l5_wr *w, int n)
{
	bool chain = READ_ONCE(rd->far.ln->rdma_chain);
	struct ib_sge sge[L5_BATCH][L5_SEGS];
	struct ib_rdma_wr wr[L5_BATCH];
	int i, err = 0;

	for (i = 0; i < n; i++) {
		l5_rdma_wr(rd, &w[i], &wr[i], sge[i]);
		if (i && chain)
			wr[i - 1].wr.next = &wr[i].wr;
	}
	for (i = 0; i < (chain ? 1 : n) && !err; i++)
		err = ib_post_send(rd->id->qp, &wr[i].wr, NULL);
	return err;
}

static void l5_rdma_received(struct ib_cq *cq, struct ib_wc *wc);

/**
 * l5_rdma_post_recv() - post a buffer for the next message
 * @rd: of this end
 * @i: number of the buffer
 *
 * Return: 0 or why not.
 */
int l5_rdma_post_recv(struct l5_rdma *rd, u32 i)
{
	struct ib_sge sge = {
		.addr = rd->bufs_dma + i * rd->buf_len,
		.length = rd->buf_len,
		.lkey = rd->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &rd->recvs[i],
		.sg_list = &sge,
		.num_sge = 1,
	};

	rd->recvs[i].done = l5_rdma_received;
	return ib_post_recv(rd->id->qp, &wr, NULL);
}

static void l5_rdma_received(struct ib_cq *cq, struct ib_wc *wc)
{
	/* the queue pair may be gone if the device could not be drained */
	struct l5_rdma *rd = cq->cq_context;
	u32 i = wc->wr_cqe - rd->recvs;

	if (wc->status != IB_WC_SUCCESS) {
		l5_rdma_wc_error(rd, wc);
		return;
	}
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM)
		l5_far_got_imm(&rd->far, be32_to_cpu(wc->ex.imm_data));
	else
		l5_far_got_msg(&rd->far, rd->bufs + i * rd->buf_len,
			       wc->byte_len);
	/* nothing is posted while the queue pair is drained */
	spin_lock(&rd->far.lock);
	if (!l5_is_dead(&rd->far.ph) && l5_rdma_post_recv(rd, i))
		l5_far_dead(&rd->far, ECONNRESET);
	spin_unlock(&rd->far.lock);
}
