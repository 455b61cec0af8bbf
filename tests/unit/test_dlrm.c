/* test_dlrm.c: recommendation models: sizes against closed forms, configs and their errors, lookups
 * against counting, host overheads, the simulated step against a walk written after the
 * publication, and the bar on the measured table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/arena.h"
#include "validate/validate.h"
#include "base/stats.h"
#include "base/units.h"
#include "cost/kernel/kernel.h"
#include "cost/kernel/embedding.h"
#include "lockstep/validate.h"
#include "sim/sim.h"
#include "data.h"
#include "model/dlrm/dlrm_build.h"

static const char *const presets[] = {"DLRM_default", "DLRM_MLPerf", "DLRM_DDP"};

static lk_dlrm preset(lk_arena *arena, const char *name) {
	lk_dlrm model;
	lk_error err = {0};
	if (lk_dlrm_preset(arena, name, &model, &err) != LK_OK) fail_msg("%s: %s", name, err.what);
	return model;
}

static lk_status read_text(lk_arena *arena, const char *text, lk_dlrm *out, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "own.json", &in, err), LK_OK);
	lk_status status = lk_dlrm_read(arena, in, out, err);
	lk_stream_close(in);
	return status;
}

/* ---- sizes ---- */

/* Layer by layer, by hand: DLRM_default has 9 vectors, 36 pairs, so 100 inputs of the top MLP. */
static void sizes_in_closed_form(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm m = preset(&arena, "dlrm-default");
	assert_true(lk_dlrm_vectors(&m) == 9 && lk_dlrm_pairs(&m) == 36 && m.top[0] == 100);
	double dense =
		512 * 512 + 512 + 512 * 64 + 64 + 100 * 1024 + 1024 + 2 * (1024 * 1024 + 1024) + 1024 + 1;
	assert_true(lk_dlrm_dense_params(&m) == dense);
	assert_true(lk_dlrm_params(&m) == dense + 8e6 * 64);
	double weights = 512 * 512 + 512 * 64 + 100 * 1024 + 2 * 1024 * 1024 + 1024;
	assert_true(lk_dlrm_flops(&m, 10) == 20 * (3 * weights - 512 * 512 + 3 * 81 * 64));
	m = preset(&arena, "dlrm-mlperf");
	assert_true(m.tables == 26 && lk_dlrm_pairs(&m) == 351 && m.top[0] == 479);
	m = preset(&arena, "dlrm-ddp");
	assert_true(m.top[0] == 164 && m.loss == LK_DLRM_BCE);
	lk_arena_free(&arena);
}

static void totals_of_presets(void **state) {
	(void)state;
	static const double params[] = {514499137, 912505985, 82710913};
	lk_arena arena = LK_ARENA_INIT;
	for (int i = 0; i < 3; i++) {
		lk_dlrm m = preset(&arena, presets[i]);
		if (lk_dlrm_params(&m) != params[i]) fail_msg("%s: %.0f", m.name, lk_dlrm_params(&m));
	}
	lk_arena_free(&arena);
}

/* All lookups on one rank, so long. */
static const double lookups_s = 1e-4;
static const lk_dlrm_placed on_one = {
	.ranks = 1, .forward_s = &lookups_s, .backward_s = &lookups_s};

/* The graph's products are the model's operations, on one rank or shared out over several, whatever
 * the interaction; with a host and without. */
static double zero_seconds(const void *table, int term, const char *name) {
	(void)table;
	(void)term;
	(void)name;
	return 0;
}

