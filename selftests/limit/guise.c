// SPDX-License-Identifier: GPL-2.0
/*
 * An AF_L5 socket says that it is a TCP socket, and is none: any part of the
 * kernel that would use it as such has to find what it reads there, or be
 * refused. On a debug kernel these tests say more than by their results.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/kcm.h>
#include <linux/net_tstamp.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "bpf.h"
#include "limit_ends.h"

LIMIT_FIXTURE(limit_guise)

#ifndef SO_RESERVE_MEM
#define SO_RESERVE_MEM		73
#endif
#define SO_DEVMEM_DONTNEED_	80

/* Put @fd into a new sockmap: 0 or an errno. */
static int into_sockmap(int fd)
{
	union bpf_attr attr;
	int map, key = 0, ret;
	uint64_t value = fd;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_SOCKMAP;
	attr.key_size = sizeof(key);
	attr.value_size = sizeof(value);
	attr.max_entries = 1;
	map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0)
		return -errno;
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (unsigned long)&key;
	attr.value = (unsigned long)&value;
	ret = bpf(BPF_MAP_UPDATE_ELEM, &attr) ? errno : 0;
	close(map);
	return ret;
}

/* Let a KCM socket take @fd: 0 or an errno; -1 where there is no KCM. */
static int into_kcm(int fd)
{
	struct bpf_insn all[] = {
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	struct kcm_attach how = { .fd = fd };
	union bpf_attr attr;
	int k, ret;

	k = socket(AF_KCM, SOCK_SEQPACKET, KCMPROTO_CONNECTED);
	if (k < 0)
		return -1;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (unsigned long)all;
	attr.insn_cnt = ARRAY_SIZE(all);
	attr.license = (unsigned long)"GPL";
	how.bpf_fd = bpf(BPF_PROG_LOAD, &attr);
	if (how.bpf_fd < 0)
		return -1;
	ret = ioctl(k, SIOCKCMATTACH, &how) ? errno : 0;
	close(how.bpf_fd);
	close(k);
	return ret;
}

/* Nothing takes it over, and it still works afterwards. */
TEST_F_TIMEOUT(limit_guise, not_taken_over, 300)
{
	int c, s, kcm;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	EXPECT_EQ(EOPNOTSUPP, into_sockmap(c));
	EXPECT_EQ(EOPNOTSUPP, into_sockmap(self->listener));
	kcm = into_kcm(c);
	if (kcm >= 0)
		EXPECT_EQ(EALREADY, kcm);
	EXPECT_TRUE(end_exchange(c, s, 3000, 0));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	close(c);
	close(s);
}

/* A protocol above TCP could take the bootstrap, and the file that it shows. */
TEST_F_TIMEOUT(limit_guise, only_tls_above, 300)
{
	static const char *const ulp[] = { "smc", "espintcp", "mptcp", "tlsx" };
	struct addr at = addr_parse("127.0.0.1:0");
	unsigned int i;
	int l, c, s;

	l = end_listen(END_TCP, &at);
	ASSERT_LE(0, l);
	c = end_connect(END_L5, &at);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	for (i = 0; i < ARRAY_SIZE(ulp); i++) {
		EXPECT_EQ(-1, setsockopt(c, SOL_TCP, TCP_ULP, ulp[i],
					 strlen(ulp[i])));
		EXPECT_EQ(ENOENT, errno);
	}
	EXPECT_EQ(-1, setsockopt(c, SOL_TCP, TCP_ULP, "", 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, setsockopt(c, SOL_TCP, TCP_ULP, NULL, 3));
	EXPECT_EQ(EFAULT, errno);
	/* as far as this kernel has it */
	EXPECT_EQ(setsockopt(s, SOL_TCP, TCP_ULP, "tls", 3),
		  setsockopt(c, SOL_TCP, TCP_ULP, "tls", 3));
	close(c);
	close(s);
	close(l);
}

/* What SOL_SOCKET has for TCP alone, on a fresh and a connected socket. */
TEST_F_TIMEOUT(limit_guise, socket_level, 300)
{
	struct sock_filter all = { BPF_RET | BPF_K, 0, 0, 0 };
	struct sock_fprog prog = { 1, &all };
	uint32_t tokens[2] = { 0, 1 };
	struct addr at = self->to;
	int c, s, l, t, i, one = 1, mem = 1 << 20;
	int stamp = SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_TX_SOFTWARE;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	for (i = 0; i < 2; i++) {
		int fd = i ? end_socket(END_L5, AF_INET) : c, err, own;

		at = addr_parse("127.0.0.1:0");
		l = end_listen(END_TCP, &at);
		ASSERT_LE(0, l);
		t = i ? end_socket(END_TCP, AF_INET) :
			end_connect(END_TCP, &at);
		ASSERT_LE(0, t);
		/* nothing is reserved for a socket that is charged nothing */
		EXPECT_EQ(-1, setsockopt(fd, SOL_SOCKET, SO_RESERVE_MEM, &mem,
					 sizeof(mem)));
		EXPECT_EQ(EOPNOTSUPP, errno);
		err = setsockopt(t, SOL_SOCKET, SO_TIMESTAMPING, &stamp,
				 sizeof(stamp)) ? errno : 0;
		EXPECT_EQ(err, setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING,
					  &stamp, sizeof(stamp)) ? errno : 0);
		err = setsockopt(t, SOL_SOCKET, SO_DEVMEM_DONTNEED_, tokens,
				 sizeof(tokens));
		EXPECT_EQ(err, setsockopt(fd, SOL_SOCKET, SO_DEVMEM_DONTNEED_,
					  tokens, sizeof(tokens)));
		/*
		 * No program that would be asked about no connection: where the
		 * kernel asks it is the bootstrap's, which shares its port.
		 */
		EXPECT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one,
					sizeof(one)));
		EXPECT_EQ(0, setsockopt(t, SOL_SOCKET, SO_REUSEPORT, &one,
					sizeof(one)));
		own = setsockopt(t, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
				 &prog, sizeof(prog)) ? errno : 0;
		err = setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
				 &prog, sizeof(prog)) ? errno : 0;
		/* the library of l5run asks the bootstrap instead */
		if (!getenv("L5_FULL"))
			EXPECT_EQ(kernel_asks_for_options() ? own : EINVAL,
				  err);
		close(t);
		close(l);
		if (i) {
			/* the bootstrap takes it, once it shares its port */
			EXPECT_EQ(0, setsockopt(fd, SOL_L5_SOCKET,
						SO_ATTACH_REUSEPORT_CBPF,
						&prog, sizeof(prog)));
			close(fd);
		}
	}
	EXPECT_TRUE(end_exchange(c, s, 3000, 0));
	close(c);
	close(s);
}

