// SPDX-License-Identifier: GPL-2.0
/*
 * The ring protocol of uapi/l5_ring.h outside the kernel: every place a record
 * can have, and the exact limits of what an end believes.
 */
#include <limits.h>
#include <stddef.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "ring_view.h"

RING_FIXTURE(ring_record)

/* Other programs are compiled against this: it does not change by accident. */
TEST_F(ring_record, layout)
{
	EXPECT_EQ(0, offsetof(struct l5_ctrl, tx_tail));
	EXPECT_EQ(128, offsetof(struct l5_ctrl, rx_head));
	EXPECT_EQ(8, offsetof(struct l5_ctrl, tx_bytes));
	EXPECT_EQ(136, offsetof(struct l5_ctrl, rx_pos));
	EXPECT_EQ(144, offsetof(struct l5_ctrl, rx_bytes));
	EXPECT_EQ(256, offsetof(struct l5_ctrl, rx_wait));
	EXPECT_EQ(260, offsetof(struct l5_ctrl, tx_wait));
	EXPECT_EQ(384, offsetof(struct l5_ctrl, tx_lock));
	EXPECT_EQ(388, offsetof(struct l5_ctrl, rx_lock));
	EXPECT_EQ(512, sizeof(struct l5_ctrl));
	EXPECT_EQ(4096, L5_RING_MIN);
	EXPECT_EQ(16 << 20, L5_RING_MAX);
	EXPECT_EQ(16, l5_rec_size(1));
	EXPECT_EQ(16, l5_rec_size(8));
	EXPECT_EQ(24, l5_rec_size(9));
	EXPECT_EQ(24, l5_rec_size(16));
	EXPECT_EQ(4080, l5_rec_max(4096));
	EXPECT_EQ(4088, l5_rec_size(l5_rec_max(4096)));
}

/*
 * One record at @pos of a ring full of old bytes: invisible before, whole and
 * right after, followed by nothing, and its room comes back.
 */
static int one_record(struct ring *r, uint64_t pos, uint32_t len,
		      uint32_t piece, uint8_t *scratch)
{
	uint32_t size = r->prod.size, freed = 0, at;
	struct l5_prod p = { .tail = pos, .head = pos, .size = size };
	struct l5_cons c = { .head = pos, .size = size };

	__atomic_store_n(ring_slot(&r->prod, pos), 0, __ATOMIC_RELAXED);
	r->cons.own->rx_head = pos;
	if (l5_cons_peek(&c, ring_slot(&r->cons, c.head)) != 0)
		return __LINE__;
	if (l5_prod_look(&p, r->prod.peer) || l5_prod_room(&p) != size - 16)
		return __LINE__;
	ring_put(&r->prod, &p, pos, len, scratch);
	if (r->cons.peer->tx_tail != p.tail || p.tail - pos != l5_rec_size(len))
		return __LINE__;
	if (l5_prod_used(&p) != l5_rec_size(len))
		return __LINE__;
	if (l5_cons_peek(&c, ring_slot(&r->cons, c.head)) != 1 ||
	    c.len != len || c.off)
		return __LINE__;
	for (at = 0; at < len; at += piece) {
		uint32_t n = len - at < piece ? len - at : piece;

		ring_copy_out(&r->cons, c.head + L5_HDR + c.off, scratch, n);
		for (uint32_t i = 0; i < n; i++)
			if (scratch[i] != l5_byte(pos + at + i))
				return __LINE__;
		if (freed)
			return __LINE__;
		freed = l5_cons_take(&c, r->cons.own, n);
		if (at + n < len && (r->cons.own->rx_pos != pos + at + n ||
				     r->cons.own->rx_head != pos))
			return __LINE__;
	}
	if (freed != l5_rec_size(len) || c.head != p.tail || c.len || c.off ||
	    r->cons.own->rx_pos != c.head)
		return __LINE__;
	if (l5_cons_peek(&c, ring_slot(&r->cons, c.head)) != 0)
		return __LINE__;
	if (l5_prod_look(&p, r->prod.peer) || l5_prod_used(&p))
		return __LINE__;
	return 0;
}

/* Positions are 64 bits wide: a few starts where a narrower type would show. */
static const uint64_t starts[] = { 0, UINT32_MAX - 4095, INT64_MAX - 4095,
				   UINT64_MAX - 4095 };

