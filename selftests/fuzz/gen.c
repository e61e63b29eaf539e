// SPDX-License-Identifier: GPL-2.0
/*
 * The grammar. A program is made call by call, with a rough idea of what each
 * slot holds by then, so that most calls meet what they are for; one in a dozen
 * takes any slot. Nothing here but the seed and the number decides, and nothing
 * is called.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/poll.h>
#include <sys/socket.h>

#include "gen.h"

const unsigned int fz_op_weight[FZ_OP_COUNT] = {
#define FZ_OP_WEIGHT(op, name, weight)	[FZ_##op] = weight,
	FZ_OPS(FZ_OP_WEIGHT)
#undef FZ_OP_WEIGHT
};

static void gen_socket(struct model *m, struct fz_call *c)
{
	c->t = slot(m, HAS_NONE);
	c->a = once(m, 40) ? pick(m, 300) : pick(m, 3);
	c->b = SOCK_STREAM | (once(m, 2) ? SOCK_NONBLOCK : 0) |
	       (once(m, 2) ? SOCK_CLOEXEC : 0);
	if (once(m, 40))
		c->b = pick(m, 12);
	c->v = once(m, 8) ? FZ_KIND_PLAIN : once(m, 60) ? FZ_KIND_ODD :
	       once(m, 4) ? FZ_KIND_INET : FZ_KIND_L5;
	put(m, c->t, HAS_IDLE, c->a % 3);
}

static void gen_pair(struct model *m, struct fz_call *c)
{
	unsigned int proto = pick(m, 3);
	static const uint32_t how[] = {
		FZ_PAIR_NONBLOCK, FZ_PAIR_SMALL,
	};

	c->s = slot(m, HAS_NONE);
	put(m, c->s, HAS_CONN, proto);
	c->t = slot(m, HAS_NONE);
	put(m, c->t, HAS_CONN, proto);
	meet(m, c->s, c->t);
	c->a = some_addr(m, proto);
	c->b = some_of(m, how, ARRAY_SIZE(how), 2);
	if (once(m, 10))
		c->b |= FZ_PAIR_PLAIN_CLIENT << pick(m, 2);
	/* AF_UNIX has it */
	if (once(m, proto == 2 ? 4 : 60))
		c->b |= FZ_PAIR_BORN;
	if (once(m, proto == 2 ? 3 : 60))
		c->b |= FZ_PAIR_PACKETS;
}

/* Both in one: the kind of the listener, and its address */
static void gen_listener(struct model *m, struct fz_call *c)
{
	unsigned int proto = pick(m, 3);

	c->t = slot(m, HAS_NONE);
	c->a = some_addr(m, proto);
	c->b = once(m, 2) ? FZ_PAIR_NONBLOCK : 0;
	if (once(m, 6))
		c->b |= FZ_PAIR_SMALL;
	if (once(m, 4))
		c->b |= FZ_PAIR_REUSE;
	if (once(m, 10))
		c->b |= FZ_PAIR_PLAIN_SERVER;
	put(m, c->t, HAS_LISTEN, proto);
	m->addr[c->t] = c->a;
}

/* A listener, with an address that no other socket has if there is one */
static uint8_t some_listener(struct model *m)
{
	return slot(m, HAS_LISTEN);
}

static void gen_dial(struct model *m, struct fz_call *c)
{
	uint8_t l = some_listener(m);

	c->t = slot(m, HAS_NONE);
	c->s = l;
	c->a = where_is(m, l);
	c->b = once(m, 2) ? FZ_PAIR_NONBLOCK : 0;
	if (once(m, 10))
		c->b |= FZ_PAIR_PLAIN_CLIENT;
	if (once(m, 4))
		c->b |= FZ_PAIR_V4;
	put(m, c->t, HAS_CONN, proto_of(c->a));
	dialled(m, c->t, l);
}

static void gen_bind(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_IDLE);
	c->a = some_addr(m, m->proto[c->s]);
	c->b = some_length(m);
	m->addr[c->s] = c->a;
	m->last = c->s;
}

