#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the libraries take from others. Each name may be defined elsewhere: by
# the program, or by another library that is preloaded. So each is here with
# what makes that right; a function that may stand still, sleep or allocate
# there is not. A library takes from nobody what it has itself:
# a program that has a function of the same name, and passes on to the library's,
# would be called by it without end.

cd "$(dirname "$0")/../../userspace" || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s bin/libl5preload.so bin/libl5socket.so bin/libl5.so.0 || exit 1

# library, or all; names
allowed() {
	cat <<-'T'
	# the linker's and the compiler's
	all _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable
	all __cxa_finalize __gmon_start__ __stack_chk_fail
	# the thread's own errno
	all __errno_location
	# system calls have to go by this: what takes its place sees them and
	# passes them on. But the clock does not go by it.
	all syscall
	# on memory that is given; sanitizers look at it by these
	all memchr memcmp memcpy memmove memset
	all stpcpy strchr strcmp strcpy strcspn strlen strnlen strrchr strstr
	all strtol
	# words for an error
	all strerrorname_np
	# the environment: a library with its own says what children get
	all getenv secure_getenv getauxval
	# a library that watches a process's mappings has to see these
	all mmap mmap64 munmap madvise
	# how eager to be, and the size of a page; wrong ones cost, no more
	all sysconf sched_getaffinity __sched_cpucount
	# libc's functions that ours stand before: one that is not found is
	# replaced by the system call
	libl5preload.so dlsym
	# of a stream, its descriptor
	libl5preload.so fileno
	# whether what libc's own would do has to be done
	libl5preload.so __chk_fail pthread_testcancel __register_atfork
	# the program's name and rules about it
	libl5preload.so __progname program_invocation_short_name
	libl5socket.so __progname program_invocation_short_name
	libl5preload.so fnmatch inet_pton
	# of a set of signals that is given
	libl5preload.so sigaddset sigemptyset
	# libc's own word for whether there ever was a second thread
	libl5preload.so __libc_single_threaded
	# an allocator, locks and a resolver as the program has them
	libl5.so.0 malloc calloc realloc free getaddrinfo freeaddrinfo
	libl5.so.0 pthread_mutex_init pthread_mutex_lock
	libl5.so.0 pthread_mutex_trylock pthread_mutex_unlock
	libl5.so.0 pthread_mutexattr_init pthread_mutexattr_settype
	libl5.so.0 pthread_mutexattr_destroy
	T
}

n=0
bad=0
for lib in libl5preload.so libl5socket.so libl5.so.0; do
	n=$((n + 1))
	names=$(nm -D --undefined-only "bin/$lib" | awk '{ print $2 }' |
		sed 's/@.*//' | sort -u)
	others=$(comm -23 <(echo "$names") <(allowed |
		awk -v l="$lib" '$1 == "all" || $1 == l {
			for (i = 2; i <= NF; i++) print $i }' | sort -u))
	if [ -n "$names" ] && [ -z "$others" ]; then
		echo "ok $n imports.$lib"
	else
		echo "# $lib takes from others: ${others//$'\n'/ }"
		echo "not ok $n imports.$lib"
		bad=1
	fi
	n=$((n + 1))
	own=$(nm -D --defined-only "bin/$lib" | awk '{ print $3 }' |
		sed 's/@.*//' | sort -u)
	found=$(readelf -rW "bin/$lib" | awk '$3 ~ /^R_.*(JUMP_SLOT|GLOB_DAT)$/ {
			sub(/@.*/, "", $5); print $5 }' | sort -u |
		comm -12 - <(echo "$own"))
	if [ -n "$own" ] && [ -z "$found" ]; then
		echo "ok $n own.$lib"
	else
		echo "# $lib looks elsewhere for its own: ${found//$'\n'/ }"
		echo "not ok $n own.$lib"
		bad=1
	fi
done
echo "1..$n"
exit "$bad"
