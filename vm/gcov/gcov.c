// SPDX-License-Identifier: GPL-2.0
/*
 * What gcc's counters of executed lines need of the module they are in, so that
 * any kernel will do, and one that is built for it (CONFIG_GCOV_KERNEL) is not
 * needed: constructors that tell of the counters are run when the module
 * begins, and when it ends it writes files for gcov.
 *
 * They go to /run/gcov of a guest, a directory for each life of the module, each
 * file named by the object's path, # for a slash.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "gcov.h"

#define L5_GCOV_DIR	"/run/gcov"

/* How many kinds of counters a gcc has; of ours one is in use. */
#if __GNUC__ >= 15
#define L5_GCOV_KINDS	10
#elif __GNUC__ >= 14
#define L5_GCOV_KINDS	9
#else
#define L5_GCOV_KINDS	8
#endif

/* The format of files since gcc 12: words of 32 bits, lengths in bytes. */
#define L5_GCOV_MAGIC		0x67636461
#define L5_GCOV_FUNCTION	0x01000000
#define L5_GCOV_COUNTERS	0x01a10000

struct l5_gcov_info;

struct l5_gcov_counters {
	u32 n;
	s64 *values;
};

struct l5_gcov_fn {
	const struct l5_gcov_info *key;
	u32 ident;
	u32 lines;
	u32 graph;
	struct l5_gcov_counters kinds[];
};

struct l5_gcov_info {
	u32 version;
	struct l5_gcov_info *next;
	u32 stamp;
	u32 checksum;
	const char *name;
	void (*merge[L5_GCOV_KINDS])(s64 *values, u32 n);
	u32 n;
	const struct l5_gcov_fn *const *functions;
};

/* What gcc calls, by its names. */
void __gcov_init(struct l5_gcov_info *info);
void __gcov_exit(void);
void __gcov_merge_add(s64 *values, u32 n);

static struct l5_gcov_info *l5_gcov_list;

void __gcov_init(struct l5_gcov_info *info)
{
	info->next = l5_gcov_list;
	l5_gcov_list = info;
}

void __gcov_exit(void)
{
}

void __gcov_merge_add(s64 *values, u32 n)
{
}

/*
 * Stock kernels call no constructors of modules. They stand in .init_array, by
 * priority: gcc's for this have 100, and these marks are around them.
 */
typedef void (*l5_gcov_ctor)(void);

static l5_gcov_ctor l5_gcov_first[1] __used
	__section(".init_array.00001") = { NULL };
static l5_gcov_ctor l5_gcov_last[1] __used
	__section(".init_array.99999") = { NULL };

void l5_gcov_begin(void)
{
	l5_gcov_ctor *first = l5_gcov_first, *last = l5_gcov_last;

	/* Two objects, as the compiler sees them. */
	OPTIMIZER_HIDE_VAR(first);
	for (; first < last; first++)
		if (*first)
			(*first)();
}

/* A file as it grows; without memory it only counts how long it becomes. */
struct l5_gcov_file {
	u32 *words;
	size_t n;
};

static void l5_gcov_put(struct l5_gcov_file *f, u32 word)
{
	if (f->words)
		f->words[f->n] = word;
	f->n++;
}

static void l5_gcov_put_fn(struct l5_gcov_file *f,
			   const struct l5_gcov_info *info,
			   const struct l5_gcov_fn *fn)
{
	const struct l5_gcov_counters *c = fn->kinds;
	u32 i, kind;

	l5_gcov_put(f, L5_GCOV_FUNCTION);
	l5_gcov_put(f, 3 * sizeof(u32));
	l5_gcov_put(f, fn->ident);
	l5_gcov_put(f, fn->lines);
	l5_gcov_put(f, fn->graph);
	/* Only kinds that are in use are there. */
	for (kind = 0; kind < L5_GCOV_KINDS; kind++) {
		if (!info->merge[kind])
			continue;
		l5_gcov_put(f, L5_GCOV_COUNTERS + (kind << 17));
		l5_gcov_put(f, c->n * sizeof(s64));
		for (i = 0; i < c->n; i++) {
			l5_gcov_put(f, lower_32_bits(c->values[i]));
			l5_gcov_put(f, upper_32_bits(c->values[i]));
		}
		c++;
	}
}

static void l5_gcov_fill(struct l5_gcov_file *f, const struct l5_gcov_info *info)
{
	u32 i;

	f->n = 0;
	l5_gcov_put(f, L5_GCOV_MAGIC);
	l5_gcov_put(f, info->version);
	l5_gcov_put(f, info->stamp);
	l5_gcov_put(f, info->checksum);
	/* One that the linker took from another object has that one's key. */
	for (i = 0; i < info->n; i++)
		if (info->functions[i] && info->functions[i]->key == info)
			l5_gcov_put_fn(f, info, info->functions[i]);
	l5_gcov_put(f, 0);
}

static int l5_gcov_write(const char *name, const struct l5_gcov_file *f)
{
	struct file *file = filp_open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	size_t len = f->n * sizeof(u32);
	loff_t pos = 0;
	ssize_t n;

	if (IS_ERR(file))
		return PTR_ERR(file);
	n = kernel_write(file, f->words, len, &pos);
	filp_close(file, NULL);
	return n == len ? 0 : n < 0 ? n : -EIO;
}

static int l5_gcov_save(const struct l5_gcov_info *info, u64 life)
{
	char *name = kasprintf(GFP_KERNEL, L5_GCOV_DIR "/%llu%s", life,
			       info->name);
	struct l5_gcov_file f = { };
	int err = -ENOMEM;

	l5_gcov_fill(&f, info);
	f.words = vmalloc(f.n * sizeof(u32));
	if (name && f.words) {
		strreplace(name + strlen(L5_GCOV_DIR) + 1, '/', '#');
		l5_gcov_fill(&f, info);
		err = l5_gcov_write(name, &f);
	}
	vfree(f.words);
	kfree(name);
	return err;
}

void l5_gcov_end(void)
{
	u64 life = ktime_get_ns();
	struct l5_gcov_info *info;
	int err;

	for (info = l5_gcov_list; info; info = info->next) {
		err = l5_gcov_save(info, life);
		if (err)
			pr_warn("af_l5: %s: not written, %d\n", info->name, err);
	}
}