static void gen_listen(struct model *m, struct fz_call *c)
{
	static const int backlog[] = { 0, 1, 5, 128, -1, 0x7fffffff };

	c->s = slot(m, HAS_IDLE | HAS_LISTEN);
	c->a = backlog[pick(m, ARRAY_SIZE(backlog))];
	put(m, c->s, HAS_LISTEN, m->proto[c->s]);
}

static void gen_connect(struct model *m, struct fz_call *c)
{
	uint8_t l = some_listener(m);

	c->s = slot(m, HAS_IDLE);
	c->t = l;
	if (!once(m, 5) && (m->proto[l] == m->proto[c->s] || once(m, 3)))
		c->a = where_is(m, l);
	else
		c->a = some_addr(m, m->proto[c->s]);
	c->b = some_length(m);
	put(m, c->s, HAS_CONN, m->proto[c->s]);
	dialled(m, c->s, l);
}

static void gen_accept(struct model *m, struct fz_call *c)
{
	uint8_t i;

	c->s = slot(m, HAS_LISTEN);
	for (i = 0; i < FZ_SLOTS && !m->pending[c->s]; i++)
		if (m->pending[i])
			c->s = i;
	c->t = slot(m, HAS_NONE);
	c->a = (once(m, 2) ? SOCK_NONBLOCK : 0) |
	       (once(m, 30) ? pick(m, 0x10000) : 0);
	c->b = pick(m, 4);
	accepted(m, c->s, c->t);
}

/* A socket that is connected, or tried to be, becomes a listener again. */
static void gen_unconnect(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_CONN | HAS_LISTEN);
	c->b = some_length(m);
	put(m, c->s, HAS_IDLE, m->proto[c->s]);
}

/* A socket that was connected listens now, with all its history. */
static void gen_relisten(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_CONN);
	c->a = 1 + pick(m, 5);
	put(m, c->s, HAS_LISTEN, m->proto[c->s]);
}

static void gen_shutdown(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_CONN);
	c->a = once(m, 10) ? pick(m, 100) : pick(m, 3);
	if (m->has[c->s] == HAS_LISTEN)
		m->has[c->s] = HAS_IDLE;
}

static void gen_close(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_FD);
	if (c->s < FZ_SLOTS)
		m->has[c->s] = HAS_NONE;
}

static void gen_dup(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_FD);
	c->t = slot(m, once(m, 3) ? HAS_FD : HAS_NONE);
	c->a = pick(m, 4);
	put(m, c->t, m->has[c->s], m->proto[c->s]);
	m->addr[c->t] = m->addr[c->s];
}

static const uint32_t send_flags[] = {
	MSG_OOB, MSG_MORE, MSG_EOR, MSG_DONTROUTE, MSG_ZEROCOPY, MSG_FASTOPEN,
	0x10 /* L5_MSG_BELL */, MSG_CONFIRM, 0x80000 /* MSG_SPLICE_PAGES' */,
};

static const uint32_t recv_flags[] = {
	MSG_PEEK, MSG_TRUNC, MSG_WAITALL, MSG_OOB, MSG_ERRQUEUE,
	MSG_CMSG_CLOEXEC, 0x10,
};

static uint64_t some_way(struct model *m)
{
	uint64_t way = once(m, 2) ? FZ_WAY_PLAIN : pick(m, FZ_WAYS);

	if (once(m, 8))
		way |= pick(m, FZ_BUFS) << 8;
	/* how a vector is cut, which address, what of control messages */
	return way | (fz_next(m->r) & 0xffff) << 16;
}

static uint32_t some_flags(struct model *m, const uint32_t *bits, uint32_t n)
{
	uint32_t flags = once(m, 3) ? some_of(m, bits, n, 4) : 0;

	if (!once(m, 8))
		flags |= MSG_DONTWAIT;
	if (once(m, 60))
		flags |= fz_next(m->r);
	return flags;
}

