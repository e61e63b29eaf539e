// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5_policy.h"
#include "mapping.h"

/* As large as a record of a sender should be, so that the reader overlaps. */
#define PIECE	(64u << 10)

int mapping_areas(int fd, struct l5_map_info *info,
		  struct l5_area area[MAP_AREAS])
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	info->features = L5_REC_FILES | L5_MAP_MESSAGES;
	info->areas = (uintptr_t)area;
	info->nareas = area ? MAP_AREAS : 0;
	return ioctl(fd, L5_IOC_MAP_INFO, info) ? -errno : 0;
}

int mapping_info(int fd, struct l5_map_info *info)
{
	return mapping_areas(fd, info, NULL);
}

const struct l5_area *mapping_area(const struct l5_map_info *info,
				   const struct l5_area *area, uint32_t kind)
{
	uint32_t i;

	for (i = 0; i < info->nareas && i < MAP_AREAS; i++)
		if (area[i].kind == kind)
			return &area[i];
	return NULL;
}

/* By what the kernel says of it; *@at goes behind it and a hole. */
static bool region(struct mapping *m, const struct l5_map_info *info,
		   const struct l5_area *area, uint32_t kind, size_t *at,
		   void *addr)
{
	const struct l5_area *a = mapping_area(info, area, kind);
	size_t len;
	void *p;

	if (!a)
		return false;
	len = a->length << !!(a->access & L5_AREA_TWICE);
	p = mmap(m->base + *at, len, PROT_READ |
		 (a->access & L5_AREA_WRITE ? PROT_WRITE : 0),
		 MAP_SHARED | MAP_FIXED, m->fd, a->offset);
	*at += len + MAP_PAGE;
	memcpy(addr, &p, sizeof(p));
	return p != MAP_FAILED;
}

static int open_as_told(struct mapping *m, int fd)
{
	struct l5_area area[MAP_AREAS];
	struct l5_map_info info;
	size_t at = MAP_PAGE;
	int err;

	memset(m, 0, sizeof(*m));
	m->fd = fd;
	err = mapping_areas(fd, &info, area);
	if (err)
		return err;
	m->tx_size = info.tx_size;
	m->rx_size = info.rx_size;
	m->len = 2 * (m->tx_size + (size_t)m->rx_size) + 9 * MAP_PAGE;
	m->base = mmap(NULL, m->len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->base == MAP_FAILED)
		return -errno;
	errno = 0;
	if (!region(m, &info, area, L5_AREA_CTRL, &at, &m->own) ||
	    !region(m, &info, area, L5_AREA_PEER, &at, &m->peer) ||
	    !region(m, &info, area, L5_AREA_STATE, &at, &m->state) ||
	    !region(m, &info, area, L5_AREA_TX, &at, &m->tx) ||
	    !region(m, &info, area, L5_AREA_RX, &at, &m->rx))
		goto failed;
	if (mapping_info(fd, &info) || !info.id)
		goto failed;
	if (m->state->version) {
		errno = EPROTONOSUPPORT;
		goto failed;
	}
	m->id = info.id;
	m->prod.size = m->tx_size;
	m->cons.size = m->rx_size;
	return 0;

failed:
	err = errno ? -errno : -EIO;
	munmap(m->base, m->len);
	return err;
}

int mapping_open(struct mapping *m, int fd)
{
	int i, err = -EINVAL;

	/* each ring may grow between the question and the mapping */
	for (i = 0; i < 3 && err == -EINVAL; i++)
		err = open_as_told(m, fd);
	return err;
}

void mapping_close(struct mapping *m)
{
	munmap(m->base, m->len);
	memset(m, 0, sizeof(*m));
}

__u64 *mapping_slot(struct mapping *m, uint64_t pos)
{
	return (__u64 *)(m->tx + (pos & (m->tx_size - 1)));
}

static __u32 *word(struct mapping *m, int which)
{
	return which == L5_LOCK_TX ? &m->own->tx_lock : &m->own->rx_lock;
}

