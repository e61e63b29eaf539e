// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: what is AF_UNIX's alone: descriptors that arrive at a bootstrap, and
 * which listener a client has reached.
 *
 * A file that lies in a socket's queue may keep that very socket: its own
 * descriptor was sent to it, or to one that was sent to it. AF_UNIX collects
 * such cycles among the sockets that it knows. It does not know which file owns
 * a bootstrap, so a cycle through AF_L5 would be for ever: memory that nobody
 * is charged for any more, and a module that nobody can unload.
 *
 * So there are none. An AF_L5 file keeps its bootstrap and what lies in the
 * queue of that (of a listener: in the queues of those that wait for accept()),
 * and no other file. What may lie there is what keeps no file in turn: see
 * l5_unix_harmless(). A path of references that begins at an AF_L5 file
 * therefore ends after one step and leads back to none. Where an AF_L5 file
 * itself lies does not matter then; a plain AF_UNIX socket may hold it, and two
 * plain ones may hold each other beside it, which AF_UNIX sees and collects.
 *
 * What else comes is taken out of the message on its arrival, with what came
 * beside it. The bytes stay, and their receiver is told by MSG_CTRUNC.
 * Nothing else could do it: the peer may be a plain AF_UNIX socket, whose
 * sendmsg() is the kernel's alone. That calls sk_data_ready of the receiver
 * right after it queued a message, in the sender's context and without a lock.
 * This hook sits on the bootstrap of every AF_L5 socket from its creation, and
 * on what waits for accept() from the connect() that made it.
 *
 * To take something out of a queued message is up to who holds the receiver's
 * iolock, as for a receiver. Its holder may be asleep for as long as it likes
 * (a receiver whose buffer faults), and a sender is not to wait for it. Then a
 * work item tries again and again. Nothing stays for good: who holds the lock
 * is a task that lives, in a system call on one of the two sockets.
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

#include "l5.h"

/* How long until the next try for an iolock. */
#define L5_LATE_DELAY	(HZ / 10)

/*
 * What has been done about a queued message, in its mark, which AF_UNIX does
 * not use. Once one is L5_SEEN or more, so are all before it.
 */
