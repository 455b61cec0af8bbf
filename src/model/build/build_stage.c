/* build_stage.c: the program of a stage: calls in the order of its schedule, with the messages of
 * the pipeline, the buckets of gradients, and the end of the step. */
#include "model/build/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/layout/schedule.h"
#include "base/check.h"
#include "base/units.h"

enum { PASSES = 4 }; /* of lk_pass */

/* The calls of a pass already built on this stage: passes of a chunk differ only in their
 * micro-batch. */
struct lk_known_pass {
	uint32_t begin, end; /* range of the program's calls; equal: none yet */
};

/* What surrounds a pass: its messages, and the wait before it. */
typedef enum lk_around { RECEIVE, WAIT, SEND, AROUND } lk_around;

/* Such a call, as built for one micro-batch. */
struct lk_known_call {
	lk_call call; /* repeat 0: no call */
	bool known;
	bool event; /* its argument is the event of a receive */
};

struct lk_stage_builder {
	lk_builder *b;
	const lk_schedule *schedule;
	lk_schedule_shape shape;
	int stage, places;
	uint32_t *wire_block; /* [channels] id + 1 of the blocks that send or receive on a channel */
	uint32_t next_event;  /* events for gathered parameters */
	int64_t run_block;    /* layers being collected into one call: block, -1 none */
	lk_call run;
	double bucket_dense, bucket_experts; /* gradients since the last bucket, bytes */
	double sent_dense, sent_experts;     /* bytes of the last bucket sent, and its block */
	uint32_t sent_block;
	bool sent_any; /* whether the chunk has sent one */
	/* for the first LK_BUILD_CHUNKS chunks */
	struct lk_known_pass (*known)[PASSES];
	struct lk_known_call (*around)[PASSES][AROUND];
};

/* ---- pipeline messages ---- */

static bool wired(const struct lk_stage_builder *builder, int chunk, int wire) {
	const lk_graph *graph = builder->b->graph;
	return graph->wires.at[(size_t)builder->stage * graph->channels + lk_build_channel(chunk, wire)]
	           .stage != UINT32_MAX;
}

static bool overlap_p2p(const struct lk_stage_builder *builder) {
	return builder->b->job->overlap_p2p == LK_ON;
}

/* Schedules in which some chunk, or direction, runs from the last stage to the first. */
static bool turns_back(const lk_job *job) {
	return lk_job_folds(job) || job->schedule == LK_SCHED_DUALPIPE;
}

static lk_status wire_block(struct lk_stage_builder *builder, int chunk, int wire,
                            uint32_t *block) {
	LK_ASSERT(wire >= 0 && wire < LK_WIRES_PER_CHUNK);
	uint32_t channel = lk_build_channel(chunk, wire), *known = &builder->wire_block[channel];
	if (*known) {
		*block = *known - 1;
		return LK_OK;
	}
	static const char *const names[] = {"receive forward", "send forward", "receive backward",
	                                    "send backward"};
	static const uint8_t streams[2][LK_WIRES_PER_CHUNK] = {
		{LK_STREAM_RECV_FORWARD, LK_STREAM_SEND_FORWARD, LK_STREAM_RECV_BACKWARD,
	     LK_STREAM_SEND_BACKWARD},
		{LK_STREAM_RECV_FORWARD_UP, LK_STREAM_SEND_FORWARD_UP, LK_STREAM_RECV_BACKWARD_UP,
	     LK_STREAM_SEND_BACKWARD_UP},
	};
	lk_builder *b = builder->b;
	/* DeepSpeed's engine sends a slice from each tensor-parallel rank. The gather after it, within
	 * the node, is left out: it takes under a hundredth of a stage's pass. */
	double parts = b->job->scatter_messages == LK_ON && !b->sp ? b->tp : 1;
	bool receive = wire == LK_WIRE_FORWARD_IN || wire == LK_WIRE_BACKWARD_IN;
	uint32_t join = !receive || !overlap_p2p(builder) ? LK_JOIN(LK_STREAM_COMPUTE) : 0;
	lk_op op = {
		.kind = receive ? LK_OP_RECV : LK_OP_SEND,
		.stream = streams[turns_back(b->job) && chunk == 1][wire],
		.phase = LK_PHASE_OTHER,
		.group = LK_GROUP_PP,
		.join = join,
		.signal = receive,
		.name = names[wire],
		.bytes = b->bytes * b->rows * b->model->hidden / parts,
		.channel = (int32_t)channel,
	};
	lk_graph_begin_block(b->graph, names[wire]);
	lk_graph_add(b->graph, &op);
	LK_TRY(lk_graph_end_block(b->graph, block, b->err));
	*known = *block + 1;
	return LK_OK;
}

