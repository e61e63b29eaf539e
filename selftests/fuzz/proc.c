// SPDX-License-Identifier: GPL-2.0
/*
 * What a program says to the whole namespace: switches, denials, revocations.
 * These are taken back when the program ends, so that each program begins
 * alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec.h"

static const struct {
	const char *path;
	uint32_t most;
} sysctls[FZ_SYSCTLS] = {
	{ "/proc/sys/net/l5/enabled", 1 },
	{ "/proc/sys/net/l5/spin_us", 2000 },
	{ "/proc/sys/net/l5/ring_kb", 8192 },
	{ "/proc/sys/net/l5/ring_max_kb", 8192 },
	{ "/proc/sys/net/l5/mem_max_kb", 1000000 },
	{ "/proc/sys/net/l5/match_ms", 500 },
	{ "/proc/sys/net/l5/grow_ms", 20 },
	{ "/proc/sys/net/l5/rdma", 1 },
	{ "/proc/sys/net/ipv4/tcp_migrate_req", 1 },
	{ "/proc/sys/net/ipv4/tcp_fastopen", 0x7ff },
	{ "/proc/sys/net/ipv4/tcp_abort_on_overflow", 1 },
	{ "/proc/sys/net/core/somaxconn", 4096 },
	{ "/proc/sys/net/ipv6/bindv6only", 1 },
	{ "/proc/sys/net/l5/rdma_notify", 4 },
	{ "/proc/sys/net/l5/rdma_ms", 1000 },
	{ "/proc/sys/net/l5/rdma_poll", 1 },
	{ "/proc/sys/net/l5/rdma_chain", 1 },
	{ "/proc/sys/net/l5/rdma_safe", 15 },
	{ "/proc/sys/net/l5/rdma_max", 64 },
};

static char was[FZ_SYSCTLS][32];
/* Of fz_log->changed: a bit for each sysctl, then one for all rules */
static const unsigned int rules_changed = 1u << FZ_SYSCTLS;

static long file_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long ret;

	if (fd < 0)
		return -errno;
	ret = FZ_RET(write(fd, text, strlen(text)));
	close(fd);
	return ret < 0 ? ret : 0;
}

void fz_proc_notify(uint32_t way)
{
	char text[12];

	snprintf(text, sizeof(text), "%u", way);
	file_put("/proc/sys/net/l5/rdma_notify", text);
}

static void file_get(const char *path, char *to, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);

	to[n < 0 ? 0 : n] = 0;
	if (fd >= 0)
		close(fd);
}

void fz_proc_begin(void)
{
	int i;

	for (i = 0; i < FZ_SYSCTLS; i++)
		file_get(sysctls[i].path, was[i], sizeof(was[i]));
}

FZ_DO(sysctl)
{
	uint32_t i = c->a % FZ_SYSCTLS, v = c->b;
	char text[16];

	/* a value that is out of bounds stays so now and then */
	if (v > sysctls[i].most && v < 0x7fffffff)
		v %= sysctls[i].most + 1;
	__atomic_or_fetch(&fz_log->changed, 1u << i, __ATOMIC_RELAXED);
	snprintf(text, sizeof(text), "%u\n", v);
	return file_put(sysctls[i].path, text);
}

static const char *const lines[FZ_RULES] = {
	"all", "uid 0", "uid 0-65534", "uid 65534", "cgroup /", "rdma all",
	"inode %lu", "sockets", "uid 3-2", "rdma net 127.0.0.0/8",
};

FZ_DO(rule)
{
	char text[64];
	struct stat st = { .st_ino = 1 };

	fstat(fz_fd(c->s), &st);
	snprintf(text, sizeof(text), lines[c->b % FZ_RULES],
		 (unsigned long)st.st_ino);
	strcat(text, "\n");
	if (c->a & 1)
		return file_put("/proc/net/l5_revoke", text);
	__atomic_or_fetch(&fz_log->changed, rules_changed, __ATOMIC_RELAXED);
	return file_put("/proc/net/l5_deny", text);
}

/* In the namespace where this thread is */
static void reset_here(uint32_t changed)
{
	char text[64];
	int i;

	for (i = 0; i < FZ_SYSCTLS; i++)
		if (changed & 1u << i && was[i][0])
			file_put(sysctls[i].path, was[i]);
	for (i = 0; changed & rules_changed && i < FZ_RULES; i++) {
		snprintf(text, sizeof(text), "allow %s\n", lines[i]);
		while (!file_put("/proc/net/l5_deny", text))
			;
	}
}

void fz_proc_reset(void)
{
	if (!fz_log->changed)
		return;
	if (fz_world.far >= 0 && !setns(fz_world.far, CLONE_NEWNET)) {
		reset_here(fz_log->changed);
		setns(fz_world.home, CLONE_NEWNET);
	}
	reset_here(fz_log->changed);
	fz_log->changed = 0;
}

/* Has this thread left the first namespace? */
static __thread bool moved;

void fz_netns_reset(void)
{
	if (moved && fz_world.home >= 0)
		setns(fz_world.home, CLONE_NEWNET);
	moved = false;
}

FZ_DO(netns)
{
	moved = true;
	switch (c->a % 3) {
	case 0:
		return FZ_RET(setns(fz_world.home, CLONE_NEWNET));
	case 1:
		return FZ_RET(setns(fz_world.far, CLONE_NEWNET));
	default:
		return FZ_RET(unshare(CLONE_NEWNET));
	}
}

FZ_DO(read_proc)
{
	static const char *const files[FZ_PROC_FILES] = {
		"/proc/net/l5", "/proc/net/l5_stat", "/proc/net/l5_deny",
		"/proc/net/tcp", "/proc/net/unix", "/proc/net/protocols",
	};
	char room[1000];
	long n;
	int fd = open(files[c->a % FZ_PROC_FILES], O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	do
		n = FZ_RET(read(fd, room, sizeof(room)));
	while (n > 0);
	close(fd);
	return n;
}

FZ_DO(sleep)
{
	usleep(c->a % 20001);
	return 0;
}
