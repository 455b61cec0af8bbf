/* test_tasks.c: what is trained of a network, and what runs besides, against hand counts: adapters
 * on weights of 4 bits, adapters with magnitudes. */
#include <string.h>

#include "small_llama.h"
#include "base/text.h"
#include "model/layout/sizes.h"

static const double H = 1024, KV = 256, F = 3072, S = 1024, R = 8;

static lk_job adapters(void) {
	lk_job job = small_llama();
	job.gbs = job.mbs = 1;
	job.task = LK_TASK_LORA;
	job.lora_rank = 8;
	return job;
}

static double weights_of(lk_job job) {
	complete(&job);
	return lk_sizes_resident(&job, 0).weights;
}

static bool has_name(const lk_graph *graph, uint32_t op, const void *name) {
	return strcmp(lk_intern_text(graph->names, graph->ops.name[op]), name) == 0;
}

/* A column of all operations of a name, over the calls of the step. */
static double sum_of(lk_job job, const char *name, const double *(*column)(const lk_ops *)) {
	return sum_over(job, has_name, name, column);
}

static double matrices(void) {
	return 2 * (2 * H * H + 2 * KV * H + 3 * F * H);
}

/* 4.127 bits a parameter (arXiv 2305.14314, section 3: 0.127 bits of factors). */
static void four_bits(void **state) {
	(void)state;
	lk_job job = adapters();
	double wide = weights_of(job), bytes = .5 + .127 / 8;
	job.narrow_base = true;
	double narrow = weights_of(job);
	assert_true(fabs((wide - narrow) / matrices() - (2 - bytes)) < 1e-4);
	job.tp = job.gpus = 2;
	lk_job same = job;
	same.narrow_base = false;
	near(weights_of(same) - weights_of(job), (wide - narrow) / 2);
	assert_true(sum_of(adapters(), "widen_weight", bytes_of) == 0);
}

/* Each matrix is widened in the forward and in the backward pass, and once more where the forward
 * runs again. */
static void widened_before_products(void **state) {
	(void)state;
	lk_job job = adapters();
	job.narrow_base = true;
	double once = matrices() * (LK_NF4_BYTES + 2);
	near(sum_of(job, "widen_weight", bytes_of), 2 * once);
	job.recompute = LK_RECOMPUTE_FULL;
	job.recompute_said = true;
	near(sum_of(job, "widen_weight", bytes_of), 3 * once);
}

/* LLM.int8: a byte a parameter and 4 for each row, taken as rows of the width; quantised inputs
 * forward, widened matrices backward. What the products read is kept whether a gradient needs it or
 * not. */
static void eight_bits(void **state) {
	(void)state;
	lk_job job = adapters();
	double wide = weights_of(job);
	job.narrow_base = true;
	job.base = LK_BASE_INT8;
	near(wide - weights_of(job), matrices() * (1 - 4 / H));
	double once = matrices() * (1 + 4 / H + 2);
	near(sum_of(job, "widen_weight", bytes_of), once);
	/* in: 2 h of attention, then 2 h and the MLP's width; bf16 is cast first */
	double in = S * (3 * H + H + 2 * H + F), out = S * (2 * H + 2 * KV + 2 * F + H);
	near(sum_of(job, "quantise_input", bytes_of), 2 * in * (2 + 1 + 4));
	near(sum_of(job, "rescale_sums", bytes_of), 2 * out * (2 + 4 + 2 + 4));
	job.recompute = LK_RECOMPUTE_FULL;
	job.recompute_said = true;
	near(sum_of(job, "quantise_input", bytes_of), 2 * 2 * in * (2 + 1 + 4));
	near(sum_of(job, "widen_weight", bytes_of), once);
}

