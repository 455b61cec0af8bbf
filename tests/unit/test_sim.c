/* test_sim.c: the engines against an oracle, against each other, and against results worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "sim_random.h"

/* Every rank recorded. */
static uint32_t *every_rank(const world *w) {
	uint32_t ranks = w->graph->ranks.stages * w->graph->ranks.chains, *list = calloc(ranks, sizeof *list);
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
	lk_sim_options options = {.all_ranks = true, .seed = d->state};
	uint32_t ranks = w->graph->ranks.stages * w->graph->ranks.chains;
	if (chance(d, 20)) options.jitter = 0.05 * (1 + roll(d, 4));
	if (chance(d, 40)) {
		options.straggler_count = 1 + roll(d, 2);
		options.stragglers = slow;
		for (int i = 0; i < 2; i++) slow[i] = (lk_straggler){roll(d, ranks), 0.5 + 0.25 * roll(d, 6)};
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
				print_message("rank %u, call %u.%u, operation %u (%s): %lld..%lld, not %lld..%lld\n", rank, want->call, want->repetition,
				              want->op, lk_intern_text(o->w->graph->names, o->w->graph->ops.name[want->op]), (long long)got->start_ps,
				              (long long)got->end_ps, (long long)want->start, (long long)want->end);
			assert_int_equal(got->record, rank);
			assert_int_equal(got->op, want->op);
			assert_int_equal(got->call, want->call);
			assert_int_equal(got->repetition, want->repetition);
			assert_int_equal(got->start_ps, want->start);
			assert_int_equal(got->end_ps, want->end);
			assert_int_equal(got->ready_ps, lk_op_is_comm(o->w->graph->ops.kind[want->op]) ? want->arrival : want->start);
		}
	}
	assert_int_equal(r->step_ps, o->step);
	assert_int_equal(at, r->events.count);
	assert_int_equal(at, r->operations);
}

static int rounds(int usual) {
	const char *more = getenv("LOCKSTEP_LONG");
	return more && *more ? usual * 20 : usual;
}

static shape random_shape(uint64_t seed) {
	dice d = {seed};
	return (shape){.jams = chance(&d, 15), .macros = chance(&d, 50), .variants = chance(&d, 40), .loose = chance(&d, 50)};
}

/* Both engines give every time that the oracle gives, on every rank, or find the same deadlocks. */
static void test_oracle(void **state) {
	(void)state;
	int stuck = 0;
	for (int seed = 0; seed < rounds(400); seed++) {
		world w;
		lk_straggler slow[2];
		dice d = {(uint64_t)seed};
		random_world((uint64_t)seed, random_shape((uint64_t)seed), &w);
		quiet_costs(&w);
		lk_sim_options options = noise(&d, &w, slow);
		oracle o;
		oracle_run(&w, &options, &o);
		uint32_t *list = every_rank(&w);
		options.record = list;
		options.record_count = o.ranks;
		stuck += o.stuck;
		for (int contention = 0; contention < 2; contention++) {
			options.contention = contention;
			if (getenv("VERBOSE")) print_message("seed %d contention %d jitter %g slow %u variants %u stuck %d\n", seed, contention, options.jitter, options.straggler_count, w.costs.variants, o.stuck);
			lk_sim_result r = run(&w, options, o.stuck ? LK_ERR_INTERNAL : LK_OK);
			if (!o.stuck) same_as_oracle(&o, &r);
			options.record_count = 0; /* the fast path: nothing is recorded */
			lk_sim_result fast = run(&w, options, o.stuck ? LK_ERR_INTERNAL : LK_OK);
			if (!o.stuck) assert_memory_equal(fast.finish_ps, r.finish_ps, o.ranks * sizeof *r.finish_ps);
			options.record_count = o.ranks;
			lk_sim_result_free(&fast);
			lk_sim_result_free(&r);
		}
		free(list);
		oracle_free(&o);
		free_world(&w);
	}
	assert_true(stuck > 0 && stuck < rounds(400) / 2); /* both outcomes were met */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_oracle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
