/* job_legal.c: nearest legal values, for hints in messages. */
#include "model/layout/job.h"

#include <inttypes.h>
#include <stdio.h>

/* How far the search goes on each side. */
enum { NEAR_STEPS = 65536 };

static char *pair(char out[LK_JOB_NEAR], int64_t below, int64_t above) {
	if (below > 0 && above > 0) snprintf(out, LK_JOB_NEAR, "%" PRId64 ", %" PRId64, below, above);
	else if (below > 0 || above > 0)
		snprintf(out, LK_JOB_NEAR, "%" PRId64, below > 0 ? below : above);
	else snprintf(out, LK_JOB_NEAR, "none");
	return out;
}

char *lk_near_legal(char out[LK_JOB_NEAR], int64_t value, int64_t high, lk_near_fn legal,
                    const void *context) {
	int64_t below = 0, above = 0;
	int64_t from = value > high ? high : value - 1;
	for (int64_t v = from, n = 0; v >= 1 && n < NEAR_STEPS && below == 0; v--, n++)
		if (legal(context, v)) below = v;
	for (int64_t v = value + 1, n = 0; v <= high && n < NEAR_STEPS && above == 0; v++, n++)
		if (legal(context, v)) above = v;
	return pair(out, below, above);
}

static bool legal_divides(const void *context, int64_t value) {
	return *(const int64_t *)context % value == 0;
}

char *lk_near_divisors(char out[LK_JOB_NEAR], int64_t value, int64_t of) {
	return lk_near_legal(out, value, of, legal_divides, &of);
}

char *lk_near_multiples(char out[LK_JOB_NEAR], int64_t value, int64_t of) {
	int64_t below = value / of * of;
	return pair(out, below, below + of);
}
