// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: a thread that sends the records processes have
 * published.
 *
 * A process that has its ring mapped needs a call to have its records sent.
 * With net.l5.rdma_poll a thread of the network namespace looks at the tails of
 * its connections instead, as io_uring's SQPOLL does at submissions. It looks
 * for more until net.l5.rdma_poll_idle_ms have passed without a record, and
 * then sleeps until a process rings. L5_MAP_BELL in the state page says whether
 * to ring:
 *
 *   thread, about to sleep            sender
 *
 *   BELL = 1 everywhere               publish
 *   FULL BARRIER                      FULL BARRIER (l5_unlock())
 *   look at all tails                 look at BELL, ring if it is set
 *   if (nothing new) sleep
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched/stat.h>
#include <linux/slab.h>

#include "far.h"

/**
 * struct l5_poller - the poller of a namespace
 * @lock: guards @list
 * @list: connections
 * @task: the thread, NULL if there is none
 * @mutex: guards @task
 * @awake: the thread polls: no process needs to ring
 * @wait: where the thread sleeps
 */
struct l5_poller {
	spinlock_t lock;
	struct list_head list;
	struct task_struct *task;
	struct mutex mutex;
	bool awake;
	wait_queue_head_t wait;
};

/**
 * l5_poller_runs() - is there a thread that looks at the tails?
 * @ln: the namespace
 */
bool l5_poller_runs(const struct l5_net *ln)
{
	const struct l5_poller *p = ln->remote_data;

	return READ_ONCE(p->awake);
}

static void l5_poller_bell(struct l5_far *far, bool on)
{
	struct l5_map_state *state =
		READ_ONCE(far->conn->end[far->end].state);
	u32 old;

	if (!state)
		return;
	old = READ_ONCE(state->flags);
	if (!!(old & L5_MAP_BELL) == on)
		return;
	if (on)
		atomic_or(L5_MAP_BELL, (atomic_t *)&state->flags);
	else
		atomic_andnot(L5_MAP_BELL, (atomic_t *)&state->flags);
	atomic_inc((atomic_t *)&state->generation);
}

/* Look at all connections. Return: whether anything was sent. */
static bool l5_poller_look(struct l5_poller *p, bool bell)
{
	struct l5_far *far;
	bool any = false;
	u64 before;

	spin_lock_bh(&p->lock);
	list_for_each_entry(far, &p->list, poll_node) {
		struct l5_end *own = &far->conn->end[far->end];

		l5_poller_bell(far, bell);
		if (bell)
			/*
			 * AG, pairs with l5_map_published(): the flag, then
			 * the tail
			 */
			smp_mb();
		if (READ_ONCE(own->ctrl->tx_tail) == READ_ONCE(far->sent))
			continue;
		spin_lock(&far->lock);
		before = far->info.posts;
		l5_far_push_locked(far);
		far->info.polled += far->info.posts - before;
		any |= far->info.posts != before;
		spin_unlock(&far->lock);
	}
	spin_unlock_bh(&p->lock);
	return any;
}

static int l5_poller_thread(void *arg)
{
	struct l5_net *ln = arg;
	struct l5_poller *p = ln->remote_data;
	unsigned long last = jiffies, idle;

	WRITE_ONCE(p->awake, true);
	while (!kthread_should_stop()) {
		if (l5_poller_look(p, false))
			last = jiffies;
		cpu_relax();
		/* a task that wants this CPU may be about to publish */
		if (single_task_running())
			cond_resched();
		else
			yield();
		idle = msecs_to_jiffies(READ_ONCE(ln->rdma_poll_idle_ms)) + 1;
		if (time_before(jiffies, last + idle))
			continue;
		WRITE_ONCE(p->awake, false);
		if (!l5_poller_look(p, true))
			wait_event_interruptible(p->wait,
						 READ_ONCE(p->awake) ||
						 kthread_should_stop());
		WRITE_ONCE(p->awake, true);
		last = jiffies;
	}
	WRITE_ONCE(p->awake, false);
	l5_poller_look(p, true);
	return 0;
}

/**
 * l5_poller_kick() - a process rang: look for more
 * @ln: the namespace
 */
void l5_poller_kick(struct l5_net *ln)
{
	struct l5_poller *p = ln->remote_data;

	if (!READ_ONCE(p->task) || READ_ONCE(p->awake))
		return;
	WRITE_ONCE(p->awake, true);
	wake_up(&p->wait);
}

/**
 * l5_poller_set() - net.l5.rdma_poll has changed
 * @ln: the namespace
 */
void l5_poller_set(struct l5_net *ln)
{
	struct l5_poller *p = ln->remote_data;
	struct task_struct *task;

	mutex_lock(&p->mutex);
	if (READ_ONCE(ln->rdma_poll) && !p->task) {
		task = kthread_run(l5_poller_thread, ln, "l5_poller");
		if (!IS_ERR(task))
			WRITE_ONCE(p->task, task);
	} else if (!READ_ONCE(ln->rdma_poll) && p->task) {
		kthread_stop(p->task);
		WRITE_ONCE(p->task, NULL);
	}
	mutex_unlock(&p->mutex);
}

/**
 * l5_poller_add() - a connection was moved
 * @far: of this end, its lock held
 */
void l5_poller_add(struct l5_far *far)
{
	/* the list's lock is the outer one, so the work does it */
	l5_far_do(far, L5_DO_POLL);
}

/**
 * l5_poller_list() - have the poller look at a connection
 * @far: of this end
 *
 * Context: @far's work, for L5_DO_POLL.
 */
void l5_poller_list(struct l5_far *far)
{
	struct l5_poller *p = far->ln->remote_data;

	spin_lock_bh(&p->lock);
	if (!l5_is_dead(&far->ph) && list_empty(&far->poll_node))
		list_add(&far->poll_node, &p->list);
	spin_unlock_bh(&p->lock);
	l5_poller_kick(far->ln);
}

/**
 * l5_poller_del() - a connection ends
 * @far: of this end
 */
void l5_poller_del(struct l5_far *far)
{
	struct l5_poller *p;

	if (list_empty(&far->poll_node))
		return;
	p = far->ln->remote_data;
	spin_lock_bh(&p->lock);
	list_del_init(&far->poll_node);
	spin_unlock_bh(&p->lock);
}

/**
 * l5_poller_init() - a network namespace comes
 * @ln: its part of the module, whose remote_data this takes
 *
 * Return: 0 or -ENOMEM.
 */
int l5_poller_init(struct l5_net *ln)
{
	struct l5_poller *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	spin_lock_init(&p->lock);
	INIT_LIST_HEAD(&p->list);
	mutex_init(&p->mutex);
	init_waitqueue_head(&p->wait);
	ln->remote_data = p;
	return 0;
}

/**
 * l5_poller_exit() - a network namespace goes
 * @ln: its part of the module
 *
 * Context: may sleep, until the thread has ended.
 */
void l5_poller_exit(struct l5_net *ln)
{
	WRITE_ONCE(ln->rdma_poll, 0);
	l5_poller_set(ln);
	kfree(ln->remote_data);
}
