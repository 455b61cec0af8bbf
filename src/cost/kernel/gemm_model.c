/* gemm_model.c: time of a matrix product: the best of a few tiles, whole waves of them, against a
 * memory roofline.
 *
 *     CTAs    = ceil(m/tm) * ceil(n/tn) * batch * splits
 *     waves   = ceil(CTAs / SMs)
 *     compute = waves * (2 tm tn k/splits / (peak/SMs * efficiency * tile_efficiency^tiles) + fill)
 *     memory  = (bytes/memory + traffic * (bytes read by all tiles - bytes)) / bandwidth
 *     time    = (compute^blend + memory^blend)^(1/blend) + floor
 *
 * The fill is the time of a tile's first loads and its epilogue: latencies, which weigh more on
 * faster devices. Tile efficiencies follow from operand reuse: a tile half as large loads twice the
 * bytes per flop. */
#include <math.h>

#include "cost/kernel/kernel.h"

static const struct tile {
	int m, n;
	double efficiency;
} tiles[] = {
	{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.95}, {64, 256, 0.90}, {256, 64, 0.90},
	{64, 128, 0.82}, {128, 64, 0.82}, {64, 64, 0.62},   {32, 64, 0.40},  {16, 64, 0.25},
};

enum { TILES = sizeof tiles / sizeof *tiles };

struct choice {
	double seconds, waves;
	int tile, splits;
};

static double tile_efficiency(const lk_gemm_numbers *numbers, int tile) {
	double efficiency = tiles[tile].efficiency;
	return numbers->tiles == 1 || efficiency == 1 ? efficiency : pow(efficiency, numbers->tiles);
}

/* `rate`: of the tile on one SM. */
static struct choice tile_time(const lk_gemm_numbers *numbers, int tile, const lk_gemm_shape *shape,
                               int splits, int sms, double rate) {
	double ctas =
		ceil(shape->m / tiles[tile].m) * ceil(shape->n / tiles[tile].n) * shape->batch * splits;
	/* after a few waves persistent kernels and early finishers blur the edge: count the last
	 * partial wave fractionally */
	double exact = ctas / sms;
	double waves;
	if (exact <= 1) waves = 1;
	else if (exact < 8) waves = ceil(exact);
	else waves = exact + 0.5;
	double step = numbers->k_step,
		   k = step > 0 ? ceil(shape->k / splits / step) * step : shape->k / splits;
	double flops = 2.0 * tiles[tile].m * tiles[tile].n * (k + numbers->k_extra),
		   per_tile = flops / rate + numbers->fill_s;
	double reduce =
		splits > 1 ? 0.05 * splits * per_tile : 0; /* partial sums are written and added */
	return (struct choice){waves * per_tile + reduce, exact, tile, splits};
}

static struct choice best_tile(const lk_gemm_numbers *numbers, const lk_gemm_shape *shape, int sms,
                               double rate) {
	struct choice best = {INFINITY, 0, 0, 1};
	for (int t = 0; t < TILES; t++) {
		double of_tile = rate / sms * tile_efficiency(numbers, t);
		for (int splits = 1; splits == 1 || (splits <= 4 && shape->k / splits >= 512);
		     splits *= 2) {
			struct choice c = tile_time(numbers, t, shape, splits, sms, of_tile);
			if (c.seconds < best.seconds) best = c;
			if (c.waves >= 1) break; /* split only if SMs are idle */
		}
	}
	return best;
}

static bool aligned(double elements) {
	return fmod(elements, 8) == 0;
}

