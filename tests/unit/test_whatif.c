/* test_whatif.c: changes of steps: what changes nothing, what two ways agree on, what cannot get
 * slower, and what measured times become. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text.h"
#include "whatif/whatif.h"
#include "base/stats.h"
#include "base/units.h"
#include "model/build/build.h"
#include "scratch.h"

struct lk_fixture {
	lk_arena arena;
	lk_job job;
	lk_whatif_site site;
	lk_step step;
	lk_whatif_base *base;
	lk_error err;
};

static void ok(lk_status status, const lk_error *err) {
	char text[1000];
	if (status != LK_OK) fail_msg("%s", lk_error_text(err, text, sizeof text));
}

struct shape {
	const char *gpu;
	int gpus, tp, pp, gbs, mbs;
	lk_sharding sharding;
	lk_dtype dtype;
	const char *stack; /* NULL: Megatron's */
};

static const struct shape usual = {"h100-sxm", 16, 2, 1, 32, 1, LK_SHARD_ZERO1, LK_BF16, NULL};

/* A job predicted the usual way: the other way to every answer. */
static void predict(struct lk_fixture *fixture, const struct shape *shape) {
	memset(fixture, 0, sizeof *fixture);
	fixture->job.model = (lk_model){
		.name = "test",
		.family = "gpt2",
		.layers = 8,
		.hidden = 2048,
		.heads = 16,
		.kv_heads = 16,
		.head_dim = 128,
		.ffn = 8192,
		.vocab = 32000,
		.context = 2048,
		.norm = LK_NORM_LAYER,
		.norms_per_layer = 2,
		.final_norm = true,
		.norm_bias = true,
		.position_rows = 2048,
		.lm_head = true,
		.moe_every = 1,
	};
	if (shape->stack) lk_copy(fixture->job.stack, sizeof fixture->job.stack, shape->stack);
	fixture->job.gpus = shape->gpus;
	fixture->job.tp = shape->tp;
	fixture->job.pp = shape->pp;
	fixture->job.gbs = shape->gbs;
	fixture->job.mbs = shape->mbs;
	fixture->job.seq = 2048;
	fixture->job.sharding = shape->sharding;
	fixture->job.sharding_said = true;
	fixture->job.dtype = shape->dtype;
	fixture->job.dtype_said = true;
	lk_step_options options = {0};
	const lk_device *device = lk_device_find(shape->gpu);
	assert_non_null(device);
	ok(lk_cluster_simple(&fixture->arena, device, shape->gpus, 0, 0, &fixture->site.cluster,
	                     &fixture->err),
	   &fixture->err);
	ok(lk_job_complete(&fixture->job, &fixture->site.cluster, &fixture->err), &fixture->err);
	ok(lk_step_ask(&fixture->job, &fixture->site.cluster, &options, &fixture->step, &fixture->err),
	   &fixture->err);
	fixture->site.stack = fixture->job.profile;
}

static void begin(struct lk_fixture *fixture, const struct shape *shape) {
	predict(fixture, shape);
	ok(lk_whatif_begin(fixture->step.graph, &fixture->site, &fixture->base, &fixture->err),
	   &fixture->err);
}

static void end(struct lk_fixture *fixture) {
	lk_whatif_end(fixture->base);
	lk_step_free(&fixture->step);
	lk_arena_free(&fixture->arena);
}

/* Picoseconds of a step with the sets, separated by blanks. */
static int64_t with(struct lk_fixture *fixture, const char *texts) {
	lk_whatif_sets sets = {0};
	lk_whatif_outcome outcome;
	char *copy = lk_arena_strdup(&fixture->arena, texts), *item;
	while ((item = strsep(&copy, " ")))
		if (*item) ok(lk_whatif_parse(&fixture->arena, item, &sets, &fixture->err), &fixture->err);
	ok(lk_whatif_try(fixture->base, sets.at, sets.count, &outcome, &fixture->err), &fixture->err);
	int64_t ps = outcome.step.sim.step_ps;
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&sets);
	return ps;
}

