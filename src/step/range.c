/* range.c: the 80 % range of a predicted step time.
 *
 * The interval of measured / predicted that held most of the runs of the job's class, when each run
 * was predicted from fits that had not seen it (src/fit/cross_runs.c). What no run of the class
 * says is a distance: an architecture that was never measured, or a stack without runs, takes the
 * interval of all stacks and widens it by half each. */
#include "base/arena.h"
#include "step/step.h"

#include <math.h>
#include <stdio.h>
#include "cost/calibration/calibration.h"

char *lk_range_class(lk_arena *arena, const char *stack, const char *arch, bool experts) {
	return lk_arena_printf(arena, "%s%s%s%s%s", stack ? stack : "", stack ? " " : "",
	                       arch ? arch : "", arch ? " " : "", experts ? "experts" : "dense");
}

/* The narrowest class that has a row. */
static const lk_calibration_row *range_class_of(lk_arena *arena, const lk_calibration *calibration,
                                                const char *stack, const char *arch, bool experts) {
	const lk_calibration_row *row = NULL;
	for (int level = stack ? 0 : 2; level < 3 && !row; level++) {
		const char *variant =
			lk_range_class(arena, level < 2 ? stack : NULL, level < 1 ? arch : NULL, experts);
		if (variant) row = lk_calibration_find(calibration, "range", "step", variant);
	}
	return row;
}

const lk_calibration_row *lk_range_row(lk_arena *arena, const lk_job *job,
                                       const lk_device *device) {
	const lk_calibration *calibration = lk_calibration_current();
	const lk_calibration_row *profile = lk_profile_find(calibration, job);
	return range_class_of(arena, calibration, profile ? profile->subject : NULL,
	                      lk_arch_name(device->arch), job->model.experts > 0);
}

void lk_range_of(lk_arena *arena, const lk_job *job, const lk_device *device, double seconds,
                 double *low, double *high, const char **basis) {
	const lk_calibration *calibration = lk_calibration_current();
	bool experts = job->model.experts > 0;
	const lk_calibration_row *profile = lk_profile_find(calibration, job);
	const lk_calibration_row *row = lk_range_row(arena, job, device);
	double below = log(lk_calibration_value(row, "low", experts ? .65 : .8));
	double above = log(lk_calibration_value(row, "high", experts ? 1.5 : 1.25));
	double wider = (profile ? 1 : 1.5) * (lk_profile_measured(calibration, device->arch) ? 1 : 1.5);
	double middle = (below + above) / 2, half = (above - below) / 2 * wider;
	/* a class whose runs were all faster or slower than predicted: the prediction is possible too
	 */
	*low = seconds * fmin(exp(middle - half), 1);
	*high = seconds * fmax(exp(middle + half), 1);
	if (!basis) return;
	*basis = lk_arena_printf(
		arena, "errors of %d %s runs that the fit had not seen%s%s", row ? row->points : 0,
		row       ? row->variant
		: experts ? "experts"
				  : "dense",
		profile ? "" : ", wider: no run of this stack",
		lk_profile_measured(calibration, device->arch) ? ""
													   : ", wider: no run on this architecture");
}
