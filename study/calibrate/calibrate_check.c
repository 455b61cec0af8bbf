/* calibrate_check.c: invariants of every answer of `calibrate`.
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */
#include <math.h>

#include "base/check.h"
#include "calibrate/calibrate.h"

/* Fitted rows are what --calibration reads: numbers that their models can use. */
static const char *calibrate_check_fitted(const lk_calibration_row *row) {
	LK_HOLDS(*row->family && (row->count > 0 || row->text));
	LK_HOLDS(row->points >= 0 && (isnan(row->error) || row->error >= 0));
	for (int i = 0; i < row->count; i++) {
		lk_error why = {0};
		bool can_be_read = lk_calibration_check(row, i, &why) == LK_OK;
		LK_HOLDS(isfinite(row->numbers[i].value) && can_be_read);
	}
	return NULL;
}

const char *lk_calibrated_check(const lk_calibrated *calibrated, const lk_calibration *rows) {
	LK_HOLDS(!rows || rows->rows.count == (size_t)calibrated->row_count);
	for (size_t i = 0; rows && i < rows->rows.count; i++)
		LK_HOLDS_ALL(calibrate_check_fitted(&rows->rows.at[i]));
	for (int i = 0; i < calibrated->measured_count; i++) {
		const lk_measured *measured = &calibrated->measured[i];
		LK_HOLDS(isfinite(measured->value) && measured->value >= 0 && measured->repeats >= 0);
		LK_HOLDS(!(measured->low > measured->value) && !(measured->high < measured->value));
	}
	return NULL;
}
