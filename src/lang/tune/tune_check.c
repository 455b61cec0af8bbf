/* tune_check.c: what holds for every answer of `compile tune` and `compile bench`.
 *
 * Nothing is printed that contradicts itself: whatever made it is a defect of lockstep. */
#include <math.h>

#include "base/check.h"
#include "lang/tune/tune.h"

static lk_status tune_check_time(const lk_found *found, lk_error *err) {
	const lk_timed *time = &found->time;
	LK_CHECK(isfinite(time->seconds) && time->seconds >= 0 && time->bytes >= 0, err);
	LK_CHECK(time->compute_s >= 0 && time->exposed_s >= 0, err);
	/* a measurement has no parts */
	LK_CHECK(found->measured || fabs(time->compute_s + time->exposed_s - time->seconds) <=
	                                1e-6 * time->seconds + 1e-12,
	         err);
	return LK_OK;
}

/* Without measurements and without a step around it the fastest comes first. */
lk_status lk_search_check(const lk_search *search, lk_error *err) {
	bool by_time = !search->measurement.schedules && !search->step.path;
	LK_CHECK(search->found.count > 0 && search->looked > 0, err);
	LK_TRY(tune_check_time(&search->plain, err));
	for (size_t i = 0; i < search->found.count; i++) {
		const lk_found *found = &search->found.at[i];
		LK_TRY(tune_check_time(found, err));
		LK_CHECK(!by_time || i == 0 || found->time.seconds >= found[-1].time.seconds, err);
	}
	LK_CHECK(!by_time || search->found.at[0].time.seconds <= search->plain.time.seconds, err);
	return LK_OK;
}

static lk_status bench_check_interval(const lc_interval *interval, lk_error *err) {
	LK_CHECK(isfinite(interval->median) && interval->median >= 0, err);
	LK_CHECK(!(interval->low > interval->median) && !(interval->high < interval->median), err);
	return LK_OK;
}

lk_status lc_bench_result_check(const lc_bench_result *result, lk_error *err) {
	LK_CHECK(result->count > 0 && result->rounds > 0 && result->ranks > 0, err);
	LK_CHECK(isnan(result->tau) || fabs(result->tau) <= 1 + 1e-9, err);
	for (int i = 0; i < result->count; i++) {
		const lc_bench_row *row = &result->rows[i];
		LK_TRY(bench_check_interval(&row->time, err));
		LK_TRY(bench_check_interval(&row->ratio, err));
		for (int k = 0; k < result->rounds; k++)
			LK_CHECK(isfinite(row->seconds[k]) && row->seconds[k] >= 0, err);
		LK_CHECK(!(row->moved.between > row->moved.sent) && !(row->moved.touched < 0), err);
		LK_CHECK(isnan(row->predicted) || row->predicted > 0, err);
	}
	return LK_OK;
}
