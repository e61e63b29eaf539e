/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What has been reached so far, in memory that all workers share: code of the
 * kernel, by kcov where there is one, and outcomes of calls, which say less and
 * are there on every kernel.
 */
#ifndef FZ_COVER_H
#define FZ_COVER_H

#include "call.h"

#define FZ_CORPUS	1024

/**
 * struct fz_cover - of a run
 * @pcs: how many places of code
 * @far_pcs: how many of them a softirq reached first
 * @outcomes: how many different ends of calls
 * @kept: how many programs are in @corpus, and before they were replaced
 * @pc: a byte for each hash of a place
 * @outcome: a byte for each hash of an outcome
 * @corpus: programs that reached something new
 */
struct fz_cover {
	uint32_t pcs;
	uint32_t far_pcs;
	uint32_t outcomes;
	uint32_t kept;
	uint8_t pc[1 << 20];
	uint8_t outcome[1 << 16];
	struct fz_prog corpus[FZ_CORPUS];
};

/* Collect the coverage of this thread; false without kcov. */
bool fz_cover_open(void);
void fz_cover_start(void);

/* How many places this thread has reached since that were new. */
uint32_t fz_cover_stop(struct fz_cover *v);

/* Note one call's end. True if there was none like it. */
bool fz_cover_outcome(struct fz_cover *v, const struct fz_call *c,
		      unsigned int before, long ret);

void fz_cover_keep(struct fz_cover *v, const struct fz_prog *p);

/* Some program of the corpus, or NULL. */
const struct fz_prog *fz_cover_some(struct fz_cover *v, struct fz_rnd *r);

#endif /* FZ_COVER_H */