/* Event for even micro-batches; odd ones use the next. */
static uint16_t receive_event(int chunk, int wire) {
	return (uint16_t)(lk_build_channel(chunk, wire) * 2);
}

static bool receives(const struct lk_stage_builder *builder, const lk_slot *slot) {
	if (slot->pass == LK_PASS_W) return false;
	return wired(builder, slot->chunk,
	             slot->pass == LK_PASS_F ? LK_WIRE_FORWARD_IN : LK_WIRE_BACKWARD_IN);
}

static lk_status call(struct lk_stage_builder *builder, const lk_call *c) {
	return lk_graph_call(builder->b->graph, (uint32_t)builder->stage, c, builder->b->err);
}

static lk_status make_receive(struct lk_stage_builder *builder, const lk_slot *slot,
                              struct lk_known_call *out) {
	int wire = slot->pass == LK_PASS_F ? LK_WIRE_FORWARD_IN : LK_WIRE_BACKWARD_IN;
	if (!receives(builder, slot)) return LK_OK;
	out->event = true;
	out->call.repeat = 1;
	out->call.arg[0] = receive_event(slot->chunk, wire);
	return wire_block(builder, slot->chunk, wire, &out->call.block);
}

static lk_status make_send(struct lk_stage_builder *builder, const lk_slot *slot,
                           struct lk_known_call *out) {
	int wire = slot->pass == LK_PASS_F ? LK_WIRE_FORWARD_OUT : LK_WIRE_BACKWARD_OUT;
	if (slot->pass == LK_PASS_W || !wired(builder, slot->chunk, wire)) return LK_OK;
	out->call.repeat = 1;
	return wire_block(builder, slot->chunk, wire, &out->call.block);
}

/* Without overlap, GPipe and 1F1B wait for their sends, like Megatron-LM's batched send-receive
 * pairs. Schedules with several chunks must not: the wrap from the last stage to the first would
 * close a circle of waiting sends. */
static bool blocking_sends(const struct lk_stage_builder *builder) {
	lk_schedule_kind kind = builder->b->job->schedule;
	return !overlap_p2p(builder) && (kind == LK_SCHED_GPIPE || kind == LK_SCHED_1F1B);
}

/* A pass begins when its input has arrived; with blocking sends, also when earlier sends have
 * completed. */
static lk_status make_wait(struct lk_stage_builder *builder, const lk_slot *slot,
                           struct lk_known_call *out) {
	uint32_t join = blocking_sends(builder) ? lk_build_send_streams() : 0;
	out->event = receives(builder, slot);
	if (builder->b->job->pp == 1 || (!out->event && !join)) return LK_OK;
	out->call.repeat = 1;
	if (out->event)
		out->call.arg[0] = receive_event(
			slot->chunk, slot->pass == LK_PASS_F ? LK_WIRE_FORWARD_IN : LK_WIRE_BACKWARD_IN);
	return lk_build_wait_block(builder->b, join, out->event, &out->call.block);
}

static lk_status make_around(struct lk_stage_builder *builder, const lk_slot *slot, lk_around which,
                             struct lk_known_call *out) {
	out->known = true;
	out->call = (lk_call){.layer = -1, .chunk = slot->chunk, .pass = LK_PHASE_OTHER};
	if (which == RECEIVE) return make_receive(builder, slot, out);
	if (which == WAIT) return make_wait(builder, slot, out);
	return make_send(builder, slot, out);
}

/* Built once per chunk and pass: calls of other micro-batches differ only in their number and in
 * which of a channel's two events they use. */
