// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "scribble.h"

const char *const mood_name[] = {
	"lies", "records", "cursors", "locks", "headers", "all"
};

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static void control(struct mapping *m, unsigned long cmd, unsigned long arg)
{
	syscall(SYS_ioctl, m->fd, cmd, arg);
}

static uint64_t some_value(struct mapping *m, uint64_t *s)
{
	const uint64_t t[] = {
		0, 1, 7, 8, 16, m->tx_size, m->tx_size - 8, m->tx_size + 8,
		2ULL * m->tx_size, m->rx_size, -1ULL, -8ULL, 1ULL << 31,
		1ULL << 32, 1ULL << 62, 1ULL << 63, (1ULL << 63) - 8,
		0xffffffff, 0xffffffff00000000ULL,
		l5_load(&m->peer->tx_tail), l5_load(&m->peer->rx_head),
		l5_load(&m->own->tx_tail), l5_load(&m->own->rx_head),
		l5_load(&m->peer->tx_tail) + 8, l5_load(&m->peer->tx_tail) - 8,
		l5_load(&m->peer->tx_tail) + m->rx_size,
		l5_load(&m->peer->tx_tail) - m->rx_size - 8,
		l5_load(&m->peer->rx_head) + m->tx_size,
		(uint64_t)l5_rnd(s) << 32 | l5_rnd(s), l5_rnd(s) & 0xffff,
	};

	return t[l5_rnd(s) % ARRAY_SIZE(t)];
}

static uint32_t some_lock(struct mapping *m, uint64_t *s)
{
	const uint32_t t[] = {
		0, 1, 2, 3, m->id, m->id + 1, m->id | L5_LOCK_WAITERS,
		m->id | L5_LOCK_DIED, L5_LOCK_DIED, L5_LOCK_WAITERS,
		L5_LOCK_DIED | L5_LOCK_WAITERS, L5_LOCK_KERNEL, 0xffffffff,
		L5_LOCK_KERNEL | L5_LOCK_WAITERS, l5_rnd(s),
	};

	return t[l5_rnd(s) % ARRAY_SIZE(t)];
}

static uint64_t some_header(struct mapping *m, uint64_t *s)
{
	const uint64_t valid = (uint64_t)L5_REC_VALID << 32;
	const uint64_t t[] = {
		0, valid, valid | 1, valid | 8, valid | (m->tx_size - 16),
		valid | (m->tx_size - 15), valid | (m->tx_size - 8),
		valid | m->tx_size, valid | 0xffffffff, valid | 0x80000000,
		valid | l5_rnd(s) % m->tx_size, 1, 0xffffffff, -1ULL,
		valid | 1ULL << 32 | 8, 0x7fffffff00000008ULL,
		(uint64_t)l5_rnd(s) << 32 | l5_rnd(s),
	};

	return t[l5_rnd(s) % ARRAY_SIZE(t)];
}

void scribble_header(struct mapping *m, uint64_t pos, uint64_t hdr)
{
	l5_store_release(mapping_slot(m, pos & ~7ULL), hdr);
}

