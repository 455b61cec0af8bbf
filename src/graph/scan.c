/* scan.c: what kernels of layers with a state move and compute, for the laws of isolated kernels
 * (cost/kernel/law_state.c) and for steps. */
#include "graph/scan.h"

#include <math.h>

/* Bytes of an element of activations, and of the state. */
enum { WIDE = 4, NARROW = 2, CHUNK = 64 };

static void convolution(const lk_state_layer *layer, double channels, lk_state_work *out) {
	out->chunk = layer->chunk;
	out->token_bytes = 2 * NARROW * channels;
	out->sequence_bytes = 2 * NARROW * channels * fmax(layer->window - 1, 0);
}

/* x, B, C and y once; states of chunks written and read once by the pass that joins them. */
static void mamba_scan(const lk_state_layer *layer, lk_state_work *out) {
	double heads = layer->heads, groups = layer->key_heads, d = layer->value_dim,
		   n = layer->key_dim, chunk = layer->chunk;
	out->chunk = chunk;
	out->chains = heads;
	out->token_bytes =
		NARROW * (2 * heads * d + 2 * groups * n) + WIDE * heads + 2 * WIDE * heads * d * n / chunk;
	out->sequence_bytes = WIDE * heads * d * n;
	/* C with B in each chunk; of the masked product with x a half; states, and their part of y */
	out->token_flops = chunk * (2 * groups * n + heads * d) + 4 * heads * d * n;
	out->token_flops_back = chunk * (6 * groups * n + 3 * heads * d) + 10 * heads * d * n;
}

/* q, k, v and o once; the chunk's transformed keys and values (w, u) and its states written and
 * read. Products: keys with keys and their triangular inverse, which is applied to k and v, queries
 * with keys, the chunk's output, and three products with the state. */
static void delta_scan(const lk_state_layer *layer, lk_state_work *out) {
	double heads = layer->heads, keys = layer->key_dim, values = layer->value_dim;
	out->chunk = CHUNK;
	out->key_channels = layer->key_heads * keys;
	out->chains = heads;
	out->token_bytes =
		NARROW * (2 * layer->key_heads * keys + 2 * heads * values + 2 * heads * (keys + values)) +
		2 * NARROW * heads * keys * values / CHUNK;
	out->sequence_bytes = 2 * WIDE * heads * keys * values;
	out->token_flops = heads * (CHUNK * (6 * keys + 4 * values + CHUNK / 3.) + 6 * keys * values);
	out->token_flops_back =
		heads * (CHUNK * (16 * keys + 10 * values + 4 * CHUNK) + 16 * keys * values);
}

/* Every token writes a state, so that a rejected draft can go back; the last state is read once. */
static void state_step(const lk_state_layer *layer, lk_state_work *out) {
	double state = WIDE * layer->heads * layer->key_dim * layer->value_dim;
	out->chunk = 1;
	out->chains = layer->heads;
	out->token_bytes = state;
	out->sequence_bytes = state;
}

/* Two sites a layer; `heads` streams of `channels`: read all of them and write one (pre), or read
 * all and one and write all (post). */
static void connections(const lk_state_layer *layer, double passes, lk_state_work *out) {
	out->chunk = 1;
	out->token_bytes = 2 * NARROW * passes * layer->channels;
}

lk_state_work lk_state_work_of(const lk_state_layer *layer) {
	lk_state_work work = {0}, *out = &work;
	switch (layer->kernel) {
	case LK_STATE_CONVOLUTION: convolution(layer, layer->channels, out); break;
	case LK_STATE_MAMBA_SCAN: mamba_scan(layer, out); break;
	case LK_STATE_DELTA_SCAN: delta_scan(layer, out); break;
	case LK_STATE_STEP: state_step(layer, out); break;
	case LK_STATE_MHC_PRE: connections(layer, layer->heads + 1, out); break;
	case LK_STATE_MHC_POST: connections(layer, 2 * layer->heads + 1, out); break;
	}
	return work;
}

double lk_state_backward(lk_state_kernel kernel) {
	switch (kernel) {
	/* x and dy are read and dx is written, and sums over tokens give the gradient of the taps:
	 * four passes against two */
	case LK_STATE_CONVOLUTION: return 2;
	/* states of chunks are computed again, and each product of the forward pass has two
	 * gradients */
	case LK_STATE_MAMBA_SCAN:
	case LK_STATE_DELTA_SCAN: return 3;
	case LK_STATE_STEP:
		break; /* generation alone */
	/* the streams and their gradients are read, gradients are written */
	case LK_STATE_MHC_PRE:
	case LK_STATE_MHC_POST: return 2;
	}
	return 0;
}
