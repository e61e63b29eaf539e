// SPDX-License-Identifier: GPL-2.0
/*
 * What may be mapped from a socket, by whom and how; that nothing makes a
 * read-only view writable; that memory is limited, charged and given back. A
 * SIGBUS anywhere ends the program, so there is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif

#define ALL_REGIONS	5

static const uint64_t offsets[ALL_REGIONS] = {
	L5_MMAP_OWN, L5_MMAP_PEER, L5_MMAP_STATE, L5_MMAP_TX, L5_MMAP_RX,
};

FIXTURE(view)
{
	int fd[2];
};

FIXTURE_VARIANT(view)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(view, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(view, unix)
{
	.at = "abstract:l5_map_view",
};

FIXTURE_SETUP(view)
{
	ASSERT_TRUE(map_begin(variant->at, 64, self->fd));
}

FIXTURE_TEARDOWN(view)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

static size_t region_len(const struct l5_map_info *info, int i)
{
	return i < 3 ? MAP_PAGE : 2UL * (i == 3 ? info->tx_size :
					 info->rx_size);
}

static bool region_rw(int i)
{
	return i == 0 || i == 3;
}

static bool is_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	return !len || (!b[0] && !memcmp(b, b + 1, len - 1));
}

/* mmap() that succeeds or says why not, and leaves nothing: its errno or 0. */
static int try_map(int fd, size_t len, int prot, int flags, uint64_t off)
{
	void *p = mmap(NULL, len, prot, flags, fd, off);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, len);
	return 0;
}

