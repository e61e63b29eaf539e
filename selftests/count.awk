# SPDX-License-Identifier: GPL-2.0
#
# Copy KTAP through and count its test cases. "# begin NAME" and "# end NAME
# STATUS" stand around each program's output (they nest: a VM around its
# programs). A program that fails without saying which test, that runs fewer
# tests than it announced, or that never ends, counts as a failed test. What
# failed is told again at the end, with the last lines before each.

function note(why,	i)
{
	failed++
	list[++nlist] = why
	for (i = nsaid > TELL ? nsaid - TELL : 0; i < nsaid; i++)
		said_of[nlist] = said_of[nlist] "#    " said[i] "\n"
}

function fail(why)
{
	print "not ok - " why
	note(why)
}

BEGIN { TELL = 12 }

{ sub(/\r$/, "") }

/^# begin / {
	print
	nsaid = 0
	kids[depth]++
	stack[++depth] = $3
	plan[depth] = seen[depth] = bad[depth] = 0
	kids[depth] = skips[depth] = 0
	fflush()
	next
}

/^# end / {
	print
	while (depth && stack[depth] != $3) {
		fail(stack[depth] ": never ended")
		depth--
	}
	if (depth) {
		if (plan[depth] > seen[depth])
			fail($3 ": ran " seen[depth] " of " plan[depth])
		else if (!seen[depth] && !kids[depth] && $4 == 0 &&
			 !skips[depth])
			fail($3 ": ran nothing")
		if ($4 == 4 && !seen[depth]) {
			skipped++
		} else if ($4 != 0 && !bad[depth]) {
			fail($3 ": ended with status " $4)
		}
		depth--
	}
	fflush()
	next
}

/^1\.\.[0-9]+/ {
	split($1, p, /\.\./)
	plan[depth] += p[2]
	if (p[2] == 0 && $0 ~ /SKIP/) {
		skipped++
		skips[depth] = 1
	}
}

/^not ok / {
	seen[depth]++
	bad[depth]++
	line = $0
	sub(/^not ok [0-9]* *-? */, "", line)
	note(stack[depth] ": " line)
}

/^ok / {
	seen[depth]++
	if ($0 ~ /# SKIP/)
		skipped++
	else
		passed++
}

/^(not )?ok / { nsaid = 0 }
!/^(not )?ok / { said[nsaid++] = $0 }

{ print; fflush() }

END {
	while (depth) {
		fail(stack[depth] ": never ended")
		depth--
	}
	for (i = 1; i <= nlist; i++)
		printf "# failed: %s\n%s", list[i], said_of[i]
	if (!passed && !failed)
		fail("nothing ran")
	printf "%d passed, %d failed", passed, failed
	if (skipped)
		printf ", %d skipped", skipped
	print ""
	exit failed > 0
}
