#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The library's own tests under valgrind: each of them is a process of its own,
# and one in which memory is misused or lost ends with a status that fails it.

cd "$(dirname "$0")/.." || exit 1
../vm/deps valgrind || exit 1
export L5_VALGRIND=1
bad=0
for prog in build/unit/{map,hurt,plain,conn,conn_stream,conn_wait,mailbox,copy,place}; do
	# by turns: else one that spins may keep the others from running
	valgrind -q --error-exitcode=9 --leak-check=full --fair-sched=try \
		--trace-children=yes "$prog"
	status=$?
	# 4: it has no such test as it was asked for
	[[ $status == @(0|4) ]] || bad=$status
done
exit "$bad"
