// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the parts that AF_UNIX alone has: descriptors that arrive at a
 * bootstrap, and finding the listener that a client has reached.
 *
 * A file that lies in a socket's queue may keep that very socket: the socket's
 * own descriptor was sent to it, or to another that was sent to it. AF_UNIX
 * collects such cycles among the sockets that it knows. It does not know which
 * file owns a bootstrap, so a cycle through AF_L5 would last for ever: memory
 * that no user is charged for any more, and a module that cannot be unloaded.
 *
 * So there are none. An AF_L5 file keeps its bootstrap and the files in the
 * bootstrap's queue (of a listener: in the queues of the sockets that wait for
 * accept()), and no other file. A file may lie there only if it keeps no file
 * in turn: see l5_unix_harmless(). A path of references that begins at an AF_L5
 * file therefore ends after one step and leads back to no AF_L5 file. Where an
 * AF_L5 file itself lies does not matter then; a plain AF_UNIX socket may hold
 * it, and two plain ones may hold each other beside it, which AF_UNIX sees and
 * collects.
 *
 * Any other descriptor is taken out of the message on its arrival, with those
 * that came beside it. The bytes stay, and their receiver is told by
 * MSG_CTRUNC. There is no other way: the peer may be a plain AF_UNIX socket,
 * whose sendmsg() is the kernel's alone. That sendmsg() calls sk_data_ready of
 * the receiver right after it queued a message, in the sender's context and
 * without a lock. This hook sits on the bootstrap of every AF_L5 socket from
 * its creation, and on each socket that waits for accept() from the connect()
 * that made it.
 *
 * A descriptor is taken out of a queued message under the receiver's iolock, as
 * a receiver would do it. The holder of that lock may be asleep for as long as
 * it likes (a receiver whose buffer faults), and a sender is not to wait for
 * it. Then a work item tries again and again. Nothing stays for good: the
 * holder of the lock is a task that lives, in a system call on one of the two
 * sockets.
 *
 * Locks, outer to inner: iolock, AF_UNIX's state lock, queue lock. None of ours
 * is held with them but l5_late_lock, which is a leaf.
 */
#include <linux/file.h>
#include <linux/net.h>
#include <linux/rcupdate.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/af_unix.h>
#include <net/scm.h>

#include "bootstrap.h"
#include "files.h"
#include "rendezvous.h"
#include "ring.h"
#include "unread.h"
#include "unix.h"

/* How long until the next try for an iolock. */
#define L5_LATE_DELAY	(HZ / 10)

/*
 * What has been done about a queued message, in its mark, which AF_UNIX does
 * not use. Once a message is L5_SEEN or more, so are all before it, and it
 * stays so. It becomes that under the state lock and the iolock, and L5_LATE
 * under the queue's lock alone: so that is a step from L5_UNSEEN, or none.
 */
enum l5_seen {
	L5_UNSEEN,
	L5_LATE,	/* its socket is in the list of sockets to try again */
	L5_SEEN,
	L5_TAKEN,	/* seen, and its descriptors are gone */
};

/* A socket whose iolock could not be had. */
struct l5_late {
	struct list_head node;
	struct sock *sk;
};

static void l5_unix_work(struct work_struct *work);

static DEFINE_SPINLOCK(l5_late_lock);
static LIST_HEAD(l5_late_list);
static DECLARE_DELAYED_WORK(l5_late_work, l5_unix_work);

/*
 * AF_UNIX listeners, of all namespaces, by the address object that each shares
 * with its children and with no other socket.
 */
static const struct rhashtable_params l5_listeners_params = {
	.key_len		= sizeof_field(struct l5_sock, unix_addr),
	.key_offset		= offsetof(struct l5_sock, unix_addr),
	.head_offset		= offsetof(struct l5_sock, unix_node),
	.automatic_shrinking	= true,
};

static struct rhashtable l5_listeners;

/* The sk_data_ready of AF_UNIX; the same function for all sockets. */
static void (*l5_unix_wakeup)(struct sock *sk);

static void l5_unix_data_ready(struct sock *sk);

/* Is @sk, a bootstrap or not, guarded as the bootstraps of AF_L5 are? */
static bool l5_unix_guarded(const struct sock *sk)
{
	return READ_ONCE(sk->sk_data_ready) == l5_unix_data_ready;
}

