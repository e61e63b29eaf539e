// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's clock: see clock.h. It is in the vDSO, an ELF file that the
 * kernel maps into each process. The kernel also says where the file lies, so
 * neither libc nor what has taken its place is between.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

#if defined(__x86_64__)
#define VDSO_CLOCK	"__vdso_clock_gettime"
#elif defined(__aarch64__)
#define VDSO_CLOCK	"__kernel_clock_gettime"
#else
#define VDSO_CLOCK	NULL
#endif

/* Not by syscall(), in which there may be another clock, too. */
static int clock_bare(clockid_t clock, struct timespec *t)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall" : "=a" (ret)
			 : "0" ((long)SYS_clock_gettime), "D" ((long)clock),
			   "S" (t)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_clock_gettime;
	register long ret __asm__("x0") = clock;
	register struct timespec *to __asm__("x1") = t;

	__asm__ volatile("svc 0" : "+r" (ret) : "r" (nr), "r" (to) : "memory");
	return ret;
#else
	return syscall(SYS_clock_gettime, clock, t);
#endif
}

int (*l5_clock_gettime)(clockid_t clock, struct timespec *t) = clock_bare;

/**
 * struct vdso - the tables in which a name is looked up
 * @base: to add to the addresses in the file
 * @sym: its symbols
 * @names: theirs
 * @count: of symbols
 */
struct vdso {
	uintptr_t base;
	const Elf64_Sym *sym;
	const char *names;
	uint32_t count;
};

/* The number of symbols in a hash table: the last one's chain ends there. */
static uint32_t vdso_count(const uint32_t *gnu)
{
	const uint32_t *buckets = gnu + 4 + 2 * gnu[2];
	const uint32_t *chain = buckets + gnu[0];
	uint32_t last = 0, i;

	for (i = 0; i < gnu[0]; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < gnu[1])
		return 0;
	while (!(chain[last - gnu[1]] & 1))
		last++;
	return last + 1;
}

static void vdso_open(struct vdso *v, const Elf64_Ehdr *eh)
{
	const Elf64_Phdr *ph = (const void *)((uintptr_t)eh + eh->e_phoff);
	const Elf64_Dyn *dyn = NULL;
	const void *at;
	int i;

	for (i = eh->e_phnum - 1; i >= 0; i--) {
		if (ph[i].p_type == PT_LOAD)
			v->base = (uintptr_t)eh + ph[i].p_offset -
				  ph[i].p_vaddr;
		if (ph[i].p_type == PT_DYNAMIC)
			dyn = (const void *)((uintptr_t)eh + ph[i].p_offset);
	}
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		at = (const void *)(v->base + dyn->d_un.d_ptr);
		if (dyn->d_tag == DT_SYMTAB)
			v->sym = at;
		else if (dyn->d_tag == DT_STRTAB)
			v->names = at;
		else if (dyn->d_tag == DT_HASH)
			v->count = ((const uint32_t *)at)[1];
		else if (dyn->d_tag == DT_GNU_HASH && !v->count)
			v->count = vdso_count(at);
	}
}

void l5_clock_find(void)
{
	const Elf64_Ehdr *eh = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct vdso v = { 0 };
	uint32_t i;

	if (!VDSO_CLOCK || !eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64)
		return;
	vdso_open(&v, eh);
	if (!v.sym || !v.names)
		return;
	for (i = 0; i < v.count; i++)
		if (v.sym[i].st_shndx != SHN_UNDEF &&
		    !strcmp(v.names + v.sym[i].st_name, VDSO_CLOCK))
			__atomic_store_n((uintptr_t *)&l5_clock_gettime,
					 v.base + v.sym[i].st_value,
					 __ATOMIC_RELAXED);
}

uint64_t l5_map_now(void)
{
	struct timespec t = { 0, 0 };

	__atomic_load_n(&l5_clock_gettime, __ATOMIC_RELAXED)(CLOCK_MONOTONIC,
							     &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
