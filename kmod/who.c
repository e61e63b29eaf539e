// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: sockets as an administrator names them, and which users may.
 *
 * A socket belongs to the uid and the cgroup of the task that made it, as it
 * does for netfilter: that its owner changes these later, or that other
 * processes hold it, changes nothing. Uids are those of the user namespace that
 * owns the network namespace of the file they are written to. Paths of cgroups
 * are seen from the writer's cgroup namespace.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/ctype.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/user_namespace.h>

#include "who.h"

/**
 * l5_may_administer() - is the caller a network namespace's administrator?
 * @file: a file of the namespace; the task that opened it counts as well
 * @net: the namespace
 */
bool l5_may_administer(const struct file *file, const struct net *net)
{
	return file_ns_capable(file, net->user_ns, CAP_NET_ADMIN) &&
	       ns_capable(net->user_ns, CAP_NET_ADMIN);
}

static int l5_who_uid(struct l5_who *w, char *text)
{
	char *last = strchr(text, '-');
	int err;

	if (last)
		*last++ = 0;
	w->kind = L5_WHO_UID;
	err = kstrtou32(text, 10, &w->first);
	if (!err)
		err = kstrtou32(last ?: text, 10, &w->last);
	/* the highest number is no user's */
	if (err || w->first > w->last || w->last == (uid_t)-1)
		return -EINVAL;
	return 0;
}

static int l5_who_cgroup(struct l5_who *w, const char *path)
{
#ifdef CONFIG_SOCK_CGROUP_DATA
	w->kind = L5_WHO_CGROUP;
	if (*path != '/')
		return -EINVAL;
	w->cgrp = cgroup_get_from_path(path);
	return PTR_ERR_OR_ZERO(w->cgrp);
#else
	return -EOPNOTSUPP;
#endif
}

/**
 * l5_who_parse() - read text that names sockets
 * @w: to be filled
 * @text: "all", "uid N", "uid N-M", "cgroup PATH" or "inode N"; it is changed
 *
 * Context: may sleep.
 * Return: 0, -EINVAL, -ENOENT if there is no such cgroup, -EOPNOTSUPP without
 * cgroups. After an error there is nothing to put.
 */
int l5_who_parse(struct l5_who *w, char *text)
{
	char *word, *rest = strim(text);

	memset(w, 0, sizeof(*w));
	word = strsep(&rest, " \t");
	if (!strcmp(word, "all") && !rest) {
		w->kind = L5_WHO_ALL;
		return 0;
	}
	if (!rest)
		return -EINVAL;
	rest = skip_spaces(rest);
	if (!strcmp(word, "uid"))
		return l5_who_uid(w, rest);
	if (!strcmp(word, "cgroup"))
		return l5_who_cgroup(w, rest);
	if (!strcmp(word, "inode")) {
		w->kind = L5_WHO_INODE;
		return kstrtoul(rest, 10, &w->inode) ? -EINVAL : 0;
	}
	return -EINVAL;
}

/**
 * l5_who_put() - give back what was parsed
 * @w: what l5_who_parse() filled
 */
void l5_who_put(struct l5_who *w)
{
	if (w->kind == L5_WHO_CGROUP)
		cgroup_put(w->cgrp);
}

/**
 * l5_who_same() - do two name the same sockets?
 * @a: the one
 * @b: the other
 */
bool l5_who_same(const struct l5_who *a, const struct l5_who *b)
{
	return a->kind == b->kind && a->cgrp == b->cgrp &&
	       a->first == b->first && a->last == b->last &&
	       a->inode == b->inode;
}

static bool l5_who_in(const struct l5_who *w, const struct l5_sock *l5)
{
#ifdef CONFIG_SOCK_CGROUP_DATA
	struct sock *sk = (struct sock *)&l5->sk;

	return cgroup_is_descendant(sock_cgroup_ptr(&sk->sk_cgrp_data),
				    w->cgrp);
#else
	return false;
#endif
}

/**
 * l5_who_is() - is a socket among those named?
 * @w: what names them
 * @ns: the user namespace of the uids in @w
 * @l5: the socket, listed
 *
 * Context: any but hard interrupts.
 */
bool l5_who_is(const struct l5_who *w, struct user_namespace *ns,
	       const struct l5_sock *l5)
{
	const struct sock *sk = &l5->sk;
	uid_t uid;

	switch (w->kind) {
	case L5_WHO_ALL:
		return true;
	case L5_WHO_UID:
		uid = from_kuid(ns, READ_ONCE(sk->sk_uid));
		return uid >= w->first && uid <= w->last;
	case L5_WHO_CGROUP:
		return l5_who_in(w, l5);
	default:
		return sock_i_ino((struct sock *)sk) == w->inode;
	}
}
