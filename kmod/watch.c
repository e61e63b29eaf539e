// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: processes that want to hear when they close a descriptor.
 *
 * A process that keeps in its own memory what a descriptor means is wrong as
 * soon as the descriptor is closed by a call that it did not see, and its
 * number may be a file's next. There is no hook of ours in the closing of a
 * socket that has other descriptors. But the locks of fcntl() end with whatever
 * descriptor of their file a process closes, by close(), dup2(), close_range(),
 * io_uring, exec or its end. So a process that watches has such a lock, of the
 * last byte that a file can have. The release of the lock says in the state
 * page of that end that a descriptor was closed.
 *
 * Such a lock belongs to a descriptor table, and the table has the numbers:
 * threads that share a table watch in common, and a child of fork() does not
 * watch. The lock is gone before its file is, so it needs no reference: neither
 * to the socket nor to this module.
 *
 * The number is free for other files a moment before the lock ends. If one
 * thread closes and another opens at the same time, neither told of the other,
 * then in that moment it is as if the close had not begun.
 */
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "watch.h"

static void l5_watch_ended(struct file_lock *fl)
{
	/* the task that ends the lock has the file, and a socket has but one */
	struct socket *sock = sock_from_file(l5_lock_file(fl));
	struct l5_map_state *state = l5_own(l5_sk(sock->sk))->state;

	/*
	 * AJ, pairs with AK in a process that is about to use the number: the
	 * call that closed it has not returned yet.
	 */
	atomic64_inc_return((atomic64_t *)&state->watch);
}

static const struct file_lock_operations l5_watch_ops = {
	.fl_release_private	= l5_watch_ended,
};

/*
 * Has the program a lock of its own on the last byte? A lock that is next to
 * ours, or around it, may take the place of ours, and says nothing when it
 * ends; and ours would make a part of a write lock a read lock.
 */
static bool l5_watch_lost(struct file *file, fl_owner_t owner)
{
	struct file_lock_context *ctx = locks_inode_context(file_inode(file));
	struct file_lock *fl;
	bool lost = false;

	if (!ctx)
		return false;
	spin_lock(&ctx->flc_lock);
	l5_for_each_lock(fl, &ctx->flc_posix)
		if (l5_lock_owner(fl) == owner && fl->fl_end == OFFSET_MAX &&
		    fl->fl_ops != &l5_watch_ops)
			lost = true;
	spin_unlock(&ctx->flc_lock);
	return lost;
}

/*
 * Does the number still mean the file? The spinlock of the table orders this
 * look after the setting of the file lock, as in fcntl(): a close() that comes
 * later ends the file lock.
 */
static bool l5_watch_open(struct file *file, int fd)
{
	struct files_struct *files = current->files;
	bool open;

	spin_lock(&files->file_lock);
	open = files_lookup_fd_locked(files, fd) == file;
	spin_unlock(&files->file_lock);
	return open;
}

/**
 * l5_watch() - have the closing of descriptors told
 * @l5: a socket that has a state page
 * @arg: &struct l5_watch
 *
 * Context: process, of the descriptor table that watches.
 * Return: 0; -EINVAL for another size; -EFAULT; -EBADF if the number is not, or
 * no longer, this socket's; -EAGAIN if a lock of the program's own, or of
 * another process, is in the way; -ENOMEM; -ENOLCK.
 */
int l5_watch(struct l5_sock *l5, void __user *arg)
{
	struct file *file = l5->sk.sk_socket->file;
	struct l5_end *own = l5_own(l5);
	struct l5_watch w;
	struct file_lock fl;
	int err;

	BUILD_BUG_ON(sizeof(w) != L5_WATCH_SIZE_VER0);
	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;
	if (w.size != sizeof(w) || w.watch)
		return -EINVAL;
	/*
	 * before the lock is set: the end of a lock that ends at once comes
	 * later
	 */
	w.watch = atomic64_read((atomic64_t *)&own->state->watch);
	if (l5_watch_lost(file, current->files))
		return -EAGAIN;
	l5_lock_init(&fl, file, &l5_watch_ops);
	err = posix_lock_file(file, &fl, NULL);
	if (err)
		return err;
	if (!l5_watch_open(file, w.fd)) {
		locks_remove_posix(file, current->files);
		return -EBADF;
	}
	/* a lock that came meanwhile */
	if (l5_watch_lost(file, current->files))
		return -EAGAIN;
	return copy_to_user(arg, &w, sizeof(w)) ? -EFAULT : 0;
}