static void gen_send(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_CONN | HAS_UNIX);
	c->t = slot(m, HAS_FD);
	c->a = some_len(m);
	c->b = some_flags(m, send_flags, ARRAY_SIZE(send_flags));
	c->v = some_way(m);
	m->last = c->s;
	if (m->peer[c->s] < FZ_SLOTS)
		m->queued[m->peer[c->s]] = true;
}

/* A slot where something is, if there is one */
static uint8_t some_reader(struct model *m)
{
	uint32_t i, from = pick(m, FZ_SLOTS);

	if (m->queued[m->last] || once(m, 4))
		return slot(m, HAS_CONN | HAS_UNIX);
	for (i = 0; i < FZ_SLOTS; i++)
		if (m->queued[(from + i) % FZ_SLOTS])
			return (from + i) % FZ_SLOTS;
	return slot(m, HAS_CONN | HAS_UNIX);
}

static void gen_recv(struct model *m, struct fz_call *c)
{
	c->s = some_reader(m);
	c->t = slot(m, HAS_NONE);
	c->a = some_len(m);
	c->b = some_flags(m, recv_flags, ARRAY_SIZE(recv_flags));
	c->v = some_way(m);
	m->last = c->s;
}

static void gen_pass(struct model *m, struct fz_call *c)
{
	c->s = slot(m, once(m, 2) ? HAS_UNIX : HAS_CONN);
	c->t = slot(m, HAS_FD);
	c->a = once(m, 8) ? pick(m, 300) : 1 + pick(m, 3);
	c->b = MSG_DONTWAIT;
}

static const uint16_t known_opts[][2] = {
	{ FZ_SOL_SOCKET, SO_REUSEADDR }, { FZ_SOL_SOCKET, SO_REUSEPORT },
	{ FZ_SOL_SOCKET, SO_KEEPALIVE }, { FZ_SOL_SOCKET, SO_LINGER },
	{ FZ_SOL_SOCKET, SO_SNDBUF }, { FZ_SOL_SOCKET, SO_RCVBUF },
	{ FZ_SOL_SOCKET, SO_SNDBUFFORCE }, { FZ_SOL_SOCKET, SO_RCVBUFFORCE },
	{ FZ_SOL_SOCKET, SO_RCVLOWAT }, { FZ_SOL_SOCKET, SO_RCVTIMEO },
	{ FZ_SOL_SOCKET, SO_SNDTIMEO }, { FZ_SOL_SOCKET, SO_OOBINLINE },
	{ FZ_SOL_SOCKET, SO_BUSY_POLL }, { FZ_SOL_SOCKET, SO_ZEROCOPY },
	{ FZ_SOL_SOCKET, SO_TIMESTAMP }, { FZ_SOL_SOCKET, SO_TIMESTAMPING },
	{ FZ_SOL_SOCKET, SO_PASSCRED }, { FZ_SOL_SOCKET, SO_BINDTODEVICE },
	{ FZ_SOL_SOCKET, SO_ATTACH_FILTER }, { FZ_SOL_SOCKET, SO_PEEK_OFF },
	{ FZ_SOL_SOCKET, SO_MARK }, { FZ_SOL_SOCKET, SO_ERROR },
	{ FZ_SOL_SOCKET, SO_MAX_PACING_RATE }, { FZ_SOL_SOCKET, SO_PEERCRED },
	{ FZ_SOL_TCP, TCP_NODELAY }, { FZ_SOL_TCP, TCP_CORK },
	{ FZ_SOL_TCP, TCP_QUICKACK }, { FZ_SOL_TCP, TCP_DEFER_ACCEPT },
	{ FZ_SOL_TCP, TCP_FASTOPEN }, { FZ_SOL_TCP, TCP_FASTOPEN_CONNECT },
	{ FZ_SOL_TCP, TCP_ULP }, { FZ_SOL_TCP, TCP_REPAIR },
	{ FZ_SOL_TCP, TCP_REPAIR_QUEUE }, { FZ_SOL_TCP, TCP_QUEUE_SEQ },
	{ FZ_SOL_TCP, TCP_MD5SIG }, { FZ_SOL_TCP, TCP_CONGESTION },
	{ FZ_SOL_TCP, TCP_USER_TIMEOUT }, { FZ_SOL_TCP, TCP_INQ },
	{ FZ_SOL_TCP, TCP_SAVE_SYN }, { FZ_SOL_TCP, TCP_LINGER2 },
	{ FZ_SOL_TCP, TCP_ZEROCOPY_RECEIVE }, { FZ_SOL_TCP, TCP_INFO },
	{ FZ_SOL_TCP, TCP_WINDOW_CLAMP }, { FZ_SOL_TCP, TCP_NOTSENT_LOWAT },
	{ FZ_SOL_IP, IP_TOS }, { FZ_SOL_IP, IP_TTL },
	{ FZ_SOL_IP, IP_TRANSPARENT }, { FZ_SOL_IP, IP_FREEBIND },
	{ FZ_SOL_IP, IP_BIND_ADDRESS_NO_PORT },
	{ FZ_SOL_IPV6, IPV6_ADDRFORM }, { FZ_SOL_IPV6, IPV6_V6ONLY },
	{ FZ_SOL_IPV6, IPV6_TCLASS },
	{ FZ_SOL_L5_SOCKET, SO_PEEK_OFF }, { FZ_SOL_L5_SOCKET, SO_LOCK_FILTER },
	{ FZ_SOL_L5_SOCKET, SO_ATTACH_FILTER },
	{ FZ_SOL_L5_SOCKET, SO_DETACH_FILTER },
	{ FZ_SOL_L5_SOCKET, SO_ATTACH_REUSEPORT_CBPF },
};