TEST_F_TIMEOUT(view, regions_alone, 120)
{
	struct l5_map_info info[2], again;
	int e, i;

	for (e = 0; e < 2; e++) {
		ASSERT_EQ(0, mapping_info(self->fd[e], &info[e]));
		EXPECT_EQ(0, info[e].id);
		EXPECT_EQ(0, info[e].reserved);
		EXPECT_EQ(64u << 10, info[e].tx_size);
		EXPECT_EQ(64u << 10, info[e].rx_size);
	}
	for (i = 0; i < 2 * ALL_REGIONS; i++) {
		int r = i % ALL_REGIONS, fd = self->fd[i / ALL_REGIONS];
		struct l5_map_info *f = &info[i / ALL_REGIONS];
		size_t len = region_len(f, r);
		uint8_t *p = mmap(NULL, len, PROT_READ |
				  (region_rw(r) ? PROT_WRITE : 0), MAP_SHARED,
				  fd, offsets[r]);

		ASSERT_NE(MAP_FAILED, p) {
			TH_LOG("region %d: %s", r, strerror(errno));
		}
		/* the whole of it is there, and only what is ours to write */
		EXPECT_EQ(0, map_touch(p, region_rw(r)));
		EXPECT_EQ(0, map_touch(p + len - 1, region_rw(r)));
		if (!region_rw(r))
			EXPECT_EQ(SIGSEGV, map_touch(p, true));
		/* fresh memory has nothing of anybody else in it */
		if (r >= 3)
			EXPECT_TRUE(is_zero(p, len));
		ASSERT_EQ(0, mapping_info(fd, &again));
		if (!r)
			EXPECT_NE(0, again.id);
		EXPECT_LT(again.id, L5_LOCK_KERNEL);
		EXPECT_EQ(0, munmap(p, len));
		ASSERT_EQ(0, mapping_info(fd, &again));
		EXPECT_EQ(0, again.id);
	}
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

TEST_F_TIMEOUT(view, both_ends_whole, 120)
{
	struct mapping m[2];
	uint8_t buf[100];
	struct l5_info li;
	int e;

	for (e = 0; e < 2; e++) {
		socklen_t len = sizeof(li);

		ASSERT_EQ(0, mapping_open(&m[e], self->fd[e]));
		EXPECT_EQ(m[e].tx_size, m[e].state->tx_size);
		EXPECT_EQ(m[e].rx_size, m[e].state->rx_size);
		EXPECT_EQ(L5_TRANSPORT_SHM, m[e].state->transport);
		EXPECT_EQ(0, m[e].state->flags & (L5_MAP_TX_ASK |
						  L5_MAP_RX_ASK));
		EXPECT_TRUE(is_zero((const uint8_t *)m[e].state +
				    sizeof(struct l5_map_state),
				    MAP_PAGE - sizeof(struct l5_map_state)));
		ASSERT_EQ(0, getsockopt(self->fd[e], SOL_L5, L5_INFO, &li,
					&len));
		EXPECT_EQ(li.tx_size, m[e].tx_size);
		EXPECT_EQ(li.rx_size, m[e].rx_size);
	}
	EXPECT_NE(m[0].own, m[1].own);
	for (e = 0; e < 2; e++) {
		struct mapping *a = &m[e], *b = &m[!e];

		EXPECT_EQ(0, memcmp(a->own, b->peer, MAP_PAGE));
		EXPECT_TRUE(is_zero((uint8_t *)a->own + sizeof(*a->own),
				    MAP_PAGE - sizeof(*a->own)));
		l5_fill(buf, sizeof(buf), 7);
		ASSERT_EQ(100, mapping_put(a, buf, 100));
		EXPECT_EQ(100, l5_load(&a->own->tx_bytes));
		EXPECT_EQ(l5_load(&a->own->tx_tail),
			  l5_load(&b->peer->tx_tail));
		EXPECT_EQ(0, memcmp(a->tx, b->rx, 2 * a->tx_size));
		memset(buf, 0, sizeof(buf));
		ASSERT_EQ(100, mapping_get(b, buf, 100));
		EXPECT_EQ(-1, l5_check(buf, 100, 7));
		EXPECT_EQ(0, mapping_get(b, buf, 100));
	}
	mapping_close(&m[0]);
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
	mapping_close(&m[1]);
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

static void expect_refused(struct __test_metadata *_metadata, const char *what,
			   int fd, int err)
{
	struct l5_map_info info;
	int r;

	EXPECT_EQ(-err, mapping_info(fd, &info)) {
		TH_LOG("%s: MAP_INFO", what);
	}
	for (r = 0; r < ALL_REGIONS; r++) {
		int prot = PROT_READ | (region_rw(r) ? PROT_WRITE : 0);

		EXPECT_EQ(err, try_map(fd, r < 3 ? MAP_PAGE : 128 << 10, prot,
				       MAP_SHARED, offsets[r])) {
			TH_LOG("%s: region %d", what, r);
		}
	}
}

TEST_F_TIMEOUT(view, sockets_without_rings, 120)
{
	struct addr to = addr_parse(variant->at);
	int force = L5_TRANSPORT_BASE, l, c, s;

	/* the name is free again */
	close(self->fd[0]);
	close(self->fd[1]);
	c = end_socket(END_L5, to.sa.sa_family);
	ASSERT_LE(0, c);
	expect_refused(_metadata, "fresh", c, ENOTCONN);
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	expect_refused(_metadata, "listener", l, ENOTCONN);
	ASSERT_EQ(0, setsockopt(c, SOL_L5, L5_FORCE, &force, sizeof(force)));
	ASSERT_EQ(0, connect(c, &to.sa, to.len));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(c));
	ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
	expect_refused(_metadata, "base, connecting", c, EOPNOTSUPP);
	expect_refused(_metadata, "base, accepted", s, EOPNOTSUPP);
	EXPECT_TRUE(end_exchange(c, s, 10000, 0));
	close(c);
	close(s);
	/* a plain peer */
	c = end_connect(END_TCP, &to);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	expect_refused(_metadata, "of a plain peer", s, EOPNOTSUPP);
	close(c);
	close(s);
	close(l);
	/* refused a connection */
	c = end_socket(END_L5, to.sa.sa_family);
	ASSERT_EQ(-1, connect(c, &to.sa, to.len));
	expect_refused(_metadata, "refused", c, ENOTCONN);
	self->fd[0] = c;
	self->fd[1] = dup(c);
}

/* Waits for accept(): the client may map, and what it sends arrives. */
TEST_F_TIMEOUT(view, before_accept, 120)
{
	struct addr to = addr_parse(variant->at);
	uint8_t buf[5000];
	struct mapping m;
	int l, c, s, err;

	close(self->fd[0]);
	close(self->fd[1]);
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_EQ(0, mapping_open(&m, c));
	l5_fill(buf, sizeof(buf), 0);
	ASSERT_EQ(5000, mapping_put(&m, buf, 5000));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_TRUE(end_get(s, 5000, 0));
	EXPECT_TRUE(end_exchange(c, s, 100000, 0));
	close(c);
	EXPECT_EQ(0, end_drain(s, 0, &err));
	mapping_close(&m);
	close(s);
	/* and one that nobody accepts */
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	ASSERT_EQ(0, mapping_open(&m, c));
	ASSERT_EQ(5000, mapping_put(&m, buf, 5000));
	close(l);
	EXPECT_TRUE(UNTIL(l5_load(&m.state->flags) & L5_MAP_TX_ASK));
	EXPECT_TRUE(UNTIL(l5_load(&m.state->flags) & L5_MAP_RX_ASK));
	ASSERT_EQ(-1, mapping_recv(&m, buf, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	close(c);
	mapping_close(&m);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	self->fd[0] = self->fd[1] = -1;
}

TEST_F_TIMEOUT(view, arguments, 120)
{
	static const uint64_t bad[] = {
		MAP_PAGE, L5_MMAP_PEER + MAP_PAGE, L5_MMAP_PEER - MAP_PAGE,
		0, L5_MMAP_STATE + MAP_PAGE, L5_MMAP_TX + MAP_PAGE,
		L5_MMAP_TX + (64 << 10), L5_MMAP_RX + MAP_PAGE,
		L5_MMAP_RX + (64 << 10), L5_MMAP_RX + (1ULL << 32),
		L5_MMAP_RX + (2ULL << 32), 1ULL << 40,
		1ULL << 47, 1ULL << 62, ~0ULL << 12, 1ULL << 63,
	};
	struct l5_map_info info;
	unsigned int i;
	int e, r;

	ASSERT_EQ(0, mapping_info(self->fd[0], &info));
	for (e = 0; e < 2; e++) {
		int fd = self->fd[e];

		for (i = 0; i < ARRAY_SIZE(bad) * 2; i++) {
			size_t len = i & 1 ? 128 << 10 : MAP_PAGE;
			int err = try_map(fd, len, PROT_READ, MAP_SHARED,
					  bad[i / 2]);

			EXPECT_TRUE(err == EINVAL || err == EOVERFLOW ||
				    err == ENXIO) {
				TH_LOG("offset %#llx: %s",
				       (unsigned long long)bad[i / 2],
				       strerror(err));
			}
		}
		for (r = 0; r < ALL_REGIONS; r++) {
			size_t good = region_len(&info, r);
			const size_t lens[] = {
				good + MAP_PAGE, good - MAP_PAGE, good / 2,
				2 * good, 3 * MAP_PAGE, good + 1, MAP_PAGE,
				1UL << 32, 1UL << 40, 2 * good + MAP_PAGE,
			};

			for (i = 0; i < ARRAY_SIZE(lens); i++) {
				int err;

				if (lens[i] == good ||
				    lens[i] - 1 >= SIZE_MAX / 2 ||
				    (lens[i] + MAP_PAGE - 1) / MAP_PAGE ==
				    good / MAP_PAGE ||
				    /* once, not twice */
				    (r >= 3 && lens[i] == good / 2))
					continue;
				err = try_map(fd, lens[i], PROT_READ,
					      MAP_SHARED, offsets[r]);
				EXPECT_TRUE(err == EINVAL || err == ENOMEM) {
					TH_LOG("region %d, %zu long: %s", r,
					       lens[i], strerror(err));
				}
			}
			EXPECT_EQ(EINVAL, try_map(fd, good, PROT_READ,
						  MAP_PRIVATE, offsets[r])) {
				TH_LOG("region %d private", r);
			}
			EXPECT_EQ(EINVAL, try_map(fd, good, PROT_READ |
						  PROT_WRITE, MAP_PRIVATE,
						  offsets[r])) {
				TH_LOG("region %d private, to write", r);
			}
			if (region_rw(r))
				continue;
			for (i = 1; i < 8; i++) {
				int err = try_map(fd, good, i, MAP_SHARED,
						  offsets[r]);

				if (!(i & (PROT_WRITE | PROT_EXEC))) {
					EXPECT_EQ(0, err);
					continue;
				}
				EXPECT_TRUE(err == EPERM || err == EACCES) {
					TH_LOG("region %d, prot %u: %s", r, i,
					       strerror(err));
				}
			}
		}
	}
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

/* The same region again: refused, or one more view of the same. */
TEST_F_TIMEOUT(view, twice, 120)
{
	struct mapping m, n, o;
	struct l5_map_info info;
	uint8_t buf[300];
	int err;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	err = mapping_open(&n, self->fd[0]);
	TH_LOG("a second mapping: %s, id %u, %u", strerror(-err), m.id,
	       err ? 0 : n.id);
	if (!err) {
		l5_fill(buf, sizeof(buf), 0);
		ASSERT_EQ(300, mapping_put(&n, buf, 300));
		EXPECT_EQ(0, memcmp(m.tx, n.tx, 2 * m.tx_size));
		memset(buf, 0, sizeof(buf));
		ASSERT_EQ(300, mapping_get(&o, buf, 300));
		EXPECT_EQ(-1, l5_check(buf, 300, 0));
		/* the first to go does not take the id of the other along */
		mapping_close(&m);
		ASSERT_EQ(0, mapping_info(self->fd[0], &info));
		EXPECT_EQ(n.id, info.id);
		ASSERT_EQ(1, mapping_lock(&n, L5_LOCK_TX));
		mapping_unlock(&n, L5_LOCK_TX);
		mapping_close(&n);
	} else {
		mapping_close(&m);
	}
	ASSERT_EQ(0, mapping_info(self->fd[0], &info));
	EXPECT_EQ(0, info.id);
	/* again and again */
	for (err = 0; err < 50; err++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		l5_fill(buf, sizeof(buf), err);
		ASSERT_EQ(300, mapping_send(&m, buf, 300, 0));
		ASSERT_TRUE(end_get(self->fd[1], 300, err));
		mapping_close(&m);
	}
	mapping_close(&o);
}

/* No part of a data view can be taken away, changed, moved or lengthened. */
TEST_F_TIMEOUT(view, pieces, 120)
{
	const size_t half = 64 << 10;
	struct mapping m, o;
	uint8_t buf[1000];
	int e, k;

	for (e = 0; e < 2; e++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[e]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[!e]));
		for (k = 0; k < 2; k++) {
			uint8_t *p = k ? (uint8_t *)m.rx : m.tx;
			uint8_t *q;

			EXPECT_EQ(-1, munmap(p, half));
			EXPECT_EQ(EINVAL, errno);
			EXPECT_EQ(-1, munmap(p + half, half));
			EXPECT_EQ(-1, munmap(p + MAP_PAGE, MAP_PAGE));
			EXPECT_EQ(-1, mprotect(p, MAP_PAGE, PROT_NONE));
			EXPECT_EQ(EINVAL, errno);
			EXPECT_EQ(-1, mprotect(p + half, half, PROT_NONE));
			EXPECT_EQ(-1, mprotect(p + MAP_PAGE, MAP_PAGE,
					       PROT_NONE));
			/* something else in its middle */
			EXPECT_EQ(MAP_FAILED, mmap(p + half, MAP_PAGE,
						   PROT_READ, MAP_FIXED |
						   MAP_PRIVATE | MAP_ANONYMOUS,
						   -1, 0));
			/* shorter, longer, a copy, something left behind */
			EXPECT_EQ(MAP_FAILED, mremap(p, 2 * half, half, 0));
			EXPECT_EQ(MAP_FAILED, mremap(p, 2 * half, 3 * half,
						     MREMAP_MAYMOVE));
			EXPECT_EQ(MAP_FAILED, mremap(p, half, 3 * half,
						     MREMAP_MAYMOVE));
			EXPECT_EQ(MAP_FAILED, mremap(p, 0, half,
						     MREMAP_MAYMOVE));
			EXPECT_EQ(MAP_FAILED, mremap(p, 0, 2 * half,
						     MREMAP_MAYMOVE));
			q = mremap(p, 2 * half, 2 * half, MREMAP_MAYMOVE |
				   MREMAP_DONTUNMAP, NULL);
			EXPECT_EQ(MAP_FAILED, q);
			/* half of it elsewhere */
			q = mmap(NULL, half, PROT_NONE, MAP_PRIVATE |
				 MAP_ANONYMOUS, -1, 0);
			EXPECT_EQ(MAP_FAILED, mremap(p, half, half,
						     MREMAP_MAYMOVE |
						     MREMAP_FIXED, q));
			munmap(q, half);
			/* an old way to other pages of the same file */
			EXPECT_EQ(-1, syscall(SYS_remap_file_pages, p,
					      MAP_PAGE, 0, 1, 0));
			EXPECT_EQ(-1, syscall(SYS_remap_file_pages, p,
					      2 * half, 0, 0, 0));
			EXPECT_EQ(0, map_touch(p, !k));
			EXPECT_EQ(0, map_touch(p + 2 * half - 1, !k));
			EXPECT_EQ(SIGSEGV, map_touch(p - 1, false));
			EXPECT_EQ(SIGSEGV, map_touch(p + 2 * half, false));
		}
		/* a page cannot be split, but lengthened */
		EXPECT_EQ(MAP_FAILED, mremap(m.own, MAP_PAGE, 2 * MAP_PAGE,
					     MREMAP_MAYMOVE));
		EXPECT_EQ(MAP_FAILED, mremap(m.own, 0, MAP_PAGE,
					     MREMAP_MAYMOVE));
		EXPECT_EQ(MAP_FAILED, mremap((void *)m.peer, 0, MAP_PAGE,
					     MREMAP_MAYMOVE));
		l5_fill(buf, sizeof(buf), e);
		ASSERT_EQ(1000, mapping_put(&m, buf, 1000));
		memset(buf, 0, sizeof(buf));
		ASSERT_EQ(1000, mapping_get(&o, buf, 1000));
		EXPECT_EQ(-1, l5_check(buf, 1000, e));
		mapping_close(&m);
		mapping_close(&o);
	}
	EXPECT_TRUE(end_stat_reaches("violations", 0));
}

/* A move of a whole region is refused, or it is the same region there. */
TEST_F_TIMEOUT(view, moved, 120)
{
	static const bool write[] = { true, false, false, true, false };
	struct l5_map_info info;
	uint8_t *p, *to, *at;
	int r;

	ASSERT_EQ(0, mapping_info(self->fd[0], &info));
	for (r = 0; r < ALL_REGIONS; r++) {
		size_t len = region_len(&info, r);

		p = mmap(NULL, len, PROT_READ | (write[r] ? PROT_WRITE : 0),
			 MAP_SHARED, self->fd[0], offsets[r]);
		ASSERT_NE(MAP_FAILED, p);
		to = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
		at = mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (at == MAP_FAILED) {
			EXPECT_EQ(0, map_touch(p, write[r]));
			EXPECT_EQ(0, munmap(p, len));
			munmap(to, len);
			continue;
		}
		EXPECT_EQ(SIGSEGV, map_touch(p, false));
		EXPECT_EQ(0, map_touch(at + len - 1, write[r]));
		if (!write[r]) {
			EXPECT_EQ(SIGSEGV, map_touch(at, true));
			EXPECT_EQ(-1, mprotect(at, len, PROT_READ |
					       PROT_WRITE));
		}
		if (!r) {
			ASSERT_EQ(0, mapping_info(self->fd[0], &info));
			EXPECT_NE(0, info.id);
		}
		EXPECT_EQ(0, munmap(at, len));
		ASSERT_EQ(0, mapping_info(self->fd[0], &info));
		EXPECT_EQ(0, info.id);
	}
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

/* Whatever advice is given, the same bytes are there afterwards. */
TEST_F_TIMEOUT(view, advice, 120)
{
	struct mapping m, o;
	uint8_t buf[5000];
	int advice, k;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	for (advice = 0; advice < 32; advice++) {
		const struct {
			void *p;
			size_t len;
		} t[] = {
			{ m.own, MAP_PAGE },
			{ (void *)m.peer, MAP_PAGE },
			{ (void *)m.state, MAP_PAGE },
			{ m.tx, 2 * m.tx_size },
			{ (void *)m.rx, 2 * m.rx_size },
			{ m.tx + MAP_PAGE, MAP_PAGE },
			{ (void *)(m.rx + MAP_PAGE), MAP_PAGE },
		};

		l5_fill(buf, sizeof(buf), advice);
		ASSERT_EQ(5000, mapping_put(&m, buf, 5000));
		ASSERT_EQ(5000, mapping_put(&o, buf, 5000));
		for (k = 0; k < (int)ARRAY_SIZE(t); k++) {
			int ret = madvise(t[k].p, t[k].len, advice);

			/* what would write or throw pages away for all */
			if (advice == MADV_REMOVE || advice == MADV_FREE ||
			    advice == MADV_WIPEONFORK ||
			    (advice == MADV_POPULATE_WRITE &&
			     (k == 1 || k == 2 || k == 4 || k == 6)))
				EXPECT_EQ(-1, ret) {
					TH_LOG("advice %d on %d", advice, k);
				}
			EXPECT_EQ(0, map_touch(t[k].p, false)) {
				TH_LOG("advice %d on %d", advice, k);
			}
		}
		memset(buf, 0, sizeof(buf));
		ASSERT_EQ(5000, mapping_get(&m, buf, 5000)) {
			TH_LOG("after advice %d", advice);
		}
		ASSERT_EQ(-1, l5_check(buf, 5000, advice));
		memset(buf, 0, sizeof(buf));
		ASSERT_EQ(5000, mapping_get(&o, buf, 5000));
		ASSERT_EQ(-1, l5_check(buf, 5000, advice));
		EXPECT_EQ(SIGSEGV, map_touch(m.rx, true));
		EXPECT_EQ(SIGSEGV, map_touch(m.peer, true));
		EXPECT_EQ(SIGSEGV, map_touch(m.state, true));
	}
	/* all gone from the page tables, and it is there again */
	EXPECT_EQ(0, madvise(m.tx, 2 * m.tx_size, MADV_DONTNEED));
	EXPECT_EQ(0, madvise((void *)m.rx, 2 * m.rx_size, MADV_DONTNEED));
	EXPECT_EQ(0, memcmp(m.tx, o.rx, 2 * m.tx_size));
	EXPECT_EQ(0, memcmp(m.rx, o.tx, 2 * m.rx_size));
	mapping_close(&m);
	mapping_close(&o);
}

/*
 * A child sees nothing of its parent's mapping. If a way was found to hand it
 * down all the same, what was read-only is so there, too, and the end of the
 * child says nothing about locks that its parent holds.
 */
TEST_F_TIMEOUT(view, fork_has_none, 120)
{
	struct mapping m, o;
	uint8_t buf[100];
	int k, status;
	pid_t pid;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	for (k = 0; k < 2; k++) {
		bool forced = false;

		if (k) {
			forced |= !madvise(m.own, MAP_PAGE, MADV_DOFORK);
			forced |= !madvise(m.tx, 2 * m.tx_size, MADV_DOFORK);
			forced |= !madvise((void *)m.rx, 2 * m.rx_size,
					   MADV_DOFORK);
			TH_LOG("MADV_DOFORK: %s", forced ? "done" : "refused");
		}
		ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_TX));
		ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_RX));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct l5_map_info info;

			if (mapping_info(m.fd, &info) || info.id)
				_exit(1);
			if (!forced && (map_touch(m.own, false) != SIGSEGV ||
					map_touch(m.tx, false) != SIGSEGV ||
					map_touch(m.rx, false) != SIGSEGV))
				_exit(2);
			if (map_touch(m.rx, true) != SIGSEGV)
				_exit(3);
			if (map_touch(m.peer, true) != SIGSEGV)
				_exit(4);
			_exit(0);
		}
		status = map_reap(pid);
		EXPECT_EQ(0, status);
		EXPECT_EQ(m.id, l5_load(&m.own->tx_lock));
		EXPECT_EQ(m.id, l5_load(&m.own->rx_lock));
		mapping_unlock(&m, L5_LOCK_TX);
		mapping_unlock(&m, L5_LOCK_RX);
		l5_fill(buf, 100, k);
		ASSERT_EQ(100, mapping_put(&m, buf, 100));
		ASSERT_TRUE(end_get(self->fd[1], 100, k));
	}
	/* the same by vfork: there they share, and the child ends by exec */
	ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_TX));
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	ASSERT_LE(0, pid);
	status = map_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_EQ(m.id, l5_load(&m.own->tx_lock));
	mapping_unlock(&m, L5_LOCK_TX);
	mapping_close(&m);
	mapping_close(&o);
}

