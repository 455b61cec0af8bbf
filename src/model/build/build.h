/* build.h: from a job to its step graph. build.c lays out programs and pipeline; each other
 * build_*.c file gives the blocks of one part of a network. */
#ifndef LK_MODEL_BUILD_H
#define LK_MODEL_BUILD_H

#include "graph/conversion.h"
#include "graph/graph.h"
#include "graph/scan.h"
#include "model/layout/sizes.h"

/* Build the step graph of a completed job. */
lk_status lk_build_graph(const lk_job *job, lk_graph **out, lk_error *err);
/* Likewise with only `few` of its micro-batches, fewer by an even number of each direction: those
 * in the middle are left out of the programs; everything else describes the whole job. For periodic
 * schedules only. */
lk_status lk_build_few(const lk_job *job, int few, lk_graph **out, lk_error *err);

struct lk_builder;
/* Begin a builder whose graph has the job's ranks and no programs, for callers that want single
 * blocks. `job` and `err` are borrowed. */
void lk_build_begin(struct lk_builder *builder, const lk_job *job, lk_graph *graph, lk_error *err);

/* ---- inside build_*.c ---- */

/* What decides a layer's operations; equal layers share their blocks. */
typedef struct lk_layer_shape {
	lk_layer layer;
	bool cross;  /* decoder layer of an encoder-decoder: has cross-attention */
	bool across; /* every query attends to all of an encoder's output: the cross-attention of such a
	                layer, or a layer that reads an image */
	bool wide;   /* in bf16 while other layers are in 8 or 4 bits */
	int unit;    /* of a convolution net: kind of the block, from 1 on; else 0 */
	double queries, keys; /* sequence lengths on this rank and in total */
} lk_layer_shape;

/* Which passes of a layer or end a block contains. */
typedef enum lk_block_pass {
	LK_BLOCK_FORWARD,
	LK_BLOCK_FORWARD_CHECKPOINT,  /* only the input is kept */
	LK_BLOCK_FORWARD_ALONE,       /* nothing is kept: no backward pass follows */
	LK_BLOCK_BACKWARD,            /* input and weight gradients */
	LK_BLOCK_BACKWARD_CHECKPOINT, /* forward again, then both */
	LK_BLOCK_INPUT_GRADIENT,
	LK_BLOCK_INPUT_GRADIENT_CHECKPOINT,
	LK_BLOCK_WEIGHT_GRADIENT,
	LK_BLOCK_PASSES,
} lk_block_pass;

enum {
	LK_LAYER_SHAPES = 64, /* a convolution net has LK_CONV_KINDS */
	LK_LAYER_PAIRS = 128
};

typedef struct lk_builder {
	const lk_job *job;
	int microbatches; /* in its programs: all of the job's, or few */
	const lk_model *model;
	lk_graph *graph;
	lk_error *err;

	double batch;         /* sequences of a micro-batch */
	double tokens;        /* of a micro-batch on this rank: batch * seq / cp; of the stack under
	                         construction */
	double memory_tokens; /* tokens of an encoder, which cross-attention reads */
	double rows;  /* tokens on this rank under sequence parallelism: tokens / tp, else tokens */
	double bytes; /* of one activation: 2, or 4 in fp32 */
	double wide;  /* bytes of an element of the residual stream: `bytes`, or 4 with autocast */
	bool eager;   /* element-wise operations one by one: build_eager.c */
	bool late_gradients; /* each gradient exists from its backward pass to the end of the step */
	double tp;
	bool sp;         /* sequence parallelism */
	bool train_base; /* false: LoRA, the base weights are frozen */
	bool replays; /* selective recomputation by operation: norms, activations, every second product
	                 run again */

	uint8_t phase;    /* of the operations being added */
	uint32_t pending; /* streams that the next compute operation joins */
	uint32_t
		needs; /* 1 + place of one operation that the next compute operation depends on; 0 none */
	double saved;       /* activations kept by the forward under construction */
	double layer_reads; /* of it, what lk_build_holds_inputs says; the sum over layers */
	double all_reads;

	double ffn; /* width of the dense feed-forward of the layer under construction */
	int shape_count;
	uint32_t embed_block[LK_BLOCK_PASSES], head_block[LK_BLOCK_PASSES];
	struct {
		uint32_t first, second, block;
	} pairs[LK_LAYER_PAIRS];
	int pair_count;
	uint32_t wait_block[2][2]; /* id + 1, by [joins the send streams][waits for an event] */

	struct lk_builder *teacher;   /* of a distillation; NULL: none */
	struct lk_builder *reference; /* the network before training, of preference optimisation */
	struct lk_builder *tower;     /* the image encoder; NULL: none */
	bool frozen;   /* this encoder is frozen: gradients go back only to its projector */
	bool discards; /* not even to its projector: nothing is kept */

	/* Large and not cleared before use: searches begin thousands of builders. */
	lk_layer_shape shapes[LK_LAYER_SHAPES];
	uint32_t layer_block[LK_LAYER_SHAPES][LK_BLOCK_PASSES]; /* id + 1, 0: not built yet */
	double layer_read[LK_LAYER_SHAPES];                     /* layer_reads of a forward pass */
	double layer_kept[LK_LAYER_SHAPES][LK_BLOCK_PASSES]; /* of forward passes: bytes kept until the
	                                                        backward pass */
} lk_builder;

