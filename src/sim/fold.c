/* fold.c: the folded graph. Blocks of the source that stay are copied when they are first called,
 * with their parts that fold as MACRO operations; every distinct run becomes a block of one such
 * operation. Allocations are left out: memory is asked of the source graph. */
#include <stdlib.h>
#include <string.h>

#include "sim/fold.h"

typedef struct folder {
	const lk_graph *graph;
	const lk_costs *costs;
	lk_fold *out;
	lk_fold_runs runs;
	lk_fold_pieces pieces;
	size_t *pieces_end; /* [stages] */
	lk_fold_pricer pricer;
	uint32_t *copied;       /* [source blocks] 1 + block of the folded graph */
	uint32_t foreign;       /* streams, see lk_fold_foreign */
	bool parts;             /* blocks that stay fold in parts */
	int64_t part_ps;        /* see lk_fold_part_most */
	lk_cost *cost;          /* [variants] of what was priced last */
	LK_VEC(uint32_t) place; /* of the block that is copied: operation -> operation of the copy */
	LK_VEC(uint32_t) deps;  /* of the operation that is copied, in the copy */
	LK_VEC(struct lk_fold_span) spans;
	LK_VEC(lk_cost) costs_of; /* variants for each operation of the folded graph */
} folder;

static lk_status copy_frame(folder *f, lk_error *err) {
	lk_graph *to = f->out->graph = lk_graph_new();
	if (!to) return lk_oom(err);
	for (uint32_t id = 0; id < lk_intern_count(f->graph->names); id++)
		if (lk_intern_id(to->names, lk_intern_text(f->graph->names, id)) != id) return lk_oom(err);
	LK_TRY(lk_graph_set_programs(to, f->graph->ranks.stages, f->graph->channels, err));
	for (uint32_t s = 0; s < f->graph->ranks.stages; s++) {
		lk_program *program = &to->programs.at[s];
		const lk_program *from = &f->graph->programs.at[s];
		program->name = from->name;
		program->events = from->events;
		program->channels = from->channels;
		memcpy(program->resident, from->resident, sizeof program->resident);
		memcpy(program->stream_names, from->stream_names, sizeof program->stream_names);
		program->threads = from->threads;
	}
	for (size_t t = 0; t < f->graph->teams.count; t++) {
		const lk_team *team = &f->graph->teams.at[t];
		lk_graph_add_team(to, lk_intern_text(to->names, team->name),
		                  f->graph->team_stages.at + team->begin, team->end - team->begin,
		                  team->ranks, team->across);
	}
	if (to->failed) return lk_oom(err);
	to->traced = f->graph->traced;
	if (f->graph->wires.count != to->wires.count)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%zu wires", f->graph->wires.count);
	if (to->wires.count)
		memcpy(to->wires.at, f->graph->wires.at, to->wires.count * sizeof *to->wires.at);
	to->ranks = f->graph->ranks;
	to->model_flops = f->graph->model_flops;
	to->tokens = f->graph->tokens;
	to->samples = f->graph->samples;
	to->peak_dtype = f->graph->peak_dtype;
	return LK_OK;
}

/* Books the operation that was just added to the folded graph. */
static lk_status book(folder *f, const struct lk_fold_span *span, const lk_cost *cost,
                      uint32_t stride, lk_error *err) {
	if (f->out->graph->failed || !lk_push(&f->spans)) return lk_oom(err);
	*lk_last(&f->spans) = *span;
	for (uint32_t v = 0; v < f->costs->variants; v++) {
		if (!lk_push(&f->costs_of)) return lk_oom(err);
		*lk_last(&f->costs_of) = cost[(size_t)v * stride];
	}
	return LK_OK;
}

