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
 * too. So rings and mappings end first, since that takes no such lock, and each
 * bootstrap is ended by a work item of its own: no process delays the end of
 * another's connection.
 */
#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <net/af_unix.h>
#include <net/tcp.h>

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

/**
 * struct l5_revoke - what a line says
 * @who: the sockets
 * @every: also connections that have no rings and will have none
 * @ns: the user namespace of the uids in @who
 * @round: number of this round, see l5_sock.revoked
 * @count: sockets found
 * @wait: for the jobs that work items do
 */
struct l5_revoke {
	struct l5_who who;
	bool every;
	struct user_namespace *ns;
	u32 round;
	unsigned int count;
	struct l5_revoke_wait *wait;
};

static DEFINE_MUTEX(l5_revoke_lock);	/* guards the number of rounds */
static u32 l5_revoke_rounds;

/* The work of either end does this to both; each has the error once. */
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

/* End a connection as if the network had reset it, for both ends. */
static void l5_base_abort(struct sock *bsk)
{
	struct sock *peer;

	if (bsk->sk_family != AF_UNIX) {
		/*
		 * The reset by the other end may have come already, and a
		 * program may have had its error: tcp_abort() would tell it
		 * again.
		 */
		if (READ_ONCE(bsk->sk_state) != TCP_CLOSE)
			tcp_abort(bsk, ECONNRESET);
		return;
	}
	peer = unix_peer_get(bsk);
	l5_unix_cut(bsk);
	if (peer) {
		l5_unix_cut(peer);
		sock_put(peer);
	}
}

static bool l5_base_ended(const struct sock *bsk)
{
	return READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
	       READ_ONCE(bsk->sk_shutdown) == SHUTDOWN_MASK;
}

/* Of a listener: reset one child that met and waits; accept() says so then. */
static bool l5_revoke_pending(struct l5_sock *listener)
{
	struct l5_conn *conn, *found = NULL;
	struct sock *child;

	spin_lock_bh(&listener->pending_lock);
	list_for_each_entry(conn, &listener->pending, pending) {
		if (l5_base_ended(conn->child))
			continue;
		found = conn;
		refcount_inc(&found->ref);
		child = found->child;
		sock_hold(child);
		break;
	}
	spin_unlock_bh(&listener->pending_lock);
	if (!found)
		return false;
	if (listener->bops->child_abort)
		listener->bops->child_abort(listener, child, ECONNRESET);
	else
		l5_base_abort(child);
	l5_map_revoke(found);
	sock_put(child);
	l5_conn_put(found);
	return true;
}

static void l5_revoke_listener(struct l5_sock *l5)
{
	/* not for ever, if more clients connect meanwhile */
	u32 most = READ_ONCE(l5->boot->sk->sk_max_ack_backlog);

	do {
		if (!l5_revoke_pending(l5))
			break;
	} while (most-- && !fatal_signal_pending(current));
}

