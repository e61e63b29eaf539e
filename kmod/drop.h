/* SPDX-License-Identifier: GPL-2.0 */
/* Pages that a connection does not need any more. */
#ifndef L5_DROP_H
#define L5_DROP_H

#include "l5.h"

bool l5_drop(struct l5_conn *conn, int closed);
void l5_drop_now(struct l5_conn *conn, int closed);
unsigned long l5_drop_idle(struct l5_conn *conn);
void l5_drop_all(struct l5_conn *conn);
void l5_drop_free(struct l5_conn *conn);

#endif /* L5_DROP_H */