/* Adds the operation that stands for a run, or for a part of a call, to the block that is begun. */
static lk_status add_macro(folder *f, const lk_fold_run *run, lk_error *err) {
	const lk_call *call = &f->graph->programs.at[run->stage].calls.at[run->begin];
	lk_fold_price price = {.cost = f->cost};
	struct lk_fold_span span = {.stage = run->stage,
	                            .call_begin = run->begin,
	                            .call_end = run->end,
	                            .source_op = UINT32_MAX,
	                            .part = lk_fold_is_part(run),
	                            .sample_begin = (uint32_t)f->out->samples.count};
	LK_TRY(lk_fold_price_run(&f->pricer, run, &price, &f->out->samples, err));
	span.sample_end = (uint32_t)f->out->samples.count;
	span.period_ps = price.period_ps;
	lk_graph_add(f->out->graph,
	             &(lk_op){
					 .kind = LK_OP_MACRO,
					 .stream = LK_STREAM_COMPUTE,
					 .phase = call->pass,
					 .join = lk_fold_join(f->graph, run),
					 .name = lk_intern_text(f->graph->names, f->graph->blocks.at[call->block].name),
					 .flops = price.flops,
					 .bytes = price.bytes,
				 });
	return book(f, &span, f->cost, 1, err);
}

/* What waits for an operation inside a part waits for all of the part. */
static lk_status copy_op(folder *f, const lk_block *from, const struct lk_fold_span *at,
                         lk_error *err) {
	lk_op op = lk_graph_op(f->graph, at->source_op);
	f->deps.count = 0;
	for (uint32_t d = 0; d < op.dep_count; d++) {
		if (op.deps[d] >= at->source_op - from->begin)
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "operation %u depends on a later operation", at->source_op);
		if (!lk_push(&f->deps)) return lk_oom(err);
		*lk_last(&f->deps) = f->place.at[op.deps[d]];
	}
	op.deps = f->deps.at;
	op.alloc = op.release = 0; /* memory is asked of the source graph */
	lk_graph_add(f->out->graph, &op);
	return book(f, at, lk_costs_get(f->costs, 0, at->source_op), f->costs->ops, err);
}

static lk_status copy_ops(folder *f, uint32_t stage, uint32_t call, const lk_block *from,
                          lk_error *err) {
	uint32_t made = 0;
	f->place.count = 0;
	for (uint32_t op = from->begin, end; op < from->end; op = end, made++) {
		end = !f->parts ? op : lk_fold_part(f->graph, f->costs, from, op, f->foreign, f->part_ps);
		lk_fold_run part = {
			.stage = stage, .begin = call, .end = call + 1, .op_begin = op, .op_end = end};
		struct lk_fold_span copied = {
			.stage = stage, .call_begin = call, .call_end = call, .source_op = op};
		LK_TRY(end > op ? add_macro(f, &part, err) : copy_op(f, from, &copied, err));
		if (end == op) end++;
		for (uint32_t i = op; i < end; i++) {
			if (!lk_push(&f->place)) return lk_oom(err);
			*lk_last(&f->place) = made;
		}
	}
	return LK_OK;
}

static lk_status copy_block(folder *f, uint32_t stage, uint32_t call, uint32_t source,
                            uint32_t *block, lk_error *err) {
	if (f->copied[source]) return *block = f->copied[source] - 1, LK_OK;
	const lk_block *from = &f->graph->blocks.at[source];
	lk_graph_begin_block(f->out->graph, lk_intern_text(f->graph->names, from->name));
	LK_TRY(copy_ops(f, stage, call, from, err));
	LK_TRY(lk_graph_end_block(f->out->graph, block, err));
	f->copied[source] = *block + 1;
	return LK_OK;
}

static lk_status make_macro(folder *f, lk_fold_run *run, lk_error *err) {
	const lk_call *call = &f->graph->programs.at[run->stage].calls.at[run->begin];
	lk_graph_begin_block(f->out->graph,
	                     lk_intern_text(f->graph->names, f->graph->blocks.at[call->block].name));
	LK_TRY(add_macro(f, run, err));
	return lk_graph_end_block(f->out->graph, &run->block, err);
}

