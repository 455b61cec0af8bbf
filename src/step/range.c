/* range.c: the 80 % range of a predicted step time.
 *
 * Start with the interval of measured / predicted that held most runs of the job's codebase, each
 * predicted from a fit without its network (src/fit/cross_runs.c); on each side use the interval of
 * runs on the job's GPU, and of networks with layers that have a state for such a job, if it is
 * wider. A GPU, architecture or stack without runs widens it by the
 * excess error of runs with such a property when all of them were left out together. A network
 * whose rate lies outside those of the runs adds the error of collectives on fabrics unseen by the
 * fit, for each of the first two octaves, times the share of the step that waits for communication.
 * If each layer is divided among the GPUs of a node or more (tensor and context parallelism), both
 * sides are multiplied (in ln) by the ratio of the errors of such runs to those of others. */
#include "base/check.h"
#include "base/arena.h"
#include "step/step.h"

#include <math.h>
#include <stdio.h>
#include "cost/calibration/calibration.h"

char *lk_range_class(lk_arena *arena, const char *of, bool experts) {
	const char *network = experts ? "experts" : "dense";
	return of ? lk_arena_printf(arena, "%s %s", of, network) : lk_arena_strdup(arena, network);
}

static const lk_calibration_row *range_class_of(lk_arena *arena, const char *of, bool experts) {
	const char *variant = lk_range_class(arena, of, experts);
	return variant ? lk_calibration_find(lk_calibration_current(), "range", "step", variant) : NULL;
}

/* Runs whose whole stack was left out: they represent software with few runs of a kind, or none. */
static const char unseen_stack[] = "unseen stack";

/* Runs of adapters in Hugging Face's networks, from a table of their own; NULL: none. */
static const lk_calibration_row *adapters_row(lk_arena *arena, const lk_job *job) {
	if (job->task != LK_TASK_LORA || !lk_job_runs_as_written(job)) return NULL;
	return range_class_of(arena, LK_RANGE_ADAPTERS, job->model.experts > 0);
}

const lk_calibration_row *lk_range_row(lk_arena *arena, const lk_job *job) {
	bool experts = job->model.experts > 0;
	const lk_calibration_row *row = adapters_row(arena, job);
	if (row) return row;
	row = range_class_of(arena, lk_stack_codebase(job->profile), experts);
	if (!row) row = range_class_of(arena, unseen_stack, experts);
	return row ? row : range_class_of(arena, NULL, experts);
}

/* Logarithms of measured / predicted. */
struct sides {
	double below, above;
};

static struct sides sides_of(const lk_calibration_row *row, bool experts) {
	double low = experts ? .65 : .8, high = experts ? 1.5 : 1.25;
	return (struct sides){log(lk_calibration_value(row, "low", low)),
	                      log(lk_calibration_value(row, "high", high))};
}

double lk_range_wider(double side, double unseen, double usual) {
	return fmax(fabs(unseen), hypot(side, sqrt(fmax(0, unseen * unseen - usual * usual))));
}

bool lk_range_hybrid(const lk_job *job) {
	return job->model.ssm > 0 || job->model.delta_value_heads > 0;
}

bool lk_range_divided(const lk_job *job) {
	enum { NODE = 8 };
	return (int64_t)job->tp * job->cp >= NODE;
}

/* The factor (ln) on a job's range relative to its class of runs, which holds errors of undivided
 * layers: those of divided ones were scaled to them. */
static double range_times(const lk_calibration *calibration, const lk_job *job) {
	if (!lk_range_divided(job)) return 1;
	return lk_calibration_value(lk_calibration_find(calibration, "range", "step", "divided"),
	                            "times", 1);
}

