#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# libl5 as it is installed: what it exports, its manual, and programs that are
# built with it by pkg-config, in each way it can be linked and in C++. It goes
# below a directory that is thrown away, and needs no module.

# shellcheck disable=SC2317 # report runs the functions

cd "$(dirname "$0")/../../userspace" || exit 1
../vm/deps pkgconf || exit 1
n=0
failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL

# report NAME COMMAND...: the condition is a command
report() {
	local name=$1

	shift
	n=$((n + 1))
	if "$@" >"$tmp/out" 2>&1; then
		echo "ok $n package.$name"
	else
		failed=$((failed + 1))
		sed 's/^/# /' "$tmp/out" | tail -30
		echo "not ok $n package.$name"
	fi
}

# A prefix of its own: pkg-config says nothing of directories that all know.
prefix=/opt/l5
lib=$tmp$prefix/lib
man=$tmp$prefix/share/man
export PKG_CONFIG_LIBDIR=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tmp

do_make() {
	make -s "$@" DESTDIR="$tmp" PREFIX="$prefix"
}

# The names that the map exports, one a line
names() {
	sed -n 's/^\t\(l5_[a-z0-9_]*\);$/\1/p' lib/libl5.map | sort
}

exported() {	# nm's options and the file
	nm --defined-only "$@" | awk '$2 ~ /^[A-Z]$/ && $2 != "A" { print $3 }' |
		sed 's/@.*//' | sort -u
}

# The library exports neither less nor more, and the header has all of it.
exports() {
	[ "$(names | wc -l)" -gt 20 ] &&
		diff <(names) <(exported -D "$lib/libl5.so.0") &&
		diff <(names) <(exported -g "$lib/libl5.a") &&
		diff <(names) <(grep -o '\bl5_[a-z0-9_]*(' lib/libl5.h |
			grep -Fx -f <(names | sed 's/$/(/') | tr -d '(' |
			sort -u)
}

# All the pages, and no others
pages() {
	diff <(cd man && printf '%s\n' *.[1378] | sort) \
		<(find "$man" -type f -printf '%f\n' | sort) || return
	find "$man" -type f -printf '%P\n' |
		awk -F '[/.]' '$1 != "man" $NF { print; bad = 1 }
			END { exit bad }'
}

# synopsis FILE: what its section says, as plain words
synopsis() {
	awk '/^\.SH/ { on = /SYNOPSIS/ } on' "$1" | tr -d '"'
}

# Each function has a page, its own or another's, and stands in its synopsis
# and among its names.
manual() {
	local f page bad=0

	for f in $(names); do
		page=$man/man3/$f.3
		if [ ! -f "$page" ]; then
			echo "$f: no page"
			bad=1
			continue
		fi
		if grep -q '^\.so ' "$page"; then
			page=$man/$(sed -n 's/^\.so //p' "$page")
		fi
		if ! synopsis "$page" | grep -q "[ *]$f("; then
			echo "$f: not in the synopsis of ${page##*/}"
			bad=1
		fi
		if ! awk '/^\.SH/ { on = /NAME/ } on' "$page" |
			grep -qw "$f"; then
			echo "$f: not among the names of ${page##*/}"
			bad=1
		fi
	done
	return "$bad"
}

# The synopsis says what the header says, but for how lines are cut.
flat() {
	tr '\n' ' ' | sed 's/[[:space:]]\+/ /g;s/ \([,;)]\)/\1/g;s/( /(/g'
}

