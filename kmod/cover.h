/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For kernels with kcov, that is for a fuzzer. Code that runs in softirqs runs
 * for no task; it counts for the task that asked for the coverage of its
 * network namespace. The handle is a common one with the number of that
 * namespace (nsfs shows it as the inode). Sections do not nest, and there is
 * none where a task makes the call itself: that task's own kcov sees it.
 */
#ifndef L5_COVER_H
#define L5_COVER_H

#include <linux/kcov.h>
#include <net/net_namespace.h>

#ifdef CONFIG_KCOV
/**
 * l5_cover_begin() - what this softirq does from here on is to be seen
 * @net: the namespace
 *
 * Return: for l5_cover_end().
 */
static inline bool l5_cover_begin(const struct net *net)
{
	if (!in_serving_softirq() || current->kcov_softirq)
		return false;
	kcov_remote_start_common(net->ns.inum);
	return true;
}

static inline void l5_cover_end(bool begun)
{
	if (begun)
		kcov_remote_stop();
}
#else
static inline bool l5_cover_begin(const struct net *net)
{
	return false;
}

static inline void l5_cover_end(bool begun)
{
}
#endif

#endif /* L5_COVER_H */