static void refused(struct lk_fixture *fixture, const char *text, const char *why) {
	lk_whatif_sets sets = {0};
	lk_whatif_outcome outcome = {0};
	lk_error err = {0};
	lk_status status = lk_whatif_parse(&fixture->arena, text, &sets, &err);
	if (status == LK_OK) status = lk_whatif_try(fixture->base, sets.at, sets.count, &outcome, &err);
	assert_int_equal(status, LK_ERR_INPUT);
	char line[1000];
	if (!strstr(lk_error_text(&err, line, sizeof line), why))
		fail_msg("%s: '%s' lacks '%s'", text, line, why);
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&sets);
}

/* As if the graph were of a trace: every operation measured at so many times what the model says.
 */
static void measure(struct lk_fixture *fixture, double times) {
	lk_graph *graph = fixture->step.graph;
	for (uint32_t i = 0; i < graph->ops.count; i++)
		graph->ops.measured_ps[i] =
			(int64_t)((double)lk_costs_get(&fixture->step.costs, 0, i)->duration_ps * times);
}

/* ---- what changes nothing ---- */

static void the_base_is_the_prediction(void **state) {
	(void)state;
	const struct shape shapes[] = {usual,
	                               {"h100-sxm", 8, 2, 2, 32, 1, LK_SHARD_NONE, LK_BF16, NULL},
	                               {"a100-sxm-80", 8, 1, 1, 16, 2, LK_SHARD_ZERO3, LK_BF16, NULL}};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct lk_fixture f;
		begin(&f, &shapes[i]);
		assert_int_equal(with(&f, ""), f.step.sim.step_ps);
		end(&f);
	}
}

static void nothing_changes_nothing(void **state) {
	(void)state;
	for (int measured = 0; measured < 2; measured++) {
		struct lk_fixture f;
		predict(&f, &usual);
		if (measured) measure(&f, 1.37);
		ok(lk_whatif_begin(f.step.graph, &f.site, &f.base, &f.err), &f.err);
		int64_t base = with(&f, "");
		const char *const none[] = {"gpu=h100-sxm",
		                            "gpus=16",
		                            "scale=1",
		                            "ranks=16",
		                            "nic=1x",
		                            "link=1x",
		                            "dtype=bf16",
		                            "batch=1x",
		                            "op:*=1x",
		                            "host=1x",
		                            "launch=1",
		                            "straggler=0:1",
		                            "overlap=on",
		                            "data-loading=off",
		                            "gpu=H100-SXM scale=1 nic=1x dtype=bf16 batch=1x host=1x"};
		for (size_t i = 0; i < sizeof none / sizeof *none; i++)
			if (with(&f, none[i]) != base)
				fail_msg("%s changes %s times", none[i], measured ? "measured" : "predicted");
		end(&f);
	}
}

/* ---- two ways to the same answer ---- */

static void agrees(const char *sets, const struct shape *from, const struct shape *to,
                   double tolerance) {
	struct lk_fixture a, b;
	begin(&a, from);
	predict(&b, to);
	double got = (double)with(&a, sets), wanted = (double)b.step.sim.step_ps;
	if (fabs(got / wanted - 1) > tolerance)
		fail_msg("%s: %.9g s, predicted %.9g s", sets, got / LK_PS_PER_S, wanted / LK_PS_PER_S);
	end(&a);
	end(&b);
}

static void other_gpus_as_predicted(void **state) {
	(void)state;
	const char *const gpus[] = {"b200", "a100-sxm-80", "h200", "l40s", "mi300x"};
	for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
		char set[64];
		struct shape to = usual;
		to.gpu = gpus[i];
		snprintf(set, sizeof set, "gpu=%s", gpus[i]);
		agrees(set, &usual, &to, 1e-12);
	}
}

static void other_clusters_as_predicted(void **state) {
	(void)state;
	struct lk_fixture a, b;
	begin(&a, &usual);
	predict(&b, &usual);
	ok(lk_cluster_parse(&b.arena, "4 node * 4 a100-sxm-80 nvlink3, nic 4*200g", &b.site.cluster,
	                    &b.err),
	   &b.err);
	ok(lk_whatif_begin(b.step.graph, &b.site, &b.base, &b.err), &b.err);
	lk_whatif_sets sets = {0};
	lk_whatif_outcome outcome;
	ok(lk_whatif_parse(&a.arena, "cluster=4 node * 4 a100-sxm-80 nvlink3, nic 4*200g", &sets,
	                   &a.err),
	   &a.err);
	assert_int_equal(sets.count, 1); /* commas are the cluster's own */
	ok(lk_whatif_try(a.base, sets.at, 1, &outcome, &a.err), &a.err);
	assert_int_equal(outcome.step.sim.step_ps, with(&b, ""));
	assert_true(outcome.step.sim.step_ps != with(&a, ""));
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&sets);
	end(&a);
	end(&b);
}