/* At least as wide as what held runs of networks that have layers with a state. */
static struct sides hybrid_sides(const lk_job *job, struct sides sides) {
	const lk_calibration_row *row =
		lk_range_hybrid(job)
			? lk_calibration_find(lk_calibration_current(), "range", "step", "hybrid")
			: NULL;
	if (!row) return sides;
	struct sides of = sides_of(row, true);
	return (struct sides){fmin(sides.below, of.below), fmax(sides.above, of.above)};
}

/* The range's sides, and which of GPU and architecture has no runs (NULL: both have). */
static struct sides range_sides(lk_arena *arena, const lk_job *job, const lk_device *device,
                                const char **unseen) {
	bool experts = job->model.experts > 0;
	struct sides out = sides_of(lk_range_row(arena, job), experts);
	const lk_calibration_row *gpu = range_class_of(arena, device->name, experts);
	const lk_calibration_row *other = range_class_of(arena, device->name, !experts);
	*unseen = NULL;
	if (adapters_row(arena, job)) return out; /* of many GPUs, few of each */
	if (gpu) {
		struct sides of = sides_of(gpu, experts);
		return (struct sides){fmin(out.below, of.below), fmax(out.above, of.above)};
	}
	if (other) return out;
	bool known = lk_profile_measured(lk_calibration_current(), device->arch);
	*unseen = known ? "GPU" : "architecture";
	const lk_calibration_row *row =
		range_class_of(arena, known ? "unseen GPU" : "unseen architecture", experts);
	struct sides usual = sides_of(range_class_of(arena, NULL, experts), experts),
				 more = sides_of(row, experts);
	return (struct sides){-lk_range_wider(out.below, fmin(more.below, 0), fmin(usual.below, 0)),
	                      lk_range_wider(out.above, fmax(more.above, 0), fmax(usual.above, 0))};
}

/* Octaves by which a rate lies outside an interval. */
static double octaves_outside(double rate, double low, double high) {
	LK_ASSERT(low > 0 && low <= high);
	return rate > 0 ? fmax(0, fmax(log2(low / rate), log2(rate / high))) : 0;
}

/* Distance of a cluster's networks from those of the runs: 2 octaves are the full distance. The
 * runs have 12.5 to 100 GB/s of NICs per GPU, 25 to 900 of links. */
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

/* The error of collectives on fabrics unseen by the fit, for messages as long as in steps. */
static double network_error(const lk_calibration *calibration) {
	return lk_coll_range_of(calibration, LK_COLL_NETWORK, false).share;
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
	LK_ASSERT(seconds >= 0 && network_share >= 0);
	const lk_calibration *calibration = lk_calibration_current();
	const lk_calibration_row *row = lk_range_row(arena, job);
	const char *unseen;
	struct sides sides =
		hybrid_sides(job, range_sides(arena, job, cluster->node[0].device, &unseen));
	double far = network_distance(cluster), more = far * network_share * network_error(calibration);
	double times = range_times(calibration, job);
	/* all runs of a class may be faster or slower than predicted: include the prediction */
	*low = seconds * exp(-hypot(times * fmin(sides.below, 0), more));
	*high = seconds * exp(hypot(times * fmax(sides.above, 0), more));
	LK_ASSERT(*low <= seconds && seconds <= *high);
	if (!basis) return;
	const char *network = job->model.experts > 0 ? "MoE" : "dense";
	bool own = row && (row == adapters_row(arena, job) ||
	                   row == range_class_of(arena, lk_stack_codebase(job->profile),
	                                         job->model.experts > 0));
	*basis = lk_arena_printf(
		arena, "errors on %d held-out %s runs%s%s%s%s%s%s", row ? row->points : 0,
		own ? row->variant : network, own ? "" : " of other software",
		lk_range_hybrid(job) ? "; at least as wide as for layers with a state" : "",
		times > 1 ? "; wider, as each layer is divided among 8 GPUs or more" : "",
		unseen ? "; wider, as no run was on this " : "", unseen ? unseen : "",
		far > 0 && network_share > 0 ? "; wider, as no run was on such a network" : "");
}
