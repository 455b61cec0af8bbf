/* test_sim.c: the engines against an oracle, against each other, and against results worked out by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "rounds.h"
#include "sim_reference.h"
#include "base/arena.h"

/* Every rank recorded. */
static uint32_t *every_rank(const world *w) {
	uint32_t ranks = w->graph->ranks.stages * w->graph->ranks.chains,
			 *list = calloc(ranks, sizeof *list);
	for (uint32_t i = 0; i < ranks; i++) list[i] = i;
	return list;
}

static void quiet_costs(world *w) {
	for (uint32_t i = 0; i < w->costs.variants * w->costs.ops; i++) {
		lk_cost *c = &w->costs.at[i];
		c->sm = c->memory = c->intra = c->nic = 0;
	}
}

static lk_sim_result run(const world *w, lk_sim_options options, lk_status expect) {
	lk_sim_result result;
	lk_error err = {0};
	lk_status status = lk_sim_run(w->graph, &w->costs, &options, &result, &err);
	if (status != expect) print_message("%s: %s\n", err.where, err.what);
	assert_int_equal(status, expect);
	return result;
}

static lk_sim_options noise(dice *d, const world *w, lk_straggler *slow) {
	lk_sim_options options = {.apart = true, .seed = d->state};
	uint32_t ranks = w->graph->ranks.stages * w->graph->ranks.chains;
	if (chance(d, 20)) options.jitter = 0.05 * (1 + roll(d, 4));
	if (chance(d, 20)) options.gpu_spread = 0.05 * (1 + roll(d, 4));
	if (chance(d, 40)) {
		options.straggler_count = 1 + roll(d, 2);
		options.stragglers = slow;
		for (int i = 0; i < 2; i++)
			slow[i] = (lk_straggler){roll(d, ranks), 0.5 + 0.25 * roll(d, 6)};
	}
	return options;
}

static void same_as_oracle(const oracle *o, const lk_sim_result *r) {
	size_t at = 0;
	for (uint32_t rank = 0; rank < o->ranks; rank++) {
		for (size_t i = 0; i < o->count[rank]; i++, at++) {
			const oracle_op *want = &o->ops[rank][i];
			const lk_sim_event *got = &r->events.at[at];
			assert_true(at < r->events.count);
			if (got->op != want->op || got->start_ps != want->start || got->end_ps != want->end)
				print_message(
					"rank %u, call %u.%u, operation %u (%s): %lld..%lld, not %lld..%lld\n", rank,
					want->call, want->repetition, want->op,
					lk_intern_text(o->w->graph->names, o->w->graph->ops.name[want->op]),
					(long long)got->start_ps, (long long)got->end_ps, (long long)want->start,
					(long long)want->end);
			assert_int_equal(got->record, rank);
			assert_int_equal(got->op, want->op);
			assert_int_equal(got->call, want->call);
			assert_int_equal(got->repetition, want->repetition);
			assert_int_equal(got->start_ps, want->start);
			assert_int_equal(got->end_ps, want->end);
			assert_int_equal(got->ready_ps, lk_op_is_comm(o->w->graph->ops.kind[want->op])
			                                    ? want->arrival
			                                    : want->start);
		}
	}
	assert_int_equal(r->step_ps, o->step);
	assert_int_equal(at, r->events.count);
	assert_int_equal(at, r->operations);
}

static shape random_shape(uint64_t seed) {
	dice d = {seed};
	return (shape){.jams = chance(&d, 15),
	               .macros = chance(&d, 50),
	               .variants = chance(&d, 40),
	               .loose = chance(&d, 50),
	               .queue = chance(&d, 30)};
}

/* Both engines give every time that the oracle gives, on every rank, or find the same deadlock;
 * true if there is one. */
static bool check_oracle(world *w, dice *d) {
	lk_straggler slow[2];
	quiet_costs(w);
	lk_sim_options options = noise(d, w, slow);
	oracle o;
	oracle_run(w, &options, &o);
	lk_status stuck = !o.stuck ? LK_OK : w->graph->traced ? LK_ERR_INPUT : LK_ERR_INTERNAL;
	uint32_t *list = every_rank(w);
	options.record = list;
	options.record_count = o.ranks;
	for (int contention = 0; contention < 2; contention++) {
		options.contention = contention;
		lk_sim_result r = run(w, options, stuck);
		if (!o.stuck) same_as_oracle(&o, &r);
		options.record_count = 0; /* the fast path: nothing is recorded */
		lk_sim_result fast = run(w, options, stuck);
		if (!o.stuck)
			assert_memory_equal(fast.finish_ps, r.finish_ps, o.ranks * sizeof *r.finish_ps);
		options.record_count = o.ranks;
		lk_sim_result_free(&fast);
		lk_sim_result_free(&r);
	}
	free(list);
	oracle_free(&o);
	return o.stuck;
}

static void test_oracle(void **state) {
	(void)state;
	int stuck = 0;
	for (int seed = 0; seed < trials(150); seed++) {
		if (!has_its_turn(seed / 3)) continue; /* of each kind a third */
		world w;
		dice d = {(uint64_t)seed};
		random_world((uint64_t)seed, random_shape((uint64_t)seed), &w);
		stuck += check_oracle(&w, &d);
		free_world(&w);
	}
	bool all = fewer_cases() == 1 && has_its_turn(0) && has_its_turn(1);
	assert_true((stuck > 0 || !all) && stuck < trials(150) / 2); /* both outcomes were met */
}

static void test_traced_oracle(void **state) {
	(void)state;
	int stuck = 0;
	for (int seed = 0; seed < trials(400); seed++) {
		world w;
		dice d = {(uint64_t)seed};
		random_traced((uint64_t)seed, seed % 4 == 0, &w);
		bool jams = check_oracle(&w, &d);
		assert_false(jams && !w.shape.jams);
		stuck += jams;
		free_world(&w);
	}
	assert_true(stuck > 0 && stuck < trials(400) / 4); /* both outcomes were met */
}

/* --- random graphs: properties
 * ---------------------------------------------------------------------------------------
 */

