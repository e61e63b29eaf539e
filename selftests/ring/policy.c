// SPDX-License-Identifier: GPL-2.0
/*
 * The rules of uapi/l5_policy.h, which kernel and library share: at each limit,
 * one byte below and one above it.
 */
#include <stdint.h>
#include <string.h>

#include "kselftest_harness.h"
#include "l5_policy.h"

#define SIZE	65536u

FIXTURE(ring_policy)
{
	struct l5_prod p;
	struct l5_ctrl peer;
};

FIXTURE_VARIANT(ring_policy)
{
	uint64_t at;
};

FIXTURE_VARIANT_ADD(ring_policy, start)
{
	.at = 0,
};

/* positions do not wrap in practice, and do no harm if they do */
FIXTURE_VARIANT_ADD(ring_policy, wrap)
{
	.at = -(uint64_t)SIZE,
};

FIXTURE_SETUP(ring_policy)
{
	memset(self, 0, sizeof(*self));
	self->p = (struct l5_prod){ variant->at, variant->at, SIZE };
	self->peer.rx_head = variant->at;
}

FIXTURE_TEARDOWN(ring_policy)
{
}

/* So many bytes are unread, and the producer knows of @known of them. */
static void unread(struct _test_data_ring_policy *self, uint64_t at, uint32_t n,
		   uint32_t known)
{
	self->p.tail = at + known;
	self->p.head = at;
	self->peer.rx_head = at + known - n;
}

/* Exactly half a ring is worth telling of; a tail that lags is no room less. */
TEST_F(ring_policy, half)
{
	uint64_t at = variant->at;

	EXPECT_EQ(SIZE / 2, l5_room_low(SIZE));
	EXPECT_TRUE(l5_room_worth(at, at, SIZE));
	EXPECT_TRUE(l5_room_worth(at + SIZE / 2, at, SIZE));
	EXPECT_FALSE(l5_room_worth(at + SIZE / 2 + 1, at, SIZE));
	EXPECT_FALSE(l5_room_worth(at + SIZE, at, SIZE));
	EXPECT_TRUE(l5_room_worth(at, at + 8, SIZE));
	EXPECT_TRUE(l5_room_worth(at, at + SIZE, SIZE));
	/* a writer that uses less of its ring wants less */
	EXPECT_TRUE(l5_room_worth(at + 2048, at, 4096));
	EXPECT_FALSE(l5_room_worth(at + 2056, at, 4096));
	/* the default's half is enough, however long the ring is */
	EXPECT_EQ(L5_ROOM, l5_room_low(2 * L5_ROOM));
	EXPECT_TRUE(l5_room_worth(at + L5_RING_MAX - L5_ROOM, at, L5_RING_MAX));
	EXPECT_FALSE(l5_room_worth(at + L5_RING_MAX - L5_ROOM + 8, at,
				   L5_RING_MAX));
}

TEST_F(ring_policy, tell)
{
	EXPECT_FALSE(l5_room_tell(0, SIZE));
	EXPECT_FALSE(l5_room_tell(SIZE / 2 - 8, SIZE));
	EXPECT_TRUE(l5_room_tell(SIZE / 2, SIZE));
	EXPECT_TRUE(l5_room_tell(SIZE, SIZE));
	EXPECT_FALSE(l5_room_tell(L5_ROOM - 8, L5_RING_MAX));
	EXPECT_TRUE(l5_room_tell(L5_ROOM, L5_RING_MAX));
}