static double activations(lk_job job, double *resident) {
	lk_graph *graph;
	lk_error err;
	complete(&job);
	if (lk_build_graph(&job, &graph, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_program *program = &graph->programs.at[0];
	double forward = 0, end = 0;
	*resident = program->resident[LK_OWN_ACTIVATIONS];
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_call *call = &program->calls.at[i];
		const lk_block *block = &graph->blocks.at[call->block];
		for (uint32_t op = block->begin; op < block->end; op++)
			end += call->repeat * (graph->ops.alloc[op] - graph->ops.release[op]);
		if (call->pass == LK_PHASE_FORWARD && call->layer >= 0) forward = end;
	}
	lk_graph_free(graph);
	assert_true(fabs(end) < 1);
	return forward;
}

/* A loop that holds the graph keeps all that products of the base read from one loss to the next,
 * beyond what the forward pass keeps anyway. */
static void inputs_are_held(void **state) {
	(void)state;
	double resident, plain_resident;
	lk_job job = adapters();
	job.narrow_base = true;
	double plain = activations(job, &plain_resident);
	assert_true(plain_resident == 0);
	job.base = LK_BASE_NF4_HELD;
	double held = activations(job, &resident);
	near(resident, 2 * 2 * S * (3 * H + F));
	near(held - plain, 2 * 2 * S * (H + F)); /* norm and attention keep their inputs */
	job.recompute = LK_RECOMPUTE_FULL;
	job.recompute_said = true;
	activations(job, &resident);
	assert_true(resident == 0);
}

static double adapted_params(lk_job job, const char *targets) {
	lk_copy(job.lora_targets, sizeof job.lora_targets, targets);
	complete(&job);
	return lk_sizes_stage(&job, 0).trained_dense;
}

/* Each adapted product has its own pair of matrices; where one product makes several, as in
 * Megatron-LM, the pair is beside it. Counts of whole networks are those that PEFT prints
 * (print_trainable_parameters). */
static void adapters_by_projection(void **state) {
	(void)state;
	static const struct {
		const char *preset, *targets;
		int rank;
		double params;
	} printed[] = {
		{"llama2-7b", "q_proj+v_proj", 8, 4194304},
		{"llama3.1-8b", "q_proj+v_proj", 16, 6815744},
		{"qwen2.5-7b", "all-linear", 16, 40370176},
	};
	lk_job job = adapters();
	for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
		lk_job whole = {.gpus = 1, .task = LK_TASK_LORA, .lora_rank = printed[i].rank};
		lk_error err;
		assert_int_equal(lk_model_preset(printed[i].preset, &whole.model, &err), LK_OK);
		near(adapted_params(whole, printed[i].targets), printed[i].params);
	}
	near(adapted_params(job, "k_proj"), 2 * R * (H + KV));
	near(adapted_params(job, "gate_proj+down_proj"), 2 * R * 2 * (H + F));
	lk_copy(job.stack, sizeof job.stack, "megatron");
	near(adapted_params(job, "attention"), 2 * R * (H + H + 2 * KV + 2 * H));
	near(adapted_params(job, "all-linear"), 2 * R * (H + H + 2 * KV + 2 * H + H + 2 * F + F + H));
	job = adapters();
	lk_copy(job.lora_targets, sizeof job.lora_targets, "q_proj+v_proj");
	near(sum_of(job, "adapter_a", flops_of), 2 * 2 * 2 * S * H * 2 * R);
	near(sum_of(job, "adapter_b", flops_of), 2 * 2 * 2 * S * (H + KV) * R);
	lk_copy(job.lora_targets, sizeof job.lora_targets, "q_proj+nose");
	lk_error err;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
}

/* q, k and v, and the output: rows of 1,536 and 1,024. */
static void magnitudes(void **state) {
	(void)state;
	lk_job job = adapters();
	complete(&job);
	double plain = lk_sizes_stage(&job, 0).trained_dense;
	near(plain, 2 * R * ((3 * H + H + 2 * KV) + 2 * H));
	job = adapters();
	job.dora = true;
	complete(&job);
	near(lk_sizes_stage(&job, 0).trained_dense, plain + 2 * (2 * H + 2 * KV));
	double rows = H + 2 * KV + H;
	near(sum_of(job, "dora_weight", flops_of), 2 * 2 * rows * H * R);
	near(sum_of(job, "dora_norm", bytes_of), 2 * 6 * 2 * rows * H);
	near(sum_of(job, "dora_scale", bytes_of), 2 * 3 * 2 * rows * S);
	near(sum_of(job, "dora_scale_grad", bytes_of), 2 * 4 * 2 * rows * S);
}

static bool of_forward(const lk_graph *graph, uint32_t op) {
	return graph->ops.kind[op] == LK_OP_GEMM && graph->ops.phase[op] == LK_PHASE_FORWARD;
}

