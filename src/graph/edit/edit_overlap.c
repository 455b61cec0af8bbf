/* edit_overlap.c: collectives concurrent with compute, or not.
 *
 * Off: collectives and compute wait for one another in the order in which they are issued, as on
 * one stream. Pipeline messages stay free: their order between ranks is not that of issue.
 *
 * On, in a lifted trace: reductions of gradients get a stream of their own. Those issued after the
 * backward pass start when their share of it has run: gradients become ready in the order and, in
 * bytes, at the pace of backward's compute time, as buckets of DistributedDataParallel do (arXiv
 * 2006.15704, section 3.2.3). Nothing before the end of the backward pass waits for them; all
 * device work after it does. */
#include "graph/edit/edit.h"

#include <stdlib.h>
#include <string.h>

static bool overlap_computes(unsigned kind) {
	return kind <= LK_OP_OPTIMIZER;
}

/* ---- off ---- */

/* Streams used by collectives and compute in one block. */
struct streams {
	uint32_t collective, compute;
};

static struct streams overlap_used(const lk_graph *graph, uint32_t begin, uint32_t end) {
	struct streams s = {0, 0};
	for (uint32_t i = begin; i < end; i++) {
		if (lk_op_is_collective(graph->ops.kind[i])) s.collective |= LK_JOIN(graph->ops.stream[i]);
		if (overlap_computes(graph->ops.kind[i])) s.compute |= LK_JOIN(graph->ops.stream[i]);
	}
	return s;
}

static void serialise(lk_edit *edit, const lk_block *block, struct streams s) {
	lk_ops *ops = &edit->graph->ops;
	for (uint32_t i = block->begin; i < block->end; i++) {
		uint32_t own = LK_JOIN(ops->stream[i]), before = ops->join[i];
		if (lk_op_is_collective(ops->kind[i])) ops->join[i] |= (s.compute | s.collective) & ~own;
		else if (overlap_computes(ops->kind[i])) ops->join[i] |= s.collective & ~own;
		edit->changed += ops->join[i] != before;
	}
}

static void overlap_off(lk_edit *edit) {
	lk_graph *graph = edit->graph;
	struct streams all = overlap_used(graph, 0, graph->ops.count);
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		serialise(edit, block, graph->traced ? overlap_used(graph, block->begin, block->end) : all);
	}
}

/* ---- on ---- */

struct plan {
	uint32_t *start; /* for reductions: place of the compute operation after which they start, or
	                    UINT32_MAX */
	uint32_t last;   /* place of the last compute operation of the backward pass */
	unsigned stream;
	uint32_t changed;
	bool any, full;
};

static bool overlap_backward(const lk_ops *ops, uint32_t i) {
	return overlap_computes(ops->kind[i]) &&
	       (ops->phase[i] == LK_PHASE_BACKWARD || ops->phase[i] == LK_PHASE_WEIGHT);
}

static unsigned overlap_free_stream(const lk_graph *graph, const lk_block *block) {
	uint32_t taken = 0;
	for (uint32_t i = block->begin; i < block->end; i++)
		taken |= LK_JOIN(graph->ops.stream[i]) | graph->ops.join[i];
	unsigned stream = 1;
	while (stream < LK_STREAMS && taken >> stream & 1) stream++;
	return stream;
}

/* Compute time of the backward pass, bytes of the reductions. */
static void totals(const lk_rewrite *rewrite, const lk_block *block, struct plan *plan,
                   double *time, double *bytes) {
	const lk_ops *ops = &rewrite->from->ops;
	*time = *bytes = 0;
	for (uint32_t i = block->begin; i < block->end; i++) {
		if (overlap_backward(ops, i)) {
			*time += rewrite->known[i].measured_ps;
			plan->last = i - block->begin;
		}
		if (lk_edit_reduces_gradients(rewrite->from, i, rewrite->mask)) {
			*bytes += ops->bytes[i];
			plan->any = true;
		}
	}
}

static void plan_starts(const lk_rewrite *rewrite, const lk_block *block, struct plan *plan) {
	const lk_ops *ops = &rewrite->from->ops;
	double time, bytes, ready = 0, ran = 0;
	totals(rewrite, block, plan, &time, &bytes);
	uint32_t compute = block->begin, behind = UINT32_MAX;
	for (uint32_t i = block->begin; i < block->end && bytes > 0 && time > 0; i++) {
		if (!lk_edit_reduces_gradients(rewrite->from, i, rewrite->mask)) continue;
		ready += ops->bytes[i];
		while (compute < block->end &&
		       (behind == UINT32_MAX || ran < ready / bytes * time * (1 - 1e-9))) {
			if (overlap_backward(ops, compute)) {
				ran += rewrite->known[compute].measured_ps;
				behind = compute - block->begin;
			}
			compute++;
		}
		if (i - block->begin > plan->last) plan->start[i - block->begin] = behind;
	}
}

