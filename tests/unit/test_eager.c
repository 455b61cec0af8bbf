/* test_eager.c: networks of Hugging Face's transformers as they are written. What they keep for the
 * backward pass, against counts by hand from the operations of their code; peaks of memory and
 * times against steps that we measured on one H200 (docs/notes/one-gpu.md). */
#include <string.h>

#include "base/text.h"
#include "small_llama.h"
#include "sim/memory/memory.h"
#include "step/step.h"
#include "model/read/read.h"

static const double T = 1024, H = 1024, KV = 256, F = 3072, V = 4096;

static lk_job eager(void) {
	lk_job job = small_llama();
	lk_copy(job.stack, sizeof job.stack, "ddp");
	job.gbs = job.mbs = 1;
	return job;
}

/* Bytes of an owner at the peak of the step, which is in the loss's gradient. */
static double at_peak(lk_job job, unsigned owner) {
	lk_graph *graph;
	lk_error err;
	complete(&job);
	assert_int_equal(lk_build_graph(&job, &graph, &err), LK_OK);
	lk_memory memory = lk_memory_walk(graph, 0);
	lk_graph_free(graph);
	return memory.at_peak[owner];
}

/* A layer of Llama in bf16 alone: each norm keeps its input in fp32, the normalised and its output;
 * of attention queries, keys, values, the output and a sum per head; gate, its SiLU, up and their
 * product. The last norm as the others. Of logits logarithm and two gradients in fp32. */
static void llama_in_bf16(void **state) {
	(void)state;
	lk_job job = eager();
	job.master_weights = LK_OFF;
	double norm = 4 + 2 + 2, layer = 2 * norm * H + 2 * (H + 2 * KV) + 2 * H + 4 * 16 + 4 * 2 * F;
	near(at_peak(job, LK_OWN_ACTIVATIONS), T * (2 * layer + norm * H));
	near(at_peak(job, LK_OWN_LOGITS), T * V * 12);
	near(at_peak(job, LK_OWN_GRADIENTS), 0);
}

/* With autocast: the residual stream and what norms make of it are in fp32, each product has a copy
 * of its own in bf16. */
static void llama_in_autocast(void **state) {
	(void)state;
	double first = (4 + 4 + 3 * 2) * H, second = (4 + 4 + 2 * 2) * H, last = (4 + 4 + 2) * H;
	double layer = first + second + 2 * (H + 2 * KV) + 2 * H + 4 * 16 + 4 * 2 * F;
	near(at_peak(eager(), LK_OWN_ACTIVATIONS), T * (2 * layer + last));
}

/* GPT-2 in autocast: layer norms in fp32, one matrix of queries, keys and values, two masks, and
 * GELU as it is written there: the power's input, tanh and 1 + tanh in fp32, half of the input, and
 * its result. */
static void gpt2_in_autocast(void **state) {
	(void)state;
	lk_job job = eager();
	lk_error err;
	assert_int_equal(lk_model_preset("gpt2", &job.model, &err), LK_OK);
	double h = 768, f = 4 * h, norm = (4 + 2) * h;
	double layer = 2 * norm + 2 * 3 * h + 2 * h + 4 * 12 + 2 * h + (4 + 4 + 4 + 2 + 2) * f;
	near(at_peak(job, LK_OWN_ACTIVATIONS), 1024 * (12 * layer + norm + h));
}

/* Experts in bf16 alone: of each routed row its copy, gate, its SiLU, up and their product, and
 * what the router's weight multiplies. */
static void experts_in_bf16(void **state) {
	(void)state;
	lk_job job = eager();
	job.master_weights = LK_OFF;
	double before = at_peak(job, LK_OWN_ACTIVATIONS), rows = 2 * T, f = F / 4;
	job.model.experts = 8, job.model.topk = 2, job.model.expert_ffn = F / 4;
	double dense = 4 * 2 * F * T, routed = rows * (2 * H + 4 * 2 * f + 2 * H);
	near(at_peak(job, LK_OWN_ACTIVATIONS), before + 2 * (routed - dense));
}

/* Other losses, and kernels of Liger, keep less; nothing is kept more with frozen weights. */
static void what_fuses_keeps_less(void **state) {
	(void)state;
	lk_job job = eager();
	double written = at_peak(job, LK_OWN_ACTIVATIONS);
	job.eager = LK_OFF;
	assert_true(at_peak(job, LK_OWN_ACTIVATIONS) < 0.75 * written);
	job = eager();
	job.compile = true;
	assert_true(at_peak(job, LK_OWN_ACTIVATIONS) < 0.75 * written);
	job = eager();
	job.task = LK_TASK_LORA;
	assert_true(at_peak(job, LK_OWN_ACTIVATIONS) < written);
}

/* Gradients come one by one, on one replica with one micro-batch alone. */
static void gradients_come_late(void **state) {
	(void)state;
	lk_job job = eager();
	assert_true(at_peak(job, LK_OWN_GRADIENTS) < 1);
	job.gbs = 2;
	assert_true(at_peak(job, LK_OWN_GRADIENTS) > 4 * 2 * V * H);
	job = eager();
	job.gpus = job.dp = 2, job.gbs = 2;
	assert_true(at_peak(job, LK_OWN_GRADIENTS) > 4 * 2 * V * H);
}

/* Steps that we measured on one H200: GiB that PyTorch allocated at most, and ms. */
static void steps_are_as_measured(void **state) {
	(void)state;
	static const struct {
		const char *model;
		int batch, length;
		bool narrow; /* all in bf16; else autocast */
		const char *recompute;
		double gib, ms;
	} rows[] = {
		{"gpt2", 8, 1024, false, "none", 12.2, 58.8},
		{"gpt2", 32, 1024, false, "none", 43.9, 202},
		{"gpt2-medium", 16, 1024, false, "none", 45.5, 224},
		{"qwen3-0.6b", 4, 4096, false, "none", 70.8, 397},
		{"llama3.2-1b", 4, 2048, true, "none", 32.0, 165},
		{"llama3.2-1b", 8, 4096, true, "full", 56.4, 812},
		{"llama3.2-3b", 2, 4096, true, "none", 57.9, 415},
		{"qwen3-1.7b", 2, 4096, true, "none", 47.8, 297},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_asked asked;
		lk_step step = {0};
		lk_predict_request request;
		lk_predict_defaults(&request);
		request.model = rows[i].model, request.gpu = "h200", request.gpus = 1;
		request.stack = "ddp", request.recompute = rows[i].recompute;
		request.mbs = request.gbs = rows[i].batch, request.seq = rows[i].length;
		if (rows[i].narrow) request.master_weights = -1;
		lk_step_options options = {0};
		if (lk_request_read(&arena, &request, &asked, &err) != LK_OK ||
		    lk_step_ask(&asked.job, &asked.cluster, &options, &step, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		double gib = step.memory[0].walk.peak / 1073741824.0, ms = 1e3 * step.step_s;
		if (fabs(gib / rows[i].gib - 1) > 0.025)
			fail_msg("%s: %.1f GiB, measured %.1f", rows[i].model, gib, rows[i].gib);
		if (fabs(log(ms / rows[i].ms)) > 0.1)
			fail_msg("%s: %.0f ms, measured %.0f", rows[i].model, ms, rows[i].ms);
		lk_step_free(&step);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(llama_in_bf16),         cmocka_unit_test(llama_in_autocast),
		cmocka_unit_test(gpt2_in_autocast),      cmocka_unit_test(experts_in_bf16),
		cmocka_unit_test(what_fuses_keeps_less), cmocka_unit_test(gradients_come_late),
		cmocka_unit_test(steps_are_as_measured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
