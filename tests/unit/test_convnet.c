/* test_convnet.c: convolution nets: work against published figures, graphs against formulas.
 * Parameter counts of the presets are tested with all others (test_model.c). */
#include <math.h>
#include <string.h>

#include "scratch.h"

#include "base/arena.h"
#include "step/step.h"
#include "base/text.h"
#include "cost/cost.h"
#include "hw/hw_internal.h"
#include "model/build/build.h"

/* Multiply-adds of an image, G: torchvision's documentation of its weights ("GFLOPS" there are
 * multiply-adds). AlexNet's windows are padded unevenly there: 55 pixels where a stride of 4 leaves
 * 56 here; SqueezeNet's not at all: 109 and 112, 54 and 56. */
static const struct {
	const char *name;
	double billions, within;
} published[] = {
	{"resnet18", 1.81, 0.01},
	{"resnet34", 3.66, 0.01},
	{"resnet50", 4.09, 0.01},
	{"resnet101", 7.80, 0.01},
	{"resnet152", 11.51, 0.01},
	{"resnext50-32x4d", 4.23, 0.01},
	{"resnext101-32x8d", 16.41, 0.01},
	{"vgg11", 7.61, 0.01},
	{"vgg16", 15.47, 0.01},
	{"vgg19", 19.63, 0.01},
	{"mobilenet-v2", 0.30, 0.02},
	{"efficientnet-b0", 0.39, 0.02},
	{"efficientnet-b4", 4.39, 0.02},
	{"alexnet", 0.71, 0.12},
	{"shufflenet-v2-x0.5", 0.041, 0.03},
	{"squeezenet1.0", 0.82, 0.09},
};

static lk_model preset(const char *name) {
	lk_model model;
	lk_error err;
	if (lk_model_preset(name, &model, &err) != LK_OK) fail_msg("%s: %s", name, err.what);
	return model;
}

static void work_is_as_published(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
		lk_model m = preset(published[i].name);
		double ratio = lk_convnet_macs(&m) / 1e9 / published[i].billions;
		if (fabs(ratio - 1) > published[i].within)
			fail_msg("%s: %.3f G", published[i].name, lk_convnet_macs(&m) / 1e9);
	}
}

static lk_step ask(const char *name, int batch, lk_recompute recompute, lk_arena *arena) {
	lk_job job = {.model = preset(name),
	              .gpus = 1,
	              .mbs = batch,
	              .gbs = batch,
	              .dtype = LK_FP32,
	              .dtype_said = true,
	              .recompute = recompute,
	              .recompute_said = true};
	lk_step_options options = {.exact = true};
	lk_cluster cluster;
	lk_error err;
	lk_step step = {0};
	assert_int_equal(lk_cluster_parse(arena, "1 v100-sxm-32", &cluster, &err), LK_OK);
	if (lk_job_complete(&job, &cluster, &err) != LK_OK ||
	    lk_step_ask(&job, &cluster, &options, &step, &err) != LK_OK)
		fail_msg("%s: %s: %s", name, err.where, err.what);
	return step;
}

/* Three times the forward's work, but for the image's own gradient, which nobody needs; with
 * checkpoints the blocks' forward once more. */
static void graphs_do_the_work(void **state) {
	(void)state;
	static const char *const names[] = {"resnet18",          "resnet50",
	                                    "resnext50-32x4d",   "vgg16",
	                                    "mobilenet-v2",      "se-resnext101-32x4d",
	                                    "shufflenet-v2-x0.5"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_model m = preset(names[i]);
		lk_conv stem = lk_convnet_stem(&m);
		double stem_macs =
			stem.out * stem.in * stem.kernel * stem.kernel * stem.side_out * stem.side_out;
		double macs = lk_convnet_macs(&m);
		lk_step step = ask(names[i], 32, LK_RECOMPUTE_NONE, &arena),
				again = ask(names[i], 32, LK_RECOMPUTE_FULL, &arena);
		assert_true(fabs(step.executed_flops / (32 * (6 * macs - 2 * stem_macs)) - 1) < 1e-9);
		double ends = stem_macs + lk_convnet_features(&m) * m.conv.classes;
		for (int d = 0, in = (int)lk_convnet_features(&m); d < m.conv.dense_count;
		     in = m.conv.dense[d++])
			ends += (double)in * m.conv.dense[d] +
			        (d == m.conv.dense_count - 1
			             ? (m.conv.dense[d] - lk_convnet_features(&m)) * m.conv.classes
			             : 0);
		lk_conv top = lk_convnet_top(&m);
		if (m.conv.top) ends += top.out * top.in * top.side_out * top.side_out;
		assert_true(fabs((again.executed_flops - step.executed_flops) / (64 * (macs - ends)) - 1) <
		            1e-9);
		/* a block of one convolution keeps its input in any case */
		if (m.conv.norm) assert_true(again.memory[0].walk.peak < step.memory[0].walk.peak);
		lk_step_free(&step);
		lk_step_free(&again);
		lk_arena_free(&arena);
	}
}

/* Memory of activations grows with the batch, and by as much for each image. */
static void activations_grow_with_the_batch(void **state) {
	(void)state;
	double peak[3];
	lk_arena arena = LK_ARENA_INIT;
	for (int i = 0; i < 3; i++) {
		lk_step step = ask("resnet50", 16 * (i + 1), LK_RECOMPUTE_NONE, &arena);
		peak[i] = step.memory[0].walk.at_peak[LK_OWN_ACTIVATIONS];
		lk_step_free(&step);
	}
	assert_true(peak[1] > 1.9 * peak[0]);
	assert_true(fabs((peak[2] - peak[1]) / (peak[1] - peak[0]) - 1) < 1e-6);
	/* PyTorch keeps about 85 MiB of activations in fp32 for an image of ResNet-50 without fusing */
	double each = (peak[1] - peak[0]) / 16 / 1048576;
	assert_true(each > 70 && each < 110);
	lk_arena_free(&arena);
}

