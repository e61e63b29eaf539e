// SPDX-License-Identifier: GPL-2.0
/*
 * What may be mapped from a socket, by whom and how. A SIGBUS anywhere ends the
 * program, so there is none.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"
#include "view.h"

#define ALL_REGIONS	5

static const uint64_t offsets[ALL_REGIONS] = {
	L5_MMAP_OWN, L5_MMAP_PEER, L5_MMAP_STATE, L5_MMAP_TX, L5_MMAP_RX,
};

MAP_PAIR_FIXTURE(map_view, 64)

static size_t region_len(const struct l5_map_info *info, int i)
{
	return i < 3 ? MAP_PAGE : 2UL * (i == 3 ? info->tx_size :
					 info->rx_size);
}

static bool region_rw(int i)
{
	return i == 0 || i == 3;
}

TEST_F_TIMEOUT(map_view, regions_alone, 120)
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
		/* fresh memory has no other process's bytes in it */
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

TEST_F_TIMEOUT(map_view, both_ends_whole, 120)
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

TEST_F_TIMEOUT(map_view, sockets_without_rings, 120)
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
TEST_F_TIMEOUT(map_view, before_accept, 120)
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

/* Is that one area or several, side by side, the last once or twice? */
static bool whole_areas(int fd, uint64_t at, size_t len)
{
	struct l5_area area[MAP_AREAS];
	struct l5_map_info info;
	uint64_t end = (at + len + MAP_PAGE - 1) & -(uint64_t)MAP_PAGE;
	unsigned int i;

	if (mapping_areas(fd, &info, area))
		return false;
	for (i = 0; i < info.nareas; i++) {
		if (area[i].offset != at)
			continue;
		at += area[i].length;
		if (at == end)
			return true;
		if (area[i].access & L5_AREA_TWICE)
			at += area[i].length;
		if (at == end)
			return true;
		/* from the beginning: they come in any order */
		i = -1u;
	}
	return false;
}

TEST_F_TIMEOUT(map_view, arguments, 120)
{
	static const uint64_t bad[] = {
		MAP_PAGE, L5_MMAP_OWN - MAP_PAGE, L5_MMAP_PEER - MAP_PAGE,
		0, L5_MMAP_RX + (128 << 10), L5_MMAP_TX + MAP_PAGE,
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
				    whole_areas(self->fd[e], offsets[r],
						lens[i]))
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

/* What an end writes is one mapping, and what it reads is another. */
TEST_F_TIMEOUT(map_view, two_in_all, 120)
{
	struct l5_map_info info;
	size_t rw, ro;
	uint8_t *p, *q;
	struct mapping m;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_info(self->fd[1], &info));
	rw = MAP_PAGE + 2UL * info.tx_size;
	ro = 2 * MAP_PAGE + 2UL * info.rx_size;
	p = mmap(NULL, rw, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd[1],
		 L5_MMAP_OWN);
	ASSERT_NE(MAP_FAILED, p);
	q = mmap(NULL, ro, PROT_READ, MAP_SHARED, self->fd[1], L5_MMAP_PEER);
	ASSERT_NE(MAP_FAILED, q);
	/* both in one could be written, or read alone */
	EXPECT_EQ(EINVAL, try_map(self->fd[1], rw + ro, PROT_READ, MAP_SHARED,
				  L5_MMAP_OWN));
	EXPECT_EQ(EACCES, try_map(self->fd[1], ro, PROT_READ | PROT_WRITE,
				  MAP_SHARED, L5_MMAP_PEER));
	EXPECT_EQ(SIGSEGV, map_touch(q, true));
	EXPECT_EQ(SIGSEGV, map_touch(q + ro - 1, true));
	/* the peer sees what is written, twice */
	memset(p + MAP_PAGE, 'a', info.tx_size);
	p[MAP_PAGE + info.tx_size] = 'b';
	EXPECT_EQ('b', m.rx[0]);
	EXPECT_EQ('a', m.rx[m.rx_size - 1]);
	EXPECT_EQ(0, memcmp(p + MAP_PAGE, m.rx, 2UL * m.rx_size));
	m.tx[5] = 'c';
	EXPECT_EQ('c', q[2 * MAP_PAGE + 5]);
	EXPECT_EQ('c', q[2 * MAP_PAGE + info.rx_size + 5]);
	((struct l5_ctrl *)p)->rx_bytes = 77;
	EXPECT_EQ(77, m.peer->rx_bytes);
	m.own->rx_bytes = 78;
	EXPECT_EQ(78, ((struct l5_ctrl *)q)->rx_bytes);
	EXPECT_EQ(info.tx_size,
		  ((struct l5_map_state *)(q + MAP_PAGE))->tx_size);
	EXPECT_EQ(0, munmap(p, rw));
	EXPECT_EQ(0, munmap(q, ro));
	mapping_close(&m);
}