/* A store through one half is a load through the other, also at the border. */
TEST_F_TIMEOUT(view, two_halves, 120)
{
	struct mapping m, o;
	size_t i, size;
	uint64_t v;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	size = m.tx_size;
	for (i = 0; i < size; i += 8) {
		v = i * 0x9e3779b97f4a7c15ULL;
		memcpy(m.tx + i, &v, 8);
	}
	EXPECT_EQ(0, memcmp(m.tx, m.tx + size, size));
	EXPECT_EQ(0, memcmp(m.tx, o.rx, 2 * size));
	for (i = 0; i < size; i += 8) {
		v = ~(i * 0x9e3779b97f4a7c15ULL);
		memcpy(m.tx + size + i, &v, 8);
	}
	EXPECT_EQ(0, memcmp(m.tx, m.tx + size, size));
	EXPECT_EQ(0, memcmp(m.tx, o.rx, 2 * size));
	/* across: four bytes before, four after */
	v = 0x1122334455667788ULL;
	memcpy(m.tx + size - 4, &v, 8);
	EXPECT_EQ(0, memcmp(o.rx + size - 4, &v, 8));
	EXPECT_EQ(0, memcmp(o.rx, (uint8_t *)&v + 4, 4));
	EXPECT_EQ(0, memcmp(o.rx + 2 * size - 4, &v, 4));
	mapping_close(&m);
	mapping_close(&o);
}

