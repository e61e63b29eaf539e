# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Kernels out of Debian's archive, unpacked into the cache. Part of vm/kernel,
# which has the variables; apt runs with lists and a status of its own, so it
# knows nothing of what the host has and changes nothing there.

# shellcheck disable=SC2034 # vm/kernel has the readers of several variables

RENEW=		# fetch it, whatever there is
OWN_ROOT=	# where a module is built, if not in the host's root

suites() {	# name
	case $1 in
	6.12) echo bookworm-backports ;;
	newest) echo sid ;;
	next) echo sid experimental ;;
	esac
}

# The headers of newer kernels want a compiler that the host does not have and
# that the host's C library cannot run. So these get a root of their own, with
# all that make needs; the headers themselves ask for their compiler.
TOOLS='base-files bash coreutils dash diffutils findutils grep make mawk sed'

has_own_tools() { [ "$1" != 6.12 ]; }	# name

get_unpacked() {	# name
	local key status
	DIR=$CACHE/kernel-$1
	if has_own_tools "$1"; then
		need unshare:util-linux || exit "$EX_LAB"
		key=$(echo "$(suites "$1"): $TOOLS" | sha256sum | cut -c1-12)
		DIR=$DIR-$key
		OWN_ROOT=$DIR/root
	else
		"$VM/deps" dwarves || exit "$EX_LAB"	# for the module's BTF
	fi
	ROOT=$DIR/root
	if [ -n "$RENEW" ] || [ ! -e "$DIR/ok" ]; then
		locked "$CACHE/kernel-$1.lock" fetch "$1"
		status=$?
		[ $status -eq "$EX_OFFLINE" ] &&
			say "$1: the mirror cannot be reached or does not have it" &&
			exit "$EX_OFFLINE"
		[ $status -eq 0 ] || die "no kernel $1: see $DIR/log"
	fi
	REL=$(cat "$DIR/ok")
	IMAGE=$ROOT/boot/vmlinuz-$REL
	[ -e "$IMAGE" ] || IMAGE=$ROOT/lib/modules/$REL/vmlinuz
	KDIR=$ROOT/usr/src/linux-headers-$REL
}

# Nothing of an existing kernel goes before its successor is unpacked.
fetch() {	# name
	local rel list copy
	[ -e "$DIR/ok" ] && [ -z "$RENEW" ] && return
	say "fetching Debian's kernel $1 into $DIR"
	rm -rf "$ROOT.new" "$DIR/debs"
	mkdir -p "$ROOT.new" "$DIR"/apt/{none,lists/partial,cache/archives/partial} \
		"$DIR/debs" || return
	sources "$1" >"$DIR/apt/sources.list"
	: >"$DIR/apt/status"
	private_apt apt-get -q --error-on=any update >"$DIR/log" 2>&1 ||
		return "$EX_OFFLINE"
	rel=$(newest_release "$1")
	[ -n "$rel" ] || { say "no kernel $1 in $(suites "$1")"; return 1; }
	list=$(packages "$1" "$rel" 2>>"$DIR/log") || return
	# shellcheck disable=SC2086 # words on purpose
	(cd "$DIR/debs" && private_apt apt-get -q download $list) \
		>>"$DIR/log" 2>&1 || return "$EX_OFFLINE"
	unpack "$1" >>"$DIR/log" 2>&1 || return
	rm -f "$DIR/ok" && rm -rf "$ROOT" && mv "$ROOT.new" "$ROOT" || return
	has_own_tools "$1" || relocate >>"$DIR/log" 2>&1 || return
	depmod -b "$ROOT" "$rel" >>"$DIR/log" 2>&1 || return
	# Modules of the kernel before this one are to be built from nothing.
	for copy in "$CACHE/module-$1"-*/.kdir; do
		rm -f "$copy"
	done
	echo "$rel" >"$DIR/ok"
}

sources() {	# name
	local suite
	for suite in $(suites "$1"); do
		printf 'deb [signed-by=%s] %s %s main\n' \
			/usr/share/keyrings/debian-archive-keyring.gpg \
			"$(mirror)" "$suite"
	done
}

