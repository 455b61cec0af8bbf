/* edit_merge.c: merge several operations of a block, or split one: gradient buckets, and a fused
 * optimizer.
 *
 * A run is a sequence of operations that may be merged: of equal kind, consecutive on one stream,
 * and with nothing between the first and the last that waits for one of them. The merged operation
 * takes the place of the last and waits for all that they waited for. Its bytes are the sum; so are
 * the measured and modelled times of the parts. */
#include "base/arena.h"
#include "graph/edit/edit.h"
#include "base/check.h"

#include <math.h>

struct merge {
	bool (*may)(const lk_graph *, uint32_t op, const bool *mask);
	double bytes;    /* most bytes of a run; 0: any */
	bool split;      /* also split a single operation */
	uint32_t *last;  /* for the block's operations: place of the last of their run, or UINT32_MAX */
	uint32_t *first; /* for the last of a run: place of its first */
	uint32_t before, after; /* mergeable operations, and the number that they became */
};

/* ---- runs ---- */

/* Bookkeeping of memory and events stays with its operation. */
static bool merge_plain(const lk_ops *ops, uint32_t i) {
	return ops->alloc[i] == 0 && ops->release[i] == 0 && !ops->wait[i] && !ops->signal[i] &&
	       ops->bytes[i] > 0;
}

static bool merge_alike(const lk_ops *ops, uint32_t a, uint32_t b) {
	return ops->kind[a] == ops->kind[b] && ops->group[a] == ops->group[b] &&
	       ops->channel[a] == ops->channel[b] && ops->stream[a] == ops->stream[b] &&
	       ops->dtype[a] == ops->dtype[b] && ops->phase[a] == ops->phase[b];
}

struct run {
	uint32_t first, last, count; /* count 0: no open run */
	double bytes;
};

static bool merge_waits_for(const lk_ops *ops, const lk_block *block, uint32_t i,
                            const struct run *run, const uint32_t *last) {
	if (ops->join[i] >> ops->stream[run->last] & 1) return true;
	for (uint32_t d = ops->dep_begin[i]; d < ops->dep_begin[i + 1]; d++)
		if (ops->deps[d] + block->begin >= run->first &&
		    last[ops->deps[d]] == run->first - block->begin)
			return true;
	return false;
}

/* Members of an open run hold the place of its first; once closed, that of its last. */
static void close_run(const lk_block *block, struct run *run, struct merge *merge) {
	uint32_t first = run->first - block->begin, last = run->last - block->begin;
	for (uint32_t i = first; run->count && i <= last; i++)
		if (merge->last[i] == first) merge->last[i] = last;
	if (run->count) merge->first[last] = first;
	run->count = 0;
}

static void find_runs(lk_rewrite *rewrite, const lk_block *block, struct merge *merge) {
	const lk_ops *ops = &rewrite->from->ops;
	struct run r = {0};
	for (uint32_t i = block->begin; i < block->end; i++) {
		bool member = merge->may(rewrite->from, i, rewrite->mask) && merge_plain(ops, i);
		merge->last[i - block->begin] = UINT32_MAX;
		bool fits = r.count && member && merge_alike(ops, r.last, i) &&
		            (merge->bytes <= 0 || r.bytes + ops->bytes[i] <= merge->bytes);
		bool between = r.count && !member && !lk_edit_is_gap(rewrite->from, i) &&
		               (ops->stream[i] == ops->stream[r.last] ||
		                merge_waits_for(ops, block, i, &r, merge->last));
		if (between || (member && r.count && !fits)) close_run(block, &r, merge);
		if (!member) continue;
		if (!r.count) r = (struct run){.first = i};
		r.last = i;
		r.count++;
		r.bytes += ops->bytes[i];
		merge->last[i - block->begin] = r.first - block->begin;
	}
	close_run(block, &r, merge);
}

/* ---- writing ---- */

/* Neighbours share dependencies: skip those that the last few already have. */
static uint32_t add_deps(lk_rewrite *rewrite, const lk_op *op, uint32_t count) {
	for (uint32_t d = 0; d < op->dep_count; d++) {
		bool known = false;
		for (uint32_t k = count > 8 ? count - 8 : 0; k < count; k++)
			known |= rewrite->deps[k] == rewrite->place[op->deps[d]];
		if (!known && rewrite->place[op->deps[d]] != UINT32_MAX)
			rewrite->deps[count++] = rewrite->place[op->deps[d]];
	}
	return count;
}