static void check_flops(const char *name, int ranks, const lk_host_times *host) {
	lk_arena arena = LK_ARENA_INIT;
	double each[8];
	lk_dlrm m = preset(&arena, name);
	lk_graph *graph;
	lk_error err = {0};
	double flops = 0, sends = 0;
	for (int r = 0; r < 8; r++) each[r] = 1e-5 * r;
	const lk_dlrm_placed placed = {ranks, each, each, 1e-5, 2e-5, 0};
	assert_int_equal(lk_dlrm_step(&m, 512, LK_FP32, &placed, host, &graph, &err), LK_OK);
	for (uint32_t op = 0; op < graph->ops.count; op++) {
		flops += graph->ops.flops[op];
		sends += lk_op_is_comm(graph->ops.kind[op]);
		assert_true(host || graph->ops.kind[op] != LK_OP_HOST);
	}
	assert_true(fabs(flops / lk_dlrm_flops(&m, 512) - 1) < 1e-12 && graph->traced);
	assert_true(graph->model_flops == lk_dlrm_flops(&m, 512) && (sends > 0) == (ranks > 1));
	if (lk_graph_check(graph, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	lk_graph_free(graph);
	lk_arena_free(&arena);
}

static void flops_of_the_graph(void **state) {
	(void)state;
	static const char *const names[] = {"DLRM_default", "DLRM_MLPerf", "DLRM_DDP", "dlrm-dcnv2"};
	const lk_host_times none = {zero_seconds, NULL};
	for (int i = 0; i < 4; i++)
		for (int ranks = 1; ranks <= 8; ranks *= 8) {
			check_flops(names[i], ranks, &none);
			check_flops(names[i], ranks, NULL);
		}
}

/* Gaps between operations (T1), counted by a host that spends a millisecond on each: for every
 * layer linear, activation and its gradient, AddmmBackward, two AccumulateGrad, TBackward; 8 of
 * interaction and lookup forward, 8 backward (an addition is within another); 5 copies; loss,
 * detach, ones_like and the loss's gradient; zero_grad and the optimizer's step. The profiles have
 * 71 in a step of DLRM_default, 85 in one of DLRM_DDP. */
static double gap_seconds(const void *table, int term, const char *name) {
	(void)table;
	(void)name;
	return term == 1 ? 1e-3 : 0;
}

static void gaps_of_a_step(void **state) {
	(void)state;
	const lk_host_times gaps = {gap_seconds, NULL};
	static const int layers[] = {6, 8, 8};
	lk_arena arena = LK_ARENA_INIT;
	for (int i = 0; i < 3; i++) {
		lk_dlrm m = preset(&arena, presets[i]);
		lk_graph *graph;
		lk_error err = {0};
		double milliseconds = 0;
		assert_int_equal(lk_dlrm_step(&m, 512, LK_FP32, &on_one, &gaps, &graph, &err), LK_OK);
		for (uint32_t op = 0; op < graph->ops.count; op++)
			if (graph->ops.kind[op] == LK_OP_HOST) milliseconds += 1e3 * graph->ops.m[op];
		if (lround(milliseconds) != 7 * layers[i] + 8 + 8 + 5 + 4 + 2)
			fail_msg("%s: %.0f gaps", m.name, milliseconds);
		lk_graph_free(graph);
	}
	lk_arena_free(&arena);
}

static void variants(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm m;
	lk_error err = {0};
	const char *text =
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], \"embedding_dim\": "
		"8, \"tables\": "
		"[{\"rows\": 5, \"count\": 2}], \"interaction\": \"cat\", \"optimizer\": \"adagrad\"}";
	assert_int_equal(read_text(&arena, text, &m, &err), LK_OK);
	assert_true(m.top[0] == 24 && lk_dlrm_pairs(&m) == 0 && m.optimizer == LK_DLRM_ADAGRAD);
	assert_true(lk_dlrm_params(&m) == 4 * 8 + 8 + 24 + 1 + 10 * 8);
	const char *self = "{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], "
					   "\"embedding_dim\": 8, \"tables\": "
					   "[{\"rows\": 5}], \"self_interaction\": true}";
	assert_int_equal(read_text(&arena, self, &m, &err), LK_OK);
	assert_true(lk_dlrm_pairs(&m) == 3 && m.top[0] == 11);
	lk_arena_free(&arena);
}

static void errors_name_place_and_remedy(void **state) {
	(void)state;
	static const char *const wrong[] = {
		"[]",
		"{}",
		"{\"model_type\": \"dlrm\"}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [1, \"2\"]}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], \"embedding_dim\": "
		"9, \"tables\": [{\"rows\": 5}]}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [8], \"top_mlp\": [1], \"embedding_dim\": 8, "
		"\"tables\": [{\"rows\": 5}]}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], \"embedding_dim\": "
		"8, \"tables\": [{}]}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], \"embedding_dim\": "
		"8, \"tables\": [5]}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], \"embedding_dim\": "
		"8, \"tables\": [{\"rows\": 5, "
		"\"count\": 60000}, {\"rows\": 5, \"count\": 60000}]}",
		"{\"model_type\": \"dlrm\", \"bottom_mlp\": [4, 8], \"top_mlp\": [1], \"embedding_dim\": "
		"8, \"tables\": [{\"rows\": 5}], "
		"\"loss\": \"l1\"}",
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_dlrm m;
		lk_error err = {0};
		assert_int_equal(read_text(&arena, wrong[i], &m, &err), LK_ERR_INPUT);
		assert_non_null(strstr(err.where, "own.json:1:"));
		assert_true(err.what[0] && err.hint[0]);
		lk_arena_free(&arena);
	}
}

/* ---- lookups ---- */

static const lk_device *v100(void) {
	return lk_device_find("V100");
}

/* A cache that holds everything: hits are what a simulation of uniform draws counts. */
static void uniform_hits_as_counted(void **state) {
	(void)state;
	enum { ROWS = 500, DRAWS = 2000 };
	double different = 0;
	for (uint64_t seed = 0; seed < 20; seed++) {
		bool seen[ROWS] = {false};
		for (uint64_t i = 0; i < DRAWS; i++) {
			int row = (int)(lk_uniform(seed, i) * ROWS);
			different += !seen[row];
			seen[row] = true;
		}
	}
	const lk_lookup lookup = {.batch = 200, .tables = 4, .rows = ROWS, .dim = 64, .pooling = 10};
	double hit = lk_lookup_traffic_of(&lookup, v100()).hit;
	assert_true(fabs(hit - (1 - different / 20 / DRAWS)) < 0.003);
}

static void lookup_properties(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		lk_lookup l = {.batch = ceil(4096 * lk_uniform(seed, 0)),
		               .tables = ceil(30 * lk_uniform(seed, 1)),
		               .rows = ceil(pow(10, 7 * lk_uniform(seed, 2))),
		               .dim = 32 * ceil(8 * lk_uniform(seed, 3)),
		               .pooling = ceil(100 * lk_uniform(seed, 4))};
		lk_device small = *v100(), large = *v100();
		small.l2_bytes /= 8;
		large.l2_bytes *= 8;
		lk_lookup_traffic a = lk_lookup_traffic_of(&l, &small),
						  b = lk_lookup_traffic_of(&l, &large);
		assert_true(a.hit >= 0 && b.hit <= 1 && a.hit <= b.hit + 1e-12 &&
		            a.dram >= b.dram * (1 - 1e-12));
		double forward = lk_lookup_seconds(&l, v100(), 8e11, 2.8e12);
		assert_true(isfinite(forward) && forward > 0);
		l.tables *= 2;
		assert_true(lk_lookup_seconds(&l, v100(), 8e11, 2.8e12) > forward);
		lk_lookup_traffic once = lk_lookup_traffic_of(&l, v100());
		l.backward = true;
		assert_true(lk_lookup_traffic_of(&l, v100()).dram >= once.dram);
	}
}

