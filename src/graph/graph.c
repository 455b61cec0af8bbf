/* graph.c: building a step graph: columns that grow together, blocks, programs, wires. */
#include "graph/graph.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* Every column of lk_ops with one element per operation, except SPARSE_COLUMNS. */
/* clang-format off */
#define OP_COLUMNS(X)                                                                              \
	X(kind) X(stream) X(phase) X(group) X(dtype) X(flags) X(name) X(m) X(n) X(k) X(batch) X(flops) \
	X(bytes) X(channel) X(measured_ps)
/* clang-format on */

/* Columns that few graphs fill, and traces never. Zeros are not written there: untouched pages of
 * fresh zeroed memory take no space. */
/* clang-format off */
#define SPARSE_COLUMNS(X)                                          \
	X(wait) X(signal) X(join) X(window) X(pieces) X(alloc) X(release) \
	X(alloc_owner) X(release_owner)
/* clang-format on */

lk_graph *lk_graph_new(void) {
	lk_graph *graph = calloc(1, sizeof *graph);
	if (!graph) return NULL;
	graph->names = lk_intern_new();
	if (!graph->names) {
		free(graph);
		return NULL;
	}
	for (int g = 0; g < LK_GROUPS; g++) {
		graph->ranks.group[g].size = 1;
		graph->ranks.group[g].stride = 1;
	}
	return graph;
}

void lk_graph_free(lk_graph *graph) {
	if (!graph) return;
	lk_ops *ops = &graph->ops;
#define FREE_COLUMN(column) free(ops->column);
	OP_COLUMNS(FREE_COLUMN)
	SPARSE_COLUMNS(FREE_COLUMN)
#undef FREE_COLUMN
	free(ops->dep_begin);
	free(ops->deps);
	for (size_t i = 0; i < graph->programs.count; i++) lk_vec_free(&graph->programs.at[i].calls);
	lk_vec_free(&graph->programs);
	lk_vec_free(&graph->blocks);
	lk_vec_free(&graph->wires);
	lk_vec_free(&graph->teams);
	lk_vec_free(&graph->team_stages);
	lk_intern_free(graph->names);
	free(graph);
}

static bool graph_grow_sparse(void **column, size_t before, size_t capacity, size_t size) {
	void *grown = before ? realloc(*column, capacity * size) : calloc(capacity, size);
	if (!grown) return false;
	if (before) memset((char *)grown + before * size, 0, (capacity - before) * size);
	else free(*column);
	*column = grown;
	return true;
}

static bool all_zero(const void *column, size_t bytes) {
	const unsigned char *at = column;
	return !bytes || (!*at && memcmp(at, at + 1, bytes - 1) == 0);
}

static bool graph_grow(void **column, size_t capacity, size_t size) {
	void *grown = realloc(*column, capacity * size);
	if (grown) *column = grown;
	return grown != NULL;
}

static bool ops_grow(lk_ops *ops, uint32_t capacity) {
	bool ok = graph_grow((void **)&ops->dep_begin, capacity + 1, sizeof *ops->dep_begin);
#define GROW_COLUMN(column) \
	ok = ok && graph_grow((void **)&ops->column, capacity, sizeof *ops->column);
	OP_COLUMNS(GROW_COLUMN)
#undef GROW_COLUMN
#define GROW_SPARSE(column)                                                                        \
	ok = ok && graph_grow_sparse((void **)&ops->column, ops->column ? ops->capacity : 0, capacity, \
	                             sizeof *ops->column);
	SPARSE_COLUMNS(GROW_SPARSE)
#undef GROW_SPARSE
	if (!ok) return false;
	if (ops->count == 0) ops->dep_begin[0] = 0;
	ops->capacity = capacity;
	return true;
}

static bool deps_grow(lk_ops *ops, uint32_t capacity) {
	if (!graph_grow((void **)&ops->deps, capacity, sizeof *ops->deps)) return false;
	ops->dep_capacity = capacity;
	return true;
}

static bool ops_reserve(lk_ops *ops, uint32_t dep_count) {
	if (ops->count == ops->capacity) {
		if (ops->capacity > UINT32_MAX / 4) return false;
		if (!ops_grow(ops, ops->capacity ? ops->capacity * 2 : 256)) return false;
	}
	uint32_t used = ops->dep_begin[ops->count];
	if (dep_count > UINT32_MAX / 2 - used) return false;
	return used + dep_count <= ops->dep_capacity || deps_grow(ops, (used + dep_count) * 2);
}

