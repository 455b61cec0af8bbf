/* gemm.c: matrix multiplication on tensor cores: the best of a few tiles, whole waves of them, against a memory
 * roofline.
 *
 *     CTAs    = ceil(m/tm) * ceil(n/tn) * batch * splits
 *     waves   = ceil(CTAs / SMs)
 *     compute = waves * (2 tm tn k/splits / (peak/SMs * efficiency * tile_efficiency) + fill)
 *     time    = max(compute, bytes/bandwidth) + floor
 *
 * The fill stands for a tile's first loads and its epilogue: latencies, so it is a time and weighs more on faster
 * devices. Tile efficiencies follow from operand reuse: a tile that is half as large loads twice the bytes per flop.
 * Form and fill: fits of the public vidur GEMM profiles (docs/METHOD.md, "GEMM").
 */
#include <math.h>

#include "cost/cost.h"
#include "cost/kernel.h"

static const struct tile {
	int m, n;
	double efficiency;
} tiles[] = {
	{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.95}, {64, 256, 0.90}, {256, 64, 0.90},
	{64, 128, 0.82}, {128, 64, 0.82}, {64, 64, 0.62},   {32, 64, 0.40},  {16, 64, 0.25},
};

typedef struct lk_gemm_choice {
	double seconds, waves;
} lk_gemm_choice;

static lk_gemm_choice tile_time(const struct tile *tile, double m, double n, double k, double batch, int splits,
								int sms, double rate, double fill) {
	double ctas = ceil(m / tile->m) * ceil(n / tile->n) * batch * splits;
	/* Beyond a few waves persistent kernels and early finishers blur the edge: the last partial wave counts as it is.
	 */
	double exact = ctas / sms;
	double waves = exact <= 1 ? 1 : exact < 8 ? ceil(exact) : exact + 0.5;
	double per_tile = 2.0 * tile->m * tile->n * (k / splits) / (rate / sms * tile->efficiency) + fill;
	double reduce = splits > 1 ? 0.05 * splits * per_tile : 0; /* partial sums are written and added */
	return (lk_gemm_choice){waves * per_tile + reduce, exact};
}

static lk_gemm_choice best_tile(double m, double n, double k, double batch, int sms, double rate, double fill) {
	lk_gemm_choice best = {INFINITY, 0};
	for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
		for (int splits = 1; splits <= 4 && k / splits >= 512; splits *= 2) {
			lk_gemm_choice c = tile_time(&tiles[t], m, n, k, batch, splits, sms, rate, fill);
			if (c.seconds < best.seconds) best = c;
			if (c.waves >= 1) break; /* split only what leaves SMs idle */
		}
		if (k < 512) {
			lk_gemm_choice c = tile_time(&tiles[t], m, n, k, batch, 1, sms, rate, fill);
			if (c.seconds < best.seconds) best = c;
		}
	}
	return best;
}

static void gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, double rows, double factor, lk_cost *out) {
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	const lk_constants *c = site->constants;
	double rate = lk_sustained_flops(device, (lk_dtype)ops->dtype[op], c->sustained[device->arch]) * c->gemm_efficiency * factor;
	int sms = device->sms > 0 ? device->sms : 1;
	lk_gemm_choice choice =
		best_tile(rows, ops->n[op], ops->k[op], ops->batch[op], sms, rate, site->constants->gemm_fill_s);
	double memory = ops->bytes[op] / (device->memory_rate * site->constants->memory_efficiency);
	double seconds = fmax(choice.seconds, memory) + site->constants->kernel_floor_s;
	lk_cost_set(out, seconds);
	out->sm = (float)fmin(1, choice.waves);
	out->waves = (float)choice.waves;
	out->compute = (float)(choice.seconds / seconds);
	out->memory = (float)(ops->bytes[op] / device->memory_rate / seconds);
}

void lk_cost_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	gemm(graph, op, site, graph->ops.m[op], 1, out);
}

/* Experts of a rank as one launch: the busiest rank decides, so its rows are the mean times the imbalance. */
void lk_cost_grouped_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	gemm(graph, op, site, graph->ops.m[op], site->constants->expert_efficiency, out);
}

/* Convolution as the GEMM that cuDNN's implicit kernels run: m output pixels, n filters, k filter elements. */
void lk_cost_conv(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	gemm(graph, op, site, graph->ops.m[op], 1, out);
}