/* A random graph that does not jam. */
static void flowing_world(uint64_t seed, world *w) {
	shape s = random_shape(seed);
	s.jams = false;
	random_world(seed, s, w);
}

static void same_finish(const world *w, const lk_sim_result *all, const lk_sim_result *folded) {
	uint32_t chains = w->graph->ranks.chains, ranks = 0;
	assert_int_equal(all->step_ps, folded->step_ps);
	for (uint32_t s = 0; s < w->graph->ranks.stages; s++)
		for (uint32_t c = 0; c < chains; c++)
			assert_int_equal(all->finish_ps[s * chains + c],
			                 folded->finish_ps[s * folded->lanes + folded->lane_of[c]]);
	for (uint32_t i = 0; i < folded->lanes; i++) ranks += folded->lane_ranks[i];
	assert_int_equal(ranks, chains);
}

static void same_event(const lk_sim_event *a, const lk_sim_event *b) {
	assert_int_equal(a->record, b->record);
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->ready_ps, b->ready_ps);
	assert_int_equal(a->start_ps, b->start_ps);
	assert_int_equal(a->end_ps, b->end_ps);
}

/* Rank folding is exact to the picosecond, with and without contention, whatever tells ranks apart.
 */
static void check_folding(world *w, dice *d, bool record, uint32_t *lanes, uint32_t *chains) {
	lk_straggler slow[2];
	lk_sim_options options = noise(d, w, slow);
	options.jitter = options.gpu_spread = 0;
	uint32_t *list = every_rank(w);
	options.record = list;
	options.record_count = record ? w->graph->ranks.stages * w->graph->ranks.chains : 0;
	for (int contention = 0; contention < 2; contention++) {
		options.contention = contention;
		options.apart = true;
		lk_sim_result apart = run(w, options, LK_OK);
		options.apart = false;
		lk_sim_result folded = run(w, options, LK_OK);
		options.apart = true;
		lk_sim_result all = run(w, options, LK_OK);
		options.all_ranks = false;
		same_finish(w, &apart, &folded);
		same_finish(w, &apart, &all);
		assert_true(all.lanes == apart.lanes && all.operations == apart.operations &&
		            all.step_ps == apart.step_ps);
		assert_int_equal(apart.events.count, folded.events.count);
		assert_int_equal(apart.events.count, all.events.count);
		for (size_t i = 0; i < apart.events.count; i++) {
			same_event(&apart.events.at[i], &folded.events.at[i]);
			same_event(&apart.events.at[i], &all.events.at[i]);
		}
		*lanes += folded.lanes, *chains += w->graph->ranks.chains;
		lk_sim_result_free(&apart);
		lk_sim_result_free(&folded);
		lk_sim_result_free(&all);
	}
	free(list);
}

static void test_rank_folding(void **state) {
	(void)state;
	uint32_t lanes[2] = {0}, chains[2] = {0};
	for (int seed = 0; seed < trials(600); seed++) {
		world w;
		dice d = {(uint64_t)seed};
		bool traced = seed % 3 == 0;
		if (traced) random_traced((uint64_t)seed, false, &w);
		else flowing_world((uint64_t)seed, &w);
		check_folding(&w, &d, seed % 2 == 0, &lanes[traced], &chains[traced]);
		free_world(&w);
	}
	assert_true(lanes[0] < chains[0] && lanes[1] < chains[1]); /* something was folded */
}

/* Contention delays every rank or leaves it; twice the same is the same. */
static void test_contention_slows(void **state) {
	(void)state;
	int slower = 0;
	for (int seed = 0; seed < trials(600); seed++) {
		world w;
		if (seed % 3) flowing_world((uint64_t)seed, &w);
		else random_traced((uint64_t)seed, false, &w);
		lk_sim_result plain = run(&w, (lk_sim_options){.apart = true}, LK_OK);
		lk_sim_result shared = run(&w, (lk_sim_options){.apart = true, .contention = true}, LK_OK);
		lk_sim_result again = run(&w, (lk_sim_options){.apart = true, .contention = true}, LK_OK);
		uint32_t ranks = w.graph->ranks.stages * w.graph->ranks.chains;
		for (uint32_t i = 0; i < ranks; i++) assert_true(shared.finish_ps[i] >= plain.finish_ps[i]);
		assert_memory_equal(shared.finish_ps, again.finish_ps, ranks * sizeof *again.finish_ps);
		slower += shared.step_ps > plain.step_ps;
		lk_sim_result_free(&plain);
		lk_sim_result_free(&shared);
		lk_sim_result_free(&again);
		free_world(&w);
	}
	assert_true(slower > trials(600) / 4);
}

static int given_up;

/* A step is given up only where it takes longer than was said; else its time is the same. */
static void check_give_up(const world *w, const lk_sim_options *as, const lk_sim_result *full,
                          uint32_t tenths) {
	lk_sim_options options = *as;
	lk_error err = {0};
	lk_sim_result r;
	options.record = NULL, options.record_count = 0;
	options.give_up_ps = 1 + full->step_ps * tenths / 10;
	assert_int_equal(lk_sim_run(w->graph, &w->costs, &options, &r, &err), LK_OK);
	if (r.gave_up)
		assert_true(full->step_ps > options.give_up_ps && r.step_ps > options.give_up_ps &&
		            r.step_ps <= full->step_ps);
	else assert_int_equal(r.step_ps, full->step_ps);
	given_up += r.gave_up;
	lk_sim_result_free(&r);
}

/* The engine with contention gives every time that the reference gives, on every rank, or finds the
 * same deadlock; the same without records, folded, and where it may be given up. */
