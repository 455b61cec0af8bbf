/* edit.c: a graph under edit, and edits that only change the durations of operations. */
#include "base/arena.h"
#include "graph/edit/edit.h"
#include "base/check.h"

#include <string.h>

/* ---- copies ---- */

static lk_status copy_names(const lk_graph *graph, lk_graph *to, lk_error *err) {
	for (uint32_t i = 0; i < lk_intern_count(graph->names); i++)
		if (lk_intern_id(to->names, lk_intern_text(graph->names, i)) != i) return lk_oom(err);
	return LK_OK;
}

#define COPY_VEC(to, from)                                                                 \
	do {                                                                                   \
		if (!lk_reserve(to, (from)->count)) return lk_oom(err);                            \
		if ((from)->count) memcpy((to)->at, (from)->at, (from)->count * sizeof *(to)->at); \
		(to)->count = (from)->count;                                                       \
	} while (0)

static lk_status copy_programs(const lk_graph *graph, lk_graph *to, lk_error *err) {
	if (!lk_reserve(&to->programs, graph->programs.count)) return lk_oom(err);
	for (size_t s = 0; s < graph->programs.count; s++) {
		const lk_program *from = &graph->programs.at[s];
		lk_program *program = &to->programs.at[to->programs.count++];
		*program = *from;
		memset(&program->calls, 0, sizeof program->calls);
		COPY_VEC(&program->calls, &from->calls);
	}
	COPY_VEC(&to->blocks, &graph->blocks);
	COPY_VEC(&to->wires, &graph->wires);
	COPY_VEC(&to->teams, &graph->teams);
	COPY_VEC(&to->team_stages, &graph->team_stages);
	return LK_OK;
}

lk_status lk_graph_copy(const lk_graph *graph, lk_graph **out, lk_error *err) {
	lk_graph *to = lk_graph_new();
	*out = NULL;
	if (!to) return lk_oom(err);
	to->channels = graph->channels;
	to->ranks = graph->ranks;
	to->traced = graph->traced;
	to->model_flops = graph->model_flops;
	to->tokens = graph->tokens;
	to->samples = graph->samples;
	to->peak_dtype = graph->peak_dtype;
	to->software = graph->software;
	lk_status status = copy_names(graph, to, err);
	if (status == LK_OK) status = lk_graph_copy_ops(graph, to, err);
	if (status == LK_OK) status = copy_programs(graph, to, err);
	if (status == LK_OK) *out = to;
	else lk_graph_free(to);
	return status;
}

lk_status lk_edit_begin(const lk_graph *graph, lk_edit *out, lk_error *err) {
	lk_graph *copy;
	memset(out, 0, sizeof *out);
	LK_TRY(lk_graph_copy(graph, &copy, err));
	return lk_edit_begin_own(copy, out, err);
}

lk_status lk_edit_begin_own(lk_graph *graph, lk_edit *out, lk_error *err) {
	*out = (lk_edit){.graph = graph};
	lk_ops *ops = &graph->ops;
	if (!lk_reserve(&out->op, ops->count)) {
		lk_edit_free(out);
		return lk_oom(err);
	}
	for (uint32_t i = 0; i < ops->count; i++) {
		out->op.at[out->op.count++] =
			(lk_edit_op){.measured_ps = (double)ops->measured_ps[i], .factor = 1};
		ops->measured_ps[i] = 0;
	}
	return LK_OK;
}

void lk_edit_free(lk_edit *edit) {
	if (!edit) return;
	lk_graph_free(edit->graph);
	lk_vec_free(&edit->op);
	edit->graph = NULL;
}

/* ---- names ---- */

/* One backtracking point is enough: an earlier '*' never needs to match more than the last one
 * can. */
bool lk_glob(const char *pattern, const char *name) {
	const char *star = NULL, *resume = NULL;
	while (*name) {
		if (*pattern == '*') {
			star = pattern++;
			resume = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star + 1;
			name = ++resume;
		} else return false;
	}
	while (*pattern == '*') pattern++;
	return *pattern == '\0';
}