static void put_reduction(lk_rewrite *rewrite, const lk_block *block, uint32_t i,
                          struct plan *plan) {
	uint32_t at = i - block->begin;
	lk_op op = lk_rewrite_op(rewrite, block, i);
	op.stream = (uint8_t)plan->stream;
	plan->changed++;
	if (plan->start[at] != UINT32_MAX) {
		rewrite->deps[0] = rewrite->place[plan->start[at]];
		op.deps = rewrite->deps;
		op.dep_count = 1;
		op.join = 0;
	} else {
		op.join |= LK_JOIN(rewrite->from->ops.stream[i]); /* the stream that it was on */
	}
	rewrite->place[at] = lk_rewrite_put(rewrite, &op, &rewrite->known[i]);
}

/* Until the end of the backward pass nothing waits for reductions; after it all device work
 * does. */
static void put_other(lk_rewrite *rewrite, const lk_block *block, uint32_t i,
                      const struct plan *plan) {
	lk_op was = lk_graph_op(rewrite->from, i), op = lk_rewrite_op(rewrite, block, i);
	if (i - block->begin <= plan->last) {
		uint32_t count = 0;
		for (uint32_t d = 0; d < was.dep_count; d++)
			if (!lk_edit_reduces_gradients(rewrite->from, block->begin + was.deps[d],
			                               rewrite->mask))
				rewrite->deps[count++] = rewrite->place[was.deps[d]];
		op.deps = rewrite->deps;
		op.dep_count = count;
	} else if (overlap_computes(op.kind)) {
		op.join |= LK_JOIN(plan->stream);
	}
	rewrite->place[i - block->begin] = lk_rewrite_put(rewrite, &op, &rewrite->known[i]);
}

static void overlap_block(lk_rewrite *rewrite, const lk_block *block) {
	struct plan *all = rewrite->context, p = {.stream = overlap_free_stream(rewrite->from, block)};
	uint32_t size = block->end - block->begin;
	p.start = malloc(((size_t)size + 1) * sizeof *p.start);
	if (!p.start) {
		rewrite->to->failed = true;
		return;
	}
	memset(p.start, 0xff, ((size_t)size + 1) * sizeof *p.start);
	plan_starts(rewrite, block, &p);
	bool change = p.any && p.stream < LK_STREAMS;
	all->full |= p.any && !change;
	for (uint32_t i = block->begin; i < block->end; i++) {
		if (!change) lk_rewrite_copy(rewrite, block, i);
		else if (lk_edit_reduces_gradients(rewrite->from, i, rewrite->mask))
			put_reduction(rewrite, block, i, &p);
		else put_other(rewrite, block, i, &p);
	}
	all->changed += p.changed;
	free(p.start);
}

/* A predicted job that reduces gradients after the last micro-batch has no buckets. */
static lk_status check_predicted(const lk_edit *edit, const bool *mask, lk_error *err) {
	const lk_graph *graph = edit->graph;
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		if (!lk_edit_reduces_gradients(graph, i, mask) || graph->ops.phase[i] != LK_PHASE_OPTIMIZER)
			continue;
		lk_fail(err, LK_ERR_INPUT, "overlap=on",
		        "the graph was predicted with gradients reduced as a whole at the end of the step");
		return lk_hint(err, "predict with --overlap-grad-reduce and ask about that graph");
	}
	return LK_OK;
}

static lk_status overlap_name_streams(lk_edit *edit, lk_error *err) {
	lk_graph *graph = edit->graph;
	uint32_t name = lk_intern_id(graph->names, "gradients, concurrent with compute");
	if (name == UINT32_MAX) return lk_oom(err);
	for (size_t s = 0; s < graph->programs.count; s++) {
		lk_program *program = &graph->programs.at[s];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			for (uint32_t i = block->begin; i < block->end; i++)
				if (lk_op_is_collective(graph->ops.kind[i]) &&
				    !program->stream_names[graph->ops.stream[i]])
					program->stream_names[graph->ops.stream[i]] = name;
		}
	}
	return LK_OK;
}

lk_status lk_edit_overlap(lk_edit *edit, bool on, const bool *mask, lk_error *err) {
	struct plan all = {0};
	edit->changed = 0;
	if (!on) {
		overlap_off(edit);
		return LK_OK;
	}
	if (!edit->graph->traced) return check_predicted(edit, mask, err);
	LK_TRY(lk_edit_rewrite(edit, overlap_block, mask, &all, err));
	edit->changed = all.changed;
	if (all.full)
		return lk_fail(err, LK_ERR_INPUT, "overlap=on", "a rank uses all %d streams", LK_STREAMS);
	return overlap_name_streams(edit, err);
}
