/* reserved.c: what PyTorch's allocator holds over two steps of a stage's program.
 *
 * An operation of the graph allocates the sum of its tensors. The sum is taken apart into the
 * fewest pieces that have the sizes of one or two tensors of the network; another sum is one piece.
 * What is released leaves the owner's newest pieces, as backward passes do, and scopes.
 *
 * Buffers that a communication stream allocates belong to its pool. PyTorch lets others have one
 * only when the compute stream has passed its last use (record_stream), so that the host, which is
 * ahead, allocates the next before: one more buffer than in use. The first step allocates the
 * optimizer's states at its end. Micro-batches behind the first ones change nothing and are left
 * out.
 *
 * What an operation writes and nothing keeps comes and goes between these: kept blocks lie behind
 * it, and the holes that it leaves are too small for others. An element-wise operation writes half
 * of its traffic. Logits are counted where they are kept.
 *
 * Sequences that are neither packed nor padded have other lengths in each micro-batch. What a
 * token needs is then scaled: blocks that a shorter one left behind are too small for the next, and
 * stay. The longest comes last. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/vec.h"
#include "sim/memory/allocator.h"
#include "sim/memory/memory.h"

enum { PIECES = 6, KNOWN = 64, STEPS = 2 };

typedef struct piece {
	uint32_t block;
	double bytes;
} piece;

typedef LK_VEC(piece) pieces_by_age;

/* A sum as tensors: so many of one size, and so many of another. */
typedef struct parts {
	double bytes[2];
	int count[2];
} parts;

typedef struct reserving {
	const lk_graph *graph;
	const lk_reserving *how;
	lk_caching *caching;
	pieces_by_age live[LK_OWNERS];
	piece waiting[LK_STREAMS]; /* freed, but its last use has not been passed; block NOTHING */
	struct {
		double of;
		parts parts;
	} known[KNOWN];
	int known_count;
	double scale;             /* length of the micro-batch, as a share of the longest */
	uint32_t passing;         /* what the operation before has written; NOTHING */
	lk_caching_result result; /* LK_ALLOCATED while all goes well */
} reserving;

enum { NOTHING = UINT32_MAX };

/* Whether so many pieces of two sizes are the sum. */
static bool parts_are(const lk_reserving *how, double bytes, int pieces, parts *out) {
	for (int i = 0; i < how->size_count; i++)
		for (int k = 0; k < how->size_count; k++)
			for (int of_first = pieces; 2 * of_first >= pieces; of_first--) {
				double sum = of_first * how->sizes[i] + (pieces - of_first) * how->sizes[k];
				if (fabs(bytes - sum) > 0.01 * bytes) continue;
				double scale = bytes / sum;
				*out = (parts){{how->sizes[i] * scale, how->sizes[k] * scale},
				               {of_first, pieces - of_first}};
				return true;
			}
	return false;
}

static parts parts_of(const lk_reserving *how, double bytes) {
	parts out;
	for (int pieces = 1; pieces <= PIECES; pieces++)
		if (parts_are(how, bytes, pieces, &out)) return out;
	return (parts){{bytes, 0}, {1, 0}};
}

/* Sums that occurred before; a step has few different ones. */
static const parts *parts_known(reserving *walk, double bytes) {
	for (int i = 0; i < walk->known_count; i++)
		if (walk->known[i].of == bytes) return &walk->known[i].parts;
	int at = walk->known_count < KNOWN ? walk->known_count++ : KNOWN - 1;
	walk->known[at].of = bytes;
	walk->known[at].parts = parts_of(walk->how, bytes);
	return &walk->known[at].parts;
}

static void hold(reserving *walk, unsigned owner, unsigned stream, double bytes) {
	uint32_t block;
	if (walk->result != LK_ALLOCATED || !(bytes > 0)) return;
	walk->result = lk_caching_take(walk->caching, stream, bytes, &block);
	if (walk->result != LK_ALLOCATED) return;
	if (!lk_push(&walk->live[owner])) {
		walk->result = LK_ALLOCATED_ERROR;
		return;
	}
	*lk_last(&walk->live[owner]) = (piece){block, bytes};
}

static void hold_pieces(reserving *walk, unsigned owner, unsigned stream, double bytes,
                        int pieces) {
	for (int i = 0; i < pieces; i++) hold(walk, owner, stream, bytes / pieces);
}

static void give(reserving *walk, uint32_t block) {
	if (!lk_caching_give(walk->caching, block)) walk->result = LK_ALLOCATED_ERROR;
}

/* Free a block: of a stream of its own only after the block that was freed before. */
static void let_go(reserving *walk, uint32_t block) {
	unsigned stream = lk_caching_stream(walk->caching, block);
	if (stream == LK_STREAM_COMPUTE) {
		give(walk, block);
		return;
	}
	piece *waiting = &walk->waiting[stream];
	if (waiting->block != NOTHING) give(walk, waiting->block);
	waiting->block = block;
}

static void release(reserving *walk, unsigned owner, double bytes) {
	pieces_by_age *live = &walk->live[owner];
	double least = fmax(512, 1e-9 * bytes);
	while (bytes > least && live->count > 0 && walk->result == LK_ALLOCATED) {
		size_t at = live->count;
		while (at > 0 && live->at[at - 1].bytes > bytes + least) at--;
		if (at == 0) { /* part of what was allocated at once */
			piece newest = live->at[--live->count];
			unsigned stream = lk_caching_stream(walk->caching, newest.block);
			let_go(walk, newest.block);
			hold(walk, owner, stream, newest.bytes - bytes);
			return;
		}
		piece last = live->at[at - 1];
		memmove(&live->at[at - 1], &live->at[at], (live->count - at) * sizeof *live->at);
		live->count--;
		bytes -= last.bytes;
		let_go(walk, last.block);
	}
}

