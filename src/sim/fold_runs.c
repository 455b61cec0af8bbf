/* fold_runs.c: which calls fold. Of lifted traces none do. A call may be part of a run if nothing
 * in its block meets another stage, uses an event of the program, lets the host wait for the
 * device, or is traffic of data parallelism that goes on behind later calls. A run is a stretch of
 * such calls of one micro-batch and pass; equal runs (the same blocks, equally often) are found by
 * hash. */
#include <stdlib.h>
#include <string.h>

#include "sim/fold.h"

enum {
	LEAST_OPS = 4
}; /* shorter runs gain nothing */

/* A kernel behind `op` in its block waits for the stream of `op`. */
static bool joined_inside(const lk_graph *graph, const lk_block *block, uint32_t op) {
	for (uint32_t i = op + 1; i < block->end; i++)
		if (graph->ops.stream[i] == LK_STREAM_COMPUTE &&
		    (graph->ops.join[i] >> graph->ops.stream[op] & 1))
			return true;
	return false;
}

bool lk_fold_meets(const lk_graph *graph, uint32_t op) {
	const lk_ops *ops = &graph->ops;
	unsigned kind = ops->kind[op], group = ops->group[op];
	if (ops->wait[op] || ops->signal[op] || kind == LK_OP_SEND || kind == LK_OP_RECV ||
	    kind == LK_OP_MACRO)
		return true;
	if (ops->stream[op] == LK_STREAM_HOST &&
	    ((ops->join[op] & ~LK_JOIN(LK_STREAM_HOST)) || ops->dep_begin[op + 1] > ops->dep_begin[op]))
		return true;
	bool across = group == LK_GROUP_TEAM || group == LK_GROUP_PP || group == LK_GROUP_EMBEDDING ||
	              group == LK_GROUP_MODEL;
	return lk_op_is_collective(kind) && across;
}

static bool foldable_op(const lk_graph *graph, const lk_block *block, uint32_t op,
                        uint32_t foreign) {
	if (lk_fold_meets(graph, op)) return false;
	if (lk_op_is_collective(graph->ops.kind[op]))
		return !lk_fold_is_traffic(graph, op) || joined_inside(graph, block, op);
	return op == block->begin || !(graph->ops.join[op] & foreign);
}

/* What calls of a block ask for again and again. */
typedef struct block_facts {
	uint32_t ops;
	uint32_t run; /* 1 + the run that last began with it */
	bool foldable;
	bool follows; /* a run may go on with it: it begins without waiting for something foreign */
} block_facts;

static block_facts *facts_of_blocks(const lk_graph *graph) {
	block_facts *facts = calloc(graph->blocks.count + 1, sizeof *facts);
	uint32_t foreign = lk_fold_foreign(graph);
	for (size_t b = 0; facts && b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		facts[b].ops = block->end - block->begin;
		facts[b].foldable = block->begin < block->end && !graph->traced;
		facts[b].follows = facts[b].foldable && !(graph->ops.join[block->begin] & foreign);
		for (uint32_t op = block->begin; op < block->end && facts[b].foldable; op++)
			facts[b].foldable = foldable_op(graph, block, op, foreign);
	}
	return facts;
}

/* A run may go on with this call: the same work, and nothing foreign to wait for in between. */
static bool goes_on(const block_facts *facts, const lk_call *first, const lk_call *next) {
	if (next->microbatch != first->microbatch || next->pass != first->pass ||
	    next->chunk != first->chunk)
		return false;
	return facts[next->block].follows;
}

typedef struct finder {
	const lk_graph *graph;
	block_facts *facts; /* [blocks] */
	lk_fold_runs *runs;
	uint32_t *table; /* 1 + run, by hash */
	uint64_t mask;
} finder;

static uint64_t hash_calls(const lk_call *call, uint32_t count) {
	uint64_t h = count;
	for (uint32_t i = 0; i < count; i++) {
		h = (h ^ call[i].block) * 0x9e3779b97f4a7c15u;
		h = (h ^ (h >> 29) ^ call[i].repeat) * 0xbf58476d1ce4e5b9u;
	}
	return h ^ h >> 32;
}

static bool equal_calls(const lk_call *a, const lk_call *b, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (a[i].block != b[i].block || a[i].repeat != b[i].repeat) return false;
	return true;
}

static bool grow(finder *f) {
	uint64_t size = (f->mask + 1) * 2;
	uint32_t *table = calloc(size, sizeof *table);
	if (!table) return false;
	free(f->table);
	f->table = table;
	f->mask = size - 1;
	for (size_t i = 0; i < f->runs->count; i++) {
		const lk_fold_run *run = &f->runs->at[i];
		uint64_t at = hash_calls(&f->graph->programs.at[run->stage].calls.at[run->begin],
		                         run->end - run->begin) &
		              f->mask;
		while (table[at]) at = (at + 1) & f->mask;
		table[at] = (uint32_t)i + 1;
	}
	return true;
}

