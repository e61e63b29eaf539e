// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel says meanwhile. The machine is judged by it in any case, see
 * vm/lib.sh; here it is for naming the program that ran.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "exec.h"

static const char *const bad[] = {
	"BUG:", "kernel BUG at", "WARNING:", "Oops", "general protection",
	"KASAN:", "UBSAN:", "KCSAN:", "KFENCE:", "ODEBUG:", "refcount_t:",
	"corruption", "possible recursive", "possible circular",
	"inconsistent lock state", "suspicious RCU", "held lock freed",
	"sleeping function", "scheduling while atomic", "blocked for more",
	"soft lockup", "detected stall", "Attempt to release",
};

static int kmsg = -1;

void fz_kmsg_begin(void)
{
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg < 0)
		return;
	kmsg = fz_own_fd(kmsg);
	lseek(kmsg, 0, SEEK_END);
}

bool fz_kmsg_complains(char *to, size_t room)
{
	char line[1024];
	unsigned int i;
	ssize_t n;

	while (kmsg >= 0 && (n = read(kmsg, line, sizeof(line) - 1)) > 0) {
		line[n] = 0;
		line[strcspn(line, "\n")] = 0;
		for (i = 0; i < ARRAY_SIZE(bad); i++) {
			if (!strstr(line, bad[i]))
				continue;
			strncpy(to, line, room - 1);
			return true;
		}
	}
	return false;
}
