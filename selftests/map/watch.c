// SPDX-License-Identifier: GPL-2.0
/*
 * L5_IOC_WATCH: the state page tells a process that it closed a descriptor of a
 * socket, whatever call did it, and nothing that others do.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"
#include "uring.h"

static int watch(int fd, uint64_t *value)
{
	struct l5_watch w = { .size = sizeof(w), .fd = fd };
	int err = ioctl(fd, L5_IOC_WATCH, &w) ? -errno : 0;

	*value = w.watch;
	return err;
}

FIXTURE(map_watch)
{
	int fd[2];
	struct mapping m;
	uint64_t said;
};

static uint64_t now(const struct mapping *m)
{
	return __atomic_load_n(&m->state->watch, __ATOMIC_ACQUIRE);
}

FIXTURE_SETUP(map_watch)
{
	ASSERT_TRUE(map_begin("127.0.0.1:0", 64, self->fd));
	ASSERT_EQ(0, watch(self->fd[0], &self->said));
	ASSERT_EQ(0, mapping_open(&self->m, self->fd[0]));
	ASSERT_EQ(self->said, now(&self->m));
}

FIXTURE_TEARDOWN(map_watch)
{
	mapping_close(&self->m);
	close(self->fd[0]);
	close(self->fd[1]);
}

/* Ways to close a descriptor, or to replace it */

static bool by_close(int fd)
{
	return !close(fd);
}

static bool by_dup2(int fd)
{
	return dup2(STDERR_FILENO, fd) == fd;
}

static bool by_range(int fd)
{
	return !syscall(SYS_close_range, fd, fd, 0);
}

static bool by_uring_inline(int fd)
{
	return uring_close(fd, 0);
}

static bool by_uring_worker(int fd)
{
	return uring_close(fd, IOSQE_ASYNC);
}

static void *closes(void *arg)
{
	return (void *)(long)close(*(int *)arg);
}

static bool by_thread(int fd)
{
	pthread_t t;
	void *ret;

	return !pthread_create(&t, NULL, closes, &fd) &&
	       !pthread_join(t, &ret) && !ret;
}

/* Another process, with the same table of descriptors */
static bool by_sharer(int fd)
{
	int status;
	pid_t pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		_exit(close(fd));
	return waitpid(pid, &status, 0) == pid && !status;
}

static const struct {
	const char *name;
	bool (*close)(int fd);
} ways[] = {
	{ "close", by_close }, { "dup2", by_dup2 }, { "close_range", by_range },
	{ "io_uring", by_uring_inline }, { "a worker", by_uring_worker },
	{ "a thread", by_thread }, { "a process that shares", by_sharer },
};

TEST_F(map_watch, told)
{
	uint64_t said = self->said;
	size_t i;
	int d;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		d = dup(self->fd[0]);
		ASSERT_LE(0, d);
		EXPECT_EQ(said, now(&self->m));
		ASSERT_TRUE(ways[i].close(d)) {
			TH_LOG("%s", ways[i].name);
		}
		EXPECT_NE(said, now(&self->m)) {
			TH_LOG("%s", ways[i].name);
		}
		ASSERT_EQ(0, watch(self->fd[0], &said));
		EXPECT_EQ(said, now(&self->m));
		if (ways[i].close == by_dup2)
			close(d);
	}
	/* a second watch is the first one, and its end one end */
	ASSERT_EQ(0, watch(self->fd[0], &said));
	ASSERT_EQ(0, watch(self->fd[0], &said));
	close(dup(self->fd[0]));
	EXPECT_EQ(said + 1, now(&self->m));
	/* nobody watches now */
	close(dup(self->fd[0]));
	EXPECT_EQ(said + 1, now(&self->m));
}

/*
 * Closes of the peer's, of other ends', by other processes, and calls that
 * close nothing
 */
TEST_F(map_watch, not_told)
{
	uint64_t value;
	int status, s[2], d;
	pid_t pid;

	close(dup(self->fd[1]));
	close(open("/dev/null", O_RDONLY));
	pid = fork();
	if (!pid) {
		close(self->fd[0]);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	ASSERT_TRUE(end_pass(s[0], self->fd[0]));
	EXPECT_EQ(self->said, now(&self->m));
	pid = fork();
	if (!pid) {
		d = end_take(s[1]);
		_exit(d < 0 || close(d));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(self->said, now(&self->m));
	/* a copy that never was a number of this process */
	ASSERT_TRUE(end_pass(s[0], self->fd[0]));
	close(s[0]);
	close(s[1]);
	EXPECT_EQ(self->said, now(&self->m));
	ASSERT_EQ(0, watch(self->fd[1], &value));
	EXPECT_NE(self->said, value);
	close(dup(self->fd[1]));
	EXPECT_EQ(self->said, now(&self->m));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 1000, 0));
}