static void some_option(struct model *m, struct fz_call *c)
{
	uint32_t i = pick(m, ARRAY_SIZE(known_opts));
	uint32_t what;

	c->a = known_opts[i][0];
	c->b = known_opts[i][1];
	if (once(m, 3)) {
		c->a = FZ_SOL_L5;
		c->b = pick(m, 10);
	} else if (once(m, 4)) {
		c->a = pick(m, FZ_LEVELS);
		/* higher options are a firewall's tables, which are not ours */
		c->b = pick(m, once(m, 20) ? 64 : 48);
	}
	what = once(m, 3) ? pick(m, FZ_VALUES) : pick(m, FZ_VAL_BYTES);
	if (c->a == FZ_SOL_IPV6 && c->b == IPV6_ADDRFORM && !once(m, 4))
		what = FZ_VAL_INET;
	c->v = what | some_length(m) << 8 | (fz_next(m->r) & 0xffffffff) << 32;
}

static void gen_opt(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_SOCKET);
	some_option(m, c);
}

static void gen_name(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_SOCKET);
	c->a = pick(m, 2);
	c->b = some_length(m);
}

static const uint32_t poll_events[] = {
	POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, POLLRDBAND,
};

static void gen_poll(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_SOCKET);
	c->t = slot(m, HAS_FD);
	c->a = some_of(m, poll_events, ARRAY_SIZE(poll_events), 2);
	c->b = once(m, 2) ? 0 : pick(m, 4);
	c->v = pick(m, 3);
}

static void gen_epoll(struct model *m, struct fz_call *c)
{
	c->t = slot(m, HAS_NONE);
	c->a = once(m, 20) ? pick(m, 0x100000) : 0;
	put(m, c->t, HAS_EPOLL, 0);
}

static void gen_epoll_ctl(struct model *m, struct fz_call *c)
{
	static const uint32_t extra[] = {
		EPOLLET, EPOLLONESHOT, EPOLLEXCLUSIVE, EPOLLWAKEUP,
	};

	c->s = slot(m, HAS_EPOLL);
	c->t = slot(m, HAS_FD);
	c->a = once(m, 20) ? pick(m, 10) : 1 + pick(m, 3);
	c->b = some_of(m, poll_events, ARRAY_SIZE(poll_events), 2) |
	       some_of(m, extra, ARRAY_SIZE(extra), 4);
}

