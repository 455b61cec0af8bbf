/* edit_replace.c: replace the end of a predicted step, from complete or partial gradients to new
 * weights, by a lockstep compile program lowered to a graph of one stage.
 *
 * Removed are the norm of the gradients and its reduction, the pass over the optimizer's states
 * and, if the program does them itself, the reduction of the gradients and the gathering of the
 * weights, wherever they are in the step. The program's operations follow the last of them without
 * overlap: they wait for all that was issued, and everything later waits for them. A stage whose
 * ranks update fewer parameters than the largest one runs the program with proportionally fewer
 * bytes.
 *
 * If a program begins with collectives that only reduce all gradients, each gradient can be reduced
 * as soon as it is complete: then the step's reductions keep their buckets, places and overlap,
 * with the program's kind and bytes. So do its gathers if the program ends with gathers of all
 * weights. Collectives fused with a pass stay at the end. A step that holds slices (ZeRO 2 and 3)
 * reduces and gathers in its passes as before: only the update of slices is taken from the program,
 * whose ends must be such collectives. */
#include "base/arena.h"
#include "graph/edit/edit.h"

#include <math.h>
#include <string.h>

enum {
	MODEL_STREAMS = (1u << 16) - 2 /* all streams of a rank except the host's */
};
#define TOLERANCE 0.01 /* of the parameters: frameworks pad them */

struct replacement {
	const lk_graph *update;
	const lk_program *program;
	const lk_block *block;  /* of its only call */
	const double *share;    /* [blocks] share of the program's bytes; 0: not the end of a step */
	uint32_t *place, *deps; /* new places of the program's operations; scratch space */
	/* The program's operations before `head` reduce all gradients, those from `tail` on gather all
	 * weights; the step's own do it instead. */
	uint32_t head, tail;
	/* [blocks] their bytes over those of the step's operations */
	const double *reduced, *gathered;
	bool reduces, gathers;
	uint32_t replaced;
};

/* ---- removed operations ---- */

static bool replace_ends_step(const lk_graph *graph, uint32_t i) {
	return graph->ops.phase[i] == LK_PHASE_OPTIMIZER;
}

/* A pass over states, or over gradients for their norm. An average of the weights is not part of
 * the optimizer. */
static bool replace_is_pass(const lk_graph *graph, uint32_t i) {
	return graph->ops.kind[i] == LK_OP_OPTIMIZER && replace_ends_step(graph, i) &&
	       strcmp(lk_graph_text(graph, graph->ops.name[i]), "average") != 0;
}

/* Weights gathered in the step's passes as needed: they are sharded. */
static bool replace_is_sharded(const lk_graph *graph, uint32_t i) {
	return graph->ops.kind[i] == LK_OP_ALLGATHER && graph->ops.phase[i] == LK_PHASE_FORWARD &&
	       lk_edit_is_data_parallel(graph, i, NULL);
}

static bool replace_is_gather(const lk_graph *graph, uint32_t i) {
	return graph->ops.kind[i] == LK_OP_ALLGATHER && graph->ops.phase[i] != LK_PHASE_FORWARD &&
	       graph->ops.phase[i] != LK_PHASE_BACKWARD && lk_edit_is_data_parallel(graph, i, NULL);
}

static bool replace_is_reduction(const lk_graph *graph, uint32_t i) {
	return lk_edit_reduces_gradients(graph, i, NULL);
}

static bool replace_takes(const struct replacement *r, const lk_graph *graph, uint32_t i) {
	if (replace_is_pass(graph, i)) return true;
	if (graph->ops.group[i] == LK_GROUP_MODEL) return replace_ends_step(graph, i);
	if (replace_is_reduction(graph, i)) return r->reduces;
	return r->gathers && replace_is_gather(graph, i);
}

/* ---- what does not fit ---- */

static lk_status replace_refuse(lk_error *err, const char *what, const char *hint) {
	lk_fail(err, LK_ERR_INPUT, "replace", "%s", what);
	return lk_hint(err, "%s", hint);
}

/* Weights that the step gathers in its passes (ZeRO 2 and 3), after their update (ZeRO 1), or
 * never, as every replica has them whole. */
enum replace_zero { REPLACE_WHOLE, REPLACE_GATHERED, REPLACE_SHARDED };

static enum replace_zero replace_zero_of(const lk_graph *graph) {
	enum replace_zero zero = REPLACE_WHOLE;
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		if (!replace_ends_step(graph, i) && replace_is_sharded(graph, i)) return REPLACE_SHARDED;
		if (replace_is_gather(graph, i)) zero = REPLACE_GATHERED;
	}
	return zero;
}

