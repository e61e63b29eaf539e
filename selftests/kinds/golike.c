// SPDX-License-Identifier: GPL-2.0
/* A program that looks as if the Go toolchain had linked it with libc. */
#include <stdio.h>

__attribute__((section(".go.buildinfo"), used))
static const char buildinfo[32] = "\377 Go buildinf:";

int main(void)
{
	puts("runs");
	return 42;
}