static void gen_epoll_wait(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_EPOLL);
	c->a = pick(m, 3);
	c->b = 1 + pick(m, 8);
}

static void gen_ioctl(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_CONN);
	c->a = once(m, 4) ? pick(m, FZ_IOCS) : pick(m, FZ_IOC_REGION + 1);
	c->b = once(m, 12) ? (uint32_t)fz_next(m->r) : pick(m, 4);
	c->v = fz_next(m->r);
}

static void gen_map_info(struct model *m, struct fz_call *c)
{
	c->s = slot(m, once(m, 8) ? HAS_LISTEN : HAS_CONN);
	c->a = once(m, 3) ? pick(m, 5000) : 56;
	c->b = once(m, 3) ? (uint32_t)fz_next(m->r) : pick(m, 20);
	c->v = once(m, 3) ? fz_next(m->r) : 0;
}

static void gen_fcntl(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_FD);
	c->a = pick(m, FZ_FCNTLS);
	c->b = fz_next(m->r);
}

static void gen_map(struct model *m, struct fz_call *c)
{
	int i;

	c->s = slot(m, HAS_CONN);
	c->t = 5 * pick(m, FZ_MAPS / 5);
	for (i = 0; i < 5; i++)
		map_put(m, c->t + i, c->s);
	m->last = c->s;
}

static void gen_mmap(struct model *m, struct fz_call *c)
{
	/* from 1: own, peer, state, tx, rx, mailbox, region */
	static const uint8_t right[] = { 0, 3, 1, 1, 3, 1, 3, 3 };
	uint32_t prot, flags = once(m, 8) ? pick(m, 4) : MAP_SHARED;

	c->a = once(m, 10) ? pick(m, 12) : 1 + pick(m, 7);
	c->s = slot(m, c->a == 6 && !once(m, 4) ? HAS_LISTEN : HAS_CONN);
	c->t = pick(m, FZ_MAPS);
	prot = once(m, 5) || c->a >= ARRAY_SIZE(right) ? pick(m, 16) :
		right[c->a];
	/* how long: right, or twice that, or with what is beside it */
	c->b = once(m, 5) ? pick(m, 7) : c->a >= 4 && once(m, 2) ? 2 : 0;
	c->b |= prot << 8 | flags << 16;
	/* a region's number */
	if (c->a == 7)
		c->v = pick(m, 16);
	if (once(m, 20))
		c->v = fz_next(m->r) >> pick(m, 64);
	map_put(m, c->t, c->s);
}

static void gen_munmap(struct model *m, struct fz_call *c)
{
	c->t = map_slot(m);
	c->a = once(m, 3) ? pick(m, FZ_PARTS) : 0;
}

static void gen_mprotect(struct model *m, struct fz_call *c)
{
	c->t = map_slot(m);
	c->a = pick(m, 8);
	c->b = once(m, 3) ? pick(m, FZ_PARTS) : 0;
}

static void gen_madvise(struct model *m, struct fz_call *c)
{
	c->t = map_slot(m);
	c->a = pick(m, FZ_ADVICES);
	c->b = once(m, 2) ? pick(m, FZ_PARTS) : 0;
}

static void gen_mremap(struct model *m, struct fz_call *c)
{
	c->t = map_slot(m);
	c->a = pick(m, 4);
}

static void some_word(struct model *m, struct fz_call *c)
{
	static const uint8_t lock[] = {
		FZ_WORD_0, FZ_WORD_LOCK_KERNEL, FZ_WORD_LOCK_DIED,
		FZ_WORD_LOCK_ID, FZ_WORD_LOCK_ANY,
	};

	c->t = map_slot(m);
	c->a = pick(m, FZ_WHERES);
	c->b = pick(m, FZ_WORDS);
	if ((c->a == FZ_AT_TX_LOCK || c->a == FZ_AT_RX_LOCK) && !once(m, 5))
		c->b = lock[pick(m, ARRAY_SIZE(lock))];
	if (c->a >= FZ_AT_PEER_HEAD && once(m, 2))
		c->b = FZ_WORD_RECORD + pick(m, 3);
	c->v = fz_next(m->r);
}

