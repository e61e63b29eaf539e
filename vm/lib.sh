# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the scripts of the lab share. Sourced by bash scripts that have set VM
# (this directory); gives REPO, CACHE and the functions below.

# The variables set here are used by the scripts that source this file.
# shellcheck disable=SC2034

REPO=$(cd "${VM:?}/.." && pwd -P) || exit 125
CACHE=${AF_L5_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/af_l5}
ME=${0##*/}

# Exit codes of the lab itself; everything else is the command's own.
EX_OFFLINE=69	# what it needs is not here, and the mirror does not give it
EX_SPLAT=70	# the kernel printed a splat
EX_TIMEOUT=124	# as timeout(1)
EX_LAB=125	# the lab could not do its work

say() { printf '%s: %s\n' "$ME" "$*" >&2; }
die() { say "$*"; exit "$EX_LAB"; }

# One word, quoted for sh: whatever is in it comes out of the shell unchanged.
quote() {
	local q="'\\''"
	printf "'%s'" "${1//\'/$q}"
}

# The newest installed stock kernel of a series that has an image and modules.
stock_release() {
	local f rel best=
	for f in /boot/vmlinuz-"$1".*-amd64; do
		rel=${f#/boot/vmlinuz-}
		[ -r "$f" ] && [ -d "/lib/modules/$rel/kernel" ] || continue
		best=$(printf '%s\n%s\n' "$best" "$rel" | sort -V | tail -n 1)
	done
	[ -n "$best" ] && printf '%s\n' "$best"
}

# Unpack a bzImage to the ELF kernel inside. QEMU starts that one through its
# PVH entry, and an emulated CPU need not spend seconds on decompression. (The
# debug kernel cannot start so: KASAN's checks are in the code of that entry,
# which runs before there is a shadow. Its LZ4 takes little time.)
unpack_image() {	# bzImage out
	local spec magic tool off
	for spec in 'fd377a585a xz' '28b52ffd zstd' '1f8b08 gzip'; do
		magic=${spec% *} tool=${spec#* }
		command -v "$tool" >/dev/null || continue
		for off in $(LC_ALL=C grep -aboP "$(hexclass "$magic")" "$1" |
			     cut -d: -f1 | head -n 20); do
			# Behind the kernel comes more of the bzImage, of which
			# the tools complain: the result tells, not the status.
			tail -c +$((off + 1)) "$1" | "$tool" -dc >"$2" 2>/dev/null
			if is_elf "$2"; then
				return 0
			fi
		done
	done
	rm -f "$2"
	return 1
}

is_elf() { printf '\177ELF' | cmp -s -n 4 - "$1"; }

hexclass() { printf '%s' "$1" | sed 's/../\\x&/g'; }

# Run "$@" (after a lock file) so that several labs at once make a thing once.
locked() {
	local lock=$1
	shift
	mkdir -p "${lock%/*}" || die "cannot create ${lock%/*}"
	(
		flock 9 || exit "$EX_LAB"
		"$@"
	) 9>"$lock"
}

# --- one run: its directory, its processes, its end

# All there is of a run on the host lies in $TMP and goes with the run, however
# that ends. A child waits for the end of a pipe that only this shell holds
# open, so it cleans up even after kill -9; and the kernel kills every process
# made with start() when this shell dies.
begin_run() {	# signal
	TMP=$(mktemp -d "${TMPDIR:-/tmp}/l5vm.XXXXXX") || die "cannot make a directory"
	exec {LIFE}> >(trap '' INT TERM HUP QUIT; exec >/dev/null 2>&1
		       cat; rm -rf "$TMP")
	KEEPER=$!
	PIDS=()
	END_SIGNAL=$1
	trap end_run EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

start() {	# command...; its pid in $!
	setpriv --pdeathsig "$END_SIGNAL" "$@" {LIFE}>&- &
	PIDS+=($!)
}

end_run() {
	trap '' INT TERM HUP
	exec 2>/dev/null	# the shell would report each process we end
	[ ${#PIDS[@]} -eq 0 ] || kill -"$END_SIGNAL" "${PIDS[@]}"
	exec {LIFE}>&-
	wait
	wait "$KEEPER"
	[ ! -d "$TMP" ] || rm -rf "$TMP"
}

# --- what a guest boots from

# Modules a guest needs before it has a root file system.
INITRD_MODULES='virtio_pci virtio_console 9p 9pnet_virtio overlay'

# Make $CACHE/boot/<key>/{kernel,initrd}: the unpacked kernel and an initramfs
# of busybox, vm/init and the modules above. The key covers all that goes in.
# Prints the directory.
boot_dir() {	# image release modules-root
	local image=$1 rel=$2 root=$3 key dir
	key=$( { stat -Lc '%s %Y %n' "$image" /bin/busybox "$root/lib/modules/$rel/modules.dep"
		 cat "$VM/init" "$VM/lib.sh"; } | sha256sum | cut -c1-16) || return
	dir=$CACHE/boot/$rel-$key
	if [ ! -e "$dir/ok" ]; then
		locked "$CACHE/boot/lock" make_boot_dir "$image" "$rel" "$root" "$dir" ||
			die "cannot make an initramfs for $rel in $dir"
	fi
	printf '%s\n' "$dir"
}

make_boot_dir() {	# image release modules-root dir
	local image=$1 rel=$2 root=$3 dir=$4 tree m path a
	[ -e "$dir/ok" ] && return 0	# another lab was quicker
	rm -rf "$dir"
	# Those of other trees may be in use; of no use is what a day has not seen.
	find "$CACHE/boot" -mindepth 1 -maxdepth 1 -type d -name "$rel-*" \
		-mmin +1440 -exec rm -rf {} +
	tree=$dir/tree
	mkdir -p "$tree"/{bin,dev,proc,sys,lower,rw,new,modules} || return
	unpack_image "$image" "$dir/kernel" || cp "$image" "$dir/kernel" || return
	for a in $(/bin/busybox --list); do
		ln -sf busybox "$tree/bin/$a"
	done
	cp --remove-destination /bin/busybox "$tree/bin/busybox" || return
	cp "$VM/init" "$tree/init" && chmod 755 "$tree/init" || return
	# Built-in ones have no file and print "builtin"; order matters.
	for m in $INITRD_MODULES; do
		modprobe -d "$root" -S "$rel" --show-depends "$m" || return
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$dir/modules"
	# busybox has no say in compressed ones.
	while read -r path; do
		m=${path##*/}
		m=${m%%.ko*}.ko
		case $path in
		*.xz) xz -dc "$path" ;;
		*.zst) zstd -dc "$path" ;;
		*) cat "$path" ;;
		esac >"$tree/modules/$m" || return
		printf '%s\n' "$m"
	done <"$dir/modules" >"$tree/modules/order"
	(cd "$tree" && find . | cpio -o -H newc --quiet) >"$dir/initrd" || return
	rm -rf "$tree"
	: >"$dir/ok"
}

# The accelerator is "kvm" only where a guest really starts under it. On some
# hosts /dev/kvm opens and a guest then hangs, so one is tried, once per kernel,
# processor and host boot.
accelerator() {	# boot-dir release
	local key boot file
	if [ ! -w /dev/kvm ]; then
		echo tcg
		return
	fi
	boot=$(cat /proc/sys/kernel/random/boot_id)
	key=$( { echo "$2"; grep -m1 '^model name' /proc/cpuinfo
		 qemu-system-x86_64 --version; } | sha256sum | cut -c1-16)
	file=$CACHE/accel-$boot-$key
	[ -s "$file" ] || locked "$CACHE/accel.lock" probe_kvm "$1" "$file" "$boot"
	cat "$file"
}

probe_kvm() {	# boot-dir file boot-id
	local answer=tcg
	[ -s "$2" ] && return
	# Answers of an earlier boot are of no use any more.
	find "$CACHE" -maxdepth 1 -name 'accel-*-*' ! -name "accel-$3-*" -delete
	# An initramfs without a job powers off at once. QEMU's own status says
	# whether it got there; the subshell is for what a shell says of a crash.
	# shellcheck disable=SC2086 # words on purpose
	if (setpriv --pdeathsig KILL timeout -k 1 15 \
	    qemu-system-x86_64 $QEMU_BASE -accel kvm -cpu "$CPU_KVM" -m 512M -smp 2 \
	    -kernel "$1/kernel" -initrd "$1/initrd" -append 'quiet panic=-1' \
	    -serial none; exit) </dev/null >/dev/null 2>&1; then
		answer=kvm
	fi
	echo "$answer" >"$2"
}

QEMU_BASE='-M q35 -nodefaults -no-user-config -display none -no-reboot -monitor none'

# TCG: "max" minus what makes an emulated guest slow. ERMS makes the kernel copy
# with "rep movsb", which TCG does byte by byte. FSRM says the same of short
# copies: QEMU 10 has it, and with it alone Linux 6.1 does not start. LA57 adds a
# page-table level.
CPU_TCG='max,-erms,-fsrm,-la57'
CPU_KVM='host'

# Is everything installed? PROGRAM:PACKAGE... As root, install what is missing.
need() {
	local p missing=()
	for p in "$@"; do
		PATH=$PATH:/sbin:/usr/sbin command -v "${p%%:*}" >/dev/null || missing+=("${p#*:}")
	done
	[ ${#missing[@]} -eq 0 ] || "$VM/deps" "${missing[@]}"
}

# Set K_REL K_IMAGE K_ROOT (the directory above lib/modules) for a kernel.
kernel_paths() {
	case $1 in
	6.1)
		K_REL=$(stock_release 6.1) || {
			need /:linux-image-amd64
			die "no kernel 6.1 in /boot: install linux-image-amd64"
		}
		K_IMAGE=/boot/vmlinuz-$K_REL
		K_ROOT=/
		;;
	*)
		{ read -r K_REL && read -r K_IMAGE && read -r K_ROOT; } \
			< <("$VM/kernel" boot "$1")
		;;
	esac
}

# The module for a kernel: the stock one lies in the tree.
module_for() {
	local f
	case $1${COVERAGE:+-counting} in
	6.1)
		for f in "$REPO/kmod/af_l5.ko" "$REPO/af_l5.ko"; do
			if [ -e "$f" ]; then
				printf '%s\n' "$f"
				return
			fi
		done
		die "no af_l5.ko: build it first (make), or say --no-module"
		;;
	*) "$VM/kernel" module "$1" ;;
	esac
}

# The kernel command line. Output on the serial line is slow, and needed only
# when the guest dies: warnings and worse (below level 5). An oops would leave a
# half-dead guest and fails the run anyway, so it ends it. The CPU's mitigations
# only cost time here. The time-outs of the watchdogs are longer than the
# kernel's own, so that they mean something on an emulated, overcommitted CPU.
# In a debug kernel memory that is charged can be refused apart from the rest
# (failslab's cache-filter, which no file of a running kernel can set up).
command_line() {
	local khz faults=''
	khz=$(tsc_khz)
	[[ $KERNEL == @(debug|kcsan) ]] && faults='slub_debug=A,kmalloc-cg-*'
	echo "console=ttyS0 loglevel=5 quiet panic=-1 oops=panic mitigations=off" \
	     "tsc=reliable no_timer_check nokaslr log_buf_len=4M" \
	     "watchdog_thresh=30 rcupdate.rcu_cpu_stall_timeout=60" \
	     "printk.time=1 ${khz:+tsc_early_khz=$khz} $faults $APPEND"
}

# The frequency of the host's time stamp counter (see tsc.c), measured once a
# boot; nothing where it is not constant or cannot be measured.
tsc_khz() {
	local file
	grep -qm1 constant_tsc /proc/cpuinfo || return 0
	file=$CACHE/tsc-$(cat /proc/sys/kernel/random/boot_id)
	[ -s "$file" ] || {
		rm -f "$CACHE"/tsc-*
		gcc -O2 -o "$TMP/tsc" "$VM/tsc.c" 2>/dev/null &&
			"$TMP/tsc" >"$TMP/khz" && mv "$TMP/khz" "$file" || return 0
	}
	cat "$file"
}

# The files of /job in the guest. The module goes along: a build in the tree may
# replace it while the guest boots.
write_job() {	# command...
	local i e a path
	# after those of the system, where "ab" is Apache's
	path=$REPO/userspace/bin:$REPO/userspace
	path=$path:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	path=$path:$REPO/bench:$VM
	[ -z "$MODULE" ] || cp "$MODULE" "$TMP/tree/job/af_l5.ko" || return
	{
		setting CWD "$PWD"
		setting JOB_PATH "$path"
		setting GUEST_NAME "${LINK_NAME:-l5}"
		setting LINK_NAME "$LINK_NAME"
		setting LINK_MTU "$LINK_MTU"
		setting MERGE "$MERGE"
		setting MODULE "${MODULE:+af_l5.ko}"
		setting MODULE_DEPENDS "$DEPENDS"
		setting MODULE_PARAMS "$PARAMS"
		setting UNLOAD "$UNLOAD"
		setting KMEMLEAK "$KMEMLEAK"
		setting COVERAGE "$COVERAGE"
		[ "$K_ROOT" = / ] && setting MODULES_DIR '' ||
			setting MODULES_DIR "$K_ROOT/lib/modules/$K_REL"
		echo 'each_share() { :'
		for i in "${!SHARES[@]}"; do
			printf '"$1" share%s %s\n' "$i" "$(quote "${SHARES[i]}")"
		done
		echo '}'
	} >"$TMP/tree/job/settings" || return
	{
		echo 'export HOME=/root USER=root LOGNAME=root SHELL=/bin/bash LANG=C.UTF-8 TERM=dumb'
		echo "export L5_KERNEL=$KERNEL L5_VM=${LINK_NAME:-l5}" \
			"L5_MODULE=$(quote "$MODULE")"
		for e in "${ENVS[@]}"; do
			printf 'export %s=%s\n' "${e%%=*}" "$(quote "${e#*=}")"
		done
		printf exec
		for a in "$@"; do
			printf ' %s' "$(quote "$a")"
		done
		echo
	} >"$TMP/tree/job/cmd"
}

setting() { printf '%s=%s\n' "$1" "$(quote "$2")"; }

# What makes a run fail: extended regular expressions over the kernel log.
SPLATS='BUG: |kernel BUG at |BUG [^ ]+ \(.*\): |WARNING: |Oops: |general protection fault
Kernel panic|stack overflow|stack guard page|double fault:|Unable to handle|unable to handle
invalid opcode: |divide error: |bad page state|Bad page state|Bad page map|Bad rss-counter
possible (circular|recursive) locking|inconsistent lock state|lock order inversion
irq-safe -> |held lock freed|bad unlock balance|still has locks held|lock held when returning
suspicious RCU usage|scheduling while atomic|sleeping function called from invalid
KASAN: |UBSAN: |KCSAN: |KFENCE: |ODEBUG: |refcount_t: |list_(add|del) corruption|percpu ref
blocked for more than|soft lockup|hard LOCKUP|rcu_?[a-z]* .*detected.*stall|workqueue lockup
unregister_netdevice: waiting for|ref_tracker: |leaked |Objects remaining|still has objects
kmemleak: .*suspected memory leak|Attempt to release (alive|TCP)|page_counter underflow
virt_to_phys used for non-linear|usercopy: Kernel memory|cannot create duplicate filename
kobject: .*(something is seriously wrong|tried to)|DEBUG_LOCKS_WARN_ON'

# Lines that match the above and are no fault, with the reason. Keep it narrow.
#  - the command line is printed at boot, with whatever words are in it
#  - a user program's own fault; the kernel only reports it
#  - with mitigations=off, which the lab asks for, some CPUs get a warning
HARMLESS='Kernel command line: |Command line: |Unknown kernel command line parameters
traps: .* ip:[0-9a-f]+ sp:
Spectre V2 : WARNING: '


# Print the splats in a kernel log, each with what follows it; false if none.
report_splats() {	# file
	re=$(tr '\n' '|' <<<"$SPLATS") ok=$(tr '\n' '|' <<<"$HARMLESS") awk '
		BEGIN {	# through the environment: -v would eat backslashes
			re = ENVIRON["re"]; sub(/\|$/, "", re)
			ok = ENVIRON["ok"]; sub(/\|$/, "", ok)
		}
		$0 ~ re && $0 !~ ok { left = 60; found = 1 }
		left > 0 { print; left-- }
		END { exit !found }' "$1" >&2
}

# Print kmemleak's report with the names of the unloaded module's functions.
# The first part of the file is the module's symbols, as /proc/kallsyms has them.
report_leaks() {	# file; false if there is none
	local addr _ name line hex best
	local -A syms=()
	grep -q '^unreferenced object' "$1" || return 1
	while read -r addr _ name _; do
		syms[$((16#$addr))]=$name
	done < <(sed '/^$/q' "$1" | grep '^f')
	while IFS= read -r line; do
		if [[ $line =~ \]\ 0x(ffffffff[0-9a-f]{8})$ ]]; then
			hex=$((16#${BASH_REMATCH[1]})) best=
			for addr in "${!syms[@]}"; do
				[ "$addr" -le "$hex" ] && [ "$addr" -gt "${best:-$((1 << 63))}" ] &&
					best=$addr
			done
			[ -z "$best" ] || [ $((hex - best)) -gt 65536 ] ||
				line="$line = ${syms[$best]}+$((hex - best)) [af_l5]"
		fi
		printf '%s\n' "$line" >&2
	done < <(sed '1,/^$/d' "$1")
}
