// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the list of transports to other hosts, for calls that have to go
 * through all of them.
 */
#include "transport.h"

/* Constant once the module is there; ends with NULL. */
static const struct l5_transport_ops *const *l5_list;

#define l5_for_each_transport(p)					\
	for ((p) = l5_list; *(p); (p)++)

/* Undo what the transports before @end have begun, the last one first. */
#define l5_undo_transports(end, what, ...)				\
	do {								\
		const struct l5_transport_ops *const *__p = (end);	\
									\
		while (__p-- != l5_list)				\
			(*__p)->what(__VA_ARGS__);			\
	} while (0)

/* The end of the list. */
static const struct l5_transport_ops *const *l5_transports_end(void)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		;
	return p;
}

/**
 * l5_transport_list() - say which transports there are
 * @list: the transports, in the order in which they are asked, and NULL
 *
 * Context: the module comes; before any other function here.
 */
void __init l5_transport_list(const struct l5_transport_ops *const *list)
{
	l5_list = list;
}

/**
 * l5_transport_init() - the module comes
 *
 * Return: 0 or why not.
 */
int __init l5_transport_init(void)
{
	const struct l5_transport_ops *const *p;
	int err;

	l5_for_each_transport(p) {
		err = (*p)->init();
		if (err) {
			l5_undo_transports(p, exit);
			return err;
		}
	}
	return 0;
}

/**
 * l5_transport_exit() - the module goes, and there are no sockets any more
 */
void l5_transport_exit(void)
{
	l5_undo_transports(l5_transports_end(), exit);
}

/**
 * l5_transport_net_init() - a network namespace comes
 * @ln: its part of the module
 *
 * Return: 0 or why not.
 */
int l5_transport_net_init(struct l5_net *ln)
{
	const struct l5_transport_ops *const *p;
	int err;

	l5_for_each_transport(p) {
		err = (*p)->net_init(ln);
		if (err) {
			l5_undo_transports(p, net_exit, ln);
			return err;
		}
	}
	return 0;
}

/**
 * l5_transport_net_exit() - a network namespace goes
 * @ln: its part of the module
 */
void l5_transport_net_exit(struct l5_net *ln)
{
	l5_undo_transports(l5_transports_end(), net_exit, ln);
}

/**
 * l5_transport_net_changed() - a setting of a namespace has changed
 * @ln: its part of the module
 *
 * Context: process.
 */
void l5_transport_net_changed(struct l5_net *ln)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		(*p)->net_changed(ln);
}

/**
 * l5_transport_listen() - a socket listens
 * @l5: the socket
 *
 * Context: process, l5_sock.lock held.
 */
void l5_transport_listen(struct l5_sock *l5)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		(*p)->listen(l5);
}

/**
 * l5_transport_unlisten() - a socket listens no more, if it did
 * @l5: the socket
 *
 * Context: process.
 */
void l5_transport_unlisten(struct l5_sock *l5)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		(*p)->unlisten(l5);
}

/**
 * l5_transport_release() - a socket is gone, whether it listened or not
 * @l5: the socket
 *
 * Context: process.
 */
void l5_transport_release(struct l5_sock *l5)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		(*p)->release(l5);
}

/**
 * l5_transport_mailbox_able() - may the mailbox of a listener be mapped?
 * @l5: the listener
 *
 * Return: 0 or -EOPNOTSUPP.
 */
int l5_transport_mailbox_able(const struct l5_sock *l5)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		if (!(*p)->mailbox_able(l5))
			return 0;
	return -EOPNOTSUPP;
}

/**
 * l5_transport_mailbox_mmap() - map the mailbox of a listener
 * @l5: a socket in any state
 * @vma: as l5_mmap() got it
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -EOPNOTSUPP if no transport has a mailbox, or the error of the one
 * that has.
 */
int l5_transport_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma)
{
	const struct l5_transport_ops *const *p;
	int err = -EOPNOTSUPP;

	l5_for_each_transport(p) {
		err = (*p)->mailbox_mmap(l5, vma);
		if (err != -EOPNOTSUPP)
			break;
	}
	return err;
}

/**
 * l5_transport_mailbox_revoke() - take mailboxes out of all processes, for good
 * @l5: a listener, or any other socket
 *
 * Context: process, while @l5 cannot be released.
 */
void l5_transport_mailbox_revoke(struct l5_sock *l5)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p)
		(*p)->mailbox_revoke(l5);
}

/**
 * l5_transport_ask() - a client is connected to another host
 * @l5: the client, whose bootstrap carries the bytes so far
 *
 * Context: the bootstrap's lock held, no byte has moved.
 * Return: L5_REASON_NONE if a transport may take the connection over, or why
 * none does.
 */
enum l5_reason l5_transport_ask(struct l5_sock *l5)
{
	const struct l5_transport_ops *const *p;
	enum l5_reason why = L5_REASON_PEER;

	l5_for_each_transport(p) {
		why = (*p)->ask(l5);
		if (!why)
			break;
	}
	return why;
}

/**
 * l5_transport_accepted() - a client, perhaps of another host, was accepted
 * @l5: the socket, whose bootstrap carries the bytes so far
 * @listener: where it was accepted
 *
 * Context: may sleep, no byte has moved.
 */
void l5_transport_accepted(struct l5_sock *l5, struct l5_sock *listener)
{
	const struct l5_transport_ops *const *p;

	l5_for_each_transport(p) {
		(*p)->accepted(l5, listener);
		if (l5_remote(l5))
			break;
	}
}
