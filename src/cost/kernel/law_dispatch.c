/* law_dispatch.c: tokens on their way to the ranks of their experts, and back: DeepEP's kernels,
 * TensorRT-LLM's over NVLink, one phase at a time.
 *
 *     time   = ((start + far)^blend + (inside / wires)^blend + (outside / nic)^blend)^(1/blend)
 *     inside = tokens * hidden * bytes * (copies(ranks) * (1 - 1 / ranks of a node) + pass)
 *     wires  = ((SMs * sm)^-join + (link * links' rate)^-join)^(-1/join)
 *
 * A token goes once to each rank, and to each other node, that one of its topk experts is on: of
 * even choices without repetition places * (1 - the share that leaves a place out). Kernels that
 * send a copy per expert instead have repeat 1; `pass`: a rank also passes over its own tokens.
 * `far` counts where a group leaves its node or rack. A blend below 1 is slower than the sum of its
 * terms: what starts, waits for the network and copies does not overlap near the crossover. Without
 * a stated number of SMs the links alone limit. */
#include "cost/kernel/laws.h"

#include <math.h>

enum { START, FAR, SM, LINK, NIC, REPEAT, PASS, JOIN, BLEND, NUMBERS };

static const lk_fit_number numbers[NUMBERS] = {
	[START] = {"start_us", 25, 1, 500, true}, [FAR] = {"far_us", 15, .1, 500, true},
	[SM] = {"sm_GBps", 14, 1, 200, true},     [LINK] = {"link", .8, .01, 1.5, true},
	[NIC] = {"nic", .9, .05, 1.5, true},      [REPEAT] = {"repeat", .1, 0, 1, false},
	[PASS] = {"pass", .8, 0, 4, false},       [JOIN] = {"join", 4, .5, 20, true},
	[BLEND] = {"blend", .9, .4, 8, true},
};

/* Places that hold one of `topk` of the experts, which are spread evenly over them. */
static double places_reached(double places, double experts, double topk) {
	double without = 1;
	for (double i = 0; i < topk; i++)
		without *= fmax(0, experts - experts / places - i) / fmax(experts - i, 1);
	return places * (1 - without);
}

static double dispatch_seconds(const double *x, const lk_law_call *call) {
	const lk_device *device = call->device;
	const double *size = call->size;
	double topk = size[LK_DISPATCH_TOPK], experts = size[LK_DISPATCH_EXPERTS],
		   ranks = size[LK_DISPATCH_RANKS], sms = size[LK_DISPATCH_SMS];
	double own = fmin(ranks, device->node_gpus), nodes = ceil(ranks / own);
	double rows = size[LK_DISPATCH_TOKENS] * size[LK_DISPATCH_HIDDEN] * call->format->activation;
	double reached = places_reached(ranks, experts, topk),
		   copies = reached + x[REPEAT] * (topk - reached);
	double inside = rows * (copies * (1 - 1 / own) + x[PASS]),
		   outside = rows * places_reached(nodes, experts, topk) * (1 - 1 / nodes);
	double link = x[LINK] * device->link_rate, wires = link;
	if (sms > 0) wires = pow(pow(sms * x[SM] * 1e9, -x[JOIN]) + pow(link, -x[JOIN]), -1 / x[JOIN]);
	double start = (x[START] + (nodes > 1 ? x[FAR] : 0)) * 1e-6;
	double far = outside > 0 ? outside / (x[NIC] * device->nic_rate) : 0;
	return pow(pow(start, x[BLEND]) + pow(inside / wires, x[BLEND]) + pow(far, x[BLEND]),
	           1 / x[BLEND]);
}

const lk_law lk_law_dispatch = {
	.family = "dispatch", .numbers = numbers, .count = NUMBERS, .seconds = dispatch_seconds};