static bool is_run(const finder *f, uint32_t run, const lk_call *calls, uint32_t count) {
	const lk_fold_run *known = &f->runs->at[run];
	return known->end - known->begin == count &&
	       equal_calls(calls, &f->graph->programs.at[known->stage].calls.at[known->begin], count);
}

/* The number of the run that equals calls [begin, end) of a stage; UINT32_MAX when memory is out.
 */
static uint32_t find_run(finder *f, uint32_t stage, uint32_t begin, uint32_t end, uint64_t ops) {
	const lk_call *calls = f->graph->programs.at[stage].calls.at + begin;
	uint32_t *last = &f->facts[calls->block].run;
	if (*last && is_run(f, *last - 1, calls, end - begin)) return *last - 1;
	uint64_t at = hash_calls(calls, end - begin) & f->mask;
	for (; f->table[at]; at = (at + 1) & f->mask)
		if (is_run(f, f->table[at] - 1, calls, end - begin)) return (*last = f->table[at]) - 1;
	if (!lk_push(f->runs)) return UINT32_MAX;
	*lk_last(f->runs) =
		(lk_fold_run){.stage = stage, .begin = begin, .end = end, .block = UINT32_MAX, .ops = ops};
	*last = f->table[at] = (uint32_t)f->runs->count;
	if (f->runs->count * 2 > f->mask && !grow(f)) return UINT32_MAX;
	return (uint32_t)f->runs->count - 1;
}

static bool find_stage(finder *f, uint32_t stage, lk_fold_pieces *pieces) {
	const block_facts *facts = f->facts;
	const lk_call *calls = f->graph->programs.at[stage].calls.at;
	uint32_t count = (uint32_t)f->graph->programs.at[stage].calls.count;
	if (!count) return true;
	if (!lk_reserve(pieces, count)) return false; /* a program has no more pieces than calls */
	lk_fold_piece *piece = pieces->at + pieces->count;
	for (uint32_t begin = 0, end; begin < count; begin = end) {
		uint64_t ops = 0;
		for (end = begin; end < count && facts[calls[end].block].foldable; end++) {
			if (end > begin && !goes_on(facts, &calls[begin], &calls[end])) break;
			ops += (uint64_t)calls[end].repeat * facts[calls[end].block].ops;
		}
		if (ops >= LEAST_OPS) {
			uint32_t run = find_run(f, stage, begin, end, ops);
			if (run == UINT32_MAX) return false;
			*piece++ = (lk_fold_piece){stage, begin, end, run};
			continue;
		}
		if (end == begin) end++;
		for (uint32_t c = begin; c < end; c++)
			*piece++ = (lk_fold_piece){stage, c, c + 1, UINT32_MAX};
	}
	pieces->count = (size_t)(piece - pieces->at);
	return true;
}

lk_status lk_fold_find(const lk_graph *graph, lk_fold_runs *runs, lk_fold_pieces *pieces,
                       size_t *ends, lk_error *err) {
	finder f = {.graph = graph,
	            .facts = facts_of_blocks(graph),
	            .runs = runs,
	            .table = calloc(64, sizeof *f.table),
	            .mask = 63};
	bool ok = f.facts && f.table;
	for (uint32_t s = 0; ok && s < graph->programs.count; s++)
		ok = find_stage(&f, s, pieces), ends[s] = pieces->count;
	free(f.facts);
	free(f.table);
	return ok ? LK_OK : lk_oom(err);
}

lk_block lk_fold_block(const lk_graph *graph, const lk_fold_run *run, uint32_t call) {
	lk_block block = graph->blocks.at[graph->programs.at[run->stage].calls.at[call].block];
	if (lk_fold_is_part(run)) block.begin = run->op_begin, block.end = run->op_end;
	return block;
}

uint32_t lk_fold_join(const lk_graph *graph, const lk_fold_run *run) {
	uint32_t join = 0;
	for (uint32_t c = run->begin; c < run->end; c++) {
		lk_block block = lk_fold_block(graph, run, c);
		for (uint32_t op = block.begin; op < block.end; op++)
			join |= (uint32_t)(graph->ops.join[op] | LK_JOIN(graph->ops.stream[op]));
	}
	return join & ~(LK_JOIN(LK_STREAM_HOST) | LK_JOIN(LK_STREAM_COMPUTE));
}