static void scribble(struct mapping *m, enum mood kind, uint64_t *s)
{
	struct l5_ctrl *c = m->own;
	const uint64_t valid = (uint64_t)L5_REC_VALID << 32;
	uint64_t pos = l5_load(&m->peer->rx_head) & ~7ULL, v;
	unsigned int i, n;

	if (kind == ALL)
		kind = l5_rnd(s) % ALL;
	switch (kind) {
	case LIES:
		v = some_value(m, s);
		switch (l5_rnd(s) % 7) {
		case 0:
			l5_store(&c->rx_wait, v);
			return;
		case 1:
			l5_store(&c->tx_wait, v);
			return;
		case 2:
			l5_store(&c->tx_tail, v);
			return;
		case 3:
			l5_store(&c->tx_bytes, v);
			l5_store(&c->rx_bytes, v);
			return;
		case 4:
			*(volatile uint64_t *)(void *)c->group0 = v;
			return;
		case 5:
			*(volatile uint64_t *)((uint8_t *)c + 8 *
			 (sizeof(*c) / 8 + l5_rnd(s) %
			  (MAP_PAGE / 8 - sizeof(*c) / 8))) = v;
			return;
		default:
			control(m, L5_IOC_DOORBELL, l5_rnd(s) & 3);
			control(m, L5_IOC_ARM, l5_rnd(s) & 3);
			return;
		}
	case RECORDS:
		/* a chain from where the victim is, perhaps all around */
		n = l5_rnd(s) % 4 ? l5_rnd(s) % 32 : m->tx_size / 16;
		v = l5_rnd(s) % 3 ? 1 + l5_rnd(s) % 8 :
		    1 + l5_rnd(s) % (m->tx_size / 4);
		for (i = 0; i < n; i++)
			scribble_header(m, pos + i * l5_rec_size(v), valid | v);
		l5_store(&c->tx_tail, pos + n * l5_rec_size(v));
		control(m, L5_IOC_DOORBELL, L5_BELL_DATA);
		/* and take what it sends, as if it were read */
		l5_store(&c->rx_head, l5_load(&m->peer->tx_tail) & ~7ULL);
		control(m, L5_IOC_DOORBELL, L5_BELL_ROOM);
		return;
	case CURSORS:
		v = some_value(m, s);
		switch (l5_rnd(s) % 5) {
		case 0:
			l5_store(&c->rx_head, v);
			break;
		case 1:
			l5_store(&c->rx_head, v & ~7ULL);
			break;
		case 2:
			l5_store(&c->rx_pos, v);
			break;
		case 3:
			l5_store(&c->tx_tail, v);
			break;
		default:
			/* right again, so that it lasts */
			v = l5_load(&m->peer->tx_tail) & ~7ULL;
			l5_store(&c->rx_pos, v);
			l5_store(&c->rx_head, v);
		}
		control(m, L5_IOC_DOORBELL, l5_rnd(s) & 3);
		return;
	case LOCKS:
		v = some_lock(m, s);
		if (l5_rnd(s) & 1)
			l5_store(&c->tx_lock, v);
		else
			l5_store(&c->rx_lock, v);
		if (l5_rnd(s) % 4 == 0)
			control(m, L5_IOC_UNLOCK, l5_rnd(s) & 1);
		if (l5_rnd(s) % 4 == 0) {
			/* as a writer that has the word, whoever has it */
			l5_store(&c->tx_lock, m->id);
			control(m, L5_IOC_ROOM, l5_rnd(s) % m->tx_size);
		}
		return;
	default:
		switch (l5_rnd(s) % 4) {
		case 0:
			scribble_header(m, pos, some_header(m, s));
			break;
		case 1:
			scribble_header(m, pos + 8 * (l5_rnd(s) % 64),
					some_header(m, s));
			break;
		case 2:
			scribble_header(m, l5_rnd(s), some_header(m, s));
			break;
		default:
			scribble_header(m, l5_load(&m->own->tx_tail),
					some_header(m, s));
		}
		control(m, L5_IOC_DOORBELL, L5_BELL_DATA);
	}
}

void scribbler(int fd, enum mood mood, struct arena *a, uint64_t seed)
{
	uint8_t b[600];
	struct mapping m;
	int err;

	/* so that it is said why, unless the play was over before it began */
	err = mapping_open(&m, fd);
	if (err == -ENOTCONN && l5_load(&a->stop))
		_exit(0);
	if (err)
		_exit(-err);
	memset(b, 0x77, sizeof(b));
	UNTIL(l5_load(&a->ready) || l5_load(&a->stop));
	while (!l5_load(&a->stop)) {
		/* now and then as one should, so that there is something on */
		switch (l5_rnd(&seed) % 8) {
		case 0:
			syscall(SYS_sendto, fd, b,
				1 + l5_rnd(&seed) % sizeof(b),
				MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
			break;
		case 1:
			syscall(SYS_recvfrom, fd, b, sizeof(b), MSG_DONTWAIT,
				NULL, NULL);
			break;
		case 2:
			usleep(l5_rnd(&seed) % 300);
			break;
		default:
			scribble(&m, mood, &seed);
		}
		a->writes++;
	}
	_exit(0);
}

bool scribble_watch(struct arena *a, pid_t vic, pid_t scr, int ms, bool kills,
		    int *status)
{
	int64_t end = l5_now_ms() + ms;

	while (l5_now_ms() < end) {
		siginfo_t si = { .si_pid = 0 };

		if (!waitid(P_PID, vic, &si, WEXITED | WNOHANG | WNOWAIT) &&
		    si.si_pid)
			break;
		usleep(2000);
	}
	l5_store(&a->stop, 1);
	if (kills)
		kill(scr, SIGKILL);
	*status = l5_reap(scr);
	l5_store(&a->stop, 2);
	return *status == 0 || (*status != -1 && WIFSIGNALED(*status) &&
				WTERMSIG(*status) == SIGKILL);
}

static bool messages_pass(int c, int s)
{
	uint8_t b[3000];
	int i;

	for (i = 0; i < 100; i++) {
		l5_fill(b, sizeof(b), i);
		if (send(i & 1 ? s : c, b, 1 + 30 * i, 0) != 1 + 30 * i ||
		    recv(i & 1 ? c : s, b, sizeof(b), 0) != 1 + 30 * i ||
		    l5_check(b, 1 + 30 * i, i) >= 0)
			return false;
	}
	return true;
}

bool scribble_over(const char *at)
{
	bool ok;
	int c, s;

	if (!end_stat_reaches("pairs", 0) || !end_stat_reaches("rings_kb", 0) ||
	    !end_stat_reaches("reserved_kb", 0) || !map_pair(at, &c, &s))
		return false;
	ok = !strcmp(at, "packets") ? messages_pass(c, s) :
				      end_exchange(c, s, 300000, 0);
	close(c);
	close(s);
	return ok;
}
