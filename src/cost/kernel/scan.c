/* scan.c: scans of layers with a state, by the law of the same kernels alone (law_state.c). A
 * backward pass takes as many times longer as it has more work; no table has one. */
#include <math.h>

#include "base/check.h"
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

/* By lk_scan. */
static const struct scan_kind {
	const char *name; /* of the law's series */
	lk_state_kernel kernel;
} scan_kinds[] = {
	[LK_SCAN_MAMBA2] = {"mamba2_scan", LK_STATE_MAMBA_SCAN},
	[LK_SCAN_GDN] = {"gdn_scan", LK_STATE_DELTA_SCAN},
	[LK_SCAN_KDA] = {"kda_scan", LK_STATE_DELTA_SCAN},
	[LK_SCAN_CONVOLUTION] = {"mamba2_convolution", LK_STATE_CONVOLUTION},
};

static bool scan_find(const lk_device *device, const struct scan_kind *kind, lk_law_fit *out) {
	const lk_law_series series = {.kind = kind->name,
	                              .format = "bf16",
	                              .kernel = "",
	                              .library = "",
	                              .release = "",
	                              .sustained = true};
	return lk_law_find(&lk_law_state, device, &series, NULL, out);
}

static double scan_seconds(const lk_graph *graph, uint32_t op, const struct scan_kind *kind,
                           const lk_cost_site *site) {
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	double times = ops->kind[op] == LK_OP_SCAN_BWD ? lk_state_backward(kind->kernel) : 1;
	double bytes = ops->bytes[op] / times, tokens = ops->m[op] * ops->batch[op];
	lk_law_fit fit;
	if (!(tokens > 0) || !scan_find(device, kind, &fit))
		return times * bytes / (device->memory_rate * site->constants->memory_efficiency) +
		       site->constants->kernel_floor_s;
	lk_law_call call = {.device = device, .format = lk_law_format_find("bf16")};
	call.size[LK_STATE_BATCH] = ops->batch[op];
	call.size[LK_STATE_LENGTH] = ops->m[op];
	call.size[LK_STATE_CHUNK] = ops->k[op];
	call.size[LK_STATE_CHAINS] = ops->n[op];
	call.size[LK_STATE_TOKEN_BYTES] = bytes / tokens;
	call.size[LK_STATE_TOKEN_FLOPS] = ops->flops[op] / times / tokens;
	call.size[LK_STATE_KEY_CHANNELS] = ops->window[op];
	return times * lk_law_seconds(&fit, &call);
}

void lk_cost_scan(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	size_t last = sizeof scan_kinds / sizeof *scan_kinds - 1;
	double which = fmin(fmax(ops->channel[op], 0), (double)last);
	double seconds = scan_seconds(graph, op, &scan_kinds[(size_t)which], site);
	seconds = fmax(seconds, site->constants->kernel_floor_s);
	lk_cost_set(out, seconds);
	out->sm = 1;
	out->compute =
		ops->flops[op] > 0 ? .5f : .2f; /* of the convolution as of other passes (memory.c) */
	out->memory = (float)fmin(1, ops->bytes[op] / site->node->device->memory_rate / seconds);
}