/*
 * May a file lie in the queue of a bootstrap? Not if it may keep other files. A
 * socket of AF_UNIX, or of AF_L5 over it, may do so by its queue; of the other
 * families, TCP's sockets and the like are known to keep none. An io_uring
 * keeps the files registered with it, but the kernel itself refuses to send
 * one. Of the files that are no sockets, an epoll does not keep the files that
 * it watches, and no other kind that a user can make without privilege keeps a
 * file. The answer for a file never changes.
 */
static bool l5_unix_harmless(struct file *file)
{
	struct socket *sock = sock_from_file(file);
	const struct proto_ops *ops;

	if (!sock)
		return true;
	ops = READ_ONCE(sock->ops);
	if (!ops || !sock->sk)
		return false;
	if (ops->owner == THIS_MODULE)
		return l5_sk(sock->sk)->bops != &l5_unix_boot;
	return ops->family == PF_INET || ops->family == PF_INET6;
}

static bool l5_unix_harmless_all(const struct scm_fp_list *fp)
{
	int i;

	for (i = 0; i < fp->count; i++)
		if (!l5_unix_harmless(fp->fp[i]))
			return false;
	return true;
}

/*
 * Take all descriptors out of a queued message. They go with an empty message
 * from the same sender, which AF_UNIX's own destructor ends: that undoes what
 * AF_UNIX counted. False without memory.
 */
static bool l5_unix_take(struct sock *sk, struct sk_buff *skb)
{
	struct sk_buff *cart = alloc_skb(0, GFP_ATOMIC | __GFP_NOWARN);
	struct l5_sock *l5;

	if (!cart)
		return false;
	atomic_sub(UNIXCB(skb).fp->count, &unix_sk(sk)->scm_stat.nr_fds);
	memset(cart->cb, 0, sizeof(cart->cb));
	/* the message's own charge keeps the sender */
	skb_set_owner_w(cart, skb->sk);
	cart->destructor = skb->destructor;
	swap(UNIXCB(cart).fp, UNIXCB(skb).fp);
	consume_skb(cart);
	WRITE_ONCE(skb->mark, L5_TAKEN);
	rcu_read_lock();
	l5 = l5_owner(sk);
	if (l5)
		WRITE_ONCE(l5->taken, l5->taken + 1);
	rcu_read_unlock();
	return true;
}

/* Look at messages up to one with descriptors. 1: more may come, or -ENOMEM. */
static int l5_unix_look_some(struct sock *sk)
{
	struct sk_buff_head *queue = &sk->sk_receive_queue;
	struct sk_buff *skb, *first = NULL;
	struct scm_fp_list *fp;

	skb_queue_reverse_walk(queue, skb) {
		if (READ_ONCE(skb->mark) >= L5_SEEN)
			break;
		first = skb;
	}
	for (skb = first; skb; skb = skb_peek_next(skb, queue)) {
		fp = UNIXCB(skb).fp;
		if (!fp || l5_unix_harmless_all(fp))
			WRITE_ONCE(skb->mark, L5_SEEN);
		else if (!l5_unix_take(sk, skb))
			return -ENOMEM;
		if (fp)
			return 1;
	}
	return 0;
}

/*
 * Look at all messages that have not been looked at.
 *
 * Messages come under the state lock, and go under the iolock or once the
 * socket is dead; a message that is seen here under both locks stays. The queue
 * of a dead socket is being emptied. The descriptors go under the state lock,
 * too: the count for a socket that waits for accept() leads AF_UNIX to the
 * listener, and a listener waits for that lock before it is gone. Softirqs are
 * off so that nothing freed here sleeps: vfree() then leaves its work to
 * another task.
 */
static int l5_unix_look(struct sock *sk)
{
	int ret;

	lockdep_assert_held(&unix_sk(sk)->iolock);
	do {
		local_bh_disable();
		unix_state_lock(sk);
		ret = sock_flag(sk, SOCK_DEAD) ? 0 : l5_unix_look_some(sk);
		unix_state_unlock(sk);
		local_bh_enable();
	} while (ret > 0);
	return ret;
}

/*
 * Are there messages with descriptors that no task will look at? True if the
 * caller is to put the socket into the list of sockets to try again: once until
 * the socket has been looked at, so that it is hardly ever there twice.
 */
