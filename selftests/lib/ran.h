/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that are run under l5run, and what became of them. */
#ifndef L5_RAN_H
#define L5_RAN_H

/**
 * struct ran - what became of a program
 * @status: its status, or -signal
 * @out: its standard output
 * @err: its standard error
 */
struct ran {
	int status;
	char out[4096];
	char err[16384];
};

/* A program of ../kinds; of the last four calls the names are there. */
const char *kind(const char *name);

/* Where l5run is. */
const char *l5run(void);

/* Fork, and run it in @before's surroundings; NULL is none of them. */
struct ran run(void (*before)(const void *arg), const void *arg,
	       const char *const *argv);

/* To come before: set the environment as told, NAME=VALUE. */
void with_env(const void *arg);

/* Under l5run, with its options */
#define RUN_AFTER(before, arg, ...)					\
	run(before, arg, (const char *const[]){ l5run(), __VA_ARGS__, NULL })
#define RUN(...) RUN_AFTER(NULL, NULL, __VA_ARGS__)

#define IN_SHELL "/bin/sh", "-c", "\"$@\"; exit $?", "sh"

/* For tests: it ends with this status, and says this and nothing else. */
#define EXPECT_RAN(want, said, r) do {					\
	struct ran r_ = (r);						\
									\
	EXPECT_EQ((want), r_.status);					\
	EXPECT_STREQ((said), r_.out);					\
	EXPECT_STREQ("", r_.err);					\
	if ((want) != r_.status || strcmp((said), r_.out) || *r_.err)	\
		TH_LOG("it said: %s%s", r_.out, r_.err);		\
} while (0)

#endif /* L5_RAN_H */
