/* SPDX-License-Identifier: GPL-2.0 */
/* An administrator ends connections. */
#ifndef L5_REVOKE_H
#define L5_REVOKE_H

#include <linux/types.h>

struct file;
struct seq_file;
struct work_struct;

int l5_revoke_init(void);
void l5_revoke_exit(void);
void l5_revoke_work(struct work_struct *work);
int l5_revoke_write(struct file *file, char *buf, size_t size);
int l5_revoke_show(struct seq_file *seq, void *v);

#endif /* L5_REVOKE_H */
