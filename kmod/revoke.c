// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: an administrator ends connections, at once.
 *
 * /proc/net/l5_revoke takes lines that name sockets. Each connection of these
 * sockets is reset as by a reset from the network, and processes lose what they
 * have mapped of it. Its bootstrap says ECONNRESET at both ends; there is no
 * SIGBUS. The file of the first network namespace reaches every namespace, the
 * file of another reaches its own alone.
 *
 * Sockets are found under the lock of their list and then held by their file,
 * so that no task releases them; a socket without a file is about to be
 * released, or has never been held by a program.
 *
 * A process may keep the lock of its bootstrap for as long as it likes, by a
 * page fault in a call that copies under it; TCP's own "ss -K" waits for that,
 * too. So each connection is ended by a work item of its own, rings and
 * mappings first, since that takes no such lock: no process delays the end of
 * another's connection, nor those that wait for the lock of rounds.
 *
 * A user that is root of a namespace revokes there as often as it likes, and
 * has the writer killed each time. So what a round leaves behind is bounded: a
 * socket has one job, which is part of it, however often it is asked for; a job
 * that finds a lock held does not sleep for it but is put off, and looks again;
 * and the nodes by which a writer waits for jobs are charged to it and end with
 * the write.
 */
#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "bootstrap.h"
#include "close.h"
#include "conn.h"
#include "mapper.h"
#include "netns.h"
#include "rendezvous.h"
#include "revoke.h"
#include "state.h"
#include "transport.h"
#include "who.h"

/* Sockets that are found at a time. */
#define L5_REVOKE_BATCH	64
/* How long the revoking task waits for bootstraps that others hold. */
#define L5_REVOKE_WAIT	(10 * HZ)
/* The longest time between two looks at a lock that is held. */
#define L5_REVOKE_PAUSE	(HZ / 4)

/* Bits of l5_sock.revoke_how */
#define L5_REVOKE_ASKED	BIT(0)	/* the job is to be done */
#define L5_REVOKE_EVERY	BIT(1)	/* a listener ends, too */
#define L5_REVOKE_HOST	BIT(2)	/* the first namespace asks */

/**
 * struct l5_revoke - what a line says
 * @who: the sockets
 * @how: L5_REVOKE_*, of each job; with L5_REVOKE_EVERY connections that have no
 *	rings and will have none are meant, too
 * @ns: the user namespace of the uids in @who
 * @round: number of this round, see l5_sock.revoked
 * @which: of these: 1 if it is the host's
 * @count: sockets found
 * @nodes: &struct l5_revoke_node, of the jobs of this round
 * @left: number of jobs that are not done, and one while they are being asked
 *	for; under l5_revoke_jobs_lock
 * @done: no job is left
 */
struct l5_revoke {
	struct l5_who who;
	unsigned int how;
	struct user_namespace *ns;
	u32 round;
	int which;
	unsigned int count;
	struct list_head nodes;
	unsigned int left;
	struct completion done;
};

/**
 * struct l5_revoke_node - a round waits for a job
 * @job: in l5_sock.revoke_waits, or where the work that does the job keeps it;
 *	in no list once the job is done. Under l5_revoke_jobs_lock
 * @round: in l5_revoke.nodes, the writer's own
 * @r: the round, on the stack of its writer, which takes the node out of @job
 *	before it leaves
 */
struct l5_revoke_node {
	struct list_head job;
	struct list_head round;
	struct l5_revoke *r;
};

/* guards l5_sock.revoke_*, and which rounds wait for which jobs */
static DEFINE_SPINLOCK(l5_revoke_jobs_lock);

/*
 * The look whether a lock is free and the taking of it are two steps, since
 * tcp_abort() takes the bootstrap's lock itself. A process that gets between
 * them, and into a page fault, holds up a worker. A socket holds up one at
 * most, but a user that is root of a namespace tries it with as many sockets as
 * it likes, until in time all workers that a queue has are held up. Hence the
 * first namespace's rounds have a queue of their own: in that one, a user has a
 * single try for each of its sockets that the administrator names.
 */
