/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The watch over the workers, in three generations: the run, which lives as
 * long as the fuzzer; a guard for each worker, which has the network namespaces
 * and looks whether anything is left in them; and the worker, which makes the
 * calls and may die of them.
 */
#ifndef FZ_WATCH_H
#define FZ_WATCH_H

#include "exec.h"

#define FZ_WORKERS	16

/**
 * struct fz_plan - what a run is to do
 * @seed: of all its programs
 * @seconds: how long
 * @most: calls that the run has to make by then, and that end it; 0: any number
 * @workers: at a time
 * @guide: go on from what reached something new
 * @lanes: threads and processes, so that no two runs are quite alike
 * @one: a program to repeat instead, or NULL
 * @times: how often; then also of programs made by the seed
 * @from: the number of the first one
 * @brief: have less patience, and say less: this run is one of many tries
 * @held: look for short calls that threads keep busy which write to memory
 * @stats: say at the end what the run was made of
 * @dir: where the last programs of each worker are written, or NULL
 */
struct fz_plan {
	uint64_t seed;
	unsigned int seconds;
	uint64_t most;
	unsigned int workers;
	bool guide;
	bool lanes;
	const struct fz_prog *one;
	uint64_t times;
	uint64_t from;
	bool brief;
	bool held;
	bool stats;
	const char *dir;
};

/* Calls are left out of a program for as long as it is found bad. */
int fz_minimise(struct fz_plan *plan);

/* 0, or 1 after saying what was found */
int fz_run(const struct fz_plan *plan);

#endif /* FZ_WATCH_H */