/* What fits goes at once; what does not waits for an eighth of the ring. */
TEST_F(ring_policy, claim)
{
	const uint32_t whole = SIZE - 2 * L5_HDR, low = SIZE / 8;

	EXPECT_EQ(1, l5_room_claim(&self->p, &self->peer, 1, SIZE));
	EXPECT_EQ(whole, l5_room_claim(&self->p, &self->peer, whole, SIZE));
	EXPECT_EQ(whole, l5_room_claim(&self->p, &self->peer, SIZE, SIZE));

	/* an eighth is free: so much of a long message, and all of a short */
	unread(self, variant->at, whole - low, whole - low);
	EXPECT_EQ(low, l5_room_claim(&self->p, &self->peer, SIZE, SIZE));
	EXPECT_EQ(8, l5_room_claim(&self->p, &self->peer, 8, SIZE));
	/* a word less is free */
	unread(self, variant->at, whole - low + 8, whole - low + 8);
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, SIZE, SIZE));
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, low, SIZE));
	EXPECT_EQ(low - 8, l5_room_claim(&self->p, &self->peer, low - 8, SIZE));
	/* a message of a word waits until there is room for it */
	unread(self, variant->at, whole - 8, whole - 8);
	EXPECT_EQ(8, l5_room_claim(&self->p, &self->peer, 8, SIZE));
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, 9, SIZE));
	unread(self, variant->at, SIZE, SIZE);
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, 1, SIZE));
}

/* The consumer's line is only read if the copy of it says that it matters. */
TEST_F(ring_policy, claim_looks)
{
	const uint32_t low = SIZE / 8;

	unread(self, variant->at, 0, SIZE / 2);
	EXPECT_EQ(64, l5_room_claim(&self->p, &self->peer, 64, SIZE));
	EXPECT_EQ(variant->at, self->p.head);
	EXPECT_EQ(SIZE / 2 + low,
		  l5_room_claim(&self->p, &self->peer, SIZE / 2 + low, SIZE));
	EXPECT_EQ(variant->at + SIZE / 2, self->p.head);
	/* and then it is checked */
	unread(self, variant->at, 0, SIZE / 2);
	self->peer.rx_head = self->p.tail + 8;
	EXPECT_EQ(64, l5_room_claim(&self->p, &self->peer, 64, SIZE));
	EXPECT_EQ(-1, l5_room_claim(&self->p, &self->peer, SIZE, SIZE));
	self->peer.rx_head = self->p.tail - 1;
	EXPECT_EQ(-1, l5_room_claim(&self->p, &self->peer, SIZE, SIZE));
	EXPECT_EQ(variant->at, self->p.head);
}

/* A writer with a small SO_SNDBUF leaves the rest of its ring alone. */
TEST_F(ring_policy, claim_extent)
{
	const uint32_t extent = 8192, whole = extent - 2 * L5_HDR;

	EXPECT_EQ(whole, l5_room_claim(&self->p, &self->peer, SIZE, extent));
	EXPECT_EQ(100, l5_room_claim(&self->p, &self->peer, 100, extent));
	unread(self, variant->at, whole - 1024, whole - 1024);
	EXPECT_EQ(1024, l5_room_claim(&self->p, &self->peer, SIZE, extent));
	unread(self, variant->at, whole - 1016, whole - 1016);
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, SIZE, extent));
	EXPECT_EQ(8, l5_room_claim(&self->p, &self->peer, 8, extent));
	/* it became smaller than what is unread already */
	unread(self, variant->at, SIZE / 2, SIZE / 2);
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, 1, extent));
	unread(self, variant->at, SIZE, SIZE);
	EXPECT_EQ(0, l5_room_claim(&self->p, &self->peer, 1, extent));
}

/* A claim can always be published: it leaves the zero after the record. */
TEST_F(ring_policy, claim_fits)
{
	uint32_t used, want, extent;
	int len;

	for (used = 0; used <= SIZE; used += 8 * 127) {
		for (want = 1; want <= SIZE; want = 2 * want + 5) {
			for (extent = 4096; extent <= SIZE; extent *= 2) {
				unread(self, variant->at, used, used);
				len = l5_room_claim(&self->p, &self->peer,
						    want, extent);
				ASSERT_LE(0, len);
				ASSERT_GE(want, (uint32_t)len);
				if (!len)
					continue;
				ASSERT_GE(l5_prod_room(&self->p),
					  (uint32_t)len);
				ASSERT_GE(extent, used + l5_rec_size(len) +
						  L5_HDR);
			}
		}
	}
}