/* Somebody else's hands on read-only views. */
struct ways {
	int pid;
	uint8_t *addr[3];
};

static bool same(const uint8_t *p, const uint8_t *copy)
{
	return !memcmp(p, copy, MAP_PAGE);
}

TEST_F_TIMEOUT(view, read_only_by_others, 120)
{
	struct ways *w = map_shared(sizeof(*w));
	const uint64_t junk = 0xdeadbeefdeadbeefULL;
	char path[64];
	int status, mem, k, in[2];
	struct mapping o;
	uint8_t *copy[3];
	pid_t pid;
	char b;

	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	memset(o.tx, 0x5a, o.tx_size);
	ASSERT_EQ(0, pipe(in));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct mapping m;

		if (mapping_open(&m, self->fd[0]))
			_exit(1);
		w->addr[0] = (uint8_t *)m.rx;
		w->addr[1] = (uint8_t *)m.peer;
		w->addr[2] = (uint8_t *)m.state;
		w->pid = getpid();
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		if (read(in[0], &b, 1) != 1)
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDWR);
	ASSERT_LE(0, mem);
	for (k = 0; k < 3; k++) {
		struct iovec l = { (void *)&junk, 8 }, r = { w->addr[k], 8 };
		long word;

		copy[k] = malloc(MAP_PAGE);
		memset(copy[k], 0, MAP_PAGE);
		/* whether a debugger may read it is the kernel's choice */
		(void)!pread(mem, copy[k], MAP_PAGE, (off_t)w->addr[k]);
		errno = 0;
		EXPECT_EQ(-1, ptrace(PTRACE_POKEDATA, pid, w->addr[k], junk));
		EXPECT_EQ(-1, ptrace(PTRACE_POKETEXT, pid, w->addr[k], junk));
		EXPECT_EQ(-1, pwrite(mem, &junk, 8, (off_t)w->addr[k]));
		EXPECT_EQ(-1, process_vm_writev(pid, &l, 1, &r, 1, 0));
		errno = 0;
		word = ptrace(PTRACE_PEEKDATA, pid, w->addr[k], 0);
		if (!errno)
			EXPECT_NE((long)junk, word);
	}
	EXPECT_TRUE(is_zero((const uint8_t *)o.own + sizeof(*o.own),
			    MAP_PAGE - sizeof(*o.own)));
	for (k = 0; k < (int)o.tx_size; k++)
		if (o.tx[k] != 0x5a)
			break;
	EXPECT_EQ((int)o.tx_size, k);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	ASSERT_EQ(1, write(in[1], "", 1));
	EXPECT_EQ(0, map_reap(pid));
	close(mem);
	mapping_close(&o);
}

