/* fold.c: the folded graph. Unfolded blocks of the source are copied when first called; every
 * distinct run becomes a block of one macro operation. Allocations are left out: memory is computed
 * from the source graph. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "sim/sim_internal.h"
#include "base/check.h"

typedef struct lk_folder {
	const lk_graph *graph;
	const lk_costs *costs;
	lk_fold *out;
	lk_fold_runs runs;
	lk_fold_pieces pieces;
	size_t *pieces_end; /* [stages] */
	lk_fold_pricer pricer;
	uint32_t *copied; /* [source blocks] 1 + block of the folded graph */
	const bool *keep; /* [calls of all programs] or NULL */
	lk_cost *cost;    /* [variants] of the last priced run */
	LK_VEC(lk_fold_span) spans;
	LK_VEC(lk_cost) costs_of; /* variants for each operation of the folded graph */
} lk_folder;

static lk_status folder_copy_frame(lk_folder *folder, lk_error *err) {
	lk_graph *to = folder->out->graph = lk_graph_new();
	if (!to) return lk_oom(err);
	for (uint32_t id = 0; id < lk_intern_count(folder->graph->names); id++)
		if (lk_intern_id(to->names, lk_intern_text(folder->graph->names, id)) != id)
			return lk_oom(err);
	LK_TRY(lk_graph_set_programs(to, folder->graph->ranks.stages, folder->graph->channels, err));
	for (uint32_t s = 0; s < folder->graph->ranks.stages; s++) {
		lk_program *program = &to->programs.at[s];
		const lk_program *from = &folder->graph->programs.at[s];
		program->name = from->name;
		program->events = from->events;
		program->channels = from->channels;
		memcpy(program->resident, from->resident, sizeof program->resident);
		memcpy(program->stream_names, from->stream_names, sizeof program->stream_names);
		program->threads = from->threads;
	}
	for (size_t t = 0; t < folder->graph->teams.count; t++) {
		const lk_team *team = &folder->graph->teams.at[t];
		lk_graph_add_team(to, lk_intern_text(to->names, team->name),
		                  folder->graph->team_stages.at + team->begin, team->end - team->begin,
		                  team->ranks, team->across);
	}
	if (to->failed) return lk_oom(err);
	to->traced = folder->graph->traced;
	if (folder->graph->wires.count != to->wires.count)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%zu wires", folder->graph->wires.count);
	if (to->wires.count)
		memcpy(to->wires.at, folder->graph->wires.at, to->wires.count * sizeof *to->wires.at);
	to->ranks = folder->graph->ranks;
	to->model_flops = folder->graph->model_flops;
	to->tokens = folder->graph->tokens;
	to->samples = folder->graph->samples;
	to->peak_dtype = folder->graph->peak_dtype;
	to->software = folder->graph->software;
	return LK_OK;
}

/* Enter the operation just added to the folded graph. */
static lk_status folder_book_op(lk_folder *folder, const lk_fold_span *span, const lk_cost *cost,
                                uint32_t stride, lk_error *err) {
	if (folder->out->graph->failed || !lk_push(&folder->spans)) return lk_oom(err);
	*lk_last(&folder->spans) = *span;
	for (uint32_t v = 0; v < folder->costs->variants; v++) {
		if (!lk_push(&folder->costs_of)) return lk_oom(err);
		*lk_last(&folder->costs_of) = cost[(size_t)v * stride];
	}
	return LK_OK;
}