static struct workqueue_struct *l5_revoke_wq;
static struct workqueue_struct *l5_revoke_host_wq;

/*
 * End a child that waits in its listener's queue. No other task uses it, unless
 * it is being accepted meanwhile. False: a process holds a lock that this
 * needs.
 */
static bool l5_child_abort(struct l5_sock *listener, struct sock *child)
{
	if (!listener->bops->child_abort)
		return listener->bops->abort(child);
	if (l5_boot_busy(listener->boot->sk) || l5_boot_busy(child))
		return false;
	listener->bops->child_abort(listener, child, ECONNRESET);
	return true;
}

static bool l5_base_ended(const struct sock *bsk)
{
	return READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
	       READ_ONCE(bsk->sk_shutdown) == SHUTDOWN_MASK;
}

/*
 * Find a child that has met its client and waits for accept().
 * Return: its meeting, with references to both, or NULL.
 */
static struct l5_conn *l5_revoke_pending(struct l5_sock *listener)
{
	struct l5_conn *conn, *found = NULL;

	spin_lock_bh(&listener->pending_lock);
	list_for_each_entry(conn, &listener->pending, pending) {
		if (l5_base_ended(conn->child))
			continue;
		found = conn;
		refcount_inc(&found->ref);
		sock_hold(found->child);
		break;
	}
	spin_unlock_bh(&listener->pending_lock);
	return found;
}

/*
 * Reset what waits for accept(), which says so then. False: a process holds a
 * lock that this needs.
 */
static bool l5_revoke_listener(struct l5_sock *l5)
{
	/* not for ever, if more clients connect meanwhile */
	u32 most = READ_ONCE(l5->boot->sk->sk_max_ack_backlog);
	struct l5_conn *conn;
	struct sock *child;
	bool done = true;

	do {
		conn = l5_revoke_pending(l5);
		if (!conn)
			break;
		child = conn->child;
		done = l5_child_abort(l5, child);
		l5_map_revoke(conn);
		sock_put(child);
		l5_conn_put(conn);
	} while (done && most--);
	return done;
}

/*
 * The socket is still connecting: its connection is not to have rings. False: a
 * process holds a lock that this needs.
 */
static bool l5_revoke_connecting(struct l5_sock *l5)
{
	bool done = true;

	if (!mutex_trylock(&l5->lock))
		return false;
	if (l5_state(l5) == L5_CONNECTING) {
		done = !l5_boot_busy(l5->boot->sk);
		if (done) {
			lock_sock(l5->boot->sk);
			WRITE_ONCE(l5->why, L5_REASON_DENIED);
			l5_rdv_cancel(l5);
			release_sock(l5->boot->sk);
		}
	}
	mutex_unlock(&l5->lock);
	return done;
}

/*
 * The rings end at once, without a lock that tasks using the socket may hold
 * for as long as they like: they may be in a page fault.
 */
static void l5_revoke_rings(struct l5_sock *l5)
{
	struct l5_conn *conn;
	int i;

	if (l5_state(l5) != L5_RINGS && l5_state(l5) != L5_MOVING)
		return;
	conn = l5->conn;
	l5_map_revoke(conn);
	/* rings that were never mapped may still be read, as after a reset */
	for (i = 0; i < 2; i++)
		set_bit(L5_END_CUT, &conn->end[i].flags);
}

/* A job. False: a process holds a lock that this needs, for now. */
static bool l5_revoke_do(struct l5_sock *l5, unsigned int how)
{
	l5_revoke_rings(l5);
	if (l5_state(l5) == L5_CONNECTING && !l5_revoke_connecting(l5))
		return false;
	if (l5_state(l5) == L5_LISTEN) {
		l5_transport_mailbox_revoke(l5);
		if (!l5_revoke_listener(l5))
			return false;
		return !(how & L5_REVOKE_EVERY) ||
		       l5_shutdown_try(l5->sk.sk_socket, SHUT_RDWR);
	}
	if (l5_state(l5) == L5_IDLE)
		return true;
	if (!l5->bops->abort(l5->boot->sk))
		return false;
	/* it may have got rings since */
	l5_revoke_rings(l5);
	l5_boot_error(l5);
	return true;
}