/* A file that O_DIRECT reads: of a ram disk, if nothing else. */
static int direct_file(void)
{
	static const char *const names[] = {
		"/tmp/l5_direct", "/var/tmp/l5_direct", "/root/l5_direct",
	};
	static char junk[MAP_PAGE];
	unsigned int i;
	int fd;

	memset(junk, 0xa5, sizeof(junk));
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		fd = open(names[i], O_RDWR | O_CREAT, 0600);
		if (fd < 0)
			continue;
		if (write(fd, junk, sizeof(junk)) != sizeof(junk)) {
			close(fd);
			continue;
		}
		close(fd);
		fd = open(names[i], O_RDWR | O_DIRECT);
		if (fd >= 0)
			return fd;
		unlink(names[i]);
	}
	sh("modprobe brd rd_nr=1 rd_size=1024 2>/dev/null; true");
	fd = open("/dev/ram0", O_RDWR);
	if (fd < 0)
		return -1;
	if (write(fd, junk, sizeof(junk)) != sizeof(junk)) {
		close(fd);
		return -1;
	}
	fsync(fd);
	close(fd);
	return open("/dev/ram0", O_RDWR | O_DIRECT);
}

static void one_view(struct __test_metadata *_metadata, const char *what,
		     uint8_t *p, size_t len, int sock, int peer)
{
	static uint8_t copy[MAP_PAGE], back[MAP_PAGE];
	const uint64_t junk = 0xdeadbeefdeadbeefULL;
	struct iovec iov = { p, 64 }, l = { (void *)&junk, 8 }, r = { p, 8 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int mem, pp[2], fd, ret;
	uint32_t other = 0;
	void *q;

	memcpy(copy, p, MAP_PAGE);

	/* the protection itself */
	EXPECT_EQ(-1, mprotect(p, len, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(p, len, PROT_WRITE));
	EXPECT_EQ(-1, mprotect(p, len, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(SIGSEGV, map_touch(p, true));
	EXPECT_EQ(SIGSEGV, map_touch(p + len - 1, true));

	/* the kernel as an accomplice */
	mem = open("/proc/self/mem", O_RDWR);
	ASSERT_LE(0, mem);
	EXPECT_EQ(-1, pwrite(mem, &junk, 8, (off_t)p));
	close(mem);
	EXPECT_EQ(-1, process_vm_writev(getpid(), &l, 1, &r, 1, 0));
	ASSERT_EQ(0, pipe(pp));
	ASSERT_EQ(8, write(pp[1], &junk, 8));
	EXPECT_EQ(-1, read(pp[0], p, 8));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(8, read(pp[0], back, 8));
	ASSERT_EQ(8, send(peer, &junk, 8, 0));
	if (sock >= 0) {
		EXPECT_EQ(-1, recv(sock, p + len - 8, 8, 0));
		EXPECT_EQ(EFAULT, errno);
		ASSERT_EQ(8, recv(sock, back, 8, 0));
	}
	fd = open("/dev/zero", O_RDONLY);
	ret = read(fd, p, 64);
	EXPECT_GT(1, ret);
	close(fd);
	fd = open("/proc/self/stat", O_RDONLY);
	EXPECT_EQ(-1, read(fd, p, 64));
	close(fd);
	ret = syscall(SYS_futex, &other, FUTEX_WAKE_OP, 1, (void *)1L, p,
		      FUTEX_OP(FUTEX_OP_SET, 99, FUTEX_OP_CMP_EQ, 0));
	EXPECT_EQ(-1, ret);
	EXPECT_EQ(-1, syscall(SYS_getrandom, p, 64, 0));
	EXPECT_EQ(-1, madvise(p, len, MADV_POPULATE_WRITE));
	EXPECT_TRUE(same(p, copy));

	/* gifts: pages of ours in a pipe, which others write to */
	ret = vmsplice(pp[1], &iov, 1, SPLICE_F_GIFT);
	if (ret > 0) {
		ASSERT_EQ(8, write(pp[1], &junk, 8));
		EXPECT_TRUE(same(p, copy));
		ASSERT_EQ(ret, read(pp[0], back, ret));
		EXPECT_EQ(0, memcmp(back, copy, ret));
		ASSERT_EQ(8, read(pp[0], back, 8));
	}
	iov.iov_len = MAP_PAGE;
	ret = vmsplice(pp[1], &iov, 1, SPLICE_F_GIFT);
	if (ret > 0) {
		/* moved into a file's cache, and written there */
		fd = memfd_create("gift", MFD_CLOEXEC);
		ASSERT_EQ(ret, splice(pp[0], NULL, fd, NULL, ret,
				      SPLICE_F_MOVE));
		ASSERT_EQ(8, pwrite(fd, &junk, 8, 0));
		close(fd);
		EXPECT_TRUE(same(p, copy));
	}
	/* and the other way: what is in a pipe into the view */
	ASSERT_EQ(8, write(pp[1], &junk, 8));
	iov.iov_len = 8;
	EXPECT_EQ(-1, vmsplice(pp[0], &iov, 1, 0));
	EXPECT_TRUE(same(p, copy));
	close(pp[0]);
	close(pp[1]);

	/* direct I/O */
	fd = direct_file();
	if (fd >= 0) {
		ret = pread(fd, p, MAP_PAGE, 0);
		EXPECT_GT(1, ret) {
			TH_LOG("%s: O_DIRECT read gave %d", what, ret);
		}
		EXPECT_TRUE(same(p, copy));
		close(fd);
		unlink("/tmp/l5_direct");
	} else {
		TH_LOG("nothing here does O_DIRECT");
	}

	/* buffers that io_uring pins, to write into */
	fd = memfd_create("fixed", MFD_CLOEXEC);
	ASSERT_EQ(8, write(fd, &junk, 8));
	ret = io_uring_queue_init(4, &ring, 0);
	if (!ret) {
		iov.iov_base = p;
		iov.iov_len = MAP_PAGE;
		ret = io_uring_register_buffers(&ring, &iov, 1);
		EXPECT_GT(0, ret) {
			TH_LOG("%s: io_uring takes it for a buffer", what);
		}
		if (!ret) {
			io_uring_prep_read_fixed(io_uring_get_sqe(&ring), fd, p,
						 8, 0, 0);
			io_uring_submit_and_wait(&ring, 1);
			if (!io_uring_peek_cqe(&ring, &cqe))
				io_uring_cqe_seen(&ring, cqe);
		}
		io_uring_prep_read(io_uring_get_sqe(&ring), fd, p, 8, 0);
		io_uring_submit_and_wait(&ring, 1);
		if (!io_uring_peek_cqe(&ring, &cqe)) {
			EXPECT_GT(1, cqe->res);
			io_uring_cqe_seen(&ring, cqe);
		}
		io_uring_queue_exit(&ring);
	} else {
		TH_LOG("no io_uring here");
	}
	close(fd);
	EXPECT_TRUE(same(p, copy));

	/* the file behind it, by the back door */
	{
		char path[128];

		snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
			 (unsigned long)p, (unsigned long)p + len);
		fd = open(path, O_RDWR);
		if (fd >= 0) {
			q = mmap(NULL, MAP_PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED, fd, 0);
			EXPECT_EQ(MAP_FAILED, q) {
				TH_LOG("%s: mapped by map_files", what);
			}
			close(fd);
		}
	}
	EXPECT_EQ(SIGSEGV, map_touch(p, true));
	EXPECT_TRUE(same(p, copy)) {
		TH_LOG("%s was changed", what);
	}
}

TEST_F_TIMEOUT(view, read_only_for_all, 180)
{
	struct mapping m;
	int e, k;

	for (e = 0; e < 2; e++) {
		static uint8_t quiet[MAP_PAGE];

		ASSERT_EQ(0, mapping_open(&m, self->fd[e]));
		/*
		 * What these tests look at does not change by itself: the data
		 * page that traffic is far from, and peer and state pages of a
		 * connection without any.
		 */
		for (k = 0; k < 3; k++) {
			int c, s;
			struct mapping n;
			uint8_t *p;

			ASSERT_TRUE(map_pair("abstract:l5_map_view2", &c, &s));
			ASSERT_EQ(0, mapping_open(&n, e ? s : c));
			p = k == 0 ? (uint8_t *)n.rx : k == 1 ?
			    (uint8_t *)n.peer : (uint8_t *)n.state;
			one_view(_metadata, k == 0 ? "rx" : k == 1 ? "peer" :
				 "state", p, k ? MAP_PAGE : 2 * n.rx_size,
				 self->fd[e], self->fd[!e]);
			mapping_close(&n);
			close(c);
			close(s);
		}
		EXPECT_TRUE(is_zero(quiet, sizeof(quiet)));
		mapping_close(&m);
	}
	EXPECT_EQ(0, l5_stat("violations"));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

/* Pages of the ring in a pipe outlive everything, as they were. */
TEST_F_TIMEOUT(view, pinned, 120)
{
	uint8_t buf[MAP_PAGE];
	struct mapping m, o;
	struct iovec iov;
	int pp[2], ret;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	ASSERT_EQ(0, pipe(pp));
	l5_fill(o.tx + MAP_PAGE, MAP_PAGE, 3);
	iov.iov_base = (void *)(m.rx + MAP_PAGE);
	iov.iov_len = MAP_PAGE;
	ret = vmsplice(pp[1], &iov, 1, SPLICE_F_GIFT);
	TH_LOG("vmsplice of the ring: %d", ret);
	mapping_close(&m);
	mapping_close(&o);
	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	/* others get memory and use it */
	ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 300000, 99));
	if (ret > 0) {
		ASSERT_EQ(ret, read(pp[0], buf, sizeof(buf)));
		EXPECT_EQ(-1, l5_check(buf, ret, 3));
	}
	close(pp[0]);
	close(pp[1]);
}

TEST_F_TIMEOUT(view, debuggers_look, 120)
{
	struct mapping m;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	EXPECT_EQ(0, sh("cd /proc/%d; cat maps smaps smaps_rollup >/dev/null",
			getpid()));
	sh("cd /proc/%d; cat numa_maps pagemap 2>&1 | head -c 1000000 >/dev/null",
	   getpid());
	mlock(m.tx, 2 * m.tx_size);
	munlock(m.tx, 2 * m.tx_size);
	mlockall(MCL_CURRENT);
	munlockall();
	msync(m.tx, 2 * m.tx_size, MS_SYNC);
	msync((void *)m.rx, 2 * m.rx_size, MS_SYNC | MS_INVALIDATE);
	EXPECT_EQ(0, map_touch(m.rx, false));
	mapping_close(&m);
}

static void size_pair(struct __test_metadata *_metadata, const char *at,
		      const int buf[4])
{
	struct addr to = addr_parse(at);
	int l = end_socket(END_L5, to.sa.sa_family), c, s, e;
	struct mapping m[2];
	uint8_t *b;

	ASSERT_LE(0, l);
	c = end_socket(END_L5, to.sa.sa_family);
	if (buf[2])
		setsockopt(l, SOL_SOCKET, SO_SNDBUF, &buf[2], sizeof(int));
	if (buf[3])
		setsockopt(l, SOL_SOCKET, SO_RCVBUF, &buf[3], sizeof(int));
	ASSERT_EQ(0, bind(l, &to.sa, to.len));
	ASSERT_EQ(0, listen(l, 1));
	to.len = sizeof(to.ss);
	ASSERT_EQ(0, getsockname(l, &to.sa, &to.len));
	if (buf[0])
		setsockopt(c, SOL_SOCKET, SO_SNDBUF, &buf[0], sizeof(int));
	if (buf[1])
		setsockopt(c, SOL_SOCKET, SO_RCVBUF, &buf[1], sizeof(int));
	ASSERT_EQ(0, connect(c, &to.sa, to.len));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	close(l);
	ASSERT_EQ(0, mapping_open(&m[0], c));
	ASSERT_EQ(0, mapping_open(&m[1], s));
	for (e = 0; e < 2; e++) {
		uint32_t size = m[e].tx_size, want;
		int a = buf[e ? 2 : 0], d = buf[e ? 1 : 3];

		EXPECT_EQ(size, m[!e].rx_size);
		EXPECT_EQ(0, size & (size - 1));
		EXPECT_LE(L5_RING_MIN, size);
		want = a > d ? a : d;
		if (want > 4096 << 10)
			want = 4096 << 10;
		if (want)
			EXPECT_LE(want, size);
		EXPECT_EQ(size, m[e].state->tx_size);
		EXPECT_EQ(size, m[!e].state->rx_size);
		/* all of it is there, and the ring holds so much */
		b = calloc(1, size);
		l5_fill(b, size, e);
		for (want = 0; want < size;) {
			ssize_t n = mapping_put(&m[e], b + want, size - want);

			ASSERT_LE(0, n);
			if (!n)
				break;
			want += n;
		}
		/* no small rest is used; a piece is at most 64 KiB */
		EXPECT_LE(size - size / 8 - 16 * (size >> 16), want);
		EXPECT_TRUE(end_get(e ? c : s, want, e));
		free(b);
	}
	mapping_close(&m[0]);
	mapping_close(&m[1]);
	close(c);
	close(s);
}

TEST_F_TIMEOUT(view, sizes, 180)
{
	static const int buf[][4] = {
		/* SO_SNDBUF, SO_RCVBUF of the client, of the listener */
		{ 0, 0, 0, 0 },
		{ 5000, 0, 0, 0 },
		{ 0, 5000, 0, 0 },
		{ 0, 0, 5000, 0 },
		{ 0, 0, 0, 5000 },
		{ 20000, 40000, 0, 0 },
		{ 20000, 40000, 100000, 0 },
		{ 100000, 100000, 100000, 100000 },
	};
	static const long kb[] = { 4, 8, 64, 1024 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kb); i++) {
		ASSERT_LE(0, l5_sysctl("ring_kb", kb[i]));
		size_pair(_metadata, variant->at[0] == '1' ? variant->at :
			  "abstract:l5_map_sizes", buf[0]);
	}
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		size_pair(_metadata, variant->at[0] == '1' ? variant->at :
			  "abstract:l5_map_sizes", buf[i]);
}

/* Set late, the options change nothing about what is mapped. */
TEST_F_TIMEOUT(view, sizes_stay, 120)
{
	struct l5_map_info before, after;
	int big = 1 << 20, small = 3000;
	struct mapping m;
	uint8_t buf[60000];

	ASSERT_EQ(0, mapping_info(self->fd[0], &before));
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
	setsockopt(self->fd[1], SOL_SOCKET, SO_RCVBUF, &big, sizeof(big));
	ASSERT_EQ(0, mapping_info(self->fd[0], &after));
	EXPECT_EQ(before.tx_size, after.tx_size);
	EXPECT_EQ(before.rx_size, after.rx_size);
	setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	ASSERT_EQ(0, mapping_info(self->fd[0], &after));
	EXPECT_EQ(before.tx_size, after.tx_size);
	l5_fill(buf, sizeof(buf), 0);
	ASSERT_EQ(60000, mapping_put(&m, buf, 60000));
	ASSERT_TRUE(end_get(self->fd[1], 60000, 0));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
	mapping_close(&m);
}

static bool nothing_left(void)
{
	return end_stat_reaches("pairs", 0) &&
	       end_stat_reaches("rings_kb", 0) &&
	       end_stat_reaches("reserved_kb", 0);
}

/* Unmapped first, closed first, only one end, not at all but by exit. */
TEST_F_TIMEOUT(view, given_back, 180)
{
	int i, c, s, status;
	struct mapping m[2];
	pid_t pid;

	close(self->fd[0]);
	close(self->fd[1]);
	ASSERT_TRUE(nothing_left());
	for (i = 0; i < 24; i++) {
		int ends = i % 3 + 1;	/* bits: which ends are mapped */

		ASSERT_TRUE(map_pair(variant->at, &c, &s));
		if (i & 1)
			ASSERT_TRUE(end_exchange(c, s, 100000, 0));
		if (i / 3 % 4 == 3) {
			/* by a process that just ends */
			pid = fork();
			ASSERT_LE(0, pid);
			if (!pid) {
				if (ends & 1 && mapping_open(&m[0], c))
					_exit(1);
				if (ends & 2 && mapping_open(&m[1], s))
					_exit(1);
				_exit(0);
			}
			status = map_reap(pid);
			EXPECT_EQ(0, status);
			close(c);
			close(s);
			EXPECT_TRUE(nothing_left());
			continue;
		}
		if (ends & 1)
			ASSERT_EQ(0, mapping_open(&m[0], c));
		if (ends & 2)
			ASSERT_EQ(0, mapping_open(&m[1], s));
		EXPECT_LE(2 * 64, l5_stat("rings_kb"));
		EXPECT_LE(2 * 64, l5_stat("reserved_kb"));
		switch (i / 3 % 4) {
		case 0:
			if (ends & 1)
				mapping_close(&m[0]);
			if (ends & 2)
				mapping_close(&m[1]);
			close(c);
			close(s);
			break;
		case 1:
			close(c);
			close(s);
			if (ends & 1) {
				EXPECT_EQ(0, map_touch(m[0].rx, false));
				EXPECT_EQ(0, map_touch(m[0].tx, true));
				mapping_close(&m[0]);
			}
			if (ends & 2) {
				EXPECT_EQ(0, map_touch(m[1].rx, false));
				mapping_close(&m[1]);
			}
			break;
		default:
			close(c);
			if (ends & 2)
				mapping_close(&m[1]);
			if (ends & 1)
				mapping_close(&m[0]);
			close(s);
		}
		EXPECT_TRUE(nothing_left());
	}
	self->fd[0] = self->fd[1] = -1;
}

/* No memory to map: an errno, and the socket does what it did. */
TEST_F_TIMEOUT(view, too_small_a_limit, 120)
{
	struct mapping m;
	long before;
	int k;

	for (k = 0; k < 2; k++) {
		int fd = self->fd[k];
		long used = l5_stat("reserved_kb");

		before = l5_sysctl("mem_max_kb", used + 16);
		ASSERT_LT(0, before);
		EXPECT_EQ(-ENOMEM, mapping_open(&m, fd));
		EXPECT_EQ(ENOMEM, try_map(fd, MAP_PAGE, PROT_READ |
					  PROT_WRITE, MAP_SHARED,
					  L5_MMAP_OWN));
		/* nothing is kept of what was tried */
		EXPECT_GE(used + 16, l5_stat("reserved_kb"));
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 200000, 0));
		l5_sysctl("mem_max_kb", before);
		ASSERT_EQ(0, mapping_open(&m, fd));
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 200000, 0));
		/* lowered below what is mapped */
		l5_sysctl("mem_max_kb", 8);
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 200000, 0));
		l5_sysctl("mem_max_kb", before);
		mapping_close(&m);
		close(self->fd[0]);
		close(self->fd[1]);
		ASSERT_TRUE(nothing_left());
		ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	}
}

