/* test_whatif_traced.c: changes of lifted traces: a few captured ranks whose host, device and
 * network times are known, so that what a change must do to the step can be said exactly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "whatif/whatif.h"
#include "base/units.h"

enum { CPU, GPU, NET };
enum { LAYERS = 4, RANKS = 2 };

/* Times in microseconds. */
struct times {
	double launch, product, reduce, load;
	bool late;      /* reductions behind the backward pass */
	bool shapeless; /* the trace says no shapes */
};

static void ok(lk_status status, const lk_error *err) {
	char text[1000];
	if (status != LK_OK) fail_msg("%s", lk_error_text(err, text, sizeof text));
}

static int64_t us(double t) {
	return (int64_t)(t * 1e6);
}

static uint32_t host(lk_graph *graph, const char *name, double t, unsigned phase) {
	lk_op op = {.kind = LK_OP_HOST,
	            .stream = CPU,
	            .phase = (uint8_t)phase,
	            .name = name,
	            .measured_ps = us(t)};
	return lk_graph_add(graph, &op);
}

static uint32_t device(lk_graph *graph, lk_op op, const struct times *times, uint32_t a,
                       uint32_t b) {
	uint32_t deps[2] = {a, b};
	op.deps = deps, op.dep_count = b == UINT32_MAX ? 1 : 2;
	if (times->shapeless) op.m = op.n = op.k = op.batch = op.bytes = op.flops = 0;
	return lk_graph_add(graph, &op);
}

static lk_op product(const struct times *times, unsigned phase) {
	return (lk_op){.kind = LK_OP_GEMM,
	               .stream = GPU,
	               .phase = (uint8_t)phase,
	               .name = "gemm",
	               .dtype = LK_BF16,
	               .m = 8192,
	               .n = 4096,
	               .k = 4096,
	               .batch = 1,
	               .flops = 2.7e11,
	               .bytes = 1.7e8,
	               .measured_ps = us(times->product)};
}

static void reduce(lk_graph *graph, const struct times *times, uint32_t gradient) {
	uint32_t from = host(graph, "cudaLaunchKernelExC", times->launch, LK_PHASE_BACKWARD);
	lk_op op = {.kind = LK_OP_ALLREDUCE,
	            .stream = NET,
	            .phase = LK_PHASE_BACKWARD,
	            .group = LK_GROUP_TEAM,
	            .name = "ncclAllReduce",
	            .bytes = 25e6,
	            .measured_ps = us(times->reduce)};
	device(graph, op, times, from, gradient);
}

static void one_rank(lk_graph *graph, const struct times *times) {
	uint32_t gradient[LAYERS];
	host(graph, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", times->load,
	     LK_PHASE_OTHER);
	for (int l = 0; l < LAYERS; l++)
		device(graph, product(times, LK_PHASE_FORWARD), times,
		       host(graph, "cudaLaunchKernel", times->launch, LK_PHASE_FORWARD), UINT32_MAX);
	for (int l = 0; l < LAYERS; l++) {
		gradient[l] =
			device(graph, product(times, LK_PHASE_BACKWARD), times,
		           host(graph, "cudaLaunchKernel", times->launch, LK_PHASE_BACKWARD), UINT32_MAX);
		if (!times->late) reduce(graph, times, gradient[l]);
	}
	for (int l = 0; l < LAYERS && times->late; l++) reduce(graph, times, gradient[LAYERS - 1]);
	uint32_t from = host(graph, "cudaLaunchKernel", times->launch, LK_PHASE_OPTIMIZER);
	lk_op adam = {.kind = LK_OP_OPTIMIZER,
	              .stream = GPU,
	              .phase = LK_PHASE_OPTIMIZER,
	              .name = "adam",
	              .bytes = 1e8,
	              .measured_ps = us(50),
	              .join = LK_JOIN(NET)};
	uint32_t last = device(graph, adam, times, from, UINT32_MAX);
	lk_op sync = {.kind = LK_OP_HOST,
	              .stream = CPU,
	              .phase = LK_PHASE_OTHER,
	              .name = "cudaDeviceSynchronize",
	              .deps = &last,
	              .dep_count = 1};
	lk_graph_add(graph, &sync);
}