/* Each rank's work stays, so the batch grows with the ranks. */
static void more_ranks_as_predicted(void **state) {
	(void)state;
	const lk_sharding sharding[] = {LK_SHARD_NONE, LK_SHARD_ZERO1, LK_SHARD_ZERO3};
	for (int i = 0; i < 3; i++)
		for (int pp = 1; pp <= 2; pp++) {
			struct shape from = {"h100-sxm", 16, 2, pp, 32, 1, sharding[i], LK_BF16, NULL},
						 to = from;
			if (pp > 1 && sharding[i] == LK_SHARD_ZERO3) continue;
			to.gpus *= 4;
			to.gbs *= 4;
			agrees("gpus=64", &from, &to, 1e-12);
			to.gpus = 8;
			to.gbs = 16;
			agrees("gpus=8", &from, &to, 1e-12);
		}
	const struct shape part = {"h100-sxm", 4, 1, 1, 8, 1, LK_SHARD_NONE, LK_BF16, NULL},
					   whole = {"h100-sxm", 32, 1, 1, 64, 1, LK_SHARD_NONE, LK_BF16, NULL};
	agrees("scale=8", &part, &whole, 1e-12); /* part of a node grows to usual nodes */
}

static void larger_batches_as_predicted(void **state) {
	(void)state;
	struct shape to = usual;
	to.mbs = 2;
	to.gbs *= 2;
	agrees("batch=2x", &usual, &to, 1e-9);
}

static void other_formats_as_predicted(void **state) {
	(void)state;
	struct shape to = usual;
	to.dtype = LK_FP8;
	agrees("dtype=fp8", &usual, &to, 1e-12);
	to.dtype = LK_FP16;
	agrees("dtype=fp16", &usual, &to, 1e-12);
}

/* Recipes differ in which passes cast: whether norms write operands, whether largest values are
 * looked for, whether weights are cast in every pass. */
static void other_recipes_as_predicted(void **state) {
	(void)state;
	const struct shape shapes[] = {
		{"h100-sxm", 16, 1, 1, 32, 1, LK_SHARD_ZERO3, LK_BF16, "torchtitan"},
		{"h100-sxm", 16, 2, 1, 32, 1, LK_SHARD_ZERO3, LK_BF16, "torchtitan"},
		{"b200", 16, 1, 1, 32, 1, LK_SHARD_ZERO1, LK_BF16, NULL},
		{"b200", 16, 2, 1, 32, 1, LK_SHARD_ZERO1, LK_BF16, NULL},
	};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct shape to = shapes[i];
		to.dtype = LK_FP8;
		agrees("dtype=fp8", &shapes[i], &to, 1e-12);
		if (shapes[i].stack) continue;
		to.dtype = LK_MXFP8;
		agrees("dtype=mxfp8", &shapes[i], &to, 1e-12);
		to.dtype = LK_NVFP4;
		agrees("dtype=nvfp4", &shapes[i], &to, 1e-12);
	}
}

/* ---- order and direction ---- */

static void order_does_not_matter(void **state) {
	(void)state;
	struct lk_fixture f;
	const char *const sets[] = {"gpus=32",       "nic=2x",    "gpu=h200",
	                            "dtype=fp8",     "batch=2x",  "op:gemm=0.9x",
	                            "op:mlp_*=0.5x", "host=0.5x", "bucket=300MB"};
	enum { COUNT = sizeof sets / sizeof *sets };
	begin(&f, &usual);
	int64_t first = 0;
	for (uint64_t trial = 0; trial < 12; trial++) {
		const char *order[COUNT];
		char text[512] = "";
		for (int i = 0; i < COUNT; i++) order[i] = sets[i];
		for (int i = COUNT - 1; i > 0; i--) {
			int k = (int)(lk_hash64(trial * 64 + (uint64_t)i) % (uint64_t)(i + 1));
			const char *swap = order[i];
			order[i] = order[k];
			order[k] = swap;
		}
		for (int i = 0; i < COUNT; i++)
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", order[i]);
		int64_t ps = with(&f, text);
		if (trial == 0) first = ps;
		/* Factors multiply in another order: a rounding of the last bit. */
		assert_true(llabs(ps - first) <= first / 1000000000);
	}
	end(&f);
}

