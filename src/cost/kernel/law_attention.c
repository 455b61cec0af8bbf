/* law_attention.c: fused attention forward alone, in all phases: prompts and training (queries as
 * many as keys, causal), encoders (no mask), generation (one query against many keys).
 *
 * A unit is a tile of 128 rows of queries against all keys that it sees. A packed kernel fills the
 * tile with the query heads of one key head. Generation splits the keys of a unit over idle SMs.
 *
 *     time    = (total^p + longest^p + memory^p)^(1/p) + start + combine
 *     total   = units * (splits * unit + mean keys * tau) / SMs
 *     longest = most keys / splits * tau * alone + unit
 *     memory  = bytes / (share * bandwidth): q, o, new k and v and their cache, cached keys
 *     tau     = 4 * 128 * head * g(head) / (rate * peak / SMs)
 *
 * With a causal mask half a tile on the diagonal is wasted. A kernel that ignores the window
 * (skip = 0) reads all keys. Groups of more than `group` query heads are not packed. In generation
 * a key head of one query head runs another kernel than one of a few (lone: its work over theirs),
 * and so does one of more than eight (crowd). */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

enum { TILE = 128, FEW_HEADS = 8 };

enum {
	RATE,
	START,
	UNIT,
	BLEND,
	MEMORY,
	ALONE,
	SKIP,
	PACK,
	GROUP,
	SPLIT,
	COMBINE,
	LANES,
	HEAD_64,
	HEAD_192,
	HEAD_256,
	HEAD_512,
	ODD,
	WIDE,
	LONE,
	CROWD,
	NUMBERS
};

static const lk_fit_number numbers[NUMBERS] = {
	[RATE] = {"rate", .6, .002, 3, true},
	[START] = {"start_us", 8, .5, 200, true},
	[UNIT] = {"unit_us", 2, .01, 50, true},
	[BLEND] = {"blend", 2, 1, 12, true},
	[MEMORY] = {"memory", .7, .02, 4, true},
	[ALONE] = {"alone", .8, .05, 4, true},
	[SKIP] = {"skip", .9, 0, 1, false},
	[PACK] = {"pack", .7, 0, 1, false},
	[GROUP] = {"group", 24, .9, 130, true},
	[SPLIT] = {"split", 256, 16, 1e5, true},
	[COMBINE] = {"combine_us", 1, .01, 50, true},
	[LANES] = {"lanes", 1, .05, 8, true},
	[HEAD_64] = {"head_64", 1.2, .3, 4, true},
	[HEAD_192] = {"head_192", 1, .3, 6, true},
	[HEAD_256] = {"head_256", 1, .3, 6, true},
	[HEAD_512] = {"head_512", 1, .3, 10, true},
	[ODD] = {"odd", 1.1, .5, 8, true},
	[WIDE] = {"wide", .3, 0, 2, false},
	[LONE] = {"lone", 1, .3, 3, true},
	[CROWD] = {"crowd", 1, .3, 3, true},
};

/* Time per key and element over that at head size 128, between the sizes of the numbers by
 * powers. `odd` counts where the size is no multiple of 16. */
static double head_factor(const double *x, double head) {
	static const double sizes[] = {64, 128, 192, 256, 512};
	enum { SIZES = sizeof sizes / sizeof *sizes };
	const double factors[SIZES] = {x[HEAD_64], 1, x[HEAD_192], x[HEAD_256], x[HEAD_512]};
	double odd = fmod(head, 16) != 0 ? x[ODD] : 1;
	if (head <= sizes[0]) return factors[0] * odd;
	for (int i = 0; i + 1 < SIZES; i++)
		if (head <= sizes[i + 1]) {
			double between = log(head / sizes[i]) / log(sizes[i + 1] / sizes[i]);
			return factors[i] * pow(factors[i + 1] / factors[i], between) * odd;
		}
	return factors[SIZES - 1] * odd;
}

/* Mean over the queries of the keys that each one sees. */
static double mean_keys(double queries, double keys, double window) {
	double before = keys - queries, growing = fmin(fmax(window - before, 0), queries);
	double pairs = growing * (before + (growing + 1) / 2) + (queries - growing) * window;
	return pairs / queries;
}

/* Keys of the mean and of the longest unit. */
static void unit_keys(const double *x, const double *size, lk_attention_parts *out) {
	double queries = size[LK_ATTENTION_QUERIES], keys = size[LK_ATTENTION_KEYS];
	double window = size[LK_ATTENTION_WINDOW];
	out->most = out->keys = keys;
	out->window = window > 0 ? fmin(window, keys) : keys;
	out->window += (keys - out->window) * (1 - x[SKIP]);
	if (!(size[LK_ATTENTION_CAUSAL] > 0)) return;
	double edge = queries > 1 ? TILE / 2 : 0;
	double whole = fmin(mean_keys(queries, keys, keys) + edge, keys);
	out->keys = fmin(mean_keys(queries, keys, out->window) + 2 * edge, whole);
	out->most = fmin(keys, out->window + fmin(queries - 1, TILE));
}

