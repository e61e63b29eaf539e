// SPDX-License-Identifier: GPL-2.0
/*
 * Options, ioctl() and what else can be said of a descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/un.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "exec.h"
#include "l5.h"
#include "l5test.h"

#define VALUE(c)	((c)->v & 0xff)
#define LENGTH(c)	((c)->v >> 8 & 0xff)
#define WORD(c)		((uint32_t)((c)->v >> 32))

static int level(uint32_t which)
{
	static const int level[] = {
		[FZ_SOL_SOCKET] = SOL_SOCKET, [FZ_SOL_TCP] = SOL_TCP,
		[FZ_SOL_IP] = SOL_IP, [FZ_SOL_IPV6] = SOL_IPV6,
		[FZ_SOL_L5] = SOL_L5, [FZ_SOL_L5_SOCKET] = SOL_L5_SOCKET,
		[FZ_SOL_TLS] = 282, [FZ_SOL_ODD] = 12345,
	};

	return level[which % FZ_LEVELS];
}

static socklen_t number(uint8_t *to, int v)
{
	memcpy(to, &v, sizeof(v));
	return sizeof(v);
}

static socklen_t words(uint8_t *to, const char *text)
{
	strcpy((char *)to, text);
	return strlen(text);
}

/* Whatever is to be taken for a filter takes everything. */
static socklen_t filter(uint8_t *to)
{
	static struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffff);
	struct sock_fprog prog = { 1, &all };

	memcpy(to, &prog, sizeof(prog));
	return sizeof(prog);
}

/* Its length; @to has room for a page. */
static socklen_t value(const struct fz_call *c, uint8_t *to)
{
	struct linger linger = { 1, WORD(c) % 2 };
	struct timeval time = { 0, WORD(c) % 20000 };
	int i;

	switch (VALUE(c) % FZ_VALUES) {
	case FZ_VAL_0:
		return number(to, 0);
	case FZ_VAL_1:
		return number(to, 1);
	case FZ_VAL_MINUS:
		return number(to, -1);
	case FZ_VAL_MAX:
		return number(to, 0x7fffffff);
	case FZ_VAL_MIN:
		return number(to, 0x80000000);
	case FZ_VAL_SMALL:
		return number(to, WORD(c) % 100000);
	case FZ_VAL_INET:
		return number(to, AF_INET);
	case FZ_VAL_ANY:
		return number(to, WORD(c));
	case FZ_VAL_BYTES:
		for (i = 0; i < 64; i++)
			to[i] = fz_mix(WORD(c) + i);
		return 64;
	case FZ_VAL_LO:
		return words(to, "lo");
	case FZ_VAL_TLS:
		return words(to, "tls");
	case FZ_VAL_RENO:
		return words(to, "reno");
	case FZ_VAL_LINGER:
		memcpy(to, &linger, sizeof(linger));
		return sizeof(linger);
	case FZ_VAL_TIME:
		memcpy(to, &time, sizeof(time));
		return sizeof(time);
	case FZ_VAL_FILTER:
		return filter(to);
	default:
		return 64;
	}
}

/*
 * A socket of TCP's that IPV6_ADDRFORM made one of IPv4 leaves its children,
 * should it listen, a pointer to itself: a bug of the kernel's own. Of AF_L5's
 * listeners the module takes it away.
 */
static bool hurts_kernel(int fd, const struct fz_call *c)
{
	return level(c->a) == SOL_IPV6 && c->b == IPV6_ADDRFORM &&
	       !fz_world.plain && l5_getopt(fd, L5_TRANSPORT) < 0;
}

FZ_DO(setopt)
{
	uint8_t room[8192] = { 0 };
	socklen_t len = fz_addr_len(LENGTH(c), value(c, room));
	void *at = VALUE(c) == FZ_VAL_BAD ? fz_buf(FZ_BUF_BAD, 0) : room;

	if (hurts_kernel(fz_fd(c->s), c))
		return -ENOPROTOOPT;
	return FZ_RET(setsockopt(fz_fd(c->s), level(c->a), c->b, at, len));
}