/* Add the operation that represents a run to the open block. */
static lk_status folder_add_macro(lk_folder *folder, const lk_fold_run *run, lk_error *err) {
	const lk_call *call = &folder->graph->programs.at[run->stage].calls.at[run->begin];
	lk_fold_price price = {.cost = folder->cost};
	lk_fold_span span = {.stage = run->stage,
	                     .call_begin = run->begin,
	                     .call_end = run->end,
	                     .source_op = UINT32_MAX,
	                     .sample_begin = (uint32_t)folder->out->samples.count};
	LK_TRY(lk_fold_price_run(&folder->pricer, run, &price, &folder->out->samples, err));
	span.sample_end = (uint32_t)folder->out->samples.count;
	lk_graph_add(folder->out->graph,
	             &(lk_op){
					 .kind = LK_OP_MACRO,
					 .stream = LK_STREAM_COMPUTE,
					 .phase = call->pass,
					 .join = lk_fold_run_joins(folder->graph, run),
					 .name = lk_intern_text(folder->graph->names,
	                                        folder->graph->blocks.at[call->block].name),
					 .flops = price.flops,
					 .bytes = price.bytes,
				 });
	return folder_book_op(folder, &span, folder->cost, 1, err);
}

static lk_status folder_copy_op(lk_folder *folder, uint32_t stage, uint32_t call, uint32_t source,
                                lk_error *err) {
	lk_op op = lk_graph_op(folder->graph, source);
	lk_fold_span span = {.stage = stage, .call_begin = call, .call_end = call, .source_op = source};
	op.alloc = op.release = 0; /* memory is computed from the source graph */
	lk_graph_add(folder->out->graph, &op);
	return folder_book_op(folder, &span, lk_costs_get(folder->costs, 0, source), folder->costs->ops,
	                      err);
}

static lk_status folder_copy_block(lk_folder *folder, uint32_t stage, uint32_t call,
                                   uint32_t source, uint32_t *block, lk_error *err) {
	LK_ASSERT(stage < folder->graph->programs.count);
	uint32_t *copied = &folder->copied[source];
	if (*copied) {
		*block = *copied - 1;
		return LK_OK;
	}
	const lk_block *from = &folder->graph->blocks.at[source];
	lk_graph_begin_block(folder->out->graph, lk_intern_text(folder->graph->names, from->name));
	for (uint32_t op = from->begin; op < from->end; op++)
		LK_TRY(folder_copy_op(folder, stage, call, op, err));
	LK_TRY(lk_graph_end_block(folder->out->graph, block, err));
	*copied = *block + 1;
	return LK_OK;
}

static lk_status folder_make_block(lk_folder *folder, lk_fold_run *run, lk_error *err) {
	const lk_call *call = &folder->graph->programs.at[run->stage].calls.at[run->begin];
	uint32_t name = folder->graph->blocks.at[call->block].name;
	lk_graph_begin_block(folder->out->graph, lk_intern_text(folder->graph->names, name));
	LK_TRY(folder_add_macro(folder, run, err));
	return lk_graph_end_block(folder->out->graph, &run->block, err);
}

/* Allocate the calls of the folded programs, one per piece, and the first source call of each.
 * Pieces are ordered by stage. */
static lk_status folder_open_calls(lk_folder *folder, lk_error *err) {
	uint32_t stages = folder->graph->ranks.stages;
	folder->out->source_call = LK_ARRAY(&folder->out->arena, uint32_t *, stages);
	if (!folder->out->source_call) return lk_oom(err);
	for (uint32_t s = 0; s < stages; s++) {
		size_t count = folder->pieces_end[s] - (s ? folder->pieces_end[s - 1] : 0);
		folder->out->source_call[s] = LK_ARRAY(&folder->out->arena, uint32_t, count);
		if (!folder->out->source_call[s] ||
		    !lk_reserve(&folder->out->graph->programs.at[s].calls, count))
			return lk_oom(err);
	}
	return LK_OK;
}

/* Find the block of a piece; created for the first piece of its kind. */
static lk_status folder_find_block(lk_folder *folder, const lk_fold_piece *piece, uint32_t source,
                                   uint32_t *block, lk_error *err) {
	if (piece->run == UINT32_MAX)
		return folder_copy_block(folder, piece->stage, piece->begin, source, block, err);
	lk_fold_run *run = &folder->runs.at[piece->run];
	if (run->block == UINT32_MAX) LK_TRY(folder_make_block(folder, run, err));
	*block = run->block;
	return LK_OK;
}