static void gen_poke(struct model *m, struct fz_call *c)
{
	some_word(m, c);
	scribbled(m, c->t);
}

/* Of what all sharers of the end go by, most */
static void gen_hammer(struct model *m, struct fz_call *c)
{
	some_word(m, c);
	if (once(m, 2)) {
		c->a = FZ_AT_TX_LOCK + pick(m, 2);
		c->b = FZ_WORD_LOCK_KERNEL + pick(m, 4);
	}
	m->last = m->mapped_of[c->t % FZ_MAPS];
	m->fights = 10;
}

static void gen_flood(struct model *m, struct fz_call *c)
{
	c->t = map_slot(m);
	c->a = once(m, 4) ? 4096 : pick(m, 32);
	c->b = once(m, 3) ? pick(m, 70000) : pick(m, 9);
	/* a stranger to the ring, or records that follow the last one */
	c->v = once(m, 2) | (once(m, 4) ? FZ_FLOOD_EMPTY : 0);
	/* few that fit, about as long as what goes to another host at once */
	if (once(m, 6)) {
		c->a = pick(m, 3);
		c->b = 65536 - 32 + 8 * pick(m, 8);
		c->v |= FZ_FLOOD_ON;
	}
	scribbled(m, c->t);
	/* a call on the socket has the kernel look at them */
	m->last = m->mapped_of[c->t % FZ_MAPS];
	m->fights = 3;
}

static void gen_look(struct model *m, struct fz_call *c)
{
	c->t = map_slot(m);
}

static void gen_scribble(struct model *m, struct fz_call *c)
{
	c->v = fz_next(m->r);
}

static void gen_spawn(struct model *m, struct fz_call *c)
{
	c->a = 1 + pick(m, FZ_LANES - 1);
	c->b = once(m, 2) ? FZ_SPAWN_THREAD : once(m, 4) ? FZ_SPAWN_NOBODY :
	       FZ_SPAWN_PROCESS;
	m->lanes |= 1 << c->a;
}

static void gen_kill(struct model *m, struct fz_call *c)
{
	c->a = 1 + pick(m, FZ_LANES - 1);
}

static void gen_netns(struct model *m, struct fz_call *c)
{
	c->a = once(m, 8) ? 2 : pick(m, 2);
}

static void gen_sysctl(struct model *m, struct fz_call *c)
{
	static const uint32_t value[] = {
		0, 1, 2, 4, 64, 1000, 4096, 100000, 0x7fffffff, 0xffffffff,
	};

	c->a = pick(m, FZ_SYSCTLS);
	c->b = value[pick(m, ARRAY_SIZE(value))];
}

static void gen_rule(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_SOCKET);
	c->a = pick(m, 2);
	c->b = pick(m, FZ_RULES);
}

static void gen_read_proc(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_FD);
	c->a = pick(m, FZ_PROC_FILES);
}

static void gen_file_call(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_FD);
	c->a = pick(m, FZ_FILE_CALLS);
	c->v = fz_next(m->r);
}

static void gen_pipe(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_NONE);
	put(m, c->s, HAS_PIPE, 0);
	c->t = slot(m, HAS_NONE);
	put(m, c->t, HAS_PIPE, 0);
	c->a = once(m, 2);
}

static void gen_unix(struct model *m, struct fz_call *c)
{
	gen_pipe(m, c);
	put(m, c->s, HAS_UNIX, 2);
	put(m, c->t, HAS_UNIX, 2);
}

static void gen_sleep(struct model *m, struct fz_call *c)
{
	c->a = pick(m, once(m, 10) ? 20000 : 300);
}

static void gen_fail(struct model *m, struct fz_call *c)
{
	c->a = 1 + pick(m, once(m, 3) ? 40 : 6);
}