static void faster_is_never_slower(void **state) {
	(void)state;
	const struct shape shapes[] = {usual,
	                               {"h100-sxm", 32, 1, 2, 64, 1, LK_SHARD_NONE, LK_BF16, NULL}};
	for (size_t i = 0; i < 2; i++) {
		struct lk_fixture f;
		predict(&f, &shapes[i]);
		f.site.no_contention = true;
		ok(lk_whatif_begin(f.step.graph, &f.site, &f.base, &f.err), &f.err);
		static const char *const faster[][4] = {
			{"nic=0.25x", "nic=0.5x", "nic=2x", "nic=4x"},
			{"link=0.25x", "link=0.5x", "link=2x", "link=4x"},
			{"op:gemm=4x", "op:gemm=2x", "op:gemm=0.5x", "op:gemm=0x"},
			{"host=4x", "host=2x", "host=0.5x", "host=0"},
			{"straggler=3:2", "straggler=3:1.5", "straggler=3:1.1", "straggler=3:1"},
		};
		for (size_t k = 0; k < sizeof faster / sizeof *faster; k++) {
			int64_t before = INT64_MAX;
			for (int v = 0; v < 4; v++) {
				int64_t now = with(&f, faster[k][v]);
				if (now > before)
					fail_msg("%s is slower than %s: %.9g", faster[k][v], faster[k][v - 1],
					         (double)now / (double)before);
				before = now;
			}
		}
		assert_true(with(&f, "overlap=off") >= with(&f, ""));
		end(&f);
	}
}

/* ---- measured times ---- */

/* A step measured at 1.25 times the models: everything that models change stays at 1.25 times.
 * Without launches, whose time the models alone know here. */
static void measured_times_scale_by_the_models(void **state) {
	(void)state;
	struct lk_fixture plain, measured;
	predict(&plain, &usual);
	predict(&measured, &usual);
	measure(&measured, 1.25);
	plain.site.no_contention = measured.site.no_contention = true;
	ok(lk_whatif_begin(plain.step.graph, &plain.site, &plain.base, &plain.err), &plain.err);
	ok(lk_whatif_begin(measured.step.graph, &measured.site, &measured.base, &measured.err),
	   &measured.err);
	const char *const sets[] = {"launch=0", "launch=0 gpu=b200", "launch=0 gpus=64",
	                            "launch=0 nic=0.1x", "launch=0 batch=2x gpu=a100-sxm-80"};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		double ratio = (double)with(&measured, sets[i]) / (double)with(&plain, sets[i]);
		if (fabs(ratio - 1.25) > 1e-6) fail_msg("%s: %.9g", sets[i], ratio);
	}
	end(&plain);
	end(&measured);
}

/* Operations without a shape change as those of their kind that take as long: close to what they do
 * with their shapes, as a product of 256^3 is not one of 64 x 4096 x 4096. */
static void unknown_shapes_have_stand_ins(void **state) {
	(void)state;
	struct lk_fixture known, unknown;
	predict(&known, &usual);
	predict(&unknown, &usual);
	measure(&known, 1);
	measure(&unknown, 1);
	lk_ops *ops = &unknown.step.graph->ops;
	for (uint32_t i = 0; i < ops->count; i++)
		if (ops->kind[i] != LK_OP_HOST)
			ops->m[i] = ops->n[i] = ops->k[i] = ops->batch[i] = ops->bytes[i] = ops->flops[i] = 0;
	known.site.no_contention = unknown.site.no_contention =
		true; /* as of traces: what they share follows from shapes */
	ok(lk_whatif_begin(known.step.graph, &known.site, &known.base, &known.err), &known.err);
	ok(lk_whatif_begin(unknown.step.graph, &unknown.site, &unknown.base, &unknown.err),
	   &unknown.err);
	assert_true(lk_whatif_stand_ins(unknown.base) > 20);
	assert_int_equal(lk_whatif_stand_ins(known.base), 0);
	assert_int_equal(with(&known, ""), with(&unknown, ""));
	const char *const sets[] = {"gpu=b200", "gpu=a100-sxm-80", "gpu=b200 launch=0"};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		double ratio = (double)with(&unknown, sets[i]) / (double)with(&known, sets[i]);
		if (fabs(ratio - 1) > .15)
			fail_msg("%s: %.4g times as long as with shapes", sets[i], ratio);
	}
	end(&known);
	end(&unknown);
}

