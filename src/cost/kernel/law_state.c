/* law_state.c: kernels of layers with a state, forward: the short causal convolution, the chunked
 * scan of Mamba-2, gated delta nets and KDA, one step of them in generation, and hyper-connections.
 *
 *     time  = (memory^blend + compute^blend + chain^blend + (batch * sequence)^blend)^(1/blend)
 *             + start + rows of a chunk * row
 *     chain = chunks of a sequence * step * max(1, batch * chains / (SMs * resident))
 *
 * A sequence's last chunk costs a part of a whole one (pad). The chunks of one sequence and head
 * follow one another, so a long sequence of few heads waits for its chain whatever the device could
 * do at the same time; so do the rows of a chunk whose triangular system is solved (row). What a
 * kernel moves and computes follows from the layer (lk_state_amounts); `keys`: further passes over
 * keys and queries, to norm them and to spread them over the heads of values. */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>
#include <string.h>

enum { EFFICIENCY, MEMORY, CACHE, KEYS, PAD, ROW, STEP, RESIDENT, BLEND, SEQUENCE, START, NUMBERS };

static const lk_fit_number numbers[NUMBERS] = {
	[EFFICIENCY] = {"efficiency", .2, .005, 1, true},
	[MEMORY] = {"memory", .5, .01, 2, true},
	[CACHE] = {"cache", .2, 0, 8, false},
	[KEYS] = {"keys", 2, .01, 60, true},
	[PAD] = {"pad", .5, 0, 1, false},
	[ROW] = {"row_us", .05, .0001, 5, true},
	[STEP] = {"step_us", .5, .001, 50, true},
	[RESIDENT] = {"resident", 1, .25, 8, true},
	[BLEND] = {"blend", 2, 1, 12, true},
	[SEQUENCE] = {"sequence_us", .1, .001, 50, true},
	[START] = {"start_us", 5, .5, 1000, true},
};

void lk_state_amounts(const lk_state_layer *layer, lk_law_call *out) {
	lk_state_work work = lk_state_work_of(layer);
	out->size[LK_STATE_BATCH] = layer->batch;
	out->size[LK_STATE_LENGTH] = layer->length;
	out->size[LK_STATE_CHUNK] = work.chunk;
	out->size[LK_STATE_CHAINS] = work.chains;
	out->size[LK_STATE_TOKEN_BYTES] = work.token_bytes;
	out->size[LK_STATE_SEQUENCE_BYTES] = work.sequence_bytes;
	out->size[LK_STATE_TOKEN_FLOPS] = work.token_flops;
	out->size[LK_STATE_KEY_CHANNELS] = work.key_channels;
}

enum { NARROW = 2 }; /* bytes of an element of keys */

static double state_seconds(const double *x, const lk_law_call *call) {
	const lk_device *device = call->device;
	const double *size = call->size;
	double batch = size[LK_STATE_BATCH], chunk = size[LK_STATE_CHUNK],
		   full = size[LK_STATE_LENGTH] / chunk, chunks = ceil(full);
	double tokens = batch * (full + x[PAD] * (chunks - full)) * chunk;
	double token_bytes =
		size[LK_STATE_TOKEN_BYTES] + x[KEYS] * NARROW * size[LK_STATE_KEY_CHANNELS];
	double bytes = tokens * token_bytes + batch * size[LK_STATE_SEQUENCE_BYTES];
	double share = x[MEMORY] * (1 + x[CACHE] * exp(-bytes / device->l2_bytes));
	double memory = bytes / (share * device->memory_rate);
	double compute = tokens * size[LK_STATE_TOKEN_FLOPS] /
	                 (x[EFFICIENCY] * lk_peak_flops(device, call->format->units));
	double turns = fmax(1, batch * size[LK_STATE_CHAINS] / (device->sms * x[RESIDENT]));
	double chain = size[LK_STATE_CHAINS] > 0 ? chunks * x[STEP] * 1e-6 * turns : 0;
	double terms[] = {memory, compute, chain, batch * x[SEQUENCE] * 1e-6}, longest = 0, sum = 0;
	for (int i = 0; i < 4; i++) longest = fmax(longest, terms[i]);
	for (int i = 0; i < 4; i++) sum += pow(terms[i] / longest, x[BLEND]);
	double rows = fmin(size[LK_STATE_LENGTH], chunk);
	return longest * pow(sum, 1 / x[BLEND]) + (x[START] + x[ROW] * rows) * 1e-6;
}

/* SMs issue the loads, so a relative with faster memory keeps half of the gain. */
static void state_carry(double *x, const lk_device *from, const lk_device *to) {
	x[MEMORY] *= sqrt(from->memory_rate / to->memory_rate);
}

const lk_law lk_law_state = {.family = "state",
                             .numbers = numbers,
                             .count = NUMBERS,
                             .seconds = state_seconds,
                             .carry = state_carry,
                             .outlier = .6};