/*
 * Listeners to the end of each TCP socket hear of a bootstrap's end, as of any
 * other, and not of its owner's, which has nothing to tell.
 */
TEST_F_TIMEOUT(limit_guise, end_is_told_once, 300)
{
	int group = SKNLGRP_INET_TCP_DESTROY, k, nl, n[2] = { 0, 0 };
	struct sockaddr_nl me = { .nl_family = AF_NETLINK };
	char buf[8192];

	if (sh("modprobe -q tcp_diag"))
		SKIP(return, "no tcp_diag");
	nl = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	ASSERT_LE(0, nl);
	ASSERT_EQ(0, bind(nl, (void *)&me, sizeof(me)));
	ASSERT_EQ(0, setsockopt(nl, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group,
				sizeof(group)));
	for (k = END_TCP; k <= END_L5; k++) {
		int i, fd[20], last = 0;

		for (i = 0; i < 20; i++) {
			fd[i] = end_socket(k, AF_INET);
			ASSERT_LE(0, fd[i]);
		}
		for (i = 0; i < 20; i++)
			close(fd[i]);
		/* and until nothing has come for a while */
		for (i = 0; i < 10 || (n[k] < 20 && i < 600); i++) {
			while (recv(nl, buf, sizeof(buf), 0) > 0)
				n[k]++;
			if (n[k] != last)
				i = 0;
			last = n[k];
			usleep(50000);
		}
	}
	EXPECT_EQ(20, n[END_TCP]);
	EXPECT_EQ(20, n[END_L5]);
	close(nl);
}

/*
 * Is a datagram stamped when it arrives? When it is read, if the kernel thinks
 * that nobody wants to know.
 */