/* The socket is still connecting: its connection is not to have rings. */
static void l5_revoke_connecting(struct l5_sock *l5)
{
	mutex_lock(&l5->lock);
	if (l5_state(l5) == L5_CONNECTING) {
		lock_sock(l5->boot->sk);
		WRITE_ONCE(l5->why, L5_REASON_DENIED);
		l5_rdv_cancel(l5);
		release_sock(l5->boot->sk);
	}
	mutex_unlock(&l5->lock);
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

/**
 * struct l5_revoke_wait - the revoking task waits for the jobs of a round
 * @ref: one for each job, and one for the task that waits
 * @left: number of jobs that are not done
 * @done: no job is left
 */
struct l5_revoke_wait {
	refcount_t ref;
	atomic_t left;
	struct completion done;
};

/**
 * struct l5_revoke_job - the end of a socket's connection
 * @work: does it
 * @file: the socket's, with a reference
 * @wait: the wait of the task that revokes
 * @every: a listener ends, too
 */
struct l5_revoke_job {
	struct work_struct work;
	struct file *file;
	struct l5_revoke_wait *wait;
	bool every;
};

static struct workqueue_struct *l5_revoke_wq;

static void l5_revoke_put(struct l5_revoke_wait *wait)
{
	if (refcount_dec_and_test(&wait->ref))
		kfree(wait);
}

static void l5_revoke_done(struct l5_revoke_wait *wait)
{
	if (atomic_dec_and_test(&wait->left))
		complete_all(&wait->done);
	l5_revoke_put(wait);
}

static void l5_revoke_work(struct work_struct *work)
{
	struct l5_revoke_job *job = container_of(work, struct l5_revoke_job,
						 work);
	struct socket *sock = sock_from_file(job->file);
	struct l5_sock *l5 = l5_sk(sock->sk);

	if (l5_state(l5) == L5_CONNECTING)
		l5_revoke_connecting(l5);
	if (l5_state(l5) == L5_LISTEN) {
		l5_transport_mailbox_revoke(l5);
		l5_revoke_listener(l5);
		if (job->every)
			l5_shutdown(sock, SHUT_RDWR);
	} else if (l5_state(l5) != L5_IDLE) {
		l5_base_abort(l5->boot->sk);
		/* it may have got rings since */
		l5_revoke_rings(l5);
		l5_boot_error(l5);
	}
	fput(job->file);
	l5_revoke_done(job->wait);
	kfree(job);
}

/* Takes the reference to the file. */
static int l5_revoke_one(struct file *file, struct l5_revoke *r)
{
	struct l5_revoke_job *job = kmalloc(sizeof(*job), GFP_KERNEL);

	l5_revoke_rings(l5_sk(sock_from_file(file)->sk));
	if (!job) {
		fput(file);
		return -ENOMEM;
	}
	INIT_WORK(&job->work, l5_revoke_work);
	job->file = file;
	job->every = r->every;
	job->wait = r->wait;
	refcount_inc(&r->wait->ref);
	atomic_inc(&r->wait->left);
	queue_work(l5_revoke_wq, &job->work);
	return 0;
}

static bool l5_revoke_wants(const struct l5_revoke *r, struct l5_sock *l5)
{
	switch (l5_state(l5)) {
	case L5_IDLE:
		return false;
	case L5_BASE:
		if (!r->every && !l5_remote_undecided(l5))
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
		if (l5->revoked == r->round)
			continue;
		if (n == L5_REVOKE_BATCH)
			break;
		l5->revoked = r->round;
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

	lockdep_assert_held(&l5_revoke_lock);
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

	while (!err && (net = l5_revoke_next(r))) {
		err = l5_revoke_net(r, l5_net(net));
		put_net(net);
	}
	return err;
}

static int l5_revoke_line(struct net *net, char *line)
{
	struct l5_revoke r = { .ns = net->user_ns };
	long left;
	int err;

	r.every = !strcmp(line, "sockets");
	if (r.every)
		r.who.kind = L5_WHO_ALL;
	else
		err = l5_who_parse(&r.who, line);
	if (!r.every && err)
		return err;
	err = -ENOMEM;
	r.wait = kmalloc(sizeof(*r.wait), GFP_KERNEL);
	if (!r.wait)
		goto out;
	refcount_set(&r.wait->ref, 2);
	atomic_set(&r.wait->left, 1);
	init_completion(&r.wait->done);
	/* AF, pairs with AE: what is denied, then the sockets that connect */
	smp_mb();
	mutex_lock(&l5_revoke_lock);
	/* a new socket has the number 0 */
	if (!++l5_revoke_rounds)
		l5_revoke_rounds = 1;
	r.round = l5_revoke_rounds;
	if (net_eq(net, &init_net))
		err = l5_revoke_everywhere(&r);
	else
		err = l5_revoke_net(&r, l5_net(net));
	mutex_unlock(&l5_revoke_lock);
	if (!err && !r.count && r.who.kind == L5_WHO_INODE)
		err = -ESRCH;
	l5_revoke_done(r.wait);
	left = wait_for_completion_killable_timeout(&r.wait->done,
						    L5_REVOKE_WAIT);
	if (left <= 0 && !err)
		err = left ? -EINTR : -EINPROGRESS;
	l5_revoke_put(r.wait);
out:
	l5_who_put(&r.who);
	return err;
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
 * -EINPROGRESS if a bootstrap is held by its process: then it ends as soon as
 * the process lets go.
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

/* Nothing is to be read from this file. */
int l5_revoke_show(struct seq_file *seq, void *v)
{
	return 0;
}

int __init l5_revoke_init(void)
{
	l5_revoke_wq = alloc_workqueue("l5_revoke", WQ_UNBOUND, WQ_MAX_ACTIVE);
	return l5_revoke_wq ? 0 : -ENOMEM;
}

void l5_revoke_exit(void)
{
	destroy_workqueue(l5_revoke_wq);
}
