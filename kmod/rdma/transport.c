// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: RDMA as sockets see it, see transport.h. A socket that
 * may be asked has a candidate until there is an end.
 */
#include "rdma.h"

static int l5_rdma_mailbox_able(const struct l5_sock *l5)
{
	return READ_ONCE(l5_rdma_sk(l5)->cm_listener) ? 0 : -EOPNOTSUPP;
}

static int l5_rdma_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma)
{
	if (l5_state(l5) == L5_LISTEN && l5_rdma_mailbox_able(l5))
		return -EOPNOTSUPP;
	return l5_mailbox_mmap(l5, vma);
}

static enum l5_reason l5_rdma_ask(struct l5_sock *l5)
{
	return l5_cm_ask(l5, &l5_rdma_transport);
}

static void l5_rdma_accepted(struct l5_sock *l5, struct l5_sock *listener)
{
	l5_cm_accepted(l5, listener, &l5_rdma_transport);
}

static int l5_rdma_stop(struct l5_sock *l5, enum l5_reason why)
{
	if (l5_candidate_end(l5)) {
		WRITE_ONCE(l5->reason, why);
		return 0;
	}
	return l5_handover_stop(l5, why);
}

static bool l5_rdma_undecided(struct l5_sock *l5)
{
	return l5_candidate_may_move(l5) && l5_far_undecided(l5);
}

static void l5_rdma_abandon(struct l5_sock *l5)
{
	if (!l5_candidate_end(l5))
		l5_far_abandon(l5);
}

static bool l5_rdma_detach(struct l5_sock *l5, bool reset, struct socket *boot)
{
	l5_candidate_free(l5);
	return l5_far_detach(l5, reset, boot);
}

static void l5_rdma_get_info(struct l5_sock *l5, struct l5_rdma_info *info)
{
	if (!l5_far_of(l5) &&
	    l5_rdma_sk(l5)->candidate) {
		info->notify = READ_ONCE(l5->ln->rdma_notify);
		info->state = l5_candidate_may_move(l5) ? L5_RDMA_OPEN :
							  L5_RDMA_NONE;
	}
	l5_far_get_info(l5, info);
}

const struct l5_transport_ops l5_rdma_transport = {
	.init		= l5_cm_init,
	.exit		= l5_cm_exit,
	.net_init	= l5_poller_init,
	.net_exit	= l5_poller_exit,
	.net_changed	= l5_poller_set,
	.listen		= l5_cm_listen,
	.unlisten	= l5_cm_unlisten,
	.release	= l5_mailbox_release,
	.mailbox_able	= l5_rdma_mailbox_able,
	.mailbox_mmap	= l5_rdma_mailbox_mmap,
	.mailbox_revoke	= l5_mailbox_revoke,
	.ask		= l5_rdma_ask,
	.accepted	= l5_rdma_accepted,
	.may_move	= l5_candidate_may_move,
	.tx_begin	= l5_candidate_tx_begin,
	.tx_end		= l5_candidate_tx_end,
	.tx_moved	= l5_far_tx_moved,
	.rx_moved	= l5_far_rx_moved,
	.rx_next	= l5_far_rx_next,
	.rx_look	= l5_far_rx_look,
	.boot_end	= l5_far_tcp_end,
	.stop		= l5_rdma_stop,
	.wait		= l5_handover_wait,
	.undecided	= l5_rdma_undecided,
	.abandon	= l5_rdma_abandon,
	.detach		= l5_rdma_detach,
	.fin_wait	= l5_fin_wait,
	.fin_later	= l5_fin_later,
	.get_info	= l5_rdma_get_info,
};