static lk_status build_put_around(struct lk_stage_builder *builder, const lk_slot *slot,
                                  lk_around which) {
	LK_ASSERT(slot->chunk < LK_BUILD_CHUNKS && slot->pass < PASSES);
	struct lk_known_call *known = &builder->around[slot->chunk][slot->pass][which];
	if (!known->known) LK_TRY(make_around(builder, slot, which, known));
	if (!known->call.repeat) return LK_OK;
	known->call.microbatch = slot->microbatch;
	if (known->event)
		known->call.arg[0] = (uint16_t)((known->call.arg[0] & ~1u) | (slot->microbatch & 1));
	return call(builder, &known->call);
}

/* ---- passes ---- */

static lk_status flush_run(struct lk_stage_builder *builder) {
	if (builder->run_block < 0) return LK_OK;
	builder->run_block = -1;
	return call(builder, &builder->run);
}

static lk_phase build_phase_of(const lk_slot *slot) {
	if (slot->pass == LK_PASS_F) return LK_PHASE_FORWARD;
	if (slot->pass == LK_PASS_W) return LK_PHASE_WEIGHT;
	return LK_PHASE_BACKWARD;
}

/* Append a call, or lengthen the run of equal calls. */
static lk_status build_add_run(struct lk_stage_builder *builder, const lk_slot *slot,
                               uint32_t block, int layer, uint16_t event) {
	LK_ASSERT(block < builder->b->graph->blocks.count);
	if (builder->run_block == (int64_t)block) {
		builder->run.repeat++;
		return LK_OK;
	}
	LK_TRY(flush_run(builder));
	builder->run_block = block;
	builder->run = (lk_call){.block = block,
	                         .repeat = 1,
	                         .microbatch = slot->microbatch,
	                         .layer = layer,
	                         .chunk = slot->chunk,
	                         .pass = (uint8_t)build_phase_of(slot),
	                         .arg = {event, 0}};
	return LK_OK;
}

static bool recomputed(const lk_job *job, int index) {
	return job->recompute == LK_RECOMPUTE_FULL &&
	       (job->recompute_layers <= 0 || index < job->recompute_layers);
}

static lk_block_pass layer_pass(const lk_job *job, const lk_slot *slot, int index) {
	bool again = recomputed(job, index);
	if (job->forward_only) return LK_BLOCK_FORWARD_ALONE;
	switch (slot->pass) {
	case LK_PASS_F: return again ? LK_BLOCK_FORWARD_CHECKPOINT : LK_BLOCK_FORWARD;
	case LK_PASS_B: return again ? LK_BLOCK_BACKWARD_CHECKPOINT : LK_BLOCK_BACKWARD;
	case LK_PASS_BI: return again ? LK_BLOCK_INPUT_GRADIENT_CHECKPOINT : LK_BLOCK_INPUT_GRADIENT;
	default: return LK_BLOCK_WEIGHT_GRADIENT;
	}
}

static uint16_t weights_event(const struct lk_stage_builder *builder) {
	return (uint16_t)(builder->b->graph->channels * 2);
}

/* PyTorch's DDP sends the first bucket early: it holds 1 MiB. */
static double bucket_limit(const struct lk_stage_builder *builder) {
	const lk_job *job = builder->b->job;
	bool first = !builder->sent_any && strcmp(job->stack, "ddp") == 0;
	return first ? fmin(LK_MIB, job->bucket_bytes) : job->bucket_bytes;
}

static lk_status build_send_bucket(struct lk_stage_builder *builder) {
	const lk_job *job = builder->b->job;
	double dense = builder->bucket_dense, experts = builder->bucket_experts;
	lk_call c = {.repeat = 1, .microbatch = -1, .layer = -1, .pass = LK_PHASE_OTHER};
	LK_TRY(flush_run(builder));
	if (dense != builder->sent_dense || experts != builder->sent_experts)
		LK_TRY(lk_build_traffic_block(builder->b, "reduce gradients",
		                              job->sharding == LK_SHARD_NONE ? LK_OP_ALLREDUCE
		                                                             : LK_OP_REDUCESCATTER,
		                              dense, experts, &builder->sent_block));
	c.block = builder->sent_block;
	builder->sent_dense = dense, builder->sent_experts = experts;
	builder->sent_any = true;
	builder->bucket_dense = builder->bucket_experts = 0;
	return call(builder, &c);
}

/* Gradients of a layer (-1: of an end) are complete: add them, tensor by tensor, to the bucket,
 * which is sent when full. */
