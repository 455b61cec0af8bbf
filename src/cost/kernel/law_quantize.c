/* law_quantize.c: a pass over a 16-bit matrix [m, k] on its way to 8 bits: to find its scale (one
 * read) or to apply it (a read and a write).
 *
 *     time = bytes / (memory * (1 + cache * exp(-bytes / L2)) * bandwidth) + start + m * row */
#include "cost/kernel/laws.h"

#include <math.h>

enum { MEMORY, CACHE, ROW, START, NUMBERS };

static const lk_fit_number numbers[NUMBERS] = {
	[MEMORY] = {"memory", .6, .01, 2, true},
	[CACHE] = {"cache", .5, 0, 8, false},
	[ROW] = {"row_ns", .02, .0001, 50, true},
	[START] = {"start_us", 2, .1, 100, true},
};

static double quantize_seconds(const double *x, const lk_law_call *call) {
	const lk_device *device = call->device;
	const double *size = call->size;
	double bytes = size[LK_QUANTIZE_BYTES] * size[LK_QUANTIZE_M] * size[LK_QUANTIZE_K];
	double share = x[MEMORY] * (1 + x[CACHE] * exp(-bytes / device->l2_bytes));
	return bytes / (share * device->memory_rate) + size[LK_QUANTIZE_M] * x[ROW] * 1e-9 +
	       x[START] * 1e-6;
}

/* SMs issue the loads, so a relative with faster memory keeps half of the gain; rows are spread
 * over them. */
static void quantize_carry(double *x, const lk_device *from, const lk_device *to) {
	x[MEMORY] *= sqrt(from->memory_rate / to->memory_rate);
	x[ROW] *= (double)from->sms / to->sms;
}

const lk_law lk_law_quantize = {.family = "quantize",
                                .numbers = numbers,
                                .count = NUMBERS,
                                .seconds = quantize_seconds,
                                .carry = quantize_carry};
