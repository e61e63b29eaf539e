// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that comes late. What a call has looked at, and what it holds, may be
 * out of date when the page is there at last: calls of other lanes go on.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec.h"
#include "hole.h"

#define PAGE		4096UL
/* Of the time that a page takes, at most */
#define LATE_US		5000

static uint8_t *late;
static int late_uffd;

static void *late_main(void *arg)
{
	struct fz_rnd r = { .state = (uintptr_t)arg };
	struct uffdio_zeropage zero = { };
	struct uffd_msg msg;
	sigset_t all;

	/* signals are for calls, and would end this one's */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (read(late_uffd, &msg, sizeof(msg)) == sizeof(msg)) {
		usleep(fz_below(&r, LATE_US));
		zero.range.start = (uintptr_t)late;
		zero.range.len = PAGE;
		/* EEXIST: another thread's fault was answered */
		ioctl(late_uffd, UFFDIO_ZEROPAGE, &zero);
		ioctl(late_uffd, UFFDIO_WAKE, &zero.range);
	}
	return NULL;
}

void *fz_late(void)
{
	/* a child of fork() has a page there that comes at once */
	if (late)
		madvise(late, PAGE, MADV_DONTNEED);
	return late;
}

void fz_late_begin(void)
{
	uint8_t *at = mmap(NULL, FZ_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;

	if (at == MAP_FAILED || !hole_make(at, PAGE, &late_uffd))
		return;
	late_uffd = fz_own_fd(late_uffd);
	if (late_uffd < 0 || pthread_create(&t, NULL, late_main, at))
		return;
	pthread_detach(t);
	late = at;
}
