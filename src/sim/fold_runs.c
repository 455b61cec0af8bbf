/* fold_runs.c: which calls fold, and the concurrent traffic. Nothing folds in lifted traces.
 *
 * A call may be in a run if nothing in its block involves another stage, uses an event of the
 * program, lets the host wait for the device, or is data-parallel traffic or a copy to or from the
 * host that continues during later calls. Nor does a run fold whose last collective continues
 * during the next call. A run is a stretch of such calls of one micro-batch and pass; equal runs
 * (the same blocks, equally often) are found by hash.
 *
 * The slowdown of a folded operation by messages and such traffic depends on each kernel inside: on
 * its waves, dependencies and memory traffic. So the slowdown of each by the mean of that traffic
 * is computed, and the folded one is slowed as much. */
#include <stdlib.h>

#include "sim/sim_internal.h"
#include "base/check.h"

/* ---- concurrent traffic ---- */

bool lk_fold_is_traffic(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	unsigned group = graph->ops.group[op];
	return lk_op_is_collective(graph->ops.kind[op]) && group >= LK_GROUP_DP &&
	       group <= LK_GROUP_REPLICA;
}

static bool op_is_concurrent(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	unsigned kind = graph->ops.kind[op];
	bool team = lk_op_is_comm(kind) && graph->ops.group[op] == LK_GROUP_TEAM;
	return kind == LK_OP_SEND || kind == LK_OP_RECV || team || lk_fold_is_traffic(graph, op);
}

uint32_t lk_fold_outside_streams(const lk_graph *graph) {
	uint32_t streams = 0;
	for (uint32_t op = 0; op < graph->ops.count; op++)
		if (op_is_concurrent(graph, op)) streams |= LK_JOIN(graph->ops.stream[op]);
	return streams & ~(LK_JOIN(LK_STREAM_COMPUTE) | LK_JOIN(LK_STREAM_HOST));
}

typedef struct lk_load {
	double time, sm, memory;
} lk_load;

static lk_load load_of_block(const lk_graph *graph, const lk_costs *costs, const lk_block *block) {
	lk_load load = {0};
	for (uint32_t op = block->begin; op < block->end; op++) {
		if (!op_is_concurrent(graph, op)) continue;
		const lk_cost *cost = lk_costs_get(costs, 0, op);
		double duration = (double)cost->duration_ps;
		load.time += duration;
		load.sm += duration * (double)cost->sm;
		load.memory += duration * (double)cost->memory;
	}
	return load;
}

static lk_cost load_mean(const lk_graph *graph, const lk_costs *costs, const double *times) {
	lk_load all = {0};
	for (size_t b = 0; b < graph->blocks.count; b++) {
		if (!(times[b] > 0)) continue;
		lk_load one = load_of_block(graph, costs, &graph->blocks.at[b]);
		all.time += times[b] * one.time;
		all.sm += times[b] * one.sm;
		all.memory += times[b] * one.memory;
	}
	if (!(all.time > 0)) return (lk_cost){0};
	/* a minimal share of a link: moving data slows kernels that wait for memory; links are shared
	 * elsewhere */
	return (lk_cost){
		.sm = (float)(all.sm / all.time), .memory = (float)(all.memory / all.time), .nic = 1e-6F};
}

lk_cost lk_fold_concurrent(const lk_graph *graph, const lk_costs *costs,
                           const lk_fold_times *times) {
	lk_cost mean = load_mean(graph, costs, times->passes);
	return mean.nic > 0 ? mean : load_mean(graph, costs, times->all);
}

double lk_fold_slowdown(const lk_cost *kernel, const lk_cost *concurrent) {
	double rates[2];
	lk_contention_rates((const lk_cost *const[]){kernel, concurrent}, (const bool[]){false, true},
	                    2, rates);
	return 1 / rates[0] - 1;
}

/* ---- runs of calls ---- */

enum { LEAST_OPS = 4 }; /* shorter runs gain nothing */

/* Whether a kernel after `op` in its block waits for the stream of `op`. */
static bool block_joins(const lk_graph *graph, const lk_block *block, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	for (uint32_t i = op + 1; i < block->end; i++)
		if (graph->ops.stream[i] == LK_STREAM_COMPUTE &&
		    (graph->ops.join[i] >> graph->ops.stream[op] & 1))
			return true;
	return false;
}