double lk_gemm_formula(const lk_gemm_numbers *numbers, const lk_device *device,
                       const lk_gemm_shape *shape, double bytes, lk_gemm_detail *detail) {
	double rate = lk_peak_flops(device, shape->dtype) * numbers->efficiency,
		   width = lk_dtype_bytes(shape->dtype);
	if (!aligned(shape->n) || !aligned(shape->k)) rate *= numbers->unaligned;
	struct choice c = best_tile(numbers, shape, device->sms > 0 ? device->sms : 1, rate);
	const struct tile *tile = &tiles[c.tile];
	if (isnan(bytes))
		bytes = width * shape->batch *
		        (shape->m * shape->n + shape->m * shape->k + shape->k * shape->n);
	double read = width * shape->batch * ceil(shape->m / tile->m) * ceil(shape->n / tile->n) *
	              (tile->m + tile->n) * shape->k;
	double again = numbers->traffic > 0 ? numbers->traffic * fmax(read - bytes, 0) : 0;
	double memory = (bytes / numbers->memory + again) / device->memory_rate, p = numbers->blend;
	if (detail) *detail = (lk_gemm_detail){c.seconds, memory, c.waves, c.tile, c.splits};
	double longer = fmax(c.seconds, memory), shorter = fmin(c.seconds, memory);
	if (isfinite(p)) longer *= pow(1 + pow(shorter / longer, p), 1 / p);
	return longer + numbers->floor_s;
}

/* ---- the learned correction ---- */

/* Exponent of 2 in a size, at most 6. */
static float twos(double size) {
	int count = 0;
	for (long long x = (long long)size; count < 6 && x > 0 && x % 2 == 0; x /= 2) count++;
	return (float)count;
}

static float share_used(double size, int tile) {
	return (float)(size / (ceil(size / tile) * tile));
}

void lk_gemm_features(const lk_gemm_numbers *numbers, const lk_device *device,
                      const lk_gemm_shape *shape, const lk_gemm_detail *detail, double seconds,
                      float *out) {
	static const int sides[] = {32, 64, 128, 256};
	static const struct {
		int m, n;
	} grids[] = {{128, 128}, {256, 128}, {128, 256}, {64, 64}, {128, 64}};
	double b = shape->batch, m = shape->m, n = shape->n, k = shape->k,
		   bytes = lk_dtype_bytes(shape->dtype) * b * (m * n + m * k + n * k);
	double sms = device->sms > 0 ? device->sms : 1, peak = lk_peak_flops(device, shape->dtype);
	int f = 0;
	/* features of the shape, or of the shape relative to the device */
	const double ratios[] = {m,
	                         n,
	                         k,
	                         m * n,
	                         m / n,
	                         fmin(m, n),
	                         b * m * n * k / bytes,
	                         seconds / numbers->floor_s,
	                         detail->memory_s / detail->compute_s,
	                         detail->waves};
	for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) out[f++] = (float)log2(ratios[i]);
	float least = fminf(twos(n), twos(k));
	const float small[] = {twos(m),
	                       twos(n),
	                       twos(k),
	                       least,
	                       fminf(least, twos(m)),
	                       (float)detail->tile,
	                       (float)detail->splits};
	for (size_t i = 0; i < sizeof small / sizeof *small; i++) out[f++] = small[i];
	for (int i = 0; i < 4; i++) {
		out[f++] = share_used(m, sides[i]);
		out[f++] = share_used(n, sides[i]);
	}
	for (int i = 0; i < 5; i++) {
		double waves = ceil(m / grids[i].m) * ceil(n / grids[i].n) * b / sms;
		out[f++] = (float)(waves / ceil(waves));
		out[f++] = (float)log2(waves);
	}
	/* features of the device */
	const double of_device[] = {device->arch,           sms,
	                            device->clock_hz / 1e9, peak / device->memory_rate,
	                            device->l2_bytes / 1e6, peak / fmax(device->power_w, 1) / 1e9};
	for (size_t i = 0; i < sizeof of_device / sizeof *of_device; i++)
		out[f++] = (float)of_device[i];
	/* features that differ in meaning between devices: only for measured ones */
	const double sizes[] = {b, m * n * b, b * m * n * k, bytes, seconds};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) out[f++] = (float)log2(sizes[i]);
}

double lk_gemm_seconds(const lk_gemm_model *model, const lk_device *device,
                       const lk_gemm_shape *shape, lk_gemm_detail *detail) {
	lk_gemm_detail own;
	if (!detail) detail = &own;
	double seconds = lk_gemm_formula(&model->numbers, device, shape, NAN, detail);
	if (!model->trees || model->trees->count == 0) return seconds;
	float x[LK_GEMM_FEATURES];
	lk_gemm_features(&model->numbers, device, shape, detail, seconds, x);
	return seconds * exp(fmin(fmax(lk_trees_at(model->trees, x), -5),
	                          5)); /* a user's file may hold any trees */
}