static bool edit_matches(const lk_graph *graph, uint32_t op, const char *pattern) {
	return lk_glob(pattern, lk_graph_text(graph, graph->ops.name[op])) ||
	       strcmp(pattern, lk_op_kind_name(graph->ops.kind[op])) == 0;
}

static bool matches_any(const char *name, const char *const *patterns) {
	for (; *patterns; patterns++)
		if (lk_glob(*patterns, name)) return true;
	return false;
}

/* CUDA and HIP runtime calls that return when the device has caught up; and the idle times of
 * lifted traces: untraced ranks, a kernel's delay before its start, ranks that begin later, earlier
 * launches. */
bool lk_edit_waits(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	static const char *const patterns[] = {
		"*Synchronize*", "*synchronize*", "*StreamWait*", "*EventQuery*",     "peers",
		"arrival",       "gap",           "begin",        "before the trace", NULL};
	return graph->ops.kind[op] == LK_OP_HOST &&
	       matches_any(lk_graph_text(graph, graph->ops.name[op]), patterns);
}

/* Names of PyTorch's profiler and its relatives:
 * "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__". */
static bool edit_loads_data(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	static const char *const patterns[] = {"*DataLoader*",
	                                       "*dataloader*",
	                                       "*data_loader*",
	                                       "*data loading*",
	                                       "*data_loading*",
	                                       "*DataPipe*",
	                                       NULL};
	return graph->ops.kind[op] == LK_OP_HOST &&
	       matches_any(lk_graph_text(graph, graph->ops.name[op]), patterns);
}

/* ---- edits ---- */

void lk_edit_factor(lk_edit *edit, const char *pattern, double factor) {
	edit->changed = 0;
	for (uint32_t i = 0; i < edit->op.count; i++) {
		if (!edit_matches(edit->graph, i, pattern)) continue;
		edit->op.at[i].factor *= factor;
		edit->changed++;
	}
}

bool lk_edit_is_gap(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	return graph->traced && graph->ops.kind[op] == LK_OP_HOST &&
	       strcmp(lk_graph_text(graph, graph->ops.name[op]), "gap") == 0;
}

/* Remove everything except its place in its stream and its effect on memory. */
static void edit_empty(lk_edit *edit, uint32_t i) {
	lk_ops *ops = &edit->graph->ops;
	if (i > 0 && lk_edit_is_gap(edit->graph, i - 1) && ops->stream[i - 1] == ops->stream[i])
		edit->op.at[i - 1] = (lk_edit_op){.factor = 0};
	if (ops->kind[i] != LK_OP_HOST) ops->kind[i] = LK_OP_WAIT;
	ops->m[i] = ops->n[i] = ops->k[i] = ops->batch[i] = ops->flops[i] = ops->bytes[i] =
		ops->window[i] = ops->pieces[i] = 0;
	ops->group[i] = LK_GROUP_NONE;
	ops->channel[i] = 0;
	edit->op.at[i] = (lk_edit_op){.factor = 0};
}

void lk_edit_remove(lk_edit *edit, const char *pattern) {
	edit->changed = 0;
	for (uint32_t i = 0; i < edit->op.count; i++) {
		if (edit->graph->ops.kind[i] == LK_OP_WAIT || !edit_matches(edit->graph, i, pattern))
			continue;
		edit_empty(edit, i);
		edit->changed++;
	}
}

void lk_edit_host(lk_edit *edit, double factor) {
	edit->changed = 0;
	for (uint32_t i = 0; i < edit->op.count; i++) {
		if (edit->graph->ops.kind[i] != LK_OP_HOST || lk_edit_waits(edit->graph, i) ||
		    edit_loads_data(edit->graph, i))
			continue;
		edit->op.at[i].factor *= factor;
		edit->changed++;
	}
}

