// SPDX-License-Identifier: GPL-2.0
/*
 * Where AF_L5 answers otherwise than TCP or AF_UNIX, and why. The only such
 * list: Documentation/deviations.md is made from it ("make -C selftests
 * deviations"), and a difference that is not here fails the suite, as does
 * an entry here that is no difference any more.
 */
#include "diff_core.h"

const struct deviation deviations[] = {
};

const int deviations_n = sizeof(deviations) / sizeof(deviations[0]);
