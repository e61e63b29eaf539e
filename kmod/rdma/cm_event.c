// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what the connection manager tells of a connection, from
 * the answer to a question to the end of the queue pair. Only what must be done
 * at once is done here; the end's work does the rest, see cm.c.
 */
#include <linux/sched/mm.h>

#include <rdma/ib_cm.h>

#include "rdma.h"

/**
 * l5_cm_fail() - the connection stays on TCP, or ends
 * @rd: of this end
 * @reason: why it stays there, &enum l5_reason, if nothing has said so yet
 *
 * Context: any.
 */
void l5_cm_fail(struct l5_rdma *rd, u8 reason)
{
	if (!rd->far.bye)
		WRITE_ONCE(rd->far.bye, reason);
	l5_far_dead(&rd->far, ECONNRESET);
}

/**
 * l5_cm_timers() - set the timers of a queue pair
 * @rd: of this end; the queue pair is made, but not connected yet
 *
 * A device waits for 4.096 us << n at least until it sends a packet again.
 */
void l5_cm_timers(struct l5_rdma *rd)
{
	u64 ns = jiffies_to_nsecs(rd->far.timeout);
	unsigned long units = DIV_ROUND_UP_ULL(ns, 4096 * (L5_RETRY + 1));

	rdma_set_ack_timeout(rd->id, order_base_2(units));
	/* the device's default is more than half a second */
	rdma_set_min_rnr_timer(rd->id, L5_RNR_TIMER);
}

/**
 * l5_cm_why() - the reason to stay on TCP after an error here
 * @err: a negative errno
 */
u8 l5_cm_why(int err)
{
	return err == -EDQUOT ? L5_REASON_LIMIT :
	       err == -ENOMEM ? L5_REASON_NOMEM : L5_REASON_RDMA;
}

static void l5_cm_connect(struct l5_rdma *rd)
{
	struct l5_hello hello = { };
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.retry_count = L5_RETRY,
		.rnr_retry_count = L5_RNR_RETRY,
	};
	u32 max;
	int err;

	/* see l5_cm_quiet() */
	if (l5_is_dead(&rd->far.ph))
		return;
	err = l5_rdma_create(rd);
	if (!err) {
		l5_rdma_hello(rd, &hello);
		max = hello.max_size;
		hello.tx_size = min(max, l5_conn_wish(rd->far.conn, true));
		hello.rx_size = min(max, l5_conn_wish(rd->far.conn, false));
		l5_seal_make(rd, &hello);
		l5_cm_timers(rd);
		err = rdma_connect_locked(rd->id, &param);
	}
	if (err)
		l5_cm_fail(rd, l5_cm_why(err));
}

/**
 * l5_hello_valid() - can this end understand a hello?
 * @h: the hello that came, not trusted
 * @len: bytes of it
 */
bool l5_hello_valid(const struct l5_hello *h, size_t len)
{
	return len >= sizeof(*h) && h->magic == cpu_to_be32(L5_MAGIC) &&
	       h->version == L5_VERSION && h->endian == L5_ENDIAN &&
	       l5_order_valid(h) &&
	       is_power_of_2(h->tx_size) && is_power_of_2(h->rx_size) &&
	       h->tx_size >= L5_RING_LEAST && h->tx_size <= L5_RING_MAX &&
	       h->rx_size >= L5_RING_LEAST && h->rx_size <= L5_RING_MAX;
}

static void l5_cm_established(struct l5_rdma *rd, struct rdma_cm_event *event)
{
	const struct rdma_conn_param *p = &event->param.conn;
	const struct l5_hello *hello = p->private_data;

	if (!l5_far_asked(&rd->far)) {
		if (!hello || !l5_hello_valid(hello, p->private_data_len)) {
			l5_cm_fail(rd, L5_REASON_REFUSED);
			return;
		}
		if (!l5_seal_good(rd, hello, p->qp_num)) {
			l5_net_count(rd->far.ln, L5_STAT_RDMA_FORGED, 1);
			l5_cm_fail(rd, L5_REASON_REFUSED);
			return;
		}
		rd->hello = *hello;
		rd->peer_qpn = p->qp_num;
		l5_order_agree(rd);
	}
	l5_far_do(&rd->far, L5_DO_UP);
}

/**
 * l5_cm_fits() - has a device the right connection manager?
 * @id: with a device
 *
 * InfiniBand's connection manager has messages of its own. The one for iWARP
 * makes a TCP connection, to the application's port, and writes into it.
 */
bool l5_cm_fits(const struct rdma_cm_id *id)
{
	return rdma_cap_ib_cm(id->device, id->port_num);
}

/*
 * Did the peer say no, or does no program listen there? Any other reason may
 * pass: a queue pair number that is still known from before, or no resources.
 * The end of a server passes, too: the connection manager says no by itself for
 * a server that goes while its answer is on its way, but that rejection has no
 * private data.
 */
static bool l5_cm_refused(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *p = &event->param.conn;

	if (event->status == IB_CM_REJ_CONSUMER_DEFINED)
		return p->private_data &&
		       memchr_inv(p->private_data, 0, p->private_data_len);
	return event->status == IB_CM_REJ_INVALID_SERVICE_ID;
}

static void l5_cm_heard(struct l5_rdma *rd, struct rdma_cm_id *id,
			struct rdma_cm_event *event)
{
	u8 why;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		why = l5_guard_way(id);
		if (why)
			l5_cm_fail(rd, why);
		else if (!l5_cm_fits(id) ||
			 !rdma_dev_access_netns(id->device,
						id->route.addr.dev_addr.net) ||
			 rdma_resolve_route(id, READ_ONCE(rd->far.ln->rdma_ms)))
			l5_cm_fail(rd, L5_REASON_RDMA);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		l5_cm_connect(rd);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		l5_cm_established(rd, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		l5_cm_fail(rd, l5_cm_refused(event) ?
			     L5_REASON_REFUSED : L5_REASON_RDMA);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		l5_cm_fail(rd, L5_REASON_PEER);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/* only the word that the answer came was lost */
		if (!l5_far_asked(&rd->far) ||
		    !l5_far_is(&rd->far, L5_FAR_READY))
			l5_cm_fail(rd, L5_REASON_SILENT);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		l5_cm_fail(rd, L5_REASON_RDMA);
		break;
	default:
		break;
	}
}

/**
 * l5_cm_event() - the connection manager's handler, of each cm id of a question
 * @id: the id, with its &struct l5_rdma
 * @event: what happened
 *
 * Return: 0, the id stays.
 */
int l5_cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct l5_rdma *rd = id->context;
	struct mem_cgroup *old =
		set_active_memcg(READ_ONCE(rd->far.payer.memcg));

	l5_cm_heard(rd, id, event);
	set_active_memcg(old);
	return 0;
}

/**
 * l5_cm_hold() - an object gets a cm id
 * @rd: the object; the id has a reference to it, and tells it of events
 * @id: the object's id; the module waits for its end before it goes
 *
 * Context: any.
 */
void l5_cm_hold(struct l5_rdma *rd, struct rdma_cm_id *id)
{
	l5_far_hold(&rd->far);
	id->context = rd;
	id->event_handler = l5_cm_event;
	rd->id = id;
}