static lk_status build_fill_bucket(struct lk_stage_builder *builder, const lk_job *job,
                                   lk_rank_params p, int layer) {
	lk_rank_tensors tensors[LK_LAYER_TENSORS];
	int kinds = lk_sizes_tensors(job, layer, p, tensors);
	double wire = lk_sizes_wire_bytes(job);
	for (int k = 0; k < kinds; k++)
		for (int i = 0; i < tensors[k].count; i++) {
			builder->bucket_dense += wire * tensors[k].dense;
			builder->bucket_experts += wire * tensors[k].experts;
			double held = builder->bucket_dense + builder->bucket_experts;
			if (held > 0 && held >= bucket_limit(builder)) LK_TRY(build_send_bucket(builder));
		}
	return LK_OK;
}

/* After a chunk's last pass: send the rest. */
static lk_status build_empty_bucket(struct lk_stage_builder *builder) {
	if (builder->bucket_dense + builder->bucket_experts > 0) LK_TRY(build_send_bucket(builder));
	builder->sent_any = false;
	return LK_OK;
}

static lk_status end_block(struct lk_stage_builder *builder, const lk_slot *slot, bool head) {
	uint32_t block;
	lk_block_pass pass = slot->pass == LK_PASS_F ? LK_BLOCK_FORWARD : LK_BLOCK_BACKWARD;
	if (builder->b->job->forward_only) pass = LK_BLOCK_FORWARD_ALONE;
	if (slot->pass == LK_PASS_W) return LK_OK; /* the ends are small: their backward is not split */
	LK_TRY(head ? lk_build_head(builder->b, pass, &block)
	            : lk_build_embedding(builder->b, pass, &block));
	if (builder->b->graph->blocks.at[block].begin == builder->b->graph->blocks.at[block].end)
		return LK_OK;
	LK_TRY(build_add_run(builder, slot, block, -1, 0));
	return flush_run(builder);
}

/* ---- the image encoder, on the stage of the embedding ---- */

static lk_status tower_add(struct lk_stage_builder *builder, const lk_slot *slot, uint32_t block) {
	LK_ASSERT(block < builder->b->graph->blocks.count);
	const lk_block *at = &builder->b->graph->blocks.at[block];
	if (at->begin == at->end) return LK_OK;
	return build_add_run(builder, slot, block, -1, weights_event(builder));
}

static lk_status tower_forward(struct lk_stage_builder *builder, const lk_slot *slot) {
	lk_builder *tower = builder->b->tower;
	bool again = tower->job->recompute == LK_RECOMPUTE_FULL;
	lk_block_pass pass = again ? LK_BLOCK_FORWARD_CHECKPOINT : LK_BLOCK_FORWARD;
	uint32_t block;
	if (tower->frozen) pass = LK_BLOCK_FORWARD_ALONE;
	LK_TRY(lk_build_embedding(tower, LK_BLOCK_FORWARD, &block));
	LK_TRY(tower_add(builder, slot, block));
	for (int i = 0; i < tower->model->layers; i++) {
		LK_TRY(lk_build_layer(tower, i, pass, &block));
		LK_TRY(tower_add(builder, slot, block));
	}
	LK_TRY(lk_build_head(tower, LK_BLOCK_FORWARD, &block));
	LK_TRY(tower_add(builder, slot, block));
	return flush_run(builder);
}

/* A split backward pass runs the encoder's whole backward in its first half; gradients are sent
 * with the second. */