TEST_F(ring_policy, wake)
{
	uint64_t at = variant->at;

	EXPECT_FALSE(l5_wants_data(&self->peer));
	self->peer.rx_wait = 1;
	EXPECT_TRUE(l5_wants_data(&self->peer));
	/* a sleeper for room is told of half the ring, and not of less */
	self->peer.tx_tail = at + SIZE;
	EXPECT_FALSE(l5_wants_room(&self->peer, at + SIZE, SIZE));
	self->peer.tx_wait = 1;
	EXPECT_FALSE(l5_wants_room(&self->peer, at, SIZE));
	EXPECT_FALSE(l5_wants_room(&self->peer, at + SIZE / 2 - 8, SIZE));
	EXPECT_TRUE(l5_wants_room(&self->peer, at + SIZE / 2, SIZE));
	EXPECT_TRUE(l5_wants_room(&self->peer, at + SIZE, SIZE));
	/* what it published before it died counts as read, not as unread */
	EXPECT_TRUE(l5_wants_room(&self->peer, at + SIZE + 8, SIZE));
}

TEST_F(ring_policy, chain)
{
	struct l5_cons c = { .head = variant->at, .off = 3, .have = 1,
			     .len = 5, .size = SIZE };
	uint64_t at = variant->at;
	uint32_t steps = 0;

	EXPECT_EQ(at + 64, l5_chain_from(at + 64, at, SIZE));
	EXPECT_EQ(at + SIZE, l5_chain_from(at + SIZE, at, SIZE));
	EXPECT_EQ(at, l5_chain_from(at + SIZE + 8, at, SIZE));
	EXPECT_EQ(at, l5_chain_from(at - 8, at, SIZE));
	EXPECT_TRUE(l5_chain_step(&c, at));
	EXPECT_EQ(at + 16, c.head);
	EXPECT_EQ(0, c.off);
	EXPECT_EQ(0, c.have);
	EXPECT_EQ(0, c.len);
	/* a chain that never ends is left after one turn */
	while (l5_chain_step(&c, at))
		steps++;
	EXPECT_EQ(at + SIZE, c.head);
	EXPECT_EQ(SIZE / 8 - 3, steps);
}

PLAIN_FIXTURE(ring_policy_alone)

TEST_F(ring_policy_alone, spin)
{
	const uint64_t most = L5_SPIN_MOST;
	uint64_t win = 0;
	int i;

	/* told is told; else it is what has paid, within what may be */
	EXPECT_EQ(0, l5_spin_ns(0, 5000, most));
	EXPECT_EQ(70000, l5_spin_ns(70, 5000, most));
	EXPECT_EQ(1000000000, l5_spin_ns(1000000, 5000, most));
	EXPECT_EQ(5000, l5_spin_ns(-1, 5000, most));
	EXPECT_EQ(most, l5_spin_ns(-1, most + 1, most));
	EXPECT_EQ(0, l5_spin_ns(-1, 5000, 0));

	/* half as much again, and never so little that it cannot pay */
	EXPECT_EQ(30000, l5_spin_learn(0, 20000, most, most));
	EXPECT_EQ(L5_SPIN_LEAST, l5_spin_learn(0, 10, most, most));
	EXPECT_EQ(most, l5_spin_learn(0, most, most, most));
	EXPECT_EQ(most, l5_spin_learn(0, 2 * most, 2 * most, most));
	/* a shorter wait is no reason to look less long */
	EXPECT_EQ(40000, l5_spin_learn(40000, 20000, most, most));
	/* one that did not pay halves it, down to nothing */
	EXPECT_EQ(20000, l5_spin_learn(40000, most + 1, most, most));
	EXPECT_EQ(0, l5_spin_learn(L5_SPIN_LEAST - 1, most + 1, most, most));
	EXPECT_EQ(0, l5_spin_learn(0, UINT64_MAX, most, most));
	win = most;
	for (i = 0; win; i++)
		win = l5_spin_learn(win, most + 1, most, most);
	EXPECT_GE(10, i);
	/* where no spinning is allowed none is learnt */
	EXPECT_EQ(0, l5_spin_learn(0, 20000, 0, 0));
}