static double attention_bytes(const double *size, double window) {
	double queries = size[LK_ATTENTION_QUERIES], width = size[LK_ATTENTION_CACHE];
	double rows = size[LK_ATTENTION_BATCH] * size[LK_ATTENTION_HEAD];
	double cached = fmin(size[LK_ATTENTION_KEYS] - queries, window);
	return rows * (4 * size[LK_ATTENTION_HEADS] * queries +
	               2 * size[LK_ATTENTION_KV_HEADS] * (queries * (2 + width) + cached * width));
}

double lk_attention_parts_of(const double *x, const lk_law_call *call, lk_attention_parts *out) {
	const double *size = call->size;
	const lk_device *device = call->device;
	double sms = device->sms > 0 ? device->sms : 1, head = size[LK_ATTENTION_HEAD];
	double queries = size[LK_ATTENTION_QUERIES], batch = size[LK_ATTENTION_BATCH];
	double group = size[LK_ATTENTION_HEADS] / size[LK_ATTENTION_KV_HEADS];
	bool cached = queries < size[LK_ATTENTION_KEYS];
	unit_keys(x, size, out);
	out->loose = batch * size[LK_ATTENTION_HEADS] * ceil(queries / TILE);
	out->packed = batch * size[LK_ATTENTION_KV_HEADS] * ceil(queries * group / TILE);
	double pack = cached && group > x[GROUP] ? 0 : x[PACK];
	out->units = pow(out->loose, 1 - pack) * pow(out->packed, pack);
	double tau = 4 * TILE * head * head_factor(x, head) /
	             (lk_peak_flops(device, call->format->units) * x[RATE] / sms);
	double unit = x[UNIT] * 1e-6 * pow(head / 128, x[WIDE]);
	out->splits = 1;
	if (cached)
		out->splits = fmin(fmax(1, sms * x[LANES] / out->units), fmax(1, out->most / x[SPLIT]));
	out->total = out->units * (out->splits * unit + out->keys * tau) / sms;
	out->longest = out->most / out->splits * tau * x[ALONE] + unit;
	out->memory = attention_bytes(size, out->window) / (x[MEMORY] * device->memory_rate);
	double other = 1;
	if (cached && group <= 1) other = x[LONE];
	else if (cached && group > FEW_HEADS) other = x[CROWD];
	out->total *= other, out->longest *= other, out->memory *= other;
	double most = fmax(out->total, fmax(out->longest, out->memory)), p = x[BLEND];
	double sum =
		pow(out->total / most, p) + pow(out->longest / most, p) + pow(out->memory / most, p);
	out->start = x[START] * 1e-6 + (cached && out->most > x[SPLIT] ? x[COMBINE] * 1e-6 : 0);
	return most * pow(sum, 1 / p) + out->start;
}

static double attention_seconds(const double *x, const lk_law_call *call) {
	lk_attention_parts parts;
	return lk_attention_parts_of(x, call, &parts);
}

/* ---- the learned correction: kernels are chosen by size, waves end unevenly ---- */

static float log_of(double value) {
	return (float)log2(fmax(value, 1e-30));
}

enum { LOGS = 24, PLAIN = 8, FEATURES = LOGS + PLAIN + LK_SERIES_FEATURES };

static float filled(double units, double sms) {
	return (float)(units / sms / ceil(units / sms));
}

static void attention_describe(const double *x, const lk_law_call *call,
                               const lk_law_series *series, float *out) {
	const double *size = call->size;
	lk_attention_parts parts;
	double seconds = lk_attention_parts_of(x, call, &parts), sms = fmax(call->device->sms, 1);
	double batch = size[LK_ATTENTION_BATCH], queries = size[LK_ATTENTION_QUERIES],
		   keys = size[LK_ATTENTION_KEYS], heads = size[LK_ATTENTION_HEADS],
		   kv_heads = size[LK_ATTENTION_KV_HEADS], head = size[LK_ATTENTION_HEAD],
		   window = size[LK_ATTENTION_WINDOW];
	const double logs[LOGS] = {
		parts.total / seconds,
		parts.longest / seconds,
		parts.memory / seconds,
		seconds / parts.start,
		seconds,
		parts.units / sms,
		parts.loose / sms,
		parts.packed / sms,
		batch * kv_heads / sms,
		parts.splits,
		parts.keys,
		queries,
		keys,
		batch,
		heads,
		kv_heads,
		window + 1,
		window > 0 ? window / keys : 512,
		x[RATE],
		x[UNIT],
		x[GROUP],
		x[MEMORY],
		batch * kv_heads * keys * head,
		batch * heads * queries * keys * head,
	};
	const float plain[PLAIN] = {
		filled(parts.units, sms),
		filled(parts.loose, sms),
		filled(parts.packed, sms),
		(float)(heads / kv_heads),
		(float)head,
		(float)size[LK_ATTENTION_CACHE],
		(float)x[PACK],
		(float)x[START],
	};
	for (int i = 0; i < LOGS; i++) out[i] = log_of(logs[i]);
	for (int i = 0; i < PLAIN; i++) out[LOGS + i] = plain[i];
	lk_law_describe_series(call, series, out + LOGS + PLAIN);
}

const lk_law lk_law_attention = {
	.family = "attention",
	.numbers = numbers,
	.count = NUMBERS,
	.seconds = attention_seconds,
	.features = FEATURES,
	.describe = attention_describe,
};
