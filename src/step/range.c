/* range.c: the 80 % range of a predicted step time.
 *
 * The interval of measured / predicted that held most of the runs of the job's class, when each run
 * was predicted from fits that had not seen it (src/fit/cross_runs.c). What no run of the class
 * says is a distance: an architecture that was never measured, or a stack without runs, takes the
 * interval of all stacks and widens it by half each. A network whose rate lies outside those of the
 * runs adds what collectives were missed by on fabrics that no fit had seen, for each of the first
 * two octaves, in the share of the step that waits for communication. */
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

/* Octaves by which a rate lies outside an interval. */
static double octaves_outside(double rate, double low, double high) {
	return rate > 0 ? fmax(0, fmax(log2(low / rate), log2(rate / high))) : 0;
}

/* How far the networks of a cluster are from those of the runs: 2 octaves are the whole way. The
 * runs have 12.5 to 100 GB/s of NICs a GPU, 25 to 900 of links. */
static double network_distance(const lk_cluster *cluster) {
	double far = 0;
	int nodes = 0;
	for (int g = 0; g < cluster->groups; g++) nodes += cluster->nodes[g];
	for (int g = 0; g < cluster->groups; g++) {
		const lk_node *node = &cluster->node[g];
		if (nodes > 1)
			far =
				fmax(far, octaves_outside(node->nics * node->nic_rate / node->gpus, 12.5e9, 100e9));
		if (node->gpus > 1) far = fmax(far, octaves_outside(node->intra_rate, 25e9, 900e9));
	}
	return fmin(far, 2);
}

/* The error of collectives on fabrics that no fit had seen, of messages as steps have them. */
static double network_error(const lk_calibration *calibration) {
	return lk_calibration_value(lk_calibration_find(calibration, "range", "collective",
	                                                "unmeasured network collectives 4-16 MiB"),
	                            "unseen_width", .25);
}

void lk_range_recommender(double *low, double *high) {
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "recommender", "hugectr", "fp16");
	*low = lk_calibration_value(row, "low", 0.5);
	*high = lk_calibration_value(row, "high", 2);
}

void lk_range_of(lk_arena *arena, const lk_job *job, const lk_cluster *cluster,
                 double network_share, double seconds, double *low, double *high,
                 const char **basis) {
	const lk_calibration *calibration = lk_calibration_current();
	const lk_device *device = cluster->node[0].device;
	bool experts = job->model.experts > 0;
	const lk_calibration_row *profile = lk_profile_find(calibration, job);
	const lk_calibration_row *row = lk_range_row(arena, job, device);
	double below = log(lk_calibration_value(row, "low", experts ? .65 : .8));
	double above = log(lk_calibration_value(row, "high", experts ? 1.5 : 1.25));
	double wider = (profile ? 1 : 1.5) * (lk_profile_measured(calibration, device->arch) ? 1 : 1.5);
	double far = network_distance(cluster);
	double middle = (below + above) / 2,
		   half =
			   hypot((above - below) / 2 * wider, far * network_share * network_error(calibration));
	/* a class whose runs were all faster or slower than predicted: the prediction is possible too
	 */
	*low = seconds * fmin(exp(middle - half), 1);
	*high = seconds * fmax(exp(middle + half), 1);
	if (!basis) return;
	*basis = lk_arena_printf(
		arena, "errors of %d %s runs that the fit had not seen%s%s%s", row ? row->points : 0,
		row       ? row->variant
		: experts ? "experts"
				  : "dense",
		profile ? "" : ", wider: no run of this stack",
		lk_profile_measured(calibration, device->arch) ? ""
													   : ", wider: no run on this architecture",
		far > 0 && network_share > 0 ? ", wider: no run on such a network" : "");
}
