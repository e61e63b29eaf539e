// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: rules of an administrator that deny sockets rings, or RDMA.
 *
 * Once rings carry a connection its bytes pass no firewall. So an administrator
 * may say, in /proc/net/l5_deny, which sockets are to stay on TCP or AF_UNIX.
 * The rules of the first network namespace are the host's and hold in every
 * other namespace; the rules of another hold there, in addition. Rules are
 * asked where a socket is about to offer or to take rings, so they end no
 * connection; that is what revoking is for. Rules of RDMA may name the way
 * instead of the sockets.
 */
#include <linux/cgroup.h>
#include <linux/ctype.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/nsproxy.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "deny.h"
#include "netns.h"
#include "way.h"
#include "who.h"

/* Most rules of a namespace: all are looked at for each connection. */
#define L5_RULES_MAX	64

/**
 * struct l5_rule - sockets that stay on their bootstrap
 * @node: in l5_net.rules
 * @rdma: RDMA alone is denied; if not, all rings are
 * @who: the sockets; all, if @way says more
 * @way: with @rdma, the ways between hosts that the rule is for
 * @rcu: delays the end
 */
struct l5_rule {
	struct list_head node;
	bool rdma;
	struct l5_who who;
	struct l5_way way;
	struct rcu_head rcu;
};

static bool l5_denied_in(struct net *net, const struct l5_sock *l5, bool rdma)
{
	const struct l5_rule *rule;

	list_for_each_entry_rcu(rule, &l5_net(net)->rules, node)
		if (rule->rdma == rdma && rule->way.kind == L5_WAY_ANY &&
		    l5_who_is(&rule->who, net->user_ns, l5))
			return true;
	return false;
}

static bool l5_denied_by(const struct l5_sock *l5, bool rdma)
{
	struct net *net = sock_net(&l5->sk);
	bool denied;

	rcu_read_lock();
	denied = l5_denied_in(&init_net, l5, rdma) ||
		 (!net_eq(net, &init_net) && l5_denied_in(net, l5, rdma));
	rcu_read_unlock();
	return denied;
}

/**
 * l5_denied() - does an administrator want this socket to have no rings?
 * @l5: the socket
 *
 * Context: any but hard interrupts.
 */
bool l5_denied(const struct l5_sock *l5)
{
	return l5_denied_by(l5, false);
}

/**
 * l5_denied_rdma() - or to have no RDMA between hosts, whatever the way?
 * @l5: the socket that asks, or that listens
 *
 * Context: any but hard interrupts.
 */
bool l5_denied_rdma(const struct l5_sock *l5)
{
	return l5_denied_by(l5, true);
}

static bool l5_denied_way_in(const struct net *net, struct net_device *dev,
			     const struct in6_addr *peer)
{
	const struct l5_rule *rule;

	list_for_each_entry_rcu(rule, &l5_net(net)->rules, node)
		if (rule->way.kind != L5_WAY_ANY &&
		    l5_way_is(&rule->way, net, dev, peer))
			return true;
	return false;
}

/**
 * l5_denied_way() - is there to be no RDMA by this way?
 * @net: the socket's namespace
 * @dev: the device that leads there
 * @peer: the peer's address (one of IPv4 is mapped), or NULL
 *
 * Context: RCU.
 */
bool l5_denied_way(const struct net *net, struct net_device *dev,
		   const struct in6_addr *peer)
{
	return l5_denied_way_in(&init_net, dev, peer) ||
	       (!net_eq(net, &init_net) && l5_denied_way_in(net, dev, peer));
}

static void l5_rule_free_rcu(struct rcu_head *rcu)
{
	struct l5_rule *rule = container_of(rcu, struct l5_rule, rcu);

	l5_who_put(&rule->who);
	kfree(rule);
}

static void l5_rule_del(struct l5_net *ln, struct l5_rule *rule)
{
	list_del_rcu(&rule->node);
	ln->nrules--;
	call_rcu(&rule->rcu, l5_rule_free_rcu);
}

static struct l5_rule *l5_rule_find(struct l5_net *ln,
				    const struct l5_rule *want)
{
	struct l5_rule *rule;

	lockdep_assert_held(&ln->rules_lock);
	list_for_each_entry(rule, &ln->rules, node)
		if (rule->rdma == want->rdma &&
		    l5_who_same(&rule->who, &want->who) &&
		    l5_way_same(&rule->way, &want->way))
			return rule;
	return NULL;
}

/* Takes over the references of @want, unless it fails. */
static int l5_rule_add(struct l5_net *ln, const struct l5_rule *want)
{
	struct l5_rule *rule;

	if (want->who.kind == L5_WHO_INODE)
		return -EINVAL;
	if (l5_rule_find(ln, want))
		return -EEXIST;
	if (ln->nrules == L5_RULES_MAX)
		return -ENOSPC;
	rule = kzalloc(sizeof(*rule), GFP_KERNEL_ACCOUNT);
	if (!rule)
		return -ENOMEM;
	rule->rdma = want->rdma;
	rule->who = want->who;
	rule->way = want->way;
	list_add_tail_rcu(&rule->node, &ln->rules);
	ln->nrules++;
	return 0;
}