static bool check_reference(world *w, dice *d) {
	lk_straggler slow[2];
	lk_sim_options options = noise(d, w, slow);
	options.contention = true;
	reference ref;
	reference_run(w, &options, &ref);
	lk_status stuck = !ref.stuck ? LK_OK : w->graph->traced ? LK_ERR_INPUT : LK_ERR_INTERNAL;
	uint32_t *list = every_rank(w);
	options.record = list, options.record_count = ref.world.ranks;
	lk_sim_result full = run(w, options, stuck);
	options.record = NULL, options.record_count = 0;
	lk_sim_result bare = run(w, options, stuck);
	size_t at = 0;
	for (uint32_t rank = 0; rank < ref.world.ranks && !ref.stuck; rank++) {
		for (size_t i = 0; i < ref.rank[rank].count; i++, at++) {
			const ref_op *want = &ref.rank[rank].ops[i];
			const lk_sim_event *got = &full.events.at[at];
			assert_int_equal(got->op, want->op);
			assert_int_equal(got->start_ps, want->start);
			assert_int_equal(got->end_ps, want->end);
			bool host = !w->graph->traced && w->graph->ops.stream[want->op] == LK_STREAM_HOST;
			assert_int_equal(got->ready_ps, host ? want->start : want->arrival);
		}
	}
	if (!ref.stuck) {
		assert_int_equal(full.step_ps, ref.step);
		assert_int_equal(full.operations, at);
		assert_int_equal(bare.operations, at);
		assert_memory_equal(bare.finish_ps, full.finish_ps,
		                    ref.world.ranks * sizeof *full.finish_ps);
		if (options.jitter == 0) check_give_up(w, &options, &full, roll(d, 12));
	}
	lk_sim_result_free(&full);
	lk_sim_result_free(&bare);
	free(list);
	reference_free(&ref);
	return ref.stuck;
}

static void test_reference(void **state) {
	(void)state;
	int stuck = 0;
	for (int seed = 0; seed < trials(150); seed++) {
		if (!has_its_turn(seed / 3)) continue; /* of each kind a third */
		world w;
		dice d = {(uint64_t)seed};
		if (seed % 3 == 0) random_traced((uint64_t)seed, seed % 12 == 0, &w);
		else random_world((uint64_t)seed, random_shape((uint64_t)seed), &w);
		stuck += check_reference(&w, &d);
		free_world(&w);
	}
	assert_true(stuck < trials(150) / 3);
	assert_true(given_up > trials(50) / 40 || fewer_cases() > 1);
}

/* Ranks that run as lanes of a gang, over kernels that communication slows: every time is the
 * reference's. */
static void test_gangs(void **state) {
	(void)state;
	for (int seed = 0; seed < trials(30); seed++) {
		if (!has_its_turn(seed / 3)) continue; /* of each kind a third */
		world w;
		dice d = {(uint64_t)seed};
		random_world((uint64_t)seed + 5000, (shape){.gangs = true}, &w);
		check_reference(&w, &d);
		free_world(&w);
	}
}

/* What a CPU thread does takes as long as it takes alone, whatever the device does beside it. */
static void test_threads_share_nothing(void **state) {
	(void)state;
	size_t slowed = 0;
	for (int seed = 0; seed < trials(200); seed++) {
		world w;
		random_traced((uint64_t)seed, false, &w);
		uint32_t *list = every_rank(&w);
		lk_sim_result r = run(&w,
		                      (lk_sim_options){.contention = true,
		                                       .apart = true,
		                                       .record = list,
		                                       .record_count = w.graph->ranks.world},
		                      LK_OK);
		for (size_t i = 0; i < r.events.count; i++) {
			const lk_sim_event *e = &r.events.at[i];
			const lk_ops *ops = &w.graph->ops;
			uint32_t stage = lk_rank_stage(w.graph, e->record);
			if (lk_op_is_comm(ops->kind[e->op]) || ops->kind[e->op] == LK_OP_WAIT) continue;
			int64_t alone =
				lk_costs_get(&w.costs, w.costs.variant_of ? w.costs.variant_of[e->record] : 0,
			                 e->op)
					->duration_ps;
			bool device = !(w.graph->programs.at[stage].threads >> ops->stream[e->op] & 1) &&
			              ops->kind[e->op] != LK_OP_HOST;
			if (device) slowed += e->end_ps - e->start_ps > alone;
			else assert_int_equal(e->end_ps - e->start_ps, alone);
		}
		lk_sim_result_free(&r);
		free(list);
		free_world(&w);
	}
	assert_true(slowed > 0);
}