static void merge_put_run(lk_rewrite *rewrite, const lk_block *block, uint32_t i,
                          struct merge *merge) {
	uint32_t count = 0, at = i - block->begin;
	lk_op op = lk_graph_op(rewrite->from, i);
	lk_edit_op known = {.factor = 0};
	op.bytes = op.flops = 0;
	for (uint32_t k = merge->first[at]; k <= at; k++) {
		if (merge->last[k] != at) continue;
		lk_op part = lk_graph_op(rewrite->from, block->begin + k);
		const lk_edit_op *was = &rewrite->known[block->begin + k];
		op.bytes += part.bytes;
		op.flops += part.flops;
		op.join |= part.join;
		known.factor += was->factor * part.bytes;
		known.measured_ps += was->measured_ps;
		known.modelled_ps += was->modelled_ps;
		count = add_deps(rewrite, &part, count);
	}
	known.factor /= op.bytes;
	op.deps = rewrite->deps;
	op.dep_count = count;
	uint32_t place = lk_rewrite_put(rewrite, &op, &known);
	for (uint32_t k = merge->first[at]; k <= at; k++)
		if (merge->last[k] == at) rewrite->place[k] = place;
}

static void put_pieces(lk_rewrite *rewrite, const lk_block *block, uint32_t i, uint32_t pieces) {
	lk_op op = lk_rewrite_op(rewrite, block, i);
	lk_edit_op known = rewrite->known[i];
	lk_op whole = op;
	known.measured_ps /= pieces;
	known.modelled_ps /= pieces;
	op.bytes /= pieces;
	op.flops /= pieces;
	for (uint32_t p = 0; p < pieces; p++) {
		bool first = p == 0, last = p + 1 == pieces;
		op.alloc = first ? whole.alloc : 0, op.wait = first ? whole.wait : 0,
		op.join = first ? whole.join : 0;
		op.release = last ? whole.release : 0, op.signal = last ? whole.signal : 0;
		op.dep_count = first ? whole.dep_count : 0;
		rewrite->place[i - block->begin] = lk_rewrite_put(rewrite, &op, &known);
	}
}

enum { MOST_PIECES = 4096 };

static uint32_t pieces_of(const lk_rewrite *rewrite, uint32_t i, const struct merge *merge) {
	bool whole = !merge->split || !merge->may(rewrite->from, i, rewrite->mask) ||
	             (rewrite->from->ops.flags[i] & LK_OP_TRANSIENT);
	double pieces = whole ? 1 : ceil(rewrite->from->ops.bytes[i] / merge->bytes * (1 - 1e-9));
	return pieces > 1 ? (uint32_t)fmin(pieces, MOST_PIECES) : 1;
}

static void merge_block(lk_rewrite *rewrite, const lk_block *block) {
	struct merge *merge = rewrite->context;
	lk_arena arena = LK_ARENA_INIT;
	merge->last = LK_ARRAY(&arena, uint32_t, block->end - block->begin);
	merge->first = LK_ARRAY(&arena, uint32_t, block->end - block->begin);
	if (!merge->last || !merge->first) {
		rewrite->to->failed = true;
		lk_arena_free(&arena);
		return;
	}
	find_runs(rewrite, block, merge);
	for (uint32_t i = block->begin; i < block->end; i++) {
		uint32_t last = merge->last[i - block->begin], pieces = pieces_of(rewrite, i, merge);
		merge->before += merge->may(rewrite->from, i, rewrite->mask);
		merge->after += last == UINT32_MAX || last == i - block->begin
		                    ? merge->may(rewrite->from, i, rewrite->mask) * pieces
		                    : 0;
		if (last != UINT32_MAX && last != i - block->begin) continue;
		if (pieces > 1) put_pieces(rewrite, block, i, pieces);
		else if (last != UINT32_MAX) merge_put_run(rewrite, block, i, merge);
		else lk_rewrite_copy(rewrite, block, i);
	}
	lk_arena_free(&arena);
}

/* ---- buckets that are separate calls ---- */

/* Model-built programs reduce a bucket by a block of one operation between the layers. */
static bool is_bucket(const lk_edit *edit, const lk_call *call, const bool *mask) {
	const lk_block *block = &edit->graph->blocks.at[call->block];
	return call->repeat == 1 && block->end == block->begin + 1 &&
	       merge_plain(&edit->graph->ops, block->begin) &&
	       lk_edit_reduces_gradients(edit->graph, block->begin, mask);
}

/* A block of one operation with the bytes of several. */
static lk_status merged_block(lk_edit *edit, uint32_t like, const lk_edit_op *known, double bytes,
                              uint32_t *id, lk_error *err) {
	lk_graph *graph = edit->graph;
	lk_op op = lk_graph_op(graph, graph->blocks.at[like].begin);
	op.bytes = bytes;
	op.dep_count = 0;
	if (!lk_push(&edit->op)) return lk_oom(err);
	*lk_last(&edit->op) = *known;
	lk_graph_begin_block(graph, lk_intern_text(graph->names, graph->blocks.at[like].name));
	lk_graph_add(graph, &op);
	return lk_graph_end_block(graph, id, err);
}

