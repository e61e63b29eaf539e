// SPDX-License-Identifier: GPL-2.0
/*
 * Nothing makes a read-only view of a mapping writable: neither the process
 * that has it, nor another, nor the kernel on behalf of either.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"
#include "view.h"

MAP_PAIR_FIXTURE(map_readonly, 64)

/* Another process's hands on read-only views. */
struct ways {
	int pid;
	uint8_t *addr[3];
};

static bool same(const uint8_t *p, const uint8_t *copy)
{
	return !memcmp(p, copy, MAP_PAGE);
}

TEST_F_TIMEOUT(map_readonly, read_only_by_others, 120)
{
	struct ways *w = map_shared(sizeof(*w));
	const uint64_t junk = 0xdeadbeefdeadbeefULL;
	char path[64];
	int status, mem, k, in[2];
	struct mapping o;
	uint8_t *copy[3];
	pid_t pid;
	char b;

	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	memset(o.tx, 0x5a, o.tx_size);
	ASSERT_EQ(0, pipe(in));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct mapping m;

		if (mapping_open(&m, self->fd[0]))
			_exit(1);
		w->addr[0] = (uint8_t *)m.rx;
		w->addr[1] = (uint8_t *)m.peer;
		w->addr[2] = (uint8_t *)m.state;
		w->pid = getpid();
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		if (read(in[0], &b, 1) != 1)
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDWR);
	ASSERT_LE(0, mem);
	for (k = 0; k < 3; k++) {
		struct iovec l = { (void *)&junk, 8 }, r = { w->addr[k], 8 };
		long word;

		copy[k] = malloc(MAP_PAGE);
		memset(copy[k], 0, MAP_PAGE);
		/* whether a debugger may read it is the kernel's choice */
		(void)!pread(mem, copy[k], MAP_PAGE, (off_t)w->addr[k]);
		errno = 0;
		EXPECT_EQ(-1, ptrace(PTRACE_POKEDATA, pid, w->addr[k], junk));
		EXPECT_EQ(-1, ptrace(PTRACE_POKETEXT, pid, w->addr[k], junk));
		EXPECT_EQ(-1, pwrite(mem, &junk, 8, (off_t)w->addr[k]));
		EXPECT_EQ(-1, process_vm_writev(pid, &l, 1, &r, 1, 0));
		errno = 0;
		word = ptrace(PTRACE_PEEKDATA, pid, w->addr[k], 0);
		if (!errno)
			EXPECT_NE((long)junk, word);
	}
	EXPECT_TRUE(is_zero((const uint8_t *)o.own + sizeof(*o.own),
			    MAP_PAGE - sizeof(*o.own)));
	for (k = 0; k < (int)o.tx_size; k++)
		if (o.tx[k] != 0x5a)
			break;
	EXPECT_EQ((int)o.tx_size, k);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	ASSERT_EQ(1, write(in[1], "", 1));
	EXPECT_EQ(0, l5_reap(pid));
	close(mem);
	mapping_close(&o);
}

/* A file that O_DIRECT reads: of a ram disk, if nothing else. */
static int direct_file(void)
{
	static const char *const names[] = {
		"/tmp/l5_direct", "/var/tmp/l5_direct", "/root/l5_direct",
	};
	static char junk[MAP_PAGE];
	unsigned int i;
	int fd;

	memset(junk, 0xa5, sizeof(junk));
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		fd = open(names[i], O_RDWR | O_CREAT, 0600);
		if (fd < 0)
			continue;
		if (write(fd, junk, sizeof(junk)) != sizeof(junk)) {
			close(fd);
			continue;
		}
		close(fd);
		fd = open(names[i], O_RDWR | O_DIRECT);
		if (fd >= 0)
			return fd;
		unlink(names[i]);
	}
	sh("modprobe brd rd_nr=1 rd_size=1024 2>/dev/null; true");
	fd = open("/dev/ram0", O_RDWR);
	if (fd < 0)
		return -1;
	if (write(fd, junk, sizeof(junk)) != sizeof(junk)) {
		close(fd);
		return -1;
	}
	fsync(fd);
	close(fd);
	return open("/dev/ram0", O_RDWR | O_DIRECT);
}

