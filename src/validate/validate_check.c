/* validate_check.c: what holds for every answer of `validate`.
 *
 * Nothing is printed that contradicts itself: whatever made it is a defect of lockstep. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "validate/validate.h"

static bool is_unknown_or_positive(double value) {
	return isnan(value) || value >= 0;
}

static bool is_unknown_or_share(double value) {
	return isnan(value) || (value >= 0 && value <= 1);
}

static lk_status validate_check_accuracy(const lk_accuracy *accuracy, lk_error *err) {
	LK_CHECK(accuracy->rows == accuracy->predicted + accuracy->skipped, err);
	LK_CHECK(accuracy->scored >= 0 && accuracy->scored <= accuracy->predicted, err);
	LK_CHECK(accuracy->suspect >= 0 && accuracy->suspect <= accuracy->rows, err);
	LK_CHECK(is_unknown_or_positive(accuracy->geomean_error), err);
	LK_CHECK(is_unknown_or_positive(accuracy->macro_geomean_error), err);
	LK_CHECK(is_unknown_or_positive(accuracy->mape), err);
	LK_CHECK(is_unknown_or_positive(accuracy->median_error), err);
	LK_CHECK(is_unknown_or_positive(accuracy->weighted_error), err);
	LK_CHECK(is_unknown_or_positive(accuracy->scaling_error), err);
	LK_CHECK(is_unknown_or_positive(accuracy->mean_top1_regret), err);
	LK_CHECK(is_unknown_or_positive(accuracy->half_width), err);
	LK_CHECK(is_unknown_or_share(accuracy->coverage), err);
	LK_CHECK(is_unknown_or_share(accuracy->within_5), err);
	LK_CHECK(isnan(accuracy->kendall_tau) || fabs(accuracy->kendall_tau) <= 1 + 1e-9, err);
	LK_CHECK(!(accuracy->p90_error < accuracy->median_error), err);
	/* no mean of errors with their signs is further from 0 than that of their sizes */
	LK_CHECK(!(fabs(log1p(accuracy->bias)) > log1p(accuracy->geomean_error) + 1e-9), err);
	return LK_OK;
}

static lk_status validate_check_row(const lk_validated *row, lk_error *err) {
	LK_CHECK(isnan(row->predicted) || (isfinite(row->predicted) && row->predicted >= 0), err);
	LK_CHECK(!(row->low > row->predicted) && !(row->high < row->predicted), err);
	LK_CHECK(!row->scored || (row->predicted > 0 && row->measured > 0), err);
	LK_CHECK(!row->scored ||
	             fabs((row->error + 1) * row->measured - row->predicted) <= 1e-9 * row->predicted,
	         err);
	return LK_OK;
}

/* The parts of a division have each row once at the most. */
static lk_status validate_check_groups(const lk_validation *validation, lk_error *err) {
	int rows = 0;
	for (int i = 0; i < validation->group_count; i++) {
		const lk_accuracy *group = &validation->groups[i];
		if (i > 0 && strcmp(group->by, group[-1].by) != 0) rows = 0;
		rows += group->rows;
		LK_CHECK(rows <= validation->row_count, err);
		LK_TRY(validate_check_accuracy(group, err));
	}
	return LK_OK;
}

lk_status lk_validation_check(const lk_validation *validation, lk_error *err) {
	int scored = 0, predicted = 0;
	for (int i = 0; i < validation->row_count; i++) {
		LK_TRY(validate_check_row(&validation->rows[i], err));
		scored += validation->rows[i].scored;
		predicted += validation->rows[i].predicted > 0;
	}
	LK_CHECK(validation->summary.rows == validation->row_count, err);
	LK_CHECK(validation->summary.scored == scored, err);
	LK_CHECK(validation->summary.predicted == predicted, err);
	LK_TRY(validate_check_accuracy(&validation->summary, err));
	for (int i = 0; i < validation->baseline_count; i++) {
		LK_CHECK(validation->baselines[i].scored <= scored, err);
		LK_TRY(validate_check_accuracy(&validation->baselines[i], err));
	}
	return validate_check_groups(validation, err);
}