static lk_status tower_backward(struct lk_stage_builder *builder, const lk_slot *slot, bool final) {
	lk_builder *tower = builder->b->tower;
	const lk_job *job = tower->job;
	bool again = job->recompute == LK_RECOMPUTE_FULL, runs = slot->pass != LK_PASS_W;
	lk_block_pass pass = again ? LK_BLOCK_BACKWARD_CHECKPOINT : LK_BLOCK_BACKWARD;
	uint32_t block;
	if (tower->discards) return LK_OK;
	if (runs) LK_TRY(lk_build_head(tower, LK_BLOCK_BACKWARD, &block));
	if (runs) LK_TRY(tower_add(builder, slot, block));
	if (final) LK_TRY(build_fill_bucket(builder, job, lk_sizes_head(job), -1));
	for (int i = tower->model->layers - 1; i >= 0 && !tower->frozen; i--) {
		if (runs) LK_TRY(lk_build_layer(tower, i, pass, &block));
		if (runs) LK_TRY(tower_add(builder, slot, block));
		if (final) LK_TRY(build_fill_bucket(builder, job, lk_sizes_layer(job, i), i));
	}
	if (tower->frozen) return flush_run(builder);
	if (runs) LK_TRY(lk_build_embedding(tower, LK_BLOCK_BACKWARD, &block));
	if (runs) LK_TRY(tower_add(builder, slot, block));
	if (final) LK_TRY(build_fill_bucket(builder, job, lk_sizes_embedding(job), -1));
	return flush_run(builder);
}

/* Stages before the first layer. */
static lk_status input_stages(struct lk_stage_builder *builder, const lk_slot *slot, bool final) {
	bool forward = slot->pass == LK_PASS_F, tower = builder->b->tower != NULL;
	if (forward && tower) LK_TRY(tower_forward(builder, slot));
	LK_TRY(end_block(builder, slot, false));
	if (!forward && final)
		LK_TRY(
			build_fill_bucket(builder, builder->b->job, lk_sizes_embedding(builder->b->job), -1));
	return !forward && tower ? tower_backward(builder, slot, final) : LK_OK;
}

/* Multi-token prediction: each module adds a layer and a pass through the head. */
static lk_status predict_more(struct lk_stage_builder *builder, const lk_slot *slot) {
	if (builder->b->job->forward_only) return LK_OK;
	for (int i = 0; i < builder->b->model->mtp_layers; i++) {
		uint32_t block;
		int layer = builder->b->model->layers - 1;
		bool forward = slot->pass == LK_PASS_F;
		if (!forward) LK_TRY(end_block(builder, slot, true));
		LK_TRY(lk_build_layer(builder->b, layer, layer_pass(builder->b->job, slot, 0), &block));
		LK_TRY(build_add_run(builder, slot, block, layer, weights_event(builder)));
		if (forward) LK_TRY(end_block(builder, slot, true));
	}
	return LK_OK;
}

/* Layers [from, to) of a chunk that begins with layer `first`. */
static lk_status build_layers(struct lk_stage_builder *builder, const lk_slot *slot, int first,
                              int from, int to, bool final) {
	LK_ASSERT(from >= 0);
	const lk_job *job = builder->b->job;
	bool forward = slot->pass == LK_PASS_F;
	for (int i = from; i < to; i++) {
		int index = forward ? i : from + to - 1 - i;
		uint32_t block;
		LK_TRY(lk_build_layer(builder->b, first + index, layer_pass(job, slot, index), &block));
		if (builder->b->graph->blocks.at[block].begin < builder->b->graph->blocks.at[block].end)
			LK_TRY(build_add_run(builder, slot, block, first + index, weights_event(builder)));
		if (final)
			LK_TRY(
				build_fill_bucket(builder, job, lk_sizes_layer(job, first + index), first + index));
	}
	return LK_OK;
}

/* Run the layers of a forward and a backward pass concurrently, the communication of one overlapped
 * with the compute of the other. Surplus layers of either pass run alone. */
static lk_status build_run_pair(struct lk_stage_builder *builder, const lk_slot *forward,
                                const lk_slot *backward) {
	const lk_job *job = builder->b->job;
	int ffirst, bfirst, fcount = lk_job_chunk_layers(job, builder->stage, forward->chunk, &ffirst);
	int bcount = lk_job_chunk_layers(job, builder->stage, backward->chunk, &bfirst),
		both = fcount < bcount ? fcount : bcount;
	int fplace = builder->schedule->place(&builder->shape, builder->stage, forward->chunk),
		bplace = builder->schedule->place(&builder->shape, builder->stage, backward->chunk);
	if (fplace == 0) LK_TRY(input_stages(builder, forward, false));
	if (bplace == builder->places - 1) {
		LK_TRY(end_block(builder, backward, true));
		LK_TRY(predict_more(builder, backward));
	}
	for (int i = 0; i < both; i++) {
		uint32_t f, b, block;
		int blayer = bfirst + bcount - 1 - i;
		LK_TRY(lk_build_layer(builder->b, ffirst + i, layer_pass(job, forward, i), &f));
		LK_TRY(lk_build_layer(builder->b, blayer, layer_pass(job, backward, bcount - 1 - i), &b));
		LK_TRY(lk_build_pair(builder->b, f, b, &block));
		LK_TRY(build_add_run(builder, forward, block, ffirst + i, weights_event(builder)));
	}
	LK_TRY(build_layers(builder, forward, ffirst, both, fcount, false));
	LK_TRY(build_layers(builder, backward, bfirst, 0, bcount - both, false));
	if (fplace == builder->places - 1) {
		LK_TRY(predict_more(builder, forward));
		LK_TRY(end_block(builder, forward, true));
	}
	if (bplace == 0) LK_TRY(input_stages(builder, backward, false));
	return flush_run(builder);
}