FZ_DO(getopt)
{
	uint8_t room[8192] = { 0 };
	socklen_t len = fz_addr_len(LENGTH(c), 256);
	void *at = room;

	/* what is said to be long is not: the end of a page is */
	if (len > sizeof(room))
		at = fz_buf(FZ_BUF_EDGE, 64);
	if (VALUE(c) == FZ_VAL_BAD)
		at = fz_buf(FZ_BUF_BAD, 0);
	/* some options read what is there first */
	if (at == room)
		value(c, room);
	if (level(c->a) == SOL_TCP && c->b == TCP_ZEROCOPY_RECEIVE)
		memset(room, 0, 64);
	return FZ_RET(getsockopt(fz_fd(c->s), level(c->a), c->b, at,
				 VALUE(c) == FZ_VAL_BAD && WORD(c) & 1 ?
				 at : &len));
}

static long watch(const struct fz_call *c, int fd)
{
	struct l5_watch w = {
		.size = c->v & 7 ? sizeof(w) : c->v >> 8 & 63,
		.fd = c->v & 8 ? (int)c->b : fd,
		.watch = c->v & 0x70 ? 0 : c->v,
	};

	return ioctl(fd, L5_IOC_WATCH, &w);
}

/* What can be done with a region, now and then with a field that is wrong */
static long region(const struct fz_call *c, int fd)
{
	struct l5_region_arg a = {
		.size = c->v & 15 ? sizeof(a) : c->v >> 4 & 63,
		.op = c->v >> 10 & 7,
	};

	if (a.op == L5_REGION_MAKE) {
		a.access = c->v >> 13 & 7 ? 1 + (c->v >> 13 & 2) : c->b;
		a.length = c->v >> 16 & 15 ? c->v >> 20 & 0x3ffff :
					     c->v >> (c->b & 63);
	} else {
		a.index = 2 + (c->v >> 13 & 15);
		a.flags = c->v >> 17 & 31 ? 0 : c->b;
	}
	return ioctl(fd, L5_IOC_REGION, &a);
}

FZ_DO(ioctl)
{
	int fd = fz_fd(c->s), n = c->b & 1;
	uint8_t room[256];

	switch (c->a % FZ_IOCS) {
	case FZ_IOC_DOORBELL:
		return FZ_RET(ioctl(fd, L5_IOC_DOORBELL, c->b));
	case FZ_IOC_ARM:
		return FZ_RET(ioctl(fd, L5_IOC_ARM, c->b));
	case FZ_IOC_LOCK:
		return FZ_RET(ioctl(fd, L5_IOC_LOCK, c->b));
	case FZ_IOC_UNLOCK:
		return FZ_RET(ioctl(fd, L5_IOC_UNLOCK, c->b));
	case FZ_IOC_ROOM:
		return FZ_RET(ioctl(fd, L5_IOC_ROOM, c->v >> (c->b & 63)));
	case FZ_IOC_WATCH:
		return FZ_RET(watch(c, fd));
	case FZ_IOC_REGION:
		return FZ_RET(region(c, fd));
	case FZ_IOC_NREAD:
		return FZ_RET(ioctl(fd, FIONREAD, &n));
	case FZ_IOC_OUTQ:
		return FZ_RET(ioctl(fd, c->b & 1 ? SIOCOUTQ : SIOCOUTQNSD, &n));
	case FZ_IOC_ATMARK:
		return FZ_RET(ioctl(fd, SIOCATMARK, &n));
	case FZ_IOC_ASYNC:
		return FZ_RET(ioctl(fd, FIOASYNC, &n));
	case FZ_IOC_OWNER:
		/* our process, and no other: it will get signals */
		n = c->b & 1 ? getpid() : 0;
		return FZ_RET(ioctl(fd, FIOSETOWN, &n));
	case FZ_IOC_STAMP:
		return FZ_RET(ioctl(fd, SIOCGSTAMP_OLD, room));
	case FZ_IOC_UNIXFILE:
		n = ioctl(fd, SIOCUNIXFILE, 0);
		if (n >= 0)
			close(n);
		return n < 0 ? -errno : 0;
	default:
		return FZ_RET(ioctl(fd, _IOC(c->v & 3, 'L', c->v >> 2 & 0xff,
					     c->v >> 10 & 63), room));
	}
}