TEST_F_TIMEOUT(ring_record, every_offset, 600)
{
	static const uint32_t sizes[] = { 4096, 8192, 65536, L5_RING_MAX };
	unsigned int s, l, b;
	uint64_t seed = 42;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		uint32_t size = sizes[s], max = l5_rec_max(size), off, step;
		const uint32_t lens[] = {
			1, 2, 7, 8, 9, 15, 16, 17, 55, 56, 57, 64, 4079, 4080,
			4081, max / 2 - 1, max - 9, max - 8, max - 7, max - 1,
			max
		};
		uint8_t *scratch = malloc(size);
		unsigned long done = 0;
		struct ring r;

		ASSERT_NE(NULL, scratch);
		ring_new(&r, size, self->mirror);
		/* Old bytes that look like headers, should one be read. */
		for (off = 0; off < size; off += 8)
			*(__u64 *)(r.prod.data + off) = RING_VALID(off | 1);
		for (off = 0; off < size; off += step) {
			/* all of a small ring; of a large one the seam */
			step = 8;
			if (size > 8192 / RING_SLOW + 4096 && off >= 64 &&
			    off < size - 128)
				step = size / 32 - 8;
			if (off < size - 64 && off + step > size - 64)
				step = (size - 64 - off) ?: 8;
			for (l = 0; l < ARRAY_SIZE(lens); l++) {
				uint32_t len = lens[l] < max ? lens[l] : max;
				uint32_t piece = len;
				int line;

				if (size > 65536 && len > 8192 && off % 40)
					continue;
				if (l5_rnd64(&seed) % 2)
					piece = 1 + l5_rnd64(&seed) % len;
				if (len / piece > 64)
					piece = len / 64;
				b = l5_rnd64(&seed) % ARRAY_SIZE(starts);
				line = one_record(&r, off +
						  (starts[b] & -(uint64_t)size),
						  len, piece, scratch);
				ASSERT_EQ(0, line) {
					TH_LOG("size %u off %u len %u piece %u",
					       size, off, len, piece);
				}
				done++;
			}
		}
		ASSERT_LT(100, done);
		ring_free(&r);
		free(scratch);
	}
}

/* What fits is said exactly, for every fill level. */
TEST_F(ring_record, room)
{
	const uint32_t size = 4096;
	uint8_t scratch[4096];
	struct ring r;
	uint32_t used;

	ring_new(&r, size, self->mirror);
	for (used = 0; used <= size; used += 8) {
		struct l5_prod p = { .tail = used, .size = size };
		uint32_t want = size - used < 16 ? 0 : size - used - 16;
		uint32_t room = l5_prod_room(&p);

		ASSERT_EQ(want, room);
		if (!room)
			continue;
		/* a record of just that length, and the zero word, fit ... */
		ring_put(&r.prod, &p, 0, room, scratch);
		ASSERT_GE(size, l5_prod_used(&p) + L5_HDR);
		ASSERT_EQ(0, l5_prod_room(&p));
		/* ... and nothing longer would */
		ASSERT_LT(size, used + l5_rec_size(room + 1) + L5_HDR);
	}
	ring_free(&r);
}

/* Of all heads a peer can claim, exactly the possible ones are believed. */
TEST_F(ring_record, look)
{
	static const uint32_t spans[] = { 0, 8, 16, 4080, 4088 };
	unsigned int b, s;
	struct ring r;

	ring_new(&r, 4096, self->mirror);
	for (b = 0; b < ARRAY_SIZE(starts); b++) {
		for (s = 0; s < ARRAY_SIZE(spans); s++) {
			uint64_t head = (starts[b] & ~7ull) + 8;
			uint64_t tail = head + spans[s];
			int64_t d;

			for (d = -64; d <= (int64_t)spans[s] + 64; d++) {
				struct l5_prod p = {
					.tail = tail,
					.head = head,
					.size = 4096,
				};
				bool ok = d >= 0 && d <= spans[s] && !(d & 7);

				r.cons.own->rx_head = head + d;
				ASSERT_EQ(ok ? 0 : -1,
					  l5_prod_look(&p, r.prod.peer)) {
					TH_LOG("span %u d %lld", spans[s],
					       (long long)d);
				}
				ASSERT_EQ(ok ? head + d : head, p.head);
				ASSERT_EQ(tail, p.tail);
			}
			for (d = 3; d < 64; d++) {
				struct l5_prod p = {
					.tail = tail,
					.head = head,
					.size = 4096,
				};

				r.cons.own->rx_head = head + (1ull << d);
				ASSERT_EQ((1ull << d) <= spans[s] ? 0 : -1,
					  l5_prod_look(&p, r.prod.peer));
			}
		}
	}
	ring_free(&r);
}