/* Room for the calls of the folded programs, one per piece, and the first source call of each.
 * Pieces lie by stage. */
static lk_status open_calls(folder *f, lk_error *err) {
	uint32_t stages = f->graph->ranks.stages;
	f->out->source_call = LK_ARRAY(&f->out->arena, uint32_t *, stages);
	if (!f->out->source_call) return lk_oom(err);
	for (uint32_t s = 0; s < stages; s++) {
		size_t count = f->pieces_end[s] - (s ? f->pieces_end[s - 1] : 0);
		f->out->source_call[s] = LK_ARRAY(&f->out->arena, uint32_t, count);
		if (!f->out->source_call[s] || !lk_reserve(&f->out->graph->programs.at[s].calls, count))
			return lk_oom(err);
	}
	return LK_OK;
}

/* The block that stands for a piece, made when it is first met. */
static lk_status block_of(folder *f, const lk_fold_piece *piece, uint32_t source, uint32_t *block,
                          lk_error *err) {
	if (piece->run == UINT32_MAX)
		return copy_block(f, piece->stage, piece->begin, source, block, err);
	lk_fold_run *run = &f->runs.at[piece->run];
	if (run->block == UINT32_MAX) LK_TRY(make_macro(f, run, err));
	*block = run->block;
	return LK_OK;
}

static lk_status fold_program(folder *f, uint32_t stage, lk_error *err) {
	size_t first = stage ? f->pieces_end[stage - 1] : 0;
	if (first == f->pieces_end[stage]) return LK_OK;
	const lk_fold_piece *piece = f->pieces.at + first, *end = f->pieces.at + f->pieces_end[stage];
	const lk_call *calls = f->graph->programs.at[stage].calls.at;
	lk_program *program = &f->out->graph->programs.at[stage];
	lk_call *to = program->calls.at;
	uint32_t *source = f->out->source_call[stage];
	program->calls.count = (size_t)(end - piece);
	for (; piece < end; piece++, to++) {
		*to = calls[piece->begin];
		*source++ = piece->begin;
		LK_TRY(block_of(f, piece, to->block, &to->block, err));
		if (piece->run != UINT32_MAX) to->repeat = 1;
	}
	return LK_OK;
}

static lk_status fold_programs(folder *f, lk_error *err) {
	LK_TRY(open_calls(f, err));
	for (uint32_t s = 0; s < f->graph->ranks.stages; s++) LK_TRY(fold_program(f, s, err));
	return LK_OK;
}

/* Spans and costs move into the fold's arena; costs by variant first, as engines read them. */
static lk_status take_tables(folder *f, lk_error *err) {
	lk_fold *out = f->out;
	uint32_t ops = out->graph->ops.count, variants = f->costs->variants;
	size_t ranks = (size_t)f->graph->ranks.stages * f->graph->ranks.chains;
	out->span = LK_ARRAY(&out->arena, struct lk_fold_span, ops);
	out->costs = (lk_costs){.variants = variants,
	                        .ops = ops,
	                        .at = LK_ARRAY(&out->arena, lk_cost, (size_t)variants * ops)};
	if (f->costs->variant_of) out->costs.variant_of = LK_ARRAY(&out->arena, uint16_t, ranks);
	if (!out->span || !out->costs.at || (f->costs->variant_of && !out->costs.variant_of))
		return lk_oom(err);
	if (f->costs->variant_of)
		memcpy(out->costs.variant_of, f->costs->variant_of, ranks * sizeof *out->costs.variant_of);
	for (uint32_t op = 0; op < ops; op++) {
		out->span[op] = f->spans.at[op];
		for (uint32_t v = 0; v < variants; v++)
			out->costs.at[(size_t)v * ops + op] = f->costs_of.at[(size_t)op * variants + v];
	}
	return LK_OK;
}

/* What takes a few milliseconds as it is stays as it is: a part that is slowed is slowed evenly,
 * which says less of its kernels. */
