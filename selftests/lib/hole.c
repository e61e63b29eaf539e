// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hole.h"

bool hole_make(void *at, size_t len, int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range.start = (uintptr_t)at, .range.len = len,
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		return false;
	if (ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &reg)) {
		close(fd);
		return false;
	}
	if (uffd)
		*uffd = fd;
	return true;
}

void *hole_map(size_t len, int *uffd)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (!hole_make(at, len, uffd)) {
		munmap(at, len);
		return NULL;
	}
	return at;
}
