// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the processes that have an end of a connection mapped: what becomes of
 * a lock word once its holder is gone, and how all of them lose their pages.
 */
#include "end.h"
#include "mapper.h"
#include "region.h"

/* Tries to free a lock word that is held by a process that is gone. */
#define L5_DIED_TRIES		16

/**
 * l5_mapper_died() - free a lock word that a process will not give back
 * @m: what the process has mapped
 * @word: the lock word, which the process may hold or not
 *
 * Other processes may set and clear the bit for waiters meanwhile, as often as
 * they like. If they win, the word has a number that no mapper has, and the
 * next task that waits sees to it: l5_map_forget().
 *
 * Context: any.
 */
void l5_mapper_died(struct l5_mapper *m, u32 *word)
{
	u32 old = READ_ONCE(*word);
	int i;

	for (i = 0; i < L5_DIED_TRIES && (old & L5_LOCK_ID) == m->id; i++)
		if (try_cmpxchg(word, &old,
				(old & L5_LOCK_WAITERS) | L5_LOCK_DIED))
			break;
}

/**
 * l5_mapper_find() - what the present process has mapped of an end
 * @e: the end, its map_lock held
 *
 * Return: that, or NULL.
 */
struct l5_mapper *l5_mapper_find(struct l5_end *e)
{
	struct l5_mapper *m;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node)
		if (m->mm == current->mm)
			return m;
	return NULL;
}

/**
 * l5_mapper_numbered() - which process of an end has a number?
 * @e: the end, its map_lock held
 * @id: the number, for the lock words
 *
 * Return: what it has mapped, or NULL.
 */
struct l5_mapper *l5_mapper_numbered(struct l5_end *e, u32 id)
{
	struct l5_mapper *m;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node)
		if (m->id == id)
			return m;
	return NULL;
}

/**
 * l5_map_forget() - change a lock word if no mapper has the number in it
 * @e: the end
 * @id: the number
 * @word: the lock word
 * @old: what it was
 * @to: what it becomes
 * @wait: for a fault that is at work; else nothing is changed meanwhile
 *
 * Return: whether it was changed.
 */
bool l5_map_forget(struct l5_end *e, u32 id, u32 *word, u32 old, u32 to,
		   bool wait)
{
	bool done;

	if (wait)
		mutex_lock(&e->map_lock);
	else if (!mutex_trylock(&e->map_lock))
		return false;
	done = !l5_mapper_numbered(e, id) && cmpxchg(word, old, to) == old;
	mutex_unlock(&e->map_lock);
	return done;
}

/**
 * l5_map_few() - are there no more mappings than may be looked through?
 * @conn: the connection
 *
 * A process makes more of them by MADV_DOFORK alone. Then no ring gets pages or
 * gives any back, until there are fewer.
 *
 * Context: under map_lock of both ends.
 */
bool l5_map_few(struct l5_conn *conn)
{
	struct l5_mapper *m;
	int i;

	for (i = 0; i < 2; i++) {
		lockdep_assert_held(&conn->end[i].map_lock);
		list_for_each_entry(m, &conn->end[i].mappers, view.node)
			if (atomic_read(&m->areas) > L5_AREAS_MAX)
				return false;
	}
	return true;
}

/**
 * l5_map_zap_ring() - take the pages of a ring out of all processes
 * @conn: the connection
 * @ring: the end that writes the ring
 *
 * Faults bring back those that are there by then. It takes as long as an end's
 * processes have mappings. So it has the map_lock of one end at a time: none of
 * the other end's processes waits for that.
 *
 * Context: may sleep; takes map_lock of each end in turn.
 */
void l5_map_zap_ring(struct l5_conn *conn, int ring)
{
	u64 len = 2ULL * conn->end[ring].size;
	struct l5_mapper *m;
	int i;

	for (i = 0; i < 2; i++) {
		struct l5_end *e = &conn->end[i];

		mutex_lock(&e->map_lock);
		list_for_each_entry(m, &e->mappers, view.node)
			l5_view_zap(&m->view, i == ring ? L5_MMAP_TX :
							  L5_MMAP_RX, len);
		mutex_unlock(&e->map_lock);
	}
}

/* Revoke one end. Its processes cannot give back lock words any more. */
static void l5_map_revoke_end(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct l5_mapper *m;

	mutex_lock(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node) {
		l5_view_zap(&m->view, 0, 0);
		l5_mapper_died(m, &e->ctrl->tx_lock);
		l5_mapper_died(m, &e->ctrl->rx_lock);
	}
	mutex_unlock(&e->map_lock);
	l5_conn_unlocked(conn, end);
	l5_conn_changed(conn, end);
}

/**
 * l5_map_revoke() - take a connection's memory out of all processes, for good
 * @conn: the connection, with a reference
 *
 * From now on no process reads what another writes by means of a mapping, and
 * none can map the memory again (ENOTCONN). If a process had mapped it, the
 * unread records in the rings are not to be trusted any more, for they may be
 * half written: a receive is an error, the bootstrap's if it has one. If none
 * had, system calls go on as before.
 *
 * A process may have pages that it pinned before, by io_uring or a pipe: these
 * cannot be taken back.
 *
 * Context: process; takes map_lock of each end in turn. May be called again.
 */
void l5_map_revoke(struct l5_conn *conn)
{
	bool mapped = false;
	int i;

	for (i = 0; i < 2; i++) {
		struct l5_end *e = &conn->end[i];

		mutex_lock(&e->map_lock);
		e->revoked = true;
		l5_map_flag(e, L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE);
		mapped |= test_bit(L5_END_MAPPED, &e->flags);
		mutex_unlock(&e->map_lock);
	}
	for (i = 0; i < 2 && mapped; i++)
		set_bit(L5_END_REVOKED, &conn->end[i].flags);
	/*
	 * AC, pairs with AB in l5_ring_spoilt(), and in a process with its look
	 * at L5_MAP_GONE after it has copied: the flag is set first, then the
	 * pages are taken. A header may have been stored when the payload
	 * before it no longer went to the ring: a reader of such a header finds
	 * that out.
	 */
	smp_mb();
	for (i = 0; i < 2; i++)
		l5_map_revoke_end(conn, i);
	l5_region_revoke(conn);
}