/* Of all header words, exactly the possible ones are records. */
TEST_F(ring_record, peek)
{
	static const uint32_t sizes[] = { 4096, 65536, L5_RING_MAX };
	static const uint32_t uppers[] = {
		0, 1, L5_REC_VALID, L5_REC_VALID | 1, L5_REC_VALID | 0x40000000,
		L5_REC_VALID - 1, UINT32_MAX
	};
	unsigned int s, u, l;

	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		uint32_t max = l5_rec_max(sizes[s]);
		const uint32_t lens[] = {
			0, 1, 7, 8, max - 1, max, max + 1, max + 8, sizes[s],
			INT_MAX, 1u + INT_MAX, UINT32_MAX - 7, UINT32_MAX
		};

		for (u = 0; u < ARRAY_SIZE(uppers); u++) {
			for (l = 0; l < ARRAY_SIZE(lens); l++) {
				__u64 hdr = (__u64)uppers[u] << 32 | lens[l];
				struct l5_cons c = { .size = sizes[s] };
				int want = -1;

				if (!hdr)
					want = 0;
				else if (uppers[u] == L5_REC_VALID &&
					 lens[l] <= max)
					want = 1;
				ASSERT_EQ(want, l5_cons_peek(&c, &hdr)) {
					TH_LOG("size %u header %llx", sizes[s],
					       (unsigned long long)hdr);
				}
				ASSERT_EQ(want == 1 ? lens[l] : 0, c.len);
				ASSERT_EQ(want == 1, c.have);
				ASSERT_EQ(0, c.off);
				ASSERT_EQ(0, c.head);
			}
		}
	}
}

/* Flags that neither side said to understand, and bits that are no flags; of
 * L5_REC_FILES a reader is told, and it is its matter what that means.
 */
TEST_F(ring_record, flags)
{
	static const uint32_t lens[] = { 0, 1, 100 };
	unsigned int bit, l;

	EXPECT_EQ(UINT32_MAX, L5_REC_LEN | 0xfe000000u);
	EXPECT_EQ(1u << 25, L5_REC_MORE);
	EXPECT_EQ(1u << 26, L5_REC_FILES);
	EXPECT_EQ(1u << 27, L5_REC_SWITCH);
	EXPECT_GE(L5_REC_LEN, l5_rec_max(L5_RING_MAX));
	for (l = 0; l < ARRAY_SIZE(lens); l++)
		for (bit = 25; bit < 63; bit++) {
			struct l5_cons c = { .size = L5_RING_MAX };
			__u64 hdr = RING_VALID(lens[l]) | 1ull << bit;
			bool files = bit == 26;

			EXPECT_EQ(files ? 1 : -1, l5_cons_peek(&c, &hdr)) {
				TH_LOG("bit %u, length %u", bit, lens[l]);
			}
			EXPECT_EQ(files, c.have);
			EXPECT_EQ(files, c.files);
			EXPECT_EQ(files ? lens[l] : 0, c.len);
		}
}

/* A record with that flag is as long as without it, whatever asks. */
TEST_F(ring_record, files)
{
	struct l5_ctrl own = { .tx_tail = 0 }, peer = { .tx_tail = 0 };
	struct l5_prod p = { .size = 4096 };
	struct l5_cons c = { .size = 4096 };
	__u64 slot = 0, next = 1;

	l5_prod_publish_with(&p, &own, &slot, &next, 100, L5_REC_FILES);
	EXPECT_EQ(RING_VALID(100) | L5_REC_FILES, slot);
	EXPECT_EQ(0, next);
	EXPECT_EQ(l5_rec_size(100), p.tail);
	EXPECT_EQ(p.tail, own.tx_tail);
	EXPECT_FALSE(l5_rec_valid(4096, slot));
	EXPECT_TRUE(l5_rec_valid(4096, l5_rec_bare(slot)));
	/* a writer that died before the tail moved */
	own.tx_tail = 0;
	p.tail = 0;
	ASSERT_EQ(0, l5_prod_mend(&p, &own, &peer, &slot));
	EXPECT_EQ(l5_rec_size(100), own.tx_tail);
	/* and a reader before its head did */
	own.rx_pos = l5_rec_size(100);
	ASSERT_EQ(0, l5_cons_load(&c, &own));
	l5_cons_mend(&c, &own, &slot);
	EXPECT_EQ(own.rx_pos, own.rx_head);
	/* the next record says for itself what rides with it */
	slot = RING_VALID(3) | L5_REC_FILES;
	ASSERT_EQ(1, l5_cons_peek(&c, &slot));
	EXPECT_EQ(1, c.files);
	l5_cons_take(&c, &own, 3);
	slot = RING_VALID(3);
	ASSERT_EQ(1, l5_cons_peek(&c, &slot));
	EXPECT_EQ(0, c.files);
}