static bool stamped_on_arrival(void)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	struct sockaddr_in a = { .sin_family = AF_INET };
	char control[CMSG_SPACE(sizeof(struct timespec))], c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct timespec arrived, now, stamp = { 0 };
	struct pollfd p = { .events = POLLIN };
	socklen_t len = sizeof(a);
	struct cmsghdr *h;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (s < 0 || bind(s, (void *)&a, len) ||
	    getsockname(s, (void *)&a, &len) ||
	    setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		return false;
	/*
	 * What counts is told to all processors by a work. Nothing shows that
	 * it has run: a stamp may be due to what was told before.
	 */
	usleep(200000);
	p.fd = s;
	if (sendto(s, "x", 1, 0, (void *)&a, sizeof(a)) != 1 ||
	    poll(&p, 1, 10000 * l5_slow()) != 1)
		return false;
	clock_gettime(CLOCK_REALTIME, &arrived);
	/* a stamp from here on is a later one */
	do
		clock_gettime(CLOCK_REALTIME, &now);
	while (now.tv_sec == arrived.tv_sec && now.tv_nsec == arrived.tv_nsec);
	if (recvmsg(s, &msg, 0) != 1)
		return false;
	for (h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h))
		if (h->cmsg_level == SOL_SOCKET &&
		    h->cmsg_type == SCM_TIMESTAMPNS)
			memcpy(&stamp, CMSG_DATA(h), sizeof(stamp));
	close(s);
	return stamp.tv_sec && (stamp.tv_sec < arrived.tv_sec ||
				(stamp.tv_sec == arrived.tv_sec &&
				 stamp.tv_nsec <= arrived.tv_nsec));
}

/* Whoever asks for time stamps and closes takes nobody else's away. */
TEST_F_TIMEOUT(limit_guise, time_stamps, 300)
{
	static const int option[] = {
		SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING,
	};
	int proto, i, k, fd, on = SOF_TIMESTAMPING_RX_SOFTWARE;
	long long had = l5_references();

	ASSERT_TRUE(stamped_on_arrival());
	for (proto = 0; proto <= L5PROTO_UNIX; proto++) {
		for (i = 0; i < (int)ARRAY_SIZE(option); i++) {
			for (k = 0; k < 50; k++) {
				fd = socket(l5_family(), SOCK_STREAM, proto);
				ASSERT_LE(0, fd);
				ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET,
							option[i], &on,
							sizeof(on)));
				close(fd);
			}
		}
		/* the last of such sockets goes after a grace period */
		EXPECT_TRUE(l5_comes_back(l5_references, 0, had,
					  30000 * l5_slow()));
		for (i = 0; i < 3; i++) {
			EXPECT_TRUE(stamped_on_arrival()) {
				TH_LOG("not after protocol %d", proto);
			}
		}
	}
}

/* Listen and connect; nothing calls the listener after it is told an option. */
static bool late(enum end_kind kind, int level, int name, const void *val,
		 socklen_t len, int *c, int *s)
{
	struct addr at = addr_parse("127.0.0.1:0");
	int l = end_listen(kind, &at), on;

	*c = -1;
	*s = -1;
	if (l < 0)
		return false;
	on = setsockopt(l, level, name, val, len);
	if (!on)
		*c = end_connect(kind, &at);
	if (*c >= 0)
		*s = accept(l, NULL, NULL);
	close(l);
	return on || *s >= 0;
}