/*
 * Have the job done as l5_sock.revoke_how says; false if that was to be done
 * already. The work has one reference to the socket's file as long as it is
 * queued, and while it runs.
 */
static bool l5_revoke_queue(struct l5_sock *l5, unsigned long delay)
{
	struct workqueue_struct *wq = l5_revoke_wq;

	lockdep_assert_held(&l5_revoke_jobs_lock);
	if (l5->revoke_how & L5_REVOKE_HOST)
		wq = l5_revoke_host_wq;
	/* what was put off is due now; from the other queue it moves here */
	return !mod_delayed_work(wq, &l5->revoke_work, delay);
}

static void l5_revoke_done(struct l5_revoke *r)
{
	lockdep_assert_held(&l5_revoke_jobs_lock);
	if (!--r->left)
		complete(&r->done);
}

/* The rounds that waited when the work began have what they asked for. */
static void l5_revoke_tell(struct list_head *nodes)
{
	struct l5_revoke_node *node, *tmp;

	list_for_each_entry_safe(node, tmp, nodes, job) {
		list_del_init(&node->job);
		l5_revoke_done(node->r);
	}
}

/**
 * l5_revoke_work() - l5_sock.revoke_work, queued by l5_revoke_one()
 * @work: of a socket, with a reference to its file
 */
void l5_revoke_work(struct work_struct *work)
{
	struct l5_sock *l5 = container_of(work, struct l5_sock,
					  revoke_work.work);
	struct file *file = l5->sk.sk_socket->file;
	unsigned int how;
	LIST_HEAD(nodes);
	bool again;

	spin_lock(&l5_revoke_jobs_lock);
	/* of two queues each may run it; the first looks again when it ends */
	if (l5->revoke_runs) {
		spin_unlock(&l5_revoke_jobs_lock);
		fput(file);
		return;
	}
	l5->revoke_runs = true;
	how = l5->revoke_how;
	l5->revoke_how = 0;
	/* a round that asks from now on asks for another look */
	list_splice_init(&l5->revoke_waits, &nodes);
	spin_unlock(&l5_revoke_jobs_lock);

	if (!how || l5_revoke_do(l5, how))
		how = 0;

	spin_lock(&l5_revoke_jobs_lock);
	l5->revoke_runs = false;
	if (!how) {
		l5_revoke_tell(&nodes);
		l5->revoke_pause = 0;
	} else {
		list_splice(&nodes, &l5->revoke_waits);
		l5->revoke_how |= how;
		l5->revoke_pause = clamp_t(unsigned long, 2 * l5->revoke_pause,
					   1, L5_REVOKE_PAUSE);
	}
	again = l5->revoke_how && l5_revoke_queue(l5, l5->revoke_pause);
	spin_unlock(&l5_revoke_jobs_lock);
	/* the socket may be gone after this */
	if (!again)
		fput(file);
}

/* Takes the reference to the file. */
static int l5_revoke_one(struct file *file, struct l5_revoke *r)
{
	struct l5_sock *l5 = l5_sk(sock_from_file(file)->sk);
	struct l5_revoke_node *node;
	bool queued = false, runs;

	/* the connection ends in any case: without a node nobody waits */
	node = kmalloc(sizeof(*node), GFP_KERNEL_ACCOUNT | __GFP_NORETRY |
				      __GFP_NOWARN);
	spin_lock(&l5_revoke_jobs_lock);
	l5->revoke_how |= r->how;
	l5->revoke_pause = 0;
	if (node) {
		node->r = r;
		r->left++;
		list_add_tail(&node->job, &l5->revoke_waits);
		list_add(&node->round, &r->nodes);
	}
	runs = l5->revoke_runs;
	if (!runs)
		queued = l5_revoke_queue(l5, 0);
	spin_unlock(&l5_revoke_jobs_lock);
	/* it may be held up, and the socket may have rings by now */
	if (runs)
		l5_revoke_rings(l5);
	if (!queued)
		fput(file);
	return node ? 0 : -ENOMEM;
}

