// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

/* Far more than anything here needs: it only ends what hangs. */
#define LONG_MS		(60000 * l5_slow())

struct addr addr_parse(const char *text)
{
	struct addr a = { .len = 0 };
	const char *colon;
	char host[64], *scope;

	memset(&a.ss, 0, sizeof(a.ss));
	if (!strncmp(text, "unix:", 5) || !strncmp(text, "abstract:", 9)) {
		bool abstract = text[0] == 'a';
		const char *name = strchr(text, ':') + 1;

		a.un.sun_family = AF_UNIX;
		strncpy(a.un.sun_path + abstract, name,
			sizeof(a.un.sun_path) - 2);
		a.len = offsetof(struct sockaddr_un, sun_path) + strlen(name) +
			1;
		return a;
	}
	colon = strrchr(text, ':');
	if (text[0] == '[') {
		snprintf(host, sizeof(host), "%.*s", (int)(colon - text - 2),
			 text + 1);
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(atoi(colon + 1));
		a.len = sizeof(a.in6);
		scope = strchr(host, '%');
		if (scope) {
			*scope = 0;
			a.in6.sin6_scope_id = if_nametoindex(scope + 1);
		}
		if (inet_pton(AF_INET6, host, &a.in6.sin6_addr) != 1)
			abort();
	} else {
		snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(atoi(colon + 1));
		a.len = sizeof(a.in);
		if (inet_pton(AF_INET, host, &a.in.sin_addr) != 1)
			abort();
	}
	return a;
}

void addr_set_port(struct addr *a, int port)
{
	if (a->sa.sa_family == AF_INET)
		a->in.sin_port = htons(port);
	else if (a->sa.sa_family == AF_INET6)
		a->in6.sin6_port = htons(port);
}

int addr_port(const struct addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohs(a->in.sin_port);
	return a->sa.sa_family == AF_INET6 ? ntohs(a->in6.sin6_port) : 0;
}

int end_socket(enum end_kind kind, int family)
{
	int proto = family == AF_UNIX ? L5PROTO_UNIX :
		    family == AF_INET6 ? L5PROTO_INET6 : L5PROTO_INET;
	int fd;

	if (kind == END_TCP)
		fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	else if (kind == END_INET && family != AF_UNIX)
		fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_L5);
	else
		fd = socket(l5_family(), SOCK_STREAM | SOCK_CLOEXEC, proto);
	return fd < 0 ? -errno : fd;
}

int end_listen(enum end_kind kind, struct addr *a)
{
	int fd = end_socket(kind, a->sa.sa_family), one = 1, err;

	if (fd < 0)
		return fd;
	if (a->sa.sa_family == AF_UNIX && a->un.sun_path[0])
		unlink(a->un.sun_path);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &a->sa, a->len) || listen(fd, 4096)) {
		err = -errno;
		close(fd);
		return err;
	}
	if (a->sa.sa_family != AF_UNIX) {
		a->len = sizeof(a->ss);
		if (getsockname(fd, &a->sa, &a->len))
			abort();
	}
	return fd;
}

