/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transports to other hosts, as sockets see them: the seam between a socket and
 * a transport that may take its bytes over from the bootstrap. link.h is the
 * other half: what the rings see once the transport has done so. The core goes
 * through the list that transport.c keeps and names none of them.
 *
 * A client is connected and a server accepts before it is known whether there
 * is such a transport; the bytes go by the bootstrap meanwhile. A handover
 * takes them from there to the rings, each direction by itself, while the
 * connection is in use.
 */
#ifndef L5_TRANSPORT_H
#define L5_TRANSPORT_H

#include "l5.h"

struct vm_area_struct;

/* Bytes of a mailbox: a page of them */
#define L5_MAILBOX_SIZE		PAGE_SIZE

/* Where the bytes of a sender go, see l5_remote_tx_begin(). */
enum l5_tx {
	L5_TX_BOOT,
	L5_TX_COUNTED,	/* the bootstrap, and l5_remote_tx_end() follows */
	L5_TX_RINGS,
};

/**
 * struct l5_transport_ops - a transport to other hosts
 * @init: the module comes. Return: 0 or why not
 * @exit: the module goes: wait for what closed sockets left
 * @net_init: a namespace comes. Return: 0 or why not
 * @net_exit: a namespace goes
 * @net_changed: a setting of a namespace has changed
 * @listen: a socket listens. Context: process, l5_sock.lock held
 * @unlisten: a socket listens no more, or it ends. Context: process
 * @release: a socket is gone. Context: process
 * @mailbox_able: may the mailbox of a listener be mapped? 0 or -EOPNOTSUPP
 * @mailbox_mmap: map the mailbox of a listener, see l5_mmap()
 * @mailbox_revoke: take the mailbox out of all processes, for good
 * @ask: a client is connected, and the other end is not on this host.
 *	Context: the bootstrap's lock held, no byte has moved. Return:
 *	L5_REASON_NONE if the transport may take the connection over, then
 *	l5_sock.remote is set; else why not
 * @accepted: a socket was accepted, and the other end may be on another host:
 *	l5_sock.remote is set if the transport may take it over. Context:
 *	process
 *
 * The rest is only called of a socket whose l5_sock.remote is this transport.
 *
 * @may_move: may the transport get what the bootstrap carries so far? Once this
 *	is false, it stays false. Context: any
 * @tx_begin: a task is about to send by the bootstrap, or to say that no more
 *	will be sent. Context: process
 * @tx_end: a send that @tx_begin answered by L5_TX_COUNTED is done. Context:
 *	process
 * @tx_moved: of a socket in state L5_MOVING, do rings take what is sent?
 *	Context: any
 * @rx_moved: of a socket in state L5_MOVING, has the bootstrap brought its last
 *	byte? Context: any
 * @rx_next: of a socket in state L5_MOVING, has the bootstrap all its bytes, so
 *	that what is in the ring comes next? Context: any
 * @rx_look: bytes were read from the bootstrap: was that all? Context: process
 * @boot_end: the bootstrap said that the stream has ended: is that so? Context:
 *	process. Return: 0 if it is, else a negative errno, to each task that
 *	asks
 * @stop: an option needs the bootstrap itself. Context: process. Return: 0, or
 *	-EOPNOTSUPP if it is too late for that
 * @wait: wait for the outcome, as long as an option says. Context: process,
 *	until a signal
 * @undecided: may the socket get rings that it does not have yet? Context: any
 * @abandon: the connection ends, and its socket may have another. Context:
 *	process, l5_sock.lock held
 * @detach: the socket ends; bytes sent and not delivered are of no use if
 *	@reset. Context: process. Return: true if the transport keeps the
 *	bootstrap @boot for a while, as it may if @boot is not NULL
 * @fin_wait: a socket with SO_LINGER closes. Context: process
 * @fin_later: shutdown() ends the stream. Context: process, l5_sock.lock held.
 *	Return: true if the transport sends the FIN, as soon as it may be sent
 * @get_info: option L5_RDMA_INFO. Context: process
 */