/* What a listener is told last is what the next connection has. */
TEST_F_TIMEOUT(limit_guise, late_options, 300)
{
	static const struct timeval tv = { .tv_sec = 7 };
	static const struct linger li = { 1, 3 };
	static const int one = 1, seven = 7, big = 200000;
	static const struct {
		const char *name;
		int opt;
		const void *val;
		socklen_t len;
	} o[] = {
		{ "LINGER", SO_LINGER, &li, sizeof(li) },
		{ "RCVTIMEO", SO_RCVTIMEO, &tv, sizeof(tv) },
		{ "SNDTIMEO", SO_SNDTIMEO, &tv, sizeof(tv) },
		{ "RCVBUF", SO_RCVBUF, &big, sizeof(big) },
		{ "MARK", SO_MARK, &seven, sizeof(seven) },
		{ "PRIORITY", SO_PRIORITY, &seven, sizeof(seven) },
		{ "OOBINLINE", SO_OOBINLINE, &one, sizeof(one) },
		{ "DONTROUTE", SO_DONTROUTE, &one, sizeof(one) },
		{ "KEEPALIVE", SO_KEEPALIVE, &one, sizeof(one) },
		{ "TIMESTAMP", SO_TIMESTAMP, &one, sizeof(one) },
		{ "TIMESTAMPNS", SO_TIMESTAMPNS, &one, sizeof(one) },
		{ "RXQ_OVFL", SO_RXQ_OVFL, &one, sizeof(one) },
		{ "SELECT_ERR_QUEUE", SO_SELECT_ERR_QUEUE, &one, sizeof(one) },
	};
	unsigned int i;
	int k, c, s;

	for (i = 0; i < ARRAY_SIZE(o); i++) {
		char got[2][32] = { };
		socklen_t len[2];

		for (k = END_TCP; k <= END_L5; k++) {
			ASSERT_TRUE(late(k, SOL_SOCKET, o[i].opt, o[i].val,
					 o[i].len, &c, &s));
			ASSERT_LE(0, s);
			len[k] = sizeof(got[k]);
			EXPECT_EQ(0, getsockopt(s, SOL_SOCKET, o[i].opt,
						got[k], &len[k]));
			close(c);
			close(s);
		}
		EXPECT_EQ(len[END_TCP], len[END_L5]);
		EXPECT_EQ(0, memcmp(got[0], got[1], len[0])) {
			TH_LOG("%s: %d on TCP, %d here", o[i].name,
			       *(int *)got[END_TCP], *(int *)got[END_L5]);
		}
	}
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS		83
#endif

/* What a receiver does not want to be sent is refused to the sender. */
TEST_F_TIMEOUT(limit_guise, no_rights_wanted, 120)
{
	int off = 0, k, c, s, when;

	for (when = 0; when < 2; when++) {
		int got[2] = { 0, 0 };

		for (k = END_TCP; k <= END_L5; k++) {
			struct addr at = addr_parse("abstract:l5_guise");
			char control[CMSG_SPACE(sizeof(int))] = { };
			struct iovec iov = { "x", 1 };
			struct msghdr msg = {
				.msg_iov = &iov, .msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = sizeof(control),
			};
			struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
			int l = end_listen(k, &at);

			ASSERT_LE(0, l);
			if (!when && setsockopt(l, SOL_SOCKET, SO_PASSRIGHTS,
						&off, sizeof(off)))
				SKIP(return, "no SO_PASSRIGHTS");
			/* one that is no AF_L5 socket and so may send any */
			c = end_connect(END_TCP, &at);
			ASSERT_LE(0, c);
			s = accept(l, NULL, NULL);
			ASSERT_LE(0, s);
			if (when)
				ASSERT_EQ(0, setsockopt(s, SOL_SOCKET,
							SO_PASSRIGHTS, &off,
							sizeof(off)));
			h->cmsg_level = SOL_SOCKET;
			h->cmsg_type = SCM_RIGHTS;
			h->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(h), &l, sizeof(int));
			got[k] = sendmsg(c, &msg, 0) < 0 ? errno : 0;
			close(c);
			close(s);
			close(l);
		}
		EXPECT_EQ(got[END_TCP], got[END_L5]);
	}
}