int end_connect(enum end_kind kind, const struct addr *a)
{
	int fd = end_socket(kind, a->sa.sa_family), err;

	if (fd < 0)
		return fd;
	if (connect(fd, &a->sa, a->len)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int end_poll(int fd, int events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do
		n = poll(&p, 1, LONG_MS);
	while (n < 0 && errno == EINTR);
	return n == 1 ? p.revents : 0;
}

bool end_put(int fd, size_t n, uint64_t pos)
{
	uint8_t buf[16384];

	while (n) {
		size_t want = n < sizeof(buf) ? n : sizeof(buf);
		ssize_t put;

		l5_fill(buf, want, pos);
		put = send(fd, buf, want, MSG_NOSIGNAL);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			fprintf(stderr, "# send at %llu: %s\n",
				(unsigned long long)pos, strerror(errno));
			return false;
		}
		pos += put;
		n -= put;
	}
	return true;
}

bool end_get(int fd, size_t n, uint64_t pos)
{
	uint8_t buf[16384];

	while (n) {
		size_t want = n < sizeof(buf) ? n : sizeof(buf);
		ssize_t got;

		if (!(end_poll(fd, POLLIN) & (POLLIN | POLLERR | POLLHUP))) {
			l5_fatal("nothing came at %llu",
				 (unsigned long long)pos);
			return false;
		}
		got = recv(fd, buf, want, MSG_DONTWAIT);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0) {
			if (got)
				fprintf(stderr, "# recv at %llu: %s\n",
					(unsigned long long)pos,
					strerror(errno));
			else
				l5_fatal("end of file at %llu",
					 (unsigned long long)pos);
			return false;
		}
		if (l5_check(buf, got, pos) >= 0) {
			fprintf(stderr, "# wrong byte at %llu\n",
				(unsigned long long)(pos +
						     l5_check(buf, got, pos)));
			return false;
		}
		pos += got;
		n -= got;
	}
	return true;
}

int64_t end_drain(int fd, uint64_t pos, int *err)
{
	uint64_t start = pos;
	uint8_t buf[16384];
	ssize_t got, bad;

	*err = 0;
	for (;;) {
		if (!end_poll(fd, POLLIN)) {
			l5_fatal("no end after %llu",
				 (unsigned long long)(pos - start));
			*err = ETIMEDOUT;
			break;
		}
		got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0) {
			*err = got ? errno : 0;
			break;
		}
		bad = l5_check(buf, got, pos);
		if (bad >= 0)
			return -1 - (int64_t)(pos + bad);
		pos += got;
	}
	return pos - start;
}

/* What one end has sent and received of an exchange. */
struct half {
	int fd;
	size_t sent, got;
};

static bool half_step(struct half *h, int revents, size_t n, uint64_t pos)
{
	uint8_t buf[16384];
	ssize_t done, bad;
	size_t want;

	if (revents & POLLOUT && h->sent < n) {
		want = n - h->sent < sizeof(buf) ? n - h->sent : sizeof(buf);
		l5_fill(buf, want, pos + h->sent);
		done = send(h->fd, buf, want, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (done > 0) {
			h->sent += done;
		} else if (errno != EAGAIN && errno != EINTR) {
			fprintf(stderr, "# send after %zu: %s\n", h->sent,
				strerror(errno));
			return false;
		}
	}
	if (revents & (POLLIN | POLLHUP | POLLERR)) {
		want = n - h->got < sizeof(buf) ? n - h->got : sizeof(buf);
		if (!want)
			return true;
		done = recv(h->fd, buf, want, MSG_DONTWAIT);
		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (done <= 0) {
			if (done)
				fprintf(stderr, "# recv after %zu: %s\n",
					h->got, strerror(errno));
			else
				l5_fatal("end of file after %zu", h->got);
			return false;
		}
		bad = l5_check(buf, done, pos + h->got);
		if (bad >= 0) {
			fprintf(stderr, "# wrong byte after %zu\n",
				h->got + bad);
			return false;
		}
		h->got += done;
	}
	return true;
}

bool end_exchange(int a, int b, size_t n, uint64_t pos)
{
	struct half h[2] = { { .fd = a }, { .fd = b } };
	struct pollfd p[2];
	int i, ready;

	for (;;) {
		bool done = true;

		for (i = 0; i < 2; i++) {
			p[i].fd = h[i].fd;
			p[i].events = (h[i].sent < n ? POLLOUT : 0) |
				      (h[i].got < n ? POLLIN : 0);
			p[i].revents = 0;
			if (p[i].events)
				done = false;
			else
				p[i].fd = -1;
		}
		if (done)
			return true;
		ready = poll(p, 2, LONG_MS);
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0) {
			l5_fatal("stuck: sent %zu got %zu, sent %zu got %zu of %zu",
				 h[0].sent, h[0].got, h[1].sent, h[1].got, n);
			return false;
		}
		for (i = 0; i < 2; i++)
			if (p[i].fd >= 0 &&
			    !half_step(&h[i], p[i].revents, n, pos))
				return false;
	}
}