static void gen_destroy(struct model *m, struct fz_call *c)
{
	c->s = slot(m, HAS_SOCKET);
}

static void gen_uring(struct model *m, struct fz_call *c)
{
	c->a = pick(m, FZ_URINGS) | some_len(m) << 8;
	c->s = slot(m, (c->a & 0xff) == FZ_URING_ACCEPT ? HAS_LISTEN :
		    (c->a & 0xff) == FZ_URING_CONNECT ? HAS_IDLE : HAS_CONN);
	c->t = slot(m, HAS_NONE);
	c->b = once(m, 4) ? some_flags(m, recv_flags, ARRAY_SIZE(recv_flags)) :
	       0;
	c->v = some_addr(m, m->proto[c->s]);
	if ((c->a & 0xff) == FZ_URING_ACCEPT)
		put(m, c->t, HAS_CONN, m->proto[c->s]);
}

/**
 * struct rule - of the grammar
 * @gen: fills in the words of a call
 * @needs: what some slot has to hold for the call to be worth much
 */
struct rule {
	void (*gen)(struct model *m, struct fz_call *c);
	unsigned int needs;
};

static const struct rule rules[FZ_OP_COUNT] = {
	[FZ_SOCKET] = { gen_socket, 0 },
	[FZ_PAIR] = { gen_pair, 0 },
	[FZ_LISTENER] = { gen_listener, 0 },
	[FZ_DIAL] = { gen_dial, HAS_LISTEN },
	[FZ_BIND] = { gen_bind, HAS_IDLE },
	[FZ_LISTEN] = { gen_listen, HAS_IDLE },
	[FZ_CONNECT] = { gen_connect, HAS_IDLE },
	[FZ_ACCEPT] = { gen_accept, HAS_LISTEN },
	[FZ_UNCONNECT] = { gen_unconnect, HAS_CONN | HAS_LISTEN },
	[FZ_RELISTEN] = { gen_relisten, HAS_CONN },
	[FZ_SHUTDOWN] = { gen_shutdown, HAS_CONN | HAS_LISTEN },
	[FZ_CLOSE] = { gen_close, HAS_FD },
	[FZ_DUP] = { gen_dup, HAS_FD },
	[FZ_SEND] = { gen_send, HAS_CONN },
	[FZ_RECV] = { gen_recv, HAS_CONN },
	[FZ_PASS] = { gen_pass, HAS_UNIX | HAS_CONN },
	[FZ_GETOPT] = { gen_opt, HAS_SOCKET },
	[FZ_SETOPT] = { gen_opt, HAS_SOCKET },
	[FZ_NAME] = { gen_name, HAS_SOCKET },
	[FZ_POLL] = { gen_poll, HAS_SOCKET },
	[FZ_EPOLL] = { gen_epoll, HAS_SOCKET },
	[FZ_EPOLL_CTL] = { gen_epoll_ctl, HAS_EPOLL },
	[FZ_EPOLL_WAIT] = { gen_epoll_wait, HAS_EPOLL },
	[FZ_IOCTL] = { gen_ioctl, HAS_CONN },
	[FZ_MAP_INFO] = { gen_map_info, HAS_CONN | HAS_LISTEN },
	[FZ_FCNTL] = { gen_fcntl, HAS_FD },
	[FZ_MAP] = { gen_map, HAS_CONN },
	[FZ_MMAP] = { gen_mmap, HAS_CONN | HAS_LISTEN },
	[FZ_MUNMAP] = { gen_munmap, HAS_CONN },
	[FZ_MPROTECT] = { gen_mprotect, HAS_CONN },
	[FZ_MADVISE] = { gen_madvise, HAS_CONN },
	[FZ_MREMAP] = { gen_mremap, HAS_CONN },
	[FZ_POKE] = { gen_poke, HAS_CONN },
	[FZ_FLOOD] = { gen_flood, HAS_CONN },
	[FZ_LOOK] = { gen_look, HAS_CONN },
	[FZ_SCRIBBLE] = { gen_scribble, HAS_CONN },
	[FZ_HAMMER] = { gen_hammer, HAS_CONN },
	[FZ_SPAWN] = { gen_spawn, HAS_SOCKET },
	[FZ_KILL] = { gen_kill, HAS_SOCKET },
	[FZ_NETNS] = { gen_netns, 0 },
	[FZ_SYSCTL] = { gen_sysctl, 0 },
	[FZ_RULE] = { gen_rule, HAS_SOCKET },
	[FZ_READ_PROC] = { gen_read_proc, HAS_SOCKET },
	[FZ_FILE_CALL] = { gen_file_call, HAS_FD },
	[FZ_PIPE] = { gen_pipe, HAS_SOCKET },
	[FZ_UNIX] = { gen_unix, HAS_SOCKET },
	[FZ_SLEEP] = { gen_sleep, HAS_CONN },
	[FZ_FAIL] = { gen_fail, 0 },
	[FZ_DESTROY] = { gen_destroy, HAS_SOCKET },
	[FZ_URING] = { gen_uring, HAS_SOCKET },
};