enum l5_seen {
	L5_UNSEEN,
	L5_LATE,	/* its socket is in the list of those to try again */
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
 * with its children and with nobody else.
 */
static const struct rhashtable_params l5_listeners_params = {
	.key_len		= sizeof_field(struct l5_sock, unix_addr),
	.key_offset		= offsetof(struct l5_sock, unix_addr),
	.head_offset		= offsetof(struct l5_sock, unix_node),
	.automatic_shrinking	= true,
};

static struct rhashtable l5_listeners;

/* What sk_data_ready was before; the same function for all of them. */
static void (*l5_unix_wakeup)(struct sock *sk);

static void l5_unix_data_ready(struct sock *sk);

/* Is @sk, a bootstrap or not, guarded as those of AF_L5 are? */
static bool l5_unix_guarded(const struct sock *sk)
{
	return READ_ONCE(sk->sk_data_ready) == l5_unix_data_ready;
}

/*
 * May a file lie in the queue of a bootstrap? Not if it may keep other files: a
 * socket of AF_UNIX, or of AF_L5 over it, by its queue; of the other families
 * TCP's and their like are known to keep none. An io_uring, which keeps what is
 * registered with it, the kernel itself refuses to send. Of what is no socket,
 * an epoll keeps nothing that it watches, and no other file that a user can
 * make without privilege keeps one. The answer for a file never changes.
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
		return l5_sk(sock->sk)->proto != L5PROTO_UNIX;
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
 * Take all descriptors out of a queued message. They go with an empty one, from
 * the same sender, that AF_UNIX's own destructor ends: it undoes what AF_UNIX
 * counted. False without memory.
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
	skb->mark = L5_TAKEN;
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
		if (skb->mark >= L5_SEEN)
			break;
		first = skb;
	}
	for (skb = first; skb; skb = skb_peek_next(skb, queue)) {
		fp = UNIXCB(skb).fp;
		if (!fp || l5_unix_harmless_all(fp))
			skb->mark = L5_SEEN;
		else if (!l5_unix_take(sk, skb))
			return -ENOMEM;
		if (fp)
			return 1;
	}
	return 0;
}

/*
 * Look at all messages that nobody has looked at.
 *
 * Messages come under the state lock, and go under the iolock or once the
 * socket is dead; what is seen here under both stays. A dead one's queue is
 * being emptied. The descriptors go under the state lock, too: a listener waits
 * for it before it is gone, and what AF_UNIX counted for a socket that waits
 * for accept() leads it to the listener. Softirqs are off lest what is freed
 * there sleeps: vfree() leaves it to others then.
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
 * Are there messages with descriptors that nobody will look at? True for who is
 * to put the socket into the list of those to try again: once until it has been
 * looked at, so that a socket is hardly ever there twice.
 */
static bool l5_unix_note_late(struct sock *sk)
{
	struct sk_buff_head *queue = &sk->sk_receive_queue;
	bool fds = false, listed = false;
	struct sk_buff *skb;

	spin_lock(&queue->lock);
	skb_queue_reverse_walk(queue, skb) {
		listed = skb->mark == L5_LATE;
		if (skb->mark != L5_UNSEEN)
			break;
		/* a receiver may take them this moment */
		if (READ_ONCE(UNIXCB(skb).fp))
			fds = true;
	}
	if (fds || listed)
		skb_queue_reverse_walk(queue, skb) {
			if (skb->mark != L5_UNSEEN)
				break;
			skb->mark = L5_LATE;
		}
	spin_unlock(&queue->lock);
	return fds && !listed;
}

static void l5_unix_late(struct sock *sk)
{
	struct l5_late *late;

	/*
	 * This may sleep, which l5_unix_exit() does not wait for. A module that
	 * goes has no sockets, so this one is dead.
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
	/* what a receiver was faster to take lies in no queue */
	if (!atomic_read(&unix_sk(sk)->scm_stat.nr_fds))
		return;
	if (!l5_unix_try(sk) && l5_unix_note_late(sk))
		l5_unix_late(sk);
}

/* What came before @sk was guarded. */
static void l5_unix_arrived_before(struct sock *sk)
{
	/*
	 * Under this lock sendmsg() counted the message, and after it read
	 * sk_data_ready. Who has it first is seen by who has it second: the
	 * message here, or there that the socket is guarded.
	 */
	unix_state_lock(sk);
	unix_state_unlock(sk);
	l5_unix_arrived(sk);
}

/*
 * Guard the oldest socket in a listener's queue that is not yet; those before
 * it are. Returns it with a reference, or NULL.
 */
static struct sock *l5_unix_guard_one(struct sock *listener)
{
	struct sk_buff_head *queue = &listener->sk_receive_queue;
	struct sock *sk = NULL;
	struct sk_buff *skb;

