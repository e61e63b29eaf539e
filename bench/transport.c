// SPDX-License-Identifier: GPL-2.0
/*
 * Transports: the same connection over TCP, AF_UNIX and AF_L5.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <netinet/tcp.h>

#include "../userspace/lib/l5_counts.h"
#include "../userspace/lib/native.h"

#define MEM_RING	LINE_RING
#define PATIENCE_MS	10000		/* until RDMA is known to carry it */

static const struct transport transports[] = {
	{ "tcp",	AF_INET, 0, -1, CARRIER_SOCKET, 0 },
	{ "unix",	AF_UNIX, 0, -1, CARRIER_SOCKET, 0 },
	{ "l5",		AF_INET, 0, L5PROTO_INET, CARRIER_SOCKET, 0 },
	{ "l5-unix",	AF_UNIX, 0, L5PROTO_UNIX, CARRIER_SOCKET, 0 },
	{ "unix-packet", AF_UNIX, 0, -1, CARRIER_SOCKET, SOCK_SEQPACKET },
	{ "l5-packet",	AF_UNIX, 0, L5PROTO_UNIX, CARRIER_SOCKET,
	  SOCK_SEQPACKET },
	{ "lib",	AF_INET, 0, L5PROTO_INET, CARRIER_LIB, 0 },
	{ "lib-packet",	AF_UNIX, 0, L5PROTO_UNIX, CARRIER_LIB, SOCK_SEQPACKET },
	{ "smc",	AF_INET, AF_SMC, -1, CARRIER_SOCKET, 0 },
	{ "mem",	AF_UNSPEC, 0, -1, CARRIER_MEM, 0 },
	{ "line",	AF_UNSPEC, 0, -1, CARRIER_LINE, 0 },
	{ "lines",	AF_UNSPEC, 0, -1, CARRIER_LINES, 0 },
	{ NULL }
};

struct l5_native *transport_mem;
struct line_way *transport_line;
double transport_took;

const struct setup setup_default = {
	.transport = &transports[0],
	.seconds = 1,
	.spin_us = -1,
};

/* NULL if there is none. */
const struct transport *transport_named(const char *name)
{
	const struct transport *t;

	for (t = transports; t->name; t++)
		if (!strcmp(name, t->name))
			return t;
	return NULL;
}

/* Asked once: bench/crr would measure the file system otherwise. */
static int l5_family(void)
{
	static int family;
	FILE *f;

	if (family)
		return family;
	family = L5_FAMILY_DEFAULT;
	f = fopen(L5_FAMILY_PATH, "r");
	if (f) {
		if (fscanf(f, "%d", &family) != 1)
			errx(1, "no number in " L5_FAMILY_PATH);
		fclose(f);
	}
	return family;
}

static bool is_l5(const struct setup *s)
{
	return s->transport->proto >= 0;
}

/* Root may exceed net.core.wmem_max, which AF_UNIX needs for 1 MiB. */
static void set_buffer(int fd, int privileged, int plain, int bytes)
{
	if (setsockopt(fd, SOL_SOCKET, privileged, &bytes, sizeof(bytes)) &&
	    setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes)))
		err(1, "setting the size of buffers");
}

static int open_socket(const struct setup *s)
{
	static const int patience = PATIENCE_MS;
	int type = s->transport->type ?: SOCK_STREAM;
	int one = 1;
	int fd;

	if (is_l5(s))
		fd = socket(l5_family(), type, s->transport->proto);
	else
		fd = socket(s->transport->domain ?: s->transport->family,
			    type, 0);
	if (fd < 0)
		err(1, "socket of %s", s->transport->name);

	if (s->transport->family == AF_INET &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		err(1, "TCP_NODELAY");
	if (is_l5(s) && s->spin_us >= 0 &&
	    setsockopt(fd, SOL_L5, L5_SPIN_US, &s->spin_us,
		       sizeof(s->spin_us)))
		err(1, "L5_SPIN_US");
	if (is_l5(s) && s->role == ROLE_CLIENT && !s->any_carrier &&
	    !s->hurry && setsockopt(fd, SOL_L5, L5_RDMA_WAIT, &patience,
				    sizeof(patience)))
		err(1, "L5_RDMA_WAIT");
	if (s->buffer) {
		set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, s->buffer);
		set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, s->buffer);
	}
	return fd;
}