/* Who keeps the mapping and closes the rest keeps paying. */
TEST_F_TIMEOUT(view, hoarders, 120)
{
	enum { TRIES = 40, LIMIT_KB = 1024 };
	struct mapping m[TRIES];
	int i, c, s, kept = 0;

	close(self->fd[0]);
	close(self->fd[1]);
	ASSERT_TRUE(nothing_left());
	ASSERT_LT(0, l5_sysctl("mem_max_kb", LIMIT_KB));
	for (i = 0; i < TRIES; i++) {
		struct addr to = addr_parse(variant->at);
		int l = end_listen(END_L5, &to);

		ASSERT_LE(0, l);
		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		close(l);
		if (l5_transport(c) == L5_TRANSPORT_SHM &&
		    !mapping_open(&m[kept], i & 1 ? c : s))
			kept++;
		ASSERT_TRUE(end_exchange(c, s, 1000, 0));
		close(c);
		close(s);
	}
	TH_LOG("%d mappings of 128 KiB within %d KiB", kept, LIMIT_KB);
	EXPECT_LE(kept, LIMIT_KB / 128);
	EXPECT_LT(0, kept);
	while (kept)
		mapping_close(&m[--kept]);
	EXPECT_TRUE(nothing_left());
	self->fd[0] = self->fd[1] = -1;
}