static bool l5_unix_note_late(struct sock *sk)
{
	struct sk_buff_head *queue = &sk->sk_receive_queue;
	bool fds = false, listed = false;
	struct sk_buff *skb;

	spin_lock(&queue->lock);
	skb_queue_reverse_walk(queue, skb) {
		u32 mark = READ_ONCE(skb->mark);

		listed = mark == L5_LATE;
		if (mark != L5_UNSEEN)
			break;
		/* a receiver may take the descriptors this moment */
		if (READ_ONCE(UNIXCB(skb).fp))
			fds = true;
	}
	if (fds || listed)
		skb_queue_reverse_walk(queue, skb)
			if (cmpxchg(&skb->mark, L5_UNSEEN, L5_LATE) !=
			    L5_UNSEEN)
				break;
	spin_unlock(&queue->lock);
	return fds && !listed;
}

static void l5_unix_late(struct sock *sk)
{
	struct l5_late *late;

	/*
	 * This may sleep, and l5_unix_exit() does not wait for a sleep. A
	 * module that goes has no sockets, so this socket is dead.
	 */
	if (!try_module_get(THIS_MODULE))
		return;
	late = kmalloc(sizeof(*late), GFP_KERNEL_ACCOUNT | __GFP_NOFAIL);
	sock_hold(sk);
	late->sk = sk;
	spin_lock(&l5_late_lock);
	list_add_tail(&late->node, &l5_late_list);
	spin_unlock(&l5_late_lock);
	schedule_delayed_work(&l5_late_work, L5_LATE_DELAY);
	module_put(THIS_MODULE);
}

static bool l5_unix_try(struct sock *sk)
{
	struct unix_sock *u = unix_sk(sk);
	bool done;

	if (!mutex_trylock(&u->iolock))
		return false;
	done = !l5_unix_look(sk);
	mutex_unlock(&u->iolock);
	return done;
}

static void l5_unix_work(struct work_struct *work)
{
	struct l5_late *late, *tmp;
	LIST_HEAD(todo);

	spin_lock(&l5_late_lock);
	list_splice_init(&l5_late_list, &todo);
	spin_unlock(&l5_late_lock);

	list_for_each_entry_safe(late, tmp, &todo, node) {
		if (l5_unix_try(late->sk)) {
			list_del(&late->node);
			sock_put(late->sk);
			kfree(late);
		}
		cond_resched();
	}
	if (list_empty(&todo))
		return;
	spin_lock(&l5_late_lock);
	list_splice(&todo, &l5_late_list);
	spin_unlock(&l5_late_lock);
	schedule_delayed_work(&l5_late_work, L5_LATE_DELAY);
}

static void l5_unix_arrived(struct sock *sk)
{
	/* descriptors that a receiver was faster to take lie in no queue */
	if (!atomic_read(&unix_sk(sk)->scm_stat.nr_fds))
		return;
	if (!l5_unix_try(sk) && l5_unix_note_late(sk))
		l5_unix_late(sk);
}

/* Look at the messages that came before @sk was guarded. */
static void l5_unix_arrived_before(struct sock *sk)
{
	/*
	 * Under this lock sendmsg() counted the message, and after that it read
	 * sk_data_ready. The second holder of the lock sees what the first did:
	 * either the message is seen here, or sendmsg() sees that the socket is
	 * guarded.
	 */
	unix_state_lock(sk);
	unix_state_unlock(sk);
	l5_unix_arrived(sk);
}

/*
 * Guard the oldest socket in a listener's queue that is not guarded yet; those
 * before it are. Returns the socket with a reference, or NULL.
 */
static struct sock *l5_unix_guard_one(struct sock *listener)
{
	struct sk_buff_head *queue = &listener->sk_receive_queue;
	struct sock *sk = NULL;
	struct sk_buff *skb;

	spin_lock(&queue->lock);
	/* unless the listener closes: see l5_unix_release() */
	if (l5_unix_guarded(listener))
		skb_queue_reverse_walk(queue, skb) {
			if (l5_unix_guarded(skb->sk))
				break;
			sk = skb->sk;
		}
	if (sk) {
		sock_hold(sk);
		WRITE_ONCE(sk->sk_data_ready, l5_unix_data_ready);
	}
	spin_unlock(&queue->lock);
	return sk;
}

static void l5_unix_guard(struct sock *listener)
{
	struct sock *sk;

	while ((sk = l5_unix_guard_one(listener))) {
		l5_unix_arrived_before(sk);
		sock_put(sk);
	}
}