/* A step that holds slices does in its passes what the program's ends do, if these only reduce and
 * gather everything. */
static lk_status replace_check_sharded(const struct replacement *r, lk_error *err) {
	const lk_program *program = r->program;
	bool scatters = r->head > r->block->begin &&
	                r->update->ops.kind[r->block->begin] == LK_OP_REDUCESCATTER,
		 gathers = r->tail < r->block->end;
	if ((program->takes_slices || scatters) && (program->leaves_slices || gathers)) return LK_OK;
	if (r->reduces && r->gathers)
		return replace_refuse(
			err,
			"the step reduces gradients and gathers weights in its passes (ZeRO 2 or 3), and the "
			"program's reduce-scatter or gather is one with its update",
			"leave them out of fuse and overlap, or predict with --zero 0 or 1");
	return replace_refuse(
		err,
		"the step holds slices of gradients and weights (ZeRO 2 or 3), and the program updates "
		"them whole",
		"give a schedule that slices: split, reorder, slice; or predict with --zero 0");
}

/* Check who reduces and who gathers, and that somebody does. */
static lk_status replace_check_zero(const struct replacement *r, const lk_graph *graph,
                                    enum replace_zero zero, lk_error *err) {
	const lk_program *program = r->program;
	if (zero == REPLACE_SHARDED) return replace_check_sharded(r, err);
	if (zero == REPLACE_GATHERED && !r->gathers && !program->leaves_slices)
		return replace_refuse(
			err,
			"the step gathers weights after their update (ZeRO 1), and the program updates them "
			"whole",
			"give a schedule that slices: split, reorder, slice; or predict with --zero 0");
	if (zero == REPLACE_WHOLE && program->leaves_slices && !r->gathers &&
	    graph->ranks.group[LK_GROUP_DP].size > 1)
		return replace_refuse(
			err, "the program leaves slices of the weights, and the step gathers none (ZeRO 0)",
			"give a program that gathers them, or predict with --zero 1");
	return LK_OK;
}

/* The step must have an optimizer that runs on the device, in one pass over all states. */
static lk_status replace_check_step(const lk_graph *graph, lk_error *err) {
	bool passes = false;
	if (graph->traced)
		return replace_refuse(err,
		                      "the step is of a trace, which does not say what updates weights",
		                      "give a graph of lockstep predict --graph");
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		unsigned kind = graph->ops.kind[i];
		passes |= replace_is_pass(graph, i);
		if (!replace_ends_step(graph, i)) continue;
		if (kind == LK_OP_GEMM)
			return replace_refuse(err, "the step's optimizer works on matrices",
			                      "predict with --optimizer adam, sgd or lion");
		if (kind == LK_OP_COPY)
			return replace_refuse(err, "the step's optimizer runs on the host",
			                      "predict without --offload-optimizer");
	}
	if (passes) return LK_OK;
	return replace_refuse(err, "the step has no optimizer", "give a step that trains");
}

static lk_status replace_check_size(const char *what, double has, double wants, lk_error *err) {
	if (has == wants) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "replace", "the program has %.0f %s, the step %.0f", has, what,
	        wants);
	return lk_hint(err, "write it anew with the --sizes of predict --emit program");
}

/* The groups of the program's operations must be groups of the step: dp, also split in two; one
 * more axis is all ranks of the model, over which a norm is reduced. */
static lk_status replace_check_groups(const lk_graph *graph, const lk_graph *update,
                                      lk_error *err) {
	const lk_ranks *of = &update->ranks, *to = &graph->ranks;
	for (uint32_t i = 0; i < update->ops.count; i++) {
		unsigned group = update->ops.group[i];
		if (group == LK_GROUP_NONE || group == LK_GROUP_DP || group == LK_GROUP_TP ||
		    group == LK_GROUP_SHARD || group == LK_GROUP_REPLICA)
			continue;
		return replace_refuse(err, "the program communicates over axes that no optimizer has",
		                      "use axes dp and model, as predict --emit program writes them");
	}
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		unsigned group = graph->ops.group[i];
		if (group == LK_GROUP_EDP && to->group[group].size != to->group[LK_GROUP_DP].size)
			return replace_refuse(err, "experts are updated by other ranks than the rest is",
			                      "predict without --ep");
		if (group == LK_GROUP_REPLICA && to->group[group].size > 1)
			return replace_refuse(err, "hybrid sharding divides the ranks that hold gradients",
			                      "predict without --shard-group");
	}
	double copies = (double)of->group[LK_GROUP_DP].size * of->group[LK_GROUP_SHARD].size *
	                of->group[LK_GROUP_REPLICA].size;
	LK_TRY(replace_check_size("data-parallel ranks", copies, to->group[LK_GROUP_DP].size, err));
	return of->group[LK_GROUP_TP].size == 1
	           ? LK_OK
	           : replace_check_size("ranks of one model", of->group[LK_GROUP_TP].size,
	                                to->world / (double)to->group[LK_GROUP_DP].size, err);
}

