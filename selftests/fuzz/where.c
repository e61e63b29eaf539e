// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses. Each worker has a network namespace of its own, so ports are
 * always the same.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "exec.h"
#include "rdma_here.h"

#define PORT	5001

static socklen_t v4(struct sockaddr_storage *to, const char *host, int port)
{
	struct sockaddr_in *in = (void *)to;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	if (fz_world.rdma && !strcmp(host, "127.0.0.1"))
		host = RDMA_HERE;
	inet_pton(AF_INET, host, &in->sin_addr);
	return sizeof(*in);
}

static socklen_t v6(struct sockaddr_storage *to, const char *host, int port)
{
	struct sockaddr_in6 *in6 = (void *)to;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	inet_pton(AF_INET6, host, &in6->sin6_addr);
	return sizeof(*in6);
}

static socklen_t un(struct sockaddr_storage *to, bool abstract, int n)
{
	struct sockaddr_un *u = (void *)to;
	char *at = u->sun_path;

	u->sun_family = AF_UNIX;
	if (abstract)
		at++;
	strcpy(at, "fuzz0");
	at[4] += n;
	return offsetof(struct sockaddr_un, sun_path) + 6;
}

socklen_t fz_address(uint32_t which, struct sockaddr_storage *to)
{
	memset(to, 0, sizeof(*to));
	switch (which % FZ_ADDRS) {
	case FZ_V4_1 ... FZ_V4_3:
		return v4(to, "127.0.0.1", PORT + which - FZ_V4_1);
	case FZ_V4_ANY:
		return v4(to, "0.0.0.0", PORT);
	case FZ_V4_PORT0:
		return v4(to, "127.0.0.1", 0);
	case FZ_V4_FAR:
		return v4(to, "10.77.0.2", PORT);
	case FZ_V4_NEAR:
		return v4(to, "10.77.0.1", PORT);
	case FZ_V4_OTHER:
		return v4(to, "127.0.0.2", PORT + 1);
	case FZ_V6_1 ... FZ_V6_2:
		return v6(to, "::1", PORT + which - FZ_V6_1);
	case FZ_V6_ANY:
		return v6(to, "::", PORT);
	case FZ_V6_PORT0:
		return v6(to, "::1", 0);
	case FZ_MAPPED_1 ... FZ_MAPPED_2:
		return v6(to, "::ffff:127.0.0.1", PORT + which - FZ_MAPPED_1);
	case FZ_ABSTRACT_1 ... FZ_ABSTRACT_3:
		return un(to, true, which - FZ_ABSTRACT_1);
	case FZ_PATH_1 ... FZ_PATH_2:
		return un(to, false, which - FZ_PATH_1);
	case FZ_AUTOBIND:
		to->ss_family = AF_UNIX;
		return sizeof(sa_family_t);
	case FZ_FAMILY_L5:
		to->ss_family = fz_world.family;
		return sizeof(struct sockaddr_in);
	case FZ_FAMILY_NONE:
		to->ss_family = 0xffff;
		return sizeof(struct sockaddr_in);
	default:
		to->ss_family = AF_UNSPEC;
		return sizeof(struct sockaddr_in);
	}
}

socklen_t fz_target(uint32_t which, unsigned int s, struct sockaddr_storage *to)
{
	socklen_t len = sizeof(*to);

	switch (which % FZ_ADDRS) {
	case FZ_OF_V4:
	case FZ_OF_V6:
	case FZ_OF_UNIX:
		memset(to, 0, sizeof(*to));
		if (!getsockname(fz_fd(s), (void *)to, &len))
			return len;
	}
	return fz_address(which, to);
}

int fz_family_of(uint32_t which)
{
	if (which % FZ_ADDRS < FZ_V6_1)
		return AF_INET;
	return which % FZ_ADDRS < FZ_ABSTRACT_1 ? AF_INET6 : AF_UNIX;
}

socklen_t fz_addr_len(uint32_t kind, socklen_t right)
{
	switch (kind % FZ_LENS) {
	case FZ_LEN_0:
		return 0;
	case FZ_LEN_1:
		return 1;
	case FZ_LEN_2:
		return 2;
	case FZ_LEN_SHORT:
		return right / 2;
	case FZ_LEN_LONG:
		return sizeof(struct sockaddr_storage);
	case FZ_LEN_PAGE:
		return 4096;
	case FZ_LEN_NEGATIVE:
		return -1;
	case FZ_LEN_HUGE:
		return 0x7fffffff;
	default:
		return right;
	}
}