bool kernel_asks_for_options(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	return major > 6 || (major == 6 && minor >= 12);
}

int end_reason(int fd)
{
	return l5_getopt(fd, L5_REASON);
}

const char *end_reason_name(int reason)
{
	static const char *const names[] = {
#define NAME(code, name, text)	[L5_REASON_##code] = name,
		L5_REASONS(NAME)
#undef NAME
	};

	return reason < 0 || reason >= L5_REASON_MAX ? "?" : names[reason];
}

bool end_stat_reaches(const char *name, long long value)
{
	int64_t end = l5_now_ms() + LONG_MS;
	long long v;

	while ((v = l5_stat(name)) != value) {
		if (l5_now_ms() > end) {
			/* of what is held: a leak; else something hangs */
			l5_fatal("%s is %lld, not %lld", name, v, value);
			return false;
		}
		usleep(20000);
	}
	return true;
}

int sh(const char *fmt, ...)
{
	char cmd[4096];
	va_list ap;
	int n;

	n = snprintf(cmd, sizeof(cmd), "exec 1>&2 </dev/null; ");
	va_start(ap, fmt);
	vsnprintf(cmd + n, sizeof(cmd) - n, fmt, ap);
	va_end(ap);
	n = system(cmd);
	if (n)
		fprintf(stderr, "# failed (%x): %s\n", n, cmd);
	return n;
}

bool net_unshare(void)
{
	return !unshare(CLONE_NEWNET) && !sh("ip link set lo up");
}

bool net_keeps_full(void)
{
	return net_unshare() && l5_sysctl("grow_ms", 0) >= 0;
}

int net_current(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int net_make(const char *name)
{
	char path[128];
	int fd;

	sh("ip netns del %s 2>/dev/null; true", name);
	if (sh("ip netns add %s && ip -n %s link set lo up", name, name))
		return -EINVAL;
	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool net_enter(int fd)
{
	return !setns(fd, CLONE_NEWNET);
}

void net_delete(const char *name)
{
	sh("ip netns del %s", name);
}

bool net_pair(int *a, int *b)
{
	*a = net_make("l5a");
	*b = net_make("l5b");
	if (*a < 0 || *b < 0)
		return false;
	return !sh("ip link add va netns l5a type veth peer name vb netns l5b && "
		   "ip -n l5a addr add 10.77.0.1/24 dev va && "
		   "ip -n l5b addr add 10.77.0.2/24 dev vb && "
		   "ip -n l5a link set va up && ip -n l5b link set vb up");
}

void net_pair_end(int a, int b)
{
	close(a);
	close(b);
	net_delete("l5a");
	net_delete("l5b");
}

bool capture_start(struct capture *c, const char *dev, int port)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(dev),
	};
	int big = 64 << 20;

	memset(c, 0, sizeof(*c));
	c->port = port;
	c->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return false;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	return !bind(c->fd, (struct sockaddr *)&ll, sizeof(ll));
}

/* Offset of the TCP header and the length of the packet, or -1. */
static int tcp_at(const uint8_t *p, ssize_t n, ssize_t *len)
{
	const struct ip6_hdr *ip6 = (const void *)p;
	const struct iphdr *ip = (const void *)p;

	if (n < (ssize_t)sizeof(*ip))
		return -1;
	if (ip->version == 4 && ip->protocol == IPPROTO_TCP) {
		*len = ntohs(ip->tot_len);
		return ip->ihl * 4;
	}
	if (ip->version == 6 && n >= (ssize_t)sizeof(*ip6) &&
	    ip6->ip6_nxt == IPPROTO_TCP) {
		*len = ntohs(ip6->ip6_plen) + sizeof(*ip6);
		return sizeof(*ip6);
	}
	return -1;
}