struct bucket {
	size_t last; /* call */
	uint32_t count;
	double bytes;
	lk_edit_op known;
};

static lk_status end_bucket(lk_edit *edit, lk_program *program, struct bucket *bucket,
                            lk_error *err) {
	if (bucket->count > 1) {
		uint32_t id;
		LK_TRY(merged_block(edit, program->calls.at[bucket->last].block, &bucket->known,
		                    bucket->bytes, &id, err));
		program->calls.at[bucket->last].block = id;
		edit->changed += bucket->count;
	}
	*bucket = (struct bucket){0};
	return LK_OK;
}

static lk_status merge_calls(lk_edit *edit, lk_program *program, double most, const bool *mask,
                             lk_error *err) {
	struct bucket b = {0};
	for (size_t c = 0; c < program->calls.count; c++) {
		lk_call *call = &program->calls.at[c];
		if (!is_bucket(edit, call, mask)) continue;
		uint32_t op = edit->graph->blocks.at[call->block].begin;
		double bytes = edit->graph->ops.bytes[op];
		bool same =
			b.count && merge_alike(&edit->graph->ops, op,
		                           edit->graph->blocks.at[program->calls.at[b.last].block].begin);
		if (b.count && (!same || b.bytes + bytes > most))
			LK_TRY(end_bucket(edit, program, &b, err));
		if (b.count) program->calls.at[b.last].repeat = 0; /* removed below */
		const lk_edit_op *was = &edit->op.at[op];
		b.last = c;
		b.count++;
		b.bytes += bytes;
		b.known.measured_ps += was->measured_ps;
		b.known.modelled_ps += was->modelled_ps;
		b.known.factor = was->factor;
	}
	LK_TRY(end_bucket(edit, program, &b, err));
	size_t kept = 0;
	for (size_t c = 0; c < program->calls.count; c++)
		if (program->calls.at[c].repeat) program->calls.at[kept++] = program->calls.at[c];
	program->calls.count = kept;
	return LK_OK;
}

/* Buckets of 0 bytes would be infinitely many operations. */
static lk_status check_pieces(const lk_edit *edit, double bytes, const bool *mask, lk_error *err) {
	const double most = 4e6;
	double pieces = 0;
	for (uint32_t i = 0; i < edit->op.count; i++)
		if (lk_edit_reduces_gradients(edit->graph, i, mask))
			pieces += fmin(edit->graph->ops.bytes[i] / bytes, MOST_PIECES);
	if (pieces <= most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "bucket", "%.3g reductions of so few bytes: at most %.0e are made",
	        pieces, most);
	return lk_hint(err, "give larger buckets");
}

lk_status lk_edit_buckets(lk_edit *edit, double bytes, const bool *mask, lk_error *err) {
	struct merge m = {.may = lk_edit_reduces_gradients, .bytes = bytes, .split = true};
	LK_TRY(check_pieces(edit, bytes, mask, err));
	LK_TRY(lk_edit_rewrite(edit, merge_block, mask, &m, err));
	edit->changed = m.before != m.after ? m.before : 0;
	for (size_t s = 0; s < edit->graph->programs.count; s++)
		LK_TRY(merge_calls(edit, &edit->graph->programs.at[s], bytes, mask, err));
	return LK_OK;
}

/* ---- the optimizer ---- */

static bool updates(const lk_graph *graph, uint32_t op, const bool *mask) {
	LK_ASSERT(op < graph->ops.count);
	unsigned kind = graph->ops.kind[op];
	(void)mask;
	return graph->ops.phase[op] == LK_PHASE_OPTIMIZER &&
	       (kind == LK_OP_OPTIMIZER || kind == LK_OP_ELEMENTWISE) &&
	       !lk_glob("*norm*", lk_intern_text(graph->names, graph->ops.name[op]));
}

lk_status lk_edit_fuse_optimizer(lk_edit *edit, lk_error *err) {
	struct merge m = {.may = updates};
	LK_TRY(lk_edit_rewrite(edit, merge_block, NULL, &m, err));
	edit->changed = m.before != m.after ? m.before : 0;
	if (!edit->changed || !edit->graph->traced) return LK_OK;
	/* The host issues correspondingly fewer launches. */
	for (uint32_t i = 0; i < edit->op.count; i++)
		if (edit->graph->ops.kind[i] == LK_OP_HOST &&
		    edit->graph->ops.phase[i] == LK_PHASE_OPTIMIZER && !lk_edit_waits(edit->graph, i))
			edit->op.at[i].factor *= (double)m.after / m.before;
	return LK_OK;
}