/* ---- uncertainty ---- */

static double uncertainty(struct lk_fixture *fixture, const char *text) {
	lk_whatif_sets sets = {0};
	lk_whatif_outcome outcome;
	ok(lk_whatif_parse(&fixture->arena, text, &sets, &fixture->err), &fixture->err);
	ok(lk_whatif_try(fixture->base, sets.at, sets.count, &outcome, &fixture->err), &fixture->err);
	double share = outcome.uncertainty;
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&sets);
	return share;
}

static void uncertainty_grows_with_distance(void **state) {
	(void)state;
	struct lk_fixture f;
	predict(&f, &usual);
	measure(&f, 1);
	ok(lk_whatif_begin(f.step.graph, &f.site, &f.base, &f.err), &f.err);
	static const char *const farther[][3] = {
		{"scale=1", "scale=2", "scale=8"},
		{"gpu=h100-sxm", "gpu=h200", "gpu=b200"},
		{"batch=1x", "batch=1.2x", "batch=2x"},
		{"nic=1x", "nic=0.7x", "nic=0.1x"},
	};
	for (size_t i = 0; i < sizeof farther / sizeof *farther; i++) {
		double before = 0;
		for (int k = 0; k < 3; k++) {
			double now = uncertainty(&f, farther[i][k]);
			if (!(now > before)) fail_msg("%s: %g, not above %g", farther[i][k], now, before);
			assert_true(now < .5);
			before = now;
		}
	}
	/* What the user assumes has no error of a model. */
	assert_true(uncertainty(&f, "op:gemm=0.1x") <= uncertainty(&f, "scale=1") * 1.0001);
	end(&f);
}

/* ---- words ---- */

static void slips_are_named(void **state) {
	(void)state;
	static const char *const slips[][2] = {
		{"nick=2x", "did you mean nic"},
		{"buckets=25MB", "did you mean bucket"},
		{"zzzzzz=1", "unknown key 'zzzzzz'"},
		{"", "unknown key ''"},
		{"=2", "what can be set"},
		{"gpu", "gpu=NAME"},
		{"gpu=", "gpu=NAME"},
		{"op=2x", "op:NAME=0.8x"},
		{"op:=2x", "op:NAME=0.8x"},
		{"op:mlp_dwn=2x", "did you mean mlp_down"},
		{"op:gemm=-1x", "factor"},
		{"op:gemm=nanx", "factor"},
		{"nic=fast", "write 2x, 400g"},
		{"nic=0x", "write 2x"},
		{"nic=1e400x", "write 2x"},
		{"nic=2.5*400g", "write 2x"},
		{"link=8*400g", "450GB/s"},
		{"gpus=0", "whole number"},
		{"gpus=17", "rank"},
		{"gpus=99999999999", ""},
		{"scale=1.03", "whole number"},
		{"dtype=int3", "fp8"},
		{"bucket=12", "1024"},
		{"bucket=25MBB", "bytes"},
		{"overlap=perhaps", "on or off"},
		{"batch=0", "factor"},
		{"straggler=3", "RANK:FACTOR"},
		{"straggler=99:2", "there is no rank 99"},
		{"gpu=h1000", ""},
		{"cluster=nonsense (", "cluster"},
		{"remove:gemm=2", "remove:NAME"},
		{"remove:nothing_at_all", "no operation"},
		{"gpu=a,,b", "empty value"},
		{"fused-optimizer=off", "only on"},
		{"nic:x=2x", "nic=2x"},
		{"gpu=v100-sxm-32", "has no bf16"},
		{"dtype=nvfp4", "has no nvfp4"},
	};
	struct lk_fixture f;
	begin(&f, &usual);
	for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) refused(&f, slips[i][0], slips[i][1]);
	end(&f);
}