/*
 * sk_data_ready of a bootstrap, and of a socket that waits for accept(): called
 * by a task that sent to it or connected to it. It does not sleep, but see
 * l5_unix_late(): a task that is about to call it keeps no reference to the
 * module.
 */
static void l5_unix_data_ready(struct sock *sk)
{
	if (READ_ONCE(sk->sk_state) == TCP_LISTEN)
		l5_unix_guard(sk);
	else
		l5_unix_arrived(sk);
	l5_unix_wakeup(sk);
}

/*
 * Count the messages that lost descriptors and of which no byte was received.
 */
static unsigned int l5_unix_count_taken(struct sock *bsk)
{
	struct sk_buff *skb;
	unsigned int n = 0;

	lockdep_assert_held(&unix_sk(bsk)->lock);
	spin_lock(&bsk->sk_receive_queue.lock);
	skb_queue_walk(&bsk->sk_receive_queue, skb)
		n += READ_ONCE(skb->mark) == L5_TAKEN &&
		     !READ_ONCE(UNIXCB(skb).consumed);
	spin_unlock(&bsk->sk_receive_queue.lock);
	return n;
}

/**
 * l5_unix_received() - tell a receiver if descriptors were taken from it
 * @l5: the socket that a message was received from
 * @msg: the message; gets MSG_CTRUNC
 *
 * Of several receivers at a time one is told. A peek is not told.
 */
static void l5_unix_received(struct l5_sock *l5, struct msghdr *msg)
{
	struct sock *bsk = l5->boot->sk;
	unsigned int left;

	if (likely(!READ_ONCE(l5->taken)))
		return;
	unix_state_lock(bsk);
	left = l5_unix_count_taken(bsk);
	if (left < l5->taken) {
		msg->msg_flags |= MSG_CTRUNC;
		WRITE_ONCE(l5->taken, left);
	}
	unix_state_unlock(bsk);
}

/**
 * l5_unix_attach() - a socket has become the bootstrap of an AF_L5 socket
 * @l5: the AF_L5 socket, which no program has yet
 *
 * Context: process, no locks held.
 */
static void l5_unix_attach(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	/* AppArmor (since 6.17) asks the owner for its peer, under this lock */
	spin_lock_init(&l5->un.lock);
	unix_state_lock(bsk);
	WRITE_ONCE(l5->taken, l5_unix_count_taken(bsk));
	unix_state_unlock(bsk);
	if (!READ_ONCE(l5_unix_wakeup))
		WRITE_ONCE(l5_unix_wakeup, bsk->sk_data_ready);
	/* privileged BPF may have put a function of its own there: it stays */
	if (READ_ONCE(bsk->sk_data_ready) == l5_unix_wakeup)
		WRITE_ONCE(bsk->sk_data_ready, l5_unix_data_ready);
	l5_unix_arrived_before(bsk);
}

static void l5_unix_unguard(struct sock *sk)
{
	if (l5_unix_guarded(sk))
		WRITE_ONCE(sk->sk_data_ready, l5_unix_wakeup);
}

/*
 * A bootstrap is about to end: nothing of ours stays on it. A socket that waits
 * for accept() ends with the listener, but its memory goes with the client.
 * Messages that arrive from here on are freed with the queue.
 */
static void l5_unix_release(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;
	struct sk_buff_head *queue = &bsk->sk_receive_queue;
	struct sk_buff *skb;

	l5_unix_unguard(bsk);
	if (READ_ONCE(bsk->sk_state) != TCP_LISTEN)
		return;
	spin_lock(&queue->lock);
	skb_queue_walk(queue, skb)
		l5_unix_unguard(skb->sk);
	spin_unlock(&queue->lock);
}

/* Both ends' works may do this to a socket; it has the error once. */
static void l5_unix_cut(struct sock *sk)
{
	bool cut;

	unix_state_lock(sk);
	cut = sk->sk_shutdown != SHUTDOWN_MASK;
	if (cut) {
		WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
		WRITE_ONCE(sk->sk_err, ECONNRESET);
	}
	unix_state_unlock(sk);
	if (!cut)
		return;
	sk->sk_state_change(sk);
	sk_error_report(sk);
}

static bool l5_unix_abort(struct sock *bsk)
{
	struct sock *peer = unix_peer_get(bsk);

	l5_unix_cut(bsk);
	if (peer) {
		l5_unix_cut(peer);
		sock_put(peer);
	}
	return true;
}

