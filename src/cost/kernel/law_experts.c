/* law_experts.c: the experts of one rank of a mixture-of-experts layer: rows are permuted, two
 * grouped products run (gate and up in one, then down), rows are weighted and summed.
 *
 *     time     = up + down + bytes moved / bandwidth + tests of the router + start
 *     product  = (compute^blend + memory^blend)^(1/blend), the best of the tile heights T
 *     compute  = waves(T) * (2 T 128 (k + k_extra) / (efficiency * (T/128)^tiles * peak / SMs))
 *     memory   = (weights of experts that are hit + rows read and written) / (memory * bandwidth)
 *
 * One launch serves all experts: each pads its rows to whole tiles, and experts without rows are
 * not read. A cost per expert is a number of its own, and small. `stray`: the share of the choices
 * of other ranks' experts, made by tokens that reach this one, that a kernel computes as well
 * (Marlin: all of them). */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

enum {
	EFFICIENCY,
	TILES,
	WAVES,
	K_EXTRA,
	MEMORY,
	CACHE,
	BLEND,
	PERMUTE,
	PASS,
	ROUTE,
	START,
	EXPERT,
	STRAY,
	NUMBERS
};

static const lk_fit_number numbers[NUMBERS] = {
	[EFFICIENCY] = {"efficiency", .6, .02, 2, true},
	[TILES] = {"tiles", .5, 0, 1.5, false},
	[WAVES] = {"waves", .5, 0, 1, false},
	[K_EXTRA] = {"k_extra", 64, 1, 20000, true},
	[MEMORY] = {"memory", .7, .02, 2, true},
	[CACHE] = {"cache", .3, 0, 4, false},
	[BLEND] = {"blend", 3, 1, 12, true},
	[PERMUTE] = {"permute", 8, .1, 200, true},
	[PASS] = {"pass", 4, .05, 100, true},
	[ROUTE] = {"route", 4, .05, 400, true},
	[START] = {"start_us", 30, 1, 400, true},
	[EXPERT] = {"expert_us", .05, .001, 20, true},
	[STRAY] = {"stray", .1, 0, 1, false},
};

enum { TILE_N = 128 };

static double blended(double a, double b, double power) {
	double longer = fmax(a, b), shorter = fmin(a, b);
	return longer * pow(1 + pow(shorter / longer, power), 1 / power);
}

/* A grouped product [rows, k] x [k, n] for each expert. */
static double grouped_seconds(const double *x, const lk_law_call *call, double n, double k) {
	static const double heights[LK_EXPERT_TILES] = LK_EXPERT_HEIGHTS;
	const lk_device *device = call->device;
	const lk_law_format *format = call->format;
	const double *size = call->size;
	double more = 1 + x[STRAY] * fmax(size[LK_EXPERTS_CHOICES] / size[LK_EXPERTS_ROWS] - 1, 0);
	double weights = format->weight * size[LK_EXPERTS_HIT] * n * k,
		   rows = more * size[LK_EXPERTS_ROWS] * (format->activation * k + 2 * n);
	double cached = 1 + x[CACHE] * exp(-weights / device->l2_bytes);
	double memory = (weights / cached + rows) / (x[MEMORY] * device->memory_rate), least = INFINITY;
	double per_sm = x[EFFICIENCY] * lk_peak_flops(device, format->units) / device->sms;
	for (int t = 0; t < LK_EXPERT_TILES; t++) {
		double tiles = more * size[LK_EXPERTS_PADDED + t] / heights[t] * ceil(n / TILE_N),
			   waves = fmax(tiles / device->sms, 1);
		waves += x[WAVES] * (ceil(waves) - waves);
		double rate = per_sm * pow(heights[t] / TILE_N, x[TILES]);
		least = fmin(least, waves * 2 * heights[t] * TILE_N * (k + x[K_EXTRA]) / rate);
	}
	return blended(least, memory, x[BLEND]);
}

static double experts_seconds(const double *x, const lk_law_call *call) {
	const double *size = call->size;
	double hidden = size[LK_EXPERTS_HIDDEN], inter = size[LK_EXPERTS_INTER] / size[LK_EXPERTS_TP],
		   gates = size[LK_EXPERTS_GATED] > 0 ? 2 : 1, tokens = size[LK_EXPERTS_TOKENS];
	double moved = x[PERMUTE] * size[LK_EXPERTS_ROWS] * hidden +
	               x[PASS] * size[LK_EXPERTS_REACH] * hidden +
	               x[ROUTE] * tokens * size[LK_EXPERTS_EXPERTS];
	return grouped_seconds(x, call, gates * inter, hidden) +
	       grouped_seconds(x, call, hidden, inter) + moved / call->device->memory_rate +
	       (x[START] + x[EXPERT] * size[LK_EXPERTS_HIT]) * 1e-6;
}

/* SMs issue the loads, so a relative with faster memory keeps half of the gain. */
static void experts_carry(double *x, const lk_device *from, const lk_device *to) {
	double slower = sqrt(from->memory_rate / to->memory_rate);
	x[MEMORY] *= slower;
	x[PERMUTE] /= slower;
	x[PASS] /= slower;
}

enum { LOGS = 13, PLAIN = 2, FEATURES = LOGS + PLAIN + NUMBERS + LK_SERIES_FEATURES };

static void experts_describe(const double *x, const lk_law_call *call, const lk_law_series *series,
                             float *out) {
	const double *size = call->size, *padded = size + LK_EXPERTS_PADDED;
	double seconds = experts_seconds(x, call), rows = size[LK_EXPERTS_ROWS];
	const double logs[LOGS] = {
		seconds,
		seconds / (x[START] * 1e-6),
		size[LK_EXPERTS_TOKENS],
		size[LK_EXPERTS_HIDDEN],
		size[LK_EXPERTS_INTER] / size[LK_EXPERTS_TP],
		size[LK_EXPERTS_EXPERTS],
		rows,
		size[LK_EXPERTS_HIT],
		rows / size[LK_EXPERTS_HIT],
		size[LK_EXPERTS_CHOICES] / rows,
		padded[0] / rows,
		padded[1] / rows,
		padded[2] / rows,
	};
	for (int i = 0; i < LOGS; i++) *out++ = (float)log2(fmax(logs[i], 1e-30));
	*out++ = (float)size[LK_EXPERTS_TP];
	*out++ = (float)size[LK_EXPERTS_GATED];
	for (int i = 0; i < NUMBERS; i++) *out++ = (float)x[i];
	lk_law_describe_series(call, series, out);
}

const lk_law lk_law_experts = {.family = "experts",
                               .numbers = numbers,
                               .count = NUMBERS,
                               .seconds = experts_seconds,
                               .carry = experts_carry,
                               .outlier = .4,
                               .features = FEATURES,
                               .describe = experts_describe};