static lk_status folder_fold_program(lk_folder *folder, uint32_t stage, lk_error *err) {
	size_t first = stage ? folder->pieces_end[stage - 1] : 0;
	if (first == folder->pieces_end[stage]) return LK_OK;
	const lk_fold_piece *piece = folder->pieces.at + first,
						*end = folder->pieces.at + folder->pieces_end[stage];
	const lk_call *calls = folder->graph->programs.at[stage].calls.at;
	lk_program *program = &folder->out->graph->programs.at[stage];
	lk_call *to = program->calls.at;
	uint32_t *source = folder->out->source_call[stage];
	program->calls.count = (size_t)(end - piece);
	LK_ASSERT(end[-1].end == folder->graph->programs.at[stage].calls.count);
	for (; piece < end; piece++, to++) {
		LK_ASSERT(piece->stage == stage && piece->begin < piece->end);
		LK_ASSERT(piece->begin ==
		          (piece == folder->pieces.at + first ? 0 : piece[-1].end)); /* no gaps */
		*to = calls[piece->begin];
		*source++ = piece->begin;
		LK_TRY(folder_find_block(folder, piece, to->block, &to->block, err));
		if (piece->run != UINT32_MAX) to->repeat = 1;
	}
	return LK_OK;
}

static lk_status folder_fold_programs(lk_folder *folder, lk_error *err) {
	LK_TRY(folder_open_calls(folder, err));
	for (uint32_t s = 0; s < folder->graph->ranks.stages; s++)
		LK_TRY(folder_fold_program(folder, s, err));
	return LK_OK;
}

/* Move spans and costs into the fold's arena; costs by variant first, as engines read them. */
static lk_status folder_take_tables(lk_folder *folder, lk_error *err) {
	lk_fold *out = folder->out;
	uint32_t ops = out->graph->ops.count, variants = folder->costs->variants;
	LK_ASSERT(folder->spans.count == ops && folder->costs_of.count == (size_t)ops * variants);
	size_t ranks = (size_t)folder->graph->ranks.stages * folder->graph->ranks.chains;
	out->span = LK_ARRAY(&out->arena, lk_fold_span, ops);
	out->costs = (lk_costs){.variants = variants,
	                        .ops = ops,
	                        .at = LK_ARRAY(&out->arena, lk_cost, (size_t)variants * ops)};
	if (folder->costs->variant_of) out->costs.variant_of = LK_ARRAY(&out->arena, uint16_t, ranks);
	if (!out->span || !out->costs.at || (folder->costs->variant_of && !out->costs.variant_of))
		return lk_oom(err);
	if (folder->costs->variant_of)
		memcpy(out->costs.variant_of, folder->costs->variant_of,
		       ranks * sizeof *out->costs.variant_of);
	for (uint32_t op = 0; op < ops; op++) {
		out->span[op] = folder->spans.at[op];
		for (uint32_t v = 0; v < variants; v++)
			out->costs.at[(size_t)v * ops + op] = folder->costs_of.at[(size_t)op * variants + v];
	}
	return LK_OK;
}

