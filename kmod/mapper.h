/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that have an end of a connection mapped. */
#ifndef L5_MAPPER_H
#define L5_MAPPER_H

#include "l5.h"
#include "view.h"

/**
 * struct l5_mapper - what a process has mapped of an end
 * @view: its file, which owns this; in l5_end.mappers
 * @conn: the connection, with a reference
 * @end: index of the end
 * @id: its number for the lock words
 * @mm: the process, only ever compared
 * @areas: how often it has mapped something of the end, at present
 */
struct l5_mapper {
	struct l5_view view;
	struct l5_conn *conn;
	int end;
	u32 id;
	const struct mm_struct *mm;
	atomic_t areas;
};

/*
 * Pages are taken out of all mappings of an end while its faults wait, and the
 * other end's writer, too. So there are only so many: of a process, and
 * processes that have an end mapped.
 */
#define L5_AREAS_MAX		16
#define L5_MAPPERS_MAX		64

void l5_mapper_died(struct l5_mapper *m, u32 *word);
struct l5_mapper *l5_mapper_find(struct l5_end *e);
struct l5_mapper *l5_mapper_numbered(struct l5_end *e, u32 id);
bool l5_map_forget(struct l5_end *e, u32 id, u32 *word, u32 old, u32 to,
		   bool wait);
bool l5_map_few(struct l5_conn *conn);
void l5_map_zap_ring(struct l5_conn *conn, int ring);
void l5_map_revoke(struct l5_conn *conn);

#endif /* L5_MAPPER_H */