/* A lifted trace is not folded: the graph comes back as it was, and takes as long. */
static void test_traced_unfolded(void **state) {
	(void)state;
	for (int seed = 0; seed < trials(30); seed++) {
		world w;
		lk_fold *fold;
		lk_error err = {0};
		random_traced((uint64_t)seed, false, &w);
		if (lk_sim_fold(w.graph, &w.costs, seed % 2, NULL, &fold, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		world folded = {.graph = fold->graph, .costs = fold->costs};
		lk_sim_result exact = run(&w, (lk_sim_options){.contention = seed % 2}, LK_OK);
		lk_sim_result same = run(&folded, (lk_sim_options){.contention = seed % 2}, LK_OK);
		assert_int_equal(exact.step_ps, same.step_ps);
		assert_int_equal(exact.operations, same.operations);
		assert_int_equal(fold->graph->programs.at[0].threads, w.graph->programs.at[0].threads);
		lk_sim_result_free(&exact);
		lk_sim_result_free(&same);
		lk_fold_free(fold);
		free_world(&w);
	}
}

/* Pipelines of many repetitions, which ranks go through in strides: every time is the reference's.
 */
static void test_strides(void **state) {
	(void)state;
	for (int seed = 0; seed < trials(150); seed++) {
		if (!has_its_turn(seed / 3)) continue; /* of each kind a third */
		world w;
		dice d = {(uint64_t)seed};
		flowing_world((uint64_t)seed, &w);
		if (seed % 3 == 0) quiet_costs(&w);
		assert_false(check_reference(&w, &d));
		free_world(&w);
	}
}

/* A slow rank delays all or leaves them; the step is at least what any one rank computes. */
static void test_stragglers(void **state) {
	(void)state;
	int slower = 0;
	for (int seed = 0; seed < trials(300); seed++) {
		world w;
		dice d = {(uint64_t)seed};
		flowing_world((uint64_t)seed, &w);
		quiet_costs(&w);
		uint32_t ranks = w.graph->ranks.stages * w.graph->ranks.chains;
		lk_straggler slow = {roll(&d, ranks), 1.5};
		for (int contention = 0; contention < 2; contention++) {
			lk_sim_result plain = run(&w, (lk_sim_options){.contention = contention}, LK_OK);
			lk_sim_result late =
				run(&w,
			        (lk_sim_options){
						.contention = contention, .stragglers = &slow, .straggler_count = 1},
			        LK_OK);
			assert_true(late.step_ps >= plain.step_ps);
			slower += late.step_ps > plain.step_ps;
			for (uint32_t c = 0; c < w.graph->ranks.chains; c++)
				assert_true(late.finish_ps[late.lane_of[c]] >= plain.finish_ps[plain.lane_of[c]]);
			lk_sim_result_free(&plain);
			lk_sim_result_free(&late);
		}
		free_world(&w);
	}
	assert_true(slower > trials(300));
}

/* Folding calls of random graphs: the folded graph runs on both engines, and no operation and no
 * work is lost. */
static void test_fold_keeps_work(void **state) {
	(void)state;
	for (int seed = 0; seed < trials(200); seed++) {
		world w;
		lk_fold *fold;
		lk_error err = {0};
		flowing_world((uint64_t)seed, &w);
		for (uint32_t i = 0; i < w.graph->ops.count; i++) w.graph->ops.flops[i] = i + 1;
		if (lk_sim_fold(w.graph, &w.costs, seed % 2, NULL, &fold, &err))
			fail_msg("%s: %s", err.where, err.what);
		for (uint32_t s = 0; s < w.graph->ranks.stages; s++) {
			double flops[2] = {0};
			for (int i = 0; i < 2; i++) {
				const lk_graph *g = i ? fold->graph : w.graph;
				for (size_t c = 0; c < g->programs.at[s].calls.count; c++) {
					const lk_call *call = &g->programs.at[s].calls.at[c];
					for (uint32_t op = g->blocks.at[call->block].begin;
					     op < g->blocks.at[call->block].end; op++)
						flops[i] += call->repeat * g->ops.flops[op];
				}
			}
			assert_true(flops[0] == flops[1]);
		}
		for (uint32_t op = 0; op < fold->graph->ops.count; op++) {
			const struct lk_fold_span *span = &fold->span[op];
			bool macro = span->call_end > span->call_begin;
			assert_true(span->stage < w.graph->ranks.stages &&
			            span->call_end <= w.graph->programs.at[span->stage].calls.count);
			assert_true(macro ? fold->graph->ops.kind[op] == LK_OP_MACRO
			                  : fold->graph->ops.name[op] == w.graph->ops.name[span->source_op]);
			assert_true(span->sample_begin <= span->sample_end &&
			            span->sample_end <= fold->samples.count);
			assert_true(macro == (span->sample_end > span->sample_begin));
		}
		world folded = {.graph = fold->graph, .costs = fold->costs};
		lk_sim_result r = run(&folded, (lk_sim_options){.contention = seed % 2}, LK_OK);
		lk_sim_result_free(&r);
		lk_fold_free(fold);
		free_world(&w);
	}
}

/* --- a pipeline, and results by hand
 * ------------------------------------------------------------------------------------ */

typedef struct line {
	int stages, chains, tp, microbatches, layers;
	int64_t kernel, reduce, message, host, gradients;
	bool waits; /* kernels wait for the all-reduce before them */
} line;

static uint32_t kernels(lk_graph *g, const line *l, const char *name, int count) {
	uint32_t id = 0;
	lk_graph_begin_block(g, name);
	for (int i = 0; i < count; i++)
		lk_graph_add(g, &(lk_op){.kind = LK_OP_GEMM,
		                         .stream = LK_STREAM_COMPUTE,
		                         .join = i == 0 && l->waits ? LK_JOIN(LK_STREAM_TP) : 0,
		                         .name = "gemm"});
	if (l->tp > 1)
		lk_graph_add(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
		                         .stream = LK_STREAM_TP,
		                         .group = LK_GROUP_TP,
		                         .join = LK_JOIN(LK_STREAM_COMPUTE),
		                         .name = "tp"});
	lk_graph_end_block(g, &id, NULL);
	return id;
}

static uint32_t message(lk_graph *g, unsigned kind, unsigned stream, int channel) {
	lk_op op = {.kind = (uint8_t)kind,
	            .stream = (uint8_t)stream,
	            .channel = channel,
	            .name = kind == LK_OP_SEND ? "send" : "recv",
	            .join = LK_JOIN(LK_STREAM_COMPUTE) | LK_JOIN(LK_STREAM_TP)};
	uint32_t id = 0;
	lk_graph_begin_block(g, op.name);
	lk_graph_add(g, &op);
	if (kind == LK_OP_RECV)
		lk_graph_add(g, &(lk_op){.kind = LK_OP_WAIT,
		                         .stream = LK_STREAM_COMPUTE,
		                         .join = (uint16_t)LK_JOIN(stream),
		                         .name = "wait"});
	lk_graph_end_block(g, &id, NULL);
	return id;
}

static void line_pass(lk_graph *g, uint32_t s, const parts *p, const line *l, bool forward,
                      int microbatch) {
	uint32_t stages = g->ranks.stages, block = forward ? p->forward : p->backward;
	if (forward ? s > 0 : s + 1 < stages)
		lk_graph_call(
			g, s, &(lk_call){.block = p->receive[!forward], .repeat = 1, .microbatch = microbatch},
			NULL);
	lk_graph_call(g, s,
	              &(lk_call){.block = block,
	                         .repeat = (uint32_t)l->layers,
	                         .microbatch = microbatch,
	                         .pass = !forward},
	              NULL);
	if (forward ? s + 1 < stages : s > 0)
		lk_graph_call(g, s,
		              &(lk_call){.block = p->send[!forward], .repeat = 1, .microbatch = microbatch},
		              NULL);
}

/* One forward, one backward; a backward layer has twice the kernels of a forward layer. */
static void new_line(const line *l, world *w) {
	lk_graph *g = w->graph = lk_graph_new();
	lk_graph_set_programs(g, (uint32_t)l->stages, CHANNELS, NULL);
	g->ranks.chains = (uint32_t)l->chains, g->ranks.world = (uint32_t)(l->stages * l->chains);
	g->ranks.group[LK_GROUP_TP].size = (uint32_t)l->tp, g->ranks.group[LK_GROUP_TP].stride = 1;
	g->ranks.group[LK_GROUP_DP].size = (uint32_t)(l->chains / l->tp),
	g->ranks.group[LK_GROUP_DP].stride = (uint32_t)l->tp;
	parts p = {.forward = kernels(g, l, "layer forward", 3),
	           .backward = kernels(g, l, "layer backward", 6)};
	p.receive[0] = message(g, LK_OP_RECV, LK_STREAM_RECV_FORWARD, FROM_BEFORE),
	p.send[0] = message(g, LK_OP_SEND, LK_STREAM_SEND_FORWARD, TO_NEXT);
	p.receive[1] = message(g, LK_OP_RECV, LK_STREAM_RECV_BACKWARD, FROM_NEXT),
	p.send[1] = message(g, LK_OP_SEND, LK_STREAM_SEND_BACKWARD, TO_BEFORE);
	p.last = single(g, &(lk_op){.kind = LK_OP_REDUCESCATTER,
	                            .stream = LK_STREAM_DP,
	                            .group = LK_GROUP_DP,
	                            .join = LK_JOIN(LK_STREAM_COMPUTE),
	                            .name = "dp"});
	for (int s = 0; s < l->stages; s++) {
		int warm = l->stages - 1 - s < l->microbatches ? l->stages - 1 - s : l->microbatches;
		if (s + 1 < l->stages) {
			lk_graph_wire(g, (uint32_t)s, TO_NEXT, (uint32_t)s + 1, FROM_BEFORE);
			lk_graph_wire(g, (uint32_t)s + 1, TO_BEFORE, (uint32_t)s, FROM_NEXT);
		}
		for (int i = 0; i < warm; i++) line_pass(g, (uint32_t)s, &p, l, true, i);
		for (int i = warm; i < l->microbatches; i++) {
			line_pass(g, (uint32_t)s, &p, l, true, i);
			line_pass(g, (uint32_t)s, &p, l, false, i - warm);
			if (l->gradients)
				lk_graph_call(g, (uint32_t)s,
				              &(lk_call){.block = p.last, .repeat = 1, .microbatch = i}, NULL);
		}
		for (int i = l->microbatches - warm; i < l->microbatches; i++)
			line_pass(g, (uint32_t)s, &p, l, false, i);
	}
	w->costs =
		(lk_costs){.variants = 1, .ops = g->ops.count, .at = calloc(g->ops.count, sizeof(lk_cost))};
	for (uint32_t i = 0; i < g->ops.count; i++) {
		unsigned kind = g->ops.kind[i];
		bool p2p = kind == LK_OP_SEND || kind == LK_OP_RECV;
		int64_t d = kind == LK_OP_GEMM        ? l->kernel
		            : kind == LK_OP_WAIT      ? 0
		            : p2p                     ? l->message
		            : kind == LK_OP_ALLREDUCE ? l->reduce
		                                      : l->gradients;
		w->costs.at[i] = (lk_cost){.duration_ps = d,
		                           .tail_ps = d,
		                           .host_ps = l->host,
		                           .lead_ps = l->host,
		                           .sm = 0.2f,
		                           .memory = 0.6f,
		                           .spread = 1};
		if (kind == LK_OP_GEMM) w->costs.at[i].compute = 1, w->costs.at[i].sm = 1;
	}
}

/* Makespan of 1F1B without communication: (m + p - 1)(F + B). */
static void test_pipeline_formula(void **state) {
	(void)state;
	for (int p = 1; p <= 5; p++) {
		for (int m = p; m <= 9; m += 2) {
			world w;
			new_line(&(line){.stages = p,
			                 .chains = 4,
			                 .tp = 2,
			                 .microbatches = m,
			                 .layers = 3,
			                 .kernel = 100},
			         &w);
			for (int contention = 0; contention < 2; contention++) {
				lk_sim_result r = run(&w, (lk_sim_options){.contention = contention}, LK_OK);
				assert_int_equal(r.step_ps, (m + p - 1) * (3 * 3 * 100 + 3 * 6 * 100));
				assert_int_equal(r.lanes, 1);
				assert_int_equal(r.lane_ranks[0], 4);
				lk_sim_result_free(&r);
			}
			free_world(&w);
		}
	}
}

/* Folded calls against the exact program: the same without contention, close with it, device-bound
 * and host-bound. */
static void test_fold_error(void **state) {
	(void)state;
	static const line lines[] = {
		{.stages = 4,
	     .chains = 8,
	     .tp = 4,
	     .microbatches = 16,
	     .layers = 12,
	     .kernel = 400000,
	     .reduce = 250000,
	     .message = 600000,
	     .host = 5000,
	     .waits = true},
		{.stages = 4,
	     .chains = 8,
	     .tp = 4,
	     .microbatches = 16,
	     .layers = 12,
	     .kernel = 4000,
	     .reduce = 2500,
	     .message = 6000,
	     .host = 5000,
	     .waits = true},
		{.stages = 3,
	     .chains = 4,
	     .tp = 1,
	     .microbatches = 8,
	     .layers = 9,
	     .kernel = 100000,
	     .message = 700000,
	     .host = 30000,
	     .gradients = 500000,
	     .waits = true},
		{.stages = 1,
	     .chains = 4,
	     .tp = 2,
	     .microbatches = 8,
	     .layers = 40,
	     .kernel = 90000,
	     .reduce = 50000,
	     .host = 100000,
	     .gradients = 300000,
	     .waits = true},
		{.stages = 1,
	     .chains = 2,
	     .tp = 2,
	     .microbatches = 4,
	     .layers = 3,
	     .kernel = 90000,
	     .reduce = 50000,
	     .host = 90000,
	     .waits = true},
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		world w;
		new_line(&lines[i], &w);
		for (int contention = 0; contention < 2; contention++) {
			lk_fold *fold;
			lk_error err = {0};
			assert_int_equal(lk_sim_fold(w.graph, &w.costs, contention, NULL, &fold, &err), LK_OK);
			world folded = {.graph = fold->graph, .costs = fold->costs};
			lk_sim_result exact = run(&w, (lk_sim_options){.contention = contention}, LK_OK);
			lk_sim_result quick = run(&folded, (lk_sim_options){.contention = contention}, LK_OK);
			double error = (double)(quick.step_ps - exact.step_ps) / (double)exact.step_ps;
			if (!contention) assert_int_equal(quick.step_ps, exact.step_ps);
			assert_true(error < 0.005 && error > -0.005);
			assert_true(quick.operations * 4 < exact.operations);
			lk_sim_result_free(&exact);
			lk_sim_result_free(&quick);
			lk_fold_free(fold);
		}
		free_world(&w);
	}
}

/* One rank: a kernel of 1000 ps and beside it, from the start of the kernel, a collective of `comm`
 * ps. */
static void pair_world(int64_t comm, world *w) {
	lk_graph *g = w->graph = lk_graph_new();
	uint32_t id = 0;
	lk_graph_set_programs(g, 1, 0, NULL);
	g->ranks.chains = g->ranks.world = 1;
	lk_graph_begin_block(g, "pair");
	lk_graph_add(g, &(lk_op){.kind = LK_OP_NORM, .stream = LK_STREAM_COMPUTE, .name = "kernel"});
	lk_graph_add(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
	                         .stream = LK_STREAM_DP,
	                         .group = LK_GROUP_DP,
	                         .name = "comm"});
	lk_graph_end_block(g, &id, NULL);
	lk_graph_call(g, 0, &(lk_call){.block = id, .repeat = 1}, NULL);
	w->costs = (lk_costs){.variants = 1, .ops = 2, .at = calloc(2, sizeof(lk_cost))};
	w->costs.at[0] = (lk_cost){.duration_ps = 1000, .tail_ps = 1000, .sm = 1, .memory = 0.8f};
	w->costs.at[1] = (lk_cost){.duration_ps = comm, .tail_ps = comm, .memory = 0.6f};
}

