// SPDX-License-Identifier: GPL-2.0
/*
 * A reader that sleeps when there is nothing, and a writer that wakes it:
 * no reader sleeps beside a record. E, F, G; with -DUNLOCK the unlock of
 * tx_lock stands for F, as it does for a writer that has the ring mapped.
 *
 * A reader goes to sleep for ever here: if that was right, a wake is there in
 * the end that the reader had not seen. What the reader does then is another
 * execution, in which that wake was there earlier.
 */
#include "rc11.h"

enum { RECORDS = 2 };

static __u32 woken;		/* the kernel's wait queue */
static __u32 had;		/* wakes that the reader has had */
static int got;

static void *sleeper(void *unused)
{
	struct l5_cons c = { .size = sizeof(word) };
	__u32 now;

	(void)unused;
	while (got < RECORDS) {
		l5_wait_arm(&reader.rx_wait);
		if (get(&c, got + 1)) {
			got++;
			continue;
		}
		now = __atomic_load_n(&woken, __ATOMIC_ACQUIRE);
		if (now == had)
			break;
		had = now;
	}
	return NULL;
}

static int publish(struct l5_prod *p, int n)
{
#ifdef UNLOCK
	AWAIT(l5_lock_try(&writer.tx_lock, 1));
	put(p, n);
	l5_unlock(&writer.tx_lock);
	return l5_load(&reader.rx_wait) != 0;
#else
	put(p, n);
	return l5_wait_armed(&reader.rx_wait);
#endif
}

static void *waker(void *unused)
{
	struct l5_prod p = { .size = sizeof(word) };

	(void)unused;
	for (int n = 1; n <= RECORDS; n++) {
		if (!publish(&p, n))
			continue;
		l5_wait_clear(&reader.rx_wait);
		/* G is all that orders the clear before it */
		__atomic_fetch_add(&woken, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void begin(void)
{
	empty();
	woken = 0;
	had = 0;
	got = 0;
}

static void end(void)
{
	assert(got == RECORDS || woken > had);
}

int main(void)
{
	run(sleeper, waker, begin, end);
	return 0;
}
