/* ops_nearest.c: nearest neighbours in four logarithms. Points are sorted by their sum, the
 * logarithm of the work: two points whose sums differ by s are at least s/2 apart, so the search
 * goes outward from a point's place and ends early. */
#include "base/sort.h"
#include "validate/validate.h"

#include <math.h>
#include <stdlib.h>

#include "cost/kernel/kernel.h"

struct place {
	double at[4], sum;
	size_t point;
	int device, fold;
};

static int by_sum(const void *a, const void *b) {
	const struct place *x = a, *y = b;
	if (x->device != y->device) return x->device - y->device;
	if (x->sum != y->sum) return x->sum < y->sum ? -1 : 1;
	return (x->point > y->point) - (x->point < y->point);
}

static struct place nearest_place_of(const lk_gemm_table *table, size_t i, bool other_devices) {
	const lk_gemm_point *point = &table->points[i];
	struct place out = {.at = {log(point->shape.batch), log(point->shape.m), log(point->shape.n),
	                           log(point->shape.k)},
	                    .point = i,
	                    .fold = point->fold};
	for (int d = 0; d < 4; d++) out.sum += out.at[d];
	out.device = other_devices ? 0 : point->device;
	return out;
}

struct search {
	const struct place *at;
	size_t count, own;
	bool cross;
	double least; /* squared distance */
	size_t best;  /* index; `own`: none */
};

/* Compare one place; false if nothing nearer can lie beyond it. */
static bool nearest_look(struct search *search, size_t i) {
	const struct place *own = &search->at[search->own], *other = &search->at[i];
	double apart = (other->sum - own->sum) / 2, far = 0;
	if (other->device != own->device || apart * apart > search->least) return false;
	if (i == search->own || (search->cross && other->fold == own->fold)) return true;
	for (int d = 0; d < 4; d++) far += (other->at[d] - own->at[d]) * (other->at[d] - own->at[d]);
	if (far < search->least) {
		search->least = far;
		search->best = i;
	}
	return search->least > 0;
}

static size_t validate_nearest(const struct place *places, size_t count, size_t own, bool cross) {
	struct search s = {places, count, own, cross, INFINITY, own};
	bool up = true, down = true;
	for (size_t step = 1; up || down; step++) {
		up = up && own + step < count && nearest_look(&s, own + step);
		down = down && own >= step && nearest_look(&s, own - step);
	}
	return s.best;
}

lk_status lk_gemm_nearest(const lk_gemm_table *table, bool cross, bool other_devices,
                          double *predicted, lk_error *err) {
	struct place *places = calloc(table->count + 1, sizeof *places);
	if (!places) return lk_oom(err);
	for (size_t i = 0; i < table->count; i++) places[i] = nearest_place_of(table, i, other_devices);
	lk_sort(places, table->count, sizeof *places, by_sum);
	for (size_t i = 0; i < table->count; i++) {
		size_t found = validate_nearest(places, table->count, i, cross);
		const lk_gemm_point *own = &table->points[places[i].point],
							*other = &table->points[places[found].point];
		double work = exp(places[i].sum - places[found].sum);
		double peaks = lk_peak_flops(table->device[other->device], table->dtype) /
		               lk_peak_flops(table->device[own->device], table->dtype);
		predicted[places[i].point] = found == i ? NAN : other->sample->seconds * work * peaks;
	}
	free(places);
	return LK_OK;
}

double lk_gemm_roofline(const lk_device *device, const lk_gemm_shape *shape) {
	double bytes = lk_dtype_bytes(shape->dtype) * shape->batch *
	               (shape->m * shape->n + shape->m * shape->k + shape->n * shape->k);
	return fmax(2 * shape->batch * shape->m * shape->n * shape->k /
	                lk_peak_flops(device, shape->dtype),
	            bytes / device->memory_rate);
}