/* Each is charged for the ring that it writes, whoever of the two maps. */
TEST_F_TIMEOUT(view, memory_cgroup, 180)
{
	const char *dir = "/sys/fs/cgroup/l5_map";
	struct addr to = addr_parse(variant->at);
	int l, s, i, c, status, up[2], down[2];
	long long before, after = -1;
	struct mapping m;
	pid_t pid;
	char b;

	close(self->fd[0]);
	close(self->fd[1]);
	self->fd[0] = self->fd[1] = -1;
	sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p %s",
	   dir);
	if (l5_number("/sys/fs/cgroup/l5_map/memory.current") < 0)
		SKIP(return, "no memory cgroups");
	ASSERT_LE(0, l5_sysctl("ring_kb", 2048));
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (sh("echo %d >%s/cgroup.procs", getpid(), dir))
			_exit(1);
		c = end_connect(END_L5, &to);
		if (c < 0)
			_exit(2);
		if (write(up[1], "", 1) != 1 || read(down[0], &b, 1) != 1)
			_exit(3);
		_exit(0);
	}
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(1, read(up[0], &b, 1));
	before = l5_number("/sys/fs/cgroup/l5_map/memory.current");
	/* we map, from outside: the child is not charged for what we want */
	ASSERT_EQ(0, mapping_open(&m, s));
	after = l5_number("/sys/fs/cgroup/l5_map/memory.current");
	TH_LOG("charged: %lld KiB, mapped %lld KiB", before >> 10, after >> 10);
	EXPECT_GT(before + (1 << 20), after);
	ASSERT_EQ(1, write(down[1], "", 1));
	status = map_reap(pid);
	EXPECT_EQ(0, status);
	close(s);
	close(l);
	mapping_close(&m);
	EXPECT_TRUE(nothing_left());
	for (i = 0; i < 500; i++) {
		after = l5_number("/sys/fs/cgroup/l5_map/memory.current");
		if (after < 1 << 20)
			break;
		usleep(20000);
	}
	TH_LOG("charged afterwards: %lld KiB", after >> 10);
	EXPECT_GT(1 << 20, after);
	EXPECT_EQ(0, sh("rmdir %s", dir));

	/* in one that is too small: no map, but bytes flow */
	sh("mkdir -p %s && echo 0 >%s/memory.swap.max", dir, dir);
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int err;

		if (sh("echo %d >%s/cgroup.procs", getpid(), dir))
			_exit(1);
		c = end_connect(END_L5, &to);
		if (c < 0)
			_exit(2);
		s = accept(l, NULL, NULL);
		if (sh("echo 4M >%s/memory.max", dir))
			_exit(3);
		err = mapping_open(&m, c);
		if (err != -ENOMEM)
			_exit(err ? 4 : 5);
		_exit(end_exchange(c, s, 20000, 0) ? 0 : 6);
	}
	close(l);
	status = map_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_TRUE(nothing_left());
	sh("rmdir %s", dir);
}