# The host's own mirror serves the other suites too.
mirror() {
	local uri
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
		'Label: Debian' 2>/dev/null | head -n 1)
	printf '%s\n' "${uri:-http://deb.debian.org/debian}"
}

private_apt() {
	local tool=$1
	shift
	"$tool" -o Dir::Etc::sourcelist="$DIR/apt/sources.list" \
		-o Dir::Etc::sourceparts="$DIR/apt/none" -o Dir::Etc::preferencesparts="$DIR/apt/none" \
		-o Dir::Etc::preferences="$DIR/apt/none/x" -o Dir::State="$DIR/apt" \
		-o Dir::State::lists="$DIR/apt/lists" -o Dir::State::status="$DIR/apt/status" \
		-o Dir::Cache="$DIR/apt/cache" -o APT::Architecture=amd64 \
		-o APT::Sandbox::User=root "$@"
}

# Those with a dash within are of other flavours, or without a signature.
newest_release() {	# name
	local series='[0-9]'
	[ "$1" != 6.12 ] || series='6\.12\.'
	private_apt apt-cache pkgnames linux-image- |
		sed -nE "s/^linux-image-(${series}[^-]*-amd64)$/\1/p" | sort -V | tail -n 1
}

# What to unpack. Of all that an image depends on, a guest needs what is named
# after the kernel.
packages() {	# name release
	local headers=linux-headers-$2 image=linux-image-$2
	if has_own_tools "$1"; then
		# shellcheck disable=SC2086 # words on purpose
		installs "$headers" $TOOLS && installs "$image" | grep -F -e "-$2"
	else
		echo "$image $headers"
		private_apt apt-cache depends "$headers" |
			sed -nE 's/^ *Depends: (linux-headers-.*-common|linux-kbuild-.*)$/\1/p'
	fi
}

# All that these packages pull in.
installs() {
	local plan
	plan=$(private_apt apt-get -q -s --no-install-recommends install "$@") ||
		return
	awk '$1 == "Inst" { print $2 }' <<<"$plan"
}

# base-files has the links that the rest goes through. No package is configured:
# all that comes of it here is which awk there is.
unpack() {	# name
	local deb
	for deb in "$DIR"/debs/base-files_*.deb "$DIR"/debs/*.deb; do
		[ -e "$deb" ] || continue
		dpkg-deb -x "$deb" "$ROOT.new" && rm "$deb" || return
	done
	! has_own_tools "$1" || ln -s mawk "$ROOT.new/usr/bin/awk"
}

# The headers name each other by absolute paths. Turn these to the cache.
relocate() {
	local link to
	find "$ROOT/usr/src" "$ROOT/usr/lib" "$ROOT/lib" -type l -lname '/*' |
	while read -r link; do
		to=$(readlink "$link")
		[ -e "$ROOT$to" ] && ln -snf "$ROOT$to" "$link"
	done
	grep -rlIE '/usr/(src|lib)/linux-(headers|kbuild)' "$ROOT"/usr/src/linux-headers-*-amd64 \
		--include='Makefile' --include='.kernel*' --include='*.mk' |
	xargs -r sed -i -E "s,(^|[^[:alnum:]_./-])/usr/(src|lib)/linux-,\1$ROOT/usr/\2/linux-,g"
}

# Run a command in the kernel's own root, where it finds one directory of ours
# under its own name. The mounts are private and end with the command. A user
# that is not root is root in there.
in_root() {	# directory command...
	local as_root=()
	[ "$(id -u)" -eq 0 ] || as_root=(--map-root-user)
	mkdir -p "$OWN_ROOT$1" || return
	# shellcheck disable=SC2016 # it is the other shell's
	unshare "${as_root[@]}" --mount sh -ec '
		root=$1 dir=$2
		shift 2
		mount --rbind /dev "$root/dev"
		mount --rbind /proc "$root/proc"
		mount --bind "$dir" "$root$dir"
		exec chroot "$root" /usr/bin/env -i HOME=/ LC_ALL=C \
			PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$OWN_ROOT" "$@"
}
