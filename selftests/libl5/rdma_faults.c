// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA while memory is refused now and then, to this process and to the kernel
 * threads that ask, answer and move: whatever comes of a connection, what is
 * received is what was sent, nobody hangs, and nothing is left behind. Needs
 * the fault injection of a debug kernel.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "l5test.h"
#include "libl5.h"
#include "rdma_here.h"

enum { WAIT_MS = 30000, BYTES = 40000, ROUNDS = 40 };

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool inject(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/failslab/%s", name);
	return put(path, value);
}

/*
 * Only allocations that are charged to a process: those are AF_L5's. They are
 * not rxe's, whose way out of a queue pair that it cannot make stops a timer
 * that was never set up.
 */
static bool charged(void)
{
	FILE *f = fopen("/sys/kernel/slab/kmalloc-cg-64/failslab", "r");
	int on = 0;

	if (!f)
		return false;
	if (fscanf(f, "%d", &on) != 1)
		on = 0;
	fclose(f);
	return on;
}

/* To be refused memory: kernel threads that work, and this process. */
static int choose(const char *yes)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir))) {
		char path[300], name[32] = "";
		int fd, pid = atoi(e->d_name);

		if (pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, name, sizeof(name) - 1) < 0)
			*name = 0;
		close(fd);
		/* 2 is the parent of kernel threads to come */
		if (pid != 2 && pid != getpid() && strncmp(name, "kworker", 7))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/make-it-fail", pid);
		n += put(path, yes);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void no_faults(void)
{
	/* this, too, may be refused */
	while (!inject("probability", "0"))
		;
	choose("0");
}

FIXTURE(libl5_rdma_faults)
{
	int listener;
	struct sockaddr_in sa;
};

FIXTURE_SETUP(libl5_rdma_faults)
{
	socklen_t len = sizeof(self->sa);

	signal(SIGPIPE, SIG_IGN);
	/* the test says that, and runs whatever is said here */
	if (!inject("probability", "0") || !charged() || !rdma_here())
		return;
	setenv("L5_TRANSPORT", "rdma", 1);
	self->listener = l5_listen(RDMA_HERE, "0", 64);
	ASSERT_LE(0, self->listener);
	ASSERT_EQ(0, getsockname(self->listener, (struct sockaddr *)&self->sa,
				 &len));
	/* so that no page of this program has to be read meanwhile */
	ASSERT_EQ(0, mlockall(MCL_CURRENT | MCL_FUTURE));
	ASSERT_TRUE(inject("cache-filter", "Y"));
	ASSERT_TRUE(inject("task-filter", "Y"));
	ASSERT_TRUE(inject("times", "-1"));
	ASSERT_TRUE(inject("interval", "1"));
	ASSERT_TRUE(inject("verbose", "0"));
	ASSERT_TRUE(inject("ignore-gfp-wait", "N"));
}

FIXTURE_TEARDOWN(libl5_rdma_faults)
{
	if (self->listener <= 0)
		return;
	no_faults();
	close(self->listener);
}

static int ready(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, ms) == 1 ? p.revents : 0;
}

static unsigned char byte(unsigned int i)
{
	return i * 13 + i / 249;
}

/*
 * Send, receive and compare. Return: how many bytes arrived, -1 if those were
 * others, -2 if nothing moved for too long.
 */
static int carry(int from, int to, int total)
{
	int64_t end = l5_now_ms() + (int64_t)WAIT_MS * l5_slow();
	static unsigned char buf[4096];
	int sent = 0, got = 0, n, i;
	bool over = false;

	while (got < total) {
		if (l5_now_ms() > end)
			return -2;
		if (sent < total && !over) {
			n = total - sent < (int)sizeof(buf) ? total - sent :
							      (int)sizeof(buf);
			for (i = 0; i < n; i++)
				buf[i] = byte(sent + i);
			n = send(from, buf, n, MSG_DONTWAIT);
			if (n > 0)
				sent += n;
			else if (errno != EAGAIN && errno != ENOMEM &&
				 errno != ENOBUFS && errno != EFAULT)
				over = true;
		}
		n = recv(to, buf, sizeof(buf), MSG_DONTWAIT);
		if (!n)
			break;
		if (n < 0 && (errno == EAGAIN || errno == ENOMEM ||
			      errno == EFAULT)) {
			if (over && !ready(to, POLLIN, 1000))
				break;
			ready(to, POLLIN, 2);
			continue;
		}
		if (n < 0)
			break;
		for (i = 0; i < n; i++)
			if (buf[i] != byte(got + i))
				return -1;
		got += n;
		if (got > sent)
			return -1;
	}
	return got;
}

TEST_F_TIMEOUT(libl5_rdma_faults, memory, 600)
{
	static const char *const percent[] = { "2", "10", "30" };
	int made = 0, moved = 0, whole = 0, c, s, n;
	size_t p, i;

	if (self->listener <= 0)
		SKIP(return, "no fault injection by cache in this kernel");
	for (p = 0; p < sizeof(percent) / sizeof(*percent); p++) {
		for (i = 0; i < ROUNDS; i++) {
			ASSERT_TRUE(inject("probability", percent[p]));
			ASSERT_LT(0, choose("1"));
			c = l5_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);
			if (c >= 0 && connect(c, (struct sockaddr *)&self->sa,
					      sizeof(self->sa))) {
				close(c);
				c = -1;
			}
			s = -1;
			if (ready(self->listener, POLLIN, c < 0 ? 50 : 2000))
				s = accept(self->listener, NULL, NULL);
			if (c >= 0 && s >= 0) {
				made++;
				/* some find it on its way, some done */
				moved += i % 2 && rdma_moved_in(c, 500);
				n = carry(c, s, BYTES);
				ASSERT_LE(0, n)
					TH_LOG("there: %d", n);
				whole += n == BYTES;
				n = carry(s, c, BYTES / 2);
				ASSERT_LE(0, n)
					TH_LOG("back: %d", n);
			}
			no_faults();
			if (c >= 0)
				close(c);
			if (s >= 0)
				close(s);
			/* what was refused an accept() */
			while (ready(self->listener, POLLIN, 0)) {
				s = accept(self->listener, NULL, NULL);
				if (s >= 0)
					close(s);
			}
		}
	}
	TH_LOG("of %zu %d were made, %d seen to move, %d carried all",
	       p * ROUNDS, made, moved, whole);
	EXPECT_LT(0, made);
	EXPECT_LT(0, moved);
	EXPECT_LT(0, whole);

	/* and then all is as before */
	c = l5_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);
	ASSERT_LE(0, c);
	ASSERT_EQ(0, connect(c, (struct sockaddr *)&self->sa,
			     sizeof(self->sa)));
	s = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_TRUE(rdma_moved(c));
	ASSERT_TRUE(rdma_moved(s));
	ASSERT_EQ(BYTES, carry(c, s, BYTES));
	close(c);
	close(s);
	for (n = 0; n < 600 && l5_stat("rdma_now"); n++)
		usleep(100000);
	EXPECT_EQ(0, l5_stat("rdma_now"));
	EXPECT_EQ(0, l5_stat("pairs"));
}

TEST_HARNESS_MAIN