/* The sender is known of the first message after that was asked for. */
TEST_F_TIMEOUT(limit_guise, credentials_at_once, 120)
{
	int k, c, s, on = 1;

	for (k = END_TCP; k <= END_L5; k++) {
		struct addr at = addr_parse("abstract:l5_guise");
		char control[CMSG_SPACE(sizeof(struct ucred))], b[4];
		struct iovec iov = { b, sizeof(b) };
		struct msghdr msg = {
			.msg_iov = &iov, .msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		int l = end_listen(k, &at);
		struct ucred who = { };

		ASSERT_LE(0, l);
		c = end_connect(END_TCP, &at);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(0, setsockopt(s, SOL_SOCKET, SO_PASSCRED, &on,
					sizeof(on)));
		ASSERT_EQ(1, send(c, "x", 1, 0));
		ASSERT_EQ(1, recvmsg(s, &msg, 0));
		ASSERT_NE(NULL, CMSG_FIRSTHDR(&msg));
		memcpy(&who, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(who));
		EXPECT_EQ(getpid(), who.pid);
		EXPECT_EQ(getuid(), who.uid);
		close(c);
		close(s);
		close(l);
	}
}

/* A connection whose client asks for time stamps stays where there are any. */
TEST_F_TIMEOUT(limit_guise, stamped_bytes, 120)
{
	static const int option[] = { SO_TIMESTAMP, SO_TIMESTAMPNS };
	int i, k, c, s, n, on = 1;

	for (i = 0; i < (int)ARRAY_SIZE(option); i++) {
		for (k = END_TCP; k <= END_L5; k++) {
			struct addr at = addr_parse("127.0.0.1:0");
			char control[CMSG_SPACE(64)], b[4];
			struct iovec iov = { b, sizeof(b) };
			struct msghdr msg = {
				.msg_iov = &iov, .msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = sizeof(control),
			};
			struct cmsghdr *h;
			int l = end_listen(k, &at);

			ASSERT_LE(0, l);
			c = end_socket(k, AF_INET);
			ASSERT_LE(0, c);
			ASSERT_EQ(0, setsockopt(c, SOL_SOCKET, option[i], &on,
						sizeof(on)));
			ASSERT_EQ(0, connect(c, &at.sa, at.len));
			s = accept(l, NULL, NULL);
			ASSERT_LE(0, s);
			/* the kernel begins with it in a work */
			for (h = NULL, n = 0; !h && n < 100; n++) {
				ASSERT_EQ(1, send(s, "x", 1, 0));
				msg.msg_controllen = sizeof(control);
				ASSERT_EQ(1, recvmsg(c, &msg, 0));
				h = CMSG_FIRSTHDR(&msg);
				usleep(10000);
			}
			EXPECT_NE(NULL, h) {
				TH_LOG("option %d of kind %d: no stamp",
				       option[i], k);
			}
			if (h)
				EXPECT_EQ(option[i], h->cmsg_type);
			close(c);
			close(s);
			close(l);
		}
	}
}

#define URING_CMD	46	/* IORING_OP_URING_CMD */

/* io_uring's commands for sockets: how much is there? As far as there are. */
TEST_F_TIMEOUT(limit_guise, uring_commands, 120)
{
	int cmd, i, k, c, s, got[2];

	for (cmd = 0; cmd < 2; cmd++) {
		for (k = END_TCP; k <= END_L5; k++) {
			struct addr at = addr_parse("127.0.0.1:0");
			int l = end_listen(k, &at);
			struct io_uring_sqe *sqe;
			struct io_uring_cqe *cqe;
			struct io_uring ring;

			ASSERT_LE(0, l);
			c = end_connect(k, &at);
			s = accept(l, NULL, NULL);
			ASSERT_LE(0, s);
			ASSERT_EQ(5, send(c, "hello", 5, 0));
			ASSERT_EQ(0, io_uring_queue_init(2, &ring, 0));
			if (cmd) {
				char b[5];

				ASSERT_EQ(5, recv(s, b, 5, MSG_WAITALL));
			}
			/* until what was read has been acknowledged */
			for (i = 0; i < 500; i++) {
				sqe = io_uring_get_sqe(&ring);
				io_uring_prep_rw(URING_CMD, sqe, cmd ? c : s,
						 NULL, 0, cmd);
				ASSERT_EQ(1, io_uring_submit(&ring));
				ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
				got[k] = cqe->res;
				io_uring_cqe_seen(&ring, cqe);
				if (!cmd || got[k] <= 0)
					break;
				usleep(20000);
			}
			io_uring_queue_exit(&ring);
			close(c);
			close(s);
			close(l);
		}
		EXPECT_EQ(got[END_TCP], got[END_L5]);
	}
}

/*
 * A program of a cgroup that looks, at each setsockopt(), at what TCP has in
 * its own part of a socket, and lets it go on.
 */
static int looks_at_tcp(void)
{
	struct bpf_insn insns[] = {
		{ BPF_LDX | BPF_DW | BPF_MEM, BPF_REG_1, BPF_REG_1,
		  offsetof(struct bpf_sockopt, sk), 0 },
		{ BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_1, 0, 4, 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_tcp_sock },
		{ BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0 },
		{ BPF_LDX | BPF_W | BPF_MEM, BPF_REG_1, BPF_REG_0,
		  offsetof(struct bpf_tcp_sock, snd_cwnd), 0 },
		{ BPF_LDX | BPF_W | BPF_MEM, BPF_REG_1, BPF_REG_0,
		  offsetof(struct bpf_tcp_sock, icsk_retransmits), 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return bpf_load(BPF_PROG_TYPE_CGROUP_SOCKOPT,
			BPF_CGROUP_SETSOCKOPT, insns,
			ARRAY_SIZE(insns));
}

/*
 * A program that sets an option by itself, each time, on the socket it is
 * shown.
 */
static int sets(int level, int opt, const char value[8], int len)
{
	int32_t half[2];
	struct bpf_insn insns[] = {
		{ BPF_LDX | BPF_DW | BPF_MEM, BPF_REG_1, BPF_REG_1,
		  offsetof(struct bpf_sockopt, sk), 0 },
		{ BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_1, 0, 8, 0 },
		{ BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -8, 0 },
		{ BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, level },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, opt },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_4, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_4, 0, 0, -8 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_5, 0, 0, len },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_setsockopt },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	memcpy(half, value, sizeof(half));
	insns[2].imm = half[0];
	insns[3].imm = half[1];
	return bpf_load(BPF_PROG_TYPE_CGROUP_SOCKOPT,
			BPF_CGROUP_SETSOCKOPT, insns,
			ARRAY_SIZE(insns));
}

/* A device that a socket is bound to holds from the call on, as of TCP. */
TEST_F_TIMEOUT(limit_guise, device_at_once, 120)
{
	int k, l, c, home = net_current();
	char name[16] = "";
	struct addr to;
	socklen_t len;

	ASSERT_TRUE(net_unshare());
	if (sh("ip link add l5dev type dummy && ip link set l5dev up && "
	       "ip addr add fe80::77/64 dev l5dev nodad")) {
		net_enter(home);
		SKIP(return, "no dummy device");
	}
	for (k = END_TCP; k <= END_L5; k++) {
		to = addr_parse("127.0.0.1:0");
		l = end_listen(k, &to);
		ASSERT_LE(0, l);
		ASSERT_EQ(0, setsockopt(l, SOL_SOCKET, SO_BINDTODEVICE,
					"l5dev", 5));
		EXPECT_EQ(-ECONNREFUSED, end_connect(END_TCP, &to));
		ASSERT_EQ(0, setsockopt(l, SOL_SOCKET, SO_BINDTODEVICE, "",
					0));
		c = end_connect(END_TCP, &to);
		EXPECT_LE(0, c);
		close(c);
		close(l);

		/* and what bind() did shows */
		to = addr_parse("[fe80::77]:0");
		to.in6.sin6_scope_id = if_nametoindex("l5dev");
		c = end_socket(k, AF_INET6);
		ASSERT_LE(0, c);
		EXPECT_EQ(0, bind(c, &to.sa, to.len));
		len = sizeof(name);
		EXPECT_EQ(0, getsockopt(c, SOL_SOCKET, SO_BINDTODEVICE, name,
					&len));
		EXPECT_STREQ("l5dev", name);
		memset(name, 0, sizeof(name));
		close(c);
	}
	net_enter(home);
}

/* What TCP keeps in its part of a socket is not there to be changed. */
TEST_F_TIMEOUT(limit_guise, bpf_sets, 300)
{
	static const struct {
		int level, opt, len;
		char value[8];
	} games[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 4, { 1 } },
		{ SOL_SOCKET, SO_RCVLOWAT, 4, { 4 } },
		{ SOL_SOCKET, SO_BINDTOIFINDEX, 4, { 1 } },
		{ SOL_SOCKET, SO_SNDBUF, 4, { 0, 16 } },
		{ SOL_SOCKET, SO_RCVBUF, 4, { 0, 16 } },
		{ SOL_SOCKET, SO_PRIORITY, 4, { 3 } },
		{ SOL_SOCKET, SO_MARK, 4, { 7 } },
		{ SOL_SOCKET, SO_MAX_PACING_RATE, 4, { 0, 0, 1 } },
		{ SOL_SOCKET, SO_REUSEADDR, 4, { 1 } },
		{ SOL_TCP, TCP_CONGESTION, 5, "reno" },
		{ SOL_TCP, TCP_CONGESTION, 6, "cubic" },
		{ SOL_TCP, TCP_NODELAY, 4, { 1 } },
		{ SOL_TCP, TCP_MAXSEG, 4, { 0, 4 } },
		{ SOL_TCP, TCP_KEEPIDLE, 4, { 1 } },
		{ SOL_TCP, TCP_KEEPINTVL, 4, { 1 } },
		{ SOL_TCP, TCP_SYNCNT, 4, { 1 } },
		{ SOL_TCP, TCP_USER_TIMEOUT, 4, { 1 } },
		{ SOL_TCP, TCP_WINDOW_CLAMP, 4, { 0, 16 } },
		{ SOL_TCP, TCP_NOTSENT_LOWAT, 4, { 1 } },
		{ SOL_IP, IP_TOS, 4, { 16 } },
		{ SOL_IPV6, IPV6_TCLASS, 4, { 16 } },
	};
	int c, s, f, f6, prog, dir, one = 1;
	long long had = l5_references();
	unsigned int i;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &one,
				sizeof(one)));
	mkdir("/tmp/l5_cgroup", 0700);
	ASSERT_EQ(0, mount("none", "/tmp/l5_cgroup", "cgroup2", 0, NULL));
	dir = open("/tmp/l5_cgroup", O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, dir);
	for (i = 0; i < ARRAY_SIZE(games); i++) {
		prog = sets(games[i].level, games[i].opt, games[i].value,
			    games[i].len);
		ASSERT_LE(0, prog)
			TH_LOG("%m");
		ASSERT_TRUE(bpf_attach(dir, prog, BPF_CGROUP_SETSOCKOPT, true));
		f = end_socket(END_L5, AF_INET);
		f6 = end_socket(END_L5, AF_INET6);
		ASSERT_LE(0, f);
		ASSERT_LE(0, f6);
		EXPECT_EQ(0, setsockopt(f, SOL_SOCKET, SO_KEEPALIVE, &one,
					sizeof(one)));
		EXPECT_EQ(0, setsockopt(f6, SOL_SOCKET, SO_KEEPALIVE, &one,
					sizeof(one)));
		EXPECT_EQ(0, setsockopt(c, SOL_SOCKET, SO_BROADCAST, &one,
					sizeof(one)));
		EXPECT_EQ(0, setsockopt(self->listener, SOL_SOCKET,
					SO_KEEPALIVE, &one, sizeof(one)));
		ASSERT_TRUE(bpf_attach(dir, prog, BPF_CGROUP_SETSOCKOPT,
				       false));
		close(prog);
		close(f);
		close(f6);
	}
	/* what a keepalive of one second would have ended by now */
	sleep(2);
	EXPECT_TRUE(end_exchange(c, s, 10000, 0));
	close(dir);
	close(c);
	close(s);
	/* nothing that was started holds a socket */
	for (i = 0; l5_references() > had && i < 600; i++)
		usleep(100000);
	EXPECT_GE(had, l5_references());
	umount("/tmp/l5_cgroup");
	rmdir("/tmp/l5_cgroup");
}