/*
 * How many of @len bytes were not sent before: a busy machine lets TCP send
 * some again. The flow is known by the other port and the direction.
 */
static ssize_t capture_new(const struct capture *c, const struct tcphdr *th,
			   ssize_t len)
{
	static uint32_t next[2][65536];
	bool out = ntohs(th->source) == c->port;
	uint32_t *n = &next[out][ntohs(out ? th->dest : th->source)];
	uint32_t seq = ntohl(th->seq);
	int32_t more = seq + len - *n;

	if (th->syn) {
		*n = seq + 1 + len;
		return len;
	}
	if (more <= 0)
		return 0;
	*n = seq + len;
	return more < len ? more : len;
}

bool capture_stop(struct capture *c)
{
	struct tpacket_stats st = { .tp_drops = 0 };
	socklen_t slen = sizeof(st);
	struct sockaddr_ll from;
	uint8_t buf[256];
	int ret;

	for (;;) {
		socklen_t flen = sizeof(from);
		const struct tcphdr *th;
		ssize_t n, len;
		int at;

		n = recvfrom(c->fd, buf, sizeof(buf), MSG_TRUNC,
			     (struct sockaddr *)&from, &flen);
		if (n < 0)
			break;
		/* what loops back is seen twice */
		if (from.sll_pkttype != PACKET_OUTGOING)
			continue;
		if (n > (ssize_t)sizeof(buf))
			n = sizeof(buf);
		at = tcp_at(buf, n, &len);
		if (at < 0 || n < at + (ssize_t)sizeof(*th))
			continue;
		th = (const void *)(buf + at);
		if (ntohs(th->source) != c->port && ntohs(th->dest) != c->port)
			continue;
		c->packets++;
		c->payload += capture_new(c, th, len - at - th->doff * 4);
	}
	ret = getsockopt(c->fd, SOL_PACKET, PACKET_STATISTICS, &st, &slen);
	close(c->fd);
	return !ret && !st.tp_drops;
}

size_t end_put_polled(int fd, uint64_t pos, size_t most, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	static char buf[50000];
	size_t done = 0;
	ssize_t n;

	while (done < most && poll(&p, 1, ms) == 1) {
		n = most - done < sizeof(buf) ? most - done : sizeof(buf);
		l5_fill(buf, n, pos + done);
		n = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			break;
		if (n > 0)
			done += n;
	}
	return done;
}

int end_echo(int fd)
{
	static char buf[65536];
	ssize_t n, at, put;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		for (at = 0; at < n; at += put) {
			put = send(fd, buf + at, n - at, MSG_NOSIGNAL);
			if (put <= 0)
				return 1;
		}
	return n ? 2 : 0;
}

int end_unread(int fd)
{
	int n;

	return ioctl(fd, FIONREAD, &n) ? -1 : n;
}

long end_splice_send(int fd, const void *b, long n)
{
	int p[2];

	if (n > 4000)
		n = 4000;
	if (pipe2(p, O_CLOEXEC) || write(p[1], b, n) != n)
		return -1;
	close(p[1]);
	n = splice(p[0], NULL, fd, NULL, n, 0);
	close(p[0]);
	return n;
}

long end_splice_recv(int fd, void *b, long n)
{
	long k, x;
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return -1;
	n = splice(fd, NULL, p[1], NULL, n > 8000 ? 8000 : n, 0);
	close(p[1]);
	for (k = 0; n > 0 && k < n; k += x) {
		x = read(p[0], (char *)b + k, n - k);
		if (x <= 0)
			n = -1;
	}
	close(p[0]);
	return n;
}

long end_sendfile(int fd, const void *b, long n)
{
	int file = memfd_create("l5", MFD_CLOEXEC);

	if (file < 0 || pwrite(file, b, n, 0) != n)
		return -1;
	n = sendfile(fd, file, NULL, n);
	close(file);
	return n;
}
