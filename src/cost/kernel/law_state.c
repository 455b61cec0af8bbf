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

/* Bytes of an element of activations, and of the state. */
enum { WIDE = 4, NARROW = 2, CHUNK = 64 };

static void convolution(const lk_state_layer *layer, double channels, lk_law_call *out) {
	out->size[LK_STATE_CHUNK] = layer->chunk;
	out->size[LK_STATE_CHAINS] = 0;
	out->size[LK_STATE_TOKEN_BYTES] = 2 * NARROW * channels;
	out->size[LK_STATE_SEQUENCE_BYTES] = 2 * NARROW * channels * fmax(layer->window - 1, 0);
	out->size[LK_STATE_TOKEN_FLOPS] = 0;
}

/* x, B, C and y once; states of chunks written and read once by the pass that joins them. */
static void mamba_scan(const lk_state_layer *layer, lk_law_call *out) {
	double heads = layer->heads, groups = layer->key_heads, d = layer->value_dim,
		   n = layer->key_dim, chunk = layer->chunk;
	out->size[LK_STATE_CHUNK] = chunk;
	out->size[LK_STATE_CHAINS] = heads;
	out->size[LK_STATE_TOKEN_BYTES] =
		NARROW * (2 * heads * d + 2 * groups * n) + WIDE * heads + 2 * WIDE * heads * d * n / chunk;
	out->size[LK_STATE_SEQUENCE_BYTES] = WIDE * heads * d * n;
	out->size[LK_STATE_TOKEN_FLOPS] = 2 * chunk * (groups * n + heads * d) + 4 * heads * d * n;
}

/* q, k, v and o once; the chunk's transformed keys and values (w, u) and its states written and
 * read. Products: keys with keys, the inverse applied to k and v, queries with keys, the chunk's
 * output, and three products with the state. */
static void delta_scan(const lk_state_layer *layer, lk_law_call *out) {
	double heads = layer->heads, keys = layer->key_dim, values = layer->value_dim;
	out->size[LK_STATE_CHUNK] = CHUNK;
	out->size[LK_STATE_KEY_CHANNELS] = layer->key_heads * keys;
	out->size[LK_STATE_CHAINS] = heads;
	out->size[LK_STATE_TOKEN_BYTES] =
		NARROW * (2 * layer->key_heads * keys + 2 * heads * values + 2 * heads * (keys + values)) +
		2 * NARROW * heads * keys * values / CHUNK;
	out->size[LK_STATE_SEQUENCE_BYTES] = 2 * WIDE * heads * keys * values;
	out->size[LK_STATE_TOKEN_FLOPS] =
		heads * (2 * CHUNK * (3 * keys + 2 * values) + 6 * keys * values);
}

/* Every token writes a state, so that a rejected draft can go back; the last state is read once. */
static void state_step(const lk_state_layer *layer, lk_law_call *out) {
	double state = WIDE * layer->heads * layer->key_dim * layer->value_dim;
	out->size[LK_STATE_CHUNK] = 1;
	out->size[LK_STATE_CHAINS] = layer->heads;
	out->size[LK_STATE_TOKEN_BYTES] = state;
	out->size[LK_STATE_SEQUENCE_BYTES] = state;
	out->size[LK_STATE_TOKEN_FLOPS] = 0;
}

/* Two sites a layer; `heads` streams of `channels`: read all of them and write one (pre), or read
 * all and one and write all (post). */
static void connections(const lk_state_layer *layer, double passes, lk_law_call *out) {
	out->size[LK_STATE_CHUNK] = 1;
	out->size[LK_STATE_CHAINS] = 0;
	out->size[LK_STATE_TOKEN_BYTES] = 2 * NARROW * passes * layer->channels;
	out->size[LK_STATE_SEQUENCE_BYTES] = 0;
	out->size[LK_STATE_TOKEN_FLOPS] = 0;
}

void lk_state_amounts(const lk_state_layer *layer, lk_law_call *out) {
	out->size[LK_STATE_BATCH] = layer->batch;
	out->size[LK_STATE_LENGTH] = layer->length;
	out->size[LK_STATE_KEY_CHANNELS] = 0;
	switch (layer->kernel) {
	case LK_STATE_CONVOLUTION: convolution(layer, layer->channels, out); break;
	case LK_STATE_MAMBA_SCAN: mamba_scan(layer, out); break;
	case LK_STATE_DELTA_SCAN: delta_scan(layer, out); break;
	case LK_STATE_STEP: state_step(layer, out); break;
	case LK_STATE_MHC_PRE: connections(layer, layer->heads + 1, out); break;
	case LK_STATE_MHC_POST: connections(layer, 2 * layer->heads + 1, out); break;
	}
}

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
