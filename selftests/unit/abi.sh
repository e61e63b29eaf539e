#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs are compiled against the structs and numbers of uapi/: these are as
# abi.txt has them, for 64 bits and for 32, or the change is meant and written
# there, by "unit/abi.sh --write".

cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

headers=(../uapi/l5.h ../uapi/l5_ring.h)
# structs of a reader or writer alone, which are not shared
private='l5_prod|l5_cons'

# "struct field" of all fields, "struct" alone for its size
fields() {
	awk -v private="^($private)\$" '
	/^struct [a-z0-9_]+ \{/ {
		name = $2
		if (name ~ private)
			name = ""
		else
			print name
		next
	}
	/^};/ { name = "" }
	name != "" && match($0, /[a-z0-9_]+(\[[^]]*\])?;/) {
		f = substr($0, RSTART, RLENGTH)
		sub(/[[;].*/, "", f)
		print name, f
	}' "${headers[@]}"
}

# numbers: macros that have one, and enumerators but those of L5_REASONS
numbers() {
	awk '
	/^#define (L5|SOL_L5|IPPROTO_L5)[A-Z0-9_]*[ \t]+[^ \t]/ && !/L5_REASONS/ &&
	!/"/ && $2 !~ /\(/ { print $2 }
	/^enum / { e = 1; next }
	/^};/ { e = 0 }
	e && match($0, /^\t[A-Z0-9_]+/) && !/L5_REASON_/ {
		print substr($0, RSTART + 1, RLENGTH - 1)
	}' "${headers[@]}" | sort -u
	sed -n 's/^\tX(\([A-Z]*\),.*/L5_REASON_\1/p' ../uapi/l5.h
}

# The compiler writes the numbers into its assembly, so that nothing has to be
# linked or run.
source_of() {
	echo '#include <stddef.h>'
	echo '#include "l5.h"'
	echo '#include "l5_ring.h"'
	cat <<-'C'
	#define HALF(name, n) __asm__ volatile("\n#abi " name " %0" \
		: : "i" ((n) & 0xffffffffull))
	/* the upper half if there is one, and it is not a sign */
	#define SAY(name, n) do { \
		HALF(name, (unsigned long long)(n)); \
		if ((unsigned long long)(n) >> 32 && \
		    ~((unsigned long long)(n) >> 32) & 0xffffffffull) \
			HALF(name ".high", (unsigned long long)(n) >> 32); \
	} while (0)
	C
	echo 'void f(void);'
	echo 'void f(void) {'
	fields | while read -r s f; do
		if [ -z "$f" ]; then
			echo "SAY(\"sizeof $s\", sizeof(struct $s));"
		else
			echo "SAY(\"$s.$f\", offsetof(struct $s, $f));"
		fi
	done
	numbers | while read -r n; do echo "SAY(\"$n\", $n);"; done
	echo '}'
}

table() {	# compiler's options
	gcc "$@" -O1 -DL5_LAYOUT_ONLY -I../uapi \
		-I"/usr/include/$(gcc -print-multiarch)" -S -o - "$tmp/abi.c" |
		sed -n 's/^#abi \(.*\) \$\{0,1\}\(-\{0,1\}[0-9]*\)$/\1 \2/p'
}

source_of >"$tmp/abi.c"
if [ "$1" = --write ]; then
	table -m64 >unit/abi.txt
	exit
fi

echo TAP version 13
echo 1..2
n=0
say() {	# what, then a command
	n=$((n + 1))
	if "${@:2}"; then echo "ok $n $1"; else echo "not ok $n $1"; fi
}

same() {
	table "$1" >"$tmp/now" && [ -s "$tmp/now" ] &&
		diff -u --label recorded --label "now, $1" unit/abi.txt "$tmp/now" |
		sed 's/^/# /'
	return $((PIPESTATUS[0]))
}

say 'the layout for 64 bits is the recorded one' same -m64
if gcc -m32 -S -o /dev/null -x c - <<<'int x;' 2>/dev/null; then
	say 'the layout for 32 bits is the same' same -m32
else
	n=$((n + 1))
	echo "ok $n # SKIP this compiler is for 64 bits alone"
fi