/* A process that watches for itself ends: by exit, exec, or a signal. */
TEST_F(map_watch, process_ends)
{
	uint64_t value, before;
	int i, status, p[2];
	char c;
	pid_t pid;

	for (i = 0; i < 3; i++) {
		before = now(&self->m);
		ASSERT_EQ(0, pipe(p));
		fcntl(self->fd[0], F_SETFD, FD_CLOEXEC);
		pid = fork();
		if (!pid) {
			if (watch(self->fd[0], &value))
				_exit(1);
			if (i == 0)
				_exit(0);
			if (i == 1)
				execl("/bin/true", "true", NULL);
			c = write(p[1], "x", 1);
			pause();
			_exit(2);
		}
		/* or a child that fails would be waited for */
		close(p[1]);
		if (i == 2) {
			ASSERT_EQ(1, read(p[0], &c, 1));
			EXPECT_EQ(before, now(&self->m));
			kill(pid, SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(i == 2 ? SIGKILL : 0, status);
		EXPECT_EQ(before + 1, now(&self->m));
		close(p[0]);
	}
	/* the first one still does */
	before = now(&self->m);
	close(dup(self->fd[0]));
	EXPECT_EQ(before + 1, now(&self->m));
}

/* A table of its own has no lock, and ends none. */
static void *goes_alone(void *arg)
{
	int *fd = arg;

	if (unshare(CLONE_FILES) || close(fd[0]))
		return "unshare";
	return NULL;
}

TEST_F(map_watch, other_table)
{
	pthread_t t;
	void *ret;

	ASSERT_EQ(0, pthread_create(&t, NULL, goes_alone, self->fd));
	pthread_join(t, &ret);
	EXPECT_EQ(NULL, ret);
	EXPECT_EQ(self->said, now(&self->m));
	close(dup(self->fd[0]));
	EXPECT_EQ(self->said + 1, now(&self->m));
}

static int lock_all(int fd, int type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(fd, F_SETLK, &l) ? -errno : 0;
}

/* The type of the lock that another process meets, F_UNLCK if none. */
static int others_see(int fd, off_t at)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
			   .l_start = at, .l_len = 1 };
	int status;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(fcntl(fd, F_GETLK, &l) ? 255 : l.l_type);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ?
	       WEXITSTATUS(status) : -1;
}

/*
 * The program's own locks: told, or the watch is refused; never silence, and
 * the program's lock stays what it is.
 */
TEST_F(map_watch, own_locks)
{
	static const int types[] = { F_RDLCK, F_WRLCK };
	uint64_t said;
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		/* over a watch that is there */
		ASSERT_EQ(0, watch(self->fd[0], &said));
		ASSERT_EQ(0, lock_all(self->fd[0], types[i]));
		close(dup(self->fd[0]));
		EXPECT_NE(said, now(&self->m));
		/* before one */
		ASSERT_EQ(0, lock_all(self->fd[0], types[i]));
		err = watch(self->fd[0], &said);
		EXPECT_EQ(-EAGAIN, err);
		EXPECT_EQ(types[i], others_see(self->fd[0], 0));
		EXPECT_EQ(types[i], others_see(self->fd[0], INT64_MAX));
		ASSERT_EQ(0, lock_all(self->fd[0], F_UNLCK));
		/* in pieces */
		ASSERT_EQ(0, watch(self->fd[0], &said));
		ASSERT_EQ(0, lock_all(self->fd[0], types[i]));
		ASSERT_EQ(0, lock_all(self->fd[0], F_UNLCK));
		EXPECT_NE(said, now(&self->m));
	}
}