/* Until the jobs of a round are done. Nobody knows of the round afterwards. */
static int l5_revoke_wait(struct l5_revoke *r)
{
	struct l5_revoke_node *node, *tmp;
	long left;

	spin_lock(&l5_revoke_jobs_lock);
	l5_revoke_done(r);
	spin_unlock(&l5_revoke_jobs_lock);
	left = wait_for_completion_killable_timeout(&r->done, L5_REVOKE_WAIT);
	/* one by one: there may be very many */
	list_for_each_entry_safe(node, tmp, &r->nodes, round) {
		spin_lock(&l5_revoke_jobs_lock);
		list_del(&node->job);
		spin_unlock(&l5_revoke_jobs_lock);
		kfree(node);
		cond_resched();
	}
	if (left > 0)
		return 0;
	return left ? -EINTR : -EINPROGRESS;
}

static bool l5_revoke_wants(const struct l5_revoke *r, struct l5_sock *l5)
{
	switch (l5_state(l5)) {
	case L5_IDLE:
		return false;
	case L5_BASE:
		if (!(r->how & L5_REVOKE_EVERY) && !l5_remote_undecided(l5))
			return false;
		break;
	}
	return l5_who_is(&r->who, r->ns, l5);
}

/* Some of a namespace's sockets that this round has not looked at yet. */
static int l5_revoke_find(const struct l5_revoke *r, struct l5_net *ln,
			  struct file **files)
{
	struct l5_sock *l5;
	struct file *file;
	int n = 0;

	spin_lock(&ln->lock);
	hlist_for_each_entry(l5, &ln->socks, sk.sk_node) {
		if (l5->revoked[r->which] == r->round)
			continue;
		if (n == L5_REVOKE_BATCH)
			break;
		l5->revoked[r->which] = r->round;
		if (!l5_revoke_wants(r, l5))
			continue;
		file = READ_ONCE(l5->sk.sk_socket->file);
		if (file && l5_file_get(file))
			files[n++] = file;
	}
	spin_unlock(&ln->lock);
	return n;
}

static int l5_revoke_net(struct l5_revoke *r, struct l5_net *ln)
{
	struct file *files[L5_REVOKE_BATCH];
	int n, i, ends = 0, err = 0;

	/*
	 * To the end of the list, and once more for sockets that were being
	 * accepted. Not until no socket is left, or other tasks could make this
	 * go on for ever.
	 */
	do {
		n = l5_revoke_find(r, ln, files);
		for (i = 0; i < n; i++)
			err = l5_revoke_one(files[i], r) ?: err;
		r->count += n;
		ends += n < L5_REVOKE_BATCH;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	} while (ends < 2);
	return err;
}

/* A namespace that this round has not looked at yet, with a reference. */
static struct net *l5_revoke_next(const struct l5_revoke *r)
{
	struct net *net, *found = NULL;

	lockdep_assert_held(&l5_net(&init_net)->revoke_lock);
	rcu_read_lock();
	for_each_net_rcu(net) {
		if (l5_net(net)->revoked == r->round || !maybe_get_net(net))
			continue;
		l5_net(net)->revoked = r->round;
		found = net;
		break;
	}
	rcu_read_unlock();
	return found;
}

static int l5_revoke_everywhere(struct l5_revoke *r)
{
	struct net *net;
	int err = 0;

	/* without memory to wait for one, the others end all the same */
	while (err != -EINTR && (net = l5_revoke_next(r))) {
		err = l5_revoke_net(r, l5_net(net)) ?: err;
		put_net(net);
	}
	return err;
}

/*
 * Rounds of different namespaces do not wait for each other: a user that is
 * root of some has as many as it likes.
 */
