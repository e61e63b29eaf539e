// SPDX-License-Identifier: GPL-2.0
/*
 * The bootstrap while rings carry the stream: what a packet can still do to it.
 * A peer that may send raw packets in its own network namespace is its own TCP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

/* The Internet checksum of TCP's header and bytes, over IPv4's pseudo-header */
static unsigned short tcp_sum(const struct iphdr *ip, const void *tcp, size_t n)
{
	const unsigned char *p = tcp;
	unsigned int sum = IPPROTO_TCP + n;
	size_t i;

	sum += (ntohl(ip->saddr) >> 16) + (ntohl(ip->saddr) & 0xffff);
	sum += (ntohl(ip->daddr) >> 16) + (ntohl(ip->daddr) & 0xffff);
	for (i = 0; i < n; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

/*
 * Hear the server's SYN/ACK on the loopback device, and send @n bytes as the
 * client that got it would; with the flag URG if so asked.
 */
static bool send_beside(int packets, const struct sockaddr_in *server,
			const char *bytes, size_t n, bool urgent)
{
	struct sockaddr_in to = *server;
	union {
		struct iphdr ip;
		char room[256];
	} in, out = { .room = "" };
	struct tcphdr *t, *o = (struct tcphdr *)(out.room + sizeof(out.ip));
	ssize_t len;
	int raw;

	do {
		len = recv(packets, &in, sizeof(in), MSG_DONTWAIT);
		if (len < 0)
			return false;
		t = (struct tcphdr *)(in.room + 4 * in.ip.ihl);
	} while (in.ip.protocol != IPPROTO_TCP || !t->syn || !t->ack ||
		 t->source != server->sin_port);

	out.ip.version = 4;
	out.ip.ihl = 5;
	out.ip.ttl = 64;
	out.ip.protocol = IPPROTO_TCP;
	out.ip.saddr = in.ip.daddr;
	out.ip.daddr = in.ip.saddr;
	o->source = t->dest;
	o->dest = t->source;
	o->seq = t->ack_seq;
	o->ack_seq = htonl(ntohl(t->seq) + 1);
	o->doff = sizeof(*o) / 4;
	o->ack = 1;
	o->psh = 1;
	o->urg = urgent;
	o->urg_ptr = htons(urgent ? n : 0);
	o->window = htons(500);
	memcpy(o + 1, bytes, n);
	o->check = tcp_sum(&out.ip, o, sizeof(*o) + n);
	raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	n += sizeof(out.ip) + sizeof(*o);
	len = sendto(raw, &out, n, 0, (struct sockaddr *)&to, sizeof(to));
	close(raw);
	return len == (ssize_t)n;
}

FIXTURE(rendezvous_wire)
{
	int packets;
	int l, c, s;
	struct addr to;
};

FIXTURE_VARIANT(rendezvous_wire)
{
	bool urgent;
};

FIXTURE_VARIANT_ADD(rendezvous_wire, bytes)
{
	.urgent = false,
};

FIXTURE_VARIANT_ADD(rendezvous_wire, urgent)
{
	.urgent = true,
};

FIXTURE_SETUP(rendezvous_wire)
{
	l5_or_skip();
	self->packets = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
	if (self->packets < 0)
		SKIP(return, "no packet sockets here");
	self->to = addr_parse("127.0.0.1:0");
	self->l = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->l);
	self->c = end_connect(END_L5, &self->to);
	ASSERT_LE(0, self->c);
	self->s = accept(self->l, NULL, NULL);
	ASSERT_LE(0, self->s);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->s));
}

FIXTURE_TEARDOWN(rendezvous_wire)
{
	close(self->packets);
	close(self->l);
	close(self->c);
	close(self->s);
}

static unsigned long long tcp_received(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_bytes_received;
}

/*
 * Bytes that come to the bootstrap once the rings carry the stream belong to no
 * one. A program that waits for something to read must not be told of them: it
 * would read nothing, and be told again, for ever.
 */
TEST_F(rendezvous_wire, bytes_are_no_news)
{
	unsigned long long before = tcp_received(self->s);
	struct epoll_event e = { .events = EPOLLIN };
	struct pollfd p = { .fd = self->s, .events = POLLIN };
	int set = epoll_create1(0), i;
	char c;

	ASSERT_LE(0, set);
	ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_ADD, self->s, &e));
	ASSERT_TRUE(send_beside(self->packets, &self->to.in, "abc", 3,
				variant->urgent));
	for (i = 0; i < 1000 && tcp_received(self->s) == before; i++)
		usleep(10000);
	ASSERT_LT(before, tcp_received(self->s));

	EXPECT_EQ(0, epoll_wait(set, &e, 1, 0));
	EXPECT_EQ(0, poll(&p, 1, 0));
	EXPECT_EQ(-1, recv(self->s, &c, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);

	ASSERT_EQ(1, send(self->c, "x", 1, 0));
	EXPECT_EQ(1, epoll_wait(set, &e, 1, 10000));
	EXPECT_EQ(EPOLLIN, e.events);
	ASSERT_EQ(1, recv(self->s, &c, 1, 0));
	EXPECT_EQ('x', c);
	EXPECT_EQ(0, epoll_wait(set, &e, 1, 0));
	close(set);
}

TEST_HARNESS_MAIN
