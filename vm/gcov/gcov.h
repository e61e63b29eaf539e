/* SPDX-License-Identifier: GPL-2.0 */
/* In front of the module's main file: its beginning and end, made ours. */
#ifndef L5_GCOV_H
#define L5_GCOV_H

#include <linux/module.h>

void l5_gcov_begin(void);
void l5_gcov_end(void);

#undef module_init
#define module_init(fn)							\
	static int __init l5_gcov_init(void)				\
	{								\
		int err;						\
									\
		l5_gcov_begin();					\
		err = fn();						\
		if (err)						\
			l5_gcov_end();					\
		return err;						\
	}								\
	int init_module(void) __copy(l5_gcov_init)			\
		__attribute__((alias("l5_gcov_init")));

#undef module_exit
#define module_exit(fn)							\
	static void __exit l5_gcov_exit(void)				\
	{								\
		fn();							\
		l5_gcov_end();						\
	}								\
	void cleanup_module(void) __copy(l5_gcov_exit)			\
		__attribute__((alias("l5_gcov_exit")));

#endif /* L5_GCOV_H */
