/* test_convnet.c: convolution nets: work against published figures, graphs against formulas. Parameter counts of the presets
 * are tested with all others (test_model.c). */
#include <math.h>
#include <string.h>

#include "scratch.h"

#include "ask/step.h"
#include "model/build.h"

/* Multiply-adds of an image, G: torchvision's documentation of its weights ("GFLOPS" there are multiply-adds). AlexNet's
 * windows are padded unevenly there: 55 pixels where a stride of 4 leaves 56 here. */
static const struct {
	const char *name;
	double billions, within;
} published[] = {
	{"resnet18", 1.81, 0.01}, {"resnet34", 3.66, 0.01}, {"resnet50", 4.09, 0.01}, {"resnet101", 7.80, 0.01},
	{"resnet152", 11.51, 0.01}, {"resnext50-32x4d", 4.23, 0.01}, {"resnext101-32x8d", 16.41, 0.01}, {"vgg11", 7.61, 0.01},
	{"vgg16", 15.47, 0.01}, {"vgg19", 19.63, 0.01}, {"mobilenet-v2", 0.30, 0.02}, {"efficientnet-b0", 0.39, 0.02},
	{"efficientnet-b4", 4.39, 0.02}, {"alexnet", 0.71, 0.12},
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
		if (fabs(ratio - 1) > published[i].within) fail_msg("%s: %.3f G", published[i].name, lk_convnet_macs(&m) / 1e9);
	}
}

static lk_step ask(const char *name, int batch, lk_recompute recompute, lk_arena *arena) {
	lk_job job = {.model = preset(name), .gpus = 1, .mbs = batch, .gbs = batch, .dtype = LK_FP32, .dtype_said = true,
	              .recompute = recompute, .recompute_said = true};
	lk_step_options options = {.exact = true};
	lk_cluster cluster;
	lk_error err;
	lk_step step;
	assert_int_equal(lk_cluster_parse(arena, "1 v100-sxm-32", &cluster, &err), LK_OK);
	if (lk_job_complete(&job, &cluster, &err) != LK_OK || lk_step_ask(&job, &cluster, &options, &step, &err) != LK_OK)
		fail_msg("%s: %s: %s", name, err.where, err.what);
	return step;
}

static double depthwise_macs(const lk_model *m) {
	double sum = 0;
	for (int layer = 0; layer < m->layers; layer++) {
		lk_conv_unit u = lk_convnet_unit(m, layer);
		for (int i = 0; i < u.count; i++)
			if (u.conv[i].groups == u.conv[i].in) sum += u.conv[i].out * u.conv[i].kernel * u.conv[i].kernel * u.conv[i].side_out * u.conv[i].side_out;
	}
	return sum;
}

/* Three times the forward's work, but for the image's own gradient, which nobody needs; with checkpoints the blocks' forward
 * once more. Depthwise windows stream and count no work. */
static void graphs_do_the_work(void **state) {
	(void)state;
	static const char *const names[] = {"resnet18", "resnet50", "resnext50-32x4d", "vgg16", "mobilenet-v2", "se-resnext101-32x4d"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_model m = preset(names[i]);
		lk_conv stem = lk_convnet_stem(&m);
		double stem_macs = stem.out * stem.in * stem.kernel * stem.kernel * stem.side_out * stem.side_out;
		double macs = lk_convnet_macs(&m) - depthwise_macs(&m);
		lk_step step = ask(names[i], 32, LK_RECOMPUTE_NONE, &arena), again = ask(names[i], 32, LK_RECOMPUTE_FULL, &arena);
		assert_true(fabs(step.executed_flops / (32 * (6 * macs - 2 * stem_macs)) - 1) < 1e-9);
		double ends = stem_macs + lk_convnet_features(&m) * m.conv.classes;
		for (int d = 0, in = (int)lk_convnet_features(&m); d < m.conv.dense_count; in = m.conv.dense[d++])
			ends += (double)in * m.conv.dense[d] + (d == m.conv.dense_count - 1 ? (m.conv.dense[d] - lk_convnet_features(&m)) * m.conv.classes : 0);
		lk_conv top = lk_convnet_top(&m);
		if (m.conv.top) ends += top.out * top.in * top.side_out * top.side_out;
		assert_true(fabs((again.executed_flops - step.executed_flops) / (64 * (macs - ends)) - 1) < 1e-9);
		/* a block of one convolution keeps its input in any case */
		if (m.conv.norm) assert_true(again.memory[0].walk.peak < step.memory[0].walk.peak);
		lk_step_free(&step), lk_step_free(&again);
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
		cmocka_unit_test(splits_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