/* Every row once: nothing hits. Rows that are looked up often: more hits than uniform indices have,
 * up to the limit of first touches. */
static void reuse_histograms(void **state) {
	(void)state;
	double once[LK_REUSE_BINS] = {1}, often[LK_REUSE_BINS] = {[0] = 0.5, [6] = 0.5};
	lk_lookup l = {.batch = 4096, .tables = 8, .rows = 1e6, .dim = 64, .pooling = 100};
	double uniform = lk_lookup_traffic_of(&l, v100()).hit;
	l.reuse = once;
	assert_true(lk_lookup_traffic_of(&l, v100()).hit == 0);
	l.reuse = often;
	double hit = lk_lookup_traffic_of(&l, v100()).hit, mean = 0.5 + 0.5 * 32 / log(2);
	assert_true(hit > uniform && hit < 1 - 1 / mean + 1e-4);
	l.pooling = 1; /* few rows: all fit */
	assert_true(fabs(lk_lookup_traffic_of(&l, v100()).hit - (1 - 1 / mean)) <
	            1e-4); /* bins are divided in classes of one mean */
}

/* ---- many devices ---- */

/* Cross layers and MLPs of all ranks together multiply the model's count; graphs are well formed. */
static void hybrid_steps(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_dlrm m = preset(&arena, "dlrm-dcnv2");
	for (int ranks = 1; ranks <= 64; ranks *= 4) {
		lk_graph *graph;
		double flops = 0;
		assert_int_equal(lk_dlrm_hybrid(&m, &(lk_dlrm_job){65536, ranks, LK_FP16, 0}, &graph, &err),
		                 LK_OK);
		assert_int_equal(lk_graph_check(graph, &err), LK_OK);
		for (uint32_t i = 0; i < graph->ops.count; i++) flops += graph->ops.flops[i] * ranks;
		assert_true(fabs(flops / lk_dlrm_flops(&m, 65536) - 1) < 1e-12);
		double held = graph->programs.at[0].resident[LK_OWN_WEIGHTS] * ranks;
		assert_true(held > (lk_dlrm_params(&m) - lk_dlrm_dense_params(&m)) * 4 &&
		            held < lk_dlrm_params(&m) * 4 * 1.3);
		lk_graph_free(graph);
	}
	lk_arena_free(&arena);
}

