/* attention.c: fused (flash) attention, forward and backward, causal and with sliding windows.
 *
 *     pairs   = queries * keys (causal: the lower triangle; window: a band)
 *     forward = 4 * pairs * head_dim flops per head (q.k and p.v), backward 2.5 times as many (5
 *         products instead of 2)
 *     time    = flops / (peak * efficiency(head_dim)) + floor, at least the bytes
 *
 * The builder states flops; efficiency falls for small heads, because softmax's exponentials per
 * pair do not shrink with them: e(d) = e * d / (d + 128 * (1 - 0.75)) / 0.8. */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

/* A row of tiles takes its start c and the keys that it looks at. Causal, those are (n + tile) / 2
 * on average, of which n / 2 count: n / (n + tile + 2c), the ramp that is found on language models.
 * Without a mask it is n / (n + c). */
static double ramp(double causal, bool masked) {
	const double tile = 128;
	return masked ? causal : fmax(0, causal - tile) / 2;
}

void lk_cost_attention(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	const lk_constants *constants = site->constants;
	bool backward = ops->kind[op] == LK_OP_ATTENTION_BWD;
	double head = ops->k[op] > 0 ? ops->k[op] : 128;
	double efficiency = (backward ? constants->attention_backward : constants->attention_forward) *
	                    head / (head + 32) / 0.8;
	double keys = ops->n[op];
	efficiency *=
		keys / (keys + ramp(constants->attention_ramp, (ops->flags[op] & LK_OP_CAUSAL) != 0));
	double compute =
		ops->flops[op] /
		(lk_sustained_flops(device, LK_BF16, constants->attention_share[device->arch]) *
	     efficiency);
	double memory = ops->bytes[op] / (device->memory_rate * constants->memory_efficiency);
	double seconds = fmax(compute, memory) + constants->kernel_floor_s;
	lk_cost_set(out, seconds);
	double ctas = ceil(ops->m[op] / 128) * ops->batch[op];
	out->waves = (float)(ctas / (device->sms > 0 ? device->sms : 1));
	out->sm = (float)fmin(1, out->waves);
	out->compute = (float)(compute / seconds);
	out->memory = (float)fmin(1, ops->bytes[op] / device->memory_rate / seconds);
}