static void one_view(struct __test_metadata *_metadata, const char *what,
		     uint8_t *p, size_t len, int sock, int peer)
{
	static uint8_t copy[MAP_PAGE], back[MAP_PAGE];
	const uint64_t junk = 0xdeadbeefdeadbeefULL;
	struct iovec iov = { p, 64 }, l = { (void *)&junk, 8 }, r = { p, 8 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int mem, pp[2], fd, ret;
	uint32_t other = 0;
	void *q;

	memcpy(copy, p, MAP_PAGE);

	/* the protection itself */
	EXPECT_EQ(-1, mprotect(p, len, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(p, len, PROT_WRITE));
	EXPECT_EQ(-1, mprotect(p, len, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(SIGSEGV, map_touch(p, true));
	EXPECT_EQ(SIGSEGV, map_touch(p + len - 1, true));

	/* the kernel as an accomplice */
	mem = open("/proc/self/mem", O_RDWR);
	ASSERT_LE(0, mem);
	EXPECT_EQ(-1, pwrite(mem, &junk, 8, (off_t)p));
	close(mem);
	EXPECT_EQ(-1, process_vm_writev(getpid(), &l, 1, &r, 1, 0));
	ASSERT_EQ(0, pipe(pp));
	ASSERT_EQ(8, write(pp[1], &junk, 8));
	EXPECT_EQ(-1, read(pp[0], p, 8));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(8, read(pp[0], back, 8));
	ASSERT_EQ(8, send(peer, &junk, 8, 0));
	if (sock >= 0) {
		EXPECT_EQ(-1, recv(sock, p + len - 8, 8, 0));
		EXPECT_EQ(EFAULT, errno);
		ASSERT_EQ(8, recv(sock, back, 8, 0));
	}
	fd = open("/dev/zero", O_RDONLY);
	ret = read(fd, p, 64);
	EXPECT_GT(1, ret);
	close(fd);
	fd = open("/proc/self/stat", O_RDONLY);
	EXPECT_EQ(-1, read(fd, p, 64));
	close(fd);
	ret = syscall(SYS_futex, &other, FUTEX_WAKE_OP, 1, (void *)1L, p,
		      FUTEX_OP(FUTEX_OP_SET, 99, FUTEX_OP_CMP_EQ, 0));
	EXPECT_EQ(-1, ret);
	EXPECT_EQ(-1, syscall(SYS_getrandom, p, 64, 0));
	EXPECT_EQ(-1, madvise(p, len, MADV_POPULATE_WRITE));
	EXPECT_TRUE(same(p, copy));

	/* gifts: pages of ours in a pipe, which others write to */
	ret = vmsplice(pp[1], &iov, 1, SPLICE_F_GIFT);
	if (ret > 0) {
		ASSERT_EQ(8, write(pp[1], &junk, 8));
		EXPECT_TRUE(same(p, copy));
		ASSERT_EQ(ret, read(pp[0], back, ret));
		EXPECT_EQ(0, memcmp(back, copy, ret));
		ASSERT_EQ(8, read(pp[0], back, 8));
	}
	iov.iov_len = MAP_PAGE;
	ret = vmsplice(pp[1], &iov, 1, SPLICE_F_GIFT);
	if (ret > 0) {
		/* moved into a file's cache, and written there */
		fd = memfd_create("gift", MFD_CLOEXEC);
		ASSERT_EQ(ret, splice(pp[0], NULL, fd, NULL, ret,
				      SPLICE_F_MOVE));
		ASSERT_EQ(8, pwrite(fd, &junk, 8, 0));
		close(fd);
		EXPECT_TRUE(same(p, copy));
	}
	/* and the other way: what is in a pipe into the view */
	ASSERT_EQ(8, write(pp[1], &junk, 8));
	iov.iov_len = 8;
	EXPECT_EQ(-1, vmsplice(pp[0], &iov, 1, 0));
	EXPECT_TRUE(same(p, copy));
	close(pp[0]);
	close(pp[1]);

	/* direct I/O */
	fd = direct_file();
	if (fd >= 0) {
		ret = pread(fd, p, MAP_PAGE, 0);
		EXPECT_GT(1, ret) {
			TH_LOG("%s: O_DIRECT read gave %d", what, ret);
		}
		EXPECT_TRUE(same(p, copy));
		close(fd);
		unlink("/tmp/l5_direct");
	} else {
		TH_LOG("nothing here does O_DIRECT");
	}

	/* buffers that io_uring pins, to write into */
	fd = memfd_create("fixed", MFD_CLOEXEC);
	ASSERT_EQ(8, write(fd, &junk, 8));
	ret = io_uring_queue_init(4, &ring, 0);
	if (!ret) {
		iov.iov_base = p;
		iov.iov_len = MAP_PAGE;
		ret = io_uring_register_buffers(&ring, &iov, 1);
		EXPECT_GT(0, ret) {
			TH_LOG("%s: io_uring takes it for a buffer", what);
		}
		if (!ret) {
			io_uring_prep_read_fixed(io_uring_get_sqe(&ring), fd, p,
						 8, 0, 0);
			io_uring_submit_and_wait(&ring, 1);
			if (!io_uring_peek_cqe(&ring, &cqe))
				io_uring_cqe_seen(&ring, cqe);
		}
		io_uring_prep_read(io_uring_get_sqe(&ring), fd, p, 8, 0);
		io_uring_submit_and_wait(&ring, 1);
		if (!io_uring_peek_cqe(&ring, &cqe)) {
			EXPECT_GT(1, cqe->res);
			io_uring_cqe_seen(&ring, cqe);
		}
		io_uring_queue_exit(&ring);
	} else {
		TH_LOG("no io_uring here");
	}
	close(fd);
	EXPECT_TRUE(same(p, copy));

	/* the file behind it, by the back door */
	{
		char path[128];

		snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
			 (unsigned long)p, (unsigned long)p + len);
		fd = open(path, O_RDWR);
		if (fd >= 0) {
			q = mmap(NULL, MAP_PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED, fd, 0);
			EXPECT_EQ(MAP_FAILED, q) {
				TH_LOG("%s: mapped by map_files", what);
			}
			close(fd);
		}
	}
	EXPECT_EQ(SIGSEGV, map_touch(p, true));
	EXPECT_TRUE(same(p, copy)) {
		TH_LOG("%s was changed", what);
	}
}

TEST_F_TIMEOUT(map_readonly, read_only_for_all, 180)
{
	struct mapping m;
	int e, k;

	for (e = 0; e < 2; e++) {
		static uint8_t quiet[MAP_PAGE];

		ASSERT_EQ(0, mapping_open(&m, self->fd[e]));
		/*
		 * What these tests look at does not change by itself: the data
		 * page that traffic is far from, and peer and state pages of a
		 * connection without any.
		 */
		for (k = 0; k < 3; k++) {
			int c, s;
			struct mapping n;
			uint8_t *p;

			ASSERT_TRUE(map_pair("abstract:l5_map_view2", &c, &s));
			ASSERT_EQ(0, mapping_open(&n, e ? s : c));
			p = k == 0 ? (uint8_t *)n.rx : k == 1 ?
			    (uint8_t *)n.peer : (uint8_t *)n.state;
			one_view(_metadata, k == 0 ? "rx" : k == 1 ? "peer" :
				 "state", p, k ? MAP_PAGE : 2 * n.rx_size,
				 self->fd[e], self->fd[!e]);
			mapping_close(&n);
			close(c);
			close(s);
		}
		EXPECT_TRUE(is_zero(quiet, sizeof(quiet)));
		mapping_close(&m);
	}
	EXPECT_EQ(0, l5_stat("violations"));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

/* Pages of the ring in a pipe outlive everything, as they were. */
TEST_F_TIMEOUT(map_readonly, pinned, 120)
{
	uint8_t buf[MAP_PAGE];
	struct mapping m, o;
	struct iovec iov;
	int pp[2], ret;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	ASSERT_EQ(0, pipe(pp));
	l5_fill(o.tx + MAP_PAGE, MAP_PAGE, 3);
	iov.iov_base = (void *)(m.rx + MAP_PAGE);
	iov.iov_len = MAP_PAGE;
	ret = vmsplice(pp[1], &iov, 1, SPLICE_F_GIFT);
	TH_LOG("vmsplice of the ring: %d", ret);
	mapping_close(&m);
	mapping_close(&o);
	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	/* others get memory and use it */
	ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 300000, 99));
	if (ret > 0) {
		ASSERT_EQ(ret, read(pp[0], buf, sizeof(buf)));
		EXPECT_EQ(-1, l5_check(buf, ret, 3));
	}
	close(pp[0]);
	close(pp[1]);
}

TEST_F_TIMEOUT(map_readonly, debuggers_look, 120)
{
	struct mapping m;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	EXPECT_EQ(0, sh("cd /proc/%d; cat maps smaps smaps_rollup >/dev/null",
			getpid()));
	sh("cd /proc/%d; cat numa_maps pagemap 2>&1 | head -c 1000000 >/dev/null",
	   getpid());
	mlock(m.tx, 2 * m.tx_size);
	munlock(m.tx, 2 * m.tx_size);
	mlockall(MCL_CURRENT);
	munlockall();
	msync(m.tx, 2 * m.tx_size, MS_SYNC);
	msync((void *)m.rx, 2 * m.rx_size, MS_SYNC | MS_INVALIDATE);
	EXPECT_EQ(0, map_touch(m.rx, false));
	mapping_close(&m);
}

TEST_HARNESS_MAIN