struct l5_transport_ops {
	int (*init)(void);
	void (*exit)(void);
	int (*net_init)(struct l5_net *ln);
	void (*net_exit)(struct l5_net *ln);
	void (*net_changed)(struct l5_net *ln);
	void (*listen)(struct l5_sock *l5);
	void (*unlisten)(struct l5_sock *l5);
	void (*release)(struct l5_sock *l5);
	int (*mailbox_able)(const struct l5_sock *l5);
	int (*mailbox_mmap)(struct l5_sock *l5, struct vm_area_struct *vma);
	void (*mailbox_revoke)(struct l5_sock *l5);
	enum l5_reason (*ask)(struct l5_sock *l5);
	void (*accepted)(struct l5_sock *l5, struct l5_sock *listener);
	bool (*may_move)(const struct l5_sock *l5);
	enum l5_tx (*tx_begin)(struct l5_sock *l5);
	void (*tx_end)(struct l5_sock *l5);
	bool (*tx_moved)(struct l5_sock *l5);
	bool (*rx_moved)(struct l5_sock *l5);
	bool (*rx_next)(struct l5_sock *l5);
	void (*rx_look)(struct l5_sock *l5);
	int (*boot_end)(struct l5_sock *l5);
	int (*stop)(struct l5_sock *l5, enum l5_reason why);
	void (*wait)(struct l5_sock *l5);
	bool (*undecided)(struct l5_sock *l5);
	void (*abandon)(struct l5_sock *l5);
	bool (*detach)(struct l5_sock *l5, bool reset, struct socket *boot);
	void (*fin_wait)(struct l5_sock *l5);
	bool (*fin_later)(struct l5_sock *l5);
	void (*get_info)(struct l5_sock *l5, struct l5_rdma_info *info);
};

/*
 * The transports that a build has: see rdma/list.c. Without such a file there
 * are none. af_l5.c hands it to transport.c, which stands below all transports
 * and so does not name it.
 */
extern const struct l5_transport_ops *const l5_transports[];

/* transport.c */
void l5_transport_list(const struct l5_transport_ops *const *list);
int l5_transport_init(void);
void l5_transport_exit(void);
int l5_transport_net_init(struct l5_net *ln);
void l5_transport_net_exit(struct l5_net *ln);
void l5_transport_net_changed(struct l5_net *ln);
void l5_transport_listen(struct l5_sock *l5);
void l5_transport_unlisten(struct l5_sock *l5);
void l5_transport_release(struct l5_sock *l5);
int l5_transport_mailbox_able(const struct l5_sock *l5);
int l5_transport_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma);
void l5_transport_mailbox_revoke(struct l5_sock *l5);
enum l5_reason l5_transport_ask(struct l5_sock *l5);
void l5_transport_accepted(struct l5_sock *l5, struct l5_sock *listener);

/*
 * The transport that a socket may be handed over to, or NULL.
 *
 * Y, pairs with the release in which a transport shows its data of a socket: a
 * call that sees the pointer sees the data, too.
 */
static inline const struct l5_transport_ops *
l5_remote(const struct l5_sock *l5)
{
	return smp_load_acquire(&l5->remote);
}

static inline bool l5_remote_may_move(const struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t && t->may_move(l5);
}

static inline enum l5_tx l5_remote_tx_begin(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t ? t->tx_begin(l5) : L5_TX_BOOT;
}

static inline void l5_remote_tx_end(struct l5_sock *l5)
{
	l5_remote(l5)->tx_end(l5);
}

static inline void l5_remote_rx_look(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	if (t)
		t->rx_look(l5);
}

static inline int l5_remote_boot_end(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t ? t->boot_end(l5) : 0;
}

static inline int l5_remote_stop(struct l5_sock *l5, enum l5_reason why)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t ? t->stop(l5, why) : 0;
}

static inline void l5_remote_wait(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	if (t)
		t->wait(l5);
}

static inline bool l5_remote_undecided(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t && t->undecided(l5);
}

static inline void l5_remote_abandon(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	if (t)
		t->abandon(l5);
}

static inline bool l5_remote_detach(struct l5_sock *l5, bool reset,
				    struct socket *boot)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t && t->detach(l5, reset, boot);
}

static inline void l5_remote_fin_wait(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	if (t)
		t->fin_wait(l5);
}

static inline bool l5_remote_fin_later(struct l5_sock *l5)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	return t && t->fin_later(l5);
}

static inline void l5_remote_get_info(struct l5_sock *l5,
				      struct l5_rdma_info *info)
{
	const struct l5_transport_ops *t = l5_remote(l5);

	if (t)
		t->get_info(l5, info);
}

/* Are bytes put into a ring, and taken out of one? Else it is the bootstrap. */
static inline bool l5_tx_rings(struct l5_sock *l5)
{
	int state = l5_state(l5);

	return state == L5_RINGS ||
	       (state == L5_MOVING && l5_remote(l5)->tx_moved(l5));
}

static inline bool l5_rx_rings(struct l5_sock *l5)
{
	int state = l5_state(l5);

	return state == L5_RINGS ||
	       (state == L5_MOVING && l5_remote(l5)->rx_moved(l5));
}

/* May the bootstrap have some bytes, and the ring those behind them? */
static inline bool l5_rx_both(struct l5_sock *l5)
{
	return l5_state(l5) == L5_MOVING && l5_remote(l5)->rx_next(l5);
}

#endif /* L5_TRANSPORT_H */