int mapping_lock(struct mapping *m, int which)
{
	int i, got, waits = 0;

	for (;;) {
		for (i = 0; i < 200; i++) {
			got = l5_lock_try(word(m, which), m->id);
			if (got)
				return got;
		}
		if (ioctl(m->fd, L5_IOC_LOCK, which) < 0)
			return -1;
		if (m->patience && ++waits >= m->patience) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

void mapping_unlock(struct mapping *m, int which)
{
	if (l5_unlock(word(m, which)))
		ioctl(m->fd, L5_IOC_UNLOCK, which);
}

int mapping_whole(struct mapping *m)
{
	int err;

	if (mapping_lock(m, L5_LOCK_TX) < 0)
		return -errno;
	err = ioctl(m->fd, L5_IOC_ROOM, m->tx_size) < 0 ? -errno : 0;
	mapping_unlock(m, L5_LOCK_TX);
	return err;
}

static void bell(struct mapping *m, int which)
{
	m->bells++;
	ioctl(m->fd, L5_IOC_DOORBELL, which);
}

/*
 * Under the lock. Cursors that other holders left in the page are not to be
 * believed.
 */
static ssize_t put_locked(struct mapping *m, bool died, const void *buf,
			  size_t len)
{
	struct l5_prod *p = &m->prod;
	uint32_t n, need, lack;

	/* mend first: the lock word forgets that its holder died */
	if (l5_prod_load(p, m->own, m->peer) < 0)
		return -1;
	if (died && l5_prod_mend(p, m->own, m->peer,
				 mapping_slot(m, p->tail)) < 0)
		return -1;
	/* or a flag that this knows nothing of */
	if (l5_load_acquire(&m->state->flags) &
	    (L5_MAP_TX_ASK | L5_MAP_LEAVE))
		return 0;
	if (l5_prod_look(p, m->peer) < 0 || p->tail - p->head > p->size)
		return -1;
	if (len > PIECE)
		len = PIECE;
	/* all of it is to fit, if there can be memory for that */
	need = p->tail - p->head + l5_rec_size(len) + L5_HDR;
	if (need > l5_load(&m->state->tx_extent))
		ioctl(m->fd, L5_IOC_ROOM, need < p->size ? need : p->size);
	lack = p->size - l5_load(&m->state->tx_extent);
	n = l5_prod_room(p);
	n = n > lack ? n - lack : 0;
	if (n > len)
		n = len;
	/* small messages stay whole, as in the kernel */
	if (!n || (n < len && n < p->size / 8))
		return 0;
	memcpy(m->tx + ((p->tail + L5_HDR) & (p->size - 1)), buf, n);
	l5_prod_publish(p, m->own, mapping_slot(m, p->tail),
			mapping_slot(m, p->tail + l5_rec_size(n)), n);
	l5_store(&m->own->tx_bytes, l5_load(&m->own->tx_bytes) + n);
	m->puts++;
	return n;
}

/* What is mapped makes no sense: it may not be the ring any more. */
static ssize_t nonsense(struct mapping *m)
{
	if (l5_load_acquire(&m->state->flags) & L5_MAP_LEAVE)
		return 0;
	errno = EPROTO;
	return -1;
}

ssize_t mapping_put(struct mapping *m, const void *buf, size_t len)
{
	int got = mapping_lock(m, L5_LOCK_TX);
	uint32_t flags;
	ssize_t n;

	if (got < 0)
		return -1;
	n = put_locked(m, got == 2, buf, len);
	mapping_unlock(m, L5_LOCK_TX);
	/* F: the exchange that unlocked is the barrier */
	flags = l5_load(&m->state->flags);
	if (n > 0 && (l5_load(&m->peer->rx_wait) ||
		      flags & (L5_MAP_BELL | L5_MAP_TX_ASK)))
		bell(m, L5_BELL_DATA);
	return n < 0 ? nonsense(m) : n;
}

static ssize_t get_locked(struct mapping *m, bool died, void *buf, size_t len,
			  bool *freed)
{
	struct l5_cons *c = &m->cons;
	const __u64 *slot;
	size_t done = 0;
	int ret;

	if (l5_cons_load(c, m->own) < 0)
		return -1;
	slot = (const __u64 *)(m->rx + (c->head & (c->size - 1)));
	if (died)
		l5_cons_mend(c, m->own, slot);
	if (l5_load_acquire(&m->state->flags) & L5_MAP_LEAVE)
		return 0;
	for (;;) {
		uint32_t n;

		slot = (const __u64 *)(m->rx + (c->head & (c->size - 1)));
		ret = done < len ? l5_cons_skip(c, m->own, slot) : 0;
		if (ret <= 0)
			break;
		if (ret == 2)
			continue;
		/* the kernel's to take */
		if (c->files) {
			ret = 0;
			break;
		}
		n = c->len - c->off;
		if (n > len - done)
			n = len - done;
		memcpy((uint8_t *)buf + done, m->rx +
		       ((c->head + L5_HDR + c->off) & (c->size - 1)), n);
		if (l5_cons_take(c, m->own, n))
			*freed = true;
		done += n;
	}
	if (!done)
		return ret;
	l5_store(&m->own->rx_bytes, l5_load(&m->own->rx_bytes) + done);
	m->gets++;
	return done;
}

ssize_t mapping_get(struct mapping *m, void *buf, size_t len)
{
	int got = mapping_lock(m, L5_LOCK_RX);
	bool freed = false;
	uint64_t head;
	ssize_t n;

	if (got < 0)
		return -1;
	n = get_locked(m, got == 2, buf, len, &freed);
	head = m->cons.head;
	mapping_unlock(m, L5_LOCK_RX);
	/* F again; a tail that lags makes the difference negative */
	if (freed && l5_load(&m->peer->tx_wait) &&
	    l5_room_worth(l5_load(&m->peer->tx_tail), head, m->rx_size))
		bell(m, L5_BELL_ROOM);
	return n < 0 ? nonsense(m) : n;
}

static ssize_t broken(struct mapping *m, ssize_t done)
{
	if (errno == EPROTO)
		shutdown(m->fd, SHUT_RDWR);
	return done ? done : -1;
}

ssize_t mapping_send(struct mapping *m, const void *buf, size_t len, int flags)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = mapping_put(m, (const uint8_t *)buf + done, len - done);
		if (n < 0)
			return broken(m, done);
		if (!n) {
			n = send(m->fd, (const uint8_t *)buf + done, len - done,
				 flags);
			return n < 0 && done ? (ssize_t)done : n < 0 ? n :
			       n + (ssize_t)done;
		}
		done += n;
	}
	return done;
}