/* Collectives that pile up while kernels go on: acts are made as they are needed. */
static void test_many_acts(void **state) {
	(void)state;
	for (uint32_t repeat = 8; repeat <= 512; repeat *= 4) {
		world w;
		pair_world(20000, &w);
		w.graph->programs.at[0].calls.at[0].repeat = repeat;
		lk_sim_result r = run(&w, (lk_sim_options){.contention = true}, LK_OK), full;
		full = run(
			&w, (lk_sim_options){.contention = true, .record = &(uint32_t){0}, .record_count = 1},
			LK_OK);
		assert_int_equal(r.step_ps, full.step_ps);
		assert_int_equal(r.operations, 2 * repeat);
		lk_sim_result_free(&r);
		lk_sim_result_free(&full);
		free_world(&w);
	}
}

/* Both use memory, 1.4 times what there is. They share it until the first one ends; the other one
 * goes on alone. */
static void test_sharing_by_hand(void **state) {
	(void)state;
	uint32_t rank = 0;
	for (int64_t comm = 500; comm <= 2000; comm += 1500) {
		world w;
		pair_world(comm, &w);
		const lk_cost *both[] = {&w.costs.at[0], &w.costs.at[1]};
		double rate[2];
		lk_contention_rates(both, (const bool[]){false, true}, 2, rate);
		assert_true(rate[0] < 1 && rate[1] < 1);
		double kernel = 1000 / rate[0], reduce = (double)comm / rate[1];
		if (reduce < kernel) kernel = reduce + (1000 - reduce * rate[0]);
		else reduce = kernel + ((double)comm - kernel * rate[1]);
		lk_sim_result r = run(
			&w, (lk_sim_options){.contention = true, .record = &rank, .record_count = 1}, LK_OK);
		assert_int_equal(r.events.count, 2);
		assert_in_range(r.events.at[0].end_ps, (int64_t)kernel - 1, (int64_t)kernel + 2);
		assert_in_range(r.events.at[1].end_ps, (int64_t)reduce - 1, (int64_t)reduce + 2);
		assert_int_equal(r.step_ps, r.events.at[comm > 1000].end_ps);
		lk_sim_result_free(&r);
		free_world(&w);
	}
}

