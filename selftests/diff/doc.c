// SPDX-License-Identifier: GPL-2.0
/*
 * Documentation/deviations.md says what the table in lib/deviations.c says:
 * checked without arguments, written anew with --write FILE.
 */
#define DIFF	diff_doc
#include "diff.h"

#include <libgen.h>
#include <limits.h>

static const char *const intro =
"# Where AF_L5 is not TCP\n"
"\n"
"Every call on an AF_L5 socket answers as the same call on TCP (or AF_UNIX)\n"
"does. `make check T=diff` makes each call on both and compares return value,\n"
"errno, data, poll mask and signals. The differences below are meant; any\n"
"other one is a bug, and fails that check, as does an entry here that is no\n"
"difference any more. How many bytes fit into a connection before a sender\n"
"must wait is not compared, only what happens then. `make check T=full` does\n"
"it all again below the library of `l5run`, with rings mapped: what is marked\n"
"\"only mapped\" is found there alone.\n"
"\n"
"This file is made from `selftests/lib/deviations.c` by\n"
"`make -C selftests deviations`.\n"
"\n"
"The numbers at the right are those of the [reasons](#reasons) below.\n"
"\n"
"| scenario | call | TCP or AF_UNIX | AF_L5 | why |\n"
"|---|---|---|---|---|\n";

/*
 * Deviations in values that change from moment to moment, or from host to host,
 * and those that a program which talks to itself on one host cannot show.
 */
static const char *const outro =
"\n"
"## Options that are about packets\n"
"\n"
"Bytes in a ring come in no packets, and in no queue of a socket. No scenario "
"compares these, whose values on TCP are of a moment, a device or a memory "
"cgroup; those without a test are by reading.\n"
"\n"
"| option | TCP | AF_L5 | test |\n"
"|---|---|---|---|\n"
"| SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING, set after connect() or on an "
"accepted socket | packets are stamped | taken, and what rings carry is not "
"stamped; what the bootstrap carries is. Before connect() or listen() they "
"keep TCP, reason `option` | `limit/guise` (`stamped_bytes`, "
"`late_options`) |\n"
"| SO_RESERVE_MEM | 0 in a memory cgroup, else EOPNOTSUPP | EOPNOTSUPP: "
"nothing is charged to the socket in advance | `limit/guise` "
"(`socket_level`) |\n"
"| SO_INCOMING_CPU, SO_INCOMING_NAPI_ID | where the last packet was received | "
"-1, or what was set, which chooses no listener of a group of SO_REUSEPORT; "
"and 0 | |\n"
"| SO_MEMINFO | limits, and what the queues hold | limits | |\n"
"| TCP_INFO, ss -ti | count all bytes, and say when there were some last | "
"what the bootstrap carried, which is the handshake and whatever came before "
"the two ends met; L5_INFO has what a ring carried | |\n"
"| SO_GET_FILTER, and SO_LOCK_FILTER by getsockopt() | the filter | none, also "
"where the bootstrap has one | |\n"
"| SO_PREFER_BUSY_POLL, SO_BUSY_POLL_BUDGET | hold for the socket, and for "
"those that a listener accepts | are kept, and neither inherited nor "
"handed down to the bootstrap; SO_BUSY_POLL is both | |\n"
"| mmap() of a socket, for TCP_ZEROCOPY_RECEIVE | an area | EINVAL on rings, "
"EOPNOTSUPP, EAGAIN or ENOTCONN without. TCP_ZEROCOPY_RECEIVE itself asks the "
"bootstrap, and finds nothing of what is in a ring | |\n"
"\n"
"## How much is under way\n"
"\n"
"Of two programs that both send before either reads, each waits for the other "
"once the buffers are full.\n"
"\n"
"| | TCP | AF_L5 | test |\n"
"|---|---|---|---|\n"
"| each direction, unless a size was set | some megabytes, as "
"`net.ipv4.tcp_wmem` and `tcp_rmem` say | `net.l5.ring_kb`, and "
"`net.l5.ring_max_kb` (4 MiB) if nobody reads for `net.l5.grow_ms`, over RDMA "
"as well; over AF_UNIX `ring_kb`. So a full socket can be written to again "
"though nobody has read | `limit/grow` (`echo`, `no_room_lost`, `polled`), "
"`limit/spill` (`echo`, `told`) |\n"
"| SO_SNDBUF was set | that, and the reader's buffer beside it, of up to some "
"megabytes | on one host that: there is no buffer beside the ring. Over RDMA as "
"TCP | `limit/grow` (`told`) |\n"
"| the reader has set SO_RCVBUF, and the writer no SO_SNDBUF | that, and the "
"writer's buffer beside it, of up to some megabytes | on one host a size says "
"how long the ring is at first, and it grows all the same. Over RDMA twice the "
"size that was given, as the kernel keeps it, and a ring at least | "
"`limit/spill` (`told`) |\n"
"| poll() with SO_RCVLOWAT above a quarter of the ring (64 KiB) | the buffer is "
"made to take as much, and poll() waits for it | poll() returns from a quarter "
"of the ring on: a ring that is full has all bytes that will come before it is "
"read. A receiving call waits for as much as was asked for | |\n"
"| close() with SO_LINGER | waits for what the reader's buffer had no room for | "
"waits for nothing on one host: what is in the ring was received | |\n"
"\n"
"## Over RDMA, in a network in trouble\n"
"\n"
"No program shows these that talks to itself on one host.\n"
"\n"
"| | TCP | AF_L5 once it has moved |\n"
"|---|---|---|\n"
"| nothing is acknowledged | ETIMEDOUT after `net.ipv4.tcp_retries2` (some "
"15 minutes), or TCP_USER_TIMEOUT | ETIMEDOUT after `net.l5.rdma_timeout_ms` "
"(7 s); TCP_USER_TIMEOUT says nothing about it; the bytes do not move back "
"to TCP |\n"
"| the last packet is lost | it is sent again after some 200 ms | after a "
"seventh of that, 1 s |\n"
"| recv() after the error that ended the connection was told | 0 | the same "
"error, to each task that asks: bytes may be lost |\n"
"| close() or shutdown() while the connection moves and the peer is away | "
"bytes and FIN follow when it is back | a reset after half of that, 5 to 15 s; "
"close() with SO_LINGER waits for it |\n";

