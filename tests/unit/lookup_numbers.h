/* lookup_numbers.h: a processor for tests of lookups: round numbers, caches of 0.1 and 1 MB. */
#ifndef TESTS_LOOKUP_NUMBERS_H
#define TESTS_LOOKUP_NUMBERS_H

#include "cost/kernel/embedding.h"

static lk_host_lookup lookup_numbers(int threads) {
	static const lk_host_work work = {2e-9, 1e-9, 1e-9};
	lk_host_lookup h = {.threads = threads,
	                    .near_bytes = 1e5,
	                    .last_bytes = 1e6,
	                    .near_slope = 2,
	                    .last_slope = 4,
	                    .step_share = 0.7,
	                    .sum_share = 0.6,
	                    .span_bytes = 5e7,
	                    .guesses = 1e4,
	                    .add = work,
	                    .gradient_add = work,
	                    .change = work,
	                    .sample_s = 3e-9,
	                    .guess_s = 5e-9,
	                    .shared_s = 1e-9,
	                    .update_shared_s = 1e-9,
	                    .pair_s = 1e-9,
	                    .pair_sample_s = 1e-9,
	                    .pass_s = 1e-6,
	                    .call_s = 1e-6};
	for (int i = LK_HOST_LAST; i < LK_HOST_LEVELS; i++) {
		double more = i == LK_HOST_LAST ? 1 : 8;
		h.row[i] = h.gradient[i] = h.update[i] =
			(lk_host_read){1e-9 * more, 1e-9 * more, 2e-9 * more, i == LK_HOST_FAR ? 4e-8 : 0};
		h.torn_s[i] = h.state_s[i] = h.walk_s[i] = h.update_walk_s[i] = h.sum_line_s[i] =
			h.sort_s[i] = 1e-9 * more;
	}
	return h;
}

#endif