FZ_DO(map_info)
{
	struct l5_area area[16];
	union {
		struct l5_map_info info;
		uint8_t room[8192];
	} u;

	memset(&u, 0, sizeof(u));
	u.info.size = c->a;
	u.info.nareas = c->b;
	u.info.areas = c->b > 16 && !(c->v & 1) ? 0x1000 : (uintptr_t)area;
	u.info.version_min = c->v & 3;
	u.info.version_max = c->v >> 2 & 3;
	u.info.features = c->v >> 8;
	if (c->v >> 40 & 1)
		u.info.reserved = c->v >> 41;
	if (c->v >> 48 & 1)
		u.room[60 + (c->v >> 49 & 4095)] = 1;
	return FZ_RET(ioctl(fz_fd(c->s), L5_IOC_MAP_INFO, &u));
}

FZ_DO(fcntl)
{
	struct flock last = {
		.l_type = c->b & 1 ? F_RDLCK : c->b & 2 ? F_WRLCK : F_UNLCK,
		.l_start = c->b & 4 ? 0 : 0x7fffffffffffffffLL,
		.l_len = c->b & 4 ? 0 : 1,
	};
	int fd = fz_fd(c->s), new;

	switch (c->a % FZ_FCNTLS) {
	case 0:
		return FZ_RET(fcntl(fd, F_SETFL, O_NONBLOCK));
	case 1:
		return FZ_RET(fcntl(fd, F_SETFL, 0));
	case 2:
		return FZ_RET(fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK));
	case 3:
		return FZ_RET(fcntl(fd, F_SETOWN, getpid()));
	case 4:
		return FZ_RET(fcntl(fd, F_SETSIG, c->b & 1 ? SIGURG : 0));
	case 5:
		return FZ_RET(fcntl(fd, F_SETLK, &last));
	case 6:
		return FZ_RET(fcntl(fd, F_OFD_SETLK, &last));
	case 7:
		return FZ_RET(fcntl(fd, F_GETFL));
	case 8:
		return FZ_RET(fcntl(fd, F_SETPIPE_SZ, c->b % 200000));
	case 9:
		return FZ_RET(fcntl(fd, F_SETFL, O_DIRECT | O_APPEND));
	case 10:
		return FZ_RET(fcntl(fd, F_GETLK, &last));
	default:
		new = fcntl(fd, F_DUPFD, 3);
		if (new >= 0)
			close(new);
		return new < 0 ? -errno : 0;
	}
}

static long by_proc(int fd, const char *dir, int flags)
{
	char path[64], room[512];
	long n;
	int f;

	snprintf(path, sizeof(path), "/proc/self/%s/%d", dir, fd);
	f = open(path, flags);
	if (f < 0)
		return -errno;
	n = FZ_RET(read(f, room, sizeof(room)));
	close(f);
	return n < 0 ? n : 0;
}

FZ_DO(file)
{
	int fd = fz_fd(c->s);
	struct stat st;
	char room[64];

	switch (c->a % FZ_FILE_CALLS) {
	case 0:
		return FZ_RET(fstat(fd, &st));
	case 1:
		return FZ_RET(fchown(fd, 65534, 65534));
	case 2:
		return FZ_RET(fchown(fd, 0, 0));
	case 3:
		return FZ_RET(fchmod(fd, c->v & 0777));
	case 4:
		return FZ_RET(ftruncate(fd, c->v & 0xffff));
	case 5:
		return FZ_RET(lseek(fd, c->v, c->v & 1)) < 0;
	case 6:
		return FZ_RET(fsync(fd));
	case 7:
		return FZ_RET(fallocate(fd, 0, 0, c->v & 0xffff));
	case 8:
		return FZ_RET(flock(fd, LOCK_EX | LOCK_NB));
	case 9:
		return FZ_RET(readahead(fd, 0, 4096));
	case 10:
		return by_proc(fd, "fd", O_RDWR | O_NONBLOCK);
	case 11:
		return by_proc(fd, "fdinfo", O_RDONLY);
	case 12:
		return FZ_RET(fgetxattr(fd, "system.sockprotoname", room,
					sizeof(room)));
	default:
		return FZ_RET(futimens(fd, NULL));
	}
}
