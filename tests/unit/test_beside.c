/* test_beside.c: what runs beside the layers of a step, against hand counts and properties: heads
 * exchanged over context-parallel ranks, activations and weights in host
 * memory, documents in sequences, averages of parameters, teachers. */
#include <string.h>

#include "small_llama.h"

static const double H = 1024, KV = 256, S = 1024, LAYERS = 2;

static bool has_name(const lk_graph *graph, uint32_t op, const void *name) {
	return strcmp(lk_intern_text(graph->names, graph->ops.name[op]), name) == 0;
}

static double sum_of(lk_job job, const char *name, const double *(*column)(const lk_ops *)) {
	return sum_over(job, has_name, name, column);
}

static lk_job long_sequences(int cp, lk_cp_kind kind, int heads) {
	lk_job job = small_llama();
	job.gbs = job.mbs = 1;
	job.gpus = job.cp = cp;
	job.cp_kind = kind;
	job.cp_heads = heads;
	return job;
}

/* Exchanging heads moves queries, keys, values and outputs once in each direction of both passes,
 * leaves the operations of attention as they were, and nothing for a ring between all ranks. */
static void heads_exchanged(void **state) {
	(void)state;
	for (int cp = 2; cp <= 4; cp *= 2) {
		lk_job ring = long_sequences(cp, LK_CP_RING, 0), all = long_sequences(cp, LK_CP_ULYSSES, 0);
		double t = S / cp;
		near(sum_of(all, "exchange_qkv", bytes_of), LAYERS * 2 * t * (H + 2 * KV));
		near(sum_of(all, "exchange_output", bytes_of), LAYERS * 2 * t * H);
		near(sum_of(all, "exchange_output_grad", bytes_of), LAYERS * 2 * t * H);
		near(sum_of(all, "exchange_qkv_grad", bytes_of), LAYERS * 2 * t * (H + 2 * KV));
		assert_true(sum_of(all, "exchange_kv", bytes_of) == 0);
		near(sum_of(all, "attention", flops_of), sum_of(ring, "attention", flops_of));
		near(sum_of(all, "attention_grad", flops_of), sum_of(ring, "attention_grad", flops_of));
	}
	/* in pairs, a ring of two pairs: half of the keys and values go round */
	lk_job ring = long_sequences(4, LK_CP_RING, 0), pairs = long_sequences(4, LK_CP_ULYSSES, 2);
	near(sum_of(pairs, "exchange_kv", bytes_of), sum_of(ring, "exchange_kv", bytes_of) / 2);
	near(sum_of(pairs, "exchange_qkv", bytes_of), LAYERS * 2 * S / 4 * (H + 2 * KV));
	near(sum_of(pairs, "attention", flops_of), sum_of(ring, "attention", flops_of));
	lk_error err;
	lk_job odd = long_sequences(4, LK_CP_ULYSSES, 3);
	assert_int_equal(lk_job_complete(&odd, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--cp-kind");
}

/* What leaves comes back, and is what layers kept: of a checkpoint their inputs. */
static void activations_on_the_host(void **state) {
	(void)state;
	for (int full = 0; full < 2; full++) {
		lk_job job = small_llama();
		job.gbs = 4, job.mbs = 1;
		job.recompute = full ? LK_RECOMPUTE_FULL : LK_RECOMPUTE_NONE;
		job.recompute_said = true;
		assert_true(sum_of(job, "activations_to_host", bytes_of) == 0);
		job.offload_activations = true;
		double gone = sum_of(job, "activations_to_host", bytes_of);
		near(sum_of(job, "activations_to_device", bytes_of), gone);
		if (full) near(gone, 4 * LAYERS * 2 * S * H);
		else assert_true(gone > 4 * LAYERS * 2 * S * 8 * H);
	}
	lk_error err;
	lk_job job = small_llama();
	job.gpus = job.pp = 2, job.gbs = 8;
	job.schedule = LK_SCHED_ZB_H1, job.schedule_said = true;
	job.offload_activations = true;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--offload-activations");
}

/* One document a sequence is the plain job; two equal ones have half of the pairs, and as many
 * operations in attention; no deviation, no busiest rank. */
static void documents_packed(void **state) {
	(void)state;
	lk_job plain = small_llama(), packed = small_llama();
	packed.gbs = plain.gbs = 8;
	packed.pack_share = 1;
	near(sum_of(packed, "attention", flops_of), sum_of(plain, "attention", flops_of));
	packed.pack_share = .5;
	near(sum_of(packed, "attention", flops_of), sum_of(plain, "attention", flops_of) / 2);
	near(sum_of(packed, "attention_grad", flops_of), sum_of(plain, "attention_grad", flops_of) / 2);
	near(sum_of(packed, "mlp_up", flops_of), sum_of(plain, "mlp_up", flops_of));
	/* the largest of two normal deviates is 1 / sqrt(pi), of 100 2.508 (Blom's within 1 %) */
	packed.gpus = packed.dp = 2, packed.gbs = 8, packed.mbs = 1, packed.pack_spread = .1;
	complete(&packed);
	double two = (lk_job_pack_busiest(&packed) - 1) * .5 / .1 * 2;
	if (fabs(two / 0.5642 - 1) > 0.05) fail_msg("of two %g", two);
	packed.dp = 100;
	double hundred = (lk_job_pack_busiest(&packed) - 1) * .5 / .1 * 2;
	if (fabs(hundred / 2.508 - 1) > 0.01) fail_msg("of a hundred %g", hundred);
	packed.pack_spread = 0;
	assert_true(lk_job_pack_busiest(&packed) == 1);
	packed.pack_share = .9, packed.pack_spread = 9;
	near(lk_job_pack_busiest(&packed) * .9, 1); /* never more pairs than there are */
}

/* Each rank's piece comes before every gather; none goes back at the end, where the host has it. */
static void weights_on_the_host(void **state) {
	(void)state;
	lk_error err;
	lk_job job = small_llama();
	job.gpus = job.dp = 4, job.gbs = 8, job.mbs = 1;
	job.sharding = LK_SHARD_ZERO3, job.sharding_said = true;
	job.offload_optimizer = true;
	double gathered =
		sum_of(job, "gather_weights", bytes_of) + sum_of(job, "gather first weights", bytes_of);
	assert_true(gathered > 0 && sum_of(job, "weights_from_host", bytes_of) == 0);
	assert_true(sum_of(job, "weights_to_device", bytes_of) > 0);
	strcpy(job.stack, "deepspeed");
	lk_job on_device = job;
	job.offload_params = true;
	near(sum_of(job, "weights_from_host", bytes_of), gathered / 4);
	assert_true(sum_of(job, "weights_to_device", bytes_of) == 0);
	complete(&job);
	complete(&on_device);
	assert_true(lk_sizes_resident(&job, 0).weights == 0);
	assert_true(lk_sizes_resident(&on_device, 0).weights > 0);
	job.offload_optimizer = false;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--offload-params");
}

/* In fp32 on the device, 16 bits a step on the way to the host; shared as the optimizer's state. */
static void averages(void **state) {
	(void)state;
	double matrices = 2 * (2 * H * H + 2 * KV * H + 3 * 3072 * H),
		   all = matrices + 2 * 4096 * H + 5 * H;
	for (int dp = 1; dp <= 4; dp *= 4) {
		lk_job job = small_llama();
		job.gpus = job.dp = dp, job.gbs = 8, job.mbs = 1;
		job.sharding = LK_SHARD_ZERO1, job.sharding_said = true;
		lk_job plain = job;
		complete(&plain);
		job.average = LK_AVERAGE_DEVICE;
		near(sum_of(job, "average", bytes_of), 12 * all / dp);
		assert_true(sum_of(job, "average_to_host", bytes_of) == 0);
		complete(&job);
		near(lk_sizes_resident(&job, 0).optimizer - lk_sizes_resident(&plain, 0).optimizer,
		     4 * all / dp);
		job.average = LK_AVERAGE_HOST;
		near(sum_of(job, "average_to_host", bytes_of), 2 * all / dp);
		assert_true(sum_of(job, "average", bytes_of) == 0);
		near(lk_sizes_resident(&job, 0).optimizer, lk_sizes_resident(&plain, 0).optimizer);
		job.offload_optimizer = true; /* the host has the parameters */
		plain.offload_optimizer = true;
		assert_true(sum_of(job, "average_to_host", bytes_of) == 0);
		near(sum_of(job, "host_optimizer", bytes_of) - sum_of(plain, "host_optimizer", bytes_of),
		     12 * all / dp);
	}
}

/* A teacher of twice the depth runs its layers and its head once for each micro-batch, keeps
 * nothing, and is a copy in 16 bits; ZeRO-3 shares it. */
static void a_teacher(void **state) {
	(void)state;
	double layer = 2 * H * H + 2 * KV * H + 3 * 3072 * H + 2 * H;
	lk_model deep = small_llama().model;
	deep.layers = 4;
	for (int zero = 1; zero <= 3; zero += 2) {
		lk_job plain = small_llama();
		plain.gpus = plain.dp = 2, plain.gbs = 8, plain.mbs = 1;
		plain.sharding = (lk_sharding)zero, plain.sharding_said = true;
		lk_job job = plain;
		job.teacher = &deep;
		near(sum_of(job, "mlp_up", flops_of), 3 * sum_of(plain, "mlp_up", flops_of));
		near(sum_of(job, "lm_head", flops_of), 2 * sum_of(plain, "lm_head", flops_of));
		near(sum_of(job, "mlp_up_grad", flops_of), sum_of(plain, "mlp_up_grad", flops_of));
		near(sum_of(job, "distillation", bytes_of), 4 * 2 * 2 * S * 4096);
		complete(&job);
		complete(&plain);
		near(lk_sizes_resident(&job, 0).weights - lk_sizes_resident(&plain, 0).weights,
		     2 * (4 * layer + 2 * 4096 * H + H) / (zero == 3 ? 2 : 1));
	}
	lk_error err;
	lk_job job = small_llama();
	job.teacher = &deep, job.gpus = job.pp = 2, job.gbs = 8;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--teacher");
}

static bool product_in_bf16(const lk_graph *graph, uint32_t op, const void *what) {
	(void)what;
	return graph->ops.kind[op] == LK_OP_GEMM && graph->ops.dtype[op] == LK_BF16;
}

/* The first and the last of four layers compute in bf16: their products, and neither casts nor
 * copies of their weights. */
static void wide_ends(void **state) {
	(void)state;
	lk_job narrow = small_llama();
	narrow.model.layers = 4, narrow.gbs = narrow.mbs = 1;
	narrow.dtype = LK_FP8, narrow.dtype_said = true;
	lk_job wide = narrow, none = narrow;
	wide.wide_first = wide.wide_last = 1;
	none.wide_first = none.wide_last = 2;
	double ends = sum_over(wide, product_in_bf16, NULL, flops_of),
		   some = sum_over(narrow, product_in_bf16, NULL, flops_of),
		   all = sum_over(none, product_in_bf16, NULL, flops_of);
	assert_true(all > some);
	near(ends - some, (all - some) / 2);
	double casts = sum_of(none, "quantize", bytes_of); /* of what no layer holds */
	assert_true(sum_of(narrow, "quantize", bytes_of) > casts);
	near(sum_of(wide, "quantize", bytes_of) - casts,
	     (sum_of(narrow, "quantize", bytes_of) - casts) / 2);
	complete(&narrow);
	complete(&wide);
	double layer = 2 * H * H + 2 * KV * H + 3 * 3072 * H + 2 * H;
	near(lk_sizes_resident(&narrow, 0).weights - lk_sizes_resident(&wide, 0).weights,
	     2 * 2 * layer);
	lk_error err;
	none.wide_first = 3;
	assert_int_equal(lk_job_complete(&none, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--bf16-layers");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_exchanged),  cmocka_unit_test(activations_on_the_host),
		cmocka_unit_test(documents_packed), cmocka_unit_test(weights_on_the_host),
		cmocka_unit_test(averages),         cmocka_unit_test(a_teacher),
		cmocka_unit_test(wide_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
