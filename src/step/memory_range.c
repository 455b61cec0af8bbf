/* memory_range.c: the 80 % range of a predicted peak allocation.
 *
 * Errors are z = ln(measured / predicted) scale, scale = sqrt(predicted / GiB) up to 2: errors are
 * partly a share of the memory and partly a number of bytes, so they are relatively larger for
 * small jobs. Above 8 GiB, where few jobs were measured, the scale is 1: twice as wide. */
#include "step/step.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "cost/calibration/calibration.h"

const char *const lk_memory_classes[LK_MEMORY_CLASSES] = {"bert", "gpt with experts",
                                                          "gpt without experts", "t5"};

const char *lk_memory_class(const lk_model *model) {
	if (model->network == LK_NET_ENCODER) return lk_memory_classes[0];
	if (model->network == LK_NET_ENCDEC) return lk_memory_classes[3];
	return lk_memory_classes[model->experts > 0 ? 1 : 2];
}

double lk_memory_scale(double predicted) {
	return predicted > 8 * LK_GIB ? 1 : fmin(sqrt(predicted / LK_GIB), 2);
}

lk_memory_band lk_memory_band_known(const char *class) {
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "range", "peak-memory", class);
	if (!row) return (lk_memory_band){0};
	return (lk_memory_band){lk_calibration_value(row, "low", NAN),
	                        lk_calibration_value(row, "high", NAN), row->error, row->points};
}

void lk_memory_band_apply(const lk_memory_band *band, double predicted, double *low, double *high) {
	LK_ASSERT(predicted >= 0);
	*low = *high = NAN;
	if (band->rows == 0 || !(predicted > 0)) return;
	/* the range includes the prediction itself */
	*low = predicted * exp(fmin(band->low / lk_memory_scale(predicted), 0));
	*high = predicted * exp(fmax(band->high / lk_memory_scale(predicted), 0));
}

const char *const lk_memory_deciles[LK_MEMORY_DECILES] = {"d1", "d2", "d3", "d4", "d5",
                                                          "d6", "d7", "d8", "d9"};

bool lk_memory_odds_known(const char *variant, lk_memory_odds *out) {
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "range", "peak-memory", variant);
	if (!row) return false;
	out->rows = row->points;
	for (int i = 0; i < LK_MEMORY_DECILES; i++) {
		out->decile[i] = lk_calibration_value(row, lk_memory_deciles[i], NAN);
		if (isnan(out->decile[i]) || (i > 0 && out->decile[i] < out->decile[i - 1])) return false;
	}
	return true;
}

/* Between deciles the share is linear; beyond the outer ones it goes on with the slope of the last
 * step. */
double lk_memory_odds_of(const lk_memory_odds *odds, double predicted, double room) {
	LK_ASSERT(predicted > 0);
	if (!(room > 0)) return 1;
	double z = log(room / predicted);
	const double *d = odds->decile;
	int i = 1;
	while (i < LK_MEMORY_DECILES - 1 && z > d[i]) i++;
	double below = (i + (z - d[i - 1]) / fmax(d[i] - d[i - 1], 1e-9)) / 10;
	return 1 - fmin(fmax(below, 0), 1);
}

double lk_memory_spread(const lk_stage_use *use, const lk_model *model) {
	double above = 0;
	bool measured = isfinite(use->high);
	for (int i = 0; i < LK_MEMORY_CLASSES; i++) {
		if (measured && strcmp(lk_memory_classes[i], lk_memory_class(model)) != 0) continue;
		lk_memory_band band = lk_memory_band_known(lk_memory_classes[i]);
		if (band.rows) above = fmax(above, band.high);
	}
	return use->walk.peak * (exp(2 * above / lk_memory_scale(use->walk.peak)) - 1);
}