/* Repeat a pass for another micro-batch. */
static lk_status repeat_pass(struct lk_stage_builder *builder, const lk_slot *slot,
                             const struct lk_known_pass *known) {
	LK_ASSERT(known->end <= builder->b->graph->programs.at[builder->stage].calls.count);
	for (uint32_t i = known->begin; i < known->end; i++) {
		lk_call again = builder->b->graph->programs.at[builder->stage].calls.at[i];
		again.microbatch = slot->microbatch;
		LK_TRY(call(builder, &again));
	}
	return LK_OK;
}

/* A forward pass over the micro-batch that keeps nothing, before the trained one: of a reference
 * network, a teacher, or the trained network itself. */
static lk_status reference_pass(struct lk_stage_builder *builder, lk_builder *reference,
                                const lk_slot *slot) {
	const lk_block_pass alone = LK_BLOCK_FORWARD_ALONE;
	uint32_t block;
	LK_TRY(lk_build_embedding(reference, alone, &block));
	LK_TRY(build_add_run(builder, slot, block, -1, 0));
	LK_TRY(flush_run(builder));
	for (int i = 0; i < reference->model->layers; i++) {
		LK_TRY(lk_build_layer(reference, i, alone, &block));
		LK_TRY(build_add_run(builder, slot, block, i, weights_event(builder)));
	}
	LK_TRY(flush_run(builder));
	LK_TRY(lk_build_head(reference, alone, &block));
	LK_TRY(build_add_run(builder, slot, block, -1, 0));
	return flush_run(builder);
}

/* Build one slot of the schedule. `final`: the last pass that adds to this chunk's gradients. */
static lk_status build_pass(struct lk_stage_builder *builder, const lk_slot *slot, bool final) {
	const lk_job *job = builder->b->job;
	int first, count = lk_job_chunk_layers(job, builder->stage, slot->chunk, &first);
	int place = builder->schedule->place(&builder->shape, builder->stage, slot->chunk);
	bool embedding = place == 0, head = place == builder->places - 1,
		 forward = slot->pass == LK_PASS_F;
	const lk_objective_kind *objective = lk_objective_of(job->objective);
	for (int i = 0; forward && i < objective->reference; i++)
		LK_TRY(reference_pass(builder, builder->b->reference, slot));
	for (int i = 0; forward && i < objective->unkept; i++)
		LK_TRY(reference_pass(builder, builder->b, slot));
	if (forward && builder->b->teacher) LK_TRY(reference_pass(builder, builder->b->teacher, slot));
	if (forward && embedding) LK_TRY(input_stages(builder, slot, false));
	if (!forward && head) {
		LK_TRY(end_block(builder, slot, true));
		LK_TRY(predict_more(builder, slot));
		if (final) LK_TRY(build_fill_bucket(builder, job, lk_sizes_head(job), -1));
	}
	LK_TRY(build_layers(builder, slot, first, 0, count, final));
	if (forward && head) {
		LK_TRY(predict_more(builder, slot));
		LK_TRY(end_block(builder, slot, true));
	}
	if (!forward && embedding) LK_TRY(input_stages(builder, slot, final));
	LK_TRY(flush_run(builder));
	return final ? build_empty_bucket(builder) : LK_OK;
}