/* Pools are of the streams that gather and scatter, and of the compute stream, which allocates
 * everything else. */
static unsigned pool_of(unsigned stream) {
	return stream == LK_STREAM_DP ? stream : LK_STREAM_COMPUTE;
}

/* Buffers of communication are whole layers' pieces. */
static void hold_sum(reserving *walk, unsigned owner, unsigned stream, double bytes, double scale) {
	if (owner == LK_OWN_BUFFERS && walk->how->units > 0) {
		hold_pieces(walk, owner, stream, bytes * scale, walk->how->units);
		return;
	}
	const parts *as = parts_known(walk, bytes);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < as->count[i]; k++) hold(walk, owner, stream, as->bytes[i] * scale);
}

/* Only activations and logits grow with the tokens. */
static double scale_of(const reserving *walk, unsigned owner) {
	return owner == LK_OWN_ACTIVATIONS || owner == LK_OWN_LOGITS ? walk->scale : 1;
}

/* What an operation writes is there until the next one has read it; where that keeps something, as
 * part of what is kept. */
static void pass_on(reserving *walk, uint32_t i) {
	const lk_ops *ops = &walk->graph->ops;
	uint32_t block = NOTHING;
	double bytes = 0;
	if (ops->stream[i] != LK_STREAM_COMPUTE) return;
	bool logits = ops->n[i] == walk->how->vocab || ops->m[i] == walk->how->vocab;
	unsigned kind = ops->kind[i];
	bool product = kind == LK_OP_GEMM || kind == LK_OP_GROUPED_GEMM;
	if (ops->alloc[i] > 0 || (product && logits)) bytes = 0;
	else if (product)
		bytes = (ops->dtype[i] < LK_FP16 ? 4 : 2) * ops->m[i] * ops->n[i] * fmax(ops->batch[i], 1);
	else if (kind == LK_OP_ELEMENTWISE || kind == LK_OP_NORM || kind == LK_OP_PERMUTE)
		bytes = ops->bytes[i] / 2;
	else return;
	if (bytes > 0 && walk->result == LK_ALLOCATED)
		walk->result =
			lk_caching_take(walk->caching, LK_STREAM_COMPUTE, bytes * walk->scale, &block);
	if (walk->passing != NOTHING) give(walk, walk->passing);
	walk->passing = block;
}

static void walk_block(reserving *walk, const lk_block *block) {
	const lk_ops *ops = &walk->graph->ops;
	for (uint32_t i = block->begin; i < block->end; i++) {
		pass_on(walk, i);
		unsigned taker = ops->alloc_owner[i], giver = ops->release_owner[i];
		if (ops->alloc[i] > 0)
			hold_sum(walk, taker, pool_of(ops->stream[i]), ops->alloc[i], scale_of(walk, taker));
		if (ops->release[i] > 0) release(walk, giver, ops->release[i] * scale_of(walk, giver));
	}
}

/* Length of the micro-batch of a step; the optimizer's step has none. */
static double length_of(const lk_reserving *how, int step, int microbatch) {
	int n = step * how->microbatches + (microbatch > 0 ? microbatch : 0);
	return n < how->ragged ? how->lengths[n] : 1;
}

/* Two steps, or as many as hold the shorter micro-batches and one with the longest. */
static int steps_of(const lk_reserving *how) {
	return how->ragged ? how->ragged / how->microbatches + 1 : STEPS;
}

static void walk_program(reserving *walk, const lk_program *program) {
	for (int step = 0; step < steps_of(walk->how); step++) {
		for (uint32_t c = 0; c < program->calls.count && walk->result == LK_ALLOCATED; c++) {
			const lk_call *call = &program->calls.at[c];
			if (call->microbatch >= walk->how->microbatches) continue;
			walk->scale = length_of(walk->how, step, call->microbatch);
			for (uint32_t r = 0; r < call->repeat; r++)
				walk_block(walk, &walk->graph->blocks.at[call->block]);
		}
		if (step == 0)
			hold_pieces(walk, LK_OWN_OPTIMIZER, LK_STREAM_COMPUTE,
			            program->resident[LK_OWN_OPTIMIZER], walk->how->states);
	}
}

lk_caching_result lk_memory_reserved(const lk_graph *graph, uint32_t stage, const lk_reserving *how,
                                     double *bytes) {
	const lk_program *program = &graph->programs.at[stage];
	reserving walk = {.graph = graph, .how = how, .passing = NOTHING, .result = LK_ALLOCATED};
	for (int i = 0; i < LK_STREAMS; i++) walk.waiting[i].block = NOTHING;
	walk.caching = lk_caching_new(&how->conf);
	if (!walk.caching) return LK_ALLOCATED_ERROR;
	for (unsigned owner = 0; owner < LK_OWNERS; owner++)
		if (owner != LK_OWN_OPTIMIZER && program->resident[owner] > 0)
			hold(&walk, owner, LK_STREAM_COMPUTE, program->resident[owner]);
	walk_program(&walk, program);
	*bytes = lk_caching_peak(walk.caching);
	for (int owner = 0; owner < LK_OWNERS; owner++) lk_vec_free(&walk.live[owner]);
	lk_caching_free(walk.caching);
	return walk.result;
}