static void lists_are_values_to_try(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_whatif_sets sets = {0};
	lk_error err = {0};
	ok(lk_whatif_parse(&arena, "op:aten::mm=0.5x,0.25x", &sets, &err), &err);
	assert_int_equal(sets.count, 2);
	assert_string_equal(sets.at[1].what, "aten::mm");
	assert_string_equal(sets.at[1].value, "0.25x");
	assert_string_equal(sets.at[1].text, "op:aten::mm=0.25x");
	lk_vec_free(&sets);
	lk_arena_free(&arena);
}

static void remedies_have_a_worth(void **state) {
	(void)state;
	struct lk_fixture f;
	static const char *const half[] = {"op:gemm=0.5x", "host=0.5x"}, *const same = "scale=1",
							 *const nonsense = "nonsense";
	double seconds = 0, both = 0;
	begin(&f, &usual);
	ok(lk_whatif_worth(f.base, half, 1, &seconds, &f.err), &f.err);
	assert_true(seconds > 0 && seconds < lk_whatif_base_seconds(f.base));
	ok(lk_whatif_worth(f.base, half, 2, &both, &f.err), &f.err);
	assert_true(both >= seconds);
	ok(lk_whatif_worth(f.base, &same, 1, &seconds, &f.err), &f.err);
	assert_true(seconds == 0);
	assert_int_equal(lk_whatif_worth(f.base, &nonsense, 1, &seconds, &f.err), LK_ERR_INPUT);
	end(&f);
}

/* ---- the question as a whole ---- */

static void combinations_are_columns(void **state) {
	(void)state;
	struct lk_fixture f;
	lk_whatif *answer;
	char path[64];
	new_file(path, ".json");
	predict(&f, &usual);
	ok(lk_graph_write(f.step.graph, path, &f.err), &f.err);
	const char *paths[] = {path};
	lk_whatif_request request;
	lk_whatif_defaults(&request);
	request.paths = paths;
	request.path_count = 1;
	request.gpu = "h100-sxm";
	request.sets = "nic=2x,4x\nscale=2,4,3.3";
	ok(lk_whatif_ask(&request, &answer, &f.err), &f.err);
	assert_int_equal(answer->column_count, 1 + 5 + 6);
	assert_string_equal(answer->columns[0].label, "base");
	assert_string_equal(answer->columns[11].label, "nic=4x scale=3.3");
	assert_non_null(answer->columns[11].refused);
	assert_true(isnan(answer->columns[1].efficiency));
	assert_true(answer->columns[3].efficiency > .5 && answer->columns[3].efficiency < 1.5);
	assert_true(answer->columns[0].step_s == f.step.step_s);
	const lk_whatif_column *column = &answer->columns[3];
	assert_true(fabs(column->compute_s + column->exposed_s + column->other_s - column->step_s) <
	            .01 * column->step_s);
	lk_whatif_free(answer);
	request.sets = "nic=2x\nnetwork=4x";
	assert_int_equal(lk_whatif_ask(&request, &answer, &f.err), LK_ERR_INPUT);
	request.sets = NULL;
	request.cluster = "8 h100-sxm";
	request.gpu = NULL;
	assert_int_equal(lk_whatif_ask(&request, &answer, &f.err), LK_ERR_INPUT);
	remove(path);
	end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_base_is_the_prediction),
		cmocka_unit_test(nothing_changes_nothing),
		cmocka_unit_test(other_gpus_as_predicted),
		cmocka_unit_test(other_clusters_as_predicted),
		cmocka_unit_test(more_ranks_as_predicted),
		cmocka_unit_test(larger_batches_as_predicted),
		cmocka_unit_test(other_formats_as_predicted),
		cmocka_unit_test(other_recipes_as_predicted),
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(faster_is_never_slower),
		cmocka_unit_test(measured_times_scale_by_the_models),
		cmocka_unit_test(unknown_shapes_have_stand_ins),
		cmocka_unit_test(uncertainty_grows_with_distance),
		cmocka_unit_test(slips_are_named),
		cmocka_unit_test(lists_are_values_to_try),
		cmocka_unit_test(remedies_have_a_worth),
		cmocka_unit_test(combinations_are_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