static lk_status run_pass(struct lk_stage_builder *builder, const lk_slot *slot, bool final) {
	if (final || slot->chunk >= LK_BUILD_CHUNKS || slot->pass >= PASSES)
		return build_pass(builder, slot, final);
	struct lk_known_pass *known = &builder->known[slot->chunk][slot->pass];
	if (known->end > known->begin) return repeat_pass(builder, slot, known);
	known->begin = (uint32_t)builder->b->graph->programs.at[builder->stage].calls.count;
	LK_TRY(build_pass(builder, slot, final));
	known->end = (uint32_t)builder->b->graph->programs.at[builder->stage].calls.count;
	return LK_OK;
}

/* ---- stages ---- */

/* Whether the slot completes a chunk's gradients: its last backward, or its last weight
 * gradient. */
static bool is_final(const lk_slots *slots, size_t at) {
	const lk_slot *slot = &slots->at[at];
	if (slot->pass == LK_PASS_F) return false;
	for (size_t i = at + 1; i < slots->count; i++)
		if (slots->at[i].chunk == slot->chunk && slots->at[i].pass != LK_PASS_F) return false;
	return true;
}

static bool buckets_overlap(const lk_job *job) {
	return job->overlap_grad_reduce != LK_OFF && job->sharding < LK_SHARD_ZERO2 &&
	       (lk_sizes_dp_ranks(job) > 1 || lk_sizes_edp_ranks(job) > 1);
}

/* Gather the parameters that the previous step's optimizer left sharded, overlapped with the first
 * forward passes. */
static lk_status gather_parameters(struct lk_stage_builder *builder) {
	const lk_job *job = builder->b->job;
	double dense, experts;
	lk_call c = {.repeat = 1,
	             .microbatch = -1,
	             .layer = -1,
	             .pass = LK_PHASE_OTHER,
	             .arg = {weights_event(builder), 0}};
	if (lk_build_shards_layers(
			job)) { /* the first layer's weights; every layer requests the next one's */
		int first;
		if (lk_job_wraps_adapters(job)) return LK_OK;
		lk_job_chunk_layers(job, builder->stage, 0, &first);
		lk_sizes_layer_bytes(job, first, builder->b->bytes, &dense, &experts);
		LK_TRY(lk_build_traffic_block(builder->b, "gather first weights", LK_OP_ALLGATHER, dense,
		                              experts, &c.block));
		return call(builder, &c);
	}
	if (!lk_build_shards_states(job) || job->overlap_param_gather != LK_ON || job->forward_only)
		return LK_OK;
	lk_sizes_gathered(job, builder->stage, builder->b->bytes, &dense, &experts);
	LK_TRY(lk_build_traffic_block(builder->b, "gather parameters", LK_OP_ALLGATHER, dense, experts,
	                              &c.block));
	return call(builder, &c);
}

/* Copy the parameters of the previous step to the host, overlapped with this step. */
static lk_status copy_average(struct lk_stage_builder *builder) {
	lk_call c = {.repeat = 1, .microbatch = -1, .layer = -1, .pass = LK_PHASE_OTHER};
	if (!lk_build_copies_average(builder->b->job)) return LK_OK;
	LK_TRY(lk_build_average_block(builder->b, builder->stage, &c.block));
	return call(builder, &c);
}

static lk_status walk_slots(struct lk_stage_builder *builder, const lk_slots *slots) {
	bool overlap = overlap_p2p(builder);
	size_t finals[LK_BUILD_CHUNKS];
	size_t final_count = 0;
	for (size_t i = slots->count; i-- > 0 && final_count < sizeof finals / sizeof *finals;)
		if (is_final(slots, i)) finals[final_count++] = i;
		else if (final_count >= (size_t)builder->shape.chunks) break;
	if (overlap && slots->count) LK_TRY(build_put_around(builder, &slots->at[0], RECEIVE));
	for (size_t i = 0; i < slots->count; i++) {
		const lk_slot *slot = &slots->at[i];
		while (final_count > 0 && finals[final_count - 1] < i) final_count--;
		bool final = final_count > 0 && finals[final_count - 1] == i;
		if (!overlap) LK_TRY(build_put_around(builder, slot, RECEIVE));
		else if (i + 1 < slots->count)
			LK_TRY(build_put_around(builder, &slots->at[i + 1], RECEIVE));
		LK_TRY(build_put_around(builder, slot, WAIT));
		if (slot->pair && i + 1 < slots->count) { /* both inputs first, then both at once */
			const lk_slot *other = &slots->at[++i];
			if (!overlap) LK_TRY(build_put_around(builder, other, RECEIVE));
			else if (i + 1 < slots->count)
				LK_TRY(build_put_around(builder, &slots->at[i + 1], RECEIVE));
			LK_TRY(build_put_around(builder, other, WAIT));
			LK_TRY(build_run_pair(builder, slot, other));
			LK_TRY(build_put_around(builder, slot, SEND));
			LK_TRY(build_put_around(builder, other, SEND));
			continue;
		}
		LK_TRY(run_pass(builder, slot, final && buckets_overlap(builder->b->job)));
		LK_TRY(build_put_around(builder, slot, SEND));
	}
	return LK_OK;
}