/* The same region again: refused, or one more view of the same. */
TEST_F_TIMEOUT(map_view, twice, 120)
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
TEST_F_TIMEOUT(map_view, pieces, 120)
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
TEST_F_TIMEOUT(map_view, moved, 120)
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
TEST_F_TIMEOUT(map_view, advice, 120)
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

			/* advice that writes, or throws pages away for all */
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

/* The newest kernels refuse it. */
static bool dofork(const void *p, size_t len)
{
	if (!madvise((void *)p, len, MADV_DOFORK))
		return true;
	if (errno != EINVAL)
		abort();
	return false;
}

/*
 * A child sees nothing of its parent's mapping, nor if it was asked for that it
 * gets it. The end of the child says nothing about locks that its parent holds.
 */
TEST_F_TIMEOUT(map_view, fork_has_none, 120)
{
	struct mapping m, o;
	uint8_t buf[100];
	int k, status;
	pid_t pid;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	for (k = 0; k < 2; k++) {
		int none = SIGSEGV;

		/* there is something in the page tables */
		EXPECT_EQ(0, map_touch(m.own, true));
		EXPECT_EQ(0, map_touch(m.tx, true));
		EXPECT_EQ(0, map_touch(m.rx, false));
		if (k && dofork(m.own, MAP_PAGE)) {
			ASSERT_TRUE(dofork(m.tx, 2 * m.tx_size));
			ASSERT_TRUE(dofork(m.rx, 2 * m.rx_size));
			none = SIGBUS;
		}
		ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_TX));
		ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_RX));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct l5_map_info info;

			if (mapping_info(m.fd, &info) || info.id)
				_exit(1);
			if (map_touch(m.own, false) != none ||
			    map_touch(m.tx, false) != none ||
			    map_touch(m.rx, false) != none)
				_exit(2);
			if (map_touch(m.rx, true) != none)
				_exit(3);
			if (map_touch(m.peer, true) != SIGSEGV)
				_exit(4);
			_exit(0);
		}
		status = l5_reap(pid);
		EXPECT_EQ(0, status);
		EXPECT_EQ(m.id, l5_load(&m.own->tx_lock));
		EXPECT_EQ(m.id, l5_load(&m.own->rx_lock));
		mapping_unlock(&m, L5_LOCK_TX);
		mapping_unlock(&m, L5_LOCK_RX);
		l5_fill(buf, 100, k);
		ASSERT_EQ(100, mapping_put(&m, buf, 100));
		ASSERT_TRUE(end_get(self->fd[1], 100, k));
	}
	/*
	 * the same by vfork: there both share memory, and the child ends by
	 * exec
	 */
	ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_TX));
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	ASSERT_LE(0, pid);
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_EQ(m.id, l5_load(&m.own->tx_lock));
	mapping_unlock(&m, L5_LOCK_TX);
	mapping_close(&m);
	mapping_close(&o);
}

/* A store through one half is a load through the other, also at the border. */
TEST_F_TIMEOUT(map_view, two_halves, 120)
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
		uint32_t size = m[e].tx_size, most, want;
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
		/* all pages are there, and the ring holds so much */
		b = calloc(1, size);
		l5_fill(b, size, e);
		for (want = 0; want < size;) {
			ssize_t n = mapping_put(&m[e], b + want, size - want);

			ASSERT_LE(0, n);
			if (!n)
				break;
			want += n;
		}
		/* SO_SNDBUF allows so much; a piece is at most 64 KiB */
		most = m[e].state->tx_most;
		EXPECT_LE(most, size);
		if (!a)
			EXPECT_EQ(most, size);
		/* no small rest is used */
		EXPECT_LE(most - size / 8 - 16 * (size >> 16), want);
		EXPECT_TRUE(end_get(e ? c : s, want, e));
		free(b);
	}
	mapping_close(&m[0]);
	mapping_close(&m[1]);
	close(c);
	close(s);
}

TEST_F_TIMEOUT(map_view, sizes, 180)
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
TEST_F_TIMEOUT(map_view, sizes_stay, 120)
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
	EXPECT_GT(60000, m.state->tx_most);
	EXPECT_LE(m.state->tx_extent, m.state->tx_most);
	setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
	EXPECT_EQ(before.tx_size, m.state->tx_most);
	l5_fill(buf, sizeof(buf), 0);
	ASSERT_EQ(60000, mapping_put(&m, buf, 60000));
	ASSERT_TRUE(end_get(self->fd[1], 60000, 0));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
	mapping_close(&m);
}

/* First mappings of both ends by several processes at once, with traffic. */
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

TEST_F_TIMEOUT(map_view, race_to_map, 180)
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