void lk_edit_data_loading(lk_edit *edit, double factor) {
	edit->changed = 0;
	for (uint32_t i = 0; i < edit->op.count; i++) {
		if (!edit_loads_data(edit->graph, i)) continue;
		edit->op.at[i].factor *= factor;
		edit->changed++;
	}
}

/* ---- rewritten blocks ---- */

uint32_t lk_rewrite_put(lk_rewrite *rewrite, const lk_op *op, const lk_edit_op *known) {
	uint32_t place = lk_graph_add(rewrite->to, op);
	if (!lk_push(&rewrite->edit->op)) rewrite->to->failed = true;
	else *lk_last(&rewrite->edit->op) = *known;
	return place;
}

lk_op lk_rewrite_op(lk_rewrite *rewrite, const lk_block *block, uint32_t i) {
	lk_op op = lk_graph_op(rewrite->from, i);
	uint32_t count = 0;
	(void)block;
	for (uint32_t d = 0; d < op.dep_count; d++)
		if (rewrite->place[op.deps[d]] != UINT32_MAX)
			rewrite->deps[count++] = rewrite->place[op.deps[d]];
	op.deps = rewrite->deps;
	op.dep_count = count;
	return op;
}

void lk_rewrite_copy(lk_rewrite *rewrite, const lk_block *block, uint32_t i) {
	lk_op op = lk_rewrite_op(rewrite, block, i);
	rewrite->place[i - block->begin] = lk_rewrite_put(rewrite, &op, &rewrite->known[i]);
}

static uint32_t most_deps(const lk_graph *graph, const lk_block *block) {
	const uint32_t *begin = graph->ops.dep_begin;
	return block->end > block->begin ? begin[block->end] - begin[block->begin] : 0;
}

static lk_status rewrite_block(lk_rewrite *rewrite, const lk_block *block, lk_rewriter *write,
                               lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	uint32_t id, size = block->end - block->begin;
	rewrite->place = LK_ARRAY(&arena, uint32_t, size);
	rewrite->deps = LK_ARRAY(&arena, uint32_t, (size_t)most_deps(rewrite->from, block) + 1);
	lk_graph_begin_block(rewrite->to, lk_intern_text(rewrite->from->names, block->name));
	if (!rewrite->place || !rewrite->deps) rewrite->to->failed = true;
	else memset(rewrite->place, 0xff, size * sizeof *rewrite->place);
	if (!rewrite->to->failed) write(rewrite, block);
	lk_arena_free(&arena);
	return lk_graph_end_block(rewrite->to, &id, err);
}

/* Like lk_graph_one_queue: only operations and blocks change, built in a graph that borrows the
 * names. */
lk_status lk_edit_rewrite(lk_edit *edit, lk_rewriter *write, const bool *mask, void *context,
                          lk_error *err) {
	lk_graph *to = lk_graph_new(), *graph = edit->graph;
	if (!to) return lk_oom(err);
	lk_intern *own = to->names;
	lk_edit after = {0};
	to->names = graph->names;
	lk_rewrite r = {.from = graph,
	                .known = edit->op.at,
	                .to = to,
	                .edit = &after,
	                .mask = mask,
	                .context = context};
	lk_status status = LK_OK;
	if (graph->ops.count)
		lk_graph_reserve(to, graph->ops.count, graph->ops.dep_begin[graph->ops.count]);
	for (size_t b = 0; status == LK_OK && b < graph->blocks.count; b++)
		status = rewrite_block(&r, &graph->blocks.at[b], write, err);
	to->names = own;
	if (status == LK_OK) {
		lk_graph before = *graph;
		graph->ops = to->ops;
		graph->blocks = to->blocks;
		to->ops = before.ops;
		to->blocks = before.blocks;
		lk_vec_free(&edit->op);
		memcpy(&edit->op, &after.op, sizeof edit->op);
		memset(&after.op, 0, sizeof after.op);
	}
	lk_vec_free(&after.op);
	lk_graph_free(to);
	return status;
}
