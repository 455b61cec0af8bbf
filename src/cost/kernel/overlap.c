/* overlap.c: a compute kernel overlapped with communication.
 *
 *     time = alone * (1 + ratio * slower)
 *
 * Two mechanisms, a constant each:
 *     SMs       slower = displacement * (compute - memory), where compute throughput is above
 *               memory's: blocks whose SM is taken wait for another
 *     few blocks slower = latency * dram * (1 - L2 hits) * (1 - launch / alone): less than a wave
 *               of blocks, recognised by an achieved occupancy far below the possible one, cannot
 *               hide slower memory
 * Kernels that fill the device and stream are hardly slower: their other blocks continue.
 *
 * If similar launches were measured (a kind), their middle replaces the constants. A kind is a
 * point in the space of profiled quantities; the time alone is a coordinate too, since it reveals
 * the kernel's clock. */
#include "base/arena.h"
#include "cost/kernel/kernel.h"

#include <math.h>
#include <string.h>

#define FEW_BLOCKS 0.6 /* achieved over possible occupancy */
#define REACH      1.5 /* of a kind */
#define OWN_TIME \
	0.4 /* this share of the deviation of a launch's time alone from its kind's is its own */
#define SHORT_S 12e-6

const char *const lk_overlap_class_names[LK_OVERLAP_CLASSES] = {"short", "few blocks", "SM-bound",
                                                                "memory-bound"};

static bool few_blocks(const lk_overlap_kernel *kernel) {
	return kernel->achieved < FEW_BLOCKS * kernel->maximum;
}

lk_overlap_class lk_overlap_class_of(const lk_overlap_kernel *kernel) {
	if (kernel->alone_s < SHORT_S) return LK_OVERLAP_SHORT;
	if (few_blocks(kernel)) return LK_OVERLAP_FEW_BLOCKS;
	return kernel->compute > kernel->memory ? LK_OVERLAP_COMPUTE : LK_OVERLAP_MEMORY;
}

double lk_overlap_sm_bound(const lk_overlap_kernel *kernel) {
	return few_blocks(kernel) ? 0 : fmax(0, kernel->compute - kernel->memory);
}

double lk_overlap_latency_bound(const lk_overlap_kernel *kernel) {
	if (!few_blocks(kernel)) return 0;
	return kernel->dram * fmax(0, 1 - kernel->l2) *
	       fmax(0, 1 - lk_default_constants.kernel_floor_s / kernel->alone_s);
}

double lk_overlap_mechanism(const lk_overlap *model, const lk_overlap_kernel *kernel) {
	double slower = model->displacement * lk_overlap_sm_bound(kernel) +
	                model->latency * lk_overlap_latency_bound(kernel);
	return kernel->ratio * slower;
}

/* Scales: 7 % of the time alone, 7 points of throughput or occupancy, 3 of cache hits, a fifth of
 * the root of the ratio. */
void lk_overlap_place(const lk_overlap_kernel *kernel, double at[LK_OVERLAP_FEATURES]) {
	at[0] = 15 * log(fmax(kernel->alone_s, 1e-9) * 1e6);
	at[1] = 15 * kernel->compute;
	at[2] = 15 * kernel->memory;
	at[3] = 15 * kernel->dram;
	at[4] = 15 * kernel->achieved;
	at[5] = 15 * kernel->maximum;
	at[6] = 30 * kernel->l1;
	at[7] = 30 * kernel->l2;
	at[8] = 5 * sqrt(fmax(kernel->ratio, 0));
}

double lk_overlap_distance2(const double *a, const double *b) {
	double sum = 0;
	for (int f = 0; f < LK_OVERLAP_FEATURES; f++) sum += (a[f] - b[f]) * (a[f] - b[f]);
	return sum;
}

double lk_overlap_regress(const double *kind, const double *kernel) {
	return exp((1 - OWN_TIME) * (kind[0] - kernel[0]) / 15);
}

/* NULL: none is near enough. */
static const lk_overlap_kind *nearest_kind(const lk_overlap *model, const double *at) {
	double least = REACH * REACH;
	const lk_overlap_kind *nearest = NULL;
	for (size_t i = 0; i < model->kind_count; i++) {
		double d = lk_overlap_distance2(model->kinds[i].at, at);
		if (d < least) {
			least = d;
			nearest = &model->kinds[i];
		}
	}
	return nearest;
}