ssize_t mapping_recv(struct mapping *m, void *buf, size_t len, int flags)
{
	ssize_t n = mapping_get(m, buf, len);

	if (n < 0)
		return broken(m, 0);
	return n ? n : recv(m->fd, buf, len, flags);
}

bool mapping_flag_comes(struct mapping *m, uint32_t flag)
{
	return UNTIL(l5_load_acquire(&m->state->flags) & flag);
}

bool map_pair(const char *at, int *c, int *s)
{
	struct addr to;
	int l, fd[2];

	if (!strcmp(at, "packets")) {
		if (socketpair(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX, fd))
			return false;
		*c = fd[0];
		*s = fd[1];
		return l5_transport(*c) == L5_TRANSPORT_SHM;
	}
	to = addr_parse(at);
	l = end_listen(END_L5, &to);
	if (l < 0)
		return false;
	*c = end_connect(END_L5, &to);
	*s = *c < 0 ? -1 : accept(l, NULL, NULL);
	close(l);
	return *s >= 0 && l5_transport(*c) == L5_TRANSPORT_SHM &&
	       l5_transport(*s) == L5_TRANSPORT_SHM;
}

bool map_begin(const char *at, long ring_kb, int fd[2])
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	if (!net_unshare())
		return false;
	l5_sysctl("match_ms", 10000);
	return l5_sysctl("grow_ms", 0) >= 0 &&
	       l5_sysctl("ring_kb", ring_kb) >= 0 &&
	       map_pair(at, &fd[0], &fd[1]);
}

bool map_again(const char *at, int fd[2])
{
	close(fd[0]);
	close(fd[1]);
	return map_pair(at, &fd[0], &fd[1]);
}

void *map_shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	/* a test that goes on without it says nothing of that */
	if (p == MAP_FAILED) {
		perror("memory to share");
		_exit(1);
	}
	return p;
}

static sigjmp_buf touched;

static void on_fault(int sig)
{
	siglongjmp(touched, sig);
}

int map_touch(const void *p, bool write)
{
	struct sigaction sa = { .sa_handler = on_fault }, segv, bus;
	volatile uint8_t *b = (volatile uint8_t *)p;
	int sig;

	sigaction(SIGSEGV, &sa, &segv);
	sigaction(SIGBUS, &sa, &bus);
	sig = sigsetjmp(touched, 1);
	if (!sig) {
		uint8_t v = *b;

		if (write)
			*b = v;
	}
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGBUS, &bus, NULL);
	return sig;
}