static lk_graph *captured(const struct times *times) {
	lk_graph *graph = lk_graph_new();
	lk_error err = {0};
	uint32_t id;
	assert_non_null(graph);
	graph->traced = true;
	graph->peak_dtype = LK_BF16;
	ok(lk_graph_set_programs(graph, RANKS, 0, &err), &err);
	graph->ranks.chains = 1;
	graph->ranks.world = RANKS;
	for (uint32_t r = 0; r < RANKS; r++) {
		lk_graph_begin_block(graph, "rank");
		one_rank(graph, times);
		ok(lk_graph_end_block(graph, &id, &err), &err);
		lk_call call = {.block = id, .repeat = 1, .microbatch = -1, .layer = -1};
		ok(lk_graph_call(graph, r, &call, &err), &err);
		graph->programs.at[r].threads = LK_JOIN(CPU);
		assert_true(lk_push(&graph->team_stages));
		*lk_last(&graph->team_stages) = r;
	}
	assert_true(lk_push(&graph->teams));
	*lk_last(&graph->teams) =
		(lk_team){.name = lk_intern_id(graph->names, "default_pg"), .end = RANKS, .ranks = RANKS};
	ok(lk_graph_check(graph, &err), &err);
	return graph;
}

struct lk_fixture {
	lk_arena arena;
	lk_whatif_site site;
	lk_whatif_base *base;
	lk_graph *graph;
	lk_error err;
};

static void begin(struct lk_fixture *fixture, const struct times *times) {
	memset(fixture, 0, sizeof *fixture);
	ok(lk_cluster_simple(&fixture->arena, lk_device_find("a100-sxm-80"), 8, 0, 0,
	                     &fixture->site.cluster, &fixture->err),
	   &fixture->err);
	fixture->graph = captured(times);
	ok(lk_whatif_begin(fixture->graph, &fixture->site, &fixture->base, &fixture->err),
	   &fixture->err);
}

static void end(struct lk_fixture *fixture) {
	lk_whatif_end(fixture->base);
	lk_graph_free(fixture->graph);
	lk_arena_free(&fixture->arena);
}

/* Microseconds of a step with the sets, separated by blanks. */
static double with(struct lk_fixture *fixture, const char *texts) {
	lk_whatif_sets sets = {0};
	lk_whatif_outcome outcome;
	char *copy = lk_arena_strdup(&fixture->arena, texts), *item;
	while ((item = strsep(&copy, " ")))
		if (*item) ok(lk_whatif_parse(&fixture->arena, item, &sets, &fixture->err), &fixture->err);
	ok(lk_whatif_try(fixture->base, sets.at, sets.count, &outcome, &fixture->err), &fixture->err);
	double t = outcome.step.step_s * 1e6;
	assert_true(outcome.compute_s + outcome.exposed_s <= outcome.step.step_s * (1 + 1e-9));
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&sets);
	return t;
}

static void about(double got, double wanted) {
	if (fabs(got - wanted) > 1e-3) fail_msg("%.6f us, expected %.6f us", got, wanted);
}

/* First launch, eight products, the last reduction, the optimizer: 5 + 8 * 100 + 80 + 50. */
static void the_base_is_replayed(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){5, 100, 80, 0, false, false});
	about(with(&f, ""), 935);
	end(&f);
}

static void nothing_changes_nothing(void **state) {
	(void)state;
	for (int shapeless = 0; shapeless < 2; shapeless++) {
		struct lk_fixture f;
		begin(&f, &(struct times){5, 100, 80, 30, false, shapeless});
		static const char *const none[] = {
			"gpu=a100-sxm-80", "scale=1", "nic=1x",   "dtype=bf16",      "batch=1x",
			"bucket=25MB",     "host=1x", "launch=1", "data-loading=1x", "fused-optimizer=on",
			"op:*=1x"};
		for (size_t i = 0; i < sizeof none / sizeof *none; i++)
			if (!shapeless || i != 5) about(with(&f, none[i]), 965);
		end(&f);
	}
}

