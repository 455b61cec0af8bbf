/* law_mla.c: multi-head latent attention of DeepSeek-V3 forward alone: queries and keys of 128 + 64
 * elements, values of 128, a latent of 512 + 64 in the cache, hidden size 7168.
 *
 *     time = (attention^p + products^p + memory^p)^(1/p) + start
 *     attention = total and longest of units as in law_attention.c, heads of a tile packed
 *     products  = projections of the whole layer, or the products that absorb them
 *
 * In the expanded form a pair of query and key takes 192 + 128 multiply-adds a head, absorbed
 * 576 + 512. Prompts use `absorbed` of the way from the one to the other; generation is
 * absorbed. */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

enum {
	TILE = 128,
	HIDDEN = 7168,
	QUERY_RANK = 1536,
	LATENT = 512,
	ROPE = 64,
	NOPE = 128,
	VALUE = 128
};

enum {
	RATE,
	START,
	UNIT,
	BLEND,
	MEMORY,
	ALONE,
	SPLIT,
	LANES,
	ABSORBED,
	PRODUCTS,
	WEIGHTS,
	NUMBERS
};

static const lk_fit_number numbers[NUMBERS] = {
	[RATE] = {"rate", .5, .002, 3, true},       [START] = {"start_us", 10, .5, 3000, true},
	[UNIT] = {"unit_us", 2, .01, 50, true},     [BLEND] = {"blend", 2, 1, 12, true},
	[MEMORY] = {"memory", .7, .02, 4, true},    [ALONE] = {"alone", .8, .05, 4, true},
	[SPLIT] = {"split", 256, 16, 1e5, true},    [LANES] = {"lanes", 1, .05, 8, true},
	[ABSORBED] = {"absorbed", .1, 0, 1, false}, [PRODUCTS] = {"products", .6, .01, 4, true},
	[WEIGHTS] = {"weights", 1.5, .1, 4, true},
};

/* Flops and bytes of products with weights; elements of weights take `width`. */
struct products {
	double flops, bytes;
};

static struct products products_of(const double *size, double width) {
	double heads = size[LK_MLA_HEADS], rows = size[LK_MLA_BATCH] * fmax(size[LK_MLA_QUERIES], 1);
	switch ((lk_mla_part)size[LK_MLA_PART]) {
	case LK_MLA_ATTENTION: return (struct products){0, 0};
	case LK_MLA_ABSORB:
		return (struct products){2 * rows * heads * NOPE * LATENT,
		                         heads * NOPE * LATENT * width +
		                             2 * rows * heads * (NOPE + LATENT)};
	case LK_MLA_MODULE: break;
	}
	double weights = HIDDEN * (QUERY_RANK + LATENT + ROPE) + QUERY_RANK * heads * (NOPE + ROPE) +
	                 LATENT * heads * (NOPE + VALUE) + heads * VALUE * HIDDEN;
	double moved = HIDDEN * 3 + QUERY_RANK * 3 + heads * (NOPE + ROPE + NOPE + VALUE) * 2;
	return (struct products){2 * rows * weights, weights * width + 4 * rows * moved};
}

struct parts {
	double total, longest, memory, products, units, splits, keys;
};

static double mla_parts_of(const double *x, const lk_law_call *call, struct parts *out) {
	const double *size = call->size;
	const lk_device *device = call->device;
	double sms = device->sms > 0 ? device->sms : 1,
		   peak = lk_peak_flops(device, call->format->units);
	double batch = size[LK_MLA_BATCH], queries = size[LK_MLA_QUERIES], keys = size[LK_MLA_KEYS],
		   heads = size[LK_MLA_HEADS];
	struct products products = products_of(size, x[WEIGHTS]);
	bool generation = size[LK_MLA_GENERATION] > 0;
	double bytes = products.bytes;
	*out = (struct parts){.products = products.flops / (peak * x[PRODUCTS]), .splits = 1};
	if ((lk_mla_part)size[LK_MLA_PART] != LK_MLA_ABSORB) {
		double absorbed = generation ? 1 : x[ABSORBED];
		double pair = (NOPE + ROPE + VALUE) * (1 - absorbed) + (2 * LATENT + ROPE) * absorbed;
		double rows = generation ? queries * heads : queries;
		out->units = batch * (generation ? 1 : heads) * ceil(rows / TILE);
		out->keys = generation ? keys : fmin(keys, keys - (queries - 1) / 2 + TILE / 2);
		double tau = 2 * TILE * pair / (peak * x[RATE] / sms), unit = x[UNIT] * 1e-6;
		if (generation)
			out->splits = fmin(fmax(1, sms * x[LANES] / out->units), fmax(1, keys / x[SPLIT]));
		out->total = out->units * (out->splits * unit + out->keys * tau) / sms;
		out->longest = keys / out->splits * tau * x[ALONE] + unit;
		double width = size[LK_MLA_CACHE], cached = generation ? keys : keys - queries;
		bytes += batch * (LATENT + ROPE) * cached * width +
		         2 * batch * queries * heads * (NOPE + ROPE + VALUE) * (generation ? 3 : 2);
	}
	out->memory = bytes / (x[MEMORY] * device->memory_rate);
	double attention = out->total + out->products, p = x[BLEND];
	double most = fmax(attention, fmax(out->longest, out->memory));
	double sum =
		pow(attention / most, p) + pow(out->longest / most, p) + pow(out->memory / most, p);
	return most * pow(sum, 1 / p) + x[START] * 1e-6;
}

static double mla_seconds(const double *x, const lk_law_call *call) {
	struct parts parts;
	return mla_parts_of(x, call, &parts);
}

enum { LOGS = 17, FEATURES = LOGS + 2 + LK_SERIES_FEATURES };

static void mla_describe(const double *x, const lk_law_call *call, const lk_law_series *series,
                         float *out) {
	const double *size = call->size;
	struct parts parts;
	double seconds = mla_parts_of(x, call, &parts), sms = fmax(call->device->sms, 1);
	const double logs[LOGS] = {
		parts.total / seconds,
		parts.longest / seconds,
		parts.memory / seconds,
		parts.products / seconds,
		seconds / (x[START] * 1e-6),
		seconds,
		parts.units / sms,
		parts.splits,
		parts.keys,
		size[LK_MLA_BATCH],
		size[LK_MLA_QUERIES],
		size[LK_MLA_KEYS],
		size[LK_MLA_HEADS],
		size[LK_MLA_BATCH] * size[LK_MLA_QUERIES],
		x[START],
		x[RATE],
		x[PRODUCTS],
	};
	for (int i = 0; i < LOGS; i++) out[i] = (float)log2(fmax(logs[i], 1e-30));
	out[LOGS] = (float)size[LK_MLA_CACHE];
	out[LOGS + 1] = (float)(parts.units / sms / fmax(ceil(parts.units / sms), 1));
	lk_law_describe_series(call, series, out + LOGS + 2);
}

const lk_law lk_law_mla = {
	.family = "mla",
	.numbers = numbers,
	.count = NUMBERS,
	.seconds = mla_seconds,
	.features = FEATURES,
	.describe = mla_describe,
};