/* Another process's lock is in the way, and no longer than it is there. */
TEST_F(map_watch, others_locks)
{
	int up[2], down[2], status;
	uint64_t value;
	char c = 0;
	pid_t pid;

	close(dup(self->fd[0]));
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	pid = fork();
	if (!pid) {
		int err = lock_all(self->fd[0], F_WRLCK);

		err |= write(up[1], &c, 1) != 1;
		close(down[1]);
		err |= read(down[0], &c, 1) != 0;
		_exit(!!err);
	}
	close(down[0]);
	ASSERT_EQ(1, read(up[0], &c, 1));
	EXPECT_EQ(-EAGAIN, watch(self->fd[0], &value));
	close(down[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, watch(self->fd[0], &value));
}

TEST_F(map_watch, refused)
{
	struct l5_watch w = { .size = sizeof(w), .fd = self->fd[0] };
	uint64_t value;
	int fd, p[2];

	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_WATCH, NULL));
	EXPECT_EQ(EFAULT, errno);
	w.size = sizeof(w) - 1;
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_WATCH, &w));
	EXPECT_EQ(EINVAL, errno);
	w.size = sizeof(w);
	w.watch = 1;
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_WATCH, &w));
	EXPECT_EQ(EINVAL, errno);
	/* by a number of another file, or of none: nothing is left */
	for (fd = -2; fd < 3; fd++) {
		w.fd = fd;
		w.watch = 0;
		EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_WATCH, &w));
		EXPECT_EQ(EBADF, errno);
	}
	w.fd = 1 << 30;
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_WATCH, &w));
	EXPECT_EQ(EBADF, errno);
	value = now(&self->m);
	close(dup(self->fd[0]));
	EXPECT_EQ(value, now(&self->m));
	/* no socket of ours, or none with rings */
	ASSERT_EQ(0, pipe(p));
	EXPECT_EQ(-ENOTTY, watch(p[0], &value));
	fd = socket(l5_family(), SOCK_STREAM, 0);
	EXPECT_EQ(-ENOTCONN, watch(fd, &value));
	close(fd);
}

/* Closed during the ioctl: that is refused, or the closing is told. */
struct race {
	int from;
	atomic_int fd;
	atomic_bool stop;
};

static void *closes_again(void *arg)
{
	struct race *r = arg;
	int fd;

	while (!atomic_load(&r->stop)) {
		fd = atomic_load(&r->fd);
		if (fd < 0)
			sched_yield();
		else if (atomic_compare_exchange_strong(&r->fd, &fd, -1))
			close(fd);
	}
	return NULL;
}

TEST_F_TIMEOUT(map_watch, races, 200)
{
	struct race r = { .fd = -1 };
	uint64_t said;
	pthread_t t;
	int i, d, err;

	ASSERT_EQ(0, pthread_create(&t, NULL, closes_again, &r));
	for (i = 0; i < 2000; i++) {
		d = dup(self->fd[0]);
		ASSERT_LE(0, d);
		atomic_store(&r.fd, d);
		err = watch(d, &said);
		if (err)
			ASSERT_EQ(-EBADF, err);
		while (atomic_load(&r.fd) >= 0)
			sched_yield();
		/* the closing may be on its way */
		if (!err)
			ASSERT_TRUE(UNTIL(said != now(&self->m)));
	}
	atomic_store(&r.stop, true);
	pthread_join(t, NULL);
}

/* In a process with a table of its own, but shared memory. */
static bool __attribute__((noinline)) child_watches(int fd)
{
	uint64_t value;
	int status;
	pid_t pid;

	pid = vfork();
	if (!pid)
		_exit(watch(fd, &value) || watch(fd, &value));
	return waitpid(pid, &status, 0) == pid && !status;
}

/* Many processes watch, and nothing is left of them. */
TEST_F_TIMEOUT(map_watch, many, 600)
{
	enum { MANY = 2000 };
	uint64_t value, before = now(&self->m);
	int i;

	for (i = 0; i < MANY; i++)
		ASSERT_TRUE(child_watches(self->fd[0]));
	EXPECT_EQ(before + MANY, now(&self->m));
	/* watched in a loop there is one lock, as any other lock */
	for (i = 0; i < 5 * MANY; i++)
		ASSERT_EQ(0, watch(self->fd[0], &value));
	for (i = 0; i < MANY; i++) {
		struct flock l = {
			.l_type = i & 1 ? F_UNLCK : F_RDLCK,
			.l_whence = SEEK_SET,
			.l_start = 4 * (i / 2),
			.l_len = 1,
		};

		ASSERT_EQ(0, fcntl(self->fd[0], F_SETLK, &l));
	}
	EXPECT_EQ(value, now(&self->m));
	close(dup(self->fd[0]));
	EXPECT_EQ(value + 1, now(&self->m));
}

TEST_HARNESS_MAIN