/* The links between a pass and the next stage. */
enum {
	LK_WIRE_FORWARD_IN,
	LK_WIRE_FORWARD_OUT,
	LK_WIRE_BACKWARD_IN,
	LK_WIRE_BACKWARD_OUT,
	LK_WIRES_PER_CHUNK
};
enum { LK_BUILD_CHUNKS = 64 }; /* most model chunks of a stage */
/* The channel of a stage that a chunk's wire uses. */
static inline uint32_t lk_build_channel(int chunk, int wire) {
	return (uint32_t)(chunk * LK_WIRES_PER_CHUNK + wire);
}
/* build_stage.c: the program of a stage. `wire_blocks`, one per channel and shared by all stages:
 * id + 1 of the blocks that send or receive; 0: not built yet. */
lk_status lk_build_stage(lk_builder *builder, int stage, uint32_t *wire_blocks);

/* Bytes of the hidden states as sequence parallelism splits them; of an input kept for a weight
 * gradient, in the product's format. */
double lk_build_row_bytes(const lk_builder *builder);
double lk_build_kept_bytes(const lk_builder *builder, double elements);

/* build_eager.c: element-wise work, as one kernel or, if nothing fuses it, as in the network's
 * code. A norm over `elements`, whose output `readers` products read: what it keeps for its own
 * gradient, and what of its output is kept for theirs. */
double lk_build_norm_held(const lk_builder *builder, double elements);
double lk_build_norm_made(const lk_builder *builder, double elements, int readers);
void lk_build_norm(lk_builder *builder, const char *name, double elements, int readers);
void lk_build_norm_grad(lk_builder *builder, const char *name, double elements, int readers);
/* The norm of query and key heads. */
double lk_build_heads_norm_held(const lk_builder *builder, double elements);
void lk_build_heads_norm(lk_builder *builder, double elements, bool backward);
void lk_build_rotary(lk_builder *builder, const char *name, double elements, bool backward);
/* Between the products of an MLP: what is kept of `inner` elements in addition to input and result;
 * what runs there in code that nothing fuses. */
double lk_build_activation_kept(const lk_builder *builder, double inner);
void lk_build_activation(lk_builder *builder, const char *name, double inner, bool backward);
/* A branch's dropout and its addition to the residual stream. */
void lk_build_residual(lk_builder *builder, const char *name, bool backward);
/* Bytes of the residual stream. */
double lk_build_stream_bytes(const lk_builder *builder);
void lk_build_cast_weights(lk_builder *builder, int layer, bool backward);
/* Whether gradients are allocated one by one: a single replica, whose optimizer drops them after
 * each step (zero_grad(set_to_none)), with one micro-batch. `part`: the gradients that the block of
 * a layer (-1: an end) makes. An optimizer that steps in the backward pass frees each tensor's
 * gradient before the next is made. */
bool lk_build_late_gradients(const lk_job *job);
void lk_build_gradients(lk_builder *builder, int layer, lk_rank_params part);
/* What the update of so many parameters at once needs besides their states, in bytes. */
double lk_build_update_scratch(const lk_job *job, double parameters);

/* Adders. Compute operations join the streams in `pending`; communication joins the compute stream
 * and, unless `async`, makes the next compute operation wait for it. Each returns the operation's
 * place in its block. */