static bool worth_parts(const lk_graph *graph, const lk_fold_times *times) {
	const double enough = 20000;
	double ops = 0;
	for (size_t b = 0; b < graph->blocks.count; b++)
		ops += times->all[b] * (graph->blocks.at[b].end - graph->blocks.at[b].begin);
	return !graph->traced && ops > enough;
}

static bool count_calls(const lk_graph *graph, lk_fold_times *out) {
	out->all = calloc(2 * graph->blocks.count + 1, sizeof *out->all);
	out->passes = out->all ? out->all + graph->blocks.count : NULL;
	for (size_t s = 0; out->all && s < graph->programs.count; s++) {
		const lk_program *program = &graph->programs.at[s];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_call *call = &program->calls.at[c];
			out->all[call->block] += call->repeat;
			if (call->microbatch >= 0) out->passes[call->block] += call->repeat;
		}
	}
	return out->all != NULL;
}

static lk_status check(const lk_graph *graph, const lk_costs *costs, lk_error *err) {
	if (graph->programs.count != graph->ranks.stages || !graph->ranks.chains ||
	    costs->ops < graph->ops.count || !costs->variants)
		return lk_fail(err, LK_ERR_INPUT, "step graph",
		               "programs, ranks and costs do not belong together");
	for (size_t s = 0; s < graph->programs.count; s++)
		for (size_t c = 0; c < graph->programs.at[s].calls.count; c++)
			if (graph->programs.at[s].calls.at[c].block >= graph->blocks.count)
				return lk_fail(err, LK_ERR_INPUT, "step graph",
				               "stage %zu, call %zu: no such block", s, c);
	for (size_t t = 0; t < graph->teams.count; t++)
		if (graph->teams.at[t].begin > graph->teams.at[t].end ||
		    graph->teams.at[t].end > graph->team_stages.count)
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "team %zu has members that are not listed", t);
	return LK_OK;
}

lk_status lk_sim_fold(const lk_graph *graph, const lk_costs *costs, bool contention, lk_fold **out,
                      lk_error *err) {
	*out = NULL;
	LK_TRY(check(graph, costs, err));
	folder f = {.graph = graph, .costs = costs, .out = calloc(1, sizeof *f.out)};
	f.copied = calloc(graph->blocks.count + 1, sizeof *f.copied);
	f.pieces_end = calloc(graph->ranks.stages + 1, sizeof *f.pieces_end);
	f.cost = calloc(costs->variants, sizeof *f.cost);
	f.foreign = lk_fold_foreign(graph);
	f.part_ps = lk_fold_part_most(graph, costs);
	lk_fold_times times;
	bool counted = count_calls(graph, &times);
	lk_status status = f.out && f.copied && f.pieces_end && f.cost && counted ? LK_OK : lk_oom(err);
	f.parts = status == LK_OK && worth_parts(graph, &times);
	if (status == LK_OK) status = copy_frame(&f, err);
	if (status == LK_OK) status = lk_fold_find(graph, &f.runs, &f.pieces, f.pieces_end, err);
	if (status == LK_OK)
		status = lk_fold_pricer_new(&f.pricer, graph, costs, &times, contention, err);
	if (status == LK_OK) status = fold_programs(&f, err);
	if (status == LK_OK) status = take_tables(&f, err);
	lk_fold_pricer_free(&f.pricer);
	lk_vec_free(&f.runs);
	lk_vec_free(&f.pieces);
	lk_vec_free(&f.spans);
	lk_vec_free(&f.costs_of);
	free(f.copied);
	free(f.pieces_end);
	free(f.cost);
	free(times.all);
	lk_vec_free(&f.place);
	lk_vec_free(&f.deps);
	if (status == LK_OK) *out = f.out;
	else lk_fold_free(f.out);
	return status;
}

void lk_fold_free(lk_fold *fold) {
	if (!fold) return;
	lk_graph_free(fold->graph);
	lk_vec_free(&fold->samples);
	lk_arena_free(&fold->arena);
	free(fold);
}
