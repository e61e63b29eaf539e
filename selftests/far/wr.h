/* SPDX-License-Identifier: GPL-2.0 */
/* Work requests, as the wires of the tests see them: far.c's and thread.c's. */
#ifndef L5_TEST_WR_H
#define L5_TEST_WR_H

static u32 l5_wr_len(const struct l5_wr *w)
{
	u32 len = 0;
	int i;

	for (i = 0; i < w->n; i++)
		len += w->seg[i].len;
	return len;
}

#endif /* L5_TEST_WR_H */