uint32_t lk_build_gemm(lk_builder *builder, const char *name, double m, double n, double k);
uint32_t lk_build_gemm_batch(lk_builder *builder, const char *name, double m, double n, double k,
                             double batch);
/* How a job casts what has `stored` bytes an element in memory. */
lk_conversion lk_build_conversion(const lk_job *job, double stored);
void lk_build_quantize(lk_builder *builder, double elements);
void lk_build_quantize_normed(lk_builder *builder);
void lk_build_transpose_narrow(lk_builder *builder, double elements);
uint32_t lk_build_memory(lk_builder *builder, unsigned kind, const char *name, double bytes);
/* The same that moves so many numbers of each token. */
static inline uint32_t lk_build_token_memory(lk_builder *builder, unsigned kind, const char *name,
                                             double columns) {
	return lk_build_memory(builder, kind, name, builder->bytes * builder->tokens * columns);
}
/* Columns of the hidden state that a tensor rank has. */
static inline double lk_build_hidden_share(const lk_builder *builder) {
	return builder->model->hidden / builder->tp;
}
uint32_t lk_build_norm_weight_grad(
	lk_builder *builder, double bytes); /* a norm's own parameters: sums over rows, per column */
uint32_t lk_build_collective(lk_builder *builder, unsigned kind, unsigned stream, unsigned group,
                             const char *name, double bytes, bool async);
void lk_build_wait(lk_builder *builder, unsigned stream);
/* The last operation added keeps `bytes` until the backward pass; or releases them. */
void lk_build_save(lk_builder *builder, double bytes, unsigned owner);
void lk_build_release(lk_builder *builder, double bytes, unsigned owner);
/* Whether a module runs again in the backward pass of this layer; then discard what the forward
 * saved since `before`, except `kept`; operations added until the end are the recomputation. */
bool lk_build_runs_again(const lk_builder *builder, lk_module module);
void lk_build_forget(lk_builder *builder, double before, double kept);
void lk_build_begin_again(lk_builder *builder);
void lk_build_end_again(lk_builder *builder);
/* The mask that dropout after attention or an MLP keeps: one byte per element; compiled code
 * recomputes it. */
double lk_build_mask_bytes(const lk_builder *builder);
/* The last operation added needs `bytes` while it runs. */
void lk_build_scratch(lk_builder *builder, double bytes, unsigned owner);

/* Tensor-parallel communication around linear layers; empty without tensor parallelism. */
void lk_build_tp_enter(
	lk_builder *builder,
	const char *name); /* forward, before a column-parallel layer: all-gather (SP) */
void lk_build_tp_leave(
	lk_builder *builder,
	const char *name); /* forward, after a row-parallel layer: reduce-scatter / all-reduce */
void lk_build_tp_leave_backward(lk_builder *builder,
                                const char *name); /* backward of leave: all-gather (SP) */
/* Backward of a column-parallel layer: input gradient, weight gradient, with their communication
 * overlapped. */
void lk_build_column_backward(lk_builder *builder, const char *name, double n, double k, bool input,
                              bool weight);
void lk_build_bias_grad(lk_builder *builder, const char *name, double rows,
                        double columns); /* the sum of the output's gradient over rows */
void lk_build_row_backward(lk_builder *builder, const char *name, double n, double k, bool input,
                           bool weight);

/* Set the tokens of the stack: the decoder of an encoder-decoder may have its own length. */
void lk_build_stack(lk_builder *builder, bool decoder);
/* Blocks, built on first use. */
lk_status lk_build_layer(lk_builder *builder, int layer, lk_block_pass pass, uint32_t *block);
lk_status lk_build_embedding(lk_builder *builder, lk_block_pass pass, uint32_t *block);
lk_status lk_build_head(lk_builder *builder, lk_block_pass pass, uint32_t *block);
/* build_offload.c: what layers keep, offloaded to host memory. It leaves after the forward pass; it
 * must be back before a backward pass, while that of the next layer is fetched. */
void lk_build_keep_on_host(lk_builder *builder, double bytes);
void lk_build_fetch_kept(lk_builder *builder, double bytes);
/* Most bytes in transit. */
double lk_build_kept_moving(const lk_builder *builder);
/* build_loss.c: the head's product and the loss, after which the last norm and the product keep
 * `saved`; without `learns`, skip what only gradients need. `drop` releases what a pass without
 * gradients kept; `unread` computes the logits and drops them. */