TEST_F_TIMEOUT(limit_guise, bpf_looks, 300)
{
	int c, s, u, prog, dir, one = 1;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	u = end_socket(END_L5, AF_UNIX);
	ASSERT_LE(0, u);
	prog = looks_at_tcp();
	ASSERT_LE(0, prog);
	mkdir("/tmp/l5_cgroup", 0700);
	ASSERT_EQ(0, mount("none", "/tmp/l5_cgroup", "cgroup2", 0, NULL));
	dir = open("/tmp/l5_cgroup", O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, dir);
	ASSERT_TRUE(bpf_attach(dir, prog, BPF_CGROUP_SETSOCKOPT, true));
	EXPECT_EQ(0, setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &one,
				sizeof(one)));
	EXPECT_EQ(0, setsockopt(s, SOL_TCP, TCP_NODELAY, &one, sizeof(one)));
	EXPECT_EQ(0, setsockopt(u, SOL_SOCKET, SO_PASSCRED, &one,
				sizeof(one)));
	ASSERT_TRUE(bpf_attach(dir, prog, BPF_CGROUP_SETSOCKOPT, false));
	close(prog);
	close(dir);
	close(u);
	close(c);
	close(s);
	umount("/tmp/l5_cgroup");
	rmdir("/tmp/l5_cgroup");
}

TEST_HARNESS_MAIN