/* Does the line begin with a word? Then move on to what comes after it. */
static bool l5_deny_word(char **line, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*line, word, n) || !isspace((*line)[n]))
		return false;
	*line = skip_spaces(*line + n);
	return true;
}

static int l5_rule_parse(struct l5_rule *rule, char *line)
{
	int err = -ENOENT;

	memset(rule, 0, sizeof(*rule));
	rule->rdma = l5_deny_word(&line, "rdma");
	if (rule->rdma)
		err = l5_way_parse(&rule->way, line);
	return err == -ENOENT ? l5_who_parse(&rule->who, line) : err;
}

static int l5_deny_line(struct l5_net *ln, char *line)
{
	struct l5_rule *rule, want;
	bool add;
	int err;

	add = !l5_deny_word(&line, "allow");
	err = l5_rule_parse(&want, line);
	if (err)
		return err;
	mutex_lock(&ln->rules_lock);
	if (add) {
		err = l5_rule_add(ln, &want);
	} else {
		rule = l5_rule_find(ln, &want);
		if (rule)
			l5_rule_del(ln, rule);
		else
			err = -ENOENT;
	}
	mutex_unlock(&ln->rules_lock);
	if (err || !add)
		l5_who_put(&want.who);
	/* the rule is there already */
	return err == -EEXIST ? 0 : err;
}

/**
 * l5_deny_write() - add rules, or take them back
 * @file: /proc/net/l5_deny
 * @buf: lines, each a rule: text that l5_who_parse() knows, or "rdma " and text
 *	that l5_who_parse() or l5_way_parse() knows; "allow " before a rule
 *	takes it back
 * @size: of @buf
 *
 * Return: 0; at the first line that fails, its errno: the lines before it hold.
 */
int l5_deny_write(struct file *file, char *buf, size_t size)
{
	struct net *net = seq_file_single_net(file->private_data);
	char *line;
	int err;

	if (!l5_may_administer(file, net))
		return -EPERM;
	while ((line = strsep(&buf, "\n"))) {
		line = strim(line);
		if (!*line)
			continue;
		err = l5_deny_line(l5_net(net), line);
		if (err)
			return err;
	}
	return 0;
}

/* Show a path as the reader's cgroup namespace has it. */
static void l5_rule_path(struct seq_file *seq, struct cgroup *cgrp)
{
	char *path = kmalloc(PATH_MAX, GFP_KERNEL);

	if (path && cgroup_path_ns(cgrp, path, PATH_MAX,
				   current->nsproxy->cgroup_ns) > 0)
		seq_puts(seq, path);
	else
		seq_putc(seq, '?');
	kfree(path);
}

static void l5_rule_show(struct seq_file *seq, const struct l5_who *who)
{
	switch (who->kind) {
	case L5_WHO_ALL:
		seq_puts(seq, "all\n");
		break;
	case L5_WHO_UID:
		seq_printf(seq, "uid %u-%u\n", who->first, who->last);
		break;
	default:
		seq_puts(seq, "cgroup ");
		l5_rule_path(seq, who->cgrp);
		seq_putc(seq, '\n');
	}
}

/**
 * l5_deny_show() - print the rules, in the form in which they are written
 * @seq: where to print
 * @v: unused
 *
 * Return: 0.
 */
int l5_deny_show(struct seq_file *seq, void *v)
{
	struct l5_net *ln = l5_net(seq_file_single_net(seq));
	const struct l5_rule *rule;

	mutex_lock(&ln->rules_lock);
	list_for_each_entry(rule, &ln->rules, node) {
		if (rule->rdma)
			seq_puts(seq, "rdma ");
		if (rule->way.kind == L5_WAY_ANY)
			l5_rule_show(seq, &rule->who);
		else
			l5_way_show(seq, &rule->way);
	}
	mutex_unlock(&ln->rules_lock);
	return 0;
}

/**
 * l5_deny_init() - begin without rules
 * @ln: the part of a new namespace
 */
void l5_deny_init(struct l5_net *ln)
{
	INIT_LIST_HEAD(&ln->rules);
	mutex_init(&ln->rules_lock);
}

/**
 * l5_deny_exit() - the rules of a namespace go with it
 * @ln: the namespace's part
 */
void l5_deny_exit(struct l5_net *ln)
{
	struct l5_rule *rule, *tmp;

	mutex_lock(&ln->rules_lock);
	list_for_each_entry_safe(rule, tmp, &ln->rules, node)
		l5_rule_del(ln, rule);
	mutex_unlock(&ln->rules_lock);
}