static lk_status replace_check_parameters(const lk_graph *graph, const lk_program *program,
                                          lk_error *err) {
	double most = 0;
	for (size_t s = 0; s < graph->programs.count; s++)
		most = fmax(most, graph->programs.at[s].updated);
	if (most <= 0)
		return replace_refuse(err, "the step does not say how many parameters a rank updates",
		                      "give a graph that this version of lockstep predict has written");
	if (fabs(program->updated / most - 1) <= TOLERANCE) return LK_OK;
	return replace_check_size("parameters", program->updated, most, err);
}

static lk_status replace_check_update(const lk_graph *update, lk_error *err) {
	const lk_program *program = update->programs.at;
	if (update->programs.count == 1 && program->calls.count == 1 &&
	    program->calls.at[0].repeat == 1 && program->updated > 0 && !update->traced)
		return LK_OK;
	return replace_refuse(
		err,
		update->programs.count > 1 ? "ranks of the replacement run different programs"
								   : "the replacement is not a program that takes gradients",
		"give the graph of a program that predict --emit program began, written by "
		"compile tune --graph or compile emit --target graph");
}

/* ---- operations that stay in place ---- */

/* A collective of the data-parallel group that waits for everything and is waited for. */
static bool replace_stands_alone(const lk_graph *update, uint32_t i) {
	return update->ops.group[i] == LK_GROUP_DP && update->ops.join[i] != 0 &&
	       lk_graph_op(update, i).dep_count == 0;
}

static bool replace_is_whole(const struct replacement *r, uint32_t begin, uint32_t end) {
	const lk_ops *ops = &r->update->ops;
	double elements = 0;
	for (uint32_t i = begin; i < end; i++)
		elements += ops->bytes[i] / lk_dtype_bytes((lk_dtype)ops->dtype[i]);
	return fabs(elements / r->program->updated - 1) <= TOLERANCE;
}

/* Find the leading and trailing operations of the program that the step's own operations can
 * replace. */
static void replace_find_ends(struct replacement *r) {
	const lk_graph *update = r->update;
	const lk_block *block = r->block;
	const uint8_t *kind = update->ops.kind;
	uint32_t head = block->begin, tail = block->end;
	while (head < block->end && kind[head] == kind[block->begin] &&
	       replace_is_reduction(update, head) && replace_stands_alone(update, head))
		head++;
	while (tail > head && kind[tail - 1] == LK_OP_ALLGATHER &&
	       replace_stands_alone(update, tail - 1))
		tail--;
	r->head = replace_is_whole(r, block->begin, head) ? head : block->begin;
	r->tail = replace_is_whole(r, tail, block->end) ? tail : block->end;
}

static double replace_bytes(const lk_graph *graph, uint32_t begin, uint32_t end,
                            bool (*is)(const lk_graph *, uint32_t)) {
	double bytes = 0;
	for (uint32_t i = begin; i < end; i++)
		if (is(graph, i)) bytes += graph->ops.bytes[i];
	return bytes;
}

/* Bytes of the program's operations over those of the step's, per block; false if a stage has none
 * of them. */
static bool replace_set_ratios(const struct replacement *r, const lk_graph *graph, double bytes,
                               bool (*is)(const lk_graph *, uint32_t), double *ratio) {
	for (size_t s = 0; s < graph->programs.count; s++) {
		const lk_program *stage = &graph->programs.at[s];
		double has = 0;
		for (size_t c = 0; c < stage->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[stage->calls.at[c].block];
			has += stage->calls.at[c].repeat * replace_bytes(graph, block->begin, block->end, is);
		}
		if (has <= 0) return false;
		for (size_t c = 0; c < stage->calls.count; c++)
			ratio[stage->calls.at[c].block] = bytes * stage->updated / r->program->updated / has;
	}
	return true;
}