void lk_graph_reserve(lk_graph *graph, size_t ops, size_t deps) {
	const lk_ops *has = &graph->ops;
	if (ops > UINT32_MAX / 4 || deps > UINT32_MAX / 4) return;
	if ((ops > has->capacity && !ops_grow(&graph->ops, (uint32_t)ops)) ||
	    (deps > has->dep_capacity && !deps_grow(&graph->ops, (uint32_t)deps)))
		graph->failed = true;
}

lk_status lk_graph_copy_ops(const lk_graph *from, lk_graph *to, lk_error *err) {
	LK_ASSERT(to->ops.count == 0);
	const lk_ops *ops = &from->ops;
	if (!ops->count) return LK_OK;
	uint32_t deps = ops->dep_begin[ops->count];
	lk_graph_reserve(to, ops->count, deps);
	if (to->failed) return lk_oom(err);
#define COPY_COLUMN(column) memcpy(to->ops.column, ops->column, ops->count * sizeof *ops->column);
	OP_COLUMNS(COPY_COLUMN)
#undef COPY_COLUMN
#define COPY_SPARSE(column)                                       \
	if (!all_zero(ops->column, ops->count * sizeof *ops->column)) \
		memcpy(to->ops.column, ops->column, ops->count * sizeof *ops->column);
	SPARSE_COLUMNS(COPY_SPARSE)
#undef COPY_SPARSE
	memcpy(to->ops.dep_begin, ops->dep_begin, (ops->count + (size_t)1) * sizeof *ops->dep_begin);
	if (deps) memcpy(to->ops.deps, ops->deps, deps * sizeof *ops->deps);
	to->ops.count = ops->count;
	return LK_OK;
}

void lk_graph_begin_block(lk_graph *graph, const char *name) {
	if (graph->failed) return;
	uint32_t id = lk_intern_id(graph->names, name);
	if (id == UINT32_MAX || !lk_push(&graph->blocks)) {
		graph->failed = true;
		return;
	}
	lk_block *block = lk_last(&graph->blocks);
	block->name = id;
	block->begin = block->end = graph->ops.count;
}

uint32_t lk_graph_add(lk_graph *graph, const lk_op *op) {
	lk_ops *ops = &graph->ops;
	uint32_t name = UINT32_MAX;
	if (!graph->failed) name = lk_intern_id(graph->names, op->name ? op->name : "");
	if (name == UINT32_MAX || !ops_reserve(ops, op->dep_count)) {
		graph->failed = true;
		return 0;
	}
	uint32_t i = ops->count++;
	ops->kind[i] = op->kind;
	ops->stream[i] = op->stream;
	ops->phase[i] = op->phase;
	ops->group[i] = op->group;
	ops->dtype[i] = op->dtype;
	ops->flags[i] = op->flags;
	if (op->wait) ops->wait[i] = op->wait;
	if (op->signal) ops->signal[i] = op->signal;
	if (op->alloc_owner) ops->alloc_owner[i] = op->alloc_owner;
	if (op->release_owner) ops->release_owner[i] = op->release_owner;
	if (op->join) ops->join[i] = op->join;
	ops->name[i] = name;
	ops->m[i] = op->m;
	ops->n[i] = op->n;
	ops->k[i] = op->k;
	ops->batch[i] = op->batch;
	ops->flops[i] = op->flops;
	ops->bytes[i] = op->bytes;
	if (op->window != 0) ops->window[i] = op->window;
	if (op->pieces != 0) ops->pieces[i] = op->pieces;
	if (op->alloc != 0) ops->alloc[i] = op->alloc;
	if (op->release != 0) ops->release[i] = op->release;
	ops->channel[i] = op->channel;
	ops->measured_ps[i] = op->measured_ps;
	uint32_t at = ops->dep_begin[i];
	if (op->dep_count) memcpy(ops->deps + at, op->deps, op->dep_count * sizeof *ops->deps);
	ops->dep_begin[i + 1] = at + op->dep_count;
	return i - lk_last(&graph->blocks)->begin;
}

lk_status lk_graph_end_block(lk_graph *graph, uint32_t *id, lk_error *err) {
	if (graph->failed) return lk_oom(err);
	lk_last(&graph->blocks)->end = graph->ops.count;
	*id = (uint32_t)graph->blocks.count - 1;
	return LK_OK;
}

