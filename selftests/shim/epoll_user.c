// SPDX-License-Identifier: GPL-2.0
/*
 * The same with the kernel hardly ever asked about what user space knows, so
 * that it is user space that gives most of the answers.
 */
#define SHIM_ASK	"1000000"
#define SHIM	shim_epoll_user
#include "epoll.c"
