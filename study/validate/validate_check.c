/* validate_check.c: invariants of every answer of `validate`.
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */
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

static const char *validate_check_accuracy(const lk_accuracy *accuracy) {
	LK_HOLDS(accuracy->rows == accuracy->predicted + accuracy->skipped);
	LK_HOLDS(accuracy->scored >= 0 && accuracy->scored <= accuracy->predicted);
	LK_HOLDS(accuracy->suspect >= 0 && accuracy->suspect <= accuracy->rows);
	LK_HOLDS(is_unknown_or_positive(accuracy->geomean_error));
	LK_HOLDS(is_unknown_or_positive(accuracy->macro_geomean_error));
	LK_HOLDS(is_unknown_or_positive(accuracy->mape));
	LK_HOLDS(is_unknown_or_positive(accuracy->median_error));
	LK_HOLDS(is_unknown_or_positive(accuracy->weighted_error));
	LK_HOLDS(is_unknown_or_positive(accuracy->scaling_error));
	LK_HOLDS(is_unknown_or_positive(accuracy->mean_top1_regret));
	LK_HOLDS(is_unknown_or_positive(accuracy->half_width));
	LK_HOLDS(is_unknown_or_share(accuracy->coverage));
	LK_HOLDS(is_unknown_or_share(accuracy->within_5));
	LK_HOLDS(isnan(accuracy->kendall_tau) || fabs(accuracy->kendall_tau) <= 1 + 1e-9);
	LK_HOLDS(!(accuracy->p90_error < accuracy->median_error));
	/* the mean of signed errors is never further from 0 than the mean of their sizes */
	LK_HOLDS(!(fabs(log1p(accuracy->bias)) > log1p(accuracy->geomean_error) + 1e-9));
	return NULL;
}

static const char *validate_check_row(const lk_validated *row) {
	LK_HOLDS(isnan(row->predicted) || (isfinite(row->predicted) && row->predicted >= 0));
	LK_HOLDS(!(row->low > row->predicted) && !(row->high < row->predicted));
	LK_HOLDS(!row->scored || (row->predicted > 0 && row->measured > 0));
	LK_HOLDS(!row->scored ||
	         fabs((row->error + 1) * row->measured - row->predicted) <= 1e-9 * row->predicted);
	return NULL;
}

/* The parts of a division have each row at most once. */
static const char *validate_check_groups(const lk_validation *validation) {
	int rows = 0;
	for (int i = 0; i < validation->group_count; i++) {
		const lk_accuracy *group = &validation->groups[i];
		if (i > 0 && strcmp(group->by, group[-1].by) != 0) rows = 0;
		rows += group->rows;
		LK_HOLDS(rows <= validation->row_count);
		LK_HOLDS_ALL(validate_check_accuracy(group));
	}
	return NULL;
}

const char *lk_validation_check(const lk_validation *validation) {
	int scored = 0, predicted = 0;
	for (int i = 0; i < validation->row_count; i++) {
		LK_HOLDS_ALL(validate_check_row(&validation->rows[i]));
		scored += validation->rows[i].scored;
		predicted += validation->rows[i].predicted > 0;
	}
	LK_HOLDS(validation->summary.rows == validation->row_count);
	LK_HOLDS(validation->summary.scored == scored);
	LK_HOLDS(validation->summary.predicted == predicted);
	LK_HOLDS_ALL(validate_check_accuracy(&validation->summary));
	for (int i = 0; i < validation->baseline_count; i++) {
		LK_HOLDS(validation->baselines[i].scored <= scored);
		LK_HOLDS_ALL(validate_check_accuracy(&validation->baselines[i]));
	}
	return validate_check_groups(validation);
}