/* Products of the forward pass; what is kept at the end of the step. */
static double forward_flops(lk_job job, double *kept, double *model_flops) {
	lk_graph *graph;
	lk_error err;
	double sum = 0;
	complete(&job);
	if (lk_build_graph(&job, &graph, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_program *program = &graph->programs.at[0];
	*kept = 0;
	*model_flops = graph->model_flops;
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_call *call = &program->calls.at[i];
		const lk_block *block = &graph->blocks.at[call->block];
		for (uint32_t op = block->begin; op < block->end; op++) {
			*kept += call->repeat * (graph->ops.alloc[op] - graph->ops.release[op]);
			if (of_forward(graph, op)) sum += call->repeat * graph->ops.flops[op];
		}
	}
	lk_graph_free(graph);
	return sum;
}

/* A reference reads every pair once: the forward products twice, a copy of the weights in 16 bits,
 * nothing kept; with adapters the frozen weights serve, and the adapters do not run. */
static void pairs_with_a_reference(void **state) {
	(void)state;
	double kept, flops, plain_flops;
	lk_job plain = adapters(), job;
	plain.gpus = plain.dp = 2;
	plain.gbs = 8, plain.mbs = 2;
	for (int zero = 1; zero <= 3; zero += 2)
		for (int full = 0; full < 2; full++) {
			plain.task = full ? LK_TASK_SFT : LK_TASK_LORA;
			plain.sharding = (lk_sharding)zero;
			plain.sharding_said = true;
			job = plain;
			job.objective = LK_OBJECTIVE_DPO;
			double once = forward_flops(plain, &kept, &plain_flops);
			double thin = 2 * 2. * S * R * (3 * H + H + 2 * KV + H + H) * 4;
			near(forward_flops(job, &kept, &flops), 2 * once - (full ? 0 : thin));
			assert_true(fabs(kept) < 1);
			near(flops, plain_flops * (full ? 4 / 3. : 3 / 2.));
			double more = full ? 2 * (matrices() + 2 * 4096 * H + 5 * H) : 0;
			double change = weights_of(job) - weights_of(plain) - more / (zero == 3 ? 2 : 1);
			assert_true(fabs(change) < 1e-6 * more + 1e-6);
		}
	lk_error err;
	job.mbs = 1;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	job.mbs = 2;
	job.pp = 2;
	job.dp = 1;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
}

/* KTO has no pairs, and three forward passes before the trained one: two of the reference, one of
 * the network with its adapters. */
static void single_preferences(void **state) {
	(void)state;
	double kept, flops, plain_flops;
	for (int full = 0; full < 2; full++) {
		lk_job plain = adapters(), job;
		plain.task = full ? LK_TASK_SFT : LK_TASK_LORA;
		job = plain;
		job.objective = LK_OBJECTIVE_KTO;
		double once = forward_flops(plain, &kept, &plain_flops);
		double thin = 2 * 2. * S * R * (3 * H + H + 2 * KV + H + H);
		near(forward_flops(job, &kept, &flops), 4 * once - (full ? 0 : 2 * thin));
		assert_true(fabs(kept) < 1);
		near(flops, plain_flops * (full ? 2 : 5 / 2.));
		double more = full ? 2 * (matrices() + 2 * 4096 * H + 5 * H) : 0;
		near(weights_of(job), weights_of(plain) + more);
	}
}

static bool head_product(const lk_graph *graph, uint32_t op, const void *unused) {
	(void)unused;
	return has_name(graph, op, "lm_head") || has_name(graph, op, "score");
}

static double head_flops(lk_job job) {
	return sum_over(job, head_product, NULL, flops_of);
}

/* A head of N columns, trained with adapters too, replaces the vocabulary's, in a reward model and
 * in a classifier; a value head leaves it there and nothing goes back through it. */
static void heads_of_labels(void **state) {
	(void)state;
	for (int labels = 0; labels <= 3; labels += 3) {
		lk_job plain = adapters(), job;
		plain.mbs = plain.gbs = 2;
		job = plain;
		job.labels = labels;
		if (!labels) job.objective = LK_OBJECTIVE_REWARD;
		double columns = labels ? labels : 1;
		near(head_flops(job), 2 * 2 * S * H * columns);
		near(weights_of(job),
		     weights_of(plain) - 2 * 4096 * H + 2 * 2 * H * columns); /* and a copy to train */
		assert_true(sum_of(job, "cross_entropy", bytes_of) == 0);
		job.value_head = true;
		near(head_flops(job), 2 * 2 * S * H * (4096 + columns));
		near(weights_of(job), weights_of(plain) + 2 * 2 * H * columns);
		assert_true(sum_of(job, "lm_head_grad", flops_of) == 0);
		lk_error err;
		job.mbs = job.gbs = 1;
		assert_int_equal(lk_job_complete(&job, NULL, &err), labels ? LK_OK : LK_ERR_INPUT);
	}
	lk_error err;
	lk_job compared = adapters();
	compared.labels = 2;
	compared.objective = LK_OBJECTIVE_KTO;
	assert_int_equal(lk_job_complete(&compared, NULL, &err), LK_ERR_INPUT);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_bits),
		cmocka_unit_test(widened_before_products),
		cmocka_unit_test(eight_bits),
		cmocka_unit_test(inputs_are_held),
		cmocka_unit_test(adapters_by_projection),
		cmocka_unit_test(magnitudes),
		cmocka_unit_test(pairs_with_a_reference),
		cmocka_unit_test(single_preferences),
		cmocka_unit_test(heads_of_labels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