/* One allocation after the other fails, on a kernel that can do that. */
TEST_F_TIMEOUT(view, no_memory, 300)
{
	int n, c, s, failed = 0, err;
	struct mapping m;

	if (!l5_fail_nth(0))
		SKIP(return, "no fault injection in this kernel");
	sh("echo N >/sys/kernel/debug/failslab/ignore-gfp-wait; "
	   "echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait; "
	   "echo 0 >/sys/kernel/debug/fail_page_alloc/min-order; true");
	for (n = 1; n < 70; n++) {
		ASSERT_TRUE(map_pair(variant->at[0] == '1' ? variant->at :
				     "abstract:l5_map_nth", &c, &s));
		if (n & 1)
			ASSERT_TRUE(end_exchange(c, s, 20000, 0));
		l5_fail_nth(n);
		err = mapping_open(&m, n & 2 ? c : s);
		l5_fail_nth(0);
		if (err) {
			failed++;
			EXPECT_TRUE(err == -ENOMEM || err == -EAGAIN ||
				    err == -EFAULT || err == -ENFILE) {
				TH_LOG("allocation %d: %s", n, strerror(-err));
			}
			EXPECT_TRUE(end_exchange(c, s, 20000, 0));
			ASSERT_EQ(0, mapping_open(&m, n & 2 ? c : s));
		}
		EXPECT_TRUE(end_exchange(c, s, 20000, 0));
		mapping_close(&m);
		close(c);
		close(s);
	}
	TH_LOG("%d of %d failed", failed, n - 1);
	EXPECT_LT(0, failed);
	close(self->fd[0]);
	close(self->fd[1]);
	self->fd[0] = self->fd[1] = -1;
	EXPECT_TRUE(nothing_left());
}

/* While anything is mapped the module stays, closed or not. */
TEST_F_TIMEOUT(view, module_stays, 120)
{
	struct mapping m[2];
	int e;

	ASSERT_EQ(0, mapping_open(&m[0], self->fd[0]));
	ASSERT_EQ(0, mapping_open(&m[1], self->fd[1]));
	for (e = 0; e < 2; e++) {
		close(self->fd[e]);
		self->fd[e] = -1;
	}
	/* the sockets themselves end a little later */
	usleep(300000);
	EXPECT_LT(0, l5_references());
	EXPECT_EQ(-1, syscall(SYS_delete_module, "af_l5", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	EXPECT_EQ(0, map_touch(m[0].tx, true));
	EXPECT_EQ(0, map_touch(m[1].rx, false));
	EXPECT_EQ(0, madvise(m[0].tx, 2 * m[0].tx_size, MADV_DONTNEED));
	EXPECT_EQ(0, map_touch(m[0].tx, true));
	mapping_close(&m[0]);
	EXPECT_LT(0, l5_references());
	EXPECT_EQ(0, map_touch(m[1].rx, false));
	mapping_close(&m[1]);
	EXPECT_TRUE(UNTIL(l5_references() == 0));
}

/* First mappings of both ends by several at once, with traffic. */
static void *maps(void *arg)
{
	int fd = *(int *)arg;
	struct mapping m;
	long i, bad = 0;

	for (i = 0; i < 60 / l5_slow(); i++) {
		if (mapping_open(&m, fd)) {
			bad++;
			continue;
		}
		bad += map_touch((const void *)m.peer, false) != 0;
		mapping_close(&m);
	}
	return (void *)bad;
}

TEST_F_TIMEOUT(view, race_to_map, 180)
{
	int round, i;

	for (round = 0; round < 4; round++) {
		pthread_t t[4];
		void *bad;

		for (i = 0; i < 4; i++)
			ASSERT_EQ(0, pthread_create(&t[i], NULL, maps,
						    &self->fd[i & 1]));
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
		for (i = 0; i < 4; i++) {
			pthread_join(t[i], &bad);
			EXPECT_EQ(NULL, bad);
		}
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
}

TEST_HARNESS_MAIN
