// SPDX-License-Identifier: GPL-2.0
/* A program of another word size; without headers, which need not be there. */
extern int puts(const char *s);
extern void exit(int status) __attribute__((noreturn));

void _start(void);
void _start(void)
{
	puts("runs");
	exit(42);
}
