/* law_calls.c: calls of layers in training by the laws of isolated kernels. */
#include "cost/kernel/laws.h"

#include <math.h>

void lk_experts_amounts(const lk_experts_work *work, lk_law_call *out) {
	static const double heights[LK_EXPERT_TILES] = LK_EXPERT_HEIGHTS;
	double *size = out->size, hit = fmin(work->experts, work->rows);
	size[LK_EXPERTS_TOKENS] = size[LK_EXPERTS_REACH] = work->tokens;
	size[LK_EXPERTS_HIDDEN] = work->hidden;
	size[LK_EXPERTS_INTER] = work->inter;
	size[LK_EXPERTS_EXPERTS] = work->routed;
	size[LK_EXPERTS_TP] = 1;
	size[LK_EXPERTS_GATED] = work->gated;
	size[LK_EXPERTS_ROWS] = size[LK_EXPERTS_CHOICES] = work->rows;
	size[LK_EXPERTS_HIT] = hit;
	for (int t = 0; t < LK_EXPERT_TILES; t++)
		size[LK_EXPERTS_PADDED + t] = hit * ceil(work->rows / hit / heights[t]) * heights[t];
}

static bool estimate(const lk_law *law, const lk_law_series *series, lk_law_call *call,
                     lk_law_estimate *out) {
	lk_law_fit fit;
	call->format = lk_law_format_find(series->format);
	if (!call->format || !lk_law_find(law, call->device, series, NULL, &fit)) return false;
	*out = (lk_law_estimate){lk_law_seconds(&fit, call), fit.spread, fit.basis};
	return true;
}

bool lk_experts_estimate(const lk_device *device, const lk_law_series *series,
                         const lk_experts_work *work, lk_law_estimate *out) {
	lk_law_call call = {.device = device};
	lk_experts_amounts(work, &call);
	return estimate(&lk_law_experts, series, &call, out);
}

bool lk_state_estimate(const lk_device *device, const lk_law_series *series,
                       const lk_state_layer *layer, lk_law_estimate *out) {
	lk_law_call call = {.device = device};
	lk_state_amounts(layer, &call);
	return estimate(&lk_law_state, series, &call, out);
}