static void replace_keep_ends(struct replacement *r, const lk_graph *graph, double *reduced,
                              double *gathered) {
	const lk_block *block = r->block;
	const double *bytes = r->update->ops.bytes;
	double head = 0, tail = 0;
	for (uint32_t i = block->begin; i < r->head; i++) head += bytes[i];
	for (uint32_t i = r->tail; i < block->end; i++) tail += bytes[i];
	if (head <= 0 || !replace_set_ratios(r, graph, head, replace_is_reduction, reduced))
		r->head = block->begin;
	if (tail <= 0 || !replace_set_ratios(r, graph, tail, replace_is_gather, gathered))
		r->tail = block->end;
	r->reduced = r->head > block->begin ? reduced : NULL;
	r->gathered = r->tail < block->end ? gathered : NULL;
}

/* ---- writing ---- */

/* Remove everything except its place in its stream and its effect on memory. */
static lk_op replace_emptied(lk_op op) {
	return (lk_op){.kind = LK_OP_WAIT,
	               .stream = op.stream,
	               .phase = op.phase,
	               .join = op.join,
	               .wait = op.wait,
	               .signal = op.signal,
	               .name = op.name,
	               .deps = op.deps,
	               .dep_count = op.dep_count,
	               .alloc = op.alloc,
	               .release = op.release,
	               .alloc_owner = op.alloc_owner,
	               .release_owner = op.release_owner};
}

/* Scratch that it took and gave back goes too. */
static void replace_empty(lk_rewrite *rewrite, const lk_block *block, uint32_t i) {
	lk_op op = replace_emptied(lk_rewrite_op(rewrite, block, i));
	if (op.alloc == op.release) op.alloc = op.release = 0;
	rewrite->place[i - block->begin] = lk_rewrite_put(rewrite, &op, &(lk_edit_op){.factor = 1});
}

/* Keep the step's own operation in place of the program's of that kind. */
static void replace_keep(lk_rewrite *rewrite, const lk_block *block, uint32_t i, unsigned kind,
                         double ratio) {
	lk_op op = lk_rewrite_op(rewrite, block, i);
	op.kind = (uint8_t)kind;
	op.bytes *= ratio;
	rewrite->place[i - block->begin] = lk_rewrite_put(rewrite, &op, &rewrite->known[i]);
}

static void replace_wait(lk_rewrite *rewrite) {
	lk_op op = {.kind = LK_OP_WAIT,
	            .stream = LK_STREAM_COMPUTE,
	            .phase = LK_PHASE_OPTIMIZER,
	            .join = MODEL_STREAMS,
	            .name = "wait"};
	lk_rewrite_put(rewrite, &op, &(lk_edit_op){.factor = 1});
}

static void replace_put_block(lk_rewrite *rewrite, const struct replacement *r, double share) {
	const lk_block *block = r->block;
	for (uint32_t i = block->begin; i < block->end; i++) {
		lk_op op = lk_graph_op(r->update, i);
		for (uint32_t d = 0; d < op.dep_count; d++) r->deps[d] = r->place[op.deps[d]];
		op.deps = r->deps;
		op.phase = LK_PHASE_OPTIMIZER;
		if (i < r->head || i >= r->tail) op = replace_emptied(op);
		if (op.kind == LK_OP_ELEMENTWISE) op.kind = LK_OP_OPTIMIZER;
		if (op.group == LK_GROUP_TP) op.group = LK_GROUP_MODEL;
		op.bytes *= share;
		op.alloc *= share;
		op.release *= share;
		r->place[i - block->begin] = lk_rewrite_put(rewrite, &op, &(lk_edit_op){.factor = 1});
	}
}

static void replace_put_program(lk_rewrite *rewrite, const struct replacement *r, double share) {
	replace_wait(rewrite);
	replace_put_block(rewrite, r, share);
	replace_wait(rewrite);
}

/* An operation replaced by the program. */
static void replace_op(lk_rewrite *rewrite, const lk_block *block, uint32_t i) {
	struct replacement *r = rewrite->context;
	size_t at = (size_t)(block - rewrite->from->blocks.at);
	r->replaced++;
	if (r->reduced && replace_is_reduction(rewrite->from, i))
		replace_keep(rewrite, block, i, r->update->ops.kind[r->head - 1], r->reduced[at]);
	else if (r->gathered && replace_is_gather(rewrite->from, i))
		replace_keep(rewrite, block, i, LK_OP_ALLGATHER, r->gathered[at]);
	else replace_empty(rewrite, block, i);
}