static double conv_seconds(const char *name, double m, double n, double k, double side,
                           unsigned flags, lk_dtype dtype) {
	lk_graph *graph = lk_graph_new();
	lk_node node = lk_node_usual(lk_device_find("v100-sxm-32"), 1);
	lk_constants constants = lk_default_constants;
	uint32_t block;
	lk_error err;
	constants.memory_efficiency = 0.86;
	lk_graph_begin_block(graph, "one");
	lk_graph_add(graph, &(lk_op){.kind = LK_OP_CONV,
	                             .name = name,
	                             .stream = LK_STREAM_COMPUTE,
	                             .dtype = (uint8_t)dtype,
	                             .m = m,
	                             .n = n,
	                             .k = k,
	                             .batch = 1,
	                             .flops = 2 * m * n * k,
	                             .bytes = 4 * (m * n + m * k / 9),
	                             .window = side,
	                             .flags = (uint8_t)flags});
	assert_int_equal(lk_graph_end_block(graph, &block, &err), LK_OK);
	lk_cost cost = lk_cost_op(graph, 0, &(lk_cost_site){.node = &node, .constants = &constants});
	lk_graph_free(graph);
	return (double)cost.duration_ps / 1e12;
}

/* Convolutions of ResNet-50 in fp32 at 32 images, as a profile of it on a V100 has them
 * (facebookresearch/HolisticTraceAnalysis, traces/kineto/v100_resnet_rank0of1): fused 342 us a
 * call; transformed apart 270 to 330 us, weights 280 to 300 us and, of large images, 400 to 740. As
 * an implicit product each has 7.4 Gflop, 470 us at the peak. */
static void windows_are_filtered_minimally(void **state) {
	(void)state;
	static const struct {
		double side, channels, low, high; /* us */
	} forward[] = {
		{56, 64, 300, 380}, {28, 128, 240, 345}, {14, 256, 220, 320}, {7, 512, 220, 345}};
	for (size_t i = 0; i < sizeof forward / sizeof *forward; i++) {
		double side = forward[i].side, c = forward[i].channels, pixels = 32 * side * side;
		double took = 1e6 * conv_seconds("conv", pixels, c, 9 * c, side, 0, LK_FP32),
			   product = 1e6 * conv_seconds("conv", pixels, c, 9 * c, 0, 0, LK_FP32);
		double weights =
			1e6 * conv_seconds("grad", c, 9 * c, pixels, side, LK_OP_SUMS_PIXELS, LK_FP32);
		if (took < forward[i].low || took > forward[i].high) fail_msg("%g: %.0f us", side, took);
		if (weights < 220 || weights > 740) fail_msg("weights of %g: %.0f us", side, weights);
		assert_true(took < product && took > product / 4);
		/* tensor cores run the product */
		assert_true(conv_seconds("conv", pixels, c, 9 * c, side, 0, LK_FP16) ==
		            conv_seconds("conv", pixels, c, 9 * c, 0, 0, LK_FP16));
	}
}

/* A bucket that holds less than a tensor sends each by itself: ResNet-18 has 62 (Stash's list), all
 * bytes once. */
static void tensors_travel_alone_in_small_buckets(void **state) {
	(void)state;
	double calls[2], bytes[2];
	for (int small = 0; small < 2; small++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_job job = {.model = preset("resnet18"),
		              .gpus = 4,
		              .mbs = 8,
		              .gbs = 32,
		              .dtype = LK_FP32,
		              .dtype_said = true,
		              .bucket_bytes = small ? 4 : 0};
		lk_step_options options = {.exact = true};
		lk_cluster cluster;
		lk_error err;
		lk_step step;
		assert_int_equal(lk_cluster_parse(&arena, "1 node * 4 v100-sxm-32", &cluster, &err), LK_OK);
		lk_copy(job.stack, sizeof job.stack, "ddp");
		if (lk_job_complete(&job, &cluster, &err) != LK_OK ||
		    lk_step_ask(&job, &cluster, &options, &step, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		const lk_graph *graph = step.graph;
		calls[small] = bytes[small] = 0;
		for (size_t c = 0; c < graph->programs.at[0].calls.count; c++) {
			const lk_call *call = &graph->programs.at[0].calls.at[c];
			for (uint32_t op = graph->blocks.at[call->block].begin;
			     op < graph->blocks.at[call->block].end; op++)
				if (graph->ops.kind[op] == LK_OP_ALLREDUCE && graph->ops.bytes[op] > 8) {
					calls[small] += call->repeat;
					bytes[small] += call->repeat * graph->ops.bytes[op];
				}
		}
		lk_step_free(&step);
		lk_arena_free(&arena);
	}
	assert_true(calls[0] == 3 && calls[1] == 62); /* a MiB first, then 25 */
	assert_true(fabs(bytes[0] - 4 * 11689512.0) < 1 && fabs(bytes[1] - bytes[0]) < 1);
}

static void splits_are_refused(void **state) {
	(void)state;
	lk_job job = {.model = preset("resnet50"), .gpus = 4, .pp = 2};
	lk_error err;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--pp");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_is_as_published),
		cmocka_unit_test(graphs_do_the_work),
		cmocka_unit_test(activations_grow_with_the_batch),
		cmocka_unit_test(windows_are_filtered_minimally),
		cmocka_unit_test(tensors_travel_alone_in_small_buckets),
		cmocka_unit_test(splits_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