TEST_F(ring_policy_alone, budget)
{
	const uint64_t most = L5_BUDGET_MOST;
	struct l5_budget b = { 0 };
	uint64_t now = 5000000000000;
	unsigned int i;

	/* one that is asked for the first time is full */
	EXPECT_EQ(1000, l5_budget_ns(&b, now, 10, 7, 1000));
	EXPECT_EQ(now, b.at);
	EXPECT_EQ(L5_BUDGET_MOST, b.left);
	l5_budget_spend(&b, most, 0);
	EXPECT_EQ(0, l5_budget_ns(&b, now, 10, 7, 1));
	/* a tenth of what goes by, and what the sleep would cost */
	now += 1000;
	EXPECT_EQ(107, l5_budget_ns(&b, now, 10, 7, 107));
	/* all of a look, or none */
	EXPECT_EQ(0, l5_budget_ns(&b, now, 10, 7, 108));
	EXPECT_EQ(50, l5_budget_ns(&b, now, 10, 7, 50));
	EXPECT_EQ(100, b.left);
	/* what a sleep would have cost is no loss */
	l5_budget_spend(&b, 7, 7);
	EXPECT_EQ(100, b.left);
	l5_budget_spend(&b, 107, 7);
	EXPECT_EQ(0, b.left);
	/* what was looked too much is owed */
	l5_budget_spend(&b, 50, 0);
	EXPECT_EQ(-50, b.left);
	now += 500;
	EXPECT_EQ(0, l5_budget_ns(&b, now, 10, 7, 1));
	now += 100;
	EXPECT_EQ(17, l5_budget_ns(&b, now, 10, 7, 17));
	/* what cannot be saved up is not waited for */
	now += 10 * most;
	EXPECT_EQ(most, l5_budget_ns(&b, now, 10, 7, 3 * most));
	l5_budget_spend(&b, 1000, 0);
	EXPECT_EQ(most - 1000, l5_budget_ns(&b, now, 10, 7, 3 * most));
	l5_budget_spend(&b, most / 2, 0);
	EXPECT_EQ(0, l5_budget_ns(&b, now, 10, 7, 3 * most));
	/* with bounds on both sides */
	l5_budget_spend(&b, UINT64_MAX, 0);
	l5_budget_spend(&b, UINT64_MAX, 0);
	EXPECT_EQ(-L5_BUDGET_MOST, b.left);
	now += UINT64_MAX / 4;
	EXPECT_EQ(1, l5_budget_ns(&b, now, 99, 7, 1));
	EXPECT_EQ(L5_BUDGET_MOST, b.left);
	l5_budget_spend(&b, UINT64_MAX, 0);
	l5_budget_spend(&b, 1, 0);
	EXPECT_EQ(-1, b.left);
	l5_budget_spend(&b, UINT64_MAX, 0);
	/* a clock that runs backwards adds nothing */
	now -= 1000000;
	EXPECT_EQ(0, l5_budget_ns(&b, now, 10, 7, 1));
	EXPECT_EQ(-L5_BUDGET_MOST, b.left);
	/* no limit, no share */
	EXPECT_EQ(5, l5_budget_ns(&b, now, 100, 7, 5));
	EXPECT_EQ(9 * most, l5_budget_ns(&b, now, 1000, 7, 9 * most));
	for (i = 0; i < 1000; i++)
		EXPECT_EQ(0, l5_budget_ns(&b, now += 1000000, 0, 7, 1));
}

TEST_HARNESS_MAIN
