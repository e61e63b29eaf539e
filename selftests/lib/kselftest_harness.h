/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's harness, by which a program here can be asked for one test
 * alone: L5_TEST is its name as it stands in the program's output. With
 * --list, a program prints the names of its tests and runs none.
 */
#ifndef L5_KSELFTEST_HARNESS_H
#define L5_KSELFTEST_HARNESS_H

#include_next <kselftest_harness.h>

/*
 * Take all tests but one out of the lists; false if there is no such test.
 * Without @name, print the names of all tests.
 */
static inline bool harness_alone(const char *name)
{
	static struct __fixture_variant_metadata none = { .name = "" };
	struct __fixture_variant_metadata *v;
	struct __fixture_metadata *f;
	struct __test_metadata *t;
	char full[256];

	for (f = __fixture_list; f; f = f->next)
		for (v = f->variant ? f->variant : &none; v; v = v->next)
			for (t = f->tests; t; t = t->next) {
				snprintf(full, sizeof(full), "%s%s%s.%s",
					 f->name, *v->name ? "." : "", v->name,
					 t->name);
				if (!name)
					puts(full);
				if (!name || strcmp(full, name))
					continue;
				__fixture_list = f;
				f->next = NULL;
				f->variant = v == &none ? NULL : v;
				v->next = NULL;
				f->tests = t;
				t->next = NULL;
				return true;
			}
	return false;
}

static inline int harness_run(int argc, char **argv)
{
	const char *name = getenv("L5_TEST");

	if (argc > 1 && !strcmp(argv[1], "--list")) {
		harness_alone(NULL);
		return KSFT_PASS;
	}
	if (name && *name && !harness_alone(name)) {
		printf("TAP version 13\n1..0 # SKIP no test %s\n", name);
		return KSFT_SKIP;
	}
	return test_harness_run(argc, argv);
}

/* The main() of TEST_HARNESS_MAIN calls that one. */
#define test_harness_run harness_run

/* A fixture of nothing but a name, for tests that need no more. */
#define PLAIN_FIXTURE(set)						\
	FIXTURE(set) { };						\
	FIXTURE_SETUP(set) { (void)self; }				\
	FIXTURE_TEARDOWN(set) { (void)self; (void)_metadata; }

#endif /* L5_KSELFTEST_HARNESS_H */