static void factors_are_taken_at_their_word(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){5, 100, 80, 30, false, false});
	about(with(&f, "op:gemm=0.5x"),
	      30 + 5 + 8 * 50 + 4 * 80 - 3 * 50 +
	          50); /* reductions are the longer now: from the first gradient on */
	about(with(&f, "op:adam=2x"), 965 + 50);
	about(with(&f, "remove:ncclAllReduce"), 965 - 80);
	about(with(&f, "data-loading=off"), 965 - 30);
	about(with(&f, "data-loading=0.5x host=0"), 965 - 15 - 5);
	about(with(&f, "launch=0"), 965 - 5);
	about(with(&f, "straggler=1:1.5x"),
	      1.5 * (30 + 5 + 8 * 100 + 50) + 80); /* all but the network */
	end(&f);
}

/* A slow host: launches of 150 us each hold everything up; CUDA graphs take nearly all of that
 * away. */
static void graphs_free_the_host(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){150, 100, 80, 0, false, false});
	assert_true(with(&f, "") > 12 * 150);
	assert_true(with(&f, "launch=graphs") < 12 * 150 * .8);
	about(with(&f, "launch=0"), 8 * 100 + 80 + 50);
	end(&f);
}

/* Reductions behind the backward pass: 4 * 80 alone; overlapped, each behind its layer, the last
 * alone. */
static void overlap_hides_reductions(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){5, 100, 80, 0, true, false});
	about(with(&f, ""), 5 + 8 * 100 + 4 * 80 + 50);
	about(with(&f, "overlap=on"), 5 + 8 * 100 + 80 + 50);
	static const char *const overlap = "overlap=on";
	double worth;
	ok(lk_whatif_worth(f.base, &overlap, 1, &worth, &f.err), &f.err);
	about(worth * 1e6, 3 * 80);
	end(&f);
	begin(&f, &(struct times){5, 100, 80, 0, false, false});
	about(with(&f, "overlap=off"), 5 + 8 * 100 + 4 * 80 + 50);
	end(&f);
}

/* One bucket of all: it starts behind the last gradient, and takes less than its four parts one
 * after the other. */
static void buckets_start_late_and_pay_latency_once(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){5, 100, 80, 0, false, false});
	double one = with(&f, "bucket=100MB");
	assert_true(one > 935 + 80 && one < 5 + 8 * 100 + 4 * 80 + 50);
	end(&f);
}

static void networks_scale_what_was_measured(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){5, 100, 80, 0, true, false});
	double before = INFINITY;
	static const char *const links[] = {"link=0.25x", "link=0.5x", "link=1x", "link=2x", "link=4x"};
	for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
		double now = with(&f, links[i]);
		assert_true(now <= before);
		before = now;
	}
	assert_true(with(&f, "link=0.5x") > 1175 + 4 * 80 * .5);
	assert_true(with(&f, "gpu=h100-sxm") < 1175);
	end(&f);
}

/* Copies of the two ranks: the same work, larger reductions. */
static void copies_reduce_over_more(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, &(struct times){5, 100, 80, 0, true, false});
	double before = with(&f, "");
	for (int scale = 2; scale <= 32; scale *= 4) {
		char set[32];
		snprintf(set, sizeof set, "scale=%d", scale);
		double now = with(&f, set);
		assert_true(now > before);
		before = now;
	}
	end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_base_is_replayed),
		cmocka_unit_test(nothing_changes_nothing),
		cmocka_unit_test(factors_are_taken_at_their_word),
		cmocka_unit_test(graphs_free_the_host),
		cmocka_unit_test(overlap_hides_reductions),
		cmocka_unit_test(buckets_start_late_and_pay_latency_once),
		cmocka_unit_test(networks_scale_what_was_measured),
		cmocka_unit_test(copies_reduce_over_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
