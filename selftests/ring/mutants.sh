#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Do the ring tests notice when the ring is wrong? Each mutant is a copy of
# uapi/l5_ring.h with one thing taken out; the tests are built against it and
# have to fail, for the reason that belongs to the mutant. With L5_TEST only
# the one whose line in the output is called so. With --apply: is there still
# what each takes out?

set -u
cd "$(dirname "$0")/.." || exit 1
header=../uapi/l5_ring.h
out=build/mutants
cc=${CC:-gcc}
# shellcheck disable=SC2206 # options are words
flags=(-O2 -g -D_GNU_SOURCE -Ilib -I../userspace/lib -isystem build/kselftest
	-pthread -w)

# name, program, build, the test that has to fail, sed on the header
all_mutants() {
	cat <<-'T'
	A_publish_not_release@order@tsan@publish_consume@/l5_store_release(slot, /s/l5_store_release/l5_store/
	B_header_not_acquire@order@tsan@publish_consume@s/hdr = l5_load_acquire(/hdr = l5_load(/
	C_head_not_release@order@tsan@publish_consume@s/l5_store_release(&own->rx_head/l5_store(\&own->rx_head/
	D_head_not_acquire@order@tsan@publish_consume@s/l5_load_acquire(&peer->rx_head)/l5_load(\&peer->rx_head)/
	E_arm_without_fence@order@plain@sleep_for@/^static inline void l5_wait_arm/,/^}/s/l5_mb();/__asm__ __volatile__("" ::: "memory");/
	F_flag_without_fence@order@plain@sleep_for@/^static inline int l5_wait_armed/,/^}/s/l5_mb();/__asm__ __volatile__("" ::: "memory");/
	F_unlock_no_fence@order@plain@unlock_for@s/return l5_xchg_mb(word, 0) & /__u32 w = l5_load(word); l5_store_release(word, 0); return w \& /
	J_lock_not_acquire@team@tsan@threads@s/__ATOMIC_ACQUIRE, __ATOMIC_RELAXED/__ATOMIC_RELAXED, __ATOMIC_RELAXED/
	K_unlock_not_release@team@tsan@threads@s/__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)/__atomic_exchange_n((p), (v), __ATOMIC_RELAXED)/
	tail_before_header@lock@plain@die_sending@/^static inline void l5_prod_publish/,/^}/{/p->tail +=\|l5_store(&own->tx_tail/d;s/^	l5_store(next, 0);/&p->tail += l5_rec_size(len); l5_store(\&own->tx_tail, p->tail);/}
	pos_after_head@lock@plain@die_taking@/^static inline __u32 l5_cons_take/,/^}/{/l5_store(&own->rx_pos, c->head);/d;s/l5_store_release(&own->rx_head, c->head);/&l5_store(\&own->rx_pos, c->head);/}
	no_mend_sending@lock@plain@die_sending@/^static inline int l5_prod_mend/,/^}/s/if (!l5_rec_valid(p->size, hdr))/if (hdr || 1)/
	no_mend_taking@lock@plain@die_taking@s/if (!c->off || /if (1 || /
	mend_without_check@lock@plain@garbage_sending@/^static inline int l5_prod_mend/,/^}/s/return l5_prod_load(p, own, peer);/p->tail += l5_rec_size((__u32)hdr); return 0;/
	load_no_reader_ahead@lock@plain@die_sending@s/if (head - p->tail <= p->size)/if (0)/
	load_tail_not_checked@lock@plain@garbage_sending@s/if (p->tail - head > p->size || /if (/
	load_tail_alignment@lock@plain@garbage_sending@/^static inline int l5_prod_load/,/^}/s/if (p->tail & (L5_HDR - 1))/if (0)/
	load_off_not_checked@lock@plain@garbage_taking@s/return off > c->size || /return /
	off_not_checked@lock@plain@garbage_taking@s/ || (c->off \&\& c->off >= (__u32)bare))/)/
	mend_wrong_record@lock@plain@garbage_taking@s/c->off != l5_rec_size((__u32)hdr))/!hdr)/
	death_not_told@lock@plain@words@s/old & L5_LOCK_DIED ? 2 : 1/1/
	waiters_forgotten@lock@plain@words@s/id | (old & L5_LOCK_WAITERS)/id/
	held_word_taken@lock@plain@words@s/if (old & L5_LOCK_ID)/if (old == 1)/
	next_header_not_zeroed@record@plain@every_offset@s/l5_store(next, 0);//
	room_forgets_end_word@record@plain@room@s/room < 2 \* L5_HDR ? 0 : room - 2 \* L5_HDR/room < L5_HDR ? 0 : room - L5_HDR/
	head_not_checked@record@plain@look@s/head - p->head > p->tail - p->head ||/0 ||/
	head_alignment_not_checked@record@plain@look@s/ || (head & (L5_HDR - 1))//
	length_not_checked@hostile@plain@hostile@s/(__u32)hdr <= l5_rec_max(size)/1/
	length_limit_off_by_one@record@plain@peek@s/(__u32)hdr <= l5_rec_max(size)/(__u32)hdr <= l5_rec_max(size) + 1/
	flags_not_checked@record@plain@peek@s/return hdr >> 32 == L5_REC_VALID/return 1/
	header_read_twice@hostile@plain@hostile@s/c->len = (__u32)bare;/c->len = (__u32)l5_load((volatile __u64 *)slot);/
	T
}