/* A kernel, two collectives behind it on one stream, a kernel. With queues of their own the second
 * kernel follows the first; in one queue it stands behind the second collective, which stands
 * behind the first. */
static void test_one_queue(void **state) {
	(void)state;
	for (int queue = 0; queue < 2; queue++) {
		for (int contention = 0; contention < 2; contention++) {
			world w = {.graph = lk_graph_new()};
			lk_graph *g = w.graph;
			uint32_t id = 0, rank = 0;
			lk_graph_set_programs(g, 1, 0, NULL);
			g->ranks.chains = g->ranks.world = 1;
			lk_graph_begin_block(g, "block");
			lk_graph_add(
				g, &(lk_op){.kind = LK_OP_GEMM, .stream = LK_STREAM_COMPUTE, .name = "first"});
			for (int i = 0; i < 2; i++)
				lk_graph_add(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
				                         .stream = LK_STREAM_DP,
				                         .group = LK_GROUP_DP,
				                         .join = LK_JOIN(LK_STREAM_COMPUTE),
				                         .name = "comm"});
			lk_graph_add(
				g, &(lk_op){.kind = LK_OP_GEMM, .stream = LK_STREAM_COMPUTE, .name = "second"});
			lk_graph_end_block(g, &id, NULL);
			lk_graph_call(g, 0, &(lk_call){.block = id, .repeat = 1}, NULL);
			if (queue) assert_int_equal(lk_graph_one_queue(g, NULL), LK_OK);
			assert_int_equal(lk_graph_check(g, NULL), LK_OK);
			w.costs = (lk_costs){
				.variants = 1, .ops = g->ops.count, .at = calloc(g->ops.count, sizeof(lk_cost))};
			for (uint32_t i = 0; i < g->ops.count; i++) {
				int64_t d = lk_op_is_comm(g->ops.kind[i])  ? 1000
				            : g->ops.kind[i] == LK_OP_GEMM ? 100
				                                           : 0;
				w.costs.at[i] = (lk_cost){.duration_ps = d, .tail_ps = d};
			}
			lk_sim_options options = {.contention = contention, .record = &rank, .record_count = 1};
			lk_sim_result r = run(&w, options, LK_OK);
			assert_int_equal(r.events.at[r.events.count - 1].start_ps, queue ? 1100 : 100);
			assert_int_equal(r.step_ps, 2100);
			lk_sim_result_free(&r);
			free_world(&w);
		}
	}
}