/* Rows that every rank keeps: never more than there are; shares lie between 0 and 1 and fall as
 * more is kept; of several lookups a table whole tables of at most 8 MiB (15 of 26 of DLRM-DCNv2);
 * one rank keeps nothing. */
static void copied_rows(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm one = preset(&arena, "dlrm-criteo"), many = preset(&arena, "dlrm-dcnv2");
	double rows = (lk_dlrm_params(&one) - lk_dlrm_dense_params(&one)) / one.dim, last = 2;
	for (double batch = 4096; batch <= 1 << 20; batch *= 4) {
		lk_dlrm_copied c = lk_dlrm_copies(&one, &(lk_dlrm_job){batch, 64, LK_FP16, 8});
		assert_true(c.rows > 0 && c.rows < rows && c.reduced == c.rows);
		assert_true(c.sums > 0 && c.sums < last && c.sums == c.lookups);
		last = c.sums;
	}
	lk_dlrm_copied node = lk_dlrm_copies(&one, &(lk_dlrm_job){55296, 8, LK_FP16, 0});
	assert_true(node.reduced > 0 &&
	            node.reduced < node.rows); /* those alone that a rank's samples touch */
	/* the formula of HugeCTR, by hand: 8 nodes; one node of 8 with 6912 samples each */
	assert_true(fabs(lk_dlrm_threshold(&(lk_dlrm_job){71680, 64, LK_FP16, 8}) -
	                 8 * 1.9 / 1.3 * 0.5 * 8 / 7) < 1e-9);
	assert_true(fabs(lk_dlrm_threshold(&(lk_dlrm_job){55296, 8, LK_FP16, 0}) -
	                 55296 * sqrt(0.02 / (6912. * 6911))) < 1e-9);
	lk_dlrm_copied tables = lk_dlrm_copies(&many, &(lk_dlrm_job){65536, 8, LK_FP16, 0});
	assert_true(fabs(tables.sums - 11. / 26) < 1e-12 && tables.rows == tables.reduced &&
	            tables.lookups < 1);
	lk_dlrm_copied alone = lk_dlrm_copies(&one, &(lk_dlrm_job){65536, 1, LK_FP16, 0});
	assert_true(alone.rows == 0 && alone.sums == 1 && alone.lookups == 1);
	lk_arena_free(&arena);
}

/* Over nodes each exchange is one inside the node and one between GPUs of the same place; what
 * leaves a rank stays the same. */
static void exchanges_in_two_steps(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_dlrm m = preset(&arena, "dlrm-dcnv2");
	for (int in_node = 0; in_node <= 8; in_node += 4) {
		lk_graph *graph;
		int inside = 0, between = 0, whole = 0;
		assert_int_equal(
			lk_dlrm_hybrid(&m, &(lk_dlrm_job){65536, 16, LK_FP16, in_node}, &graph, &err), LK_OK);
		assert_int_equal(lk_graph_check(graph, &err), LK_OK);
		for (uint32_t i = 0; i < graph->ops.count; i++) {
			if (graph->ops.kind[i] != LK_OP_ALLTOALL) continue;
			inside += graph->ops.group[i] == LK_GROUP_TP;
			between += graph->ops.group[i] == LK_GROUP_CP;
			whole += graph->ops.group[i] == LK_GROUP_DP;
		}
		assert_int_equal(whole, in_node ? 0 : 3);
		assert_int_equal(inside, in_node ? 3 : 0);
		assert_int_equal(between, inside);
		if (in_node)
			assert_int_equal(
				graph->ranks.group[LK_GROUP_TP].size * graph->ranks.group[LK_GROUP_CP].size, 16);
		lk_graph_free(graph);
	}
	lk_arena_free(&arena);
}