# That name is not one of the tests in the programs.
only=${L5_TEST-}
unset L5_TEST

mutants() {
	all_mutants | grep "^${only#mutants.}${only:+@}"
}

if [ "${1-}" = --apply ]; then
	status=0
	while IFS=@ read -r name prog kind test edit; do
		if sed "$edit" "$header" | cmp -s - "$header"; then
			echo "ring/mutants.sh: $name takes nothing out"
			status=1
		fi
	done < <(all_mutants)
	exit $status
fi

# The windows of E and F are a few cycles wide and need two processors; one in
# some thousand meetings of two threads shows them; a run makes up to a million.
tries=10

detected() {	# program build test
	local n=1 i

	case $1 in */[EF]_*) n=$tries ;; esac
	for ((i = 0; i < n; i++)); do
		L5_RING_ONLY=$3 TSAN_OPTIONS=halt_on_error=1 \
			timeout 60 "$1" >"$1.log" 2>&1
		if [ "$2" = tsan ]; then
			grep -aq 'ThreadSanitizer: data race' "$1.log" && return
		else
			grep -aq "^not ok .*$3" "$1.log" && return
		fi
	done
	return 1
}

# build NAME PROGRAM BUILD EDIT: false if the edit changed nothing
build() {
	local dir=$out/$1 san=()

	rm -rf "$dir"
	mkdir -p "$dir"
	sed "$4" "$header" >"$dir/l5_ring.h"
	cmp -s "$header" "$dir/l5_ring.h" && return 1
	[ "$3" = tsan ] && san=(-fsanitize=thread)
	$cc "${flags[@]}" "${san[@]}" -I"$dir" -I../uapi -o "$dir/bin" \
		"ring/$2.c" lib/l5test.c 2>"$dir/cc.log" && mv "$dir/bin" "$dir/$1"
}

while IFS=@ read -r name prog kind test edit; do
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
		wait -n
	done
	build "$name" "$prog" "$kind" "$edit" &
done < <(mutants)
wait

echo "TAP version 13"
echo "1..$(mutants | wc -l)"
n=0
while IFS=@ read -r name prog kind test edit; do
	n=$((n + 1))
	if cmp -s "$header" "$out/$name/l5_ring.h"; then
		echo "# the header has no such line any more"
		echo "not ok $n mutants.$name"
	elif [ ! -x "$out/$name/$name" ]; then
		sed 's/^/# /' "$out/$name/cc.log" | head -20
		echo "# does not compile"
		echo "not ok $n mutants.$name"
	elif [[ $name = [EF]_* && $(nproc) -lt 2 ]]; then
		echo "ok $n mutants.$name # SKIP needs two processors"
	elif detected "$out/$name/$name" "$kind" "$test"; then
		echo "ok $n mutants.$name"
	elif [[ $name = [EF]_* ]]; then
		# bad luck on a busy machine; model/wake.pml needs no luck
		echo "ok $n mutants.$name # SKIP the window was not met"
	else
		sed 's/^/# /' "$out/$name/$name.log" | head -40
		echo "# it is not detected"
		echo "not ok $n mutants.$name"
	fi
done < <(mutants)
