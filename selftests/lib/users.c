// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ends.h"
#include "users.h"

int nobody_become(void)
{
	return setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY) ? -1 : 0;
}

bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return false;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = errno;
	close(fd);
	errno = err;
	return !err;
}

bool nobody_unshare(void)
{
	return !nobody_become() &&
	       !prctl(PR_SET_DUMPABLE, 1) &&	/* /proc/self is ours */
	       !unshare(CLONE_NEWUSER) &&
	       put_text("/proc/self/uid_map", "0 65534 1") && net_unshare();
}

bool cgroup_enter(const char *path)
{
	char file[128], pid[32];

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	snprintf(pid, sizeof(pid), "%d", getpid());
	return put_text(file, pid);
}