void lk_build_loss_forward(lk_builder *builder, double saved, bool learns);
void lk_build_loss_backward(lk_builder *builder);
void lk_build_loss_drop(lk_builder *builder);
void lk_build_loss_unread(lk_builder *builder);
/* build_projector.c: from the encoder's tokens, after its last norm, to the language model's. */
void lk_build_projector(lk_builder *builder, bool forward);
/* Two blocks run interleaved as one: DualPipe's overlapped forward and backward (build_pair.c). */
lk_status lk_build_pair(lk_builder *builder, uint32_t first, uint32_t second, uint32_t *block);

/* Parts of a layer. */
void lk_build_mixers_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_mixers_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                              bool weight);
void lk_build_mlp_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_mlp_backward(lk_builder *builder, bool input, bool weight);
void lk_build_moe_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_moe_backward(lk_builder *builder, bool input, bool weight);

/* build_adapter.c: low-rank adapters alongside frozen projections that read one tensor, k wide;
 * nothing without adapters. `at_hand`: what they read is kept by others. */
typedef struct lk_adapter {
	double rows, k;
	lk_reader readers[3]; /* of part 0: none */
	bool at_hand;
	bool experts; /* of routed experts */
	bool shared;  /* another adapter reads the same tensor */
} lk_adapter;
/* Whether what products of the frozen base read is held until the next loss. */
bool lk_build_holds_inputs(const lk_builder *builder);
void lk_build_adapter(lk_builder *builder, lk_adapter of, bool backward);

/* The operations of a mixer between the layer's normed input and its output before the residual
 * sum: one file, one row of the table in build_mixer.c. */
typedef struct lk_mixer_build {
	lk_mixer mixer;
	const char *name; /* in block names, with a trailing blank */
	void (*forward)(lk_builder *builder, const lk_layer_shape *shape);
	void (*backward)(lk_builder *builder, const lk_layer_shape *shape, bool input, bool weight);
	/* Bytes that a split backward keeps between its two passes. */
	double (*between)(const lk_builder *builder);
} lk_mixer_build;
extern const lk_mixer_build lk_mixer_builds[];
enum { LK_MIXER_BUILDS = 6 };
void lk_build_attention_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_attention_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                                 bool weight);
double lk_build_attention_between(const lk_builder *builder);
/* build_indexer.c: attention to keys chosen by an indexer. */
double lk_build_index_saved(const lk_builder *builder);
void lk_build_index_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_index_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                             bool weight);
/* Pairs of a query and a chosen key, per sequence. */
double lk_build_sparse_pairs(const lk_model *model, const lk_layer_shape *shape);
/* build_streams.c: for networks with several streams: around a layer, before the first and after
 * the last; empty for others. */
void lk_build_streams_enter(lk_builder *builder);
void lk_build_streams_leave(lk_builder *builder);
void lk_build_streams_leave_backward(lk_builder *builder, bool input, bool weight);
void lk_build_streams_enter_backward(lk_builder *builder, bool input, bool weight);
void lk_build_streams_embed(lk_builder *builder, bool forward);
void lk_build_streams_join(lk_builder *builder, bool forward);
double lk_build_streams_kept(const lk_builder *builder, bool head);
/* build_use.c: operations of each use of a shared set of weights, after the block. */
void lk_build_use_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_use_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                           bool weight);
void lk_build_ssm_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_ssm_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                           bool weight);
double lk_build_ssm_between(const lk_builder *builder);
void lk_build_delta_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_delta_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                             bool weight);
double lk_build_delta_between(const lk_builder *builder);
void lk_build_lightning_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_lightning_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                                 bool weight);
double lk_build_lightning_between(const lk_builder *builder);
void lk_build_rwkv_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_rwkv_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                            bool weight);
double lk_build_rwkv_between(const lk_builder *builder);
void lk_build_short_conv_forward(lk_builder *builder, const lk_layer_shape *shape);
void lk_build_short_conv_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                                  bool weight);
double lk_build_short_conv_between(const lk_builder *builder);
/* Around an MLP that is RWKV's channel mix: before its products, and their gate. */
void lk_build_channel_mix(lk_builder *builder);
void lk_build_channel_gate(lk_builder *builder, bool forward);
void lk_build_channel_mix_backward(lk_builder *builder, bool input, bool weight);

