/* scan.h: what a kernel of a layer with a state moves and computes. */
#ifndef LK_GRAPH_SCAN_H
#define LK_GRAPH_SCAN_H

typedef enum lk_state_kernel {
	LK_STATE_CONVOLUTION, /* causal, of `window` tokens, over `channels` */
	LK_STATE_MAMBA_SCAN,
	LK_STATE_DELTA_SCAN, /* gated delta net, KDA */
	LK_STATE_STEP,       /* token by token, in generation */
	LK_STATE_MHC_PRE,    /* hyper-connections of `heads` streams of `channels` */
	LK_STATE_MHC_POST,
} lk_state_kernel;

/* Tokens of a thread block of causal-conv1d's CUDA kernel, which has one per channel. */
enum { LK_CONVOLUTION_CHUNK = 512 };

/* One kernel of a layer with a state. Mamba-2: value_dim is the head's, key_dim the state's,
 * key_heads its groups. */
typedef struct lk_state_layer {
	lk_state_kernel kernel;
	double batch, length;
	double heads, key_heads, key_dim, value_dim;
	double channels, window;
	double chunk; /* tokens of a thread block (convolution), of Mamba-2's scan */
} lk_state_layer;

/* Work of one call, forward. */
typedef struct lk_state_work {
	double chunk;  /* tokens that are computed together */
	double chains; /* of a sequence: heads whose chunks follow one another; 0: none */
	double token_bytes, sequence_bytes;
	double token_flops, token_flops_back; /* forward; backward, with what is computed again */
	double key_channels;                  /* of keys that a scan passes over more often than once */
} lk_state_work;
lk_state_work lk_state_work_of(const lk_state_layer *layer);

/* Time of a backward pass over the time of the forward pass. An assumption: no table of isolated
 * kernels has backward passes, so it is the ratio of work. */
double lk_state_backward(lk_state_kernel kernel);

#endif
