/* tune_check.c: invariants of every answer of `compile tune` and `compile bench`.
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */
#include <math.h>

#include "base/check.h"
#include "lang/tune/tune.h"

static const char *tune_check_time(const lk_found *found) {
	const lk_timed *time = &found->time;
	LK_HOLDS(isfinite(time->seconds) && time->seconds >= 0 && time->bytes >= 0);
	LK_HOLDS(time->compute_s >= 0 && time->exposed_s >= 0);
	/* a measurement has no parts */
	LK_HOLDS(found->measured || fabs(time->compute_s + time->exposed_s - time->seconds) <=
	                                1e-6 * time->seconds + 1e-12);
	return NULL;
}

/* Without measurements and without a step, the fastest comes first. */
const char *lk_search_check(const lk_search *search) {
	bool by_time = !search->measurement.schedules && !search->step.path;
	LK_HOLDS(search->found.count > 0 && search->looked > 0);
	LK_HOLDS_ALL(tune_check_time(&search->plain));
	for (size_t i = 0; i < search->found.count; i++) {
		const lk_found *found = &search->found.at[i];
		LK_HOLDS_ALL(tune_check_time(found));
		LK_HOLDS(!by_time || i == 0 || found->time.seconds >= found[-1].time.seconds);
	}
	LK_HOLDS(!by_time || search->found.at[0].time.seconds <= search->plain.time.seconds);
	return NULL;
}

static const char *bench_check_interval(const lc_interval *interval) {
	LK_HOLDS(isfinite(interval->median) && interval->median >= 0);
	LK_HOLDS(!(interval->low > interval->median) && !(interval->high < interval->median));
	return NULL;
}

const char *lc_bench_result_check(const lc_bench_result *result) {
	LK_HOLDS(result->count > 0 && result->rounds > 0 && result->ranks > 0);
	LK_HOLDS(isnan(result->tau) || fabs(result->tau) <= 1 + 1e-9);
	for (int i = 0; i < result->count; i++) {
		const lc_bench_row *row = &result->rows[i];
		LK_HOLDS_ALL(bench_check_interval(&row->time));
		LK_HOLDS_ALL(bench_check_interval(&row->ratio));
		for (int k = 0; k < result->rounds; k++)
			LK_HOLDS(isfinite(row->seconds[k]) && row->seconds[k] >= 0);
		LK_HOLDS(!(row->moved.between > row->moved.sent) && !(row->moved.touched < 0));
		LK_HOLDS(isnan(row->predicted) || row->predicted > 0);
	}
	return NULL;
}