static void replace_block(lk_rewrite *rewrite, const lk_block *block) {
	struct replacement *r = rewrite->context;
	double share = r->share[block - rewrite->from->blocks.at];
	uint32_t last = block->end;
	for (uint32_t i = block->begin; i < block->end; i++)
		if (replace_is_pass(rewrite->from, i)) last = i;
	for (uint32_t i = block->begin; i < block->end; i++) {
		if (replace_takes(r, rewrite->from, i)) replace_op(rewrite, block, i);
		else lk_rewrite_copy(rewrite, block, i);
		if (i == last && share > 0) replace_put_program(rewrite, r, share);
	}
}

/* ---- the whole ---- */

/* The share of the program for each block at a step's end; stages have their own blocks. */
static void replace_set_shares(const lk_graph *graph, const lk_program *program, double *share) {
	for (size_t s = 0; s < graph->programs.count; s++)
		for (size_t c = 0; c < graph->programs.at[s].calls.count; c++)
			share[graph->programs.at[s].calls.at[c].block] =
				graph->programs.at[s].updated / program->updated;
}

/* Groups of ranks of one data-parallel group, each of neighbours, and across them. */
static void replace_set_groups(lk_graph *graph, const lk_graph *update) {
	lk_ranks *to = &graph->ranks;
	uint32_t inner = update->ranks.group[LK_GROUP_SHARD].size,
			 outer = update->ranks.group[LK_GROUP_REPLICA].size,
			 stride = to->group[LK_GROUP_DP].stride;
	if (inner * outer <= 1) return;
	to->group[LK_GROUP_SHARD].size = inner;
	to->group[LK_GROUP_SHARD].stride = stride;
	to->group[LK_GROUP_REPLICA].size = outer;
	to->group[LK_GROUP_REPLICA].stride = stride * inner;
}

static bool replace_gathers(const lk_graph *update) {
	for (uint32_t i = 0; i < update->ops.count; i++)
		if (update->ops.kind[i] == LK_OP_ALLGATHER) return true;
	return false;
}

static lk_status replace_make(lk_edit *edit, struct replacement *r, enum replace_zero zero,
                              lk_arena *arena, lk_error *err) {
	lk_graph *graph = edit->graph;
	size_t blocks = graph->blocks.count, ops = r->update->ops.count;
	double *share = LK_ARRAY(arena, double, blocks + 1),
		   *reduced = LK_ARRAY(arena, double, blocks + 1),
		   *gathered = LK_ARRAY(arena, double, blocks + 1);
	r->place = LK_ARRAY(arena, uint32_t, ops + 1);
	r->deps = LK_ARRAY(arena, uint32_t, ops + 1);
	if (!share || !reduced || !gathered || !r->place || !r->deps) return lk_oom(err);
	r->share = share;
	replace_set_shares(graph, r->program, share);
	if (zero == REPLACE_SHARDED) r->reduces = r->gathers = false;
	else replace_keep_ends(r, graph, reduced, gathered);
	LK_TRY(lk_edit_rewrite(edit, replace_block, NULL, r, err));
	replace_set_groups(graph, r->update);
	for (size_t s = 0; s < graph->programs.count; s++) {
		lk_program *stage = &graph->programs.at[s];
		stage->resident[LK_OWN_OPTIMIZER] =
			r->program->resident[LK_OWN_OPTIMIZER] * (stage->updated / r->program->updated);
	}
	edit->changed = r->replaced;
	return lk_graph_check(graph, err);
}

lk_status lk_edit_replace_update(lk_edit *edit, const lk_graph *update, lk_error *err) {
	LK_TRY(replace_check_update(update, err));
	struct replacement r = {.update = update,
	                        .program = &update->programs.at[0],
	                        .block = &update->blocks.at[update->programs.at[0].calls.at[0].block],
	                        .reduces = update->programs.at[0].reduces,
	                        .gathers = replace_gathers(update)};
	LK_TRY(replace_check_step(edit->graph, err));
	LK_TRY(replace_check_groups(edit->graph, update, err));
	LK_TRY(replace_check_parameters(edit->graph, r.program, err));
	enum replace_zero zero = replace_zero_of(edit->graph);
	replace_find_ends(&r);
	LK_TRY(replace_check_zero(&r, edit->graph, zero, err));
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = replace_make(edit, &r, zero, &arena, err);
	lk_arena_free(&arena);
	return status;
}