/* One queue only adds waiting: no operation starts earlier. */
static void test_one_queue_waits(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < (uint64_t)trials(100); seed++) {
		world w, q;
		shape s = random_shape(seed);
		s.jams = s.queue = s.variants = false;
		random_world(seed, s, &w);
		random_world(seed, s, &q);
		free(q.costs.at);
		assert_int_equal(lk_graph_one_queue(q.graph, NULL), LK_OK);
		q.costs.ops = q.graph->ops.count;
		q.costs.at = calloc(q.costs.ops, sizeof(lk_cost));
		for (uint32_t i = 0, from = 0; i < q.costs.ops; i++)
			if (strcmp(lk_intern_text(q.graph->names, q.graph->ops.name[i]), "queue") != 0)
				q.costs.at[i] = w.costs.at[from++];
		lk_sim_result free_running, queued;
		lk_sim_options options = {.apart = true};
		free_running = run(&w, options, LK_OK);
		lk_error err;
		if (lk_sim_run(q.graph, &q.costs, &options, &queued, &err) == LK_OK) {
			assert_true(queued.step_ps >= free_running.step_ps);
			lk_sim_result_free(&queued);
		}
		lk_sim_result_free(&free_running);
		free_world(&w);
		free_world(&q);
	}
}

/* --- classes, errors
 * ----------------------------------------------------------------------------------------------------
 */

/* One slow rank among tp x dp: itself, its tensor-parallel peers, its data-parallel peers, the
 * others. */
static void test_classes(void **state) {
	(void)state;
	static const uint32_t chains[] = {64, 4096, 131072};
	for (int i = 0; i < 3; i++) {
		world w;
		new_line(&(line){.stages = 2,
		                 .chains = (int)chains[i],
		                 .tp = 8,
		                 .microbatches = 2,
		                 .layers = 1,
		                 .gradients = 1},
		         &w);
		lk_arena arena = LK_ARENA_INIT;
		uint32_t lanes, *of, *ranks;
		lk_straggler slow = {chains[i] + 13, 2};
		lk_sim_options options = {0};
		assert_int_equal(
			lk_sim_classes(w.graph, &w.costs, &options, &arena, &lanes, &of, &ranks, NULL), LK_OK);
		assert_int_equal(lanes, 1);
		options.stragglers = &slow, options.straggler_count = 1;
		assert_int_equal(
			lk_sim_classes(w.graph, &w.costs, &options, &arena, &lanes, &of, &ranks, NULL), LK_OK);
		assert_int_equal(lanes, 4);
		assert_int_equal(ranks[of[13]], 1);
		assert_int_equal(ranks[of[8]], 7);
		assert_int_equal(ranks[of[5]], chains[i] / 8 - 1);
		assert_int_equal(of[0], 0);
		lk_arena_free(&arena);
		free_world(&w);
	}
}

static lk_status run_error(const world *w, lk_sim_options options, lk_error *err) {
	lk_sim_result r;
	lk_status status = lk_sim_run(w->graph, &w->costs, &options, &r, err);
	assert_null(r.finish_ps);
	return status;
}

static void test_errors(void **state) {
	(void)state;
	world w;
	lk_error err;
	new_line(
		&(line){.stages = 2, .chains = 2, .tp = 2, .microbatches = 2, .layers = 1, .kernel = 10},
		&w);
	uint32_t nobody = 4;
	lk_straggler slow = {4, 2};
	assert_int_equal(
		run_error(&w, (lk_sim_options){.stragglers = &slow, .straggler_count = 1}, &err),
		LK_ERR_INPUT);
	slow = (lk_straggler){0, -1};
	assert_int_equal(
		run_error(&w, (lk_sim_options){.stragglers = &slow, .straggler_count = 1}, &err),
		LK_ERR_INPUT);
	assert_int_equal(run_error(&w, (lk_sim_options){.jitter = -0.1}, &err), LK_ERR_INPUT);
	assert_int_equal(run_error(&w, (lk_sim_options){.gpu_spread = 3}, &err), LK_ERR_INPUT);
	assert_int_equal(run_error(&w, (lk_sim_options){.record = &nobody, .record_count = 1}, &err),
	                 LK_ERR_INPUT);
	w.costs.at[0].duration_ps = INT64_MAX;
	assert_int_equal(run_error(&w, (lk_sim_options){0}, &err), LK_ERR_INPUT);
	w.costs.at[0].duration_ps = -1;
	assert_int_equal(run_error(&w, (lk_sim_options){0}, &err), LK_ERR_INPUT);
	w.costs.at[0].duration_ps = 10;
	w.graph->programs.at[1].calls.at[0].block = 99;
	assert_int_equal(run_error(&w, (lk_sim_options){0}, &err), LK_ERR_INPUT);
	free_world(&w);
}

/* Two stages that both receive first: the error names both operations. */
static void test_deadlock(void **state) {
	(void)state;
	world w;
	lk_error err;
	new_line(
		&(line){.stages = 2, .chains = 2, .tp = 1, .microbatches = 1, .layers = 1, .kernel = 10},
		&w);
	lk_program *first = &w.graph->programs.at[0];
	lk_call swap = first->calls.at[0]; /* forward, send, receive, backward */
	first->calls.at[0] = first->calls.at[2];
	first->calls.at[2] = swap;
	for (int contention = 0; contention < 2; contention++) {
		assert_int_equal(run_error(&w, (lk_sim_options){.contention = contention}, &err),
		                 LK_ERR_INTERNAL);
		assert_non_null(strstr(err.what, "stage 0, call 0 (recv): recv"));
		assert_non_null(strstr(err.what, "stage 1, call 0 (recv): recv"));
	}
	free_world(&w);
}