/* Number format of a mixer's core, such as attention: 16 bits if the layer's products have
 * fewer. */
lk_dtype lk_build_core_format(const lk_builder *builder);
/* A product inside a mixer's core. */
void lk_build_core_gemm(lk_builder *builder, const char *name, double m, double n, double k,
                        double batch);
/* A scan of a layer with a state, whose work is that of `layer`, forward. */
void lk_build_scan(lk_builder *builder, const char *name, lk_scan kind, const lk_state_layer *layer,
                   bool backward);
/* The causal convolution over a few tokens, with its activation, of sequences of `length`. */
void lk_build_convolution(lk_builder *builder, const char *name, double channels, double length,
                          bool backward);
/* Context parallelism: columns of all tokens of this rank become all tokens of some heads, or
 * back. */
void lk_build_cp_heads(lk_builder *builder, const char *name, double columns);

/* build_audio.c: convolutions before an audio encoder. */
void lk_build_audio(lk_builder *builder, bool forward);

/* build_diffusion.c: a block, the stem and the head of a diffusion transformer. */
void lk_build_dit_block(lk_builder *builder, lk_dit_block block, bool forward);
void lk_build_dit_stem(lk_builder *builder, bool forward);
void lk_build_dit_head(lk_builder *builder, bool forward);

/* build_window.c: a block of attention within windows. */
void lk_build_window_forward(lk_builder *builder, const lk_conv_unit *unit);
void lk_build_window_backward(lk_builder *builder, const lk_conv_unit *unit);
/* build_conv.c: a block, the stem and the classifier of a convolution net. */
void lk_build_conv_layer(lk_builder *builder, int layer, lk_block_pass pass);
void lk_build_conv_stem(lk_builder *builder, bool forward);
void lk_build_conv_head(lk_builder *builder, bool forward);

/* The streams on which a stage sends. */
uint32_t lk_build_send_streams(void);
/* Add an operation without work that waits for the streams that no operation has joined yet: they
 * would be lost at the end of the block. */
void lk_build_settle(lk_builder *builder);
/* A compute operation without work that waits for streams and, with `event`, for the event in the
 * call's first argument. */
lk_status lk_build_wait_block(lk_builder *builder, uint32_t join, bool event, uint32_t *block);

/* build_resident.c: bytes that a stage holds from the first operation to the last, by owner. */
void lk_build_resident(const lk_builder *builder, int stage, double *bytes);
/* Their sum. */
double lk_build_resident_sum(const lk_builder *builder, int stage);

/* ---- build_dp.c: data-parallel traffic and the tail of the step ---- */

/* Traffic of the parameters of some layers: gradients reduced (kind ALLREDUCE or REDUCESCATTER,
 * after the compute issued so far) or parameters gathered (ALLGATHER, `signal` 1 on arrival). Dense
 * and expert parameters use their own groups. */
bool lk_build_shards_layers(const lk_job *job); /* ZeRO-2 and 3 with several ranks */
bool lk_build_shards_states(const lk_job *job); /* ZeRO-1 likewise */
lk_status lk_build_traffic_block(lk_builder *builder, const char *name, unsigned kind,
                                 double dense_bytes, double expert_bytes, uint32_t *block);
/* Add the same operations to the block under construction; `async` as in lk_build_collective,
 * `free_running` without a join. */
void lk_build_traffic(lk_builder *builder, const char *name, unsigned kind, double dense_bytes,
                      double expert_bytes, bool free_running, bool signal);
/* The end of a step on a stage: remaining reductions, gradient norm, optimizer, parameters gathered
 * again. One block; for an optimizer on matrices, a first and a last block, and between them one
 * block per shape with its number of matrices. */
typedef struct lk_tail_part {
	uint32_t block, repeat;
} lk_tail_part;
enum { LK_TAIL_PARTS = LK_RANK_MATRICES + 2 };
lk_status lk_build_tail(lk_builder *builder, int stage, lk_tail_part out[LK_TAIL_PARTS],
                        int *count);

/* Whether the device copies its parameters for an average on the host; the block that copies. */
bool lk_build_copies_average(const lk_job *job);
lk_status lk_build_average_block(lk_builder *builder, int stage, uint32_t *block);

/* build_optimizer.c: blocks of matrices, one per shape. */
lk_status lk_build_matrix_blocks(lk_builder *builder, int stage, lk_tail_part *out, int *count);

#endif