/* A record without payload is one; a stream skips it, up to a point. */
TEST_F(ring_record, empty)
{
	struct l5_cons c = { .size = 65536 };
	struct l5_ctrl own = { .rx_head = 0 };
	__u64 hdr = RING_VALID(0);
	unsigned int i;

	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(1, c.have);
	EXPECT_EQ(0, c.len);
	/* the record stays until it is taken, whatever becomes of its header */
	hdr = 0;
	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(L5_HDR, l5_cons_take(&c, &own, 0));
	EXPECT_EQ(L5_HDR, own.rx_head);
	EXPECT_EQ(L5_HDR, own.rx_pos);
	ASSERT_EQ(0, l5_cons_peek(&c, &hdr));
	hdr = RING_VALID(0);
	for (i = 0; i < L5_EMPTY_MAX; i++)
		ASSERT_EQ(2, l5_cons_skip(&c, &own, &hdr));
	/* payload in between, taken here or by another reader */
	hdr = RING_VALID(3);
	ASSERT_EQ(1, l5_cons_skip(&c, &own, &hdr));
	EXPECT_EQ(3, c.len);
	ASSERT_EQ(16, l5_cons_take(&c, &own, 3));
	hdr = RING_VALID(0);
	for (i = 0; i < L5_EMPTY_MAX; i++)
		ASSERT_EQ(2, l5_cons_skip(&c, &own, &hdr));
	EXPECT_EQ(-1, l5_cons_skip(&c, &own, &hdr));
	/* a reader that claims to be within a record that has nothing */
	own.rx_pos = own.rx_head + 1;
	ASSERT_EQ(0, l5_cons_load(&c, &own));
	EXPECT_EQ(-1, l5_cons_peek(&c, &hdr));
	/* the record was taken, and its taker died before the head moved */
	own.rx_pos = own.rx_head + L5_HDR;
	ASSERT_EQ(0, l5_cons_load(&c, &own));
	l5_cons_mend(&c, &own, &hdr);
	EXPECT_EQ(own.rx_pos, own.rx_head);
}

/* A record is validated once; later scribbles over its header are not read. */
TEST_F(ring_record, take)
{
	struct l5_cons c = { .head = 4096 - 8, .size = 4096 }, next = c;
	struct l5_ctrl own = { .rx_head = 4096 - 8 };
	__u64 hdr = RING_VALID(100);

	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	hdr = RING_VALID(4000);
	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(100, c.len);
	EXPECT_EQ(0, l5_cons_take(&c, &own, 0));
	EXPECT_EQ(4088, own.rx_pos);
	EXPECT_EQ(0, l5_cons_take(&c, &own, 60));
	EXPECT_EQ(4088 + 60, own.rx_pos);
	EXPECT_EQ(4088, own.rx_head);
	hdr = 0;
	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(60, c.off);
	/* the next reader has to trust the header, and there is none */
	ASSERT_EQ(0, l5_cons_load(&next, &own));
	EXPECT_EQ(60, next.off);
	EXPECT_EQ(-1, l5_cons_peek(&next, &hdr));
	EXPECT_EQ(0, l5_cons_take(&c, &own, 39));
	EXPECT_EQ(l5_rec_size(100), l5_cons_take(&c, &own, 1));
	EXPECT_EQ(4088 + 112, own.rx_pos);
	EXPECT_EQ(4088 + 112, own.rx_head);
	EXPECT_EQ(4088 + 112, c.head);
	EXPECT_EQ(0, c.len);
	EXPECT_EQ(0, l5_cons_peek(&c, &hdr));
}

TEST_F(ring_record, wait_words)
{
	__u32 w = 0;

	EXPECT_FALSE(l5_wait_armed(&w));
	l5_wait_arm(&w);
	EXPECT_TRUE(l5_wait_armed(&w));
	l5_wait_arm(&w);
	EXPECT_TRUE(l5_wait_armed(&w));
	l5_wait_clear(&w);
	EXPECT_FALSE(l5_wait_armed(&w));
}

TEST_HARNESS_MAIN