declared() {
	local f want bad=0 header all

	header=$(sed '/^\/\*/,/\*\/$/d' lib/libl5.h | flat)
	all=$(for f in "$man"/man3/*.3; do
		synopsis "$f" | sed -n 's/^\.B[IR]* //p'
	done | sed 's/ \([a-z0-9_]*\) \([,;)]\)/\1\2/g;s/ \([,;)]\)/\1/g' | flat |
		sed 's/[[:space:]]//g')
	for f in $(names); do
		want=$(grep -o "[a-z][a-z_0-9 ]*[ *]$f([^;]*);" <<<"$header" |
			sed 's/[[:space:]]//g')
		if [[ -z $want || $all != *"$want"* ]]; then
			echo "$f: not so in the manual: $want"
			bad=1
		fi
	done
	return "$bad"
}

# References lead somewhere.
references() {
	local file ref bad=0

	for file in man/*.[137]; do
		ref=$(sed -n 's/^\.so //p' "$file")
		if [ -n "$ref" ] && [ ! -f "$man/$ref" ]; then
			echo "$file: .so $ref"
			bad=1
		fi
		for ref in $(sed -n 's/^\.BR \(.*\)/\1/p' "$file" |
			grep -o '\b\(l5_[a-z_]*\|libl5\|l5run\) "\?([137])' |
			tr -d '"() '); do
			if [ ! -f "man/${ref%?}.${ref: -1}" ]; then
				echo "$file: ${ref%?}(${ref: -1})"
				bad=1
			fi
		done
	done
	return "$bad"
}

# In C and in C++: bytes each way, with and without a copy, and a wait.
cat >"$tmp/program.c" <<'C'
#include <libl5.h>
#include <linux/l5.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(void)
{
	struct l5_stream *c, *s;
	const void *q;
	char buf[8];
	int fd[2];
	void *p;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		return 1;
	c = l5_map(fd[0]);
	s = l5_map(fd[1]);
	if (!c || !s || l5_stream_fd(c) != fd[0] || l5_stream_mapped(c))
		return 2;
	l5_set_wait(c, 0, 0);
	if (l5_send(c, "moved", 5, 0) != 5 || l5_wait(s, POLLIN, -1) != POLLIN ||
	    l5_recv(s, buf, sizeof(buf), 0) != 5 || memcmp(buf, "moved", 5))
		return 3;
	if (l5_reserve(s, &p, 4, 0) != 4)
		return 4;
	memcpy(p, "back", 4);
	if (l5_commit(s, 4) != 4 || l5_peek(c, &q, 0) != 4 ||
	    memcmp(q, "back", 4) || l5_release(c, 4))
		return 5;
	if (l5_connect(NULL, NULL, 0) || l5_listen(NULL, NULL, 0) >= 0)
		return 6;
	if (l5_close(c) || l5_close(s) || l5_close(NULL))
		return 7;
	puts("moved");
	return 0;
}
C
cp "$tmp/program.c" "$tmp/program.cc"

# build COMPILER... -- OPTIONS OF PKG-CONFIG: build $tmp/program and run it
build() {
	local cc=()

	while [ "$1" != -- ]; do
		cc+=("$1")
		shift
	done
	shift
	# shellcheck disable=SC2046 # words
	"${cc[@]}" -Wall -Wextra -Werror -o "$tmp/program" \
		$(pkg-config "$@" --cflags --libs libl5) &&
		[ "$(LD_LIBRARY_PATH=$lib "$tmp/program")" = moved ]
}

needs() {
	readelf -d "$tmp/program" | grep -q 'NEEDED.*libl5'
}

shared() { build cc "$tmp/program.c" -- && needs; }

# The library alone, and all of it: libc warns of getaddrinfo() then.
archive() {
	# shellcheck disable=SC2046 # words
	cc -Wall -Wextra -Werror -o "$tmp/program" "$tmp/program.c" \
		$(pkg-config --static --cflags --libs libl5 |
			sed 's/-ll5/-l:libl5.a/') &&
		[ "$("$tmp/program")" = moved ] && ! needs
}

static() {
	build cc -static "$tmp/program.c" -- --static && ! needs &&
		! readelf -l "$tmp/program" | grep -q INTERP
}

cxx() {
	local std

	for std in c++11 gnu++17 c++20; do
		build "$1" -pedantic "-std=$std" "$tmp/program.cc" -- || return
	done
}

echo "TAP version 13"
echo "1..12"
report install do_make install
report exports exports
report pages pages
report manual manual
report declared declared
report references references
report shared shared
report archive archive
report static static
for cxx in g++ clang++; do
	if command -v "$cxx" >/dev/null; then
		report "$cxx" cxx "$cxx"
	else
		n=$((n + 1))
		echo "ok $n package.$cxx # SKIP there is none"
	fi
done

nothing_left() {
	do_make uninstall &&
		[ -z "$(find "$tmp$prefix" -type f -o -type l | tee /dev/stderr)" ]
}
report uninstall nothing_left

exit $((failed > 0))