typedef struct meeting {
	int32_t team;
	uint8_t stream;
} meeting;

/* Two ranks in one step: a meeting, `between` kernels behind nothing, another meeting, so many
 * kernels behind that. */
static void new_pair(const meeting order[2][2], uint32_t between, world *w) {
	lk_graph *g = w->graph = lk_graph_new();
	uint32_t pair[] = {0, 1}, id = 0;
	lk_graph_set_programs(g, 2, 0, NULL);
	g->traced = true, g->ranks.chains = 1, g->ranks.world = 2;
	lk_graph_add_team(g, "a", pair, 2, 2, false);
	lk_graph_add_team(g, "b", pair, 2, 2, false);
	for (uint32_t s = 0; s < 2; s++) {
		lk_graph_begin_block(g, "step");
		for (int half = 0; half < 2; half++) {
			const meeting *m = &order[s][half];
			uint32_t meet = lk_graph_add(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
			                                         .stream = m->stream,
			                                         .group = LK_GROUP_TEAM,
			                                         .channel = m->team,
			                                         .name = m->team ? "meet b" : "meet a"});
			lk_op kernel = {
				.kind = LK_OP_GEMM, .stream = 7, .name = "gemm", .deps = &meet, .dep_count = 1};
			for (uint32_t i = 0; i < between; i++) lk_graph_add(g, &kernel), kernel.dep_count = 0;
		}
		lk_graph_end_block(g, &id, NULL);
		lk_graph_call(g, s, &(lk_call){.block = id, .repeat = 1, .microbatch = -1, .layer = -1},
		              NULL);
	}
	w->costs =
		(lk_costs){.variants = 1, .ops = g->ops.count, .at = calloc(g->ops.count, sizeof(lk_cost))};
	for (uint32_t i = 0; i < g->ops.count; i++)
		w->costs.at[i].duration_ps = w->costs.at[i].tail_ps = 10;
}

/* Meetings in opposite order on separate streams: nobody waits, though the sweep has to put all
 * operations of a rank aside before it comes to the one that the other rank meets first. */
static void test_far_ahead(void **state) {
	(void)state;
	world w;
	new_pair((const meeting[2][2]){{{0, 3}, {1, 4}}, {{1, 4}, {0, 3}}}, 20000, &w);
	for (int contention = 0; contention < 2; contention++) {
		lk_sim_result r = run(&w, (lk_sim_options){.contention = contention}, LK_OK);
		assert_int_equal(r.step_ps, 10 + 2 * 200000);
		lk_sim_result_free(&r);
	}
	free_world(&w);
}

/* Operations of no time that end one another, far more than a stack has room for. */
static void test_long_moment(void **state) {
	(void)state;
	enum { OPS = 200000 };
	world w = {.graph = lk_graph_new()};
	lk_graph *g = w.graph;
	uint32_t id = 0, before = 0;
	lk_graph_set_programs(g, 1, 0, NULL);
	g->traced = true, g->ranks.chains = g->ranks.world = 1;
	lk_graph_begin_block(g, "step");
	for (uint32_t i = 0; i < OPS; i++) {
		lk_op op = {.kind = LK_OP_GEMM,
		            .stream = (uint8_t)(2 + i % 3),
		            .name = "gemm",
		            .deps = &before,
		            .dep_count = i > 0};
		before = lk_graph_add(g, &op);
	}
	lk_graph_end_block(g, &id, NULL);
	lk_graph_call(g, 0, &(lk_call){.block = id, .repeat = 1, .microbatch = -1, .layer = -1}, NULL);
	w.costs = (lk_costs){.variants = 1, .ops = OPS, .at = calloc(OPS, sizeof(lk_cost))};
	w.costs.at[0].duration_ps = w.costs.at[OPS - 1].duration_ps = 10;
	for (int contention = 0; contention < 2; contention++) {
		lk_sim_result r = run(&w, (lk_sim_options){.contention = contention}, LK_OK);
		assert_int_equal(r.step_ps, 20);
		assert_int_equal(r.operations, OPS);
		lk_sim_result_free(&r);
	}
	free_world(&w);
}

/* The same on one stream: each rank waits at its first meeting for the other, and the error names
 * both. */
static void test_team_deadlock(void **state) {
	(void)state;
	world w;
	lk_error err;
	new_pair((const meeting[2][2]){{{0, 3}, {1, 3}}, {{1, 3}, {0, 3}}}, 2000, &w);
	for (int contention = 0; contention < 2; contention++) {
		assert_int_equal(run_error(&w, (lk_sim_options){.contention = contention}, &err),
		                 LK_ERR_INPUT);
		assert_non_null(strstr(err.what, "stage 0, call 0 (step), operation 0 (meet a)"));
		assert_non_null(strstr(err.what, "stage 1, call 0 (step), operation 0 (meet b)"));
	}
	free_world(&w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_oracle),
		cmocka_unit_test(test_traced_oracle),
		cmocka_unit_test(test_rank_folding),
		cmocka_unit_test(test_contention_slows),
		cmocka_unit_test(test_one_queue),
		cmocka_unit_test(test_one_queue_waits),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_fold_keeps_work),
		cmocka_unit_test(test_pipeline_formula),
		cmocka_unit_test(test_fold_error),
		cmocka_unit_test(test_sharing_by_hand),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_threads_share_nothing),
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_gangs),
		cmocka_unit_test(test_strides),
		cmocka_unit_test(test_many_acts),
		cmocka_unit_test(test_traced_unfolded),
		cmocka_unit_test(test_far_ahead),
		cmocka_unit_test(test_long_moment),
		cmocka_unit_test(test_team_deadlock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