/* ---- host overheads ---- */

static lk_status read_terms(const char *text, lk_host_terms *out, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "host.csv", &in, err), LK_OK);
	lk_status status = lk_host_terms_read(in, &(lk_host_kind){"DLRM", 512, 4096}, out, err);
	lk_stream_close(in);
	return status;
}

static bool near(double a, double b) {
	return fabs(a - b) <= 1e-12 * fabs(b);
}

static void terms_are_weighted_and_merged(void **state) {
	(void)state;
	lk_host_terms own = {0}, more = {0};
	lk_error err = {0};
	assert_int_equal(
		read_terms(
			"type,name,model,batch_size,mean_us,count\nt1,,DLRM_x,512,8,1\nt1,,dlrm_y,1024,12,3\n"
			"t1,,resnet,512,99,50\nt1,,DLRM_x,8192,99,50\nt2,AddmmBackward0,DLRM_x,512,40,2\n",
			&own, &err),
		LK_OK);
	assert_int_equal(read_terms("type,name,mean_us\nt1,,14\nt2,AddmmBackward,80\nt3,AddmmBackward,"
	                            "30\nt4,cudaLaunchKernel,10.4\n"
	                            "t5,AddmmBackward,46\nt3,aten::sum,6\n",
	                            &more, &err),
	                 LK_OK);
	assert_int_equal(lk_host_terms_fill(&own, &more, &err), LK_OK);
	assert_true(near(lk_host_terms_seconds(&own, 1, "any"), 11e-6));
	assert_true(near(lk_host_terms_seconds(&own, 2, "AddmmBackward"), 40e-6));
	assert_true(near(lk_host_terms_seconds(&own, 3, "AddmmBackward0"), 15e-6)); /* 30 * 40/80 */
	assert_true(near(lk_host_terms_seconds(&own, 4, "cudaLaunchKernel"), 4e-6));
	assert_true(near(lk_host_terms_seconds(&own, 3, "aten::never"), 9e-6)); /* mean over names */
	lk_host_terms_free(&own);
	lk_host_terms_free(&more);
}

static void bad_terms(void **state) {
	(void)state;
	static const char *const wrong[] = {
		"a,b\n1,2\n", "type,name,mean_us\nt6,x,1\n", "type,name,mean_us\nt2,x,-1\n",
		"type,name,mean_us\nt2,x,nan\n", "type,name,mean_us,count\nt2,x,1,many\n"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_host_terms terms = {0};
		lk_error err = {0};
		assert_int_equal(read_terms(wrong[i], &terms, &err), LK_ERR_INPUT);
		assert_non_null(strstr(err.where, "host.csv"));
		lk_host_terms_free(&terms);
	}
}

/* ---- the step ---- */

/* A host that spends something else on each term and name. */
static double hashed_seconds(const void *table, int term, const char *name) {
	uint64_t hash = *(const uint64_t *)table + (uint64_t)term;
	for (; *name; name++) hash = lk_hash64(hash ^ (uint64_t)(unsigned char)*name);
	return 40e-6 * lk_uniform(hash, 1);
}

/* The walk of the publication, over the operations in the order in which they were issued: the host
 * runs ahead; a kernel begins when it has been launched and the one before it has ended; the host
 * waits where it reads from the device. */
static int64_t walk(const lk_graph *graph, const lk_costs *costs) {
	int64_t *end = calloc(graph->ops.count, sizeof *end), host = 0, device = 0;
	assert_non_null(end);
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		lk_op op = lk_graph_op(graph, i);
		int64_t duration = lk_costs_get(costs, 0, i)->duration_ps;
		if (op.stream == LK_STREAM_HOST) {
			if (op.join & LK_JOIN(LK_STREAM_COMPUTE) && device > host) host = device;
			end[i] = host += duration;
			continue;
		}
		assert_int_equal(op.dep_count, 1);
		if (end[op.deps[0]] > device) device = end[op.deps[0]];
		end[i] = device += duration;
	}
	free(end);
	return host > device ? host : device;
}