/* Skip micro-batches in the middle of a schedule: later ones keep their numbers, of each
 * direction. */
static void skip_microbatches(lk_slots *slots, int left_out) {
	for (size_t i = slots->count / 2; left_out && i < slots->count; i++)
		slots->at[i].microbatch += left_out;
}

/* Drop the backward passes: micro-batches run in the same order on all stages. */
static void keep_forward(lk_slots *slots) {
	size_t kept = 0;
	for (size_t i = 0; i < slots->count; i++) {
		if (slots->at[i].pass != LK_PASS_F) continue;
		slots->at[kept] = slots->at[i];
		slots->at[kept++].pair = false;
	}
	slots->count = kept;
}

/* The end of a step: remaining gradients, the optimizer. */
static lk_status build_end(struct lk_stage_builder *builder) {
	lk_tail_part tail[LK_TAIL_PARTS];
	int parts;
	LK_TRY(lk_build_tail(builder->b, builder->stage, tail, &parts));
	for (int i = 0; i < parts; i++) {
		lk_call end = {.block = tail[i].block,
		               .repeat = tail[i].repeat,
		               .microbatch = -1,
		               .layer = -1,
		               .pass = LK_PHASE_OPTIMIZER};
		LK_TRY(call(builder, &end));
	}
	return LK_OK;
}

lk_status lk_build_stage(lk_builder *builder, int stage, uint32_t *wire_blocks) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	const lk_job *job = builder->job;
	struct lk_stage_builder s = {
		.b = builder,
		.schedule = lk_schedule_get(job->schedule),
		.shape = {job->pp, job->vp, builder->microbatches, job->microbatch_group,
	              lk_job_pairs(job)},
		.stage = stage,
		.places = lk_job_places(job),
		.wire_block = wire_blocks,
		.run_block = -1,
	};
	lk_slots slots = {0};
	size_t chunks = job->vp < LK_BUILD_CHUNKS ? (size_t)job->vp : LK_BUILD_CHUNKS;
	s.known = calloc(chunks, sizeof *s.known);
	s.around = calloc(chunks, sizeof *s.around);
	lk_status status = s.known && s.around
	                       ? s.schedule->order(&s.shape, stage, &slots, builder->err)
	                       : lk_oom(builder->err);
	skip_microbatches(&slots, (job->microbatches - builder->microbatches) /
	                              lk_schedule_directions(job->schedule));
	if (job->forward_only) keep_forward(&slots);
	if (status == LK_OK &&
	    !lk_reserve(&builder->graph->programs.at[stage].calls, 4 * slots.count + 64))
		status = lk_oom(builder->err);
	if (status == LK_OK) status = copy_average(&s);
	if (status == LK_OK) status = gather_parameters(&s);
	if (status == LK_OK) status = walk_slots(&s, &slots);
	lk_vec_free(&slots);
	free(s.known);
	free(s.around);
	s.known = NULL;
	s.around = NULL;
	LK_TRY(status);
	if (!job->forward_only) LK_TRY(build_end(&s));
	lk_program *program = &builder->graph->programs.at[stage];
	program->events = (uint32_t)builder->graph->channels * 2 + 1;
	lk_build_resident(builder, stage, program->resident);
	lk_rank_params p = lk_sizes_stage(job, stage);
	program->updated = job->forward_only ? 0 : p.trained_dense + p.trained_experts;
	return LK_OK;
}
