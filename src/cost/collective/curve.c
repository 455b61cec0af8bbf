/* curve.c: corrections of measured collectives, between rows of a calibration and the model's
 * times. Between two knots the correction is linear in log2 of the bytes; outside the outermost
 * measured knots it is constant: below, latency dominates, above, bandwidth. */
#include "cost/collective/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cost/collective/nccl.h"
#include <stddef.h>

static const char *const coll_names[LK_COLLS] = {
	[LK_COLL_ALLREDUCE] = "all_reduce",         [LK_COLL_ALLGATHER] = "all_gather",
	[LK_COLL_REDUCESCATTER] = "reduce_scatter", [LK_COLL_ALLTOALL] = "all_to_all",
	[LK_COLL_BROADCAST] = "broadcast",          [LK_COLL_REDUCE] = "reduce",
	[LK_COLL_SENDRECV] = "send_recv",
};

const char *lk_coll_name(lk_coll_kind kind) {
	return (unsigned)kind < LK_COLLS ? coll_names[kind] : "unknown";
}

double lk_coll_busbw_factor(lk_coll_kind kind, int ranks) {
	if (ranks < 2) return 1;
	double n = ranks;
	switch (kind) {
	case LK_COLL_ALLREDUCE: return 2 * (n - 1) / n;
	case LK_COLL_ALLGATHER:
	case LK_COLL_REDUCESCATTER:
	case LK_COLL_ALLTOALL: return (n - 1) / n;
	default: return 1;
	}
}

const char *lk_curve_knot_name(int knot) {
	static const char *const names[LK_CURVE_KNOTS] = {
		"1K", "2K", "4K",  "8K",  "16K", "32K",  "64K",  "128K", "256K", "512K", "1M", "2M",
		"4M", "8M", "16M", "32M", "64M", "128M", "256M", "512M", "1G",   "2G",   "4G", "8G",
	};
	return names[knot];
}

double lk_curve_place(double bytes) {
	return fmin(fmax(log2(bytes) - LK_CURVE_FIRST, 0), LK_CURVE_KNOTS - 1);
}

void lk_curve_fill(lk_curve *curve) {
	for (int k = 0; k < LK_CURVE_KNOTS; k++) {
		int below = k, above = k;
		if (curve->measured[k]) continue;
		while (below >= 0 && !curve->measured[below]) below--;
		while (above < LK_CURVE_KNOTS && !curve->measured[above]) above++;
		if (below < 0 && above == LK_CURVE_KNOTS) curve->correction[k] = 0;
		else if (below < 0) curve->correction[k] = curve->correction[above];
		else if (above == LK_CURVE_KNOTS) curve->correction[k] = curve->correction[below];
		else
			curve->correction[k] =
				curve->correction[below] + (curve->correction[above] - curve->correction[below]) *
											   (k - below) / (above - below);
	}
}

/* ---- rows ---- */

/* Parse "all_reduce 16 on 2": the collective, its GPUs and its nodes. */
static bool read_variant(const char *text, lk_curve *curve) {
	const char *blank = strchr(text, ' ');
	char *end;
	for (int kind = 0; blank && kind < LK_COLLS; kind++) {
		const char *name = lk_coll_name((lk_coll_kind)kind);
		if (strlen(name) != (size_t)(blank - text) || strncmp(name, text, strlen(name)) != 0)
			continue;
		curve->kind = (lk_coll_kind)kind;
		curve->gpus = (int)strtol(blank, &end, 10);
		if (strncmp(end, " on ", 4) != 0) return false;
		curve->nodes = (int)strtol(end + 4, &end, 10);
		return *end == '\0' && curve->gpus > 1 && curve->nodes > 0;
	}
	return false;
}

static bool read_curve(const lk_calibration_row *row, lk_curve *curve) {
	*curve = (lk_curve){0};
	if (!read_variant(row->variant, curve)) return false;
	for (int k = 0; k < LK_CURVE_KNOTS; k++) {
		double factor = lk_calibration_value(row, lk_curve_knot_name(k), 0);
		curve->measured[k] = factor > 0;
		if (factor > 0) curve->correction[k] = log(factor);
	}
	lk_curve_fill(curve);
	return true;
}

void lk_curves_of(const lk_calibration *calibration, const lk_calibration_row *fabric,
                  lk_curves *out) {
	const lk_calibration_row *end = calibration->rows.at + calibration->rows.count;
	out->count = 0;
	for (const lk_calibration_row *row = fabric; row && row < end && out->count < LK_CURVES_MOST;
	     row++)
		if (strcmp(row->family, "curve") == 0 && lk_same_name(row->subject, fabric->subject))
			out->count += read_curve(row, &out->at[out->count]);
}

/* ---- times ---- */

/* Groups that share their NICs, and fabrics with fewer links above the nodes, differ from what was
 * measured. */
static bool curve_is_of(const lk_curve *curve, lk_coll_kind kind, const lk_group_shape *group) {
	bool alone = group->nodes < 2 || (group->sharing < 2 && group->oversubscription <= 1 &&
	                                  !lk_reach_limits(group->reach));
	int nodes = group->nodes < 1 ? 1 : group->nodes;
	return alone && curve->kind == kind && curve->gpus == group->ranks && curve->nodes == nodes;
}

/* The last match; NULL: none. */
static const lk_curve *curve_find(const lk_curves *curves, lk_coll_kind kind,
                                  const lk_group_shape *group) {
	for (int i = curves ? curves->count : 0; i-- > 0;)
		if (curve_is_of(&curves->at[i], kind, group)) return &curves->at[i];
	return NULL;
}

bool lk_curves_have(const lk_curves *curves, lk_coll_kind kind, const lk_group_shape *group) {
	return curve_find(curves, kind, group) != NULL;
}

double lk_curves_factor(const lk_curves *curves, lk_coll_kind kind, const lk_group_shape *group,
                        double bytes) {
	const lk_curve *curve = curve_find(curves, kind, group);
	if (!curve) return 1;
	double place = lk_curve_place(bytes), below = fmin(floor(place), LK_CURVE_KNOTS - 2),
		   share = place - below;
	const double *at = &curve->correction[(int)below];
	return exp(at[0] * (1 - share) + at[1] * share);
}