/**
 * l5_unix_listen() - clients are to find a listener
 * @l5: the socket, whose bootstrap is about to listen
 *
 * Without memory for that the socket is an ordinary listener.
 *
 * Context: l5_sock.lock held; may sleep.
 */
static void l5_unix_listen(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	if (l5->unix_addr)
		return;
	/* pairs with unix_bind(): the address is whole */
	l5->unix_addr = smp_load_acquire(&unix_sk(l5->boot->sk)->addr);
	/* to listen without a name is an error */
	if (!l5->unix_addr)
		return;
	if (rhashtable_insert_fast(&l5_listeners, &l5->unix_node,
				   l5_listeners_params)) {
		l5->unix_addr = NULL;
		WRITE_ONCE(l5->nopair, L5_REASON_NOMEM);
	}
}

/**
 * l5_unix_unlisten() - clients are to find a listener no more
 * @l5: a listener, or a socket that failed to become one
 *
 * A client that has found it may still use it, under RCU.
 */
static void l5_unix_unlisten(struct l5_sock *l5)
{
	if (!l5->unix_addr)
		return;
	rhashtable_remove_fast(&l5_listeners, &l5->unix_node,
			       l5_listeners_params);
	l5->unix_addr = NULL;
}

/**
 * l5_unix_listener() - find the listener that a socket is a child of
 * @child: an AF_UNIX socket, accepted or not yet
 *
 * The time that this takes does not depend on the number of listeners, of this
 * user or of others.
 *
 * Context: RCU. Return: the AF_L5 listener, which may be closing, or NULL.
 */
static struct l5_sock *l5_unix_listener(const struct sock *child)
{
	/* pairs with unix_stream_connect(): a child has it from its listener */
	const void *addr = smp_load_acquire(&unix_sk(child)->addr);

	if (!addr)
		return NULL;
	return rhashtable_lookup(&l5_listeners, &addr, l5_listeners_params);
}

/* A client has connected: pair it, if it has reached a listener of ours. */
static void l5_unix_connected(struct l5_sock *l5)
{
	struct sock *child = unix_peer_get(l5->boot->sk);
	struct l5_sock *listener;

	/* a listener that ends meanwhile is there, and says that it closes */
	rcu_read_lock();
	listener = child ? l5_unix_listener(child) : NULL;
	l5_rdv_unix_connected(l5, listener, child);
	rcu_read_unlock();
	if (child)
		sock_put(child);
}

/* Is the peer AF_L5, or the child of its listener? */
static bool l5_unix_peer_guarded(const struct l5_sock *l5)
{
	struct sock *peer = unix_peer_get(l5->boot->sk);
	bool guarded = peer && l5_unix_guarded(peer);

	if (peer)
		sock_put(peer);
	return guarded;
}

/**
 * l5_unix_pass_check() - say early which descriptors a send cannot carry
 * @l5: the sender
 * @msg: what it sends, its control messages in kernel memory
 *
 * A courtesy to honest programs: they learn of it by an error. The numbers may
 * stand for other files when AF_UNIX looks them up again; the files that are
 * queued are judged by l5_unix_data_ready().
 *
 * Return: 0, -EINVAL if the list is malformed, -EBADF, -EOPNOTSUPP if the peer
 * is AF_L5 and would not get one of the descriptors.
 */
static int l5_unix_pass_check(struct l5_sock *l5, struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	int i, n;

	if (l5_state(l5) != L5_RINGS && !l5_unix_peer_guarded(l5))
		return 0;
	for_each_cmsghdr(cmsg, msg) {
		int *fds = (int *)CMSG_DATA(cmsg);

		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level != SOL_SOCKET ||
		    cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - sizeof(*cmsg)) / sizeof(int);
		for (i = 0; i < n; i++) {
			struct file *file = fget_raw(fds[i]);
			bool harmless;

			if (!file)
				return -EBADF;
			harmless = l5_unix_harmless(file);
			fput(file);
			if (!harmless)
				return -EOPNOTSUPP;
		}
	}
	return 0;
}

/* A listener that is being released is found by no client any more. */
static void l5_unix_closing(struct l5_sock *l5)
{
	if (l5_state(l5) == L5_LISTEN)
		l5_unix_unlisten(l5);
}

/*
 * Reset the peer as AF_UNIX does for bytes left in its own queue. As there, the
 * error is never to be seen without the end. Waking is left to AF_UNIX.
 */