	spin_lock(&queue->lock);
	/* unless it closes: see l5_unix_release() */
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
 * sk_data_ready of a bootstrap, and of what waits for accept(): called by who
 * sent to it or connected to it. It does not sleep, but see l5_unix_late():
 * whoever is about to call it keeps no reference to the module.
 */
static void l5_unix_data_ready(struct sock *sk)
{
	if (READ_ONCE(sk->sk_state) == TCP_LISTEN)
		l5_unix_guard(sk);
	else
		l5_unix_arrived(sk);
	l5_unix_wakeup(sk);
}

/* Messages without their descriptors of which nothing was received yet. */
static unsigned int l5_unix_count_taken(struct sock *bsk)
{
	struct sk_buff *skb;
	unsigned int n = 0;

	lockdep_assert_held(&unix_sk(bsk)->lock);
	spin_lock(&bsk->sk_receive_queue.lock);
	skb_queue_walk(&bsk->sk_receive_queue, skb)
		n += skb->mark == L5_TAKEN && !READ_ONCE(UNIXCB(skb).consumed);
	spin_unlock(&bsk->sk_receive_queue.lock);
	return n;
}

/**
 * l5_unix_received() - tell a receiver if descriptors were taken from it
 * @l5: the socket that something was received from
 * @msg: what was received; gets MSG_CTRUNC
 *
 * Of several receivers at a time one is told. A peek is not.
 */
void l5_unix_received(struct l5_sock *l5, struct msghdr *msg)
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
 * @l5: the AF_L5 socket, not in anyone's hands yet
 *
 * Context: process, no locks held.
 */
void l5_unix_attach(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	unix_state_lock(bsk);
	WRITE_ONCE(l5->taken, l5_unix_count_taken(bsk));
	unix_state_unlock(bsk);
	if (!READ_ONCE(l5_unix_wakeup))
		WRITE_ONCE(l5_unix_wakeup, bsk->sk_data_ready);
	/* privileged BPF may have put its own there: it stays */
	if (READ_ONCE(bsk->sk_data_ready) == l5_unix_wakeup)
		WRITE_ONCE(bsk->sk_data_ready, l5_unix_data_ready);
	l5_unix_arrived_before(bsk);
}

static void l5_unix_unguard(struct sock *sk)
{
	if (l5_unix_guarded(sk))
		WRITE_ONCE(sk->sk_data_ready, l5_unix_wakeup);
}

/**
 * l5_unix_release() - a bootstrap is about to end: nothing of ours stays on it
 * @bsk: an AF_UNIX socket, a listener or not
 *
 * What waits for accept() ends with the listener, but its memory with the
 * client. What arrives from here on is freed with the queue.
 *
 * Context: process, no locks held.
 */
void l5_unix_release(struct sock *bsk)
{
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

/**
 * l5_unix_listen() - clients are to find a listener
 * @l5: whose bootstrap is about to listen
 *
 * Without memory for that it is an ordinary listener.
 *
 * Context: l5_sock.lock held; may sleep.
 */
void l5_unix_listen(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	if (l5->unix_addr)
		return;
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
 * l5_unix_unlisten() - clients are to find it no more
 * @l5: a listener, or one that failed to be
 *
 * Who has found it may still use it, under RCU.
 */
void l5_unix_unlisten(struct l5_sock *l5)
{
	if (!l5->unix_addr)
		return;
	rhashtable_remove_fast(&l5_listeners, &l5->unix_node,
			       l5_listeners_params);
	l5->unix_addr = NULL;
}

/**
 * l5_unix_listener() - whose child is a socket?
 * @child: an AF_UNIX socket, accepted or not yet
 *
 * The time this takes does not depend on how many listeners there are, of this
 * user or of others.
 *
 * Context: RCU. Return: the AF_L5 listener, which may be closing, or NULL.
 */
struct l5_sock *l5_unix_listener(const struct sock *child)
{
	const void *addr = smp_load_acquire(&unix_sk(child)->addr);

	if (!addr)
		return NULL;
	return rhashtable_lookup(&l5_listeners, &addr, l5_listeners_params);
}

/**
 * l5_unix_send_check() - say early which descriptors a send cannot carry
 * @l5: the sender
 * @msg: what it sends, its control messages in kernel memory
 *
 * A courtesy to honest programs, which learn it from an error. The numbers may
 * stand for other files when AF_UNIX looks them up again; what is queued is
 * judged by l5_unix_data_ready().
 *
 * Return: 0, -EINVAL of a malformed list, -EOPNOTSUPP if the peer is AF_L5 and
 * would not get one of the descriptors.
 */
int l5_unix_send_check(struct l5_sock *l5, struct msghdr *msg)
{
	struct sock *peer = unix_peer_get(l5->boot->sk);
	struct cmsghdr *cmsg;
	bool guarded;
	int i, n;

	guarded = peer && l5_unix_guarded(peer);
	if (peer)
		sock_put(peer);
	if (!guarded)
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
			struct file *file = fget(fds[i]);
			bool harmless = !file || l5_unix_harmless(file);

			if (file)
				fput(file);
			if (!harmless)
				return -EOPNOTSUPP;
		}
	}
	return 0;
}

/**
 * l5_unix_init() - before the first socket
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
 * A sender may have been about to call our sk_data_ready, or be in it, when the
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