/* The kernel picks the port if it is not given, or the abstract name. */
int transport_listen(const struct setup *s, struct address *where)
{
	int fd;

	memset(where, 0, sizeof(*where));
	if (s->transport->carrier == CARRIER_MEM) {
		transport_mem = l5_native_new(s->buffer ?: MEM_RING);
		if (!transport_mem)
			err(1, "memfd");
		return dup(transport_mem->fd);
	}
	if (s->transport->carrier >= CARRIER_LINE) {
		transport_line = mmap(NULL, 2 * sizeof(*transport_line),
				      PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (transport_line == MAP_FAILED)
			err(1, "mmap");
		return -1;
	}
	fd = open_socket(s);
	where->sa.sa_family = s->transport->family;
	if (s->role == ROLE_SERVER) {
		*where = s->where;
	} else if (s->transport->family == AF_INET) {
		where->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		where->len = sizeof(where->in);
	} else {
		where->len = offsetof(struct sockaddr_un, sun_path);
	}
	if (bind(fd, &where->sa, where->len))
		err(1, "bind");
	where->len = sizeof(where->un);
	if (getsockname(fd, &where->sa, &where->len))
		err(1, "getsockname");
	if (listen(fd, 4096))
		err(1, "listen");
	return fd;
}

int transport_connect(const struct setup *s, const struct address *where)
{
	double started;
	int fd;

	if (s->transport->carrier == CARRIER_MEM)
		return dup(transport_mem->fd);
	if (s->transport->carrier >= CARRIER_LINE)
		return -1;
	fd = open_socket(s);
	started = sample_elapsed();
	if (connect(fd, &where->sa, where->len))
		err(1, "connect");
	transport_took = sample_elapsed() - started;
	return fd;
}

int transport_accept(const struct setup *s, int listener)
{
	int one = 1;
	int fd;

	if (s->transport->carrier == CARRIER_MEM)
		return dup(listener);
	if (s->transport->carrier >= CARRIER_LINE)
		return -1;
	do {
		fd = accept(listener, NULL, NULL);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		err(1, "accept");
	if (s->transport->family == AF_INET &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		err(1, "TCP_NODELAY");
	return fd;
}

/* What the kernel says, -1 if this is not AF_L5. */
int transport_of(int fd)
{
	socklen_t len = sizeof(int);
	int carrier;

	return getsockopt(fd, SOL_L5, L5_TRANSPORT, &carrier, &len) ? -1 :
	       carrier;
}

/* A figure of AF_L5 that TCP carried would be a lie. */
void transport_check(const struct setup *s, int fd)
{
	static const char *const reasons[] = {
#define REASON_NAME(code, name, text)	name,
		L5_REASONS(REASON_NAME)
#undef REASON_NAME
	};
	socklen_t len = sizeof(int);
	int carrier, reason;

	if (s->any_carrier || (s->role == ROLE_BOTH && !is_l5(s)))
		return;
	/* Between hosts a program for TCP may be under l5run. */
	carrier = transport_of(fd);
	if (carrier < 0 && !is_l5(s))
		return;
	if (carrier == (s->role == ROLE_BOTH ? L5_TRANSPORT_SHM :
			L5_TRANSPORT_RDMA))
		return;
	if (getsockopt(fd, SOL_L5, L5_REASON, &reason, &len))
		err(1, "L5_REASON");
	errx(1, "not carried by what is to be measured: transport %d (%s)",
	     carrier, reason >= 0 && reason < L5_REASON_MAX ?
	     reasons[reason] : "unknown reason");
}