bool lk_fold_reaches_out(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
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

static bool op_is_foldable(const lk_graph *graph, const lk_block *block, uint32_t op,
                           uint32_t foreign) {
	LK_ASSERT(op < graph->ops.count);
	if (lk_fold_reaches_out(graph, op)) return false;
	if (lk_op_is_collective(graph->ops.kind[op]))
		return !lk_fold_is_traffic(graph, op) || block_joins(graph, block, op);
	if (graph->ops.kind[op] == LK_OP_COPY && graph->ops.stream[op] != LK_STREAM_COMPUTE &&
	    !block_joins(graph, block, op))
		return false;
	return op == block->begin || !(graph->ops.join[op] & foreign);
}

/* Facts about a block that its calls need repeatedly. */
typedef struct lk_block_facts {
	uint32_t ops;
	uint32_t run; /* 1 + the last run that began with it */
	bool foldable;
	bool follows;  /* whether a run may continue with it: it begins without waiting for anything
	                * outside */
	uint32_t open; /* streams whose collectives no kernel of the block waits for */
} lk_block_facts;

static lk_block_facts *facts_new(const lk_graph *graph) {
	lk_block_facts *facts = calloc(graph->blocks.count + 1, sizeof *facts);
	uint32_t foreign = lk_fold_outside_streams(graph);
	for (size_t b = 0; facts && b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		facts[b].ops = block->end - block->begin;
		facts[b].foldable = block->begin < block->end && !graph->traced;
		facts[b].follows = facts[b].foldable && !(graph->ops.join[block->begin] & foreign);
		for (uint32_t op = block->begin; op < block->end && facts[b].foldable; op++)
			facts[b].foldable = op_is_foldable(graph, block, op, foreign);
		for (uint32_t op = block->begin; op < block->end && facts[b].foldable; op++)
			if (lk_op_is_collective(graph->ops.kind[op]) &&
			    graph->ops.stream[op] != LK_STREAM_COMPUTE && !block_joins(graph, block, op))
				facts[b].open |= LK_JOIN(graph->ops.stream[op]);
	}
	return facts;
}

/* Whether a run may continue with this call: the same work, and no outside wait in between. */
static bool run_continues(const lk_block_facts *facts, const lk_call *first, const lk_call *next) {
	if (next->microbatch != first->microbatch || next->pass != first->pass ||
	    next->chunk != first->chunk)
		return false;
	return facts[next->block].follows;
}

/* Whether a collective of the last call before `next` continues during the next kernel. */
static bool run_leaks(const lk_graph *graph, const lk_block_facts *facts, const lk_call *next,
                      const lk_call *end) {
	uint32_t open = facts[next[-1].block].open;
	for (; open && next < end; next++) {
		const lk_block *block = &graph->blocks.at[next->block];
		for (uint32_t op = block->begin; op < block->end; op++) {
			if (graph->ops.stream[op] != LK_STREAM_COMPUTE) continue;
			open &= ~(uint32_t)graph->ops.join[op];
			if (graph->ops.kind[op] != LK_OP_WAIT) return open;
		}
	}
	return false;
}

typedef struct lk_finder {
	const lk_graph *graph;
	const bool *keep;      /* [calls of all programs] or NULL */
	lk_block_facts *facts; /* [blocks] */
	lk_fold_runs *runs;
	uint32_t *table; /* 1 + run, by hash */
	uint64_t mask;
} lk_finder;

static uint64_t calls_hash(const lk_call *call, uint32_t count) {
	uint64_t h = count;
	for (uint32_t i = 0; i < count; i++) {
		h = (h ^ call[i].block) * 0x9e3779b97f4a7c15u;
		h = (h ^ (h >> 29) ^ call[i].repeat) * 0xbf58476d1ce4e5b9u;
	}
	return h ^ h >> 32;
}

static bool calls_are_equal(const lk_call *a, const lk_call *b, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (a[i].block != b[i].block || a[i].repeat != b[i].repeat) return false;
	return true;
}

static bool finder_grow(lk_finder *finder) {
	uint64_t size = (finder->mask + 1) * 2;
	uint32_t *table = calloc(size, sizeof *table);
	if (!table) return false;
	free(finder->table);
	finder->table = table;
	finder->mask = size - 1;
	for (size_t i = 0; i < finder->runs->count; i++) {
		const lk_fold_run *run = &finder->runs->at[i];
		uint64_t at = calls_hash(&finder->graph->programs.at[run->stage].calls.at[run->begin],
		                         run->end - run->begin) &
		              finder->mask;
		while (table[at]) at = (at + 1) & finder->mask;
		table[at] = (uint32_t)i + 1;
	}
	return true;
}

static bool finder_run_is(const lk_finder *finder, uint32_t run, const lk_call *calls,
                          uint32_t count) {
	const lk_fold_run *known = &finder->runs->at[run];
	return known->end - known->begin == count &&
	       calls_are_equal(calls, &finder->graph->programs.at[known->stage].calls.at[known->begin],
	                       count);
}

/* The number of the run that equals calls [begin, end) of a stage; UINT32_MAX when out of
 * memory. */
static uint32_t finder_find_run(lk_finder *finder, uint32_t stage, uint32_t begin, uint32_t end,
                                uint64_t ops) {
	LK_ASSERT(stage < finder->graph->programs.count);
	const lk_call *calls = finder->graph->programs.at[stage].calls.at + begin;
	uint32_t *last = &finder->facts[calls->block].run;
	if (*last && finder_run_is(finder, *last - 1, calls, end - begin)) return *last - 1;
	uint64_t at = calls_hash(calls, end - begin) & finder->mask;
	for (; finder->table[at]; at = (at + 1) & finder->mask)
		if (finder_run_is(finder, finder->table[at] - 1, calls, end - begin))
			return (*last = finder->table[at]) - 1;
	if (!lk_push(finder->runs)) return UINT32_MAX;
	*lk_last(finder->runs) =
		(lk_fold_run){.stage = stage, .begin = begin, .end = end, .block = UINT32_MAX, .ops = ops};
	*last = finder->table[at] = (uint32_t)finder->runs->count;
	if (finder->runs->count * 2 > finder->mask && !finder_grow(finder)) return UINT32_MAX;
	return (uint32_t)finder->runs->count - 1;
}

static bool finder_find_stage(lk_finder *finder, uint32_t stage, lk_fold_pieces *pieces) {
	LK_ASSERT(stage < finder->graph->programs.count);
	const lk_block_facts *facts = finder->facts;
	const lk_call *calls = finder->graph->programs.at[stage].calls.at;
	uint32_t count = (uint32_t)finder->graph->programs.at[stage].calls.count;
	if (!count) return true;
	if (!lk_reserve(pieces, count))
		return false; /* a program has at most as many pieces as
		               * calls */
	lk_fold_piece *piece = pieces->at + pieces->count;
	const bool *keep =
		finder->keep ? finder->keep + lk_fold_first_call(finder->graph, stage) : NULL;
	for (uint32_t begin = 0, end; begin < count; begin = end) {
		uint64_t ops = 0;
		for (end = begin; end < count && facts[calls[end].block].foldable; end++) {
			if (keep && keep[end]) break;
			if (end > begin && !run_continues(facts, &calls[begin], &calls[end])) break;
			ops += (uint64_t)calls[end].repeat * facts[calls[end].block].ops;
		}
		bool leaks = end > begin && end < count &&
		             run_leaks(finder->graph, facts, calls + end, calls + count);
		if (ops >= LEAST_OPS && !leaks) {
			uint32_t run = finder_find_run(finder, stage, begin, end, ops);
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

size_t lk_fold_first_call(const lk_graph *graph, uint32_t stage) {
	LK_ASSERT(stage < graph->programs.count);
	size_t first = 0;
	for (uint32_t s = 0; s < stage; s++) first += graph->programs.at[s].calls.count;
	return first;
}

lk_status lk_fold_find_runs(const lk_graph *graph, const bool *keep, lk_fold_runs *runs,
                            lk_fold_pieces *pieces, size_t *ends, lk_error *err) {
	lk_finder finder = {.graph = graph,
	                    .keep = keep,
	                    .facts = facts_new(graph),
	                    .runs = runs,
	                    .table = calloc(64, sizeof *finder.table),
	                    .mask = 63};
	bool ok = finder.facts && finder.table;
	for (uint32_t s = 0; ok && s < graph->programs.count; s++) {
		ok = finder_find_stage(&finder, s, pieces);
		ends[s] = pieces->count;
	}
	free(finder.facts);
	free(finder.table);
	return ok ? LK_OK : lk_oom(err);
}

uint32_t lk_fold_run_joins(const lk_graph *graph, const lk_fold_run *run) {
	uint32_t join = 0;
	for (uint32_t c = run->begin; c < run->end; c++) {
		const lk_block *block = &graph->blocks.at[graph->programs.at[run->stage].calls.at[c].block];
		for (uint32_t op = block->begin; op < block->end; op++)
			join |= (uint32_t)(graph->ops.join[op] | LK_JOIN(graph->ops.stream[op]));
	}
	return join & ~(LK_JOIN(LK_STREAM_HOST) | LK_JOIN(LK_STREAM_COMPUTE));
}