double lk_overlap_spread(const lk_overlap *model, const lk_overlap_kernel *kernel, double usual) {
	double at[LK_OVERLAP_FEATURES];
	lk_overlap_place(kernel, at);
	const lk_overlap_kind *kind = nearest_kind(model, at);
	return kind ? (kind->missed * kind->spread + usual) / (kind->missed + 1) : usual;
}

double lk_overlap_seconds(const lk_overlap *model, const lk_overlap_kernel *kernel) {
	double at[LK_OVERLAP_FEATURES];
	lk_overlap_place(kernel, at);
	const lk_overlap_kind *nearest = nearest_kind(model, at);
	if (!nearest) return kernel->alone_s * (1 + lk_overlap_mechanism(model, kernel));
	return kernel->alone_s * (1 + fmax(nearest->slower, -0.9)) *
	       lk_overlap_regress(nearest->at, at);
}

/* ---- rows of the calibration ---- */

static const char *const feature_names[LK_OVERLAP_FEATURES] = {
	"time", "compute", "memory", "dram", "achieved", "maximum", "l1", "l2", "ratio",
};

static bool is_kind(const lk_calibration_row *row) {
	return strcmp(row->family, "overlap") == 0 && strncmp(row->variant, "kind", 4) == 0;
}

bool lk_overlap_load(lk_arena *arena, const lk_calibration *calibration, lk_overlap *out) {
	size_t count = 0;
	*out = (lk_overlap){0};
	for (size_t i = 0; i < calibration->rows.count; i++) count += is_kind(&calibration->rows.at[i]);
	out->kinds = LK_ARRAY(arena, lk_overlap_kind, count);
	if (!out->kinds) return false;
	for (size_t i = 0; i < calibration->rows.count; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (is_kind(row)) {
			lk_overlap_kind *kind = &out->kinds[out->kind_count++];
			for (int f = 0; f < LK_OVERLAP_FEATURES; f++)
				kind->at[f] = lk_calibration_value(row, feature_names[f], INFINITY);
			kind->slower = lk_calibration_value(row, "slower", 0);
			kind->count = row->points;
			kind->spread = lk_calibration_value(row, "spread", 0);
			kind->missed = (int)lk_calibration_value(row, "missed", 0);
		} else if (strcmp(row->family, "overlap") == 0 && !*row->variant) {
			out->displacement = lk_calibration_value(row, "displacement", 0);
			out->latency = lk_calibration_value(row, "latency", 0);
		}
	}
	return true;
}

double lk_overlap_latency(const lk_calibration *calibration, const char *device) {
	const lk_calibration_row *row = lk_calibration_find(calibration, "overlap", device, "");
	for (size_t i = 0; !row && i < calibration->rows.count; i++)
		if (strcmp(calibration->rows.at[i].family, "overlap") == 0 &&
		    !*calibration->rows.at[i].variant)
			row = &calibration->rows.at[i];
	return lk_calibration_value(row, "latency", 0);
}

static bool store_kind(const lk_overlap_kind *kind, size_t number, const char *device,
                       const char *date, const char *source, lk_calibration *out) {
	const char *variant = lk_arena_printf(&out->arena, "kind %zu", number + 1);
	lk_calibration_row *row = variant ? lk_calibration_add(out, "overlap", device, variant) : NULL;
	if (!row) return false;
	for (int f = 0; f < LK_OVERLAP_FEATURES; f++)
		lk_calibration_put(row, feature_names[f], kind->at[f]);
	lk_calibration_put(row, "slower", kind->slower);
	lk_calibration_put(row, "spread", kind->spread);
	lk_calibration_put(row, "missed", kind->missed);
	row->points = kind->count;
	row->date = date;
	row->source = source;
	return true;
}

bool lk_overlap_store(const lk_overlap *model, const char *device, int points, double error,
                      const char *date, const char *source, lk_calibration *out) {
	lk_calibration_row *row = lk_calibration_add(out, "overlap", device, "");
	if (!row) return false;
	lk_calibration_put(row, "displacement", model->displacement);
	lk_calibration_put(row, "latency", model->latency);
	row->points = points;
	row->error = error;
	row->date = date;
	row->source = source;
	for (size_t i = 0; i < model->kind_count; i++)
		if (!store_kind(&model->kinds[i], i, device, date, source, out)) return false;
	return true;
}
