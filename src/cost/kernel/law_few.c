/* law_few.c: a linear layer for few rows: C[m,n] = A[m,k] B[k,n], m up to LK_LAW_FEW_ROWS, as in
 * generation. The weight's bytes count most, and a kernel divides k among SMs that n leaves idle:
 *
 *     weight  = bytes / (memory * bandwidth)
 *     compute = 2 m' n k / (efficiency * peak), m' = m in whole rows of 16
 *     chain   = depth * (k / 4096)^reach * max(1, tiles / SMs)^spill
 *     time    = start + (weight^p + compute^p + chain^p)^(1/p) + row * m/128 + reads of A
 *
 * One SM's loop over k in s parts takes k/s steps, and joining the parts takes s: the best s leaves
 * a time as sqrt(k); a kernel that does not divide k takes a time as k. `row` is what the epilogue
 * and the search for a row's scale take. */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

enum { M, N, K };

enum { EFFICIENCY, START, MEMORY, BLEND, DEPTH, REACH, SPILL, ROW, CAST, CAST_START, NUMBERS };

static const lk_fit_number numbers[NUMBERS] = {
	[EFFICIENCY] = {"efficiency", .6, .02, 2, true},
	[START] = {"start_us", 2.5, .1, 200, true},
	[MEMORY] = {"memory", .8, .05, 3, true},
	[BLEND] = {"blend", 3, 1, 12, true},
	[DEPTH] = {"depth_us", 2, .01, 100, true},
	[REACH] = {"reach", .6, .3, 1.2, false},
	[SPILL] = {"spill", .3, 0, 2, false},
	[ROW] = {"row_us", .5, .001, 50, true},
	[CAST] = {"cast", .5, .02, 4, true},
	[CAST_START] = {"cast_us", 2, .1, 100, true},
};

static double few_seconds(const double *x, const lk_law_call *call) {
	const lk_law_format *format = call->format;
	const lk_device *device = call->device;
	double m = call->size[M], n = call->size[N], k = call->size[K], p = x[BLEND];
	double bytes = format->activation * m * k + format->weight * n * k + 2 * m * n;
	double peak = lk_peak_flops(device, format->units);
	double tiles = ceil(m / 128) * ceil(n / 128) / fmax(device->sms, 1);
	double weight = bytes / (x[MEMORY] * device->memory_rate);
	double compute = 2 * ceil(m / 16) * 16 * n * k / (x[EFFICIENCY] * peak);
	double chain = x[DEPTH] * 1e-6 * pow(k / 4096, x[REACH]);
	if (tiles > 1) chain *= pow(tiles, x[SPILL]);
	double longest = fmax(fmax(weight, compute), fmax(chain, 1e-15));
	double sum = pow(weight / longest, p) + pow(compute / longest, p) + pow(chain / longest, p);
	double seconds = longest * pow(sum, 1 / p) + (x[START] + x[ROW] * m / 128) * 1e-6;
	if (format->reads == 0) return seconds;
	double cast = (2 * format->reads + format->activation) * m * k;
	return seconds + cast / (x[CAST] * device->memory_rate) + x[CAST_START] * format->reads * 1e-6;
}

static void few_carry(double *x, const lk_device *from, const lk_device *to) {
	lk_law_carry_product(x + EFFICIENCY, x + MEMORY, x + CAST, from, to);
}

static void few_describe(const double *x, const lk_law_call *call, const lk_law_series *series,
                         float *out) {
	lk_law_describe_sizes(&lk_law_few, x, call, series, out);
}

const lk_law lk_law_few = {.family = "product_few",
                           .numbers = numbers,
                           .count = NUMBERS,
                           .seconds = few_seconds,
                           .carry = few_carry,
                           .features = LK_SIZE_FEATURES(NUMBERS),
                           .describe = few_describe};