static void cell(FILE *f, const char *s)
{
	fputs("| ", f);
	for (; *s; s++) {
		if (*s == '|')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputc(' ', f);
}

/* Some are in the table twice, for one end of a pair and for both. */
static bool said_before(const struct deviation *d)
{
	const struct deviation *e;

	for (e = deviations; e < d; e++)
		if (!strcmp(e->scenario, d->scenario) &&
		    !strcmp(e->label, d->label) && !strcmp(e->own, d->own) &&
		    !strcmp(e->l5, d->l5) && e->where == d->where)
			return true;
	return false;
}

/* Has another entry before it the same reason? */
static bool reason_said_before(const struct deviation *d)
{
	const struct deviation *e;

	for (e = deviations; e < d; e++)
		if (!strcmp(e->reason, d->reason))
			return true;
	return false;
}

/* The number of a reason: how many others there are up to its first entry. */
static int reason_number(const struct deviation *d)
{
	const struct deviation *e;
	int n = 0;

	for (e = deviations; e <= d; e++) {
		n += !reason_said_before(e);
		if (!strcmp(e->reason, d->reason))
			break;
	}
	return n;
}

static void write_row(FILE *f, const struct deviation *d)
{
	const char *s;

	cell(f, d->scenario);
	fputs("| `", f);
	for (s = d->label; *s; s++) {
		if (*s == '|')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputs("` ", f);
	cell(f, d->own);
	cell(f, d->l5);
	fprintf(f, "| %d%s |\n", reason_number(d),
		d->where == D_FULL ? ", only mapped" : "");
}

static void write_doc(FILE *f)
{
	const struct deviation *d;

	fputs(intro, f);
	for (d = deviations; d < deviations + deviations_n; d++)
		if (!said_before(d))
			write_row(f, d);
	fputs("\n## Reasons\n\n", f);
	for (d = deviations; d < deviations + deviations_n; d++)
		if (!reason_said_before(d))
			fprintf(f, "%d. %s\n", reason_number(d), d->reason);
	fputs(outro, f);
}

PLAIN_FIXTURE(diff_doc)

TEST_F(diff_doc, deviations_documented)
{
	char *want = NULL, path[PATH_MAX], *have;
	size_t len, n;
	FILE *f;

	ASSERT_LT(0, readlink("/proc/self/exe", path, sizeof(path) - 64));
	path[readlink("/proc/self/exe", path, sizeof(path) - 64)] = 0;
	strcat(dirname(path), "/../../../Documentation/deviations.md");
	f = open_memstream(&want, &len);
	write_doc(f);
	fclose(f);
	have = calloc(1, len + 2);
	f = fopen(path, "re");
	ASSERT_NE(NULL, f) TH_LOG("no %s", path);
	n = fread(have, 1, len + 1, f);
	fclose(f);
	EXPECT_EQ(len, n) {
		TH_LOG("run make -C selftests deviations");
	}
	EXPECT_EQ(0, strcmp(want, have));
}

/* No reason, no deviation; and nothing that excuses everything. */
TEST_F(diff_doc, deviations_have_reasons)
{
	int i;

	for (i = 0; i < deviations_n; i++) {
		EXPECT_LT(10, strlen(deviations[i].reason));
		EXPECT_NE(0, strcmp(deviations[i].scenario, "*"));
		EXPECT_NE(0, strcmp(deviations[i].label, "*"));
		EXPECT_NE(0, deviations[i].variants);
	}
}

/* Every entry leads to its own reason, and each is in the document once. */
TEST_F(diff_doc, reasons_said_once)
{
	char *doc = NULL, *line, *at;
	const char *reason;
	size_t len;
	FILE *f;
	int i;

	f = open_memstream(&doc, &len);
	write_doc(f);
	fclose(f);
	for (i = 0; i < deviations_n; i++) {
		reason = deviations[i].reason;
		ASSERT_LT(0, asprintf(&line, "\n%d. %s\n",
				      reason_number(&deviations[i]), reason));
		at = strstr(doc, line);
		EXPECT_NE(NULL, at) {
			TH_LOG("not there: %s", line);
		}
		if (at)
			EXPECT_EQ(NULL, strstr(at + strlen(line), reason)) {
				TH_LOG("twice: %s", reason);
			}
		free(line);
	}
	free(doc);
}

static void equal(struct ctx *c)
{
	V("one", "1");
	V("two", "2");
}

static void other_value(struct ctx *c)
{
	V("one", "1");
	V("two", "%d", c->own ? 2 : 3);
}

static void other_label(struct ctx *c)
{
	V(c->own ? "one" : "eins", "1");
}

static void one_more(struct ctx *c)
{
	V("one", "1");
	if (!c->own)
		V("two", "2");
}

static void one_less(struct ctx *c)
{
	V("one", "1");
	if (c->own)
		V("two", "2");
}

static void crashes(struct ctx *c)
{
	V("one", "1");
	if (!c->own)
		abort();
}

static void says_nothing(struct ctx *c)
{
	(void)c;
}

static void prepares_in_vain(struct ctx *c)
{
	V("one", "1");
	OK(close(-1));
}

/* What all the scenarios rely on: the comparer sees each difference. */
TEST_F(diff_doc, comparer)
{
	static const struct variant v = {
		.bit = V_INET, .name = "none", .dom = AF_INET,
	};
	static const struct {
		void (*fn)(struct ctx *c);
		int want;
	} t[] = {
		{ equal, DIFF_SAME }, { other_value, DIFF_DIFFERENT },
		{ other_label, DIFF_DIFFERENT }, { one_more, DIFF_DIFFERENT },
		{ one_less, DIFF_DIFFERENT }, { crashes, DIFF_DIFFERENT },
		{ says_nothing, DIFF_DIFFERENT },
		{ prepares_in_vain, DIFF_DIFFERENT },
	};
	unsigned int i;
	char why[256];

	setenv("L5_DIFF", "self", 1);
	unsetenv("L5_ONLY");
	unsetenv("L5_VARIANT");
	for (i = 0; i < ARRAY_SIZE(t); i++)
		EXPECT_EQ(t[i].want, diff_compare("comparer", &v, t[i].fn,
						  why, sizeof(why))) {
			TH_LOG("case %u: %s", i, why);
		}
}

static void __attribute__((constructor)) write_it(int argc, char **argv)
{
	FILE *f;

	if (argc != 3 || strcmp(argv[1], "--write"))
		return;
	f = fopen(argv[2], "we");
	if (!f) {
		perror(argv[2]);
		exit(1);
	}
	write_doc(f);
	exit(fclose(f) ? 1 : 0);
}

TEST_HARNESS_MAIN