static void l5_unix_reset(struct l5_sock *l5)
{
	struct sock *peer = unix_peer_get(l5->boot->sk);

	if (peer) {
		unix_state_lock(peer);
		WRITE_ONCE(peer->sk_shutdown, SHUTDOWN_MASK);
		WRITE_ONCE(peer->sk_err, ECONNRESET);
		unix_state_unlock(peer);
		sock_put(peer);
	}
}

static bool l5_unix_accept_empty(const struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return skb_queue_empty_lockless(&bsk->sk_receive_queue) &&
	       !READ_ONCE(bsk->sk_shutdown) && !READ_ONCE(bsk->sk_err);
}

/* Credentials come with AF_UNIX's own messages. */
static enum l5_reason l5_unix_why_not(const struct l5_sock *l5)
{
	return l5_pass_sender(l5->boot) ? L5_REASON_OPTION : L5_REASON_NONE;
}

static int l5_unix_send_check(struct l5_sock *l5, struct msghdr *msg)
{
	return msg->msg_namelen ? -EISCONN : 0;
}

/* Bytes that the peer has not read; TCP counts what its kernel has not got. */
static size_t l5_unix_outq(struct l5_sock *l5)
{
	return l5_ring_count(l5, l5->end, INT_MAX);
}

static void l5_unix_opts_push(struct l5_sock *l5)
{
	l5_pass_copy(l5->boot, l5->sk.sk_socket);
	l5_files_asked(l5, l5_pass_sender(l5->boot));
}

static void l5_unix_opts_inherit(struct l5_sock *l5)
{
	l5_pass_copy(l5->sk.sk_socket, l5->boot);
}

/* The credentials of the peer, as they were when it connected. */
static void l5_unix_opts_pull(struct l5_sock *l5)
{
	struct sock *sk = &l5->sk, *bsk = l5->boot->sk;
	const struct cred *cred, *old;
	struct pid *pid, *old_pid;

	spin_lock(&bsk->sk_peer_lock);
	pid = get_pid(bsk->sk_peer_pid);
	cred = bsk->sk_peer_cred ? get_cred(bsk->sk_peer_cred) : NULL;
	spin_unlock(&bsk->sk_peer_lock);

	spin_lock(&sk->sk_peer_lock);
	old_pid = sk->sk_peer_pid;
	old = sk->sk_peer_cred;
	sk->sk_peer_pid = pid;
	sk->sk_peer_cred = cred;
	spin_unlock(&sk->sk_peer_lock);
	put_pid(old_pid);
	put_cred(old);
}

const struct l5_boot_ops l5_unix_boot = {
	.name		= "unix",
	.family		= AF_UNIX,
	.whole		= true,
	.packets	= true,
	.why_not	= l5_unix_why_not,
	.attach		= l5_unix_attach,
	.listen		= l5_unix_listen,
	.unlisten	= l5_unix_unlisten,
	.closing	= l5_unix_closing,
	.release	= l5_unix_release,
	.reset		= l5_unix_reset,
	.connecting	= l5_rdv_unix_open,
	.connected	= l5_unix_connected,
	.accept_empty	= l5_unix_accept_empty,
	.accept		= l5_rdv_unix_accept,
	.abort		= l5_unix_abort,
	.send_check	= l5_unix_send_check,
	.pass_check	= l5_unix_pass_check,
	.files		= &l5_files_ops,
	.received	= l5_unix_received,
	.outq		= l5_unix_outq,
	.opts_push	= l5_unix_opts_push,
	.opts_pull	= l5_unix_opts_pull,
	.opts_inherit	= l5_unix_opts_inherit,
};

/**
 * l5_unix_init() - called before the first socket is made
 *
 * Return: 0 or -errno.
 */
int __init l5_unix_init(void)
{
	return rhashtable_init(&l5_listeners, &l5_listeners_params);
}

/**
 * l5_unix_exit() - the module goes, and there are no sockets any more
 *
 * A sender may have been about to call our sk_data_ready, or in it, when the
 * last socket went.
 */
void l5_unix_exit(void)
{
	struct l5_late *late, *tmp;

	synchronize_rcu_tasks();
	cancel_delayed_work_sync(&l5_late_work);
	list_for_each_entry_safe(late, tmp, &l5_late_list, node) {
		list_del(&late->node);
		sock_put(late->sk);
		kfree(late);
	}
	rhashtable_destroy(&l5_listeners);
}