static bool times_count_calls(const lk_graph *graph, lk_fold_times *out) {
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

static lk_status fold_check_input(const lk_graph *graph, const lk_costs *costs, lk_error *err) {
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

lk_status lk_sim_fold(const lk_graph *graph, const lk_costs *costs, bool contention,
                      const bool *keep, lk_fold **out, lk_error *err) {
	*out = NULL;
	LK_TRY(fold_check_input(graph, costs, err));
	lk_folder folder = {
		.graph = graph, .costs = costs, .keep = keep, .out = calloc(1, sizeof *folder.out)};
	folder.copied = calloc(graph->blocks.count + 1, sizeof *folder.copied);
	folder.pieces_end = calloc(graph->ranks.stages + 1, sizeof *folder.pieces_end);
	folder.cost = calloc(costs->variants, sizeof *folder.cost);
	lk_fold_times times;
	bool counted = times_count_calls(graph, &times);
	lk_status status = folder.out && folder.copied && folder.pieces_end && folder.cost && counted
	                       ? LK_OK
	                       : lk_oom(err);
	if (status == LK_OK) status = folder_copy_frame(&folder, err);
	if (status == LK_OK)
		status =
			lk_fold_find_runs(graph, keep, &folder.runs, &folder.pieces, folder.pieces_end, err);
	if (status == LK_OK)
		status = lk_fold_pricer_new(&folder.pricer, graph, costs, &times, contention, err);
	if (status == LK_OK) status = folder_fold_programs(&folder, err);
	if (status == LK_OK) status = folder_take_tables(&folder, err);
	lk_fold_pricer_free(&folder.pricer);
	lk_vec_free(&folder.runs);
	lk_vec_free(&folder.pieces);
	lk_vec_free(&folder.spans);
	lk_vec_free(&folder.costs_of);
	free(folder.copied);
	free(folder.pieces_end);
	free(folder.cost);
	free(times.all);
	if (status == LK_OK) *out = folder.out;
	else lk_fold_free(folder.out);
	return status;
}

void lk_fold_free(lk_fold *fold) {
	if (!fold) return;
	lk_graph_free(fold->graph);
	lk_vec_free(&fold->samples);
	lk_arena_free(&fold->arena);
	free(fold);
}

/* ---- a folded run, split into calls again ---- */

static lk_status windows_open(lk_fold_windows *out, size_t first, const lk_sim_event *event,
                              lk_error *err) {
	int64_t begin = out->count == first ? 0 : event->start_ps;
	if (out->count > first) lk_last(out)->end_ps = begin;
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_fold_window){.call = event->call,
	                                 .repetition = event->repetition,
	                                 .begin_ps = begin,
	                                 .end_ps = begin,
	                                 .times = 1};
	return LK_OK;
}

/* Shortened repeats: the window before the last of a call is in the steady state and represents the
 * rest. */
static void windows_stretch(const lk_program *program, lk_fold_window *window, size_t count) {
	int64_t shift = 0;
	for (size_t i = 0; i < count;) {
		size_t ran = 1;
		while (i + ran < count && window[i + ran].call == window[i].call) ran++;
		size_t steady = ran >= 2 ? i + ran - 2 : i;
		for (size_t k = i; k <= steady; k++) window[k].shift_ps = shift;
		uint32_t repeat = program->calls.at[window[i].call].repeat;
		if (repeat > ran) {
			window[steady].times += (double)(repeat - ran);
			shift += (int64_t)(repeat - ran) * (window[steady].end_ps - window[steady].begin_ps);
		}
		for (size_t k = steady + 1; k < i + ran; k++) window[k].shift_ps = shift;
		i += ran;
	}
}

lk_status lk_fold_windows_of(const lk_graph *source, const lk_fold *fold, uint32_t op,
                             lk_fold_windows *out, lk_error *err) {
	LK_ASSERT(op < fold->graph->ops.count);
	const lk_fold_span *span = &fold->span[op];
	size_t first = out->count;
	int64_t end = 0;
	for (uint32_t i = span->sample_begin; i < span->sample_end; i++) {
		const lk_sim_event *event = &fold->samples.at[i];
		if (event->end_ps > end) end = event->end_ps;
		if (source->ops.stream[event->op] != LK_STREAM_COMPUTE) continue;
		if (out->count > first && lk_last(out)->call == event->call &&
		    lk_last(out)->repetition == event->repetition)
			continue;
		LK_TRY(windows_open(out, first, event, err));
	}
	if (out->count == first) return LK_OK;
	lk_last(out)->end_ps = end;
	windows_stretch(&source->programs.at[span->stage], out->at + first, out->count - first);
	return LK_OK;
}