/* Calls that only make sense where calls happen at the same time */
static bool of_lanes(unsigned int op)
{
	return op == FZ_SPAWN || op == FZ_KILL || op == FZ_SCRIBBLE ||
	       op == FZ_HAMMER || op == FZ_URING;
}

static bool mapped(const struct model *m)
{
	int i;

	for (i = 0; i < FZ_MAPS; i++)
		if (m->mapped[i])
			return true;
	return false;
}

/* Does a connection wait for accept()? */
static bool waiting(const struct model *m)
{
	int i;

	for (i = 0; i < FZ_SLOTS; i++)
		if (m->pending[i] && m->has[i] & HAS_LISTEN)
			return true;
	return false;
}

/* A call that has what it needs, by weight */
static unsigned int some_op(struct model *m, bool lanes)
{
	unsigned int op, sum = 0, at;
	unsigned int weight[FZ_OP_COUNT];

	for (op = 0; op < FZ_OP_COUNT; op++) {
		unsigned int w = fz_op_weight[op];

		if (rules[op].needs && !any(m, rules[op].needs))
			w = w / 30;
		if (op >= FZ_MUNMAP && op <= FZ_HAMMER && !mapped(m))
			w = 0;
		if (op == FZ_ACCEPT && !waiting(m))
			w = w / 8;
		if ((of_lanes(op) && !lanes) || (op == FZ_KILL && !m->lanes))
			w = 0;
		weight[op] = w;
		sum += w;
	}
	at = pick(m, sum);
	for (op = 0; at >= weight[op]; op++)
		at -= weight[op];
	return op;
}

void gen_words(struct model *m, struct fz_call *c)
{
	rules[c->op].gen(m, c);
}

void gen_call(struct model *m, struct fz_call *c, bool lanes)
{
	uint32_t lane;

	memset(c, 0, sizeof(*c));
	if (m->fights && m->fights-- && once(m, 2) &&
	    m->has[m->last] & HAS_CONN)
		c->op = once(m, 2) ? FZ_SEND : FZ_RECV;
	else
		c->op = some_op(m, lanes);
	gen_words(m, c);
	lane = pick(m, FZ_LANES);
	if (c->op != FZ_SPAWN && m->lanes & 1 << lane)
		c->lane = lane;
}

void fz_gen(struct fz_prog *p, uint64_t seed, uint64_t number, bool lanes)
{
	struct fz_rnd r = fz_rnd_of(seed, number);
	struct model m;
	uint32_t i;

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->number = number;
	p->parent = number;
	p->n = 8 + fz_below(&r, FZ_CALLS - 7);
	/* most programs have one lane, so that they say the same again */
	lanes = lanes && fz_once_in(&r, 3);
	model_new(&m, &r);
	for (i = 0; i < p->n; i++)
		gen_call(&m, &p->call[i], lanes);
}