static int l5_revoke_round(struct l5_revoke *r, struct net *net)
{
	struct l5_net *ln = l5_net(net);
	int err;

	/* AF, pairs with AE: what is denied, then the sockets that connect */
	smp_mb();
	if (mutex_lock_killable(&ln->revoke_lock))
		return -EINTR;
	/* a new socket has the number 0 */
	if (!++ln->revoke_rounds)
		ln->revoke_rounds = 1;
	r->round = ln->revoke_rounds;
	r->which = !!(r->how & L5_REVOKE_HOST);
	if (r->which)
		err = l5_revoke_everywhere(r);
	else
		err = l5_revoke_net(r, ln);
	mutex_unlock(&ln->revoke_lock);
	if (!err && !r->count && r->who.kind == L5_WHO_INODE)
		err = -ESRCH;
	return err;
}

static int l5_revoke_line(struct net *net, char *line)
{
	struct l5_revoke r = {
		.how = L5_REVOKE_ASKED,
		.ns = net->user_ns,
		.nodes = LIST_HEAD_INIT(r.nodes),
		.left = 1,
	};
	int err, late;

	if (net_eq(net, &init_net))
		r.how |= L5_REVOKE_HOST;
	if (!strcmp(line, "sockets")) {
		r.how |= L5_REVOKE_EVERY;
		r.who.kind = L5_WHO_ALL;
	} else {
		err = l5_who_parse(&r.who, line);
		if (err)
			return err;
	}
	init_completion(&r.done);
	err = l5_revoke_round(&r, net);
	late = l5_revoke_wait(&r);
	l5_who_put(&r.who);
	return err ?: late;
}

/**
 * l5_revoke_write() - end connections
 * @file: /proc/net/l5_revoke
 * @buf: lines that l5_who_parse() knows, for connections that have rings, or
 *	may get them; or "sockets", for every connection, and every listener as
 *	well
 * @size: of @buf
 *
 * Context: may sleep.
 * Return: 0; at the first line that fails, its errno: -EPERM, -EINVAL, -ENOENT
 * if there is no such cgroup, -ESRCH if there is no such inode, -EINTR,
 * -EINPROGRESS if a bootstrap is held by its process: then it ends soon after
 * the process lets go, see L5_REVOKE_PAUSE; -ENOMEM if there is no memory to
 * wait for the end of each, and they end all the same.
 */
int l5_revoke_write(struct file *file, char *buf, size_t size)
{
	struct net *net = seq_file_single_net(file->private_data);
	char *line;
	int err;

	if (!l5_may_administer(file, net))
		return -EPERM;
	while ((line = strsep(&buf, "\n"))) {
		line = strim(line);
		if (!*line)
			continue;
		err = l5_revoke_line(net, line);
		if (err)
			return err;
	}
	return 0;
}

/**
 * l5_revoke_show() - nothing is to be read from this file
 * @seq: /proc/net/l5_revoke
 * @v: not used
 *
 * Return: 0.
 */
int l5_revoke_show(struct seq_file *seq, void *v)
{
	return 0;
}

/**
 * l5_revoke_init() - the module comes
 *
 * Return: 0 or -ENOMEM.
 */
int __init l5_revoke_init(void)
{
	l5_revoke_wq = alloc_workqueue("l5_revoke", WQ_UNBOUND, WQ_MAX_ACTIVE);
	l5_revoke_host_wq = alloc_workqueue("l5_revoke_host", WQ_UNBOUND,
					    WQ_MAX_ACTIVE);
	if (l5_revoke_wq && l5_revoke_host_wq)
		return 0;
	l5_revoke_exit();
	return -ENOMEM;
}

/**
 * l5_revoke_exit() - the module goes, or did not come
 *
 * Each work item holds a file, and so the module, until its last instructions:
 * to destroy the queues is to wait for these.
 *
 * Context: may sleep.
 */
void l5_revoke_exit(void)
{
	if (l5_revoke_wq)
		destroy_workqueue(l5_revoke_wq);
	if (l5_revoke_host_wq)
		destroy_workqueue(l5_revoke_host_wq);
}