lk_op lk_graph_op(const lk_graph *graph, uint32_t at) {
	const lk_ops *ops = &graph->ops;
	return (lk_op){
		.kind = ops->kind[at],
		.stream = ops->stream[at],
		.phase = ops->phase[at],
		.group = ops->group[at],
		.dtype = ops->dtype[at],
		.flags = ops->flags[at],
		.join = ops->join[at],
		.wait = ops->wait[at],
		.signal = ops->signal[at],
		.name = lk_intern_text(graph->names, ops->name[at]),
		.m = ops->m[at],
		.n = ops->n[at],
		.k = ops->k[at],
		.batch = ops->batch[at],
		.flops = ops->flops[at],
		.bytes = ops->bytes[at],
		.window = ops->window[at],
		.pieces = ops->pieces[at],
		.channel = ops->channel[at],
		.measured_ps = ops->measured_ps[at],
		.alloc = ops->alloc[at],
		.release = ops->release[at],
		.alloc_owner = ops->alloc_owner[at],
		.release_owner = ops->release_owner[at],
		.deps = ops->deps ? ops->deps + ops->dep_begin[at] : NULL,
		.dep_count = ops->dep_begin[at + 1] - ops->dep_begin[at],
	};
}

lk_status lk_graph_set_programs(lk_graph *graph, uint32_t stages, uint32_t channels,
                                lk_error *err) {
	size_t wires = (size_t)stages * channels;
	if (!lk_reserve(&graph->programs, stages) || !lk_reserve(&graph->wires, wires))
		return lk_oom(err);
	for (uint32_t s = 0; s < stages; s++) {
		lk_program program = {.stage = s, .channels = channels};
		char name[32];
		snprintf(name, sizeof name, "stage %u", s);
		program.name = lk_intern_id(graph->names, name);
		if (program.name == UINT32_MAX) return lk_oom(err);
		graph->programs.at[graph->programs.count++] = program;
	}
	for (size_t i = 0; i < wires; i++) graph->wires.at[i] = (lk_wire){UINT32_MAX, UINT32_MAX};
	graph->wires.count = wires;
	graph->channels = channels;
	graph->ranks.stages = stages;
	return LK_OK;
}

uint32_t lk_graph_add_team(lk_graph *graph, const char *name, const uint32_t *stages,
                           uint32_t count, uint32_t ranks, bool across) {
	uint32_t id = graph->failed ? UINT32_MAX : lk_intern_id(graph->names, name);
	if (id == UINT32_MAX || !lk_reserve(&graph->team_stages, count) || !lk_push(&graph->teams)) {
		graph->failed = true;
		return 0;
	}
	uint32_t begin = (uint32_t)graph->team_stages.count;
	if (count) memcpy(graph->team_stages.at + begin, stages, count * sizeof *stages);
	graph->team_stages.count += count;
	*lk_last(&graph->teams) = (lk_team){
		.name = id, .begin = begin, .end = begin + count, .ranks = ranks, .across = across};
	return (uint32_t)graph->teams.count - 1;
}

uint32_t lk_team_member(const lk_graph *graph, const lk_team *team, uint32_t stage) {
	uint32_t low = team->begin, high = team->end;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (graph->team_stages.at[middle] < stage) low = middle + 1;
		else high = middle;
	}
	return low < team->end && graph->team_stages.at[low] == stage ? low : UINT32_MAX;
}

lk_status lk_graph_name_stream(lk_graph *graph, uint32_t stage, unsigned stream, const char *name,
                               bool thread, lk_error *err) {
	LK_ASSERT(stage < graph->programs.count);
	lk_program *program = &graph->programs.at[stage];
	program->stream_names[stream] = lk_intern_id(graph->names, name);
	if (program->stream_names[stream] == UINT32_MAX) return lk_oom(err);
	if (thread) program->threads |= LK_JOIN(stream);
	return LK_OK;
}

const char *lk_graph_stream(const lk_graph *graph, uint32_t stage, unsigned stream) {
	uint32_t name = stream < LK_STREAMS ? graph->programs.at[stage].stream_names[stream] : 0;
	return name ? lk_intern_text(graph->names, name) : lk_stream_label(stream);
}

void lk_graph_wire(lk_graph *graph, uint32_t s, uint32_t a, uint32_t t, uint32_t b) {
	graph->wires.at[(size_t)s * graph->channels + a] = (lk_wire){t, b};
	graph->wires.at[(size_t)t * graph->channels + b] = (lk_wire){s, a};
}

double lk_graph_length(const lk_graph *graph) {
	double ops = 0;
	for (size_t s = 0; s < graph->programs.count; s++) {
		const lk_program *program = &graph->programs.at[s];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			ops += (double)program->calls.at[c].repeat * (block->end - block->begin);
		}
	}
	return ops;
}

uint32_t lk_graph_layer_ops(const lk_graph *graph) {
	uint32_t forward = 0, backward = 0;
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		if (strncmp(lk_intern_text(graph->names, block->name), "layer", 5) != 0 ||
		    block->begin == block->end)
			continue;
		uint32_t size = block->end - block->begin;
		uint32_t *most = graph->ops.phase[block->begin] == LK_PHASE_FORWARD ? &forward : &backward;
		if (size > *most) *most = size;
	}
	return forward + backward;
}