static void simulation_as_the_walk(void **state) {
	(void)state;
	static const char *const gpus[] = {"V100", "P100", "Titan Xp", "A100", "H100"};
	for (uint64_t seed = 0; seed < 30; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err = {0};
		lk_dlrm m = preset(&arena, presets[seed % 3]);
		const lk_host_times host = {hashed_seconds, &seed};
		lk_graph *graph;
		lk_eager_device device;
		lk_costs costs;
		lk_sim_result result = {0};
		assert_int_equal(lk_dlrm_step(&m, 64 << seed % 8, LK_FP32, &on_one, &host, &graph, &err),
		                 LK_OK);
		lk_eager_device_of(lk_device_find(gpus[seed % 5]), LK_FP32, &device);
		assert_int_equal(lk_eager_costs(&arena, graph, &device, &costs, &err), LK_OK);
		assert_int_equal(lk_sim_run(graph, &costs, &(lk_sim_options){0}, &result, &err), LK_OK);
		int64_t want = walk(graph, &costs);
		if (result.step_ps != want)
			fail_msg("%lld ps, not %lld", (long long)result.step_ps, (long long)want);
		lk_sim_result_free(&result);
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
}

/* Never shorter than the host's work or the device's, nor longer than both; larger batches never
 * shorter. */
static void bounds_and_order(void **state) {
	(void)state;
	static const char *const gpus[] = {"V100", "P100", "Titan Xp", "H100"};
	lk_host_terms terms = {0};
	lk_error err = {0};
	assert_int_equal(
		read_terms("type,name,mean_us\nt1,,8\nt2,x,30\nt3,x,8\nt4,cudaLaunchKernel,4\nt5,x,20\n",
	               &terms, &err),
		LK_OK);
	for (int g = 0; g < 4; g++)
		for (int i = 0; i < 3; i++) {
			lk_arena arena = LK_ARENA_INIT;
			lk_dlrm m = preset(&arena, presets[i]);
			double last = 0;
			for (double batch = 256; batch <= 16384; batch *= 2) {
				lk_dlrm_time t;
				assert_int_equal(
					lk_dlrm_predict(&m, batch, lk_device_find(gpus[g]), &terms, &t, &err), LK_OK);
				assert_true(t.step_s >= fmax(t.host_s, t.kernels_s) * (1 - 1e-9));
				assert_true(t.step_s <= (t.host_s + t.kernels_s) * (1 + 1e-9));
				assert_true(t.step_s >= last * 0.98);
				last = t.step_s;
			}
			lk_arena_free(&arena);
		}
	lk_host_terms_free(&terms);
}

/* ---- measurements ---- */

static void error_on_the_measured_table(void **state) {
	(void)state;
	lk_validate_request request;
	lk_validation *validation;
	lk_error err = {0};
	lk_validate_defaults(&request);
	request.table = need_data("measured/dlrm_single_gpu_iter.csv");
	request.dlrm = true;
	if (lk_validate(&request, &validation, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	print_message("%d recommendation steps: error %.2f %%\n", validation->row_count,
	              100 * validation->summary.geomean_error);
	assert_int_equal(validation->summary.scored, 36);
	assert_true(validation->summary.geomean_error < 0.10);
	for (int i = 0; i < validation->group_count; i++)
		if (strcmp(validation->groups[i].by, "gpu") == 0)
			assert_true(validation->groups[i].geomean_error < 0.12);
	for (int i = 0; i < validation->baseline_count; i++)
		assert_true(validation->baselines[i].geomean_error > 2 * validation->summary.geomean_error);
	lk_validate_free(validation);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_in_closed_form),
		cmocka_unit_test(totals_of_presets),
		cmocka_unit_test(flops_of_the_graph),
		cmocka_unit_test(gaps_of_a_step),
		cmocka_unit_test(variants),
		cmocka_unit_test(errors_name_place_and_remedy),
		cmocka_unit_test(uniform_hits_as_counted),
		cmocka_unit_test(lookup_properties),
		cmocka_unit_test(reuse_histograms),
		cmocka_unit_test(hybrid_steps),
		cmocka_unit_test(copied_rows),
		cmocka_unit_test(exchanges_in_two_steps),
		cmocka_unit_test(terms_are_weighted_and_merged),
		cmocka_unit_test(bad_terms),
		cmocka_unit_test(simulation_as_the_walk),
		cmocka_unit_test(bounds_and_order),
		cmocka_unit_test(error_on_the_measured_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
